/* matmul.c - `yoke matmul`: the product of two matrices in blocks. Without --workers and hosts it
 * is one process with a thread per core; --workers N starts N processes on this machine, --hosts as
 * many as it names; started by mpirun or srun it is one of theirs. If it is stopped there is no
 * output. */
#include "cmd/launch.h"
#include "cmd/ranks.h"

#include "base/apart.h"
#include "base/clock.h"
#include "launch/record.h"
#include "matmul/matmul.h"
#include "record/progress.h"
#include "record/run.h"

#include <stdlib.h>
#include <string.h>

#define WITHIN 60.0 /* seconds until rank 0 speaks to its parent again */

struct matmul_options {
    int64_t seed;
    struct rank_options ranks;
    int64_t threads;
    char *output;
    int64_t n;
    bool trace;
    bool full;
    int64_t memory; /* MB */
    char *config;
    bool json;
    bool dry_run;
};

#define AT(f) offsetof(struct matmul_options, f)
static const struct yk_opt TABLE[] = {
    {"seed", .field = AT(seed)},
    {"workers", .field = AT(ranks.workers)},
    {"hosts", .field = AT(ranks.hosts)},
    {"hostfile", .field = AT(ranks.hostfile)},
    {"threads", .field = AT(threads)},
    {"output", .field = AT(output)},
    {"n", 0, YK_OPT_INT, AT(n), NULL, 1, 4e6, NULL, "N", 0,
     "multiply two N x N matrices that are made from --seed"},
    {"trace", 0, YK_OPT_FLAG, AT(trace), NULL, 0, 0, NULL, "", 0,
     "only the trace of the product, computed without the product"},
    {"full", 0, YK_OPT_FLAG, AT(full), NULL, 0, 0, NULL, "", 0,
     "with --trace: compute the product first"},
    {"memory", 0, YK_OPT_INT, AT(memory), NULL, 152, 1e7, NULL, "MB", 0,
     "memory of a process (default: its share of 60 % of its host's free memory)"},
    {"config", .field = AT(config)},
    {"json", .field = AT(json)},
    {"quiet", .field = AT(ranks.quiet)},
    {"verbose", .field = AT(ranks.verbose)},
    {"dry-run", .field = AT(dry_run)},
    {0},
};

static yk_code read_ask(const struct call *call, struct yk_matmul_ask *ask, struct yk_error *e)
{
    const struct matmul_options *o = call->values;
    bool made = yk_opts_given(&call->opts, "n");
    *ask = (struct yk_matmul_ask){.n = made ? (uint64_t)o->n : 0,
                                  .path = {call->word[0], call->words > 1 ? call->word[1] : NULL},
                                  .output = o->output,
                                  .trace = o->trace,
                                  .full = o->full,
                                  .seed = (uint64_t)o->seed,
                                  .threads = (unsigned)o->threads,
                                  .memory = (uint64_t)o->memory << 20,
                                  .dry_run = o->dry_run};
    if (o->output != NULL && strcmp(o->output, "-") == 0)
        return yk_fail(e, YK_USAGE, "'yoke matmul' writes a file, not standard output");
    if (made && call->words > 0)
        return yk_fail(e, YK_USAGE, "--n makes both matrices: leave out '%s', or --n",
                       call->word[0]);
    if (!made && call->words != 2) {
        yk_fail(e, YK_USAGE,
                call->words == 0 ? "no matrices to multiply"
                                 : "one matrix is not enough: a product has two factors");
        yk_hint(e, "'yoke matmul A.npy B.npy' reads them, 'yoke matmul --n 8192' makes them");
        return YK_USAGE;
    }
    if (o->output == NULL)
        return YK_OK;
    yk_code rc = yk_run_spare(o->output, e);
    if (!made)
        for (int i = 0; i < 2 && rc == YK_OK; i++)
            rc = yk_apart(ask->path[i], o->output, e);
    return rc;
}

struct reports { /* rank 0's, to the parent and to the user */
    bool dry_run, verbose;
    double alive; /* time of the last report to the parent */
    double next;  /* time when a line is due */
    struct yk_log *log;
    struct yk_progress progress;
};

static void say(void *arg, double part, double seconds, const char *what)
{
    struct reports *t = arg;
    double now = yk_now();
    char text[128], share[16] = ""; /* a terminal's bar shows it already */
    keep_alive(&t->alive, now, WITHIN);
    bool due = t->verbose ? now >= t->next : yk_progress_due(&t->progress, now);
    if (part < 0 || !due)
        return;
    if (!yk_log_is_terminal(t->log))
        snprintf(share, sizeof share, "%.0f %% ", part * 100);
    if (seconds > 0 && part > 0)
        snprintf(text, sizeof text, "%s%s, %.0f s left", share, what, seconds / part * (1 - part));
    else
        snprintf(text, sizeof text, "%s%s", share, what);
    yk_progress_show(&t->progress, now, part, text);
    t->next = now + 1;
}

static void planned(void *arg, const struct yk_matmul_plan *p)
{
    struct reports *t = arg;
    struct yk_buf text = {0};
    keep_alive(&t->alive, yk_now(), WITHIN);
    if (t->dry_run) /* the plan is the result then */
        return;
    yk_matmul_text(p, NULL, &text);
    char *rest = text.data, *one;
    while (rest != NULL && (one = strsep(&rest, "\n")) != NULL)
        if (one[0] != '\0')
            yk_log_line(t->log, YK_INFO, "%s", one);
    yk_buf_release(&text);
}

/* Three meetings before the plan: where all ranks are, what each has, and which can write the
 * output. In the fourth they find out whether all could make the plan. */
