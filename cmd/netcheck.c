/* netcheck.c - `yoke netcheck`: how fast the ranks of a job reach each other. Without --hosts,
 * --hostfile or TF_CONFIG it starts a few processes on this machine; started by mpirun or srun it
 * is one of theirs. Ranks cannot see the user's terminal, so the parent asks them to be verbose
 * where there is one: rank 0 then reports what it is measuring. */
#include "cmd/launch.h"
#include "cmd/ranks.h"

#include "base/clock.h"
#include "launch/record.h"
#include "netcheck/netcheck.h"

#include <stdlib.h>
#include <string.h>

enum { HERE = 3 };   /* processes, if no option gives a number */
#define WITHIN 40.0  /* seconds until rank 0 speaks to its parent again: one order, and some more */
#define SILENCE 10.0 /* seconds between lines, unless verbose */

struct netcheck_options {
    struct rank_options ranks;
    char *config;
    bool json;
};

#define AT(f) offsetof(struct netcheck_options, f)
static const struct yk_opt TABLE[] = {
    {"workers", .field = AT(ranks.workers)},
    {"hosts", .field = AT(ranks.hosts)},
    {"hostfile", .field = AT(ranks.hostfile)},
    {"config", .field = AT(config)},
    {"json", .field = AT(json)},
    {"quiet", .field = AT(ranks.quiet)},
    {"verbose", .field = AT(ranks.verbose)},
    {0},
};

struct progress { /* rank 0's reports to the parent and to the user */
    bool quiet, verbose;
    double alive; /* time of the last report to the parent */
    double shown; /* time of the last line */
    char last[96];
};

static void say(void *arg, double part, const char *what)
{
    struct progress *p = arg;
    double now = yk_now();
    keep_alive(&p->alive, now, WITHIN);
    bool due = p->verbose ? strcmp(what, p->last) != 0 : now - p->shown >= SILENCE;
    if (p->quiet || !due)
        return;
    fprintf(stderr, "yoke: %3.0f %%, %s\n", part * 100, what);
    snprintf(p->last, sizeof p->last, "%s", what);
    p->shown = now;
}

/* The ranks are connected: measure. */
static yk_code measure(const struct netcheck_options *o, const struct yk_mpi *mpi,
                       struct yk_netcheck *n, struct yk_comm *comm, struct yk_netcheck_rank *who,
                       char **text, struct yk_error *e)
{
    struct progress progress = {
        .quiet = o->ranks.quiet, .verbose = o->ranks.verbose, .shown = yk_now()};
    struct yk_netcheck_result result;
    struct yk_buf table = {0};
    for (int r = 0; r < mpi->size; r++) {
        snprintf(who[r].host, sizeof who[r].host, "%s", yk_comm_host(comm, r));
        who[r].pid = yk_comm_pid(comm, r);
    }
    if (yk_record_wanted() && mpi->rank == 0)
        yk_record_started("", mpi->size, 0, 0, false);
    const struct yk_netcheck_ask ask = {
        .comm = comm, .rank = who, .pace = 1, .say = say, .stopped = was_stopped, .arg = &progress};
    yk_netcheck_attach(n, &ask);
    yk_code rc = yk_netcheck_run(n, &result, e);
    if (rc == YK_OK && mpi->rank == 0 && !result.stopped) {
        if (!o->json)
            yk_netcheck_table(&result, &table);
        rc = result_text(o->json ? yk_netcheck_json(&result) : NULL, &table, text, e);
    }
    yk_netcheck_result_release(&result);
    return rc;
}

static yk_code work(struct call *call, const struct yk_mpi *mpi, char **text, struct yk_error *e)
{
    const struct netcheck_options *o = call->values;
    struct meeting meeting = {.mpi = mpi};
    struct yk_netcheck *n = NULL;
    struct yk_netcheck_rank *who = calloc((size_t)mpi->size, sizeof *who);
    struct yk_comm *comm = NULL;
    yk_code rc = check_workers(call, o->ranks.workers, mpi->size, e);
    if (rc == YK_OK)
        rc = yk_netcheck_open(&n, mpi->rank, mpi->size, e);
    if (rc == YK_OK && who == NULL)
        rc = yk_fail_memory(e, (size_t)mpi->size * sizeof *who);
    rc = meet(&meeting, rc, NULL, 0, NULL, e);
    if (rc != YK_OK || who == NULL) {
        yk_mpi_leave();
        goto out_memory;
    }
    rc = open_comm(&comm, mpi->size, e);
    call->quit = rc != YK_OK;
    if (rc == YK_OK) {
        rc = measure(o, mpi, n, comm, who, text, e);
        call->quit = !comm->ops->close(comm, rc != YK_LOST);
    }
out_memory:
    free(who);
    if (!call->quit) /* else MPI may still be reading from it */
        yk_netcheck_close(n);
    return rc;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct netcheck_options *o = call->values;
    if (yk_mpi_launched())
        return run_rank(call, work, e);
    return launch_ranks(call, &o->ranks, o->ranks.workers > 0 ? o->ranks.workers : HERE, e);
}

const struct verb verb_netcheck = {
    .name = "netcheck",
    .args = "[--hosts LIST | --hostfile FILE | --workers N] [options]",
    .summary = "measure the network between ranks",
    .details = "Measures how fast ranks reach each other, the way training uses the network:\n"
               "round trip and bandwidth of every pair, both ways; all to one and back, which\n"
               "is a step with one parameter server; all to all and back, which is a step of\n"
               "allreduce. Reports the least cost of a training step, and the slowest link.\n"
               "It takes a few seconds; with more than 16 ranks it measures a sample of the\n"
               "pairs. Without hosts it runs --workers processes (default 3) on this machine.",
    .examples = "yoke netcheck --hosts a,b,c\n"
                "yoke netcheck --hostfile hosts.txt --json\n"
                "mpirun -H a,b,c yoke netcheck",
    .options = TABLE,
    .values = sizeof(struct netcheck_options),
    .run = run,
};
