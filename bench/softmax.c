/* softmax.c - the training steps per second of softmax regression on MNIST, as ratios to a baseline
 * in the same run.
 *
 * Contenders are yoke's own step, on every instruction set of this CPU, and the plain C loop of
 * gemm.c, in each of its memory layouts. Yoke's step starts from 8-bit pixels in shuffled order and
 * takes the path of one batch in train/loop.c: pull, source, step, commit, from one worker to one
 * owner in threads, by the rule of --mode local. In a round each contender trains the same number
 * of steps from zero, enough to keep the fastest busy for the given seconds, so other load on the
 * machine affects all of them. Figures are medians over the rounds. Before anything is timed, the
 * weights of each contender are tried on the test set, because a contender that trains something
 * else is not worth measuring.
 *
 *     softmax [OPTIONS]                             the tables, in Markdown
 *     softmax --yoke BATCH [--threads T] [OPTIONS]  one number for comparisons: yoke's steps/s
 *
 * OPTIONS are --rounds N, --seconds S (of a turn) and --isa NAME (the best instruction set that
 * yoke may use; GEMM is compiled for this very CPU, and its dnnl_sgemm obeys DNNL_MAX_CPU_ISA).
 * Speed is reported, not judged: the exit status is 0 unless something is broken. */
#include "base/clock.h"
#include "bench/gemm.h"
#include "comm/comm.h"
#include "data/data.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "optim/optim.h"
#include "param/param.h"
#include "strategy/server.h"
#include "strategy/worker.h"

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { F = YK_GEMM_FEATURES, C = YK_GEMM_CLASSES };
enum { MAX_ROUNDS = 999, MAX_SETS = 8, MAX_CONTENDERS = MAX_SETS + YK_GEMM_LAYOUTS };
static const double RATE = 0.01;
enum { FEWEST = 150 }; /* steps after which learning shows */

static const struct row {
    uint32_t batch;
    unsigned threads;
    bool sets;    /* measure all instruction sets, not only the best */
    double floor; /* the promised ratio; 0: none */
} ROWS[] = {{1, 1, false, 1},  {10, 1, false, 1},  {60, 1, true, 2},
            {100, 1, true, 2}, {600, 1, false, 0}, {600, 2, false, 0}};
enum { N_ROWS = sizeof ROWS / sizeof ROWS[0] };

/* The result of a contender's training. */
struct weights {
    float w[C][F];
    float b[C];
};

/* One way to train. */
struct contender {
    const char *name;
    bool is_yoke;
    void (*reset)(struct contender *c);
    double (*step)(struct contender *c); /* the summed loss of one batch */
    void (*look)(const struct contender *c, struct weights *out);
    double rate[MAX_ROUNDS]; /* steps per second */

    /* yoke: the parts of a session */
    const struct yk_model_ops *ops;
    struct yk_model *model;
    struct yk_params params;
    struct yk_work *work;
    struct yk_source source;
    /* yoke: its crew, one owner and one worker */
    struct yk_rule rule;
    struct yk_recipe recipe;
    struct yk_comm *comm;
    struct yk_clock clock;
    struct yk_server server;
    struct yk_worker worker;

    struct yk_gemm gemm; /* the baseline */
};

struct images_bench {
    struct yk_dataset train, test;
    float *pixels; /* (train.rows, F) input of the baseline; NULL if it does not take part */
    unsigned rounds;
    double seconds;      /* least length of a turn of the fastest */
    unsigned sets;       /* instruction sets that take part, the best one last */
    struct contender *c; /* (MAX_CONTENDERS) */
    unsigned n;
};

/* --- yoke --- */

static enum yk_verdict stepped(void *arg, const struct yk_stepped *s)
{
    (void)arg;
    (void)s;
    return YK_GO;
}

static void crew_close(struct contender *c)
{
    if (c->comm != NULL)
        c->comm->ops->close(c->comm, true);
    c->comm = NULL;
    yk_server_release(&c->server);
    yk_worker_release(&c->worker);
    yk_clock_release(&c->clock);
}

