/* strategy.h - how gradients reach the owners of the parameters and parameters reach the workers.
 *
 * The step loop sees three words: *pull* (parameters fresh enough for this batch), the *sink* that takes gradients while the
 * model still computes, and *commit* (the step is complete). A local run is the simplest case: the process owns everything,
 * pulling costs nothing, and a gradient is applied the moment it is ready. */
#ifndef YK_STRATEGY_STRATEGY_H
#define YK_STRATEGY_STRATEGY_H

#include "param/param.h"
#include "param/sink.h"
#include "strategy/owner.h"

struct yk_strategy {
    struct yk_sink sink; /* first, so that ready() finds its strategy */
    struct yk_owner owner;
    bool timed; /* add the time spent on gradients to push_seconds: set for sampled steps */
    double push_seconds;
};

/* `params` stays the caller's and must outlive the strategy. */
yk_code yk_strategy_init(struct yk_strategy *st, const struct yk_optimizer_ops *optimizer, const struct yk_schedule *schedule,
                         double lr, const struct yk_update *update, struct yk_params *params, struct yk_error *e);
void yk_strategy_release(struct yk_strategy *st);

/* A step over `examples` examples begins. */
void yk_strategy_pull(struct yk_strategy *st, uint32_t examples);
struct yk_sink *yk_strategy_sink(struct yk_strategy *st);
void yk_strategy_commit(struct yk_strategy *st);

#endif
