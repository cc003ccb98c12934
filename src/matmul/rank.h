/* rank.h - the parts of a rank of a product, shared by the files of this folder; matmul.h says what
 * each file is for.
 *
 * MESSAGES go from a rank's worker to another's owner, and back from owner to worker; rank k has
 * owner k and worker k.
 *
 *     PULL    worker -> owner    asks for a block of a matrix, as float or double
 *     BLOCK   owner  -> worker   the numbers of it
 *     TILE    worker -> owner 0  rows of C, to be written
 *     WROTE   owner 0 -> worker  they are written
 *     REPORT  worker -> owner 0  at the end of a phase, the rank's findings
 *     GO      owner 0 -> worker  the measured part of the plan is known: start
 *     VECTOR  owner 0 -> worker  B x and y'A, to check with
 *     FAIL    worker -> owner 0  something went wrong here
 *     STOP    owner 0 -> worker  all is done, or something went wrong: the same error on all ranks
 *
 * THREADS: fields marked [lock] belong to the handlers and to all threads of the rank, under the
 * lock of struct yk_wire, which is taken last. Buffers that the engine writes into are never freed
 * before the comm is closed. */
#ifndef YK_MATMUL_RANK_H
#define YK_MATMUL_RANK_H

#include "base/team.h"
#include "matmul/matmul.h"

#include <pthread.h>

enum {
    YK_PULL_BYTES = 4 << 20,   /* bytes of a message with a part of a block */
    YK_PULLS = 4,              /* such messages under way to a rank */
    YK_TILE_BYTES = 1 << 20,   /* bytes of a message with rows of C */
    YK_TRACE_BLOCK = 1024,     /* side of the blocks that a trace is added up from */
    YK_CHECK_FLOATS = 1 << 21, /* floats of a block that is checked with */
    YK_CHECK_COLS = 1 << 19,   /* longest row of a block that is checked with */
    YK_ROW_MOST = 1 << 19,     /* elements of a block's row: as doubles they are YK_PULL_BYTES */
};

/* --- matrix.c --- */

struct yk_matrix {
    bool made; /* from `seed`; otherwise it is in the file */
    uint64_t rows, cols;
    uint64_t seed, which;
    struct yk_npy file;
};

void yk_matrix_make(struct yk_matrix *x, uint64_t n, uint64_t seed, int which);
yk_code yk_matrix_open(struct yk_matrix *x, const char *path, struct yk_error *e);
void yk_matrix_close(struct yk_matrix *x);
yk_code yk_matrix_read(const struct yk_matrix *x, const struct yk_rect *b, enum yk_float type,
                       void *out, struct yk_error *e);
/* A hash by which ranks recognise the same file; see struct yk_matmul_card. */
yk_code yk_matrix_mark(const struct yk_matrix *x, uint64_t *mark, struct yk_error *e);
/* Is the file on a file system of another machine? */
bool yk_matrix_far(const struct yk_matrix *x);

/* --- the rank --- */

enum yk_phase { YK_PHASE_PROBE, YK_PHASE_WORK, YK_PHASE_VECTOR, YK_PHASE_CHECK, YK_PHASES };

