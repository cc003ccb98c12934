/* mpi_engine.h - what the files of the MPI engine share. A file that includes this has included
 * mpi.h before (only those may).
 *
 *     mpi.c         the contract of comm.h: open, send, wait, close; the helper thread
 *     mpi_wire.c    parcels on the wire: notes and pieces, out and in
 *     mpi_deliver.c from the wire to the handlers, in order
 *     mpi_watch.c   which ranks are alive: heartbeats, pidfds, calls of lost()
 *     mpi_stall.c   whether MPI itself still answers
 *     mpi_join.c    the job: launchers, MPI_Init, agreeing, introductions
 *     mpi_spawn.c   a new process in the place of a lost one
 *
 * ON THE WIRE, between two ranks, on one communicator:
 *
 *     tag NOTE   [64-byte note][its data, if they are at most SMALL bytes]; always eager, so that
 *                it never waits for the receiver
 *     tag DATA   pieces of PIECE bytes (the last is shorter), in the order of their notes
 *     tag BEAT   one byte, when nothing else was sent for a while
 *
 * A message is a *parcel* at both ends. Between two ranks parcels go the more urgent ones first,
 * else in the order they were sent, whatever endpoints they are for, and are delivered in the order
 * they went.
 *
 * THREADS, locks from the outside in: an endpoint's lock (handlers run under it; owner before
 * worker) - `wire` (every MPI call, and what is marked [wire] below). Next to them `driving`:
 * its holder is the driver and alone may receive; fields marked [driver] are the driver's. A driver
 * only ever *tries* an endpoint's lock: a message for one that is busy waits, and everything
 * else goes on. */
#ifndef YK_COMM_MPI_ENGINE_H
#define YK_COMM_MPI_ENGINE_H

#include "base/wait.h"
#include "comm/comm.h"

#include <pthread.h>
#include <semaphore.h>

enum {
    PIECE = 256 * 1024,
    /* Pieces under way between two ranks, each way: enough for a fast wire, few enough for a
     * heartbeat to get through. */
    WINDOW = 16,
    /* Data of up to so many bytes travel with their note. With all headers that still is an eager
     * message of every transport; the smallest limit is that of shared memory, 4 KB. */
    SMALL = 3072,
    RING = 32, /* receives that wait for notes */
    BEATS = 8, /* receives that wait for heartbeats */
};
enum tag { TAG_NOTE = 1, TAG_DATA, TAG_BEAT, TAG_GROUP, TAG_TOLD };
/* Stands for the endpoint in a note between engines (mpi_spawn.c). Such a note queues with all
 * others and overtakes none. */
enum { ENGINE = 0xffff };
enum engine_kind { GONE, MARK, READY, VERDICT };
enum verdict { REFUSED, GRANTED, AGAIN };

struct wire {
    struct yk_note note;
    unsigned char small[SMALL];
};

struct parcel {
    struct parcel *next;
    int rank; /* where to, or where from */
    /* out: the sender's buffer; in: the buffer from place(), or NULL to throw the data away */
    void *data;
    size_t total;  /* bytes that travel in pieces: all of the data, or none if they are few */
    size_t posted; /* bytes of `total` that have been given to MPI */
    unsigned left; /* requests that are not complete, that of the note included */
    bool placed;   /* in: place() has been asked */
    bool noted;    /* out: the note has gone, so nothing overtakes this parcel any more */
    bool kept;     /* out: MPI may read the note until the process ends, so it is never reused */
    atomic_uint *pending; /* out: the sender's count of buffers in use; may be NULL */
    _Alignas(64) struct wire wire;
};

struct queue {
    struct parcel *first, *last;
};

static inline void yk_queue_push(struct queue *q, struct parcel *p)
{
    p->next = NULL;
    if (q->first == NULL)
        q->first = p;
    else
        q->last->next = p;
    q->last = p;
}

static inline struct parcel *yk_queue_pop(struct queue *q)
{
    struct parcel *p = q->first;
    q->first = p->next;
    return p;
}

/* How a rank introduces itself. */
struct card {
    int32_t ok; /* its engine is set up */
    int32_t rank, size, pid;
    int32_t endpoint; /* to a new process: the endpoint that it replaces */
    uint32_t round;   /* rounds of marks so far (mpi_spawn.c) */
    uint32_t told;    /* to a new process: length of the text that rank 0 sends it */
    char host[64];
    char boot[40]; /* the kernel's boot id, because two hosts may have one name */
    uint64_t pids; /* the namespace that `pid` belongs to */
    struct daemon {
        /* "address,...:port" where mpirun's daemon on its host listens; "" if there is none. */
        char at[120];
    } daemon;
};

struct peer { /* a rank */
    int at;   /* its rank in the communicator; -1: it is not in it */
    /* No message from or to this rank passes any more. Set by any thread; the driver then reaps
     * the rank. */
    atomic_bool fenced;
    bool reaped; /* [driver] */

