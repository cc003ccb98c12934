/* worker.h - a worker's end of the wire, and what the step loop sees of it: pull, sink, commit.
 *
 *     while (yk_worker_pull(w, &task)) {               parameters fresh enough, and what to compute with them
 *         for each shard of the task
 *             model->step(..., yk_worker_sink(w, shard))   gradients leave as they are finished
 *         yk_worker_commit(w, loss);                   the push is complete
 *     }
 *
 * Sums of shards are added over the tree (shard.h) as far as this worker has its parts; each sum has a buffer of its own until the step is
 * over, because in threads owners read it there. The last range that owner 0 needs is held back until commit, so that a batch counts
 * only when everything else is on its way, and its loss goes with it.
 *
 * Over a wire the parameters of whole batches come bucket by bucket (strategy.h). A worker that is `eager` gets its task from pull when
 * it is there, and the model asks the sink for what it reads; the others wait for everything.
 *
 * A sparse model computes in *slots*: the places in the sorted list of keys of the task, which the loop prepares from the data.
 *
 *     while (yk_worker_pull(w, &task)) {
 *         keys of the task's shards: prepared below, or now
 *         if (!yk_worker_values(w, key, n))            params.flat[slot] is the value of key[slot]; mostly it is here already
 *             continue;                                ... no: the task has changed, or there is none
 *         for each shard of the task
 *             model->step(..., yk_worker_sink(w, shard))   every slot of grad is written, ready(0, n) called once
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
#include "strategy/shard.h"
#include "strategy/strategy.h"

enum { YK_SUMS = 40 }; /* sums of one task and the depth of a tree, for 4096 shards */

/* Where a worker's time goes, from a sample of its steps. */
struct yk_phases {
    uint64_t samples, steps;
    double input, pull, compute,
        push; /* seconds over the sampled steps; pull is waiting for parameters */
    double
        shuffle; /* seconds over all steps that begin an epoch: too few, and too long, to be sampled */
    double images;           /* seconds that all steps waited for images to be made */
    double seconds;          /* the worker's life */
    uint64_t sent, received; /* bytes */
    uint64_t rss;            /* largest memory of its process */
};

struct yk_worker_keys { /* sparse */
    /* the list that was sent last; under the endpoint's lock */
    uint32_t ask;          /* its number */
    uint64_t id;           /* the task it is for; YK_NO_PART: none, */
    uint32_t first, last;  /* and its shards */
    size_t n;              /* keys */
    size_t *at;            /* (owners + 1) where each owner's part begins */
    bool *here;            /* (owners) its values have come, */
    unsigned missing;      /* and those of so many have not */
    uint64_t step, oldest; /* the step of owner 0's, and the earliest one of any */
    float *fresh;          /* (fresh_room) the values */
    size_t fresh_room;
    struct yk_boxes in;

    /* the list of the step under way */
    uint32_t used;
    size_t *used_at; /* (owners + 1) */
    float *value;    /* (value_room) params.flat */
    size_t value_room;
    size_t sum_room; /* of each sum */
    void *out;       /* (out_room words) messages: for each owner sums, then keys */
    size_t out_room;
};

struct yk_pack_chunk { /* of what is packed and under way */
    struct yk_pack_chunk *next;
    size_t room, used;
    char data[];
};

struct yk_worker_pack { /* --compress */
    float *
        carry; /* (count) what rounding has taken from the gradients that were sent, and the next push brings; NULL: off */
    struct yk_pack_chunk *first,
        *now; /* what is packed of the step under way; made when it is first needed, which is in the first step */
    struct yk_codec reply; /* how parameters come */
    char *in;              /* they arrive here, */
    size_t *at;            /* (owners) those of each owner from here on */
};

struct yk_worker {
    struct yk_sink sink; /* first, so that ready() finds its worker */
    struct yk_comm *comm;
    const struct yk_rule *rule;
    unsigned index;
    struct yk_params
        params; /* what the model reads: views as everybody's, `flat` the worker's own or all threads' */
    float *
        fresh; /* where parameters arrive: params.flat, or a second buffer while a step may have to be done again */
    float *mine[2]; /* buffers that are this worker's */
    bool eager;     /* the model asks for its parameters as it reads them; set after init */

