/* server.h - an owner's end of the wire: collects what workers push, applies it when the rule says so, and answers. Owner 0 also
 * holds the clock.
 *
 * The owner is a passive state machine: in threads a push is a call into it, over MPI a rank drives it from its message loop.
 * THREADS: the handlers run under the lock of the owner's endpoint; so must everything else that is called while workers run. */
#ifndef YK_STRATEGY_SERVER_H
#define YK_STRATEGY_SERVER_H

#include "strategy/clock.h"
#include "strategy/keys.h"
#include "strategy/owner.h"
#include "strategy/push.h"

/* What whoever watches the training wants after a step. */
enum yk_verdict {
    YK_GO,    /* the next step */
    YK_LOOK,  /* to see the whole state first: fetch what other processes own, then call me again */
    YK_HALT,  /* no further step; the state is what the owners have when everybody has stopped */
    YK_LEAVE, /* no further step, and nothing changes any more: the watcher has the state it wants */
    /* sparse: nobody goes on, and when nothing moves on any owner, call me again; YK_HOLD then: stay so until yk_server_resume */
    YK_HOLD,
};

struct yk_stepped {    /* an applied update */
    uint64_t step;     /* updates so far */
    uint32_t examples; /* of this one */
    double loss;       /* summed over them */
};

struct yk_watcher {
    /* Called by owner 0, under its lock, after every update; with NULL when the state that YK_LOOK asked for is there, or
     * everything stands still as YK_HOLD wanted. */
    enum yk_verdict (*stepped)(void *arg, const struct yk_stepped *s);
    /* A process is gone. `worker` is -1 if it was an owner, which ends the job. True: go on without it. */
    bool (*lost)(void *arg, int worker, const char *why);
    /* A worker says where its time went. */
    void (*account)(void *arg, unsigned worker, const void *data, size_t bytes);
    void *arg;
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

struct
    yk_list { /* sparse: the keys of a push of that step, which are being merged with the others' */
    const uint32_t *key;  /* those that are left */
    size_t done;          /* and so many are not */
    uint32_t head, taken; /* the first that is left; keys of the present chunk */
    unsigned row, rows;   /* the sums that they are of */
    uint16_t *place;      /* (YK_SUM_CHUNK) where the keys of the present chunk are in it */
};

struct yk_server_keys {
    struct yk_asked *asked;   /* (workers) */
    struct yk_boxes in, out;  /* messages under way */
    struct yk_addend *row;    /* (rows) of the step that is being closed */
    unsigned rows, rows_most; /* ... and as many as there can be */
    struct yk_list *list;     /* (lists, at most rows) */
    unsigned lists;
    uint16_t *place; /* (place_room) of all lists */
    size_t place_room;
    float *mixed; /* (mixed_room) a chunk of each row, by the keys of all of them */
    size_t mixed_room;
    struct
    { /* what the last step has changed: who does that step once more needs the values from before it */
        uint64_t step; /* UINT64_MAX: not known */
        uint32_t *key;
        float *value;
        size_t n, room, value_room;
    } undo;
};

struct yk_server_hold {
    bool on;          /* owner 0: the watcher wants everything to stand still, */
    bool asked;       /* the others have been asked whether it does, */
    bool still;       /* and it does */
    unsigned missing; /* owners that have not said so */
    bool wanted;      /* another owner: the clock wants to know when it has come so far */
    uint64_t step;    /* ... and to this step */
    uint64_t id;      /* number of the question */
    struct {          /* owner 0: a question that a thread waits for */
        uint64_t id;
        unsigned missing;
        const size_t
            *at; /* (owners + 1) where each one's answer goes in `to`; NULL: nothing is expected */
        float *to;
        bool refused;
    } call;
    float *kept[1 + YK_SLOTS]; /* a copy of the range: weights, then the optimizer's state */
    atomic_uint reading;       /* messages that the engine still reads from it, */
    bool unwanted;             /* and nobody else: it goes when they are out */
};

struct yk_server_buckets { /* whole batches */
    unsigned n;
    uint64_t *due;   /* (n) floats times shards that each lacks, */
    bool *applied;   /* (n) or it is of the next step already */
    unsigned closed; /* how many are, in the order of which their parameters are sent */
};

struct yk_server_pack {    /* --compress */
    struct yk_codec reply; /* how parameters go out; YK_CODEC_NONE: as they are */
    char *out;             /* they leave from here */
    float *
        known; /* (hi - lo) in step: what every worker that has been answered has; NULL: they come as they like */
    bool knows; /* ... once one has been */
};

struct yk_server {
    struct yk_comm *comm;
    const struct yk_rule *rule;
    struct yk_owner owner;
    unsigned index;         /* owner number, and endpoint */
    struct yk_clock *clock; /* owner 0; NULL elsewhere */
    struct yk_watcher watcher;
    bool ready; /* has its part of the state */