/* Opens what train/crew.c opens; resetting a contender gives it its first task. */
static yk_code crew_open(struct contender *c, struct yk_error *e)
{
    const struct yk_watcher watcher = {.stepped = stepped};
    yk_code rc = yk_comm_threads(&c->comm, 1, 1, e);
    if (rc == YK_OK)
        rc = yk_clock_init(&c->clock, &c->rule, 0, 0, e);
    if (rc == YK_OK)
        rc = yk_server_init(&c->server, c->comm, &c->rule, 0, &c->recipe, c->params.flat, NULL,
                            c->params.count, &c->clock, &watcher, e);
    if (rc == YK_OK)
        rc = yk_worker_init(&c->worker, c->comm, &c->rule, 0, &c->params, false, e);
    if (rc != YK_OK)
        return rc;
    c->comm->ops->attach(c->comm, 0, &yk_server_handler, &c->server);
    c->comm->ops->attach(c->comm, yk_worker_endpoint(c->comm, 0), &yk_worker_handler, &c->worker);
    yk_server_seed(&c->server, 0, c->params.count);
    return YK_OK;
}

static void yoke_reset(struct contender *c)
{
    memset(c->params.flat, 0, c->params.count * sizeof *c->params.flat);
    c->clock.position = 0;
    c->server.owner.step = 0;
    c->worker.replies =
        0; /* the task that lies ready is of another training: ask for the first one */
    yk_worker_start(&c->worker);
}

static double yoke_step(struct contender *c)
{
    struct yk_task task;
    struct yk_batch batch;
    if (!yk_worker_pull(&c->worker, &task))
        return NAN;
    yk_source_at(&c->source, task.id, task.examples, task.ahead, &batch);
    double loss = c->ops->step(c->work, &c->worker.params, &batch, yk_worker_sink(&c->worker, 0));
    yk_worker_commit(&c->worker, loss);
    return loss;
}

static void yoke_look(const struct contender *c, struct weights *out)
{
    memcpy(out->w, c->params.flat + yk_params_find(&c->params, "softmax.weight")->at,
           sizeof out->w);
    memcpy(out->b, c->params.flat + yk_params_find(&c->params, "softmax.bias")->at, sizeof out->b);
}

static yk_code add_yoke(struct images_bench *b, uint32_t batch, unsigned threads, const char *isa,
                        struct yk_error *e)
{
    struct contender *c = &b->c[b->n++];
    *c = (struct contender){
        .name = isa, .is_yoke = true, .reset = yoke_reset, .step = yoke_step, .look = yoke_look};
    c->ops = yk_model_find("softmax");
    c->recipe = (struct yk_recipe){.optimizer = yk_optimizer_find("sgd"), .lr = RATE};
    c->rule = (struct yk_rule){.mode = YK_MODE_local, /* as train/plan.c makes it */
                               .workers = 1,
                               .owners = 1,
                               .shards = 1,
                               .batch = batch,
                               .rows = b->train.rows,
                               .fresh = true,
                               .need = 1,
                               .staleness = -1,
                               .last_step = UINT64_MAX};
    yk_code rc = yk_schedule_parse("constant", &c->recipe.schedule, e);
    if (rc == YK_OK)
        rc = c->ops->open(&c->model, &b->train, e);
    if (rc == YK_OK)
        rc = c->ops->layout(c->model, &c->params, 1, e);
    if (rc == YK_OK)
        rc = c->ops->work_open(&c->work, c->model, threads, isa, e);
    if (rc == YK_OK)
        rc = yk_source_init(&c->source, &b->train, 1, true, e);
    if (rc == YK_OK)
        rc = crew_open(c, e);
    return rc;
}

/* --- the baseline --- */

static void gemm_reset(struct contender *c)
{
    yk_gemm_reset(&c->gemm);
}

static double gemm_step(struct contender *c)
{
    return yk_gemm_step(&c->gemm);
}

static void gemm_look(const struct contender *c, struct weights *out)
{
    for (uint32_t k = 0; k < C; k++)
        for (uint32_t f = 0; f < F; f++)
            out->w[k][f] = yk_gemm_weight(&c->gemm, k, f);
    memcpy(out->b, c->gemm.bias, sizeof out->b);
}