    /* what has arrived; under the endpoint's lock */
    struct yk_task next;
    unsigned replies; /* owners that have answered, */
    uint64_t oldest;  /* the earliest step that they answered from */
    bool ordered;     /* owner 0 among them: `next` is valid */
    struct {          /* whole batches between processes: the parameters that come */
        unsigned n;   /* buckets of all owners; 0: they come otherwise */
        bool *come;   /* (n) */
        unsigned missing;
        unsigned *at; /* (owners + 1) the first bucket of each */
    } pieces;
    bool
        early; /* the task is under way, and some of its parameters are not: `fresh` is still params.flat, */
    float *old;            /* and this is what they were before, */
    struct yk_task before; /* for this task */
    bool guessed;          /* early, and owner 0 has not said yet that this is the task, */
    struct yk_task hoped;  /* which was made from the one before */
    bool started;          /* it ever was */
    bool again;            /* the step has to be done once more, with the shards of `next` */
    bool stop;             /* no further step */
    bool fenced;           /* taken for dead */
    bool closed;           /* the run is over for everybody... */
    bool clean;            /* ... and nobody was lost */
    bool meet;             /* all are to start a new worker */
    unsigned newcomer;
    yk_code failed; /* the job ends: owner 0 says so, */
    bool orphaned;  /* or is itself lost */
    char why[256];
    char said[256]; /* what this worker told owner 0 before that: why it cannot go on */

    /* the step under way */
    struct yk_task task;
    float *sum
        [YK_SUMS]; /* buffers: the sums that have been sent, then the open path through the tree */
    unsigned sums; /* how many are allocated */
    unsigned base, top; /* first buffer of the open subtree, and that of the current shard */
    unsigned merges;    /* how far up the tree the current shard completes it */
    uint32_t tree, end; /* the open subtree: shards [tree, end) */
    bool leaves;        /* the current shard is its last: ranges leave */
    unsigned finished;  /* ranges of it that have left */
    bool abandoned;     /* the step is not to be done after all */
    uint64_t *left;     /* (owners) bytes of this sum that each has still to get */
    struct {            /* what is held back for commit */
        bool any;
        size_t lo, hi;
    } held;
    atomic_uint sending;
    bool timed;
    struct yk_phases phases;
    struct yk_worker_keys keys;
    struct yk_worker_pack pack;
};

extern const struct yk_handler yk_worker_handler;

/* `params` are the process's. `own`: the worker needs a copy, because they change while it computes or live elsewhere. Of a sparse model
 * only their count and views are used: params->flat may be NULL, and the worker's own `params.flat` holds the values of a task's keys. */
yk_code yk_worker_init(struct yk_worker *w, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_params *params, bool own,
                       struct yk_error *e);
void yk_worker_release(struct yk_worker *w);

/* Before the first pull. */
void yk_worker_start(struct yk_worker *w);
/* This worker cannot go on: tell owner 0 why, which ends the job for all. The next pull hears of it as everybody does. */
void yk_worker_fail(struct yk_worker *w, yk_code code, const char *why);
/* Wait for parameters and a task. False: there is none: stop, fenced, failed or meet says why. */
bool yk_worker_pull(struct yk_worker *w, struct yk_task *out);
/* The sink for shard i of the task; shards come in order, [first, last). */
struct yk_sink *yk_worker_sink(struct yk_worker *w, uint32_t i);
void yk_worker_commit(struct yk_worker *w, double loss);
/* Sparse, after pull: wait until params.flat[i] is the value of key[i], for the n keys of the task, sorted and without repetition. False:
 * pull again, and do what it says. */
bool yk_worker_values(struct yk_worker *w, const uint32_t *key, size_t n);
/* Sparse: the push is complete; with it go the keys of the task `id` (the present one's `ahead`), for the same span of shards, or none
 * (YK_NO_PART). The list may be freed afterwards. */
void yk_worker_commit_keys(struct yk_worker *w, double loss, uint64_t id, const uint32_t *key,
                           size_t n);
/* After the last pull: tell owner 0 where the time went. */
void yk_worker_account(struct yk_worker *w);

#endif
