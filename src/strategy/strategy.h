/* strategy.h - all ways to train are one mechanism: workers push gradients to the owners of the parameters and get parameters back.
 *
 *     worker.c   a worker's end: pull, sink, commit; what the step loop sees
 *     server.c   an owner's end: collects what is pushed, applies it when the rule says so, answers
 *     clock.c    owner 0's decisions: which pushes form a step, who does what next, who is alive
 *     deal.c     the examples of an epoch, dealt in parts        shard.c    sums in one fixed order
 *     owner.c    a range and its optimizer                       ledger.c   who did what
 *
 * A *rule* has three settings that make the modes:
 *
 *     mode                    a step is                                   pushes are          a worker waits
 *     local, sync, allreduce  every shard of the next global batch        held, then added    for the step
 *     sync --backup B         the first `need` parts that come back       held, then added    for the step
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
 */
#ifndef YK_STRATEGY_STRATEGY_H
#define YK_STRATEGY_STRATEGY_H

#include "comm/comm.h"

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
};
enum { YK_STOP_FLAG = 1, YK_LAST_FLAG = 2 };

#define YK_MODES(X) X(local) X(sync) X(async) X(ssp) X(allreduce)
#define YK_MODE_INDEX(name) YK_MODE_##name,
enum yk_mode { YK_MODES(YK_MODE_INDEX) YK_MODE_COUNT };

struct yk_rule {
    enum yk_mode mode;
    unsigned workers, owners;
    uint32_t shards;    /* V of a step; 1 where parts are dealt */
    uint32_t batch;     /* examples of a task: the global batch, or one part */
    uint64_t rows;      /* examples of an epoch */
    bool pooled;        /* parts are dealt one by one: async, ssp, backups */
    bool fresh;         /* a push must come from the current step */
    bool held;          /* pushes wait for the rest of their step */
    bool threads;       /* all workers are in one process, and see the same two shuffled orders (data.h) */
    unsigned need;      /* pooled: parts of a step */
    int64_t staleness;  /* ssp: S; -1 elsewhere */
    uint64_t last_step; /* the step at which the run ends; UINT64_MAX if none is set */
};

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
