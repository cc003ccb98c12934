/* exchange.h - how gradients and parameters cross between a worker and an owner: one struct of
 * functions for each protocol, with both ends in one file. It also declares the functions that the
 * files of this folder share with each other and with nobody else.
 *
 *     exchange_range.c    one push is a step (local, async, ssp), or a set of pushes is (backups)
 *     exchange_bucket.c   whole batches, bucket by bucket, between processes and between threads
 *     exchange_keys.c     sparse models: keys instead of ranges
 *
 * The life of an endpoint is the same for all: worker.c pulls a task, sums its shards and commits;
 * server.c counts pushes, closes steps and answers. Beside them are clock.c (owner 0's decisions),
 * deal.c (the parts of an epoch), ledger.c (what each worker did), pending.c (pushes of the open
 * step), owner.c and shard.c (updates and sums), pack.c and codec.c (--compress), state.c (stand
 * still, read, copy, fetch) and members.c (losses, fences, replacement). rule.h has the settings of
 * a mode and wire.h the messages.
 *
 * A run chooses its exchange once, when its endpoints are made (yk_exchange_of). */
#ifndef YK_STRATEGY_EXCHANGE_H
#define YK_STRATEGY_EXCHANGE_H

#include "strategy/server.h"
#include "strategy/worker.h"

struct yk_part { /* a push of the step that is being closed */
    const struct yk_push *push;
    uint32_t first, last; /* the shards that it stands for */
};

struct yk_exchange {
    /* --- a worker's end --- */

    /* Buffers. `own`: the worker needs a copy of the parameters. close() follows also a failure. */
    yk_code (*open_worker)(struct yk_worker *w, bool own, struct yk_error *e);
    void (*close_worker)(struct yk_worker *w);
    /* Wait for parameters of the step under way (sink.h). NULL: all are here when it begins. */
    bool (*need)(struct yk_sink *sink, size_t lo, size_t hi);
    /* The range [lo, hi) of a sum is finished: send it. On the worker's thread. */
    void (*push)(struct yk_worker *w, size_t lo, size_t hi);
    /* The batch is finished: send the rest. NULL: sparse workers call yk_worker_commit_keys. */
    void (*commit)(struct yk_worker *w, double loss);
    /* A buffer for the data of a REPLY, PIECE or VALUES; NULL to drop them. Under the lock. */
    void *(*place)(struct yk_worker *w, const struct yk_note *n);
    /* Parameters have come with such a note. Under the lock. */
    void (*take)(struct yk_worker *w, const struct yk_note *n, const void *data);
    /* Have all owners answered, so that the next step can begin? Under the lock. */
    bool (*answered)(const struct yk_worker *w);
    /* Make the next task the worker's if it can begin now. Under the lock. */
    bool (*begin)(struct yk_worker *w);

    /* --- an owner's end, all under the owner's lock --- */

    /* Buffers, for at most `pushes` pushes at a time. close() follows also a failure. */
    yk_code (*open_owner)(struct yk_server *s, unsigned pushes, struct yk_error *e);
    void (*close_owner)(struct yk_server *s);
    /* A buffer for the data of a PUSH or ASK; NULL to drop them. */
    void *(*place_push)(struct yk_server *s, const struct yk_note *n);
    /* A PUSH or an ASK is here. */
    void (*arrive)(struct yk_server *s, const struct yk_note *n, const void *data);
    /* Worker w is new, or has been replaced: it has nothing yet. */
    void (*welcome)(struct yk_server *s, unsigned w);
    /* Send worker w its answer: parameters as of the owner's step, with this note. */
    void (*reply)(struct yk_server *s, unsigned w, struct yk_note *n);
    /* Apply the n parts, which cover the shards [0, v), as far as that has not been done. */
    void (*apply)(struct yk_server *s, const struct yk_part *part, unsigned n, uint32_t v,
                  uint32_t examples);
    /* The open step begins once more, after a loss. NULL: nothing to do. */
    void (*reopen)(struct yk_server *s);
    uint8_t task_urgency; /* of a REPLY or AGAIN */
    bool reads_in_place;  /* over MPI, a push of a worker in this process is read where it is */
};

