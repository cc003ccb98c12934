/* server.h - an owner's end of the wire: collects pushes, applies them by the rule, and answers.
 * Owner 0 also holds the clock.
 *
 * The owner is a passive state machine: in threads a push is a call into it, over MPI a rank drives
 * it from its message loop.
 * THREADS: the handlers run under the lock of the owner's endpoint; so must everything else that is
 * called while workers run. */
#ifndef YK_STRATEGY_SERVER_H
#define YK_STRATEGY_SERVER_H

#include "strategy/clock.h"
#include "strategy/keys.h"
#include "strategy/owner.h"
#include "strategy/pending.h"
#include "strategy/wire.h"

struct yk_exchange; /* exchange.h */

/* The watcher's answer to a step. */
enum yk_verdict {
    YK_GO,    /* go on with the next step */
    YK_PAUSE, /* give out no new batch until the next step has been applied; then ask again */
    YK_LOOK,  /* fetch the state of other processes, then call the watcher again */
    YK_HALT,  /* no further step; the state is final when all workers have stopped */
    YK_LEAVE, /* no further step, and no further change: the watcher has the state it wants */
    /* No worker goes on. When nothing moves on any owner, and the state of a dense model is here,
     * call the watcher again; YK_HOLD then: stay so until yk_server_resume. */
    YK_HOLD,
};

struct yk_stepped {    /* an applied update */
    uint64_t step;     /* updates so far */
    uint32_t examples; /* of this one */
    double loss;       /* summed over them */
};

struct yk_watcher {
    /* Called by owner 0, under its lock, after every update; with NULL when the state that YK_LOOK
     * asked for is here, or everything stands still as YK_HOLD wanted. */
    enum yk_verdict (*stepped)(void *arg, const struct yk_stepped *s);
    /* A process is lost. `worker` is -1 if it was an owner, which ends the job. True: go on. */
    bool (*lost)(void *arg, int worker, const char *why);
    /* A worker says where its time went. */
    void (*account)(void *arg, unsigned worker, const void *data, size_t bytes);
    void *arg;
};

/* How an owner's life goes on; a state is never left for an earlier one. */
enum yk_server_state {
    YK_SERVER_EMPTY, /* its part of the state has not come */
    YK_SERVER_RUNS,
    YK_SERVER_HALTED, /* nothing is applied any more */
    YK_SERVER_ENDED,  /* owner 0: all workers have stopped and the watcher has its state */
    YK_SERVER_CLOSED, /* another owner: the clock said that the run is over */
};

struct yk_asked { /* sparse: the list of keys that a worker has sent last */
    uint32_t ask; /* its number; 0: there is none */
    uint32_t *key;
    size_t n, room;
};

struct yk_addend { /* sparse: a sum of a step that is being closed */
    const struct yk_push *push;
    const float *sum;     /* by the push's keys */
    uint32_t first, last; /* its subtree */
};

struct yk_list { /* sparse: the keys of one push, while they are merged with those of the others */
    const uint32_t *key; /* the keys that are left */
    size_t done;         /* keys before them */
    uint32_t head;       /* the first key that is left */
    uint32_t taken;      /* keys in the present chunk */
    unsigned row, rows;  /* the sums of the push */
    uint16_t *place;     /* (YK_SUM_CHUNK) where the taken keys are in the chunk */
};

struct yk_server_keys {       /* sparse */
    struct yk_asked *asked;   /* (workers) */
    struct yk_addend *row;    /* (rows) of the step that is being closed */
    unsigned rows, rows_most; /* rows_most: as many as there can be */
    struct yk_list *list;     /* (lists, at most rows) */
    unsigned lists;
    uint16_t *place; /* (place_room) of all lists */
    size_t place_room;
    float *mixed; /* (mixed_room) a chunk of each row, by the keys of all of them */
    size_t mixed_room;
    struct {           /* values from before the last step, for workers that redo it */
        uint64_t step; /* UINT64_MAX: not known */
        uint32_t *key;
        float *value;
        size_t n, room, value_room;
    } undo;
};

struct yk_server_buckets { /* whole batches */
    unsigned n;
    uint64_t *due;   /* (n) floats times shards that each bucket lacks */
    bool *applied;   /* (n) the bucket has been applied in this step */
    unsigned closed; /* buckets applied so far; also their send priority */
    uint64_t *has;   /* (workers) the step whose parameters a worker was sent; UINT64_MAX: none */
};

struct yk_server_pack {    /* --compress */
    struct yk_codec reply; /* how parameters are packed */
    char *out;             /* packed parameters leave from here; NULL: they are not packed */
    float *known; /* (hi - lo) whole batches: the parameters that all workers have; else NULL */
    bool knows;   /* `known` is set: a worker has been answered */
};

struct yk_server_still { /* owner 0 wants all owners to be at one step */
    enum {
        YK_STILL_NO,
        YK_STILL_CATCHING_UP, /* the others were asked, and training goes on (async) */
        YK_STILL_WANTED,      /* no worker is answered, but some still compute */
        YK_STILL_ASKED,       /* the others have been asked */
        YK_STILL_YES
    } now;
    bool holds;        /* answers wait until the watcher has seen the state */
    unsigned missing;  /* owners that have not answered */
    uint64_t id;       /* number of the question */
    bool wanted;       /* another owner: the clock waits for its answer */
    uint64_t step;     /* another owner: the step that it is to reach */
    uint64_t *counted; /* (workers) the pushes of each worker that are to be applied by then */
};