struct yk_probe_report {
    double rate; /* bytes a second of the blocks that came; 0: none did */
};
struct yk_work_report {
    double trace;
};
/* Followed by the rank's parts of `middle`, see struct yk_check. */
struct yk_vector_report {
    uint64_t large[YK_MATMUL_INPUTS]; /* as in struct yk_check */
};
/* Followed by the rank's parts of `made` and `want`, also there. */
struct yk_check_report {
    uint64_t moved, peak_rss;
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

/* --- load.c --- */

/* Fills two slots in turn: the blocks of step i go into slot i % 2. */
struct yk_loader {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running;    /* the thread has been started and not yet joined */
    bool stop;       /* the thread shall end before its last step */
    bool ended;      /* no further step will be loaded */
    uint64_t loaded; /* steps loaded so far */
    uint64_t freed;  /* steps whose slots are free again */
    yk_code rc;      /* of the last step */
    struct yk_error error;
    bool (*step)(void *arg, uint64_t i, struct yk_rect block[YK_MATMUL_INPUTS]);
    void *arg;
    bool ask_others; /* blocks that this rank cannot load itself come from others */
    enum yk_float type;
    struct yk_rect block[2][YK_MATMUL_INPUTS]; /* the blocks in each slot */
};

/* --- check.c --- */

/* As check.c draws it: YK_ROWS are sums along rows, YK_COLS along columns. */
struct yk_check {
    double *random[YK_WAYS]; /* (tries, n) and (tries, m): x and y */
    double *middle;          /* (ways, sums, k): B x and y'A */
    double *made[YK_WAYS];   /* (tries, rows or columns of the region): C x and y'C */
    double *want[YK_WAYS];   /* (sums, its rows of A or columns of B): A (B x) and (y'A) B */
    /* the file has float64 values beyond float32; rank 0 learns it of all ranks */
    bool large[YK_MATMUL_INPUTS];
};

/* --- wire.c --- */

struct yk_wire {
    struct yk_comm *comm;
    int owner, worker;   /* this rank's endpoints */
    atomic_ullong moved; /* bytes between this rank and others */
    atomic_uint pending; /* sends that the engine still reads */
    pthread_mutex_t lock;
    bool may_start;                /* [lock] GO has come */
    bool has_vector;               /* [lock] VECTOR has come */
    bool has_stop;                 /* [lock] STOP has come */
    struct yk_failure stop_in;     /* [lock] the reason in STOP */
    int lost;                      /* [lock] the first rank that was lost; -1 */
    char why[160];                 /* [lock] why it was */
    struct yk_pull pull[YK_PULLS]; /* [lock] */
    bool wrote;                    /* [lock] the last TILE has been written */
    void *box[YK_PHASES];          /* at rank 0, (ranks) places of box_bytes[phase] */
    size_t box_bytes[YK_PHASES];
    int boxed[YK_PHASES];                 /* [lock] reports that are here */
    struct yk_failure *failed;            /* [lock] at rank 0, (ranks) */
    int first_failed;                     /* [lock] the first rank that failed; -1 */
    bool failing;                         /* [lock] this rank has sent FAIL */
    struct yk_failure fail_out, stop_out; /* sent by this rank */
};

/* The thread that serves other ranks, and its queue of PULLs and TILEs. */
struct yk_block_server {
    pthread_t thread;
    bool running;
    pthread_cond_t asked;
    bool stop;             /* [lock] */
    struct yk_note *queue; /* [lock] (queue_size) a ring */
    size_t queue_size, queue_first, queue_count;
    void *staging[2]; /* blocks on their way out */
    void **tile_in;   /* at rank 0, (ranks) YK_TILE_BYTES each, where rows of C arrive */
};

/* --- the rank --- */

struct yk_matmul {
    struct yk_matmul_ask ask;
    int rank, ranks;
    struct yk_matmul_plan plan;
    struct yk_matmul_part *part; /* this rank's */
    struct yk_matrix input[YK_MATMUL_INPUTS];
    struct {
        struct yk_outfile file; /* at rank 0 */
        bool exists;            /* `file` has been made */
        int fd;                 /* the same file, if this rank writes its own tiles; -1 */
    } output;
    struct {
        void *slot[2][YK_MATMUL_INPUTS]; /* blocks of A and of B: one to work on, one to load */
        size_t slot_bytes[YK_MATMUL_INPUTS];
        float *tile; /* of C */
        size_t tile_bytes;
    } buffers;
    unsigned threads;
    struct yk_team *team;
    struct yk_matmul_hooks hooks;
    double opened; /* yk_now() */
    double trace;
    struct yk_loader loader;
    struct yk_check check;
    struct yk_wire wire;
    struct yk_block_server server;
};

/* load.c: starts to load the steps one after the other, two ahead. */
yk_code yk_load_begin(struct yk_matmul *m,
                      bool (*step)(void *arg, uint64_t i, struct yk_rect block[YK_MATMUL_INPUTS]),
                      void *arg, enum yk_float type, bool ask_others, struct yk_error *e);
/* The blocks of step i; steps come in order, and *more is false past the end. Blocks are valid
 * until yk_load_free. */
yk_code yk_load_take(struct yk_matmul *m, uint64_t i, void *data[YK_MATMUL_INPUTS],
                     struct yk_rect block[YK_MATMUL_INPUTS], bool *more, struct yk_error *e);
void yk_load_free(struct yk_matmul *m, uint64_t i);
void yk_load_end(struct yk_matmul *m); /* also before the last step */
/* Memory of whole huge pages where the machine has them; NULL if there is no memory. */
void *yk_matmul_memory(size_t bytes);
void yk_matmul_memory_free(void *p, size_t bytes);

/* wire.c */
yk_code yk_wire_open(struct yk_matmul *m, struct yk_error *e);
void yk_wire_close(struct yk_matmul *m);
/* Starts the server, if other ranks will ask. */
yk_code yk_wire_start(struct yk_matmul *m, struct yk_error *e);
/* YK_OK unless something ends the work: a failure elsewhere, a lost rank, the user. */
yk_code yk_wire_state(struct yk_matmul *m, struct yk_error *e);
/* Fetches a block that another rank has. */
yk_code yk_wire_pull(struct yk_matmul *m, int from, int x, const struct yk_rect *b,
                     enum yk_float type, void *out, struct yk_error *e);
/* Measures how fast blocks come from that rank, in bytes per second. */
yk_code yk_wire_probe(struct yk_matmul *m, int from, double *rate, struct yk_error *e);
/* Sends the rows of the tile to rank 0, which writes them. */
yk_code yk_wire_tile(struct yk_matmul *m, const struct yk_rect *tile, struct yk_error *e);
yk_code yk_wire_report(struct yk_matmul *m, enum yk_phase phase, const void *bytes, size_t n,
                       struct yk_error *e);
/* Rank 0 waits until all ranks have reported; then the report of a rank is at yk_wire_box. */
yk_code yk_wire_gather(struct yk_matmul *m, enum yk_phase phase, struct yk_error *e);
const void *yk_wire_box(const struct yk_matmul *m, enum yk_phase phase, int rank);
/* Rank 0 sends GO or VECTOR, the others wait for it. */
yk_code yk_wire_go(struct yk_matmul *m, struct yk_error *e);
yk_code yk_wire_vector(struct yk_matmul *m, struct yk_error *e);
/* The end, on every rank, with any `rc`; all leave with the same code. */
yk_code yk_wire_finish(struct yk_matmul *m, yk_code rc, bool *stopped, struct yk_error *e);

/* check.c: bytes of a rank's reports, of `middle`, and of all that it keeps. */
size_t yk_check_vector_bytes(const struct yk_matmul_part *part);
size_t yk_check_report_bytes(const struct yk_matmul_part *part);
size_t yk_check_middle_bytes(const struct yk_matmul_plan *p);
size_t yk_check_memory(const struct yk_matmul_plan *p, int rank);

bool yk_check_open(struct yk_matmul *m); /* false: no memory */
void yk_check_close(struct yk_matmul *m);
/* A tile of C is finished: adds its part to C x and y'C. */
void yk_check_tile(struct yk_matmul *m, const struct yk_rect *tile);
yk_code yk_check(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e);

#endif