extern const struct yk_exchange yk_exchange_range, yk_exchange_bucket, yk_exchange_threads,
    yk_exchange_keys;

static inline const struct yk_exchange *yk_exchange_of(const struct yk_rule *rule,
                                                       const struct yk_comm *comm)
{
    return rule->sparse             ? &yk_exchange_keys
           : !yk_rule_buckets(rule) ? &yk_exchange_range
           : comm->shared           ? &yk_exchange_threads
                                    : &yk_exchange_bucket;
}

/* --- worker.c --- */

/* First float of an owner's range; it ends where the next owner's begins. */
static inline size_t yk_worker_owner_at(const struct yk_worker *w, unsigned owner)
{
    return yk_owner_at(owner, w->rule->owners, w->params.count);
}

void yk_worker_send(struct yk_worker *w, unsigned owner, struct yk_note *n, const void *data,
                    size_t bytes);
/* Wait until the engine has let go of all that this worker sent; 10 s at most, because an owner
 * may be lost. */
void yk_worker_settle(struct yk_worker *w);
/* Gradients may be written: waits until nothing of the step before is under way. */
void yk_worker_begin(struct yk_worker *w);
/* A buffer for the sum at depth i, made when a task first needs it, which is in the first steps. */
bool yk_worker_have_sum(struct yk_worker *w, unsigned i);
/* Has the worker no further step to do? Under the lock. */
bool yk_worker_is_over(const struct yk_worker *w);
/* Have all owners sent their REPLY? Under the lock. */
bool yk_worker_answered(const struct yk_worker *w);
/* exchange.begin for parameters that come all at once. */
bool yk_worker_begin_task(struct yk_worker *w);
/* The same batch and parameters once more, with other shards of it. */
void yk_worker_redo(struct yk_worker *w);

/* --- server.c, all under the owner's lock --- */

static inline size_t yk_server_floats(const struct yk_server *s) /* of its range */
{
    return s->owner.hi - s->owner.lo;
}

unsigned yk_server_worker(const struct yk_server *s, int endpoint);    /* worker at an endpoint */
void yk_server_enter(struct yk_server *s, enum yk_server_state state); /* never goes back */
void yk_server_send(struct yk_server *s, int endpoint, struct yk_note *n, const void *data,
                    size_t bytes);
void yk_server_send_worker(struct yk_server *s, unsigned w, struct yk_note *n, const void *data,
                           size_t bytes);
void yk_server_send_owners(struct yk_server *s, struct yk_note *n, const void *data, size_t bytes);
/* Whole batches: a new incarnation is one of all workers. The pushes that have come for the open
 * step are forgotten and come again. */
void yk_server_see_incarnation(struct yk_server *s, uint32_t incarnation);
/* Is this note for the open step, from a worker that counts? */
bool yk_server_counts(const struct yk_server *s, const struct yk_note *n);
/* A whole push does not count. */
void yk_server_drop(struct yk_server *s, const struct yk_note *n);
/* A push that is a step by itself has been applied. */
void yk_server_applied(struct yk_server *s, const struct yk_note *n);
/* All of a push that is held for its step is here. */
void yk_server_push_complete(struct yk_server *s, struct yk_push *p, const struct yk_note *n);
/* Another owner than 0: answer all workers that wait for it, once the state is here. */
void yk_server_reply_owed(struct yk_server *s);
/* Owner 0: every worker that waits and may go on gets its next task, or the word that there is
 * none. */
void yk_server_go_on(struct yk_server *s);
/* Owner 0: act on the watcher's answer. */
void yk_server_act_on(struct yk_server *s, enum yk_verdict verdict);
/* Backups, owner 0: close the step if its set is complete. */
void yk_server_try_set(struct yk_server *s);

/* --- members.c, under the owner's lock --- */

