/* worker.h - a worker's end of the wire, and the three calls of the step loop: pull, sink, commit.
 *
 *     while (yk_worker_pull(w, &task)) {                   parameters fresh enough, and a task
 *         for each shard of the task
 *             model->step(..., yk_worker_sink(w, shard))   gradients leave as they are finished
 *         yk_worker_commit(w, loss);                       the push is complete
 *     }
 *
 * Sums of shards are added over the tree (shard.h) as far as this worker has its parts. Each sum
 * has a buffer of its own until the step is over, because in threads owners read it there. The last
 * range for owner 0 is kept back until commit, so that a batch counts only when everything else is
 * on its way, and its loss goes with it.
 *
 * Over a wire the parameters of whole batches come bucket by bucket (exchange_bucket.c). A worker
 * that is `eager` gets its task from pull early, and the model asks the sink for the parameters
 * that it reads next; other workers wait for all of them.
 *
 * A sparse model computes in *slots*, the places in the sorted list of keys of the task, which the
 * loop prepares from the data.
 *
 *     while (yk_worker_pull(w, &task)) {
 *         keys of the task's shards, prepared below or now
 *         if (!yk_worker_values(w, key, n))       params.flat[slot] is the value of key[slot]
 *             continue;                           the task has changed, or there is none
 *         for each shard of the task
 *             model->step(..., yk_worker_sink(w, shard))   every slot of grad, then ready(0, n)
 *         keys of the task after it (task.ahead), for the same shards
 *         yk_worker_commit_keys(w, loss, task.ahead, next, m);
 *     }
 *
 * THREADS: pull, values, sink and commit belong to the worker's thread; its handler runs on any. */
#ifndef YK_STRATEGY_WORKER_H
#define YK_STRATEGY_WORKER_H

#include "base/error.h"
#include "param/param.h"
#include "param/sink.h"
#include "strategy/keys.h"
#include "strategy/rule.h"
#include "strategy/shard.h"
#include "strategy/wire.h"

struct yk_exchange; /* exchange.h */

enum { YK_SUMS = 40 }; /* sums of one task and the depth of a tree, for 4096 shards */

/* Where a worker's time goes, from a sample of its steps. */
struct yk_phases {
    uint64_t samples, steps;
    double input, compute, push; /* seconds over the sampled steps */
    double pull;                 /* seconds of waiting for parameters, over the sampled steps */
    double shuffle; /* seconds over all steps that begin an epoch, which are too few to sample */
    double images;  /* seconds that all steps waited for images to be made */
    double seconds; /* the worker's life */
    uint64_t sent, received; /* bytes */
    uint64_t rss;            /* largest memory of its process */
};

/* How a worker's life goes on. A later state is never left for an earlier one, but for a
 * meeting. */
enum yk_worker_state {
    YK_WORKER_RUNS,
    YK_WORKER_MEETS,   /* all processes are to start a new worker; then it runs again */
    YK_WORKER_STOPPED, /* owner 0 has no further task for it */
    YK_WORKER_CLOSED,  /* the run is over for all */
    YK_WORKER_FENCED,  /* it was taken for dead */
};

struct yk_worker_keys { /* sparse */
    /* The list that was sent last; under the endpoint's lock. */
    uint32_t ask;         /* its number */
    uint64_t id;          /* the task that it is for; YK_NO_PART: none */
    uint32_t first, last; /* the shards that it is for */
    size_t n;             /* keys */
    size_t *at;           /* (owners + 1) where each owner's part begins */
    bool *here;           /* (owners) the owner's values have come */
    unsigned missing;     /* owners whose values have not */
    uint64_t step;        /* the step of owner 0's values */
    uint64_t oldest;      /* the earliest step of any owner's values */
    float *fresh;         /* (fresh_room) the values */
    size_t fresh_room;
    struct yk_boxes in;

    /* The list of the step under way. */
    uint32_t used;
    size_t *used_at; /* (owners + 1) */
    float *value;    /* (value_room) params.flat */
    size_t value_room;
    void *out; /* (out_room words) messages: for each owner sums, then keys */
    size_t out_room;
};

struct yk_worker_buckets { /* whole batches between processes: parameters come bucket by bucket */
    unsigned n;            /* buckets of all owners */
    bool *come;            /* (n) */
    unsigned missing;
    unsigned *at; /* (owners + 1) the first bucket of each owner */
    enum {
        YK_TASK_WHOLE,  /* all parameters of the task are here */
        YK_TASK_EARLY,  /* the task has begun, but some of its parameters have not come */
        YK_TASK_GUESSED /* the same, and the task is a prediction that owner 0 has not confirmed */
    } task;
    float *old;            /* not WHOLE: the parameters of the task before */
    struct yk_task before; /* not WHOLE: the task before */
    bool abandoned;        /* the step under way is not to be done after all */
};