static yk_code add_gemm(struct images_bench *b, uint32_t batch, unsigned threads, unsigned layout,
                        struct yk_error *e)
{
    struct contender *c = &b->c[b->n++];
    *c = (struct contender){
        .name = yk_gemm_layout[layout], .reset = gemm_reset, .step = gemm_step, .look = gemm_look};
    return yk_gemm_init(&c->gemm, b->pixels, b->train.labels, b->train.rows, batch, (float)RATE,
                        layout, threads, e);
}

static void drop_contenders(struct images_bench *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        struct contender *c = &b->c[i];
        crew_close(c);
        yk_source_release(&c->source);
        if (c->work != NULL)
            c->ops->work_close(c->work);
        yk_params_release(&c->params);
        if (c->model != NULL)
            c->ops->close(c->model);
        yk_gemm_release(&c->gemm);
    }
    b->n = 0;
}

/* --- measuring --- */

/* The seconds of `steps` steps from zero weights; negative if the loss became infinite or NaN. */
static double train(struct contender *c, uint64_t steps)
{
    double loss = 0;
    c->reset(c);
    double start = yk_now();
    for (uint64_t i = 0; i < steps; i++)
        loss += c->step(c);
    double took = yk_now() - start;
    return isfinite(loss) ? took : -1;
}

/* The mean test loss, slow and obvious. */
static double test_loss(const struct images_bench *b, const struct contender *c)
{
    static struct weights w;
    double loss = 0;
    c->look(c, &w);
    for (uint32_t i = 0; i < b->test.rows; i++) {
        const uint8_t *x = b->test.pixels + (size_t)i * F;
        double z[C], largest = -INFINITY, sum = 0;
        for (int k = 0; k < C; k++) {
            float dot = 0;
            for (int f = 0; f < F; f++)
                dot += w.w[k][f] * (float)x[f];
            z[k] = (double)(dot * b->test.scale) + (double)w.b[k];
            largest = fmax(largest, z[k]);
        }
        for (int k = 0; k < C; k++)
            sum += exp(z[k] - largest);
        loss += log(sum) + largest - z[b->test.labels[i]];
    }
    return loss / b->test.rows;
}

/* The number of steps that keeps the fastest contender busy long enough. Also warms them up. */
static uint64_t steps_a_round(const struct images_bench *b)
{
    double fastest = 0;
    for (unsigned i = 0; i < b->n; i++) {
        uint64_t steps = 64;
        double took = train(&b->c[i], steps);
        while (took >= 0 && took < b->seconds / 8) {
            steps *= 2;
            took = train(&b->c[i], steps);
        }
        fastest = fmax(fastest, (double)steps / took);
    }
    return (uint64_t)(fastest * b->seconds * 1.25) +
           1; /* a quarter more, since a busy machine makes a slow guess */
}

/* Checks in a round that is not timed that all contenders learn the same. Small batches in another
 * order end further apart, so they are allowed more. */
static yk_code compare(const struct images_bench *b, uint64_t steps, uint32_t batch,
                       struct yk_error *e)
{
    double first = NAN, tolerance = 0.02 + 0.18 / batch;
    for (unsigned i = 0; i < b->n; i++) {
        const struct contender *c = &b->c[i];
        if (train(&b->c[i], steps) < 0)
            return yk_fail(e, YK_FAILED, "'%s' diverged within %llu steps", c->name,
                           (unsigned long long)steps);
        double loss = test_loss(b, c);
        if (i == 0)
            first = loss;
        if (loss > 0.8 * log(C) || fabs(loss - first) > tolerance * first)
            return yk_fail(e, YK_FAILED,
                           "'%s' has a test loss of %.4f after %llu steps, '%s' has %.4f: they do "
                           "not train the same",
                           c->name, loss, (unsigned long long)steps, b->c[0].name, first);
    }
    return YK_OK;
}

