/* matmul_rank.h - what the files of a product share; matmul.h tells what each is for.
 *
 * MESSAGES go from a rank's worker to another's owner, and back from owner to worker; rank k has owner k and worker k.
 *
 *     PULL    worker -> owner    which block of which matrix, as float or double      BLOCK  back, with the numbers
 *     TILE    worker -> owner 0  rows of C, to be written                             WROTE  back
 *     REPORT  worker -> owner 0  at the end of a phase, what it found
 *     GO      owner 0 -> worker  the measured part of the plan is known: start
 *     VECTOR  owner 0 -> worker  y = B x, to check with
 *     FAIL    worker -> owner 0  something went wrong here
 *     STOP    owner 0 -> worker  all is done, or something went wrong somewhere: the same error on all ranks
 *
 * THREADS: fields marked [lock] are the handlers' and everybody's, under `lock`, which is taken last. Buffers that the engine
 * writes into are never freed before the comm is closed. */
#ifndef YK_LAB_MATMUL_RANK_H
#define YK_LAB_MATMUL_RANK_H

#include "base/team.h"
#include "lab/matmul.h"

#include <pthread.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__clang__)
#define YK_MATMUL_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define YK_MATMUL_WIDE /* sanitizers run before the resolver's tables exist; other architectures have one width */
#endif

enum {
    YK_PULL_BYTES = 4 << 20,   /* of a message with a part of a block */
    YK_PULLS = 4,              /* of them under way to a rank */
    YK_TILE_BYTES = 1 << 20,   /* of a message with rows of C */
    YK_TRACE_BLOCK = 1024,     /* side of the blocks that a trace is added up from */
    YK_CHECK_FLOATS = 1 << 21, /* of a block that is checked with */
    YK_CHECK_COLS = 1 << 19,   /* ... and its longest row */
    YK_ROW_MOST = 1 << 19,     /* elements of a block's row: as doubles they are YK_PULL_BYTES */
};

/* --- matmul_matrix.c --- */

struct yk_matrix {
    bool made; /* from `seed`; otherwise it is in the file */
    uint64_t rows, cols;
    uint64_t seed, which;
    struct yk_npy file;
};

void yk_matrix_make(struct yk_matrix *x, uint64_t n, uint64_t seed, int which);
yk_code yk_matrix_open(struct yk_matrix *x, const char *path, struct yk_error *e);
void yk_matrix_close(struct yk_matrix *x);
yk_code yk_matrix_read(const struct yk_matrix *x, const struct yk_block *b, enum yk_float type,
                       void *out, struct yk_error *e);
yk_code yk_matrix_mark(const struct yk_matrix *x, uint64_t *mark,
                       struct yk_error *e); /* see struct yk_matmul_card */
bool yk_matrix_far(const struct yk_matrix *x);

/* --- the rank --- */

enum yk_phase { YK_PHASE_PROBE, YK_PHASE_WORK, YK_PHASE_VECTOR, YK_PHASE_CHECK, YK_PHASES };

struct yk_probe_report {
    double rate; /* bytes a second that pulls came with; 0: there are none */
};
struct yk_work_report {
    double trace;
};
struct yk_vector_report { /* followed by the rank's part of y = B x */
    double norm2;         /* of its rows of B */
    uint64_t large;       /* see struct yk_matmul */
};
struct
    yk_check_report { /* followed by C x for the rows of its region, then A y and |A| for its rows of A */
    uint64_t moved, peak_rss;
    double seconds; /* in checks that were made between tiles */
    uint64_t large; /* see struct yk_matmul */
};

struct yk_failure {
    int32_t code; /* YK_OK: all is done */
    int32_t stopped;
    char text[sizeof(((struct yk_error *)0)->text)];
    char hint[sizeof(((struct yk_error *)0)->hint)];
};

struct yk_pull { /* a message that is awaited */
    void *to;
    size_t bytes;
    bool done;
};

struct yk_loader {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, stop, ended;
    uint64_t loaded, freed; /* steps */
    yk_code rc;
    struct yk_error error;
    bool (*step)(void *arg, uint64_t i, struct yk_block block[YK_MATMUL_INPUTS]);
    void *arg;
    bool
        ask_others; /* blocks that this rank cannot load itself are asked for; else they are all its own */
    enum yk_float type;
    struct yk_block block[2][YK_MATMUL_INPUTS]; /* what each slot holds */
};

struct yk_matmul {
    struct yk_matmul_ask ask;
    int rank, ranks;
    struct yk_matmul_plan plan;
    struct yk_matmul_part *part; /* this rank's */
    struct yk_matrix input[YK_MATMUL_INPUTS];
    struct yk_outfile output; /* rank 0's */
    bool has_output;
    int out_fd; /* the output, if this rank writes its own tiles; -1 */
    unsigned threads;
    struct yk_team *team;
    struct yk_matmul_hooks hooks;
    double opened; /* yk_now() */

