/* matmul.h - C = A B in blocks over the ranks of a job, or only the trace of it.
 *
 *     yk_matmul_open(&m, &ask, rank, ranks, &e);       every rank: what is wanted makes sense
 *     yk_matmul_look(m, here, &card, &e);              ... what it has: files, memory, speed. Rank 0 makes the output file
 *       (the ranks tell each other their cards)
 *     yk_matmul_reach(m, &cards[0], &card);            ... can it write into rank 0's output?
 *       (once more)
 *     yk_matmul_settle(m, cards, &e);                  ... the same plan on all of them, without a word
 *     yk_matmul_attach(m, comm, &hooks);
 *     rc = yk_matmul_run(m, &result, &e);              rank 0 has the result
 *     comm->ops->close(comm, rc != YK_LOST);
 *     yk_matmul_close(m);                              after the comm: the engine may use our buffers until then
 *
 *     matmul_matrix.c   a matrix: made from a seed, any block by itself, or in a file
 *     matmul_plan.c     who multiplies what, from where, in which pieces; what that costs
 *     matmul_rank.c     what a rank has: looking, opening, closing
 *     matmul_load.c     the next blocks are loaded while these are multiplied
 *     matmul_wire.c     blocks that a rank cannot load itself, and everything else that ranks tell each other
 *     matmul.c          the product, block by block; the trace
 *     matmul_check.c    is it right? A random vector tells
 *     matmul_report.c   plan and result as text and as JSON
 *
 * Every rank has one region of C, and multiplies tile after tile of it, panel after panel of A's columns and B's rows. Where a matrix is
 * made from a seed, or its file can be opened, a rank gets its blocks itself, and nothing moves but vectors; what it cannot get it asks
 * of a rank that can.
 * THREADS: one thread a rank calls. A rank has a thread that loads, and one that serves other ranks if they need it. */
#ifndef YK_LAB_MATMUL_H
#define YK_LAB_MATMUL_H

#include "base/buf.h"
#include "comm/comm.h"
#include "data/npy.h"

#include <jansson.h>

enum { YK_MATMUL_A, YK_MATMUL_B, YK_MATMUL_INPUTS };

struct yk_matmul_ask { /* the same on all ranks */
    uint64_t n;        /* both are n x n and made from the seed; 0: they are in files */
    const char *path[YK_MATMUL_INPUTS];
    const char *output; /* NULL: none */
    bool trace;         /* only the trace is wanted, */
    bool full;          /* ... but of a product that has been made */
    uint64_t seed;
    unsigned threads; /* of a rank; 0: its share of the host's cores */
    uint64_t memory;  /* bytes that a rank may use; 0: its share of what the host has free */
    bool dry_run;
};

struct yk_matmul_card { /* what a rank says of itself; travels as it is */
    char host[64];
    struct {
        bool seen; /* it can load blocks of it */
        bool far;  /* ... from a file system on another machine */
        bool wide; /* float64 */
        uint64_t rows, cols;
        uint64_t
            mark; /* a hash of its size, header and some of its content: the same file everywhere? */
    } input[YK_MATMUL_INPUTS];
    bool writes;                 /* it can write into the output file */
    char temporary[YK_PATH_MAX]; /* rank 0's: the output's name until it is whole */
    uint64_t token;              /* ... and what it begins with until then */
    uint64_t memory;
    uint32_t threads;
    double gflops; /* of products, with all ranks of the host at work */
    double loads;  /* elements a second */
};

struct yk_matmul_part { /* what one rank does */
    int row, col;       /* in the grid; -1: it only helps to check */
    struct yk_block c;  /* its region of C; of a trace: its rows */
    /* rows [lo, hi) of A and of B that it loads to check */
    uint64_t check[YK_MATMUL_INPUTS][2];
    uint64_t pulls;  /* bytes that others send it */
    uint64_t memory; /* bytes */
    bool serves;     /* others ask it for blocks, or send it tiles to write */
};

