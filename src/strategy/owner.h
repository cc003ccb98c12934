/* owner.h - owns one range of the parameters: keeps the optimizer's state for it and applies what is pushed.
 *
 * Every parameter has exactly one owner. In a local run it is the process itself and the range is everything; on a
 * cluster, owners hold shards. An owner knows ranges and steps, never a model. */
#ifndef YK_STRATEGY_OWNER_H
#define YK_STRATEGY_OWNER_H

#include "base/error.h"
#include "optim/optim.h"

#include <stddef.h>
#include <stdint.h>

struct yk_owner {
    const struct yk_optimizer_ops *optimizer;
    struct yk_schedule schedule;
    double lr;               /* the base rate that the schedule shapes */
    struct yk_update update; /* lr, scale and step of the update in progress, and the optimizer's constants */
    size_t lo, hi;           /* the range of the flat parameters */
    float *weights;          /* the flat parameters (of which [lo, hi) are ours) */
    float *slot[YK_SLOTS];   /* (hi - lo) each; optimizer state */
    uint64_t step;           /* updates applied: the global step */
};

/* `weights` stays the caller's. The constants of `update` (momentum, beta2, eps) are taken over. */
yk_code yk_owner_init(struct yk_owner *o, const struct yk_optimizer_ops *optimizer, const struct yk_schedule *schedule, double lr,
                      const struct yk_update *update, float *weights, size_t lo, size_t hi, struct yk_error *e);
void yk_owner_release(struct yk_owner *o);

/* An update over `examples` examples begins: fixes rate and scale. */
void yk_owner_begin(struct yk_owner *o, uint32_t examples);
/* Apply grad[lo, hi) (a sum over the examples); ranges of one update must not overlap. */
void yk_owner_apply(struct yk_owner *o, const float *grad, size_t lo, size_t hi);
/* All ranges have been applied: the step counts. */
void yk_owner_finish(struct yk_owner *o);

#endif
