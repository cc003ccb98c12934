/* strategy.h - all ways to train are one mechanism: workers push gradients to the owners of the parameters and get parameters back.
 *
 *     worker.c   a worker's end: pull, sink, commit; what the step loop sees
 *     server.c   an owner's end: collects what is pushed, applies it when the rule says so, answers
 *     server_bucket.c, worker_early.c   whole batches: parts of a step are applied and sent back while others are still computed
 *     clock.c    owner 0's decisions: which pushes form a step, who does what next, who is alive
 *     deal.c     the examples of an epoch, dealt in parts        shard.c    sums in one fixed order
 *     owner.c    a range and its optimizer                       ledger.c   who did what
 *     keys.c     sorted lists of keys; worker_keys.c, server_keys.c: the same mechanism for sparse models, by keys instead of ranges
 *     server_hold.c   everything stands still, so that the state can be read, copied and saved in pieces
 *     codec.c    floats made small for the wire; worker_pack.c, server_pack.c: where they are
 *
 * A *rule* has three settings that make the modes:
 *
 *     mode                    a step is                                   pushes are          a worker waits
 *     local, sync, allreduce  every shard of the next global batch        held, then added    for the step
 *     sync --backup B         the first `need` parts that come back       held, then added    for the step
 *     sync --data-local       `need` parts, each of its host's own data   held, then added    for the step
 *     async                   one part                                    applied at once     not at all
 *     ssp                     one part                                    applied at once     for the slowest, `staleness` behind
 *
 * Messages (comm.h carries them; a note's step is the one whose parameters they belong to, its id the first example of the batch):
 *
 *     worker -> owner   PULL      here I am, give me parameters            clock -> owner   STATE    weights or optimizer state of your range
 *                       PUSH      a range of a sum of gradients                             GATHER   send me yours, as of this step
 *                       ACCOUNT   where my time went (at the end)                           SET      these parts form the step
 *     owner -> worker   REPLY     parameters; from owner 0 also the                         FENCE    a worker is lost; what do you have of it?
 *                                 next task, or STOP                                        CLOSE    the run is over
 *     clock -> worker   AGAIN     redo the step with other shards          owner -> clock   STATE, HAVE (a whole push), COUNT (of a lost worker)
 *                       FENCED    you were taken for dead: leave           clock -> all     REPLACE  meet to start a new worker; END the job fails
 *
 * WHOLE BATCHES (held, not pooled) do not wait for their end. A worker pushes each range as soon as the model has finished it, cut into
 * *buckets* of the owners' ranges. An owner applies a bucket when every shard has sent its part of it, and sends the parameters back:
 *
 *     PUSH      a part of a bucket
 *     PIECE     the parameters of a bucket, after the step, to everybody who takes part in it
 *     REPLY     from owner 0 nothing but the next task, when all its buckets have been applied; from each, to one that is new, all of the range
 *
 * On the wire the most urgent goes first (note.urgency): the word of the next task; then what belongs to the earlier step, the gradients of step
 * t before the parameters of t+1, and those before the gradients of t+1, or a worker that is ahead would delay what the others wait for; and of
 * either what was finished last, because the next forward pass begins where this backward pass ends. A model that asks for its
 * parameters layer by layer (sink.h) computes with the first while the others are on their way, and does not wait for the word either: it goes by what
 * the next task will be if nobody is lost, and pushes nothing before the word is there (worker_early.c).
 *
 * SPARSE (rule.sparse). A task touches a sorted list of *keys*, which are flat indices; everything a worker has is indexed by the place in
 * that list, its *slot*, so nothing of the size of the model exists where it is not owned. A list is numbered by its worker (its *ask*),
 * cut into the owners' parts, and remembered by each owner, so that keys cross the wire once: with
 *
 *     PUSH      [gradients of the keys of this task, once a subtree][keys of the next task]       lo = ask of these + ask of those << 32
 *     REPLY     [values of the keys of the next task]                                             lo = ask
 *
 * a step takes one round trip, one message an owner each way (an empty one too: steps count everywhere; owner 0's comes last), and 12
 * bytes a key. When the next task is not the one that the keys were for (the first one, another span of shards, an epoch's first, a part
 * with backups), the worker asks once more:
 *
 *     PULL      [keys]       as of this step                                                      lo = ask << 32
 *     VALUES    [values]                                                                          lo = ask
 *
 * Whatever carries another ask than the worker's last is thrown away. Slots add up like parameters (shard.h): a key that a shard does not
 * touch is +0.0f there. No sum of gradients is ever -0.0 (a model adds +0.0 to each of its leaves, and x + y is -0.0 only if both are), and
 * so adding that zero is, bit by bit, adding no term.
 *
 * PACKED (rule.codec, dense models, between processes). Ranges and parameters are packed (codec.h) and go in pieces, so that packing, the
 * wire and unpacking overlap; where parts are dealt one by one, the last piece of the parameters is the REPLY, those before it are PIECEs.
 *
 *     PUSH      a sum of gradients and what the worker's earlier pushes lost by rounding     flags: PACKED
 *     PIECE     the change of the parameters since the last reply, where everybody           flags: PACKED, CHANGE
 *               goes in step: an owner knows what workers have (its weights, but for
 *               one rounding of one change), packs the difference once, and sends it to all
 *     REPLY     the parameters in bf16, where workers come as they like: what each of        flags: PACKED
 *               them has is not known without a copy of the parameters for each
 *     REPLY     what workers have, as it is, to one that has nothing yet
 *
 * Owners keep, and save, exact parameters. An owner and a worker of one process (all-reduce) pack nothing for each other.
 *
 *     clock -> owner    STILL     tell me when you have applied so much    KEEP     copy your range, or let go of the copy
 *                       READ      values of these keys                     FETCH    a piece of it
 *     owner -> clock    ANSWER    to any of them (first: its kind, id: its number)
 *                       END       I cannot go on: a worker's message is wrong, or there is no memory
 */
