/* param.c - lays out named views in one flat buffer, and hashes them in canonical order; see
 * param.h.
 *
 *     flat   | view 0 | 0 0 | view 1        | view 2 | 0 0 0 |
 *            ^ at = 0       ^ at = 16 k     ^ at = 16 m      ^ count = 16 n
 *
 * A view starts on a multiple of 16 floats, so kernels may use aligned 64-byte loads, and two
 * threads that write neighbouring views never share a cache line.
 * LIMITS: little-endian machines only; hashes and checkpoints use the bytes in memory. */
#define XXH_STATIC_LINKING_ONLY /* the streaming state on the stack: hashing cannot fail */
#include "param/param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "parameters are stored as they are in memory");

enum {
    LINE_FLOATS = 16, /* floats in a cache line */
    LINE_BYTES = 64,
    HUGE_PAGE = 2 << 20,
    HUGE_FROM = 4 << 20, /* bytes below which a huge page wastes more than it saves */
};

float *yk_floats(size_t count)
{
    if (count > SIZE_MAX / 2 / sizeof(float))
        return NULL;
    size_t bytes = count * sizeof(float);
    size_t align = bytes > HUGE_FROM ? HUGE_PAGE : LINE_BYTES;
    /* aligned_alloc requires a multiple of the alignment. */
    size_t size = bytes > 0 ? (bytes + align - 1) / align * align : align;
    float *f = aligned_alloc(align, size);
    if (f == NULL)
        return NULL;
    if (align == HUGE_PAGE)
        madvise(f, size, MADV_HUGEPAGE); /* a failure only means small pages */
    return memset(f, 0, size);
}

void yk_floats_free(float *f)
{
    free(f);
}

/* Tests the exponents without a branch, so that the compiler uses vectors. */
bool yk_floats_finite(const float *v, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

static int by_name(const void *a, const void *b)
{
    const struct yk_view *va = a, *vb = b;
    return strcmp(va->name, vb->name);
}

/* Checks the name and the shape that the caller gave, and sets the count. */
static yk_code check_view(struct yk_view *v, struct yk_error *e)
{
    if (memchr(v->name, '\0', sizeof v->name) == NULL)
        return yk_fail(e, YK_USAGE, "parameter name '%.20s...' is too long: at most %d characters",
                       v->name, YK_NAME - 1);
    if (v->name[0] == '\0')
        return yk_fail(e, YK_USAGE, "a parameter has no name");
    if (v->ndim < 1 || v->ndim > YK_DIMS)
        return yk_fail(e, YK_USAGE, "parameter '%s' has %u dimensions: 1 to %d are possible",
                       v->name, v->ndim, YK_DIMS);
    v->count = 1;
    for (uint32_t d = 0; d < v->ndim; d++) {
        if (v->shape[d] == 0)
            return yk_fail(e, YK_USAGE, "parameter '%s' is empty: dimension %u is 0", v->name, d);
        if (__builtin_mul_overflow(v->count, v->shape[d], &v->count) ||
            v->count > SIZE_MAX / 4 / sizeof(float))
            return yk_fail(e, YK_USAGE, "parameter '%s' is too large for this machine's addresses",
                           v->name);
    }
    return YK_OK;
}

yk_code yk_params_layout(struct yk_params *p, const struct yk_view *spec, size_t n,
                         struct yk_error *e)
{
    yk_code rc = YK_OK;
    size_t count = 0, weights = 0;
    *p = (struct yk_params){0};
    struct yk_view *view = calloc(n + 1, sizeof *view);
    if (view == NULL)
        return yk_fail_memory(e, (n + 1) * sizeof *view);
    for (size_t i = 0; i < n; i++) {
        view[i] = spec[i];
        if ((rc = check_view(&view[i], e)) != YK_OK)
            goto out_view;
    }
    qsort(view, n, sizeof *view, by_name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(view[i - 1].name, view[i].name) == 0) {
            rc = yk_fail(e, YK_USAGE, "two parameters are called '%s'", view[i].name);
            goto out_view;
        }
        view[i].at = count;
        count += (view[i].count + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
        weights += view[i].count;
        /* A single view is at most this large, so the sum cannot have wrapped before. */
        if (count > SIZE_MAX / 4 / sizeof(float)) {
            rc = yk_fail(e, YK_USAGE, "the parameters are too large for this machine's addresses");
            goto out_view;
        }
    }
    *p = (struct yk_params){.count = count, .weights = weights, .view = view, .views = n};
    return YK_OK;
out_view:
    free(view);
    return rc;
}

yk_code yk_params_init(struct yk_params *p, const struct yk_view *spec, size_t n,
                       struct yk_error *e)
{
    yk_code rc = yk_params_layout(p, spec, n, e);
    if (rc != YK_OK)
        return rc;
    p->flat = yk_floats(p->count);
    if (p->flat != NULL)
        return YK_OK;
    rc = yk_fail_memory(e, p->count * sizeof(float));
    yk_params_release(p);
    return rc;
}

void yk_params_release(struct yk_params *p)
{
    if (p == NULL)
        return;
    yk_floats_free(p->flat);
    free(p->view);
    *p = (struct yk_params){0};
}

const struct yk_view *yk_params_find(const struct yk_params *p, const char *name)
{
    for (size_t i = 0; i < p->views; i++)
        if (strcmp(p->view[i].name, name) == 0)
            return &p->view[i];
    return NULL;
}

void yk_params_hash(const struct yk_params *p, char out[17])
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (size_t i = 0; i < p->views; i++)
        XXH3_64bits_update(&state, p->flat + p->view[i].at, p->view[i].count * sizeof(float));
    snprintf(out, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(&state));
}
