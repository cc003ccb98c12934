/* logreg.c - the rows per second of sparse logistic regression, as ratios to a bare loop in the
 * same run.
 *
 * The bare loop is written by hand for one optimizer, batches of one row, and rows in memory: read
 * the row's weights, compute one sigmoid, update the weights, with the parameters of the next rows
 * prefetched. It has no loss, no bias, no duplicate keys and no choice at run time. It is compiled
 * for this very CPU, whatever --isa says. Yoke's contenders are the sweep of model/logreg with
 * batches of 1 and 100, on one thread and on all, with the optimizers of src/optim. The data are
 * synth-criteo: 39 entries per row, 33,762,578 features, power laws. All contenders read the same
 * arrays.
 *
 * In a round each contender trains once over all rows, from zero, so other load on the machine
 * affects all of them. Figures are medians over the rounds, printed as a Markdown table. First, and
 * not timed, the bare loop trains once with a bias: yoke's weights with batches of one row must be
 * the same within APART of their size, else the figures mean nothing.
 *
 *     logreg [--rounds N] [--rows N] [--features N] [--threads N] [--optimizer NAME] [--isa NAME]
 *            [--shuffle] [--cpu] [--keys]
 *
 * --cpu measures processor time (divided by the threads) and takes the best round, for a machine
 * that is shared. --keys instead times listing the keys of a batch, which a worker of several does
 * before a step. Speed is reported, not judged: the exit status is 0 unless something is broken. */
#include "base/clock.h"
#include "base/rng.h"
#include "base/team.h"
#include "data/rows/synth.h"
#include "model/model.h"
#include "optim/optim.h"

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 99, BARE_AHEAD = 8, SLOTS = 2 };
enum { HEAD = 16 };                 /* floats before the weights; the first of them is the bias */
static const double APART = 1e-4;   /* differences by the order of sums and another exp() */
static const double TOGETHER = 1.3; /* promised ratio of all cores to one thread */

static const struct {
    const char *name;
    float lr;
    double floor[2]; /* promised ratios with batches of 1 and 100 */
} OPTIMIZERS[] = {
    {"sgd", 0.005f, {0.7, 0.5}}, {"adagrad", 0.1f, {0.7, 0.5}}, {"ftrl", 0.1f, {0.7, 0.5}}};
enum { N_OPTIMIZERS = sizeof OPTIMIZERS / sizeof OPTIMIZERS[0] };

struct rows_bench {
    struct yk_rows rows; /* its blocks point into the arrays below */
    uint32_t *start;     /* (rows + 1) first entry of each row */
    uint32_t *first;     /* (rows + blocks) the same within each block */
    uint8_t *label;      /* (rows) */
    uint32_t *key;       /* (entries) */
    float *value;        /* (entries) */
    uint32_t *order;     /* (rows) NULL: file order */
    float *w;            /* (HEAD + features) */
    float *slot[SLOTS];
    double best; /* the loss of the true model, a lower bound */
    const struct yk_model_ops *ops;
    struct yk_model *model;
    unsigned rounds, threads;
    bool cpu;
    const char *only;
    const char *isa;
};

/* --- the bare loops --- */

#define INLINE static inline __attribute__((always_inline))

enum bare_kind { SGD, ADAGRAD, FTRL };

INLINE void bare_update(enum bare_kind kind, float lr, float *w, float *a, float *b, float g)
{
    if (kind == SGD) {
        *w -= lr * g;
    } else if (kind == ADAGRAD) {
        *a += g * g;
        *w -= lr * g / (sqrtf(*a) + 1e-7f);
    } else { /* a: z, b: n; beta = 1, no l1, no l2 */
        float after = *b + g * g, root = sqrtf(after), s = (root - sqrtf(*b)) / lr;
        *a += g - s * *w;
        *b = after;
        *w = -*a / ((1 + root) / lr);
    }
}

INLINE void bare(const struct rows_bench *t, enum bare_kind kind, float lr, bool bias)
{
    float *w = t->w + HEAD, *a = t->slot[0] + HEAD, *b = t->slot[1] + HEAD;
    for (uint64_t i = 0; i < t->rows.rows; i++) {
        uint64_t row = t->order == NULL ? i : t->order[i];
        if (i + BARE_AHEAD < t->rows.rows) {
            uint64_t next = t->order == NULL ? i + BARE_AHEAD : t->order[i + BARE_AHEAD];
            for (uint32_t k = t->start[next]; k < t->start[next + 1]; k++) {
                __builtin_prefetch(w + t->key[k], 1);
                if (kind != SGD)
                    __builtin_prefetch(a + t->key[k], 1);
                if (kind == FTRL)
                    __builtin_prefetch(b + t->key[k], 1);
            }
        }
        float z = bias ? t->w[0] : 0;
        for (uint32_t k = t->start[row]; k < t->start[row + 1]; k++)
            z += w[t->key[k]] * t->value[k];
        float g = 1 / (1 + expf(-z)) - (float)t->label[row];
        for (uint32_t k = t->start[row]; k < t->start[row + 1]; k++)
            bare_update(kind, lr, w + t->key[k], a + t->key[k], b + t->key[k], g * t->value[k]);
        if (bias)
            bare_update(kind, lr, t->w, t->slot[0], t->slot[1], g);
    }
}