struct yk_pack_chunk { /* a buffer of packed data that are under way */
    struct yk_pack_chunk *next;
    size_t room, used;
    char data[];
};

struct yk_worker_pack { /* --compress */
    float
        *carry; /* (count) rounding errors, to be added to the next push; NULL: nothing is packed */
    struct yk_pack_chunk *first; /* packed data of the step under way, made in the first step */
    struct yk_pack_chunk *now;   /* the chunk that is being filled */
    struct yk_codec reply;       /* how parameters are packed */
    char *in;                    /* packed parameters arrive here */
    size_t *at;                  /* (owners) where each owner's begin */
};

struct yk_worker {
    struct yk_sink sink; /* first, so that ready() finds its worker */
    const struct yk_exchange *exchange;
    struct yk_comm *comm;
    const struct yk_rule *rule;
    unsigned index;
    struct yk_params params; /* for the model; `flat` is the worker's own or that of all threads */
    /* Where parameters arrive: params.flat, or a second buffer if a step may be redone. */
    float *fresh;
    float *mine[2]; /* buffers of this worker */
    bool eager;     /* the model asks for its parameters as it reads them; set after init */

    /* What has arrived; under the endpoint's lock. */
    enum yk_worker_state state;
    struct yk_task next;
    bool ordered;       /* owner 0 has answered: `next` is the next task */
    unsigned replies;   /* owners that have answered */
    uint64_t oldest;    /* the earliest step that they answered from */
    bool again;         /* the step has to be done once more, with the shards of `next` */
    bool clean;         /* closed, and no process was lost */
    unsigned newcomer;  /* the worker that a meeting is to start */
    yk_code failed;     /* the job ends: owner 0 says so, or this worker cannot go on */
    bool orphaned;      /* failed because owner 0 is lost */
    char why[256];      /* why the job ends */
    char reported[256]; /* why this worker cannot go on, as it told owner 0 */

    /* The step under way. */
    struct yk_task task;
    float *sum[YK_SUMS];     /* sums that have been sent, then the open path through the tree */
    unsigned sums;           /* buffers that are allocated */
    size_t sum_floats;       /* floats of each */
    unsigned base, top;      /* first buffer of the open subtree, and that of the current shard */
    unsigned merges;         /* how far up the tree the current shard completes it */
    uint32_t tree, end;      /* the open subtree: shards [tree, end) */
    bool leaves;             /* the current shard is the last of its subtree: ranges leave */
    unsigned finished;       /* ranges of the subtree that have left */
    uint64_t *left;          /* (owners) bytes of this sum that each has still to get */
    size_t kept_lo, kept_hi; /* the range that waits for commit; empty: none */
    size_t cut;              /* floats of one message at most; SIZE_MAX: ranges are not cut */
    atomic_uint sending;
    bool timed;
    struct yk_phases phases;
    struct yk_worker_keys keys;
    struct yk_worker_buckets buckets;
    struct yk_worker_pack pack;
};

extern const struct yk_handler yk_worker_handler;

/* `params` are the process's. `own`: the worker needs a copy, because they change while it computes
 * or live in another process. Of a sparse model only count and views are used: params->flat may be
 * NULL, and the worker's own `params.flat` holds the values of a task's keys. */
yk_code yk_worker_init(struct yk_worker *w, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_params *params, bool own,
                       struct yk_error *e);
void yk_worker_release(struct yk_worker *w);

/* Before the first pull. */
void yk_worker_start(struct yk_worker *w);
/* This worker cannot go on: tell owner 0 why, which ends the job for all. The next pull then
 * fails. */
void yk_worker_fail(struct yk_worker *w, yk_code code, const char *why);
/* Wait for parameters and a task. False: there is none, and state or failed says why. */
bool yk_worker_pull(struct yk_worker *w, struct yk_task *out);
/* The sink for shard i of the task; shards come in order, [first, last). */
struct yk_sink *yk_worker_sink(struct yk_worker *w, uint32_t i);
void yk_worker_commit(struct yk_worker *w, double loss);
/* Sparse, after pull: wait until params.flat[i] is the value of key[i], for the n keys of the task,
 * sorted and without repetition. False: pull again. */
bool yk_worker_values(struct yk_worker *w, const uint32_t *key, size_t n);
/* The same without waiting: are the values here? *over: there is no point in waiting for them. */
bool yk_worker_have_values(struct yk_worker *w, size_t n, bool *over);
/* Ask all owners for the values of these keys. */
void yk_worker_ask(struct yk_worker *w, const uint32_t *key, size_t n);
/* Sparse: the push is complete. With it go the keys of the task `id` (the present one's `ahead`),
 * for the same span of shards, or none (YK_NO_PART). The list may be freed afterwards. */
void yk_worker_commit_keys(struct yk_worker *w, double loss, uint64_t id, const uint32_t *key,
                           size_t n);
/* After the last pull: tell owner 0 where the time went. */
void yk_worker_account(struct yk_worker *w);

#endif
