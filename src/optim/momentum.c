/* momentum.c - heavy-ball momentum: v = mu v + g; w -= lr v. The rate is outside v, so that a change of it acts at once. */
#include "optim/optim.h"

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g, float *const *slot, size_t n)
{
    float *restrict v = slot[0]; /* (n) velocity */
    for (size_t i = 0; i < n; i++) {
        v[i] = u->momentum * v[i] + u->scale * g[i];
        w[i] -= u->lr * v[i];
    }
}

const struct yk_optimizer_ops yk_optimizer_momentum = {.name = "momentum",
                                                       .help = "v = mu v + g; w -= lr v",
                                                       .lr = 0.01,
                                                       .uses = "momentum",
                                                       .slots = 1,
                                                       .slot = {"velocity"},
                                                       .apply = apply};
