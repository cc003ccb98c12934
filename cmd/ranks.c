/* ranks.c - see ranks.h. The first Ctrl-C makes the work stop, and there is no result; a second one
 * ends the process. A rank is told by SIGUSR1, which its parent sends once and mpirun hands on. */
#include "cmd/ranks.h"

#include "base/buf.h"
#include "launch/mpirun.h"
#include "launch/record.h"
#include "train/agree.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    if (caught != 0)
        _exit(128 + number);
    caught = number;
}

bool was_stopped(void *unused)
{
    (void)unused;
    return caught != 0;
}

/* --- meetings --- */

struct card { /* exchanged before the ranks send each other structs */
    uint64_t binary;
    int32_t code;
    char host[sizeof((struct meeting *)0)->host];
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
            yk_fail(e, YK_USAGE, "rank %d on '%s' has a different binary than rank 0 on '%s'", r,
                    card[r].host, card[0].host);
            yk_hint(e, "all ranks need the same yoke");
            return YK_USAGE;
        }
    }
    return YK_OK;
}

/* Every rank's code, and in the first meeting its binary and host. */
static yk_code agree(struct meeting *m, yk_code rc, struct yk_error *e)
{
    int ranks = m->mpi->size;
    struct card mine = {.code = rc}, *all = calloc((size_t)ranks, sizeof *all);
    if (all == NULL)
        return yk_fail_memory(e, (size_t)ranks * sizeof *all);
    mine.binary = m->here == 0 ? yk_agree_binary() : 0;
    memcpy(mine.host, m->host, sizeof mine.host);
    if (rc != YK_OK) {
        memcpy(mine.text, e->text, sizeof mine.text);
        memcpy(mine.hint, e->hint, sizeof mine.hint);
    }
    rc = yk_mpi_agree(&mine, sizeof mine, all, e);
    if (rc == YK_OK)
        rc = verdict(all, ranks, e);
    m->here = 0;
    if (rc == YK_OK)
        for (int r = 0; r < ranks; r++)
            m->here += strcmp(all[r].host, m->host) == 0;
    free(all);
    return rc;
}

yk_code meet(struct meeting *m, yk_code rc, const void *mine, size_t n, void *all,
             struct yk_error *e)
{
    gethostname(m->host, sizeof m->host - 1);
    if (m->mpi == NULL) {
        m->here = 1;
        if (n > 0)
            memcpy(all, mine, n);
        return rc;
    }
    rc = agree(m, rc, e);
    return rc == YK_OK && n > 0 ? yk_mpi_agree(mine, n, all, e) : rc;
}

yk_code check_workers(const struct call *call, int64_t workers, int ranks, struct yk_error *e)
{
    if (!yk_opts_typed(&call->opts, "workers") || workers == ranks)
        return YK_OK;
    return yk_fail(e, YK_USAGE, "--workers is %lld, but %d processes were started",
                   (long long)workers, ranks);
}

static void print_stall(void *unused, const char *text, double seconds, bool over)
{
    (void)unused, (void)seconds, (void)over;
    fprintf(stderr, "yoke: %s\n", text);
}

yk_code open_comm(struct yk_comm **out, int ranks, struct yk_error *e)
{
    const struct yk_mpi_plan plan = {
        .owners = ranks, .workers = ranks, .together = true, .stalled = print_stall};
    return yk_comm_mpi(out, &plan, e);
}

/* --- begin and end --- */

void keep_alive(double *last, double now, double within)
{
    if (yk_record_wanted() && now - *last >= 1) {
        yk_record_alive(within);
        *last = now;
    }
}

yk_code run_rank(struct call *call, rank_work *work, struct yk_error *e)
{
    bool parent = yk_record_wanted();
    struct yk_mpi mpi = {.rank = -1};
    char *text = NULL;
    if (parent)
        signal(SIGUSR1, on_signal);
    signal(SIGPIPE, SIG_IGN);
    yk_launch_join();
    yk_code rc = yk_mpi_join(&mpi, false, e);
    if (rc == YK_OK)
        rc = work(call, &mpi, &text, e);
    const char *variable = getenv("OMPI_COMM_WORLD_RANK"); /* for a rank that could not join */
    bool first = mpi.rank == 0 || (mpi.rank < 0 && variable != NULL && strcmp(variable, "0") == 0);
    int number = text == NULL ? caught : 0;
    if (parent && first) {
        if (rc != YK_OK)
            print_error(e);
        yk_record_done((int)rc, number, "", false, 0, text != NULL ? text : "");
    } else if (parent && rc == YK_LOST) {
        yk_record_lost(e->text);
    } else if (text != NULL) {
        fputs(text, stdout);
    }
    free(text);
    call->told = parent || mpi.rank > 0;
    call->signal = parent && first ? number : 0;
    return rc;
}

yk_code run_alone(struct call *call, rank_work *work, struct yk_error *e)
{
    char *text = NULL;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    yk_code rc = work(call, NULL, &text, e);
    if (text != NULL)
        fputs(text, stdout);
    call->signal = rc == YK_OK && text == NULL ? caught : 0;
    free(text);
    return rc;
}

yk_code result_text(json_t *json, struct yk_buf *text, char **out, struct yk_error *e)
{
    if (json != NULL) {
        char *dump = json_dumps(json, JSON_INDENT(2));
        json_decref(json);
        text->failed |= dump == NULL;
        yk_buf_format(text, "%s\n", dump != NULL ? dump : "");
        free(dump);
    }
    if (text->failed || text->data == NULL) {
        yk_buf_release(text);
        return yk_fail(e, YK_FAILED, "out of memory for the result");
    }
    *out = text->data;
    return YK_OK;
}