    struct queue out;    /* [wire] parcels with a note or a piece still to post, in their order */
    unsigned out_flight; /* [wire] pieces on their way to it */
    MPI_Request beat;    /* [wire] the last heartbeat to it */
    double told;         /* [wire] when something was last sent to it */

    struct queue in;       /* [driver] parcels not yet delivered, oldest first */
    struct parcel *filing; /* [driver] the first of them that is not filed (mpi_deliver.c) */
    unsigned in_flight;    /* [wire] pieces on their way from it */
    bool busy;             /* [driver] `in` has parcels, so it is in the engine's list `busy` */
    struct peer *next_busy;
    void *scrap; /* [driver] PIECE bytes for data that are thrown away */

    bool watched;
    int pidfd;         /* -1: on another host, or closed */
    double grace;      /* seconds of silence after which it is lost */
    double silent;     /* [driver] seconds of silence so far, while this process was awake */
    double dead;       /* [driver] when its pidfd reported its end; 0: it has not */
    unsigned told_of;  /* [driver] bit i: lost() has been called on endpoint here[i] */
    unsigned marked;   /* [driver] the round of the last MARK from it */
    unsigned ready;    /* [driver] the round of the last READY from it */
    uint64_t ready_as; /* [driver] that READY: a hash of the ranks that it takes for lost */
    bool ready_quiet;  /* [driver] that READY: it sent nothing while it waited for the marks */
    atomic_bool lost;  /* set once; `why` has been written before */
    char why[160];
};

struct endpoint {
    int rank;
    /* The next five fields are used for endpoints of this process only. */
    pthread_mutex_t lock;
    _Atomic(const struct yk_handler *) handler; /* NULL until attached: messages wait for it */
    void *arg;
    _Alignas(64) struct yk_wait arrived; /* messages delivered so far */
    atomic_uint idle;                    /* looks that found nothing since the last arrival */
    _Alignas(64) atomic_ullong sent;     /* traffic with an endpoint of another process */
    atomic_ullong received, messages_sent, messages;
};

enum active_kind {
    ACTIVE_NONE,
    ACTIVE_RING,
    ACTIVE_BEAT,
    ACTIVE_NOTE, /* from here on there is a parcel */
    ACTIVE_OUT,
    ACTIVE_IN
};
struct active { /* the purpose of a request */
    enum active_kind kind;
    struct parcel *parcel;
};
enum { LIST_RING, LIST_BEAT, LIST_REST }; /* the list's first two entries are fixed */

struct engine {
    struct yk_comm comm;
    MPI_Comm mpi; /* [wire] */
    int rank, size;
    bool together;
    double heartbeat;
    struct peer *peer;     /* by rank */
    struct endpoint *end;  /* by endpoint */
    struct card *card;     /* by rank */
    struct daemon *daemon; /* by rank, as of the start of the job */
    int *who;              /* [wire] the rank of the job at each rank of the communicator */
    int here[2], heres;    /* the endpoints of this process */
    _Alignas(64) pthread_mutex_t driving;
    _Alignas(64) pthread_mutex_t wire;

    /* [wire] The list of requests under way. */
    MPI_Request *request;  /* (room) */
    struct active *active; /* (room) the purpose of each */
    int *index;            /* (room) from MPI_Testsome: the requests that are complete */
    MPI_Status *status;    /* (room) from MPI_Testsome: how each of those ended */
    struct active *done;   /* (room) the purpose of each of those */
    int listed, room;
    struct parcel *spare; /* [wire] parcels not in use */
    atomic_uint turns;    /* looks at the list that have ended; changed under `wire` */
    atomic_uint flight;   /* pieces under way, both ways, all peers; changed under `wire` */
    atomic_uint bulk;     /* those of messages that have a full piece; changed under `wire` */
    struct peer *busy;    /* [driver] the peers with parcels to deliver */
    atomic_uint fences;   /* ranks that were fenced since the driver last looked for them */
    struct { /* [wire] receives for notes, in the order they were posted from `head` on */
        MPI_Request request[RING];
        struct parcel *parcel[RING];
        int head;
    } ring;
    struct {
        MPI_Request request[BEATS];
        unsigned char byte[BEATS];
        int head;
    } beats;

    double ticked;       /* [driver] when mpi_watch.c last looked */
    int epoll;           /* pidfds of the watched ranks of this host */
    double period;       /* between heartbeats */
    atomic_llong due;    /* when to look again whether heartbeats are due, in nanoseconds */
    atomic_bool closing; /* lost() is not called any more */
    MPI_Request parting; /* [wire] the last barrier */
    atomic_bool deaths;  /* a rank was lost or fenced, so MPI_Finalize is not called any more */
    atomic_bool stuck;   /* a thread hangs inside MPI: the process can only end */

