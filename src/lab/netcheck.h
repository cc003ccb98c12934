/* netcheck.h - how fast the ranks of a job reach each other: pair by pair, and in the two patterns that training uses.
 *
 *     yk_netcheck_open(&n, rank, ranks, &e);                 every rank; takes memory, talks to nobody
 *     yk_netcheck_attach(n, &ask);                           every rank, before any of them runs where they are threads
 *     rc = yk_netcheck_run(n, &result, &e);                  every rank; the result is rank 0's
 *     comm->ops->close(comm, rc != YK_LOST);
 *     yk_netcheck_close(n);                                  after the comm: the engine may read our buffers until then
 *
 *     netcheck.c          rank 0 leads: one order at a time, until all is measured
 *     netcheck_rank.c     what a rank does with an order, and with what the others send it
 *     netcheck_plan.c     which pairs, in which order, which of them at the same time
 *     netcheck_report.c   what it means: the slowest link, a table, JSON
 *
 * Messages go the way they go in training: from a worker's endpoint to an owner's, whose handler answers. So a number here holds what the
 * engine costs, not only the wire. Rank k has owner k and worker k, as all-reduce has it (yk_mpi_plan.together).
 * THREADS: one thread a rank calls; the handlers run wherever the engine runs them. */
#ifndef YK_LAB_NETCHECK_H
#define YK_LAB_NETCHECK_H

#include "base/buf.h"
#include "comm/comm.h"

#include <jansson.h>

enum {
    YK_NETCHECK_SMALL = 7850 * 4,  /* softmax over MNIST: 784 x 10 weights and 10 biases */
    YK_NETCHECK_MESSAGE = 4 << 20, /* a big message between two ranks */
    YK_NETCHECK_LARGE = 64 << 20,  /* what a rank exchanges in a round of a pattern, at most */
    YK_NETCHECK_ALL_PAIRS = 16, /* up to so many ranks every pair is measured, beyond it a sample */
    YK_NETCHECK_NET =
        61 * 1000000, /* parameters of the net that the verdict speaks of: about AlexNet's */
};

struct yk_netcheck_rank {
    char host[64];
    int pid;
};

struct yk_netcheck_pair { /* messages from rank `from` to rank `to` */
    int from, to;
    unsigned round; /* pairs of one round are measured at the same time; they share no host */
    double latency,
        latency_p99; /* seconds for 64 bytes there and 64 back: median, and what 99 of 100 do not exceed */
    double bandwidth_31k; /* bytes/s in messages of YK_NETCHECK_SMALL */
    double bandwidth;     /* bytes/s in messages of `message` bytes */
    uint64_t message; /* YK_NETCHECK_MESSAGE, or less over a link that needs a second for that */
};

struct yk_netcheck_pattern {
    uint64_t bytes; /* X: what a rank pushes, and gets back, in a round */
    unsigned rounds;
    double seconds; /* of a round, as the slowest rank sees it */
    /* to one: 2 (n-1) X / seconds, all that rank 0 receives and sends. To all: 2 (n-1)/n X / seconds, what each rank sends, and receives */
    double bandwidth;
};

enum { YK_NETCHECK_31K, YK_NETCHECK_BIG, YK_NETCHECK_SIZES };

struct yk_netcheck_result {
    const struct yk_netcheck_rank *rank; /* (ranks) the caller's */
    int ranks;
    struct yk_netcheck_pair
        *pair; /* (pairs) those that were measured, in the order of their rounds */
    size_t pairs;
    size_t parallel; /* pairs of the fullest round */
    struct yk_netcheck_pattern to_one[YK_NETCHECK_SIZES], to_all[YK_NETCHECK_SIZES];
    double seconds;
    bool stopped; /* by ask->stopped: what is in here is not all */
};

struct yk_netcheck_ask {
    struct yk_comm *comm;                /* ranks owners and ranks workers */
    const struct yk_netcheck_rank *rank; /* (ranks) */
    double pace;    /* 1: a few seconds for a few ranks. Less is quicker and less certain */
    uint64_t large; /* at most so many bytes a round; 0: YK_NETCHECK_LARGE */
    /* Rank 0's, may be NULL. What is being done, `part` in [0, 1] of all; called before each order, so at least every 20 s. */
    void (*say)(void *arg, double part, const char *what);
    /* Shall it end early? */
    bool (*stopped)(void *arg);
    void *arg;
};

struct yk_netcheck;

yk_code yk_netcheck_open(struct yk_netcheck **out, int rank, int ranks, struct yk_error *e);
void yk_netcheck_attach(
    struct yk_netcheck *n,
    const struct yk_netcheck_ask *ask); /* `ask` stays the caller's, and as it is */
/* YK_LOST: somebody is gone, and nobody may meet any more; everything else all ranks agree upon, so the comm can be closed cleanly. Without
 * success there is nothing in `result`. */
yk_code yk_netcheck_run(struct yk_netcheck *n, struct yk_netcheck_result *result,
                        struct yk_error *e);
void yk_netcheck_result_release(struct yk_netcheck_result *r);
void yk_netcheck_close(struct yk_netcheck *n); /* NULL is fine */

/* netcheck_plan.c. The pairs to measure, in a fresh array (the caller's), ordered by round: all of them, or for many ranks the same number for
 * every rank, both ways each. With more than four ranks those of a round are measured at once. */
yk_code yk_netcheck_plan(struct yk_netcheck_pair **out, size_t *pairs,
                         const struct yk_netcheck_rank *rank, int ranks, struct yk_error *e);

/* netcheck_report.c */
struct yk_netcheck_verdict {
    const struct yk_netcheck_pair
        *slowest;   /* between hosts, if there are several; never NULL if there are pairs */
    double of_best; /* its bandwidth as a fraction of the best such pair's */
    bool slow;      /* so small a fraction that the link is to blame; between hosts only */
    const char *
        host; /* the one host that all slow links have in common, and that has no other; NULL if none */
    const struct yk_netcheck_pair *
        uneven; /* a pair that is much slower than the same pair the other way round; NULL if none */
    double back; /* bytes/s of the other way */
};
void yk_netcheck_judge(const struct yk_netcheck_result *r, struct yk_netcheck_verdict *v);
void yk_netcheck_table(const struct yk_netcheck_result *r,
                       struct yk_buf *out); /* at most 80 columns */
json_t *
yk_netcheck_json(const struct yk_netcheck_result *r); /* keys: docs/netcheck.md; NULL: no memory */

#endif
