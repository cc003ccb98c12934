/* adam.c - Adam: m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr m^ / (sqrt(v^) + eps).
 *
 * ^ divides by 1 - b^t, where t counts updates from 1. With l2 or decay the gradient is g + (l2 +
 * decay) w. The corrections are folded into the rate, in double, so they are exact for small t. */
#include "base/wide.h"
#include "optim/optim.h"

#include <math.h>

struct rule {
    float b1, b2;
    float first;  /* lr / (1 - b1^t) */
    float second; /* 1 / sqrt(1 - b2^t) */
    float eps;
};

YK_INLINE void step(struct rule r, float *w, float *m, float *v, float d)
{
    *m = r.b1 * *m + (1 - r.b1) * d;
    *v = r.b2 * *v + (1 - r.b2) * d * d;
    *w -= r.first * *m / (sqrtf(*v) * r.second + r.eps);
}

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g,
                          float *const *slot, size_t n)
{
    float *restrict m = slot[0], *restrict v = slot[1]; /* (n) first and second moment */
    double t = (double)u->step + 1;
    const struct rule r = {.b1 = u->momentum,
                           .b2 = u->beta2,
                           .first = (float)(u->lr / (1 - pow(u->momentum, t))),
                           .second = (float)(1 / sqrt(1 - pow(u->beta2, t))),
                           .eps = u->eps};
    float scale = u->scale, l2 = u->l2 + u->decay;
    if (l2 > 0) {
        for (size_t i = 0; i < n; i++)
            step(r, &w[i], &m[i], &v[i], scale * g[i] + l2 * w[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            step(r, &w[i], &m[i], &v[i], scale * g[i]);
    }
}

const struct yk_optimizer_ops yk_optimizer_adam = {
    .name = "adam",
    .help = "m, v: moments; w -= lr m^ / (sqrt v^ + eps)",
    .lr = 0.001,
    .uses = "momentum|beta2|eps|l2|weight-decay",
    .slots = 2,
    .slot = {"first", "second"},
    .apply = apply,
};
