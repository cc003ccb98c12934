/* netcheck.c - `yoke netcheck`: how fast the ranks of a job reach each other. Without --hosts, --hostfile or TF_CONFIG it starts a few
 * processes on this machine; started by mpirun or srun it is one of theirs.
 * Ranks cannot see the user's terminal, so the parent asks them to be verbose where there is one: rank 0 then says what it is measuring. The
 * first Ctrl-C ends the check (a rank is told by SIGUSR1, which mpirun hands on), and there is no result. */
#include "cmd/cmd.h"

#include "base/clock.h"
#include "base/file.h"
#include "lab/netcheck.h"
#include "launch/mpirun.h"
#include "launch/record.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { HERE = 3 }; /* processes, if nobody says how many */
#define ALIVE 40.0 /* seconds within which rank 0 speaks to its parent again: an order, and some */
#define ALIVE_EVERY 1.0 /* ... but not more often than this */
#define SILENCE 10.0    /* between lines, unless verbose */

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

/* --- a rank --- */

struct talk { /* rank 0's, to the parent and to the user */
    bool parent, quiet, verbose;
    double told, said; /* when last */
    char last[96];
};

static void say(void *arg, double part, const char *what)
{
    struct talk *t = arg;
    double now = yk_now();
    if (t->parent && now - t->told >= ALIVE_EVERY) {
        yk_record_alive(ALIVE);
        t->told = now;
    }
    bool due = t->verbose ? strcmp(what, t->last) != 0 : now - t->said >= SILENCE;
    if (t->quiet || !due)
        return;
    fprintf(stderr, "yoke: %3.0f %%, %s\n", part * 100, what);
    snprintf(t->last, sizeof t->last, "%s", what);
    t->said = now;
}

static bool stopped(void *arg)
{
    (void)arg;
    return caught != 0;
}

struct card { /* what the ranks must agree upon before they send each other structs */
    uint64_t binary;
    int32_t code;
    char host[64];
    char text[sizeof(((struct yk_error *)0)->text)];
    char hint[sizeof(((struct yk_error *)0)->hint)];
};

static yk_code verdict(const struct card *card, int ranks, struct yk_error *e)
{
    for (int r = 0; r < ranks; r++) {
        if (card[r].code != YK_OK) {
            yk_fail(e, (yk_code)card[r].code, "%s", card[r].text);
            yk_hint(e, "%s", card[r].hint);
            return (yk_code)card[r].code;
        }
        if (card[r].binary != card[0].binary) {
            yk_fail(e, YK_USAGE, "rank %d on '%s' has another binary than rank 0 on '%s'", r,
                    card[r].host, card[0].host);
            yk_hint(e, "all ranks need the same yoke");
            return YK_USAGE;
        }
    }
    return YK_OK;
}

/* All ranks come here, whatever befell them so far, and leave with the same code. */
static yk_code meet(int ranks, yk_code rc, struct yk_error *e)
{
    struct card mine = {.code = rc}, *all = calloc((size_t)ranks, sizeof *all);
    char *program = NULL;
    size_t n = 0;
    if (all == NULL)
        return yk_fail_memory(e, (size_t)ranks * sizeof *all);
    if (yk_file_read("/proc/self/exe", (size_t)1 << 30, &program, &n, NULL) == YK_OK)
        mine.binary = XXH3_64bits(program, n);
    free(program);
    gethostname(mine.host, sizeof mine.host - 1);
    if (rc != YK_OK) {
        memcpy(mine.text, e->text, sizeof mine.text);
        memcpy(mine.hint, e->hint, sizeof mine.hint);
    }
    rc = yk_mpi_agree(&mine, sizeof mine, all, e);
    if (rc == YK_OK)
        rc = verdict(all, ranks, e);
    free(all);
    return rc;
}

/* The result as the user wants it; the caller frees it. */
static yk_code show(const struct yk_netcheck_result *result, bool json, char **out,
                    struct yk_error *e)
{
    struct yk_buf text = {0};
    if (json) {
        json_t *j = yk_netcheck_json(result);
        char *dump = j != NULL ? json_dumps(j, JSON_INDENT(2)) : NULL;
        json_decref(j);
        text.failed = dump == NULL;
        yk_buf_format(&text, "%s\n", dump != NULL ? dump : "");
        free(dump);
    } else {
        yk_netcheck_table(result, &text);
    }
    if (text.failed) {
        yk_buf_release(&text);
        return yk_fail(e, YK_FAILED, "out of memory for the result");
    }
    *out = text.data;
    return YK_OK;
}