struct yk_server_copy {
    float *kept[1 + YK_SLOTS]; /* a copy of the range: weights, then the optimizer's state */
    atomic_uint reading;       /* messages that the engine still reads from it */
    bool unwanted;             /* it is freed when they are out */
    struct {                   /* owner 0: a question that a thread waits for */
        uint64_t id;
        unsigned missing;
        const size_t *at; /* (owners + 1) where each answer goes in `to`; NULL: without data */
        float *to;
        bool refused;
    } call;
};

struct yk_part; /* exchange.h */

struct yk_server {
    const struct yk_exchange *exchange;
    struct yk_comm *comm;
    const struct yk_rule *rule;
    struct yk_owner owner;
    unsigned index;         /* owner number, and endpoint */
    size_t count;           /* floats of all owners */
    bool elsewhere;         /* other processes own a part */
    struct yk_clock *clock; /* owner 0; NULL elsewhere */
    struct yk_watcher watcher;
    enum yk_server_state state;

    struct yk_pending table;  /* the pushes of the open step */
    struct yk_part *part;     /* (table.n) the pushes that a step is closed with */
    struct yk_block *block;   /* (table.n) sums, for the call that adds them */
    uint32_t *least;          /* (workers) pushes of earlier incarnations are dropped */
    bool *owed;               /* (workers) another owner: the worker waits for its answer */
    uint64_t *applied;        /* (workers) pushes applied here: tells a torn one */
    bool *begun;              /* (workers) the next push has been applied in part */
    struct yk_set_entry *set; /* (need) backups: the set that is named */
    bool paused;              /* owner 0: no new batch before the next step */

    bool clean;     /* another owner: closed, and no process was lost */
    yk_code failed; /* the job cannot go on */
    bool orphaned;  /* another owner: failed because owner 0 is lost */
    char why[256];
    atomic_uint sending;      /* messages whose data the engine still reads */
    struct yk_boxes in, out;  /* messages under way whose data have no other place */
    unsigned accounts;        /* workers that have said where their time went */
    char account_buffer[256]; /* an account while it arrives */
    struct yk_replace {
        bool *wanted;    /* (workers) owner 0: lost, and to be replaced */
        unsigned wants;  /* how many are */
        bool called;     /* all processes are called to start a new worker */
        unsigned worker; /* this one; one at a time */
    } replace;
    struct yk_server_keys keys;
    struct yk_server_buckets buckets;
    struct yk_server_pack pack;
    struct yk_server_still still;
    struct yk_server_copy copy;
};

extern const struct yk_handler yk_server_handler;

/* `clock` for owner 0. Weights and slots as for yk_owner_init; in a sparse run they begin with
 * the owner's own range: the value of `key` is weights[key - lo], lo = yk_owner_at(index,
 * owners, count), and nothing else need be there. */
yk_code yk_server_init(struct yk_server *s, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_recipe *recipe, float *weights,
                       float *const *slot, size_t count, struct yk_clock *clock,
                       const struct yk_watcher *watcher, struct yk_error *e);
void yk_server_release(struct yk_server *s);

/* Owner 0, before the first step: give the owners in other processes their part of the state, as of
 * `step`. In a sparse run they keep their own (zeros, or what yk_server_put gave them), and only
 * learn the step. */
void yk_server_seed(struct yk_server *s, uint64_t step, size_t count);

/* Under the locks of these owners, which are all there are: has every push, and every step of whole
 * batches, been applied by all of them, or not at all? */
bool yk_servers_even(const struct yk_server *s, unsigned owners);

/* Owner 0, under its lock: stop soon, though no step has come to its end (a signal). */
void yk_server_stop(struct yk_server *s);
/* Any owner, under its lock: apply nothing any more. */
void yk_server_halt(struct yk_server *s);
/* Owner 0, under its lock: the run is over (`clean`: no process was lost), or has failed. */
void yk_server_close(struct yk_server *s, bool clean);
void yk_server_fail(struct yk_server *s, yk_code code, const char *why);
/* Owner 0, under its lock: a new worker shall take the place of `w`, when all others wait. */
void yk_server_want(struct yk_server *s, unsigned w);
/* Any owner, under its lock: the meeting for a new `w` is over; `done`: it is there. */
void yk_server_replaced(struct yk_server *s, unsigned w, bool done);
/* Owner 0, under its lock: the watcher answered YK_HOLD to NULL, and has now made up its mind. */
void yk_server_resume(struct yk_server *s, enum yk_verdict verdict);

/* Sparse: the state, a piece at a time. `s` is owner 0, `here` owners are in this process and
 * follow it in memory. All of these wait for owners in other processes, so they are for one
 * thread at a time that is in no handler and holds no lock. A lost owner is YK_LOST. */

/* out[i] = value of key[i], a sorted list without repetition, as the next step would see it. Unless
 * everything stands still, different values may be of different steps. */
yk_code yk_server_read(struct yk_server *s, unsigned here, const uint32_t *key, float *out,
                       size_t n, struct yk_error *e);
/* While everything stands still: every owner copies its range, to be fetched while training goes
 * on; or lets go of the copy. */
yk_code yk_server_keep(struct yk_server *s, unsigned here, struct yk_error *e);
void yk_server_unkeep(struct yk_server *s, unsigned here);
/* n floats from flat index lo on, all of one owner's range, of its weights (which = 0) or state
 * vector `which` - 1; from the copy if there is one, else as they are now. */
yk_code yk_server_fetch(struct yk_server *s, unsigned here, unsigned owner, unsigned which,
                        size_t lo, size_t n, float *to, struct yk_error *e);
/* The opposite, before yk_server_seed: state of a checkpoint. */
yk_code yk_server_put(struct yk_server *s, unsigned here, unsigned owner, unsigned which, size_t lo,
                      size_t n, const float *from, struct yk_error *e);

#endif
