/* matmul.c - `yoke matmul`: the product of two matrices in blocks, on one process, several here, or several hosts. Without --workers and
 * hosts it is one process with a thread a core; --workers N starts N processes on this machine, --hosts as many as it names; started by
 * mpirun or srun it is one of theirs.
 * The first Ctrl-C ends it, the output is then not there; a rank is told by SIGUSR1, which mpirun hands on. */
#include "cmd/cmd.h"

#include "base/clock.h"
#include "base/file.h"
#include "lab/matmul.h"
#include "launch/mpirun.h"
#include "launch/record.h"
#include "record/progress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define ALIVE 60.0      /* seconds within which rank 0 speaks to its parent again */
#define ALIVE_EVERY 1.0 /* ... but not more often than this */

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    if (caught != 0)
        _exit(128 + number); /* a second one does not wait */
    caught = number;
}

static yk_code read_ask(const struct call *call, struct yk_matmul_ask *ask, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    bool made = yk_opts_given(&call->config->opts, "n");
    *ask = (struct yk_matmul_ask){.n = made ? (uint64_t)o->n : 0,
                                  .path = {call->word[0], call->words > 1 ? call->word[1] : NULL},
                                  .output = o->output,
                                  .trace = o->trace,
                                  .full = o->full,
                                  .seed = (uint64_t)o->seed,
                                  .threads = (unsigned)o->threads,
                                  .memory = (uint64_t)o->memory << 20,
                                  .dry_run = o->dry_run};
    if (made && call->words > 0)
        return yk_fail(e, YK_USAGE, "--n makes both matrices, and '%s' is one", call->word[0]);
    if (!made && call->words != 2) {
        yk_fail(e, YK_USAGE,
                call->words == 0 ? "no matrices to multiply"
                                 : "one matrix is not enough: a product has two factors");
        yk_hint(e, "'yoke matmul A.npy B.npy' reads them, 'yoke matmul --n 8192' makes them");
        return YK_USAGE;
    }
    return YK_OK;
}

/* --- the parent --- */

static yk_code launch(struct call *call, bool *done, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    *done = hosts_said(o) || o->workers > 1;
    return *done ? launch_ranks(call, o->workers, e) : YK_OK;
}

/* --- a rank --- */

struct talk { /* rank 0's, to the parent and to the user */
    bool parent, dry, verbose;
    double told, next; /* when last, and when a line is due */
    struct yk_log *log;
    struct yk_progress progress;
};

static void alive(struct talk *t, double now)
{
    if (t->parent && now - t->told >= ALIVE_EVERY) {
        yk_record_alive(ALIVE);
        t->told = now;
    }
}

static void say(void *arg, double part, double seconds, const char *what)
{
    struct talk *t = arg;
    double now = yk_now();
    char text[128], share[16] = ""; /* a terminal's bar has it already */
    alive(t, now);
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
    struct talk *t = arg;
    struct yk_buf text = {0};
    alive(t, yk_now());
    if (t->dry) /* then it is the result */
        return;
    yk_matmul_text(p, NULL, &text);
    char *rest = text.data, *one;
    while (rest != NULL && (one = strsep(&rest, "\n")) != NULL)
        if (one[0] != '\0')
            yk_log_line(t->log, YK_INFO, "%s", one);
    yk_buf_release(&text);
}

static bool stopped(void *arg)
{
    (void)arg;
    return caught != 0;
}

struct card { /* what the ranks must know of each other before they send each other structs */
    uint64_t binary;
    int32_t code;
    char text[sizeof(((struct yk_error *)0)->text)];
    char hint[sizeof(((struct yk_error *)0)->hint)];
    struct yk_matmul_card look;
};

struct meeting {
    int ranks;
    bool alone; /* one process, nobody launched it */
    struct card mine, *all;
};

/* All ranks come here, whatever befell them so far, and leave with the same code. */
static yk_code meet(struct meeting *t, yk_code rc, struct yk_error *e)
{
    t->mine.code = (int32_t)rc;
    if (rc != YK_OK) {
        memcpy(t->mine.text, e->text, sizeof t->mine.text);
        memcpy(t->mine.hint, e->hint, sizeof t->mine.hint);
    }
    if (t->alone) {
        t->all[0] = t->mine;
        return rc;
    }
    rc = yk_mpi_agree(&t->mine, sizeof t->mine, t->all, e);
    for (int r = 0; r < t->ranks && rc == YK_OK; r++) {
        const struct card *c = &t->all[r];
        if (c->code != YK_OK) {
            rc = yk_fail(e, (yk_code)c->code, "%s", c->text);
            yk_hint(e, "%s", c->hint);
        } else if (c->binary != t->all[0].binary) {
            rc = yk_fail(e, YK_USAGE, "rank %d on '%s' has another binary than rank 0 on '%s'", r,
                         c->look.host, t->all[0].look.host);
            yk_hint(e, "all ranks need the same yoke");
        }
    }
    return rc;
}

