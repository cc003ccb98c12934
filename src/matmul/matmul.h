/* matmul.h - C = A B in blocks over the ranks of a job, or only its trace.
 *
 *     yk_matmul_open(&m, &ask, rank, ranks, &e);   every rank: checks the request
 *     yk_matmul_look(m, here, &card, &e);          ... finds its files, memory and speed;
 *                                                  rank 0 makes the output file
 *       (the ranks exchange their cards)
 *     yk_matmul_reach(m, &cards[0], &card);        ... finds out if it can write rank 0's output
 *       (the ranks exchange their cards again)
 *     yk_matmul_settle(m, cards, &e);              ... makes the plan, the same on all ranks
 *     yk_matmul_attach(m, comm, &hooks);
 *     rc = yk_matmul_run(m, &result, &e);          rank 0 has the result
 *     comm->ops->close(comm, rc != YK_LOST);
 *     yk_matmul_close(m);                          after the comm, which may use our buffers
 *
 *     matrix.c   a matrix, in a file or made from a seed, block by block
 *     plan.c     which rank multiplies which blocks, where they come from, and what it costs
 *     rank.c     the life of a rank: looking, opening, closing
 *     load.c     loads the next blocks while these are multiplied
 *     wire.c     blocks that a rank cannot load itself, and all other messages between ranks
 *     matmul.c   the product, block by block; the trace
 *     check.c    checks the product with random vectors
 *     report.c   plan and result as text and as JSON
 *
 * Every rank has one region of C, and multiplies tile after tile of it, panel after panel of A's
 * columns and B's rows. If a matrix is made from a seed, or its file can be opened, a rank gets its
 * blocks itself, and only vectors move between ranks; it asks other ranks for all other blocks.
 * THREADS: one thread per rank calls. A rank has one more thread that loads, and one that serves
 * other ranks if they need it. */
#ifndef YK_MATMUL_MATMUL_H
#define YK_MATMUL_MATMUL_H

#include "base/buf.h"
#include "comm/comm.h"
#include "matmul/npy.h"

#include <jansson.h>

enum { YK_MATMUL_A, YK_MATMUL_B, YK_MATMUL_INPUTS };
enum yk_way { YK_ROWS, YK_COLS, YK_WAYS }; /* the direction in which a matrix is read */

struct yk_matmul_ask { /* the same on all ranks */
    uint64_t n;        /* both are n x n and made from the seed; 0: they are in files */
    const char *path[YK_MATMUL_INPUTS];
    const char *output; /* NULL: none */
    bool trace;         /* only the trace is wanted */
    bool full;          /* the trace of a product that is made first */
    uint64_t seed;
    unsigned threads; /* of a rank; 0: its share of the host's cores */
    uint64_t memory;  /* bytes that a rank may use; 0: its share of the free memory */
    bool dry_run;
};

struct yk_matmul_card { /* a rank describes itself; sent as it is */
    char host[64];
    struct {
        bool seen; /* the rank can load blocks of it */
        bool far;  /* the file is on a file system of another machine */
        bool wide; /* float64 */
        uint64_t rows, cols;
        uint64_t mark; /* a hash by which ranks recognise the same file */
    } input[YK_MATMUL_INPUTS];
    bool writes;                 /* the rank can write into the output file */
    char temporary[YK_PATH_MAX]; /* rank 0's: the output's name until it is whole */
    uint64_t token;              /* rank 0's: the first bytes of the output until then */
    uint64_t key;                /* rank 0's: seed of the random vectors of the check */
    uint64_t memory;
    uint32_t threads;
    double gflops; /* while all ranks of the host multiply */
    double loads;  /* elements per second */
};

struct yk_matmul_part { /* the work of one rank */
    int row, col;       /* in the grid; -1: the rank only helps to check */
    struct yk_rect c;   /* its region of C; of a trace: its rows */
    /* the rows [lo, hi), and the columns, of A and of B that it checks with */
    uint64_t check[YK_MATMUL_INPUTS][YK_WAYS][2];
    uint64_t pulls;  /* bytes that it gets from other ranks */
    uint64_t memory; /* bytes */
    bool serves;     /* other ranks ask it for blocks, or send it tiles to write */
};

