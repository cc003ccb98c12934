/* adagrad.c - AdaGrad: n += g^2; w -= lr g / (sqrt(n) + eps). With decay, g is g + decay w.
 *
 * Rates fall where gradients have been large. After the step l1 and l2 flow over the key's rate
 * (see optim.h). They are not part of n, so n does not change while a key is untouched. A key
 * without any gradient so far has rate 0 and does not change. */
#include "optim/sparse.h"

YK_INLINE void apply_plain(const struct yk_update *u, float *restrict w, float *restrict sum,
                           const float *restrict g, size_t n)
{
    float scale = u->scale, lr = u->lr, eps = u->eps;
    for (size_t i = 0; i < n; i++) {
        float d = scale * g[i];
        sum[i] += d * d;
        w[i] -= lr * d / (sqrtf(sum[i]) + eps);
    }
}

YK_INLINE void apply_decayed(const struct yk_update *u, float *restrict w, float *restrict sum,
                             const float *restrict g, size_t n)
{
    float scale = u->scale, lr = u->lr, eps = u->eps, decay = u->decay;
    for (size_t i = 0; i < n; i++) {
        float d = scale * g[i] + decay * w[i];
        sum[i] += d * d;
        w[i] -= lr * d / (sqrtf(sum[i]) + eps);
    }
}

YK_INLINE void apply_regularized(const struct yk_update *u, struct flow f, float *restrict w,
                                 float *restrict sum, const float *restrict g, size_t n)
{
    float scale = u->scale, lr = u->lr, eps = u->eps;
    for (size_t i = 0; i < n; i++) {
        float d = scale * g[i];
        sum[i] += d * d;
        float rate = sum[i] > 0 ? lr / (sqrtf(sum[i]) + eps) : 0;
        w[i] = flowed(f, w[i] - rate * d, rate);
    }
}

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g,
                          float *const *slot, size_t n)
{
    float *restrict sum = slot[0]; /* (n) sums of squares */
    if (u->decay > 0)
        apply_decayed(u, w, sum, g, n);
    else if (u->l2 > 0)
        apply_regularized(u, flow_of(u, true), w, sum, g, n);
    else if (u->l1 > 0)
        apply_regularized(u, flow_of(u, false), w, sum, g, n);
    else
        apply_plain(u, w, sum, g, n);
}

YK_INLINE void catch_up(const struct yk_update *u, struct flow f, float *restrict w,
                        const float *restrict sum, const float *restrict missed, size_t m)
{
    float eps = u->eps;
    for (size_t j = 0; j < padded(m); j++)
        w[j] = flowed(f, w[j], sum[j] > 0 ? missed[j] / (sqrtf(sum[j]) + eps) : 0);
}

YK_INLINE void apply_lazily(const struct yk_update *u, struct flow f, float *w, float *sum,
                            float *seen, uint32_t base, const uint32_t *key, const float *g,
                            size_t n)
{
    float now = seen_now(u->step);
    for (size_t i = 0, m; i < n; i += m) {
        float cw[STRIP], cn[STRIP], cg[STRIP], cs[STRIP], x[STRIP];
        m = strip(n - i);
        gather(cs, seen, base, key + i, m);
        gather(cw, w, base, key + i, m);
        gather(cn, sum, base, key + i, m);
        copy(cg, g + i, m);
        yk_missed_rates(u, cs, x, padded(m));
        catch_up(u, f, cw, cn, x, m);
        apply_regularized(u, f, cw, cn, cg, padded(m));
        scatter(w, cw, base, key + i, m);
        scatter(sum, cn, base, key + i, m);
        put(seen, now, base, key + i, m);
    }
}

YK_WIDE static void apply_keys(const struct yk_update *u, float *w, float *const *slot,
                               uint32_t base, const uint32_t *key, const float *g, size_t n)
{
    float *sum = slot[0];
    if (u->lazy && u->l2 > 0) {
        apply_lazily(u, flow_of(u, true), w, sum, slot[1], base, key, g, n);
        return;
    }
    if (u->lazy) {
        apply_lazily(u, flow_of(u, false), w, sum, slot[1], base, key, g, n);
        return;
    }
    for (size_t i = 0, m; i < n; i += m) {
        float cw[STRIP], cn[STRIP], cg[STRIP];
        m = strip(n - i);
        gather(cw, w, base, key + i, m);
        gather(cn, sum, base, key + i, m);
        copy(cg, g + i, m);
        apply_plain(u, cw, cn, cg, padded(m));
        scatter(w, cw, base, key + i, m);
        scatter(sum, cn, base, key + i, m);
    }
}

YK_WIDE static void read_keys(const struct yk_update *u, const float *w, float *const *slot,
                              uint32_t base, const uint32_t *key, float *out, size_t n)
{
    for (size_t i = 0, m; i < n; i += m) {
        float cw[STRIP], cn[STRIP], cs[STRIP], x[STRIP];
        const uint32_t *k = key != NULL ? key + i : NULL;
        size_t at = key != NULL ? 0 : i;
        m = strip(n - i);
        gather(cw, w + at, base, k, m);
        if (u->lazy) {
            gather(cn, slot[0] + at, base, k, m);
            gather(cs, slot[1] + at, base, k, m);
            yk_missed_rates(u, cs, x, padded(m));
            if (u->l2 > 0)
                catch_up(u, flow_of(u, true), cw, cn, x, m);
            else
                catch_up(u, flow_of(u, false), cw, cn, x, m);
        }
        memcpy(out + i, cw, m * sizeof *out);
    }
}

const struct yk_optimizer_ops yk_optimizer_adagrad = {
    .name = "adagrad",
    .help = "n += g^2; w -= lr g / (sqrt n + eps)",
    .lr = 0.1,
    .uses = "eps|l1|l2|weight-decay",
    .slots = 1,
    .slot = {"squares", "seen"},
    .lazy = YK_LAZY_IF_REGULARIZED,
    .apply = apply,
    .apply_keys = apply_keys,
    .read_keys = read_keys,
};
