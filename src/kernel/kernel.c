/* kernel.c - which instruction sets there are, and which of them this CPU can run; see kernel.h.
 * CONTRIBUTING.md says what a new set needs. */
#include "kernel/kernel.h"
#include "kernel/batch16.h"

#include <stdbool.h>
#include <string.h>

/* What the *_isa.c files offer, each once per set. */
#define DECLARE(isa)                                                                               \
    void yk_softmax_##isa(struct yk_softmax_pass *p);                                              \
    struct yk_logit yk_logreg_##isa(const struct yk_logreg_row *r);                                \
    void yk_pick_##isa(const struct yk_picks *p, float *copy);                                     \
    void yk_batch16_conv_##isa(const struct yk_batch16_window *g, const float *in,                 \
                               const float *weight, const float *bias, float *out, void *scratch); \
    void yk_batch16_conv_back_##isa(const struct yk_batch16_window *g, const float *dout,          \
                                    const float *weight, float *din);                              \
    void yk_batch16_conv_grad_##isa(const struct yk_batch16_window *g, const float *in,            \
                                    const float *dout, float *dweight, float *dbias,               \
                                    void *scratch);                                                \
    void yk_batch16_maxpool_##isa(const struct yk_batch16_window *g, const float *in, float *out,  \
                                  uint8_t *index);                                                 \
    void yk_batch16_maxpool_back_##isa(const struct yk_batch16_window *g, const float *dout,       \
                                       const uint8_t *index, const float *out, float *din);        \
    void yk_batch16_avgpool_##isa(const struct yk_batch16_window *g, const float *in, float *out); \
    void yk_batch16_avgpool_back_##isa(const struct yk_batch16_window *g, const float *dout,       \
                                       const float *out, float *din);                              \
    void yk_batch16_dense_##isa(uint32_t in_n, uint32_t out_n, bool positive, const float *in,     \
                                const float *weight, const float *bias, float *out);               \
    void yk_batch16_dense_back_##isa(uint32_t in_n, uint32_t out_n, const float *dout,             \
                                     const float *weight, float *din);                             \
    void yk_batch16_dense_grad_##isa(uint32_t in_n, uint32_t out_n, const float *in,               \
                                     const float *dout, float *dweight, float *dbias,              \
                                     void *scratch);                                               \
    void yk_batch16_point_##isa(enum yk_batch16_point f, size_t n, const float *in, float *out);   \
    void yk_batch16_point_back_##isa(enum yk_batch16_point f, size_t n, const float *out,          \
                                     const float *dout, float *din);                               \
    void yk_batch16_loss_##isa(struct yk_batch16_loss *l);                                         \
    void yk_batch16_from_u8_##isa(uint32_t c, size_t pixels,                                       \
                                  const uint8_t *const image[YK_BATCH16], const float *scale,      \
                                  const float *shift, float *out);                                 \
    void yk_batch16_from_rows_##isa(size_t n, const float *const row[YK_BATCH16], float *out);     \
    void yk_batch16_to_rows_##isa(size_t n, const float *in, float *const row[YK_BATCH16]);        \
    static const struct yk_batch16 BATCH16_##isa = {.conv = yk_batch16_conv_##isa,                 \
                                                    .conv_back = yk_batch16_conv_back_##isa,       \
                                                    .conv_grad = yk_batch16_conv_grad_##isa,       \
                                                    .maxpool = yk_batch16_maxpool_##isa,           \
                                                    .maxpool_back = yk_batch16_maxpool_back_##isa, \
                                                    .avgpool = yk_batch16_avgpool_##isa,           \
                                                    .avgpool_back = yk_batch16_avgpool_back_##isa, \
                                                    .dense = yk_batch16_dense_##isa,               \
                                                    .dense_back = yk_batch16_dense_back_##isa,     \
                                                    .dense_grad = yk_batch16_dense_grad_##isa,     \
                                                    .point = yk_batch16_point_##isa,               \
                                                    .point_back = yk_batch16_point_back_##isa,     \
                                                    .loss = yk_batch16_loss_##isa,                 \
                                                    .from_u8 = yk_batch16_from_u8_##isa,           \
                                                    .from_rows = yk_batch16_from_rows_##isa,       \
                                                    .to_rows = yk_batch16_to_rows_##isa};          \
    static const struct yk_kernels KERNELS_##isa = {.name = #isa,                                  \
                                                    .softmax = yk_softmax_##isa,                   \
                                                    .logreg = yk_logreg_##isa,                     \
                                                    .pick = yk_pick_##isa,                         \
                                                    .batch16 = &BATCH16_##isa};

DECLARE(plain)
#if defined(__x86_64__)
DECLARE(avx2)
DECLARE(avx512)

static bool can_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool can_avx512(void)
{
    return can_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static bool can_plain(void)
{
    return true;
}

static const struct {
    const struct yk_kernels *kernels;
    bool (*can)(void);
} SETS[] = {
    {&KERNELS_plain, can_plain},
#if defined(__x86_64__)
    {&KERNELS_avx2, can_avx2},
    {&KERNELS_avx512, can_avx512},
#endif
};

const struct yk_kernels *yk_kernels_at(unsigned i)
{
    for (size_t k = 0; k < sizeof SETS / sizeof SETS[0]; k++)
        if (SETS[k].can() && i-- == 0)
            return SETS[k].kernels;
    return NULL;
}

yk_code yk_kernels_pick(const char *name, const struct yk_kernels **out, struct yk_error *e)
{
    const struct yk_kernels *best = &KERNELS_plain;
    bool found = strcmp(name, "auto") == 0;
    for (unsigned i = 0; yk_kernels_at(i) != NULL; i++) {
        best = yk_kernels_at(i);
        if (strcmp(best->name, name) == 0) {
            found = true;
            break;
        }
    }
    if (!found) {
        yk_fail(e, YK_USAGE, "--isa: this CPU cannot run '%s'", name);
        yk_hint(e, "the best it can run is '%s'; 'auto' picks that", best->name);
        return YK_USAGE;
    }
    *out = best;
    return YK_OK;
}

unsigned yk_kernels_rank(const char *name)
{
    for (unsigned k = 0; k < sizeof SETS / sizeof SETS[0]; k++)
        if (strcmp(SETS[k].kernels->name, name) == 0)
            return k;
    return 0;
}

const char *yk_kernels_name(unsigned rank)
{
    return SETS[rank < sizeof SETS / sizeof SETS[0] ? rank : 0].kernels->name;
}