/* One loop per optimizer, as if written by hand. */
static void run_bare(const struct rows_bench *t, unsigned kind)
{
    float lr = OPTIMIZERS[kind].lr;
    if (kind == SGD)
        bare(t, SGD, lr, false);
    else if (kind == ADAGRAD)
        bare(t, ADAGRAD, lr, false);
    else
        bare(t, FTRL, lr, false);
}

static void run_bare_with_bias(const struct rows_bench *t, unsigned kind)
{
    bare(t, (enum bare_kind)kind, OPTIMIZERS[kind].lr, true);
}

/* --- yoke --- */

struct recipe {
    struct yk_update u[64];
};

static const struct yk_update *update(void *arg, unsigned thread, uint64_t step, uint32_t rows)
{
    struct recipe *r = arg;
    struct yk_update *u = &r->u[thread];
    u->step = step;
    u->scale = 1.0f / (float)rows;
    return u;
}

static double run_yoke(const struct rows_bench *t, struct yk_work *work, unsigned kind,
                       uint32_t batch)
{
    const struct yk_optimizer_ops *o = yk_optimizer_find(OPTIMIZERS[kind].name);
    struct recipe r;
    for (unsigned i = 0; i < 64; i++)
        r.u[i] = (struct yk_update){.lr = OPTIMIZERS[kind].lr, .eps = 1e-7f, .beta = 1};
    struct yk_sweep s = {.rows = &t->rows,
                         .order = t->order,
                         .count = t->rows.rows,
                         .batch = batch,
                         .w = t->w,
                         .slot = {t->slot[0], t->slot[1]},
                         .slots = o->slots,
                         .apply = o->apply,
                         .apply_keys = o->apply_keys,
                         .read_keys = o->read_keys,
                         .update = update,
                         .arg = &r};
    struct yk_error e;
    if (t->ops->sweep(work, &s, &e) != YK_OK) {
        fprintf(stderr, "logreg: %s\n", e.text);
        return NAN;
    }
    return s.loss / (double)t->rows.rows;
}

/* --- rounds --- */

static double now(const struct rows_bench *t, unsigned threads)
{
    struct timespec c;
    if (!t->cpu)
        return yk_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &c);
    return ((double)c.tv_sec + (double)c.tv_nsec * 1e-9) / threads;
}

