/* mpi_engine.h - what the files of the MPI engine share. A file that includes this has included mpi.h before (only those may).
 *
 *     mpi.c         the contract of comm.h: open, send, wait, close; the helper thread
 *     mpi_wire.c    parcels on the wire: notes and pieces, out and in
 *     mpi_deliver.c from the wire to the handlers, in order
 *     mpi_watch.c   who is alive: heartbeats, pidfds, calls of lost()
 *     mpi_join.c    the job: launchers, MPI_Init, agreeing, introductions
 *     mpi_spawn.c   a new process in the place of a lost one
 *
 * ON THE WIRE, between two ranks, on one communicator:
 *
 *     tag NOTE   [64-byte note][its data, if they are at most SMALL bytes]            always eager, so that it never waits for the receiver
 *     tag DATA   pieces of PIECE bytes (the last is shorter), in the order of their notes
 *     tag BEAT   one byte, when nothing else was said for a while
 *
 * A message is a *parcel* at both ends. Between two ranks parcels go the more urgent ones first, else in the order they were sent, whatever
 * endpoints they are for, and are delivered in the order they went.
 *
 * THREADS, locks from the outside in: an endpoint's lock (handlers run under it; owner before worker) - `wire` (every MPI call, and what is
 * marked [wire] below). Next to them `driving`: who holds it is the driver and alone may receive; fields marked [driver] are his. A driver
 * only ever *tries* an endpoint's lock: a message for one that is busy waits, and everything else goes on. */
#ifndef YK_COMM_MPI_ENGINE_H
#define YK_COMM_MPI_ENGINE_H

#include "comm/comm.h"

#include <pthread.h>

enum {
    PIECE = 256 * 1024,
    WINDOW =
        16, /* pieces under way between two ranks, each way: enough for a fast wire, few enough for a heartbeat to get through */
    SMALL =
        3072, /* with its headers still an eager message of every transport (shared memory: 4 KB) */
    RING = 32, /* notes that may arrive without anybody looking */
    BEATS = 8, /* the same for heartbeats */
};
enum tag { TAG_NOTE = 1, TAG_DATA, TAG_BEAT, TAG_GROUP };
/* Notes between engines have no endpoint. They keep their place among the others, which is what they are for. */
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
    /* out: the sender's buffer. In: what place() answered; NULL throws the data away */
    void *data;
    size_t total;  /* bytes that travel in pieces: all of the data, or none if they are few */
    size_t posted; /* ... and that have been given to MPI */
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
    int32_t ok; /* its engine stands */
    int32_t rank, size, pid;
    int32_t endpoint; /* to a new process: whose place is yours */
    uint32_t round;   /* of marks: how many there have been */
    char host[64];
    char boot[40]; /* the kernel's boot id: host names may repeat */
    uint64_t pids; /* the namespace of the pid */
    struct daemon {
        char at
            [120]; /* "address,...:port" where mpirun's daemon on its host listens; "" if there is none */
    } daemon;
};

struct peer { /* a rank */
    int at;   /* its rank in the communicator; -1: not in it (any more) */
    /* let go of by the strategy: nothing passes any more. Set by anybody, acted upon by the driver. */
    atomic_bool fenced;
    bool reaped; /* [driver] ... and that has been done */

    struct queue
        out; /* [wire] parcels that have something left to post, in the order in which they go */
    unsigned out_flight; /* [wire] pieces under way */
    MPI_Request beat;    /* [wire] the last heartbeat to it */
    double told;         /* [wire] when something was last sent to it */

    struct queue in;       /* [driver] parcels not yet delivered, oldest first */
    struct parcel *filing; /* [driver] the first of them that is not placed and posted to its end */
    unsigned in_flight;    /* [wire] pieces under way */
    bool busy;             /* [driver] in the list of peers with something in `in` */
    struct peer *next_busy;
    void *scrap; /* [driver] PIECE bytes for data that nobody wants */

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
    _Alignas(64) atomic_uint arrived;
    atomic_uint sleepers;
    atomic_uint idle; /* looks at nothing of who waits here */
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
struct active { /* what a request in the list below is for */
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
    atomic_uint flight;   /* pieces under way, both ways, all peers; changed under `wire`, */
    atomic_uint bulk;     /* and those of large messages, which keep the wire busy for a while */
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
    atomic_bool deaths;  /* somebody was lost or let go of: no MPI_Finalize any more */
    atomic_bool stuck;   /* a thread hangs inside MPI: the process can only end */

