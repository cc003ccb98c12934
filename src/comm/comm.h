/* comm.h - messages between endpoints: the owners and the workers of a run.
 *
 * An *endpoint* is a party of the training: owners are 0 .. owners-1, workers owners ..
 * owners+workers-1. A message is a *note* of 64 bytes, often with data behind it; only the sender
 * and the receiver know what the note says. It is delivered by a call of the receiver's handler,
 * never by a queue that has to be emptied:
 *
 *     inproc.c   endpoints are threads of one process. send() takes the receiver's lock and calls
 *                its handler at once, with the sender's own buffer: a push is a function call.
 *     mpi*.c     endpoints live in processes. The note goes ahead, the receiver's place() names a
 *                buffer, the data arrive there in pieces without another copy, and the handler is
 *                called. mpi_engine.h lists these files.
 *
 * Handlers of one endpoint run under its lock, so never at the same time. They see the messages of
 * one sender in the order in which they were sent, except that urgent ones (note.urgency) overtake
 * those that still wait for the wire. A handler may send (owner to worker, or clock to any
 * endpoint), but a worker's handler never sends to an owner: locks are taken in the order owner,
 * worker.
 *
 * WAITING: an endpoint counts its arrivals, and wait() returns when the count has moved. In threads
 * a waiter yields a few hundred times, then sleeps on a futex. Over MPI a waiter drives the engine,
 * and a helper thread drives it when no thread has for a millisecond, so that heartbeats,
 * rendezvous and an owner's duty go on while a worker computes.
 * THREADS: send, wait, seen and lock may be called from any thread; open, attach, agree and close
 * from one. */
#ifndef YK_COMM_COMM_H
#define YK_COMM_COMM_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A note travels as it is: all ranks run the same binary, which is checked when they meet. comm
 * reads the header only; `kind` says which member of the union its sender has filled in. */
struct yk_note {
    uint16_t from, to; /* endpoints */
    uint8_t kind;      /* strategy/wire.h, or the enum of another program */
    uint8_t urgency;   /* 0 waits its turn; see yk_note_overtakes */
    uint16_t flags;
    uint32_t incarnation; /* of the worker that sends it, or that it is about */
    uint32_t examples;    /* of a push or a task */
    uint64_t bytes;       /* of the data that follow; set by send */
    uint64_t step;        /* of the parameters that the message belongs to */
    union {
        struct {         /* a sum of gradients */
            uint64_t id; /* the task: first example of its batch */
            union {
                uint64_t lo;       /* dense: flat index of the first float */
                struct {           /* sparse: numbers of two lists of keys; 0: none */
                    uint32_t ask;  /* the list that the gradients belong to */
                    uint32_t next; /* the list that follows them */
                };
            };
            double loss;          /* summed over the examples */
            uint32_t first, last; /* shards of the sum */
        } push;
        struct { /* parameters, and from owner 0 what to do with them */
            uint64_t id;
            union {
                uint64_t lo;  /* dense: flat index of the first float */
                uint32_t ask; /* sparse: number of the list of keys */
            };
            uint64_t ahead;       /* the task after this one */
            uint32_t first, last; /* shards */
        } task;
        struct {            /* a worker, as owners talk about it */
            uint64_t id;    /* a push of it */
            uint64_t count; /* its pushes that were applied */
            uint32_t worker;
            uint32_t code; /* why it cannot go on */
        } member;
        struct {            /* a question about an owner's state, and its answer */
            uint64_t id;    /* number of the question, which its answer repeats */
            uint64_t lo;    /* flat index of the first float */
            uint64_t n;     /* floats */
            uint32_t which; /* 0: weights, 1..: state vectors of the optimizer */
            uint32_t asked; /* kind of the question */
        } state;
        struct { /* matmul: a block of a matrix */
            uint64_t row, col, cols;
            uint32_t rows;
            uint32_t slot; /* the receive, or the phase of a report */
        } block;
        struct { /* netcheck: a message of a measurement */
            uint64_t id, lo;
            double seconds;
            uint32_t first, last;
        } probe;
        uint64_t word[4];
    };
};
_Static_assert(sizeof(struct yk_note) == 64, "one cache line, one eager message");

enum { YK_AT_ONCE = 255 }; /* the most urgent */

/* Does a message overtake an earlier one to the same process? YK_AT_ONCE overtakes all others.
 * Other urgent messages overtake those that are not urgent, those of later steps, and the less
 * urgent ones of their own step. */
static inline bool yk_note_overtakes(const struct yk_note *n, const struct yk_note *earlier)
{
    if (n->urgency == YK_AT_ONCE || n->urgency == 0 || earlier->urgency == 0)
        return n->urgency > earlier->urgency;
    return earlier->urgency != YK_AT_ONCE &&
           (n->step < earlier->step || (n->step == earlier->step && n->urgency > earlier->urgency));
}

struct yk_handler {
    /* Names a buffer for the data of this note. Called over MPI only, before data arrive; under the
     * endpoint's lock, must not block or send. NULL: take them off the wire and throw them away;
     * arrive() is then called with data == NULL. */
    void *(*place)(void *arg, const struct yk_note *note);
    /* The note and its data are here. Over MPI `data` is the buffer from place(); in threads it is
     * the sender's buffer, and stays valid as long as sender and receiver have agreed. NULL: there
     * are none. */
    void (*arrive)(void *arg, const struct yk_note *note, const void *data);
    /* The process behind this endpoint has died, or was silent for longer than its grace. Called
     * once a peer, on each endpoint of a rank that watches it. May be NULL. */
    void (*lost)(void *arg, int endpoint, const char *why);
    /* Over MPI, for a sender in this process: shall arrive() get its buffer, as in threads? NULL:
     * never; place() is called. */
    bool (*near)(void *arg, const struct yk_note *note);
};