    struct yk_pushes table; /* what has arrived for the open step */
    struct yk_block *block; /* what is added up, for the call that does it */
    uint32_t *least;        /* (workers) incarnations below are dropped */
    bool *owed;             /* (workers) an answer; owner 0 has the clock for that */
    uint64_t *applied;      /* (workers) pushes applied here: tells a torn one */
    uint64_t *
        has; /* (workers) whole batches: the step whose parameters it has been sent; UINT64_MAX: none */
    struct yk_set_entry *set; /* (need) the set that is named */

    bool halted;      /* nothing is applied any more */
    bool holding;     /* answers wait for the state that the watcher wants to see */
    bool gathering;   /* it is under way, */
    unsigned missing; /* from so many owners */
    uint64_t
        gather_at; /* another owner: the step whose state the clock wants; UINT64_MAX if none */
    uint64_t *
        counted; /* (workers) ... and what it has applied of each by then: async pushes may still be on their way here */
    bool ended;  /* everybody has stopped and the state is as the watcher wants it */
    bool closed,
        clean; /* another owner: the clock said that the run is over, and that nobody was lost */
    yk_code failed; /* the job cannot go on */
    bool orphaned;  /* another owner: because owner 0 is lost */
    char why[256];
    atomic_uint sending;      /* messages whose data the engine still reads */
    unsigned accounts;        /* workers that have said where their time went, */
    char account_buffer[256]; /* and what they say while it arrives */
    struct yk_replace {
        bool *
            wanted; /* (workers) owner 0: lost, and a new one shall take their place; one at a time */
        unsigned wants;  /* how many */
        bool called;     /* everybody waits, and all are called to meet */
        unsigned worker; /* for this one */
    } replace;
    size_t count;               /* floats of all owners */
    struct yk_server_keys keys; /* sparse */
    struct yk_server_hold hold; /* sparse */
    struct yk_server_buckets buckets;
    struct yk_server_pack pack;
};

extern const struct yk_handler yk_server_handler;

/* `clock` for owner 0. Weights and slots as for yk_owner_init; in a sparse run they begin with the owner's own range: the value of `key` is
 * weights[key - lo], lo = yk_owner_at(index, owners, count), and nothing else need be there. */
yk_code yk_server_init(struct yk_server *s, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_recipe *recipe, float *weights,
                       float *const *slot, size_t count, struct yk_clock *clock,
                       const struct yk_watcher *watcher, struct yk_error *e);
void yk_server_release(struct yk_server *s);

/* Owner 0, before the first step: give the other processes' owners their part of the state, as of `step`. In a sparse run they keep what
 * they have (zeros, or what yk_server_put gave them), and only learn the step. */
void yk_server_seed(struct yk_server *s, uint64_t step, size_t count);

/* Owner 0, under its lock: stop soon, though no step has come to its end (a signal). */
void yk_server_stop(struct yk_server *s);
/* Owner 0, under its lock: tell all others that the run is over (`clean`: nobody was lost), or that it has failed. */
void yk_server_close(struct yk_server *s, bool clean);
void yk_server_fail(struct yk_server *s, yk_code code, const char *why);
/* Owner 0, under its lock: a new worker shall take the place of `w`, when everybody waits. */
void yk_server_want(struct yk_server *s, unsigned w);
/* Any owner, under its lock: the meeting for a new `w` is over; `done`: it is there. */
void yk_server_replaced(struct yk_server *s, unsigned w, bool done);
/* Owner 0, under its lock: the watcher answered YK_HOLD to NULL, and has now made up its mind. */
void yk_server_resume(struct yk_server *s, enum yk_verdict verdict);

/* Sparse: the state, a piece at a time. `s` is owner 0, `here` owners are in this process and follow it in memory. All four wait for
 * owners in other processes, so they are for a thread that is in no handler and holds no lock, one at a time. A lost owner is YK_LOST. */

/* out[i] = value of key[i], which is a sorted list without repetition, as the next step would see it. While nothing stands still it is
 * that of any step. */
yk_code yk_server_read(struct yk_server *s, unsigned here, const uint32_t *key, float *out,
                       size_t n, struct yk_error *e);
/* While everything stands still: every owner copies its range, to be fetched while training goes on; or lets go of the copy. */
yk_code yk_server_keep(struct yk_server *s, unsigned here, struct yk_error *e);
void yk_server_unkeep(struct yk_server *s, unsigned here);
/* n floats from flat index lo on, all of one owner's range, of its weights (which = 0) or state vector `which` - 1; from the copy if
 * there is one, else as they are now. */
yk_code yk_server_fetch(struct yk_server *s, unsigned here, unsigned owner, unsigned which,
                        size_t lo, size_t n, float *to, struct yk_error *e);
/* The opposite, before yk_server_seed: state that a checkpoint has. */
yk_code yk_server_put(struct yk_server *s, unsigned here, unsigned owner, unsigned which, size_t lo,
                      size_t n, const float *from, struct yk_error *e);

#endif
