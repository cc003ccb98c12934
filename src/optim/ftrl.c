/* ftrl.c - FTRL-proximal, per coordinate (McMahan and others, 2013), with alpha = lr:
 *     n' = n + g^2;  s = (sqrt n' - sqrt n)/alpha;  z += g - s w
 *     w = 0 if |z| <= l1, else -(z - sgn(z) l1) / ((beta + sqrt n')/alpha + l2)
 * The difference of the roots is computed as g^2/(sqrt n' + sqrt n), which stays accurate when n is
 * large. w is a function of z and n, so l1 and l2 need no catching up: a step without a gradient
 * changes nothing, even if its rate is different, and the same holds in a dense run. */
#include "optim/sparse.h"

YK_INLINE void steps(const struct yk_update *u, float *restrict w, float *restrict z,
                     float *restrict squares, const float *restrict g, size_t n)
{
    float scale = u->scale, inverse = 1 / u->lr, l1 = u->l1, l2 = u->l2, beta = u->beta;
    for (size_t i = 0; i < n; i++) {
        float d = scale * g[i], square = d * d, before = squares[i], after = before + square;
        float root = sqrtf(after), roots = root + sqrtf(before);
        float s = (roots > 0 ? square / roots : 0) * inverse;
        float sum = z[i] + d - s * w[i], beyond = fabsf(sum) - l1;
        float value = copysignf(beyond, sum) / -((beta + root) * inverse + l2);
        value = beyond <= 0 ? 0 : value;
        w[i] = d == 0 ? w[i] : value;
        z[i] = sum;
        squares[i] = after;
    }
}

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g,
                          float *const *slot, size_t n)
{
    steps(u, w, slot[0], slot[1], g, n);
}

YK_WIDE static void apply_keys(const struct yk_update *u, float *w, float *const *slot,
                               uint32_t base, const uint32_t *key, const float *g, size_t n)
{
    for (size_t i = 0, m; i < n; i += m) {
        float cw[STRIP], cz[STRIP], cn[STRIP], cg[STRIP];
        m = strip(n - i);
        gather(cw, w, base, key + i, m);
        gather(cz, slot[0], base, key + i, m);
        gather(cn, slot[1], base, key + i, m);
        copy(cg, g + i, m);
        steps(u, cw, cz, cn, cg, padded(m));
        scatter(w, cw, base, key + i, m);
        scatter(slot[0], cz, base, key + i, m);
        scatter(slot[1], cn, base, key + i, m);
    }
}

static void read_keys(const struct yk_update *u, const float *w, float *const *slot, uint32_t base,
                      const uint32_t *key, float *out, size_t n)
{
    (void)u;
    (void)slot;
    if (key == NULL)
        memmove(out, w, n * sizeof *out);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = w[index_of(key[i], base)];
}

const struct yk_optimizer_ops yk_optimizer_ftrl = {
    .name = "ftrl",
    .help = "n += g^2; z += g - (growth of sqrt n)/lr w; w = -(z - sgn(z) l1) / ((beta + sqrt "
            "n)/lr + l2), 0 if |z| <= l1",
    .lr = 0.1,
    .uses = "l1|l2|ftrl-beta",
    .slots = 2,
    .slot = {"z", "n"},
    .lazy = YK_LAZY_NEVER,
    .apply = apply,
    .apply_keys = apply_keys,
    .read_keys = read_keys,
};
