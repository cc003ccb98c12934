/* netcheck_rank.h - between netcheck.c, which gives orders, and netcheck_rank.c, which carries them out.
 *
 *     LATENCY  PING, 64 bytes, from a worker; the owner's handler answers with PONG. Again and again
 *     STREAM   BLOCKs with data, `window` of them under way, ACK by the owner, until it has had enough. The receiver has the clock. A first stream
 *              of 1 MB is taken in to its end before the clock starts: neither buffers nor a link's credit for bursts count
 *     TO_ONE   every rank but 0 PUSHes X to owner 0, which answers BACK with X when all are there: a step with one parameter server
 *     TO_ALL   every rank PUSHes slice k of X to owner k, which answers all BACK when all are there: a step of all-reduce
 *
 * A message says all that its receiver must know: a rank can be pushed to before its own order has come.
 * THREADS: a struct side is for its endpoint's handlers, and for others under that endpoint's lock; all else is the calling thread's. Buffers
 * are written to by the engine alone, and never freed before the comm is closed. */
#ifndef YK_LAB_NETCHECK_RANK_H
#define YK_LAB_NETCHECK_RANK_H

#include "lab/netcheck.h"

#define YK_ORDER_LIMIT 20.0 /* seconds within which an order is over, one way or the other */

enum {
    YK_ORDER_PINGS = 1000,
    YK_ORDER_BLOCKS = 2
}; /* samples of a latency; big messages under way */

enum what { NOTHING, PREPARE, LATENCY, STREAM, TO_ONE, TO_ALL };
enum status { GOOD, NO_ANSWER, NO_MEMORY };
enum outcome { WAITING, READY, LATE, LOST, TOLD, ASKED };

struct order {
    uint32_t what;
    uint32_t peer;      /* LATENCY, STREAM: to whom */
    uint32_t count;     /* LATENCY, STREAM: messages at most. Patterns: rounds */
    uint32_t warm;      /* patterns: rounds before those */
    uint64_t window;    /* STREAM: messages under way */
    uint64_t bytes;     /* of a message; X of a pattern. PREPARE: the largest X of TO_ONE */
    uint64_t bytes_all; /* PREPARE: the largest X of TO_ALL */
    double seconds;     /* LATENCY, STREAM: enough, whatever `count` says */
};

struct report {
    uint64_t status;
    double seconds; /* LATENCY: the median. STREAM, patterns: of all that was counted */
    double other;   /* LATENCY: p99. STREAM: bytes */
};

struct sink { /* what an owner knows about the stream that it receives */
    uint64_t messages, bytes;
    double begun, last; /* last: when the last message arrived */
    bool done;
};

struct side { /* an endpoint's */
    struct yk_netcheck *n;
    int endpoint;
    int lost; /* a rank; -1: none */
    char why[160];
    /* the owner's */
    struct sink sink;
    unsigned pushes;       /* of the round */
    struct report *report; /* (ranks) at rank 0 */
    bool *owes;            /* (ranks) a report is still to come, */
    unsigned awaited;      /* and so many are */
    /* the worker's */
    struct order order;
    uint64_t orders, pongs, acked, backs;
    bool done; /* the receiver of the stream has had enough: */
    double seconds, bytes;
    bool told, clean; /* STOP has come; all are well */
    int told_of;      /* or this rank is lost; -1: nobody knows which */
};

struct yk_netcheck {
    const struct yk_netcheck_ask *ask;
    struct yk_comm *comm;
    int rank, ranks;
    struct side owner, worker;
    unsigned char *stream_out, *stream_in;      /* YK_NETCHECK_MESSAGE; YK_ORDER_BLOCKS of them */
    unsigned char *out, *push_in, *back_in;     /* patterns; */
    uint64_t out_bytes, push_bytes, back_bytes; /* their sizes */
    atomic_uint pending; /* sends of ours that the engine still reads; nobody waits for them */
    double sample[YK_ORDER_PINGS];
    uint64_t orders, pings, backs; /* taken, sent, expected so far */
    /* rank 0's */
    struct order *plan; /* (ranks) the next orders */
    int lost;           /* rank; -1: none */
    bool halted;        /* the user has had enough */
    double part;        /* of all, so far */
};

/* Until `ready` says so of this side (under its lock), or something gets in the way. */
enum outcome yk_order_await(struct yk_netcheck *n, struct side *s,
                            bool (*ready)(const struct side *s, uint64_t want), uint64_t want,
                            double seconds);
enum outcome yk_order_carry_out(struct yk_netcheck *n, const struct order *o, struct report *r);
/* Rank 0 sends an order; its last word. `clean`: all are well; otherwise `lost` is the rank that is not, or -1 if that is not known. */
void yk_order_send(struct yk_netcheck *n, int to, const struct order *o);
void yk_order_stop(struct yk_netcheck *n, int to, bool clean, int lost);
/* Every rank but 0: carry out what comes, until it is told to stop. */
yk_code yk_order_serve(struct yk_netcheck *n, struct yk_error *e);

#endif