    /* Replacement of a rank (mpi_spawn.c). */
    unsigned round;         /* rounds of marks so far */
    atomic_ullong sends;    /* messages that endpoints here have sent to other ranks */
    unsigned verdict_round; /* [driver] the round of the last verdict */
    enum verdict verdict;   /* [driver] the last verdict of rank 0 */
    atomic_bool replacing;  /* a thread holds `wire` while MPI starts a process */

    struct { /* mpi_stall.c */
        struct yk_mpi_plan plan;
        pthread_t thread;
        bool looks;
        sem_t stop;
    } stall;
    pthread_t helper;
    bool helping;
    atomic_bool stop;
    /* When a waiting thread last drove, in nanoseconds: the helper leaves the work to it. */
    _Alignas(64) atomic_llong driven;
};

/* mpi_wire.c. In brackets: the locks that the caller holds. */

/* Post the receives of a new communicator; withdraw them [wire, or before other threads run]. */
yk_code yk_mpi_ring(struct engine *m, struct yk_error *e);
void yk_mpi_unring(struct engine *m);
/* Put a message on its way to another rank. */
void yk_mpi_post(struct engine *m, int rank, const struct yk_note *note, const void *data,
                 size_t bytes, atomic_uint *pending);
/* Ask MPI which requests are complete, and return their number [driver, wire]. Sets *moved if one
 * of them was more than a heartbeat, and *note if a note has come. */
int yk_mpi_collect(struct engine *m, struct parcel **note, bool *moved);
/* Post receives for the data of a parcel, as far as the window allows [driver]. True when all
 * are posted. */
bool yk_mpi_receive(struct engine *m, struct peer *p, struct parcel *q);
/* Give back a parcel that has done its work [wire]. */
void yk_mpi_give(struct engine *m, struct parcel *p);
/* Let go of a rank that was fenced [driver]. */
void yk_mpi_reap(struct engine *m, int rank);
/* Communication with this rank has failed [wire]. */
void yk_mpi_lose(struct engine *m, int rank, const char *why);
void yk_mpi_release_wire(struct engine *m);

/* mpi_deliver.c */
/* Look at everything that may have moved, and deliver what has arrived [driver]. True if something
 * had moved. */
bool yk_mpi_pass(struct engine *m);
/* Hand a message to an endpoint of this process, from this process. */
void yk_mpi_hand(struct engine *m, const struct yk_note *note, const void *data);
/* Something has happened at an endpoint of this process: wake the thread that waits there. */
void yk_mpi_wake(struct endpoint *end);

/* mpi_watch.c */
void yk_mpi_watch_open(struct engine *m);
void yk_mpi_watch_close(struct engine *m);
void yk_mpi_watch_rank(struct engine *m, int rank); /* begin to watch, or begin anew */
/* The caller drives: look for deaths and silence, and call lost(). */
void yk_mpi_watch(struct engine *m, double now);
/* Send the heartbeats that are due. From any thread. */
void yk_mpi_beat(struct engine *m, double now);

/* mpi_stall.c. After close, stalled() is not called any more; an engine that must be left as it is
 * (comm.h) is closed here all the same. */
void yk_mpi_stall_open(struct engine *m, const struct yk_mpi_plan *plan);
void yk_mpi_stall_close(struct engine *m);

/* mpi_join.c */
struct job { /* MPI is initialised once a process, so there is one of these, in mpi_join.c */
    MPI_Comm comm;
    int rank, size;
    int endpoint;       /* of a replacement; else -1 */
    int present;        /* of a replacement: ranks in `comm`, which may be fewer than `size` */
    struct card *cards; /* (present) the cards of those ranks */
    unsigned round;     /* of a replacement: rounds of marks so far */
    char *told;         /* rank 0's text for a replacement */
};
const struct job *yk_mpi_job(void);
void yk_mpi_introduce(struct card *mine);
/* MPI_Iallgather that gives up after `seconds`. */
yk_code yk_mpi_gather(MPI_Comm comm, const void *mine, size_t n, void *all, double seconds,
                      struct yk_error *e);
/* Rank 0 of `comm` to a new process: `n` bytes, as its card says. */
yk_code yk_mpi_tell(MPI_Comm comm, int to, const char *text, size_t n, double seconds,
                    struct yk_error *e);
void yk_mpi_error(int rc, char *text, size_t size); /* in words */
bool yk_mpi_finalize(void); /* false: a rank is missing, so it was not tried */
#define YK_MPI_MEETING 20.0 /* seconds within which all ranks must come to a meeting */

/* mpi_spawn.c */
/* The cards say which process is which rank of the communicator; missing ranks are fenced. */
void yk_mpi_take_places(struct engine *m, const struct card *cards, int present);

/* mpi.c */
void yk_mpi_fence(struct engine *m, int rank);
/* Drive until `until` says so or `seconds` have passed; returns its last answer. */
bool yk_mpi_drive_until(struct engine *m, bool (*until)(struct engine *m), double seconds);

#endif
