/* plan.h - who trains: the rule of a run, made from the options and the number of processes. Only
 * plan.c and these helpers read the name of the mode. */
#ifndef YK_TRAIN_PLAN_H
#define YK_TRAIN_PLAN_H

#include "base/buf.h"
#include "base/opt.h"
#include "strategy/rule.h"
#include "train/options.h"

#include <jansson.h>

struct yk_session;

/* The mode that the options ask for. */
enum yk_mode yk_plan_mode(const struct yk_options *o);
/* Makes the rule, and writes the values that it fixes back into the options, for config.json. */
yk_code yk_plan(struct yk_session *s, struct yk_error *e);
/* Refuses combinations of options that no data and no number of processes could make right. */
yk_code yk_plan_check(const struct yk_opts *opts, struct yk_error *e);
/* The whole plan for --dry-run, for people and as JSON. */
void yk_plan_text(const struct yk_session *s, struct yk_buf *out);
json_t *yk_plan_json(const struct yk_session *s);

/* Every worker also owns a part of the parameters. */
static inline bool yk_plan_workers_own(const struct yk_rule *r)
{
    return r->mode == YK_MODE_allreduce;
}

/* One worker owns everything, and nothing is exchanged. */
static inline bool yk_plan_is_local(const struct yk_rule *r)
{
    return r->mode == YK_MODE_local;
}

/* Parameter servers own the parameters; over MPI they are the first ranks. */
static inline bool yk_plan_has_servers(const struct yk_rule *r)
{
    return !yk_plan_is_local(r) && !yk_plan_workers_own(r);
}

/* Rank of worker 0. */
static inline unsigned yk_plan_first_worker(const struct yk_rule *r)
{
    return yk_plan_has_servers(r) ? r->owners : 0;
}

#endif
