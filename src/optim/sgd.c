/* sgd.c - stochastic gradient descent: w -= lr (g + decay w), then the flow of l1 and l2 over the
 * time lr (see optim.h). It has no state but "seen" in a sparse run with l1 or l2. */
#include "optim/sparse.h"

YK_INLINE void apply_regularized(const struct yk_update *u, struct flow f, float *restrict w,
                                 const float *restrict g, size_t n)
{
    float lr = u->lr, rate = u->lr * u->scale;
    for (size_t i = 0; i < n; i++)
        w[i] = flowed(f, w[i] - rate * g[i], lr);
}

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g,
                          float *const *slot, size_t n)
{
    float rate = u->lr * u->scale, pull = u->lr * u->decay;
    (void)slot;
    if (u->decay > 0)
        for (size_t i = 0; i < n; i++)
            w[i] -= rate * g[i] + pull * w[i];
    else if (u->l2 > 0)
        apply_regularized(u, flow_of(u, true), w, g, n);
    else if (u->l1 > 0)
        apply_regularized(u, flow_of(u, false), w, g, n);
    else
        for (size_t i = 0; i < n; i++)
            w[i] -= rate * g[i];
}

YK_INLINE void catch_up(struct flow f, float *restrict w, const float *restrict missed, size_t m)
{
    for (size_t j = 0; j < padded(m); j++)
        w[j] = flowed(f, w[j], missed[j]);
}

YK_INLINE void apply_lazily(const struct yk_update *u, struct flow f, float *w, float *seen,
                            uint32_t base, const uint32_t *key, const float *g, size_t n)
{
    float now = seen_now(u->step);
    for (size_t i = 0, m; i < n; i += m) {
        float cw[STRIP], cg[STRIP], cs[STRIP], x[STRIP];
        m = strip(n - i);
        gather(cs, seen, base, key + i, m);
        gather(cw, w, base, key + i, m);
        copy(cg, g + i, m);
        yk_missed_rates(u, cs, x, padded(m));
        catch_up(f, cw, x, m);
        apply_regularized(u, f, cw, cg, padded(m));
        scatter(w, cw, base, key + i, m);
        put(seen, now, base, key + i, m);
    }
}

YK_WIDE static void apply_keys(const struct yk_update *u, float *w, float *const *slot,
                               uint32_t base, const uint32_t *key, const float *g, size_t n)
{
    float rate = u->lr * u->scale;
    if (u->lazy && u->l2 > 0)
        apply_lazily(u, flow_of(u, true), w, slot[0], base, key, g, n);
    else if (u->lazy)
        apply_lazily(u, flow_of(u, false), w, slot[0], base, key, g, n);
    else
        for (size_t i = 0; i < n; i++)
            w[index_of(key[i], base)] -= rate * g[i];
}

YK_WIDE static void read_keys(const struct yk_update *u, const float *w, float *const *slot,
                              uint32_t base, const uint32_t *key, float *out, size_t n)
{
    for (size_t i = 0, m; i < n; i += m) {
        float cw[STRIP], cs[STRIP], x[STRIP];
        const uint32_t *k = key != NULL ? key + i : NULL;
        size_t at = key != NULL ? 0 : i;
        m = strip(n - i);
        gather(cw, w + at, base, k, m);
        if (u->lazy) {
            gather(cs, slot[0] + at, base, k, m);
            yk_missed_rates(u, cs, x, padded(m));
            if (u->l2 > 0)
                catch_up(flow_of(u, true), cw, x, m);
            else
                catch_up(flow_of(u, false), cw, x, m);
        }
        memcpy(out + i, cw, m * sizeof *out);
    }
}

const struct yk_optimizer_ops yk_optimizer_sgd = {
    .name = "sgd",
    .help = "w -= lr (g + decay w)",
    .lr = 0.01,
    .uses = "l1|l2|weight-decay",
    .slot = {"seen"},
    .lazy = YK_LAZY_IF_REGULARIZED,
    .apply = apply,
    .apply_keys = apply_keys,
    .read_keys = read_keys,
};
