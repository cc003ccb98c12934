/* netcheck.h - how fast the ranks of a job reach each other: pair by pair, and in the two patterns
 * that training uses.
 *
 *     yk_netcheck_open(&n, rank, ranks, &e);   every rank: takes memory, sends nothing
 *     yk_netcheck_attach(n, &ask);             every rank: if ranks are threads, before any runs
 *     rc = yk_netcheck_run(n, &result, &e);    every rank; rank 0 has the result
 *     comm->ops->close(comm, rc != YK_LOST);
 *     yk_netcheck_close(n);                    after the comm, which may read our buffers
 *
 *     netcheck.c   rank 0 leads: one order at a time, until all is measured
 *     rank.c       how a rank carries out an order, and answers the other ranks
 *     plan.c       which pairs are measured, in which order, and which at the same time
 *     report.c     what the numbers mean: the slowest link, a table, JSON
 *
 * Messages go as they go in training: from a worker's endpoint to an owner's, whose handler
 * answers. So the numbers include the cost of the engine, not only that of the wire. Rank k has
 * owner k and worker k, as in all-reduce (yk_mpi_plan.together).
 * THREADS: one thread per rank calls; handlers run on the threads of the engine. */
#ifndef YK_NETCHECK_NETCHECK_H
#define YK_NETCHECK_NETCHECK_H

#include "base/buf.h"
#include "comm/comm.h"

#include <jansson.h>

enum {
    YK_NETCHECK_SMALL = 7850 * 4,  /* softmax over MNIST: 784 x 10 weights and 10 biases */
    YK_NETCHECK_MESSAGE = 4 << 20, /* a big message between two ranks */
    YK_NETCHECK_LARGE = 64 << 20,  /* most bytes that a rank exchanges in a round of a pattern */
    YK_NETCHECK_ALL_PAIRS = 16,    /* most ranks of which every pair is measured */
    /* parameters of the net in the verdict: about AlexNet's */
    YK_NETCHECK_NET = 61 * 1000000,
};

struct yk_netcheck_rank {
    char host[64];
    int pid;
};

struct yk_netcheck_pair { /* messages from rank `from` to rank `to` */
    int from, to;
    unsigned round; /* pairs of one round are measured at the same time; they share no host */
    /* seconds for 64 bytes there and 64 back: the median, and the 99th percentile */
    double latency, latency_p99;
    double bandwidth_31k; /* bytes/s in messages of YK_NETCHECK_SMALL */
    double bandwidth;     /* bytes/s in messages of `message` bytes */
    uint64_t message;     /* YK_NETCHECK_MESSAGE, or less over a slow link */
};

struct yk_netcheck_pattern {
    uint64_t bytes; /* X: bytes that a rank pushes, and gets back, in a round */
    unsigned rounds;
    double seconds; /* of a round, as the slowest rank sees it */
    /* to one: 2 (n-1) X / seconds, the traffic of rank 0; to all: 2 (n-1)/n X / seconds, the
     * traffic of each rank */
    double bandwidth;
};

enum { YK_NETCHECK_31K, YK_NETCHECK_BIG, YK_NETCHECK_SIZES };

struct yk_netcheck_result {
    const struct yk_netcheck_rank *rank; /* (ranks) the caller's */
    int ranks;
    struct yk_netcheck_pair *pair; /* (pairs) that were measured, ordered by round */
    size_t pairs;
    size_t parallel; /* pairs of the fullest round */
    struct yk_netcheck_pattern to_one[YK_NETCHECK_SIZES], to_all[YK_NETCHECK_SIZES];
    double seconds;
    bool stopped; /* by ask->stopped: the result is not complete */
};

struct yk_netcheck_ask {
    struct yk_comm *comm;                /* ranks owners and ranks workers */
    const struct yk_netcheck_rank *rank; /* (ranks) */
    double pace;    /* 1: a few seconds for a few ranks; less is quicker and less certain */
    uint64_t large; /* most bytes of a round; 0: YK_NETCHECK_LARGE */
    /* Rank 0 calls it before each order, so at least every 20 s: the part done, in [0, 1], and what
     * is measured next. May be NULL. */
    void (*say)(void *arg, double part, const char *what);
    /* Rank 0: shall it end early? May be NULL. */
    bool (*stopped)(void *arg);
    void *arg;
};

struct yk_netcheck;

yk_code yk_netcheck_open(struct yk_netcheck **out, int rank, int ranks, struct yk_error *e);
/* `ask` stays the caller's and must not change. */
void yk_netcheck_attach(struct yk_netcheck *n, const struct yk_netcheck_ask *ask);
/* YK_LOST: a rank is gone, and the ranks may not meet any more. All ranks return the same other
 * codes, so the comm can be closed cleanly. Without success `result` is empty. */
yk_code yk_netcheck_run(struct yk_netcheck *n, struct yk_netcheck_result *result,
                        struct yk_error *e);
void yk_netcheck_result_release(struct yk_netcheck_result *r);
void yk_netcheck_close(struct yk_netcheck *n); /* NULL is fine */

/* plan.c: the pairs to measure, in a new array that the caller frees, ordered by round: all of
 * them, or, for many ranks, the same number for every rank, both ways each. With more than four
 * ranks the pairs of a round are measured at once. */
yk_code yk_netcheck_plan(struct yk_netcheck_pair **out, size_t *pairs,
                         const struct yk_netcheck_rank *rank, int ranks, struct yk_error *e);

/* report.c */
struct yk_netcheck_verdict {
    /* the slowest pair, between hosts if there are several; not NULL if there are pairs */
    const struct yk_netcheck_pair *slowest;
    double of_best; /* its bandwidth as a fraction of the best such pair's */
    bool slow;      /* the fraction is so small that the link is to blame; only between hosts */
    /* the one host that all slow links have in common, and that has no other links; NULL if none */
    const char *host;
    /* a pair that is much slower than the same pair in the other direction; NULL if none */
    const struct yk_netcheck_pair *uneven;
    double back; /* bytes/s of the other direction */
};
void yk_netcheck_judge(const struct yk_netcheck_result *r, struct yk_netcheck_verdict *v);
/* At most 80 columns. */
void yk_netcheck_table(const struct yk_netcheck_result *r, struct yk_buf *out);
/* docs/netcheck.md lists the keys; NULL: no memory. */
json_t *yk_netcheck_json(const struct yk_netcheck_result *r);

#endif
