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
    /* Bytes that, with their headers, are an eager message of every transport (shared memory: 4
     * KB). */
    SMALL = 3072,
    RING = 32, /* notes that may arrive between two looks */
    BEATS = 8, /* the same for heartbeats */
};
enum tag { TAG_NOTE = 1, TAG_DATA, TAG_BEAT, TAG_GROUP, TAG_TOLD };
/* Notes between engines have no endpoint. They keep their place among the others, as
 * marks must. */
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
    /* out: the sender's buffer. In: the buffer from place(); NULL throws the data away */
    void *data;
    size_t total;  /* bytes that travel in pieces: all of the data, or none if they are few */
    size_t posted; /* bytes of them that have been given to MPI */
    unsigned left; /* requests not yet complete, a note's included */
    bool placed;   /* in: place() has been asked */
    bool noted;    /* out: the note has gone: nothing overtakes it any more */
    bool kept;     /* MPI may still read the note: never to be used again */
    atomic_uint *pending;
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
    uint32_t round;   /* of marks: how many there have been */
    uint32_t told;    /* to a new process: bytes that rank 0 sends it */
    char host[64];
    char boot[40]; /* the kernel's boot id: host names may repeat */
    uint64_t pids; /* the namespace of the pid */
    struct daemon {
        /* "address,...:port" where mpirun's daemon on its host listens; "" if there is none. */
        char at[120];
    } daemon;
};

struct peer { /* a rank */
    int at;   /* its rank in the communicator; -1: not in it (any more) */
    /* The strategy has let go of it: nothing passes any more. Set by any thread, acted upon by the
     * driver. */
    atomic_bool fenced;
    bool reaped; /* [driver] the driver has acted upon the fence */

    struct queue out;    /* [wire] parcels that have something left to post, in their order */
    unsigned out_flight; /* [wire] pieces under way */
    MPI_Request beat;    /* [wire] the last heartbeat to it */
    double told;         /* [wire] when something was last sent to it */

    struct queue in;       /* [driver] parcels not yet delivered, oldest first */
    struct parcel *filing; /* [driver] the first of them that is not placed and posted to its end */
    unsigned in_flight;    /* [wire] pieces under way */
    bool busy;             /* [driver] in the list of peers with something in `in` */
    struct peer *next_busy;
    void *scrap; /* [driver] PIECE bytes for data that are thrown away */

    bool watched;
    int pidfd;         /* -1: on another host, or closed */
    double grace;      /* seconds of silence after which it is lost */
    double silent;     /* [driver] seconds of it so far, while this process was awake */
    double dead;       /* [driver] when its pidfd spoke; 0: it has not */
    unsigned told_of;  /* [driver] bit i: endpoint i of this process has been told of its loss */
    unsigned marked;   /* [driver] the round of the last MARK, READY from it */
    unsigned ready;    /* [driver] */
    uint64_t ready_as; /* [driver] which ranks it takes for lost */
    bool ready_quiet;  /* [driver] nothing was sent while it waited */
    atomic_bool lost;  /* `why` says how; set once */
    char why[160];
};

struct endpoint {
    int rank;
    /* of endpoints in this process */
    pthread_mutex_t lock;
    _Atomic(const struct yk_handler *) handler; /* NULL until attached: messages wait for it */
    void *arg;
    _Alignas(64) struct yk_wait arrived; /* messages delivered so far */
    atomic_uint idle;                    /* looks in vain of the thread that waits here */
    _Alignas(64) atomic_ullong sent;
    atomic_ullong received, messages_sent, messages;
};

enum active_kind {
    ACTIVE_NONE,
    ACTIVE_RING,
    ACTIVE_BEAT,
    ACTIVE_NOTE,
    ACTIVE_OUT,
    ACTIVE_IN
};              /* the last three have a parcel */
struct active { /* the purpose of a request in the list below */
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
    struct daemon *daemon; /* by rank, as of the beginning */
    int *who;              /* [wire] rank in the communicator -> rank */
    int here[2], heres;    /* the endpoints of this process */
    _Alignas(64) pthread_mutex_t driving;
    _Alignas(64) pthread_mutex_t wire;

    /* the list of requests under way, and what MPI_Testsome writes; `room` entries each [wire] */
    MPI_Request *request;
    struct active *active;
    int *index;
    MPI_Status *status;
    struct active *done;
    int listed, room;
    struct parcel *spare; /* [wire] parcels not in use */
    atomic_uint turns;    /* looks at the list that have ended; changed under `wire` */
    atomic_uint flight;   /* pieces under way, both ways, all peers; changed under `wire` */
    atomic_uint bulk;     /* the pieces of large messages, which keep the wire busy for a while */
    struct peer *busy;    /* [driver] those with parcels to deliver */
    atomic_uint fences;   /* raised for each rank that is newly fenced: the driver shall look */
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
    atomic_llong due;    /* when to look whether heartbeats are due, in nanoseconds */
    atomic_bool closing; /* lost() is not called any more */
    MPI_Request parting; /* [wire] the last barrier */
    atomic_bool deaths;  /* a rank was lost or let go of: no MPI_Finalize any more */
    atomic_bool stuck;   /* a thread hangs inside MPI: the process can only end */

    /* replacing */
    unsigned round;         /* of marks: how many there have been */
    atomic_ullong sends;    /* of endpoints here to other ranks */
    unsigned verdict_round; /* [driver] */
    enum verdict verdict;   /* [driver] */

    atomic_bool replacing; /* a thread holds `wire` while MPI starts a process */

    struct { /* mpi_stall.c */
        struct yk_mpi_plan plan;
        pthread_t thread;
        bool looks;
        sem_t stop;
    } stall;
    pthread_t helper;
    bool helping;
    atomic_bool stop;
    /* when a thread that waits last drove, in nanoseconds: the helper keeps out of its way */
    _Alignas(64) atomic_llong driven;
};

/* mpi_wire.c; a caller marked [wire] holds that lock */
/* Post the receives of a fresh communicator [wire, or before other threads run]; withdraw them. */
yk_code yk_mpi_ring(struct engine *m, struct yk_error *e);
void yk_mpi_unring(struct engine *m);
/* Put a message on its way to another rank. */
void yk_mpi_post(struct engine *m, int rank, const struct yk_note *note, const void *data,
                 size_t bytes, atomic_uint *pending);
/* Ask MPI which requests are complete [driver, wire]. Returns how many requests were, and sets
 * *moved if one of them was more than a heartbeat; a note that has come is left in *note. */
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
/* One look at everything that may have moved, and delivery of what has arrived [driver]. True if
 * something had. */
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

/* mpi_stall.c; close also where the engine cannot be closed: from then on stalled() is not
 * called any more */
void yk_mpi_stall_open(struct engine *m, const struct yk_mpi_plan *plan);
void yk_mpi_stall_close(struct engine *m);

/* mpi_join.c */
struct job { /* MPI is initialised once a process, so there is one of these, in mpi_join.c */
    MPI_Comm comm;
    int rank, size;
    int endpoint;       /* of a replacement; else -1 */
    int present;        /* of a replacement: ranks in `comm`, maybe fewer than the job's */
    struct card *cards; /* (present) the cards of those ranks */
    unsigned round;
    char *told; /* rank 0's text for a replacement */
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
