/* comm.h - messages between endpoints: the owners and the workers of a run.
 *
 * An *endpoint* is a party of the training: owners are 0 .. owners-1, workers owners .. owners+workers-1. A message is a
 * *note* of 64 bytes and, often, data after it; what the note says is the strategy's business. It is delivered by calling the
 * receiver's handler, never by a queue that somebody has to empty:
 *
 *     inproc.c   endpoints are threads of one process. send() takes the receiver's lock and calls its handler there and then, with the
 *                sender's own buffer: a push is a function call.
 *     mpi.c      endpoints live in processes (the only file that includes mpi.h). The note goes ahead, the receiver's place() says where
 *                the data shall go, it arrives there without another copy, in pieces, and the handler is called.
 *
 * Handlers of one endpoint never run at the same time (they run under the endpoint's lock) and see the messages of one sender in the
 * order they were sent, but for urgent ones (note.urgency, mostly 0), which overtake what still waits for its turn on the wire. A handler
 * may send (owner to worker, or clock to anybody), but never from a worker's handler to an owner: locks are taken in the order owner,
 * worker.
 *
 * Waiting: an endpoint counts what arrives; wait() returns when the count has moved. In threads it yields a few hundred
 * times, then sleeps on a futex; over MPI whoever waits drives the engine, and a helper thread drives whenever nobody has for
 * a millisecond, so that heartbeats, rendezvous and an owner's duty go on while a worker computes.
 * THREADS: send, wait, seen and lock may be called from any thread; open, attach, agree and close from one. */
#ifndef YK_COMM_COMM_H
#define YK_COMM_COMM_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct
    yk_note { /* travels as it is: all ranks run the same binary, which is checked when they meet */
    uint16_t from, to; /* endpoints */
    uint8_t kind;      /* the strategy's, as all that follows but `bytes`; comm carries it unread */
    uint8_t urgency;
    uint16_t flags;
    uint32_t incarnation;
    uint32_t examples;
    uint64_t bytes; /* of the data that follow; set by send */
    uint64_t step;
    uint64_t id;
    uint64_t lo; /* where the data belong */
    union {
        double loss;
        uint64_t word;
    };
    uint32_t first, last;
};
_Static_assert(sizeof(struct yk_note) == 64, "one cache line, one eager message");

enum { YK_AT_ONCE = 255 }; /* the most urgent */

/* Does a message overtake an earlier one to the same process? At once: everything. Other urgent ones: what is not urgent or of a later step, and
 * of their own step what is less urgent. */
static inline bool yk_note_overtakes(const struct yk_note *n, const struct yk_note *earlier)
{
    if (n->urgency == YK_AT_ONCE || n->urgency == 0 || earlier->urgency == 0)
        return n->urgency > earlier->urgency;
    return earlier->urgency != YK_AT_ONCE &&
           (n->step < earlier->step || (n->step == earlier->step && n->urgency > earlier->urgency));
}

struct yk_handler {
    /* Where shall the data of this note go? Asked over MPI only, before data arrive; under the endpoint's lock, must not block or
     * send. NULL: take them off the wire and throw them away; arrive() is then called with data == NULL. */
    void *(*place)(void *arg, const struct yk_note *note);
    /* The note and its data are here. Over MPI `data` is what place() answered; in threads it is the sender's buffer, and how
     * long it stays valid is what the two strategies have agreed upon. NULL if there are none. */
    void (*arrive)(void *arg, const struct yk_note *note, const void *data);
    /* The process behind this endpoint has died, or was silent for longer than its grace. Called once a peer, on each endpoint of a rank that
     * watches it. May be NULL. */
    void (*lost)(void *arg, int endpoint, const char *why);
    /* Over MPI, of a sender in this process: shall arrive() get its buffer, as in threads? NULL: never; place() is asked. */
    bool (*near)(void *arg, const struct yk_note *note);
};

/* Notes included. */
struct yk_traffic {
    uint64_t sent, received;          /* bytes */
    uint64_t messages_sent, messages; /* messages out, in */
};

struct yk_comm; /* a few words that both engines share, then the engine's own */

