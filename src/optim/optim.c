/* optim.c - the list of optimizers, and the rates that untouched keys have missed. A new optimizer
 * is one file and one word in YK_OPTIMIZERS. */
#include "optim/sparse.h"

#define DECLARE(name) extern const struct yk_optimizer_ops yk_optimizer_##name;
YK_OPTIMIZERS(DECLARE)

#define COLLECT(name) &yk_optimizer_##name,
static const struct yk_optimizer_ops *const OPTIMIZERS[] = {YK_OPTIMIZERS(COLLECT)};

const struct yk_optimizer_ops *yk_optimizer_at(unsigned i)
{
    return i < sizeof OPTIMIZERS / sizeof OPTIMIZERS[0] ? OPTIMIZERS[i] : NULL;
}

const struct yk_optimizer_ops *yk_optimizer_find(const char *name)
{
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++)
        if (strcmp(yk_optimizer_at(i)->name, name) == 0)
            return yk_optimizer_at(i);
    return NULL;
}

unsigned yk_optimizer_slots(const struct yk_optimizer_ops *o, const struct yk_update *constants,
                            bool sparse)
{
    bool regularized = constants->l1 > 0 || constants->l2 > 0;
    bool lazy =
        sparse && (o->lazy == YK_LAZY_ALWAYS || (o->lazy == YK_LAZY_IF_REGULARIZED && regularized));
    return o->slots + (lazy ? 1 : 0);
}

YK_WIDE static void steady_rates(float lr, uint64_t step, const float *restrict seen,
                                 float *restrict sum, size_t m)
{
    for (size_t j = 0; j < m; j++)
        sum[j] = lr * (float)(int32_t)missed(step, seen[j]);
}

void yk_missed_rates(const struct yk_update *u, const float *seen, float *sum, size_t m)
{
    if (u->schedule == NULL) {
        steady_rates(u->lr, u->step, seen, sum, m);
        return;
    }
    struct yk_prefix prefix;
    yk_prefix_init(&prefix, u->schedule, u->base_lr);
    double now = yk_prefix_at(&prefix, u->step);
    for (size_t j = 0; j < m; j++) {
        uint32_t gap = missed(u->step, seen[j]);
        /* Keys of one row were often touched together before. */
        bool same = j > 0 && gap == missed(u->step, seen[j - 1]);
        double rates = gap == 0         ? 0
                       : gap == u->step ? now
                                        : now - yk_prefix_at(&prefix, u->step - gap);
        sum[j] = same ? sum[j - 1] : rates > 0 ? (float)rates : 0;
    }
}
