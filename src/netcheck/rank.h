/* rank.h - between netcheck.c, which gives orders, and rank.c, which carries them out.
 *
 *     LATENCY  a worker sends PING, 64 bytes, again and again; the owner's handler answers PONG
 *     STREAM   a worker sends BLOCKs with data, `window` of them under way; the owner sends ACKs,
 *              the last one when it has enough. The receiver measures. A first stream of 1 MB is
 *              received to its end before the clock starts, so that neither buffers nor a link's
 *              credit for bursts count
 *     TO_ONE   every rank but 0 PUSHes X to owner 0, which answers BACK with X when all have
 *              arrived: a step with one parameter server
 *     TO_ALL   every rank PUSHes slice k of X to owner k, which answers all of them BACK when all
 *              have arrived: a step of all-reduce
 *
 * A message carries all that its receiver needs: a push may arrive at a rank before its own order.
 * THREADS: a struct side belongs to the handlers of its endpoint, and to others under the lock of
 * that endpoint; all else belongs to the calling thread. Only the engine writes into buffers, and
 * they are never freed before the comm is closed. */
#ifndef YK_NETCHECK_RANK_H
#define YK_NETCHECK_RANK_H

#include "netcheck/netcheck.h"

#define YK_ORDER_LIMIT 20.0 /* seconds after which an order has failed */

enum {
    YK_ORDER_PINGS = 1000, /* samples of a latency */
    YK_ORDER_BLOCKS = 2,   /* big messages under way */
};

enum what { NOTHING, PREPARE, LATENCY, STREAM, TO_ONE, TO_ALL };
enum status { GOOD, NO_ANSWER, NO_MEMORY };
enum outcome { WAITING, READY, LATE, LOST, STOPPED, ASKED };

struct order {
    uint32_t what;
    uint32_t peer;      /* LATENCY, STREAM: the receiving rank */
    uint32_t count;     /* LATENCY, STREAM: most messages. Patterns: rounds */
    uint32_t warm;      /* patterns: rounds before those that count */
    uint64_t window;    /* STREAM: messages under way */
    uint64_t bytes;     /* of a message. Patterns: X. PREPARE: the largest X of TO_ONE */
    uint64_t bytes_all; /* PREPARE: the largest X of TO_ALL */
    double seconds;     /* LATENCY, STREAM: ends after these, also before `count` */
};

struct report {
    uint64_t status;
    double seconds; /* LATENCY: the median. STREAM, patterns: of all that counted */
    double other;   /* LATENCY: p99. STREAM: bytes */
};

struct sink { /* the stream that an owner receives */
    uint64_t messages, bytes;
    double begun; /* start of the clock */
    double last;  /* arrival of the last message */
    bool done;
};

struct side { /* of one endpoint */
    struct yk_netcheck *n;
    int endpoint;
    int lost; /* the first rank that was lost; -1: none */
    char why[160];
    /* the owner's */
    struct sink sink;
    unsigned pushes;       /* of the round */
    struct report *report; /* at rank 0, (ranks) */
    bool *owes;            /* (ranks) the rank's report is still to come */
    unsigned awaited;      /* reports still to come */
    /* the worker's */
    struct order order;
    uint64_t orders, pongs, acked, backs; /* received so far */
    bool done;                            /* the receiver of the stream has enough */
    double seconds, bytes;                /* of the stream, as the receiver measured */
    bool has_stop;                        /* STOP has come */
    bool clean;                           /* STOP came because all is done */
    int stop_lost;                        /* the lost rank that STOP names; -1: none */
};

struct yk_netcheck {
    const struct yk_netcheck_ask *ask;
    struct yk_comm *comm;
    int rank, ranks;
    struct side owner, worker;
    unsigned char *stream_out;                  /* YK_NETCHECK_MESSAGE bytes */
    unsigned char *stream_in;                   /* YK_ORDER_BLOCKS times as many */
    unsigned char *out, *push_in, *back_in;     /* for the patterns */
    uint64_t out_bytes, push_bytes, back_bytes; /* their sizes */
    atomic_uint pending;                        /* sends that the engine still reads */
    double sample[YK_ORDER_PINGS];
    uint64_t orders, pings, backs; /* taken, sent, expected so far */
    /* rank 0's */
    struct order *plan; /* (ranks) the next orders */
    int lost;           /* rank; -1: none */
    bool halted;        /* by the user */
    double part;        /* of all, so far */
};

/* Waits until `ready` is true of this side (under its lock), or something else happens. */
enum outcome yk_order_await(struct yk_netcheck *n, struct side *s,
                            bool (*ready)(const struct side *s, uint64_t want), uint64_t want,
                            double seconds);
enum outcome yk_order_carry_out(struct yk_netcheck *n, const struct order *o, struct report *r);
/* Rank 0 sends an order. */
void yk_order_send(struct yk_netcheck *n, int to, const struct order *o);
/* Rank 0's last message. `clean`: all is well; otherwise `lost` is the lost rank, or -1 if
 * unknown. */
void yk_order_stop(struct yk_netcheck *n, int to, bool clean, int lost);
/* Every rank but 0 carries out orders, until it is stopped. */
yk_code yk_order_serve(struct yk_netcheck *n, struct yk_error *e);

#endif