/* From the meeting to the result, which only rank 0 has. `*quit`: the engine could not be closed. */
static yk_code check(const struct call *call, const struct yk_mpi *mpi, char **text, bool *quit,
                     struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    struct talk talk = {
        .parent = yk_record_wanted(), .quiet = o->quiet, .verbose = o->verbose, .said = yk_now()};
    struct yk_netcheck *n = NULL;
    struct yk_netcheck_rank *who = calloc((size_t)mpi->size, sizeof *who);
    struct yk_netcheck_result result;
    struct yk_comm *comm = NULL;
    yk_code rc = YK_OK;
    if (yk_opts_typed(&call->config->opts, "workers") && o->workers != mpi->size)
        rc = yk_fail(e, YK_USAGE, "--workers is %lld, but %d processes were started",
                     (long long)o->workers, mpi->size);
    if (rc == YK_OK)
        rc = yk_netcheck_open(&n, mpi->rank, mpi->size, e);
    if (rc == YK_OK && who == NULL)
        rc = yk_fail_memory(e, (size_t)mpi->size * sizeof *who);
    rc = meet(mpi->size, rc, e);
    if (rc != YK_OK || who == NULL) {
        yk_mpi_leave();
        goto out_memory;
    }
    const struct yk_mpi_plan plan = {.owners = mpi->size, .workers = mpi->size, .together = true};
    rc = yk_comm_mpi(&comm, &plan, e);
    if (rc != YK_OK) {
        *quit = true;
        goto out_memory;
    }
    for (int r = 0; r < mpi->size; r++) {
        snprintf(who[r].host, sizeof who[r].host, "%s", yk_comm_host(comm, r));
        who[r].pid = yk_comm_pid(comm, r);
    }
    if (talk.parent && mpi->rank == 0)
        yk_record_started("", mpi->size, 0, 0, false);
    const struct yk_netcheck_ask ask = {
        .comm = comm, .rank = who, .pace = 1, .say = say, .stopped = stopped, .arg = &talk};
    yk_netcheck_attach(n, &ask);
    rc = yk_netcheck_run(n, &result, e);
    if (rc == YK_OK && mpi->rank == 0 && !result.stopped)
        rc = show(&result, o->json, text, e);
    yk_netcheck_result_release(&result);
    *quit = !comm->ops->close(comm, rc != YK_LOST);
out_memory:
    free(who);
    if (!*quit) /* else MPI may still be reading from it */
        yk_netcheck_close(n);
    return rc;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    if (!yk_mpi_launched())
        return launch_ranks(call, call->config->o.workers > 0 ? call->config->o.workers : HERE, e);
    bool parent = yk_record_wanted();
    struct yk_mpi mpi = {.rank = -1};
    char *text = NULL;
    if (parent)
        signal(SIGUSR1, on_signal);
    signal(SIGPIPE, SIG_IGN);
    yk_launch_join();
    yk_code rc = yk_mpi_join(&mpi, e);
    if (rc == YK_OK)
        rc = check(call, &mpi, &text, &call->quit, e);
    const char *variable = getenv("OMPI_COMM_WORLD_RANK"); /* where MPI could not say */
    bool first = mpi.rank == 0 || (mpi.rank < 0 && variable != NULL && strcmp(variable, "0") == 0);
    if (parent && first) {
        if (rc != YK_OK)
            print_error(e);
        yk_record_done((int)rc, caught, "", false, 0, text != NULL ? text : "");
    } else if (parent && rc == YK_LOST) {
        yk_record_lost(e->text);
    } else if (text != NULL) {
        fputs(text, stdout);
    }
    free(text);
    call->told = parent || mpi.rank > 0;
    call->signal = parent && first ? caught : 0;
    return rc;
}

const struct verb verb_netcheck = {
    .name = "netcheck",
    .args = "[--hosts LIST | --hostfile FILE | --workers N] [options]",
    .summary = "measure the network between ranks",
    .details = "Measures how fast ranks reach each other, the way training uses the network:\n"
               "round trip and bandwidth of every pair, both ways; all to one and back, which\n"
               "is a step with one parameter server; all to all and back, which is a step of\n"
               "allreduce. Says what a training step costs at least, and which link is the\n"
               "slowest. Takes a few seconds; of more than 16 ranks a sample of the pairs is\n"
               "measured. Without hosts it tries --workers processes (3) on this machine.",
    .examples = "yoke netcheck --hosts a,b,c\n"
                "yoke netcheck --hostfile hosts.txt --json\n"
                "mpirun -H a,b,c yoke netcheck",
    .run = run,
};