    /* buffers: two slots for the blocks of A and of B, and the tile of C */
    void *slot[2][YK_MATMUL_INPUTS];
    size_t slot_bytes[YK_MATMUL_INPUTS];
    float *tile;
    size_t tile_bytes;
    struct yk_loader loader;

    /* checking: x (n) of +-1, y = B x (k), w = C x (rows of the region), z = A y and |A| (rows that it checks) */
    float *x;
    double *y, *w, *z;
    bool large
        [YK_MATMUL_INPUTS]; /* a float64 input has values that are beyond float32; at the end rank 0 knows it of all ranks */
    double check_seconds;
    double trace;

    /* the wire */
    struct yk_comm *comm;
    int owner, worker; /* endpoints */
    atomic_ullong moved;
    atomic_uint pending;
    pthread_mutex_t lock;
    bool go, told, has_vector;     /* [lock] */
    struct yk_failure told_what;   /* [lock] */
    int lost;                      /* [lock] rank; -1 */
    char why[160];                 /* [lock] */
    struct yk_pull pull[YK_PULLS]; /* [lock] */
    bool wrote;                    /* [lock] */
    void *box[YK_PHASES];          /* (ranks) slots of box_bytes[phase], at rank 0 */
    size_t box_bytes[YK_PHASES];
    int boxed[YK_PHASES];                 /* [lock] reports that are here */
    struct yk_failure *failed;            /* [lock] (ranks) at rank 0 */
    int first_failed;                     /* [lock] rank; -1 */
    bool failing;                         /* [lock] this rank has said FAIL */
    struct yk_failure fail_out, stop_out; /* what this rank sends */

    /* the server */
    pthread_t server;
    bool serving;
    pthread_cond_t asked;
    bool server_stop;      /* [lock] */
    struct yk_note *queue; /* [lock] (queue_size) a ring */
    size_t queue_size, queue_first, queue_count;
    void *staging[2];
    void **tile_in; /* (ranks) YK_TILE_BYTES each, at rank 0, where rows of C arrive */
};

/* --- matmul_load.c --- */

/* Start loading the steps one after the other, two ahead. */
yk_code yk_load_begin(struct yk_matmul *m,
                      bool (*step)(void *arg, uint64_t i, struct yk_block block[YK_MATMUL_INPUTS]),
                      void *arg, enum yk_float type, bool ask_others, struct yk_error *e);
/* The blocks of step i, which come in order; *more false past the end. They are valid until yk_load_free. */
yk_code yk_load_take(struct yk_matmul *m, uint64_t i, void *data[YK_MATMUL_INPUTS],
                     struct yk_block block[YK_MATMUL_INPUTS], bool *more, struct yk_error *e);
void yk_load_free(struct yk_matmul *m, uint64_t i);
void yk_load_end(struct yk_matmul *m); /* all steps or not */
/* Memory of whole huge pages where there are any; NULL if there is none. */
void *yk_matmul_memory(size_t bytes);
void yk_matmul_memory_free(void *p, size_t bytes);

/* --- matmul_wire.c --- */

yk_code yk_wire_open(struct yk_matmul *m, struct yk_error *e);
void yk_wire_close(struct yk_matmul *m);
yk_code yk_wire_start(struct yk_matmul *m,
                      struct yk_error *e); /* serve the others, if they will ask */
/* Has anything happened that ends the work: a failure elsewhere, a lost rank, the user? */
yk_code yk_wire_state(struct yk_matmul *m, struct yk_error *e);
/* A block that another rank has. */
yk_code yk_wire_pull(struct yk_matmul *m, int from, int x, const struct yk_block *b,
                     enum yk_float type, void *out, struct yk_error *e);
/* How fast blocks come from there: bytes a second. */
yk_code yk_wire_probe(struct yk_matmul *m, int from, double *rate, struct yk_error *e);
/* Rows of the tile to rank 0, which writes them. */
yk_code yk_wire_tile(struct yk_matmul *m, const struct yk_block *tile, struct yk_error *e);
yk_code yk_wire_report(struct yk_matmul *m, enum yk_phase phase, const void *bytes, size_t n,
                       struct yk_error *e);
/* Rank 0: until all have reported; then report r is at yk_wire_box. */
yk_code yk_wire_gather(struct yk_matmul *m, enum yk_phase phase, struct yk_error *e);
const void *yk_wire_box(const struct yk_matmul *m, enum yk_phase phase, int rank);
/* Rank 0 says it, the others wait for it. */
yk_code yk_wire_go(struct yk_matmul *m, struct yk_error *e);
yk_code yk_wire_vector(struct yk_matmul *m, struct yk_error *e);
/* The end, on every rank, whatever `rc` is; all leave with the same code. */
yk_code yk_wire_finish(struct yk_matmul *m, yk_code rc, bool *stopped, struct yk_error *e);

/* --- matmul_check.c --- */

void yk_check_signs(float *x, uint64_t n, uint64_t seed);
/* A tile of C is finished: its part of w = C x. */
void yk_check_tile(struct yk_matmul *m, const struct yk_block *tile);
yk_code yk_check(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e);

#endif