static yk_code prepare(struct meeting *t, struct yk_matmul *m, yk_code rc,
                       struct yk_matmul_card *cards, struct yk_error *e)
{
    struct yk_matmul_card mine = {0};
    rc = meet(t, rc, NULL, 0, NULL, e);
    if (rc != YK_OK || cards == NULL) /* a rank without memory has told the others so */
        return rc;
    rc = meet(t, yk_matmul_look(m, t->here, &mine, e), &mine, sizeof mine, cards, e);
    if (rc != YK_OK)
        return rc;
    const struct yk_matmul_card first = cards[0];
    yk_matmul_reach(m, &first, &mine);
    rc = meet(t, YK_OK, &mine, sizeof mine, cards, e);
    return rc == YK_OK ? meet(t, yk_matmul_settle(m, cards, e), NULL, 0, NULL, e) : rc;
}

/* The ranks are connected: multiply. */
static yk_code multiply(const struct matmul_options *o, struct yk_matmul *m, struct yk_comm *comm,
                        struct reports *reports, int rank, char **text, struct yk_error *e)
{
    struct yk_matmul_result result;
    struct yk_buf table = {0};
    const struct yk_matmul_hooks hooks = {
        .planned = planned, .say = say, .stopped = was_stopped, .arg = reports};
    if (yk_record_wanted() && rank == 0)
        yk_record_started("", comm->workers, 0, 0, false);
    yk_matmul_attach(m, comm, &hooks);
    yk_code rc = yk_matmul_run(m, &result, e);
    yk_progress_clear(&reports->progress);
    if (rc != YK_OK || rank > 0 || result.stopped)
        return rc;
    if (result.reason[0] != '\0')
        yk_log_line(reports->log, YK_WARN, "%s", result.reason);
    const struct yk_matmul_plan *plan = yk_matmul_planned(m);
    const struct yk_matmul_result *done = o->dry_run ? NULL : &result;
    if (!o->json)
        yk_matmul_text(plan, done, &table);
    return result_text(o->json ? yk_matmul_json(plan, done) : NULL, &table, text, e);
}

static yk_code work(struct call *call, const struct yk_mpi *mpi, char **text, struct yk_error *e)
{
    const struct matmul_options *o = call->values;
    int rank = mpi != NULL ? mpi->rank : 0, ranks = mpi != NULL ? mpi->size : 1;
    struct reports reports = {.dry_run = o->dry_run, .verbose = o->ranks.verbose};
    struct meeting meeting = {.mpi = mpi};
    struct yk_matmul_card *cards = calloc((size_t)ranks, sizeof *cards);
    struct yk_matmul *m = NULL;
    struct yk_comm *comm = NULL;
    struct yk_matmul_ask ask;
    reports.log = yk_log_open(o->ranks.quiet ? YK_WARN : YK_INFO);
    yk_progress_init(&reports.progress, reports.log);
    yk_code rc =
        cards == NULL ? yk_fail_memory(e, (size_t)ranks * sizeof *cards) : read_ask(call, &ask, e);
    if (rc == YK_OK && mpi != NULL)
        rc = check_workers(call, o->ranks.workers, ranks, e);
    if (rc == YK_OK)
        rc = yk_matmul_open(&m, &ask, rank, ranks, e);
    rc = prepare(&meeting, m, rc, cards, e);
    if (rc != YK_OK) {
        if (mpi != NULL)
            yk_mpi_leave();
        goto out_memory;
    }
    rc = mpi != NULL ? open_comm(&comm, ranks, e) : yk_comm_threads(&comm, 1, 1, e);
    call->quit = rc != YK_OK && mpi != NULL;
    if (rc == YK_OK) {
        rc = multiply(o, m, comm, &reports, rank, text, e);
        call->quit = !comm->ops->close(comm, rc != YK_LOST);
    }
out_memory:
    if (!call->quit)
        yk_matmul_close(m);
    else if (m != NULL) /* MPI may still be reading from it */
        yk_matmul_abandon(m);
    yk_log_close(reports.log);
    free(cards);
    return rc;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct matmul_options *o = call->values;
    struct yk_matmul_ask ask;
    yk_code rc = read_ask(call, &ask, e);
    if (rc != YK_OK)
        return rc;
    if (yk_mpi_launched())
        return run_rank(call, work, e);
    if (hosts_given(&o->ranks) || o->ranks.workers > 1)
        return launch_ranks(call, &o->ranks, o->ranks.workers, e);
    return run_alone(call, work, e);
}

const struct verb verb_matmul = {
    .name = "matmul",
    .args = "(--n N | A.npy B.npy) [-o C.npy] [--trace [--full]] [options]",
    .summary = "multiply two matrices in blocks",
    .details = "Multiplies two float matrices, also if they are larger than memory, on one\n"
               "process, on several here (--workers) or on several hosts (--hosts). They are\n"
               "read from .npy files (float32 or float64, C or Fortran order) or made from\n"
               "--seed; the product is written as float32 (-o), or only its trace is shown.\n"
               "Before it starts it predicts the data to be moved, the memory and the time;\n"
               "at the end the real figures stand beside them. Every product is checked with\n"
               "random vectors. --trace alone makes no product: tr(A B) is the sum of\n"
               "A_ij B_ji.",
    .examples = "yoke matmul A.npy B.npy -o C.npy\n"
                "yoke matmul --n 8192 --workers 4\n"
                "yoke matmul A.npy B.npy --trace --hosts a,b,c\n"
                "yoke matmul --n 20000 --dry-run",
    .most = 2,
    .options = TABLE,
    .values = sizeof(struct matmul_options),
    .run = run,
};
