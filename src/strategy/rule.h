/* rule.h - the settings that make a mode of training, and the task that a worker gets by them.
 *
 * All modes are one mechanism: workers push gradients to the owners of the parameters and get
 * parameters back. Three settings of a *rule* tell them apart:
 *
 *     mode                    a step is                              pushes are       worker waits
 *     local, sync, allreduce  every shard of the next global batch   held till added  for the step
 *     sync --backup B         the first `need` parts that come back  held till added  for the step
 *     sync --data-local       `need` parts, each of its host's data  held till added  for the step
 *     async                   one part                               applied at once  never
 *     ssp                     one part                               applied at once  if it leads
 *
 * The rest of the folder reads the settings. The name of the mode is read only here, in the
 * functions below, and where a rule is made and printed. */
#ifndef YK_STRATEGY_RULE_H
#define YK_STRATEGY_RULE_H

#include "strategy/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_MODES(X) X(local) X(sync) X(async) X(ssp) X(allreduce)
#define YK_MODE_INDEX(name) YK_MODE_##name,
enum yk_mode { YK_MODES(YK_MODE_INDEX) YK_MODE_COUNT };

const char *yk_mode_name(enum yk_mode mode);
bool yk_mode_find(const char *name, enum yk_mode *out);

struct yk_share; /* deal.h */

struct yk_rule {
    enum yk_mode mode;
    unsigned workers, owners;
    uint32_t shards;    /* V of a step; 1 where parts are dealt */
    uint32_t batch;     /* examples of a task: the global batch, or one part */
    uint64_t rows;      /* examples of an epoch */
    bool pooled;        /* parts are dealt one by one: async, ssp, backups */
    bool fresh;         /* a push must come from the current step */
    bool held;          /* pushes wait for the rest of their step */
    bool sparse;        /* keys instead of ranges */
    bool threads;       /* all workers are in one process and share two shuffled orders (data.h) */
    unsigned need;      /* pooled: parts of a step */
    int64_t staleness;  /* ssp: how far a worker may lead the slowest; -1 elsewhere */
    uint64_t last_step; /* the step at which the run ends; UINT64_MAX: none is set */
    uint64_t epochs;    /* the epochs after which the run ends; 0: none are set */
    struct yk_codec codec; /* --compress: how gradients are packed between processes */
    /* Hosts with data of their own: the examples of each. NULL: all workers read all data. */
    const struct yk_share *share; /* (shares) */
    const uint32_t *share_of;     /* (workers) whose data each worker computes on */
    unsigned shares;
};

/* All-reduce: owner k and worker k are one process, and pack nothing for each other. */
static inline bool yk_rule_pairs_ranks(const struct yk_rule *r)
{
    return r->mode == YK_MODE_allreduce;
}

/* A step is the first `need` parts that come back. */
static inline bool yk_rule_backups(const struct yk_rule *r)
{
    return r->held && r->pooled;
}

/* A step is a whole batch of several workers. */
static inline bool yk_rule_batches(const struct yk_rule *r)
{
    return r->held && !r->pooled;
}

/* Dense steps of whole batches, which are applied bucket by bucket (exchange_bucket.c). */
static inline bool yk_rule_buckets(const struct yk_rule *r)
{
    return yk_rule_batches(r) && !r->sparse;
}

/* Floats of a bucket. Nothing overtakes a message that has begun, so buckets are as small as is
 * worth the handling. */
static inline size_t yk_rule_bucket(const struct yk_rule *r)
{
    return r->codec.piece > 0 ? r->codec.piece : 1 << 18;
}

/* How parameters are packed. Only a change that is known in full can be reduced to its largest
 * values or to 255 steps. */
static inline struct yk_codec yk_rule_reply(const struct yk_rule *r)
{
    struct yk_codec c = r->codec;
    if (c.kind != YK_CODEC_NONE && !yk_rule_buckets(r))
        c.kind = YK_CODEC_BF16;
    else if (c.kind == YK_CODEC_TOPK) /* with momentum a few gradients move all parameters */
        c.kind = YK_CODEC_INT8;
    return c;
}

/* What a worker does next. */
struct yk_task {
    uint64_t step;        /* of the parameters */
    uint64_t id;          /* first example of the batch, over all epochs */
    uint64_t ahead;       /* id of the task after this one if it is known, else YK_NO_PART */
    uint32_t examples;    /* of the whole batch */
    uint32_t first, last; /* the worker's shards of the batch */
    uint32_t incarnation; /* of the worker */
};

#endif
