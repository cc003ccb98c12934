/* server.h - an owner's end of the wire: collects what workers push, applies it when the rule says so, and answers. Owner 0 also
 * holds the clock.
 *
 * The owner is a passive state machine: in threads a push is a call into it, over MPI a rank drives it from its message loop.
 * THREADS: the handlers run under the lock of the owner's endpoint; so must everything else that is called while workers run. */
#ifndef YK_STRATEGY_SERVER_H
#define YK_STRATEGY_SERVER_H

#include "strategy/clock.h"
#include "strategy/owner.h"
#include "strategy/push.h"

/* What whoever watches the training wants after a step. */
enum yk_verdict {
    YK_GO,    /* the next step */
    YK_LOOK,  /* to see the whole state first: fetch what other processes own, then call me again */
    YK_HALT,  /* no further step; the state is what the owners have when everybody has stopped */
    YK_LEAVE, /* no further step, and nothing changes any more: the watcher has the state it wants */
};

struct yk_stepped {    /* an applied update */
    uint64_t step;     /* updates so far */
    uint32_t examples; /* of this one */
    double loss;       /* summed over them */
};

struct yk_watcher {
    /* Called by owner 0, under its lock, after every update; with NULL when the state that YK_LOOK asked for is there. */
    enum yk_verdict (*stepped)(void *arg, const struct yk_stepped *s);
    /* A process is gone. `worker` is -1 if it was an owner, which ends the job. True: go on without it. */
    bool (*lost)(void *arg, int worker, const char *why);
    /* A worker says where its time went. */
    void (*account)(void *arg, unsigned worker, const void *data, size_t bytes);
    void *arg;
};

struct yk_server {
    struct yk_comm *comm;
    const struct yk_rule *rule;
    struct yk_owner owner;
    unsigned index;         /* owner number, and endpoint */
    struct yk_clock *clock; /* owner 0; NULL elsewhere */
    struct yk_watcher watcher;
    bool ready; /* has its part of the state */

    struct yk_pushes table;   /* what has arrived for the open step */
    struct yk_block *block;   /* what is added up, for the call that does it */
    uint32_t *least;          /* (workers) incarnations below are dropped */
    bool *owed;               /* (workers) an answer; owner 0 has the clock for that */
    uint64_t *applied;        /* (workers) pushes applied here: tells a torn one */
    struct yk_set_entry *set; /* (need) the set that is named */

    bool halted;        /* nothing is applied any more */
    bool holding;       /* answers wait for the state that the watcher wants to see */
    bool gathering;     /* it is under way, */
    unsigned missing;   /* from so many owners */
    uint64_t gather_at; /* another owner: the step whose state the clock wants; UINT64_MAX if none */
    uint64_t *counted;  /* (workers) ... and what it has applied of each by then: async pushes may still be on their way here */
    bool ended;         /* everybody has stopped and the state is as the watcher wants it */
    bool closed, clean; /* another owner: the clock said that the run is over, and that nobody was lost */
    yk_code failed;     /* the job cannot go on */
    bool orphaned;      /* another owner: because owner 0 is lost */
    char why[256];
    atomic_uint sending;      /* messages whose data the engine still reads */
    unsigned accounts;        /* workers that have said where their time went, */
    char account_buffer[256]; /* and what they say while it arrives */
    struct yk_replace {
        bool *wanted;    /* (workers) owner 0: lost, and a new one shall take their place; one at a time */
        unsigned wants;  /* how many */
        bool called;     /* everybody waits, and all are called to meet */
        unsigned worker; /* for this one */
    } replace;
    size_t count; /* floats of all owners */
};

extern const struct yk_handler yk_server_handler;

/* `clock` for owner 0. Weights and slots as for yk_owner_init. */
yk_code yk_server_init(struct yk_server *s, struct yk_comm *comm, const struct yk_rule *rule, unsigned index,
                       const struct yk_recipe *recipe, float *weights, float *const *slot, size_t count, struct yk_clock *clock,
                       const struct yk_watcher *watcher, struct yk_error *e);
void yk_server_release(struct yk_server *s);

/* Owner 0, before the first step: give the other processes' owners their part of the state, as of `step`. */
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

#endif