static void reset(const struct rows_bench *t)
{
    size_t bytes = ((size_t)t->rows.features + HEAD) * sizeof(float);
    memset(t->w, 0, bytes);
    for (unsigned k = 0; k < SLOTS; k++)
        memset(t->slot[k], 0, bytes);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of the rounds or, on a shared machine, the best. */
static double typical(const struct rows_bench *t, double *v)
{
    qsort(v, t->rounds, sizeof *v, by_size);
    return v[t->cpu ? t->rounds - 1 : t->rounds / 2];
}

/* The distance of yoke's weights with batches of 1 from those of a loop with a bias, relative to
 * their size. */
static double distance(const struct rows_bench *t, unsigned kind)
{
    size_t n = (size_t)t->rows.features + HEAD;
    float *theirs = malloc(n * sizeof *theirs);
    struct yk_work *work;
    double apart = 0, size = 0;
    if (theirs == NULL || t->ops->work_open(&work, t->model, 1, t->isa, NULL) != YK_OK) {
        free(theirs);
        return NAN;
    }
    reset(t);
    run_bare_with_bias(t, kind);
    memcpy(theirs, t->w, n * sizeof *theirs);
    reset(t);
    run_yoke(t, work, kind, 1);
    for (size_t i = 0; i < n; i++) {
        double d = (double)t->w[i] - (double)theirs[i];
        apart += d * d;
        size += (double)theirs[i] * (double)theirs[i];
    }
    t->ops->work_close(work);
    free(theirs);
    return sqrt(apart / size);
}

enum { BARE, ONE, HUNDRED, ONE_ALL, HUNDRED_ALL, CONTENDERS };
static const struct {
    const char *name, *to;
    unsigned base;
} SHOWN[CONTENDERS] = {{"bare loop", "", BARE},
                       {"`--batch 1`", "bare loop", BARE},
                       {"`--batch 100`", "bare loop", BARE},
                       {"`--batch 1`, all cores", "one thread", ONE},
                       {"`--batch 100`, all cores", "one thread", HUNDRED}};

static int compare(struct rows_bench *t, unsigned kind)
{
    static double rate[CONTENDERS][MAX_ROUNDS];
    double loss[CONTENDERS] = {NAN}, median[CONTENDERS];
    unsigned contenders = t->threads > 1 ? CONTENDERS : ONE_ALL;
    double apart = distance(t, kind);
    if (!(apart < APART)) {
        fprintf(stderr,
                "logreg: the weights of %s are %.2g apart from the bare loop's: they do not train "
                "the same\n",
                OPTIMIZERS[kind].name, apart);
        return 1;
    }
    for (unsigned round = 0; round < t->rounds; round++)
        for (unsigned c = 0; c < contenders; c++) {
            struct yk_work *work; /* a new one each time, as in a run */
            unsigned threads = c >= ONE_ALL ? t->threads : 1;
            reset(t);
            if (t->ops->work_open(&work, t->model, threads, t->isa, NULL) != YK_OK)
                return 1;
            double start = now(t, threads);
            if (c == BARE)
                run_bare(t, kind);
            else
                loss[c] = run_yoke(t, work, kind, c == ONE || c == ONE_ALL ? 1 : 100);
            rate[c][round] = (double)t->rows.rows / (now(t, threads) - start);
            t->ops->work_close(work);
        }
    for (unsigned c = 0; c < contenders; c++) {
        median[c] = typical(t, rate[c]);
        printf("| %s | %s | %.0f |", OPTIMIZERS[kind].name, SHOWN[c].name, median[c]);
        if (c == BARE) {
            printf(" | | | |\n");
            continue;
        }
        double ratio = median[c] / median[SHOWN[c].base];
        double least = c >= ONE_ALL ? TOGETHER : OPTIMIZERS[kind].floor[c - ONE];
        printf(" %.2f | %s | %.1f, %s | %.4f |\n", ratio, SHOWN[c].to, least,
               ratio >= least ? "kept" : "missed", loss[c]);
    }
    fflush(stdout);
    return 0;
}

/* Times the model's `keys`. */
static int time_keys(struct rows_bench *t, struct yk_work *work)
{
    struct yk_dataset set = {.rows = (uint32_t)t->rows.rows, .sparse = &t->rows};
    uint32_t row[100];
    uint64_t n = 0, keys = 0;
    struct yk_keys out;
    double start = now(t, 1);
    for (uint64_t at = 0; at + 100 <= t->rows.rows; at += 100, n++) {
        for (uint32_t i = 0; i < 100; i++)
            row[i] = t->order == NULL ? (uint32_t)(at + i) : t->order[at + i];
        const struct yk_batch batch = {.set = &set, .n = 100, .row = row};
        if (t->ops->keys(work, n & 1, &batch, 1, &out, NULL) != YK_OK)
            return 1;
        keys += out.n;
    }
    double took = now(t, 1) - start;
    printf("keys of a batch of 100 rows: %.1f us, %.0f keys of %.0f entries\n",
           took / (double)n * 1e6, (double)keys / (double)n,
           (double)t->rows.entries / (double)t->rows.rows * 100);
    return 0;
}

/* --- data --- */

static int make_data(struct rows_bench *t, uint64_t rows, uint64_t features, bool shuffle)
{
    struct yk_synth *synth;
    struct yk_error e;
    if (yk_synth_open(&synth, rows, features, 1, &e) != YK_OK) {
        fprintf(stderr, "logreg: %s\n", e.text);
        return 1;
    }
    uint32_t blocks = (uint32_t)((rows + YK_BLOCK_ROWS - 1) / YK_BLOCK_ROWS);
    uint64_t room = rows * YK_SYNTH_FIELDS + 64;
    t->start = calloc(rows + 1, sizeof *t->start);
    t->first = calloc(rows + blocks, sizeof *t->first);
    t->label = calloc(rows, 1);
    t->key = malloc(room * sizeof *t->key);
    t->value = malloc(room * sizeof *t->value);
    t->rows =
        (struct yk_rows){.rows = rows, .blocks = blocks, .features = yk_synth_features(synth)};
    t->rows.block = calloc(blocks, sizeof *t->rows.block);
    int bad = !t->start || !t->first || !t->label || !t->key || !t->value || !t->rows.block;
    for (uint64_t b = 0; b < blocks && !bad; b++) {
        struct yk_chunk c = {0};
        uint64_t from = b * YK_BLOCK_ROWS, at = t->start[from];
        uint32_t n = rows - from < YK_BLOCK_ROWS ? (uint32_t)(rows - from) : YK_BLOCK_ROWS;
        bad = yk_synth_chunk(synth, from, n, &c, &e) != YK_OK || at + c.entries + 16 > room;
        for (uint32_t i = 0; i < n && !bad; i++) {
            t->label[from + i] = c.label[i];
            t->start[from + i + 1] = (uint32_t)at + c.end[i];
            t->first[from + b + i + 1] = c.end[i];
        }
        if (!bad) {
            memcpy(t->key + at, c.key, c.entries * sizeof *c.key);
            memcpy(t->value + at, c.value, c.entries * sizeof *c.value);
        }
        t->rows.block[b] = (struct yk_rows_block){.first = t->first + from + b,
                                                  .label = t->label + from,
                                                  .key = t->key + at,
                                                  .value = t->value + at};
        t->rows.entries += c.entries;
        free(c.label), free(c.end), free(c.key), free(c.value);
    }
    t->best = yk_synth_best(synth, 0, rows < 100000 ? rows : 100000);
    yk_synth_close(synth);
    if (shuffle && !bad && (t->order = malloc(rows * sizeof *t->order)) != NULL) {
        struct yk_rng r;
        yk_rng_init(&r, 1, 0, 0, 0);
        for (uint32_t i = 0; i < rows; i++)
            t->order[i] = i;
        for (uint32_t i = (uint32_t)rows; i > 1; i--) {
            uint32_t k = yk_rng_below(&r, i), keep = t->order[i - 1];
            t->order[i - 1] = t->order[k];
            t->order[k] = keep;
        }
    }
    t->w = yk_floats(t->rows.features + HEAD);
    for (unsigned k = 0; k < SLOTS; k++)
        t->slot[k] = yk_floats(t->rows.features + HEAD);
    return bad || t->w == NULL || t->slot[0] == NULL || t->slot[1] == NULL;
}

int main(int argc, char **argv)
{
    static const struct option LONG[] = {{"rounds", 1, NULL, 'r'},    {"rows", 1, NULL, 'n'},
                                         {"features", 1, NULL, 'f'},  {"threads", 1, NULL, 't'},
                                         {"optimizer", 1, NULL, 'o'}, {"shuffle", 0, NULL, 's'},
                                         {"keys", 0, NULL, 'k'},      {"cpu", 0, NULL, 'c'},
                                         {"isa", 1, NULL, 'i'},       {0}};
    static struct rows_bench t = {.rounds = 5, .isa = "auto"};
    uint64_t rows = 1000000, features = 0;
    bool shuffle = false, only_keys = false;
    t.threads = yk_cpus();
    for (int c; (c = getopt_long(argc, argv, "", LONG, NULL)) != -1;)
        switch (c) {
        case 'r':
            t.rounds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            rows = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            features = strtoull(optarg, NULL, 10);
            break;
        case 't':
            t.threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'o':
            t.only = optarg;
            break;
        case 's':
            shuffle = true;
            break;
        case 'i':
            t.isa = optarg;
            break;
        case 'c':
            t.cpu = true;
            break;
        case 'k':
            only_keys = true;
            break;
        default:
            return 2;
        }
    if (t.rounds < 1 || t.rounds > MAX_ROUNDS || rows < 1000 || rows > 100000000 || t.threads < 1 ||
        t.threads > 64) {
        fprintf(stderr, "logreg: 1 to %d rounds, 1000 to 100000000 rows, 1 to 64 threads\n",
                MAX_ROUNDS);
        return 2;
    }
    if (make_data(&t, rows, features, shuffle) != 0)
        return 1;
    struct yk_dataset shape = {.name = "synth-criteo",
                               .rows = (uint32_t)rows,
                               .features = (uint32_t)t.rows.features,
                               .classes = 2,
                               .sparse = &t.rows};
    struct yk_params params;
    struct yk_work *work;
    struct yk_error e;
    t.ops = yk_model_find("logreg");
    if (t.ops->open(&t.model, &shape, &e) != YK_OK ||
        t.ops->layout(t.model, &params, 1, &e) != YK_OK ||
        t.ops->work_open(&work, t.model, 1, t.isa, &e) != YK_OK) {
        fprintf(stderr, "logreg: %s\n", e.text);
        return 1;
    }
    if (!only_keys) {
        printf("%llu rows of %.1f entries out of %llu features%s; all cores are %u; the best "
               "possible loss is %.4f.\n",
               (unsigned long long)rows, (double)t.rows.entries / (double)rows,
               (unsigned long long)t.rows.features, shuffle ? ", shuffled" : "", t.threads, t.best);
        printf("Medians of %u rounds.\n\n", t.rounds);
        printf("| optimizer | sweep | rows/s | ratio | to | floor | loss "
               "|\n|---|---|---:|---:|---|---|---:|\n");
    }
    if (only_keys)
        return time_keys(&t, work);
    int bad = 0;
    for (unsigned k = 0; k < N_OPTIMIZERS; k++)
        if (t.only == NULL || strcmp(t.only, OPTIMIZERS[k].name) == 0)
            bad |= compare(&t, k);
    return bad;
}