static yk_code measure(const struct images_bench *b, uint32_t batch, struct yk_error *e)
{
    uint64_t steps = steps_a_round(b);
    yk_code rc = compare(b, steps > FEWEST ? steps : FEWEST, batch, e);
    for (unsigned r = 0; rc == YK_OK && r < b->rounds; r++)
        for (unsigned i = 0; i < b->n; i++)
            b->c[i].rate[r] = (double)steps / train(&b->c[i], steps);
    return rc;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct figure {
    double median;
    double spread; /* width of the middle half of the rounds, relative to the median */
};

static struct figure figure_of(const struct contender *c, unsigned rounds)
{
    double v[MAX_ROUNDS];
    memcpy(v, c->rate, rounds * sizeof v[0]);
    qsort(v, rounds, sizeof v[0], ascending);
    double median = (v[(rounds - 1) / 2] + v[rounds / 2]) / 2;
    return (struct figure){median, (v[rounds - 1 - rounds / 4] - v[rounds / 4]) / median};
}

/* --- the tables --- */

/* Measures one row and prints it; the medians of the instruction sets go to `by_set` (best last;
 * NAN if not asked for). */
static yk_code run_row(struct images_bench *b, const struct row *row, double by_set[MAX_SETS],
                       struct yk_error *e)
{
    unsigned sets = b->sets;
    yk_code rc = YK_OK;
    for (unsigned i = row->sets ? 0 : sets - 1; rc == YK_OK && i < sets; i++)
        rc = add_yoke(b, row->batch, row->threads, yk_kernels_at(i)->name, e);
    for (unsigned i = 0; rc == YK_OK && i < YK_GEMM_LAYOUTS; i++)
        rc = add_gemm(b, row->batch, row->threads, i, e);
    if (rc == YK_OK)
        rc = measure(b, row->batch, e);
    if (rc != YK_OK)
        goto out_contenders;

    struct figure ours = {0}, base = {0};
    const char *layout = "";
    unsigned set = row->sets ? 0 : sets - 1;
    for (unsigned i = 0; i < b->n; i++) {
        struct figure f = figure_of(&b->c[i], b->rounds);
        if (b->c[i].is_yoke) {
            ours = f; /* the last set is the best, the choice of --isa auto */
            by_set[set++] = f.median;
        } else if (f.median > base.median) {
            base = f;
            layout = b->c[i].name;
        }
    }
    double ratio = ours.median / base.median;
    printf("| %u | %u | %.0f | %.0f %% | %.0f | %.0f %% | %.2f |", row->batch, row->threads,
           ours.median, ours.spread * 100, base.median, base.spread * 100, ratio);
    if (row->floor > 0)
        printf(" %.0f, %s |", row->floor, ratio >= row->floor ? "kept" : "missed");
    else
        printf(" - |");
    printf(" %s |\n", layout);
    fflush(stdout);
out_contenders:
    drop_contenders(b);
    return rc;
}

static void print_sets(const struct images_bench *b, double by_set[N_ROWS][MAX_SETS])
{
    printf("\nyoke's steps/s by instruction set (`--isa`), one thread:\n\n| batch |");
    for (unsigned i = 0; i < b->sets; i++)
        printf(" %s |", yk_kernels_at(i)->name);
    printf("\n|---:|");
    for (unsigned i = 0; i < b->sets; i++)
        printf("---:|");
    printf("\n");
    for (unsigned r = 0; r < N_ROWS; r++) {
        if (!ROWS[r].sets)
            continue;
        printf("| %u |", ROWS[r].batch);
        for (unsigned i = 0; i < b->sets; i++)
            printf(" %.0f |", by_set[r][i]);
        printf("\n");
    }
}

static yk_code run_tables(struct images_bench *b, struct yk_error *e)
{
    static double by_set[N_ROWS][MAX_SETS];
    size_t count = (size_t)b->train.rows * F;
    b->pixels = yk_floats(count);
    if (b->pixels == NULL)
        return yk_fail_memory(e, count * sizeof *b->pixels);
    for (size_t i = 0; i < count; i++)
        b->pixels[i] = (float)b->train.pixels[i] * b->train.scale;
    yk_code rc = yk_dataset_pack(&b->train, e); /* as a session does when it opens */

    printf(
        "Softmax step on %s, steps/s; medians of %u rounds, spreads of their middle half. Ratio: "
        "yoke / GEMM.\n\n"
        "| batch | threads | yoke | spread | GEMM | spread | ratio | floor | GEMM's best layout |\n"
        "|---:|---:|---:|---:|---:|---:|---:|---|---|\n",
        b->train.name, b->rounds);
    for (unsigned r = 0; rc == YK_OK && r < N_ROWS; r++)
        rc = run_row(b, &ROWS[r], by_set[r], e);
    if (rc == YK_OK)
        print_sets(b, by_set);
    yk_floats_free(b->pixels);
    return rc;
}

static yk_code run_yoke(struct images_bench *b, uint32_t batch, unsigned threads,
                        struct yk_error *e)
{
    yk_code rc = yk_dataset_pack(&b->train, e);
    if (rc == YK_OK)
        rc = add_yoke(b, batch, threads, yk_kernels_at(b->sets - 1)->name, e);
    if (rc == YK_OK)
        rc = measure(b, batch, e);
    if (rc == YK_OK)
        printf("%.1f\n", figure_of(&b->c[0], b->rounds).median);
    drop_contenders(b);
    return rc;
}

/* A whole number from 1 to `most`, or 0. */
static unsigned number(const char *text, unsigned long most)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    return *end == '\0' && v <= most ? (unsigned)v : 0;
}

