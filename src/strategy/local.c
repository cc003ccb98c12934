/* local.c - the strategy of one process: it owns every parameter, and its clock rule is "every push". See strategy.h.
 * THREADS: the training thread only. */
#include "strategy/strategy.h"

#include "base/clock.h"

static void ready(struct yk_sink *s, size_t lo, size_t hi)
{
    struct yk_strategy *st = (struct yk_strategy *)s;
    double start = st->timed ? yk_now() : 0;
    yk_owner_apply(&st->owner, s->grad, lo, hi);
    if (st->timed)
        st->push_seconds += yk_now() - start;
}

yk_code yk_strategy_init(struct yk_strategy *st, const struct yk_optimizer_ops *optimizer, const struct yk_schedule *schedule,
                         double lr, const struct yk_update *update, struct yk_params *params, struct yk_error *e)
{
    *st = (struct yk_strategy){.sink = {.ready = ready, .grad = yk_floats(params->count)}};
    if (st->sink.grad == NULL)
        return yk_fail_memory(e, params->count * sizeof(float));
    yk_code rc = yk_owner_init(&st->owner, optimizer, schedule, lr, update, params->flat, 0, params->count, e);
    if (rc != YK_OK)
        yk_strategy_release(st);
    return rc;
}

void yk_strategy_release(struct yk_strategy *st)
{
    yk_owner_release(&st->owner);
    yk_floats_free(st->sink.grad);
    st->sink.grad = NULL;
}

void yk_strategy_pull(struct yk_strategy *st, uint32_t examples)
{
    yk_owner_begin(&st->owner, examples);
}

struct yk_sink *yk_strategy_sink(struct yk_strategy *st)
{
    return &st->sink;
}

void yk_strategy_commit(struct yk_strategy *st)
{
    yk_owner_finish(&st->owner);
}