#ifndef YK_STRATEGY_STRATEGY_H
#define YK_STRATEGY_STRATEGY_H

#include "comm/comm.h"
#include "strategy/codec.h"

#include <stdbool.h>
#include <stdint.h>

enum yk_kind {
    YK_PULL,
    YK_PUSH,
    YK_ACCOUNT,
    YK_REPLY,
    YK_AGAIN,
    YK_FENCED,
    YK_STATE,
    YK_GATHER,
    YK_SET,
    YK_FENCE,
    YK_HAVE,
    YK_COUNT,
    YK_REPLACE,
    YK_CLOSE,
    YK_END,
    YK_VALUES,
    YK_STILL,
    YK_READ,
    YK_KEEP,
    YK_FETCH,
    YK_ANSWER,
    YK_PIECE,
};
/* of a reply: no task any more, a further part of the same step (so nobody else answers); of a push: nothing follows; of either: packed, a change */
enum {
    YK_STOP_FLAG = 1,
    YK_LAST_FLAG = 2,
    YK_PACKED_FLAG = 4,
    YK_CHANGE_FLAG = 8,
    YK_FURTHER_FLAG = 16
};

#define YK_MODES(X) X(local) X(sync) X(async) X(ssp) X(allreduce)
#define YK_MODE_INDEX(name) YK_MODE_##name,
enum yk_mode { YK_MODES(YK_MODE_INDEX) YK_MODE_COUNT };

struct yk_share; /* deal.h */

struct yk_rule {
    enum yk_mode mode;
    unsigned workers, owners;
    uint32_t shards; /* V of a step; 1 where parts are dealt */
    uint32_t batch;  /* examples of a task: the global batch, or one part */
    uint64_t rows;   /* examples of an epoch */
    bool pooled;     /* parts are dealt one by one: async, ssp, backups */
    bool fresh;      /* a push must come from the current step */
    bool held;       /* pushes wait for the rest of their step */
    bool sparse;     /* keys instead of ranges */
    bool
        threads; /* all workers are in one process, and see the same two shuffled orders (data.h) */
    unsigned need;      /* pooled: parts of a step */
    int64_t staleness;  /* ssp: S; -1 elsewhere */
    uint64_t last_step; /* the step at which the run ends; UINT64_MAX if none is set */
    uint64_t epochs;    /* ... and the epochs after which it does; 0 if none are set */
    /* --compress: what gradients are packed as, where they cross a wire */
    struct yk_codec codec;
    /* Hosts with data of their own: the examples of each, and whose each worker computes on; NULL: all are everybody's. */
    const struct yk_share *share; /* (shares) */
    const uint32_t *share_of;     /* (workers) */
    unsigned shares;
};

/* Whole batches: floats of a bucket. A message that has begun is overtaken by nothing, so they are as small as is worth the handling. */
static inline size_t yk_rule_bucket(const struct yk_rule *r)
{
    return r->codec.piece > 0 ? r->codec.piece : 1 << 18;
}

static inline bool yk_rule_buckets(const struct yk_rule *r)
{
    return r->held && !r->pooled && !r->sparse;
}

/* What parameters are packed as. Only a fully known change can be reduced to its largest values or to 255 steps. */
static inline struct yk_codec yk_rule_reply(const struct yk_rule *r)
{
    struct yk_codec c = r->codec;
    if (c.kind != YK_CODEC_NONE && !yk_rule_buckets(r))
        c.kind = YK_CODEC_BF16;
    else if (c.kind == YK_CODEC_TOPK) /* gradients of a few places move them all, with momentum */
        c.kind = YK_CODEC_INT8;
    return c;
}

/* Of the `i`-th range that was finished in a step: the latest first; and parameters before the gradients that are computed with them. */
enum { YK_URGENT_LEVELS = 127 };
static inline uint8_t yk_urgency(unsigned i, bool gradient)
{
    return (uint8_t)((gradient ? 0 : YK_URGENT_LEVELS) + 1 +
                     (i < YK_URGENT_LEVELS ? i : YK_URGENT_LEVELS - 1));
}

/* What a worker does next. */
struct yk_task {
    uint64_t step;        /* of the parameters */
    uint64_t id;          /* first example of the batch, over all epochs */
    uint64_t ahead;       /* that of the task after it, if it is known; YK_NO_PART */
    uint32_t examples;    /* of the whole batch */
    uint32_t first, last; /* its shards of it */
    uint32_t incarnation; /* of the worker */
};

const char *yk_mode_name(enum yk_mode mode);
bool yk_mode_find(const char *name, enum yk_mode *out);

#endif