struct yk_matmul_plan {
    uint64_t m, k, n; /* (m, k) (k, n) */
    bool product;     /* false: the trace alone */
    int ranks, hosts, grid[2];
    unsigned threads;                     /* of a rank, at least */
    uint64_t tile_rows, tile_cols, panel; /* at most; of a trace: all three are a block's side */
    uint64_t bytes;                       /* moved between ranks */
    uint64_t reads;                       /* bytes read from files, counted once per host */
    uint64_t memory;                      /* bytes of the rank that needs most */
    double flops;                         /* of all ranks */
    double seconds;                       /* rank 0's estimate */
    double wire;                          /* bytes per second, measured; 0: nothing big moves */
    struct yk_matmul_part *part;          /* (ranks) */
    const struct yk_matmul_card *card;    /* (ranks) the caller's */
    const struct yk_matmul_ask *ask;
};

/* Fails, with the same error on all ranks, if files differ between ranks (YK_DATA), if sizes do not
 * fit each other or if there is too little memory (YK_USAGE). */
yk_code yk_matmul_plan(struct yk_matmul_plan *p, const struct yk_matmul_ask *ask,
                       const struct yk_matmul_card *card, int ranks, struct yk_error *e);
void yk_matmul_plan_release(struct yk_matmul_plan *p);

/* The rank that supplies block number t of a rank's walk through the matrix `x`: mostly itself. */
int yk_matmul_supplier(const struct yk_matmul_plan *p, int rank, int x, uint64_t t);

/* Step i of a rank's walk: the blocks of A and B that are multiplied next. False past the end.
 * `tile` (may be NULL) is the tile of C that they add to, `panel` (may be NULL) their index within
 * the tile. */
bool yk_matmul_step(const struct yk_matmul_plan *p, int rank, uint64_t i,
                    struct yk_rect block[YK_MATMUL_INPUTS], struct yk_rect *tile, uint64_t *panel);
uint64_t yk_matmul_panels(const struct yk_matmul_plan *p); /* of a tile */

struct yk_matmul_result {
    bool stopped;     /* by the user: nothing below counts */
    bool checked;     /* there was a product to check */
    bool verified;    /* the product is right */
    char reason[200]; /* why it is not verified; "" */
    double residual;  /* the largest deviation, as a part of the bound for rounding */
    bool has_trace;
    double trace;
    double seconds; /* of the product, with loading and writing, or of the trace */
    double check_seconds;
    double plan_seconds; /* from open to the plan */
    double gflops;
    uint64_t bytes_moved;
    uint64_t peak_rss; /* bytes of the largest rank */
};

struct yk_matmul_hooks {
    void (*planned)(void *arg, const struct yk_matmul_plan *p); /* rank 0, before it starts */
    /* rank 0, now and then: the part of the work done and its time; part < 0: only a sign of
     * life */
    void (*say)(void *arg, double part, double seconds, const char *what);
    bool (*stopped)(void *arg); /* rank 0: shall the work end? May be NULL */
    void *arg;
};

struct yk_matmul;

yk_code yk_matmul_open(struct yk_matmul **out, const struct yk_matmul_ask *ask, int rank, int ranks,
                       struct yk_error *e);
/* `here`: ranks on this host. `mine` becomes this rank's card. */
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
/* Removes an output that is not whole; NULL is fine. */
void yk_matmul_close(struct yk_matmul *m);

/* For an engine that could not be closed and may still use our buffers: removes only the
 * output. */
void yk_matmul_abandon(struct yk_matmul *m);

/* report.c; `r` NULL: the plan alone. */
void yk_matmul_text(const struct yk_matmul_plan *p, const struct yk_matmul_result *r,
                    struct yk_buf *out);
json_t *yk_matmul_json(const struct yk_matmul_plan *p, const struct yk_matmul_result *r);

#endif