struct yk_matmul_plan {
    uint64_t m, k, n; /* (m, k) (k, n) */
    bool product;     /* false: the trace alone */
    int ranks, hosts, grid[2];
    unsigned threads;                     /* of a rank, at least */
    uint64_t tile_rows, tile_cols, panel; /* at most; of a trace: all three are a block's side */
    uint64_t bytes;                       /* that move between ranks */
    uint64_t reads;                       /* bytes of files, counted once a host */
    uint64_t memory;                      /* of the rank that needs most */
    double flops;                         /* of everybody */
    double seconds;                       /* rank 0's estimate */
    double wire;                       /* bytes a second that were measured; 0: nothing big moves */
    struct yk_matmul_part *part;       /* (ranks) */
    const struct yk_matmul_card *card; /* (ranks) the caller's */
    const struct yk_matmul_ask *ask;
};

/* Files that are not the same on all ranks, sizes that do not fit each other (YK_USAGE), too little memory (YK_USAGE) are errors here,
 * and the same ones on all ranks. */
yk_code yk_matmul_plan(struct yk_matmul_plan *p, const struct yk_matmul_ask *ask,
                       const struct yk_matmul_card *card, int ranks, struct yk_error *e);
void yk_matmul_plan_release(struct yk_matmul_plan *p);

/* Who has block number t of a rank's walk through the matrix `x`? Mostly the rank itself. */
int yk_matmul_supplier(const struct yk_matmul_plan *p, int rank, int x, uint64_t t);

/* Step i of a rank's walk: the blocks of A and B that are multiplied next. False past the end. `tile` (may be NULL) is what of C they are
 * part of, and `panel` the how manieth for it. */
bool yk_matmul_step(const struct yk_matmul_plan *p, int rank, uint64_t i,
                    struct yk_block block[YK_MATMUL_INPUTS], struct yk_block *tile,
                    uint64_t *panel);
uint64_t yk_matmul_panels(const struct yk_matmul_plan *p); /* of a tile */

struct yk_matmul_result {
    bool stopped;     /* the user has had enough: nothing below counts */
    bool checked;     /* there was a product to check, */
    bool verified;    /* and it is right */
    char reason[200]; /* why it is not, or why it could not be checked; "" */
    double residual;  /* the largest deviation, as a part of what rounding can do at most */
    bool has_trace;
    double trace;
    double seconds; /* to multiply, loading and writing included; or to add up the trace */
    double check_seconds;
    double plan_seconds; /* to look and to measure */
    double gflops;
    uint64_t bytes_moved;
    uint64_t peak_rss; /* bytes of the largest rank */
};

struct yk_matmul_hooks {
    void (*planned)(void *arg, const struct yk_matmul_plan *p); /* rank 0, before it starts */
    void (*say)(void *arg, double part, double seconds,
                const char *what); /* rank 0, now and then */
    bool (*stopped)(void *arg);    /* rank 0: has the user had enough? May be NULL */
    void *arg;
};

struct yk_matmul;

yk_code yk_matmul_open(struct yk_matmul **out, const struct yk_matmul_ask *ask, int rank, int ranks,
                       struct yk_error *e);
/* `here`: ranks on this host. */
yk_code yk_matmul_look(struct yk_matmul *m, int here, struct yk_matmul_card *mine,
                       struct yk_error *e);
void yk_matmul_reach(struct yk_matmul *m, const struct yk_matmul_card *first,
                     struct yk_matmul_card *mine);
yk_code yk_matmul_settle(struct yk_matmul *m, const struct yk_matmul_card *cards,
                         struct yk_error *e);
void yk_matmul_attach(struct yk_matmul *m, struct yk_comm *comm,
                      const struct yk_matmul_hooks *hooks);
yk_code yk_matmul_run(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e);
const struct yk_matmul_plan *yk_matmul_planned(const struct yk_matmul *m);
void yk_matmul_close(
    struct yk_matmul *m); /* an output that is not whole is removed; NULL is fine */

/* Where the engine could not be closed and may still use our buffers: only the output is removed. */
void yk_matmul_abandon(struct yk_matmul *m);

/* matmul_report.c. `r` NULL: the plan alone. */
void yk_matmul_text(const struct yk_matmul_plan *p, const struct yk_matmul_result *r,
                    struct yk_buf *out);
json_t *yk_matmul_json(const struct yk_matmul_plan *p, const struct yk_matmul_result *r);

#endif