struct yk_traffic {                   /* notes included */
    uint64_t sent, received;          /* bytes */
    uint64_t messages_sent, messages; /* messages out, in */
};

struct yk_comm; /* a few words that both engines share, then the engine's own */

struct yk_comm_ops {
    const char *name; /* "threads" or "mpi" */
    /* The handler of an endpoint of this process. All are attached before the first send. */
    void (*attach)(struct yk_comm *c, int endpoint, const struct yk_handler *h, void *arg);
    /* Deliver to note->to (note->from and note->to are the caller's to set). Never blocks for
     * the receiver. `data` must stay as they are until the engine has let go of them: *pending
     * (may be NULL if bytes == 0) is raised by one now and lowered by one then. A send to an
     * endpoint that is gone is let go of at once. */
    void (*send)(struct yk_comm *c, struct yk_note *note, const void *data, size_t bytes,
                 atomic_uint *pending);
    /* How many messages have arrived at `endpoint` (wraps round). */
    unsigned (*seen)(struct yk_comm *c, int endpoint);
    /* Wait until the count is no longer `seen`, or `seconds` have passed. */
    void (*wait)(struct yk_comm *c, int endpoint, unsigned seen, double seconds);
    /* Wait until nothing uses the buffers that raised `pending` any more. */
    void (*settle)(struct yk_comm *c, atomic_uint *pending);
    /* An endpoint's lock, for code outside its handlers. */
    void (*lock)(struct yk_comm *c, int endpoint);
    void (*unlock)(struct yk_comm *c, int endpoint);
    /* From now on messages from this endpoint are dropped, messages to it are let go of, and
     * lost() is not called for it again. */
    void (*fence)(struct yk_comm *c, int endpoint);
    /* In threads: all traffic of this endpoint. Over MPI: the traffic between this process and an
     * endpoint of another one. */
    void (*traffic)(struct yk_comm *c, int endpoint, struct yk_traffic *out);
    /* `clean`: all processes are still there, so they may meet for a last time. Otherwise the
     * engine stays as it is, and the process must end by _exit. Returns false if it must end so. */
    bool (*close)(struct yk_comm *c, bool clean);
};

struct yk_comm {
    const struct yk_comm_ops *ops;
    int owners, workers;
    /* One address space: data may be read where they are until their sender has been answered. */
    bool shared;
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
/* Was it started by yk_mpi_replace? Looks at the environment only. */
bool yk_mpi_replaces(void);

struct yk_mpi { /* the job */
    int rank, size;
    /* The death of one rank does not end the others: orte_enable_recovery is set, or srun started
     * the job (without -K). */
    bool recovery;
    /* This process was started by yk_mpi_replace, in the place of `endpoint`. The others are at
     * work, so it calls yk_comm_mpi without yk_mpi_agree. */
    bool replacement;
    int endpoint;
    const char *told; /* rank 0's text for a replacement, for the life of the process; else "" */
};

/* Meet the others (MPI_Init). A launcher of another MPI, which makes N worlds of one, is
 * YK_USAGE and says so. On one host ranks talk by shared memory alone and listen nowhere, unless
 * yk_mpi_replace may be called later (`replaces`), whose processes only TCP reaches. */
yk_code yk_mpi_join(struct yk_mpi *out, bool replaces, struct yk_error *e);

/* Every rank hands in `n` bytes and gets those of all, rank after rank, in `all`. The job's first
 * meeting: how ranks find out that one of them failed, or runs another binary or configuration. */
yk_code yk_mpi_agree(const void *mine, size_t n, void *all, struct yk_error *e);

struct yk_mpi_plan {
    int owners, workers;
    /* All-reduce: owner k and worker k share rank k; otherwise owners have the first ranks. */
    bool together;
    /* Seconds of silence after which a rank counts as lost; 0: 2 on one host, 5 between hosts. */
    double heartbeat;
    /* Open MPI has not returned to a thread for `seconds` (a TCP connection that sends nothing can
     * block it). Called once more when that is `over`; `text` is a message for users. Called on a
     * thread of its own, which must not wait for any lock. May be NULL. */
    void (*stalled)(void *arg, const char *text, double seconds, bool over);
    void *stalled_arg;
};
/* Spread the endpoints over the ranks of the job. Rank 0, which has owner 0, watches all other
 * ranks. They watch rank 0, which is lost after 10 s of silence. */
yk_code yk_comm_mpi(struct yk_comm **out, const struct yk_mpi_plan *plan, struct yk_error *e);
int yk_comm_rank(const struct yk_comm *c, int endpoint); /* of an endpoint, over MPI */
/* Host name, process id of a rank. */
const char *yk_comm_host(const struct yk_comm *c, int rank);
int yk_comm_pid(const struct yk_comm *c, int rank);

/* Start a new process in the place of `endpoint`, and lift the fence of it. All survivors call this
 * together, when the clock tells them to. YK_FAILED, soon and on all of them: it cannot be done
 * here. YK_LOST: this process can only end. The new process finds rank 0's `text` in yk_mpi.told;
 * argv and text of other ranks are not used. */
yk_code yk_mpi_replace(struct yk_comm *c, int endpoint, char *const *argv, const char *text,
                       struct yk_error *e);

/* Leave before there was a comm: all ranks have agreed to fail, or there was nothing to do. */
void yk_mpi_leave(void);

#endif
