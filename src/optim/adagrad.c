/* adagrad.c - AdaGrad: n += g^2; w -= lr g / (sqrt(n) + eps). Rates fall where gradients have been large. */
#include "optim/optim.h"

#include <math.h>

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g, float *const *slot, size_t n)
{
    float *restrict sum = slot[0]; /* (n) squares so far */
    for (size_t i = 0; i < n; i++) {
        float d = u->scale * g[i];
        sum[i] += d * d;
        w[i] -= u->lr * d / (sqrtf(sum[i]) + u->eps);
    }
}

const struct yk_optimizer_ops yk_optimizer_adagrad = {.name = "adagrad",
                                                      .help = "n += g^2; w -= lr g / (sqrt n + eps)",
                                                      .lr = 0.1,
                                                      .uses = "eps",
                                                      .slots = 1,
                                                      .slot = {"squares"},
                                                      .apply = apply};
