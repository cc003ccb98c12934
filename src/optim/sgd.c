/* sgd.c - stochastic gradient descent: w -= lr g. No state. */
#include "optim/optim.h"

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g, float *const *slot, size_t n)
{
    float rate = u->lr * u->scale;
    (void)slot;
    for (size_t i = 0; i < n; i++)
        w[i] -= rate * g[i];
}

const struct yk_optimizer_ops yk_optimizer_sgd = {.name = "sgd", .help = "w -= lr g", .lr = 0.01, .uses = "", .apply = apply};