    /* replacing */
    unsigned round;         /* of marks: how many there have been */
    atomic_ullong sends;    /* of endpoints here to other ranks */
    unsigned verdict_round; /* [driver] */
    enum verdict verdict;   /* [driver] */

    pthread_t helper;
    bool helping;
    atomic_bool stop;
    /* when a thread that waits last drove, in nanoseconds: the helper keeps out of its way */
    _Alignas(64) atomic_llong driven;
};

/* mpi_wire.c; a caller marked [wire] holds that lock */
/* Post the receives of a fresh communicator [wire, or nobody else yet]; withdraw them. */
yk_code yk_mpi_ring(struct engine *m, struct yk_error *e);
void yk_mpi_unring(struct engine *m);
/* Put a message on its way to another rank. */
void yk_mpi_post(struct engine *m, int rank, const struct yk_note *note, const void *data,
                 size_t bytes, atomic_uint *pending);
/* Ask MPI what is through [driver, wire]. Returns how many requests were, and sets *moved if one of them was more than a heartbeat; a note
 * that has come is left in *note. */
int yk_mpi_collect(struct engine *m, struct parcel **note, bool *moved);
/* Post receives for the data of a parcel, as far as the window allows [driver]. True when all are posted. */
bool yk_mpi_receive(struct engine *m, struct peer *p, struct parcel *q);
void yk_mpi_give(struct engine *m,
                 struct parcel *p);           /* a parcel that has done its work, back [wire] */
void yk_mpi_reap(struct engine *m, int rank); /* let go of a rank that was fenced [driver] */
void yk_mpi_lose(struct engine *m, int rank,
                 const char *why); /* something with this rank has failed [wire] */
void yk_mpi_release_wire(struct engine *m);

/* mpi_deliver.c */
/* One look at everything that may have moved, and delivery of what has arrived [driver]. True if something had. */
bool yk_mpi_pass(struct engine *m);
/* Hand a message to an endpoint of this process, from this process. */
void yk_mpi_hand(struct engine *m, const struct yk_note *note, const void *data);
/* Something has happened at an endpoint of this process: who waits there shall look. */
void yk_mpi_wake(struct endpoint *end);

/* mpi_watch.c */
void yk_mpi_watch_open(struct engine *m);
void yk_mpi_watch_close(struct engine *m);
void yk_mpi_watch_rank(struct engine *m, int rank); /* begin to watch, or begin anew */
/* The caller drives: look for deaths and silence, and call lost(). */
void yk_mpi_watch(struct engine *m, double now);
/* Send the heartbeats that are due. From any thread. */
void yk_mpi_beat(struct engine *m, double now);

/* mpi_join.c */
struct
    job { /* MPI is initialised once a process, so there is one of these, and only mpi_join.c keeps it */
    MPI_Comm comm;
    int rank, size;
    int endpoint;       /* of a replacement; else -1 */
    int present;        /* of a replacement: ranks in `comm`, which may be fewer than the job's, */
    struct card *cards; /* and who they are */
    unsigned round;
};
const struct job *yk_mpi_job(void);
void yk_mpi_introduce(struct card *mine);
/* MPI_Iallgather that gives up after `seconds`. */
yk_code yk_mpi_gather(MPI_Comm comm, const void *mine, size_t n, void *all, double seconds,
                      struct yk_error *e);
void yk_mpi_error(int rc, char *text, size_t size); /* in words */
bool yk_mpi_finalize(void); /* false: somebody is missing, so it was not tried */
#define YK_MPI_MEETING 20.0 /* seconds within which all ranks must come to a meeting */

/* mpi_spawn.c */
/* The cards say who is which rank of the communicator; who is not there is fenced. */
void yk_mpi_take_places(struct engine *m, const struct card *cards, int present);

/* mpi.c */
void yk_mpi_fence(struct engine *m, int rank);
/* Drive until `until` says so or `seconds` have passed; returns what it said last. */
bool yk_mpi_drive_until(struct engine *m, bool (*until)(struct engine *m), double seconds);

#endif
