/* adam.c - Adam: m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr m^ / (sqrt(v^) + eps), where ^ divides by 1 - b^t.
 * t counts updates from 1. The corrections are folded into the rate, in double, so that they are exact for small t. */
#include "optim/optim.h"

#include <math.h>

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g, float *const *slot, size_t n)
{
    float *restrict m = slot[0], *restrict v = slot[1]; /* (n) first and second moment */
    double t = (double)u->step + 1;
    float b1 = u->momentum, b2 = u->beta2;
    float first = (float)(u->lr / (1 - pow(b1, t)));
    float second = (float)(1 / sqrt(1 - pow(b2, t)));
    for (size_t i = 0; i < n; i++) {
        float d = u->scale * g[i];
        m[i] = b1 * m[i] + (1 - b1) * d;
        v[i] = b2 * v[i] + (1 - b2) * d * d;
        w[i] -= first * m[i] / (sqrtf(v[i]) * second + u->eps);
    }
}

const struct yk_optimizer_ops yk_optimizer_adam = {.name = "adam",
                                                   .help = "m, v: moments; w -= lr m^ / (sqrt v^ + eps)",
                                                   .lr = 0.001,
                                                   .uses = "momentum|beta2|eps",
                                                   .slots = 2,
                                                   .slot = {"first", "second"},
                                                   .apply = apply};