void yk_server_lost(void *arg, int endpoint, const char *why);
void yk_server_fenced(struct yk_server *s, const struct yk_note *n);  /* FENCE */
void yk_server_counted(struct yk_server *s, const struct yk_note *n); /* COUNT */
/* Owner 0: call all processes to start a new worker, if one is wanted and all others wait. */
void yk_server_call_replacement(struct yk_server *s);
/* This owner cannot go on, and so the job cannot. */
void yk_server_broken(struct yk_server *s, const char *why);

/* --- state.c, under the owner's lock --- */

void yk_state_release(struct yk_server *s);
void *yk_state_place(struct yk_server *s, const struct yk_note *n);
void yk_state_arrive(struct yk_server *s, const struct yk_note *n, const void *data);
/* Owner 0: ask whether everything stands still, if that is wanted and may be so. */
void yk_state_try_still(struct yk_server *s);
/* Owner 0: fetch a dense state while training goes on. */
void yk_state_catch_up(struct yk_server *s);
/* Another owner: something was applied, so answer a question that waits for it. */
void yk_state_moved(struct yk_server *s);

/* --- exchange_range.c: the parts that all dense exchanges share --- */

yk_code yk_range_open_worker(struct yk_worker *w, bool own, struct yk_error *e);
void yk_range_close_worker(struct yk_worker *w);
void yk_range_push(struct yk_worker *w, size_t lo, size_t hi);
void yk_range_commit(struct yk_worker *w, double loss);
void *yk_range_place(struct yk_worker *w, const struct yk_note *n);
/* Parameters of a range: puts them into `fresh`, and returns how many floats they are. */
size_t yk_range_copy(struct yk_worker *w, const struct yk_note *n, const void *data);
void yk_range_take(struct yk_worker *w, const struct yk_note *n, const void *data);
/* Send worker w all of the range, packed if the run packs. */
void yk_range_reply(struct yk_server *s, unsigned w, struct yk_note *n);
void *yk_range_place_push(struct yk_server *s, const struct yk_note *n);
/* Gradients are here. True: they count; *push is the push that they belong to, or NULL if none is
 * kept, and packed ones have been unpacked, with the note changed to match. False: they do not
 * count, and there is nothing left to do. */
bool yk_range_receive(struct yk_server *s, struct yk_note *n, const float *data,
                      struct yk_push **push);
/* Keep gradients that count for the step that they belong to. */
void yk_range_keep(struct yk_server *s, struct yk_push *p, const struct yk_note *n,
                   const float *data);

/* --- pack.c: --compress --- */

/* Buffers, at an owner and at a worker; none if the run does not pack. */
yk_code yk_pack_open_owner(struct yk_server *s, struct yk_error *e);
void yk_pack_close_owner(struct yk_server *s);
/* Send worker w all of the range. */
void yk_pack_reply(struct yk_server *s, unsigned w, struct yk_note *n);
/* Whole batches: pack the change of a bucket; then send it to worker w. */
void yk_pack_bucket(struct yk_server *s, size_t lo, size_t n);
void yk_pack_send_bucket(struct yk_server *s, unsigned w, struct yk_note *note, size_t n);
/* Unpack the gradients of a note in the push's buffer; the note then is that of floats. False: they
 * are broken. */
bool yk_pack_unpack(struct yk_server *s, struct yk_push *p, struct yk_note *n);

yk_code yk_pack_open_worker(struct yk_worker *w, struct yk_error *e);
void yk_pack_close_worker(struct yk_worker *w);
/* A step begins: nothing of the one before is under way any more. */
void yk_pack_begin(struct yk_worker *w);
/* Is a push to this owner packed? */
bool yk_pack_applies(const struct yk_worker *w, unsigned owner);
/* Pack n floats of a sum, from flat index `at` on, unless they are too few. Returns where the
 * *bytes are, with *flags set; NULL: there is no memory. */
const void *yk_pack_sum(struct yk_worker *w, const float *sum, size_t at, size_t n, uint16_t *flags,
                        size_t *bytes);
void *yk_pack_place(struct yk_worker *w, const struct yk_note *n);
/* Unpack parameters into `fresh`; returns how many floats they are. */
size_t yk_pack_take(struct yk_worker *w, const struct yk_note *n, const void *data);

#endif