int main(int argc, char **argv)
{
    static const struct option OPTIONS[] = {
        {"rounds", required_argument, NULL, 'r'},  {"yoke", required_argument, NULL, 'y'},
        {"threads", required_argument, NULL, 't'}, {"seconds", required_argument, NULL, 's'},
        {"isa", required_argument, NULL, 'i'},     {0}};
    struct images_bench b = {.rounds = 9, .seconds = 0.2};
    const struct yk_kernels *best;
    const char *isa = "auto";
    struct yk_error e = {0};
    unsigned batch = 0, threads = 1;
    bool usage = false, only_yoke = false;
    for (int o; (o = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        if (o == 'r')
            usage |= (b.rounds = number(optarg, MAX_ROUNDS)) == 0;
        else if (o == 't')
            usage |= (threads = number(optarg, 1024)) == 0;
        else if (o == 's')
            usage |= !((b.seconds = strtod(optarg, NULL)) > 0 && b.seconds <= 60);
        else if (o == 'i')
            isa = optarg;
        else if (o == 'y')
            usage |= (batch = number(optarg, 60000)) == 0, only_yoke = true;
        else
            usage = true;
    }
    if (usage || optind < argc) {
        fprintf(stderr,
                "usage: softmax [--rounds 1..%d] [--seconds S] [--isa NAME] [--yoke BATCH "
                "[--threads T]]\n",
                MAX_ROUNDS);
        return YK_USAGE;
    }
    if (yk_kernels_pick(isa, &best, &e) != YK_OK) {
        fprintf(stderr, "softmax: %s\n", e.text);
        return YK_USAGE;
    }
    do
        b.sets++;
    while (yk_kernels_at(b.sets - 1) != best);

    yk_code rc = yk_data_open("mnist", NULL, &b.train, &b.test, &e);
    if (rc == YK_OK && (b.train.features != F || b.train.classes != C || b.test.rows == 0))
        rc = yk_fail(&e, YK_DATA, "'mnist' is not %d pixels in %d classes with a test part", F, C);
    if (rc == YK_OK && (b.c = calloc(MAX_CONTENDERS, sizeof *b.c)) == NULL)
        rc = yk_fail_memory(&e, MAX_CONTENDERS * sizeof *b.c);
    if (rc == YK_OK)
        rc = only_yoke ? run_yoke(&b, batch, threads, &e) : run_tables(&b, &e);
    if (rc != YK_OK)
        fprintf(stderr, "bench: %s\n", e.text);
    free(b.c);
    yk_dataset_release(&b.train);
    yk_dataset_release(&b.test);
    return rc;
}