static uint64_t hash_program(void)
{
    char *program = NULL;
    size_t n = 0;
    uint64_t hash = 0;
    if (yk_file_read("/proc/self/exe", (size_t)1 << 30, &program, &n, NULL) == YK_OK)
        hash = XXH3_64bits(program, n);
    free(program);
    return hash;
}

/* Three meetings: who is where; what everybody has; who can write into the output. Then all know the plan. */
static yk_code prepare(struct meeting *t, struct yk_matmul *m, yk_code rc, struct yk_error *e)
{
    char host[sizeof t->mine.look.host] = "";
    gethostname(host, sizeof host - 1);
    memcpy(t->mine.look.host, host, sizeof host);
    t->mine.binary = t->alone ? 0 : hash_program();
    rc = meet(t, rc, e);
    if (rc != YK_OK)
        return rc;
    int here = 0;
    for (int r = 0; r < t->ranks; r++)
        here += strcmp(t->all[r].look.host, host) == 0;
    rc = meet(t, yk_matmul_look(m, here, &t->mine.look, e), e);
    if (rc != YK_OK)
        return rc;
    struct card first = t->all[0];
    yk_matmul_reach(m, &first.look, &t->mine.look);
    return meet(t, YK_OK, e);
}

static yk_code show(const struct yk_matmul_plan *p, const struct yk_matmul_result *r, bool json,
                    char **out, struct yk_error *e)
{
    struct yk_buf text = {0};
    if (json) {
        json_t *j = yk_matmul_json(p, r);
        char *dump = j != NULL ? json_dumps(j, JSON_INDENT(2)) : NULL;
        json_decref(j);
        text.failed = dump == NULL;
        yk_buf_format(&text, "%s\n", dump != NULL ? dump : "");
        free(dump);
    } else {
        yk_matmul_text(p, r, &text);
    }
    if (text.failed) {
        yk_buf_release(&text);
        return yk_fail(e, YK_FAILED, "out of memory for the result");
    }
    *out = text.data;
    return YK_OK;
}

/* The comm stands: multiply. */
static yk_code work(const struct call *call, struct yk_matmul *m, struct yk_comm *comm,
                    struct talk *talk, int rank, char **text, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    struct yk_matmul_result result;
    const struct yk_matmul_hooks hooks = {
        .planned = planned, .say = say, .stopped = stopped, .arg = talk};
    if (talk->parent && rank == 0)
        yk_record_started("", comm->workers, 0, 0, false);
    yk_matmul_attach(m, comm, &hooks);
    yk_code rc = yk_matmul_run(m, &result, e);
    yk_progress_clear(&talk->progress);
    if (rc != YK_OK || rank > 0 || result.stopped)
        return rc;
    if (result.reason[0] != '\0')
        yk_log_line(talk->log, YK_WARN, "%s", result.reason);
    return show(yk_matmul_planned(m), o->dry_run ? NULL : &result, o->json, text, e);
}