struct yk_comm_ops {
    const char *name; /* "threads" or "mpi" */
    /* The handler of an endpoint of this process. All are attached before the first send. */
    void (*attach)(struct yk_comm *c, int endpoint, const struct yk_handler *h, void *arg);
    /* Deliver to note->to (note->from and note->to are the caller's to set). Never blocks for the receiver. `data` must stay as they
     * are until the engine has let go of them: *pending (may be NULL if bytes == 0) is raised by one now and lowered by one then. A send
     * to an endpoint that is gone is let go of at once. */
    void (*send)(struct yk_comm *c, struct yk_note *note, const void *data, size_t bytes,
                 atomic_uint *pending);
    /* How many messages have arrived at `endpoint` (wraps round). */
    unsigned (*seen)(struct yk_comm *c, int endpoint);
    /* Until the count is no longer `seen`, or `seconds` have passed. */
    void (*wait)(struct yk_comm *c, int endpoint, unsigned seen, double seconds);
    /* Until nothing uses the buffers that raised `pending` any more. */
    void (*settle)(struct yk_comm *c, atomic_uint *pending);
    /* An endpoint's lock, for code outside its handlers. */
    void (*lock)(struct yk_comm *c, int endpoint);
    void (*unlock)(struct yk_comm *c, int endpoint);
    /* From now on what this endpoint sends is dropped, what is sent to it is let go of, and lost() is not called for it again. */
    void (*fence)(struct yk_comm *c, int endpoint);
    /* In threads: all that this endpoint has sent and received. Over MPI: what has passed between this process and that endpoint of
     * another one. */
    void (*traffic)(struct yk_comm *c, int endpoint, struct yk_traffic *out);
    /* `clean`: everybody is still there, so the engine may meet for a last time. Otherwise it leaves as it is, and the process must
     * end by _exit. Returns false if it must end so. */
    bool (*close)(struct yk_comm *c, bool clean);
};

struct yk_comm {
    const struct yk_comm_ops *ops;
    int owners, workers;
    bool
        shared; /* one address space: data may be read where they are until the sender has been answered */
};

static inline int yk_owner_endpoint(int owner)
{
    return owner;
}

static inline int yk_worker_endpoint(const struct yk_comm *c, int worker)
{
    return c->owners + worker;
}

static inline void yk_comm_send(struct yk_comm *c, struct yk_note *note, const void *data,
                                size_t bytes, atomic_uint *pending)
{
    c->ops->send(c, note, data, bytes, pending);
}

/* inproc.c: all endpoints are in this process. */
yk_code yk_comm_threads(struct yk_comm **out, int owners, int workers, struct yk_error *e);

/* mpi.c. Was this process started by mpirun or srun? Looks at the environment only. */
bool yk_mpi_launched(void);

struct yk_mpi { /* what there is to know about the job */
    int rank, size;
    bool
        recovery; /* the death of one rank does not end the others: orte_enable_recovery is set, or it is srun's (without -K) */
    /* started by yk_mpi_replace, in the place of `endpoint`: the others are at work, so there is no yk_mpi_agree for it, only yk_comm_mpi */
    bool replacement;
    int endpoint;
};

/* Meet the others (MPI_Init). A launcher of another MPI, which makes N worlds of one, is YK_USAGE and says so. */
yk_code yk_mpi_join(struct yk_mpi *out, struct yk_error *e);

/* Everybody hands in `n` bytes and sees everybody's, rank after rank in `all`. The job's first meeting: how ranks find out that one of
 * them failed, or runs another binary or configuration. */
yk_code yk_mpi_agree(const void *mine, size_t n, void *all, struct yk_error *e);

struct yk_mpi_plan {
    int owners, workers;
    bool
        together; /* all-reduce: owner k and worker k share rank k; otherwise owners have the first ranks */
    double
        heartbeat; /* seconds of silence after which a rank counts as lost; 0: 2 on one host, 5 between hosts */
};
/* The endpoints over the ranks of the job. Rank 0 (with owner 0, the clock) watches all, all watch rank 0 (10 s). */
yk_code yk_comm_mpi(struct yk_comm **out, const struct yk_mpi_plan *plan, struct yk_error *e);
int yk_comm_rank(const struct yk_comm *c, int endpoint); /* of an endpoint, over MPI */
/* Host name, process id of a rank. */
const char *yk_comm_host(const struct yk_comm *c, int rank);
int yk_comm_pid(const struct yk_comm *c, int rank);

/* All survivors of a loss call this together, as the clock told them to: starts a new process in the place of `endpoint` (whose fence
 * falls) and goes on in a new world. YK_FAILED, quickly and on all of them, where the engine cannot. */
yk_code yk_mpi_replace(struct yk_comm *c, int endpoint, char *const *argv, struct yk_error *e);

/* Leave before there was a comm: all ranks have agreed to fail, or there was nothing to do. */
void yk_mpi_leave(void);

#endif