/* From the first meeting to the result, which only rank 0 has. `*quit`: the engine could not be closed. `mpi` NULL: one process. */
static yk_code multiply(const struct call *call, const struct yk_mpi *mpi, char **text, bool *quit,
                        struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    int rank = mpi != NULL ? mpi->rank : 0, ranks = mpi != NULL ? mpi->size : 1;
    struct talk talk = {.parent = yk_record_wanted(), .dry = o->dry_run, .verbose = o->verbose};
    struct meeting t = {
        .ranks = ranks, .alone = mpi == NULL, .all = calloc((size_t)ranks, sizeof(struct card))};
    struct yk_matmul_card *cards = calloc((size_t)ranks, sizeof *cards);
    struct yk_matmul *m = NULL;
    struct yk_comm *comm = NULL;
    struct yk_matmul_ask ask;
    talk.log = yk_log_open(o->quiet ? YK_WARN : YK_INFO);
    yk_code rc = YK_OK;
    if (t.all == NULL || cards == NULL) {
        rc = yk_fail_memory(e, (size_t)ranks * sizeof *t.all);
        goto out_memory;
    }
    yk_progress_init(&talk.progress, talk.log);
    rc = read_ask(call, &ask, e);
    if (rc == YK_OK && mpi != NULL && yk_opts_typed(&call->config->opts, "workers") &&
        o->workers != ranks)
        rc = yk_fail(e, YK_USAGE, "--workers is %lld, but %d processes were started",
                     (long long)o->workers, ranks);
    if (rc == YK_OK)
        rc = yk_matmul_open(&m, &ask, rank, ranks, e);
    rc = prepare(&t, m, rc, e);
    for (int r = 0; r < ranks && rc == YK_OK; r++)
        cards[r] = t.all[r].look;
    if (rc == YK_OK)
        rc = meet(&t, yk_matmul_settle(m, cards, e), e);
    if (rc != YK_OK) {
        if (mpi != NULL)
            yk_mpi_leave();
        goto out_memory;
    }
    const struct yk_mpi_plan plan = {.owners = ranks, .workers = ranks, .together = true};
    rc = mpi != NULL ? yk_comm_mpi(&comm, &plan, e) : yk_comm_threads(&comm, 1, 1, e);
    *quit = rc != YK_OK && mpi != NULL;
    if (rc == YK_OK) {
        rc = work(call, m, comm, &talk, rank, text, e);
        *quit = !comm->ops->close(comm, rc != YK_LOST);
    }
out_memory:
    if (!*quit) /* else MPI may still be reading from it */
        yk_matmul_close(m);
    else if (m != NULL)
        yk_matmul_abandon(m);
    yk_log_close(talk.log);
    free(t.all);
    free(cards);
    return rc;
}

static yk_code run_alone(struct call *call, struct yk_error *e)
{
    char *text = NULL;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    yk_code rc = multiply(call, NULL, &text, &call->quit, e);
    if (text != NULL)
        fputs(text, stdout);
    free(text);
    call->signal = rc == YK_OK && text == NULL ? caught : 0;
    return rc;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    struct yk_matmul_ask ask;
    yk_code rc = read_ask(call, &ask, e);
    if (rc != YK_OK)
        return rc;
    if (!yk_mpi_launched()) {
        bool done;
        rc = launch(call, &done, e);
        return done || rc != YK_OK ? rc : run_alone(call, e);
    }
    bool parent = yk_record_wanted();
    struct yk_mpi mpi = {.rank = -1};
    char *text = NULL;
    if (parent)
        signal(SIGUSR1, on_signal);
    signal(SIGPIPE, SIG_IGN);
    yk_launch_join();
    rc = yk_mpi_join(&mpi, e);
    if (rc == YK_OK)
        rc = multiply(call, &mpi, &text, &call->quit, e);
    const char *variable = getenv("OMPI_COMM_WORLD_RANK"); /* where MPI could not say */
    bool first = mpi.rank == 0 || (mpi.rank < 0 && variable != NULL && strcmp(variable, "0") == 0);
    if (parent && first) {
        if (rc != YK_OK)
            print_error(e);
        yk_record_done((int)rc, text == NULL ? caught : 0, "", false, 0, text != NULL ? text : "");
    } else if (parent && rc == YK_LOST) {
        yk_record_lost(e->text);
    } else if (text != NULL) {
        fputs(text, stdout);
    }
    call->told = parent || mpi.rank > 0;
    call->signal = parent && first && text == NULL ? caught : 0;
    free(text);
    return rc;
}

const struct verb verb_matmul = {
    .name = "matmul",
    .args = "(--n N | A.npy B.npy) [-o C.npy] [--trace [--full]] [options]",
    .summary = "multiply two matrices in blocks",
    .details = "Multiplies two float matrices, also if they are larger than memory, on one\n"
               "process, on several here (--workers) or on several hosts (--hosts). They are\n"
               "read from .npy files (float32 or float64, C or Fortran order) or made from\n"
               "--seed; the product is written as float32 (-o), or only its trace is shown.\n"
               "Says what it will move, need and take before it starts, and what it did\n"
               "beside that; every product is checked with a random vector.\n"
               "--trace alone makes no product: tr(A B) is the sum of A_ij B_ji.",
    .examples = "yoke matmul A.npy B.npy -o C.npy\n"
                "yoke matmul --n 8192 --workers 4\n"
                "yoke matmul A.npy B.npy --trace --hosts a,b,c\n"
                "yoke matmul --n 20000 --dry-run",
    .most = 2,
    .run = run,
};
