/* crew.c - the owners and workers of this process; see crew.h.
 *
 * In threads every worker has a thread and owners have none: the thread that pushes also does the
 * owner's work. Over MPI a rank's one thread computes as a worker or waits for messages as an
 * owner.
 *
 * REPLACEMENT of a lost worker: when all workers wait, owner 0 tells every rank to come, the
 * engine starts a process, and the new process joins as a worker like any other. It needs no
 * file: rank 0 sends it the whole configuration of the run. If the engine cannot start one (a
 * lost host, a launcher without spawning), the job goes on without it. */
#include "train/crew.h"

#include "base/clock.h"
#include "base/guard.h"
#include "data/images/prefetch.h"
#include "train/agree.h"
#include "train/loop.h"
#include "train/plan.h"
#include "train/session.h"
#include "train/sparse_state.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double ACCOUNTS = 2; /* seconds that owner 0 waits for the workers' accounts */
static const double GOODBYE = 30; /* seconds that others wait for owner 0, which saves meanwhile */

void yk_crew_place(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    unsigned rank = (unsigned)s->job.mpi.rank;
    c->servers = c->rule.owners;
    c->locals = c->rule.workers;
    if (s->job.joined && yk_plan_workers_own(&c->rule)) {
        c->servers = c->locals = 1;
        c->first_server = c->first_local = rank;
    } else if (yk_job_has_peers(&s->job)) {
        c->servers = rank < c->rule.owners;
        c->locals = !c->servers;
        c->first_server = rank;
        c->first_local = c->locals ? rank - c->rule.owners : 0;
    }
    c->has_clock = c->servers > 0 && c->first_server == 0;
}

static void account(void *arg, unsigned worker, const void *data, size_t bytes)
{
    struct yk_session *s = arg;
    if (bytes == sizeof *s->crew.account && worker < s->crew.rule.workers)
        memcpy(&s->crew.account[worker], data, bytes);
}

/* The clock begins where the checkpoint ended. */
static yk_code open_clock(struct yk_session *s, struct yk_error *e)
{
    struct yk_clock *c = &s->crew.clock;
    if (s->crew.rule.shares == 1)
        s->input.share[0].next = s->now.position;
    yk_code rc = yk_clock_init(c, &s->crew.rule, s->now.position, s->resume.pooled, e);
    for (unsigned i = 0; rc == YK_OK && i < s->resume.pooled; i++)
        yk_deal_add(&c->deal, s->resume.pool[i]);
    if (rc == YK_OK)
        yk_clock_limit(c, s->now.step);
    return rc;
}

static yk_code open_server(struct yk_session *s, unsigned i, const struct yk_watcher *watcher,
                           struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    const struct yk_state *state = &s->state;
    unsigned k = c->first_server + i;
    size_t count = state->params.count,
           skip = c->rule.sparse ? yk_owner_at(k, c->rule.owners, count) - state->owned_from : 0;
    float *slot[YK_SLOTS];
    for (unsigned v = 0; v < YK_SLOTS; v++)
        slot[v] = state->slot[v] != NULL ? state->slot[v] + skip : NULL;
    yk_code rc =
        yk_server_init(&c->server[i], c->comm, &c->rule, k, &c->recipe, state->params.flat + skip,
                       slot, count, k == 0 ? &c->clock : NULL, watcher, e);
    c->comm->ops->attach(c->comm, (int)k, &yk_server_handler, &c->server[i]);
    return rc;
}

/* Does a worker need its own copy of the parameters? In threads, if they change while it computes.
 * Over MPI, unless it shares those of the owner in its process; with compression it cannot, because
 * a worker adds changes to the parameters that it had. */
static bool needs_copy(const struct yk_crew *c)
{
    if (c->comm->shared)
        return c->rule.pooled;
    return !yk_plan_workers_own(&c->rule) || c->rule.codec.kind != YK_CODEC_NONE;
}

static yk_code open_local(struct yk_session *s, unsigned i, struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    struct yk_local_worker *h = &c->local[i];
    unsigned k = c->first_local + i;
    h->session = s;
    h->ready.id = YK_NO_PART;
    yk_code rc =
        yk_worker_init(&h->worker, c->comm, &c->rule, k, &s->state.params, needs_copy(c), e);
    h->worker.eager = s->ops->asks;
    if (rc == YK_OK)
        rc = s->ops->work_open(&h->work, s->model, s->threads, s->o.isa, e);
    if (rc == YK_OK)
        rc = yk_feed_open(&h->feed, &s->input.train, yk_options_augment(&s->o), (uint64_t)s->o.seed,
                          e);
    c->comm->ops->attach(c->comm, yk_worker_endpoint(c->comm, (int)k), &yk_worker_handler,
                         &h->worker);
    return rc;
}

yk_code yk_crew_open(struct yk_session *s, struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    const struct yk_watcher watcher = {
        .stepped = yk_watch_stepped, .lost = yk_watch_lost, .account = account, .arg = s};
    const struct yk_mpi_plan plan = {.owners = (int)c->rule.owners,
                                     .workers = (int)c->rule.workers,
                                     .together = yk_plan_workers_own(&c->rule),
                                     .heartbeat = s->o.heartbeat,
                                     .stalled = yk_watch_stalled,
                                     .stalled_arg = s};
    c->rule.threads = !yk_job_has_peers(&s->job);
    yk_code rc = c->rule.threads ? yk_comm_threads(&c->comm, plan.owners, plan.workers, e)
                                 : yk_comm_mpi(&c->comm, &plan, e);
    if (rc == YK_OK && c->has_clock)
        rc = open_clock(s, e);
    if (rc != YK_OK)
        return rc;
    c->server = calloc(c->servers + 1, sizeof *c->server);
    c->local = calloc(c->locals + 1, sizeof *c->local);
    c->account = calloc(c->rule.workers, sizeof *c->account);
    if (c->server == NULL || c->local == NULL || c->account == NULL)
        return yk_fail_memory(e, sizeof *c->local);
    for (unsigned i = 0; i < c->servers && rc == YK_OK; i++)
        rc = open_server(s, i, &watcher, e);
    for (unsigned i = 0; i < c->locals && rc == YK_OK; i++)
        rc = open_local(s, i, e);
    return rc;
}

bool yk_crew_close(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    unsigned locals = c->local != NULL ? c->locals : 0,
             servers = c->server != NULL ? c->servers : 0;
    for (unsigned i = 0; i < locals; i++) { /* the data go next, even if the engine stays */
        yk_feed_close(c->local[i].feed);
        c->local[i].feed = NULL;
    }
    if (c->comm != NULL && !c->comm->ops->close(c->comm, s->job.clean))
        return false;
    if (c->comm == NULL && s->job.joined && s->job.clean)
        yk_mpi_leave();
    for (unsigned i = 0; i < servers; i++)
        yk_server_release(&c->server[i]);
    for (unsigned i = 0; i < locals; i++) {
        if (c->local[i].work != NULL)
            s->ops->work_close(c->local[i].work);
        yk_worker_release(&c->local[i].worker);
        free(c->local[i].shard);
    }
    yk_clock_release(&c->clock);
    free(c->server);
    free(c->local);
    free(c->account);
    return true;
}

bool yk_crew_elsewhere(const struct yk_crew *c)
{
    return !c->comm->shared && c->rule.owners > 1;
}

unsigned yk_crew_busy(const struct yk_session *s)
{
    const struct yk_crew *c = &s->crew;
    uint32_t batch = c->rule.batch / (c->rule.pooled ? 1 : c->rule.shards);
    return c->locals > 0 ? c->locals * s->ops->busy(c->local[0].work, batch) : 0;
}

static void lock(struct yk_crew *c, int endpoint)
{
    c->comm->ops->lock(c->comm, endpoint);
}

static void unlock(struct yk_crew *c, int endpoint)
{
    c->comm->ops->unlock(c->comm, endpoint);
}

void yk_crew_lock_owners(struct yk_crew *c)
{
    for (unsigned i = 1; i < c->servers; i++)
        lock(c, (int)(c->first_server + i));
}

void yk_crew_unlock_owners(struct yk_crew *c)
{
    for (unsigned i = 1; i < c->servers; i++)
        unlock(c, (int)(c->first_server + i));
}

/* If a host has at least as many ranks as cores, each rank stays on one core. Otherwise it could
 * wake up on another after every wait, with a cold cache, and a step would take twice as long. */
static void pin(const struct yk_session *s)
{
    cpu_set_t all, mine;
    int rank = s->job.mpi.rank, here = 0, before = 0;
    if (s->job.host == NULL || s->threads > 1 || sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (int i = 0; i < s->job.mpi.size; i++)
        if (strcmp(s->job.host[i], s->job.host[rank]) == 0) {
            before += i < rank;
            here++;
        }
    int cpus = CPU_COUNT(&all), want = before % cpus;
    if (here < cpus)
        return;
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && want-- == 0)
            CPU_SET(cpu, &mine);
    sched_setaffinity(0, sizeof mine, &mine);
}

/* Owner 0 calls every living rank to the replacement of a worker. */
static void call_ranks(struct yk_session *s, unsigned worker)
{
    struct yk_comm *c = s->crew.comm;
    c->ops->lock(c, 0);
    for (int i = 1; i < c->owners + c->workers; i++) {
        struct yk_note n = {.kind = YK_REPLACE,
                            .from = 0,
                            .to = (uint16_t)i,
                            .member.worker = worker,
                            .incarnation = s->crew.clock.incarnation + 1};
        if (i < c->owners || s->crew.clock.member[i - c->owners].alive)
            yk_comm_send(c, &n, NULL, 0, NULL);
    }
    c->ops->unlock(c, 0);
}

static void fail_replacement(struct yk_crew *crew, bool owner)
{
    static const char WHY[] = "the ranks could not meet to start a new worker";
    if (crew->has_clock) {
        yk_server_fail(&crew->server[0], YK_LOST, WHY);
    } else if (owner) {
        crew->server[0].state = YK_SERVER_CLOSED;
        crew->server[0].orphaned = true;
        snprintf(crew->server[0].why, sizeof crew->server[0].why, "%s", WHY);
    } else {
        crew->local[0].worker.failed = YK_LOST;
        crew->local[0].worker.orphaned = true;
        snprintf(crew->local[0].worker.why, sizeof crew->local[0].worker.why, "%s", WHY);
    }
}

/* Every survivor calls this when owner 0 says so, on the thread that drives its rank. */
static yk_code replace_worker(struct yk_session *s)
{
    struct yk_crew *crew = &s->crew;
    struct yk_comm *c = crew->comm;
    bool owner = crew->servers > 0;
    unsigned worker = owner ? crew->server[0].replace.worker : crew->local[0].worker.newcomer;
    int endpoint = yk_worker_endpoint(c, (int)worker),
        me = owner ? (int)crew->first_server : yk_worker_endpoint(c, (int)crew->first_local);
    char program[YK_PATH_MAX] = "", verb[] = "train", *text = NULL;
    char *const argv[] = {program, verb, NULL};
    struct yk_error e = {0};
    if (crew->has_clock) {
        text = yk_agree_config_text(s);
        ssize_t n = text != NULL ? readlink("/proc/self/exe", program, sizeof program - 1) : 0;
        program[n > 0 ? n : 0] = '\0'; /* an empty name: nothing is started */
        call_ranks(s, worker);
    }
    yk_code rc = yk_mpi_replace(c, endpoint, argv, text, &e);
    free(text);
    c->ops->lock(c, me);
    if (rc == YK_LOST) /* the engine hangs in the middle: this process has to end */
        fail_replacement(crew, owner);
    else if (owner)
        yk_server_replaced(&crew->server[0], worker, rc == YK_OK);
    else
        crew->local[0].worker.state = YK_WORKER_RUNS;
    if (crew->has_clock && rc == YK_OK) {
        int rank = yk_comm_rank(c, endpoint);
        snprintf(s->job.host[endpoint], sizeof s->job.host[endpoint], "%s", yk_comm_host(c, rank));
        s->job.pid[endpoint] = yk_comm_pid(c, rank);
        yk_incident(s, YK_INFO, "worker %u is replaced by process %d on '%s'", worker,
                    s->job.pid[endpoint], s->job.host[endpoint]);
        yk_session_ranks(s, NULL);
    } else if (crew->has_clock) {
        yk_incident(s, YK_WARN,
                    rc == YK_LOST ? "worker %u cannot be replaced: %s"
                                  : "worker %u cannot be replaced: %s; going on without it",
                    worker, e.text);
    }
    c->ops->unlock(c, me);
    return rc == YK_LOST ? YK_LOST : YK_OK;
}

static void *worker_thread(void *arg)
{
    struct yk_local_worker *h = arg;
    struct yk_crew *c = &h->session->crew;
    if (yk_sweep_fits(h->session)) {
        yk_sweep_run(h->session, h);
        return NULL;
    }
    yk_worker_start(&h->worker);
    yk_loop_run(h->session, h);
    yk_worker_account(&h->worker);
    if (h->worker.failed == YK_FAILED) { /* owner 0 cannot see that a thread ended */
        lock(c, 0);
        yk_server_fail(&c->server[0], YK_FAILED, "a worker is out of memory");
        unlock(c, 0);
    }
    return NULL;
}

/* Owner 0's process: serves until all workers have stopped. */
static void serve_clock(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    struct yk_server *server = &c->server[0];
    for (bool ended = false; !ended;) {
        unsigned seen = c->comm->ops->seen(c->comm, 0);
        lock(c, 0);
        if (s->stop_signal != 0 && !c->clock.stopping)
            yk_watch_signal(s);
        bool called = server->replace.called;
        ended = server->state == YK_SERVER_ENDED;
        unlock(c, 0);
        if (called && !ended)
            replace_worker(s);
        else if (!ended)
            c->comm->ops->wait(c->comm, 0, seen, 0.02);
    }
    double until = yk_now() + ACCOUNTS;
    for (bool all = false; !all && yk_now() < until;) {
        unsigned seen = c->comm->ops->seen(c->comm, 0);
        lock(c, 0);
        all = server->accounts >= c->clock.alive || server->failed != YK_OK;
        unlock(c, 0);
        if (!all)
            c->comm->ops->wait(c->comm, 0, seen, 0.02);
    }
}

/* Another owner: serves until owner 0 says that the run is over. */
static void serve(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    struct yk_server *server = &c->server[0];
    int me = (int)c->first_server;
    for (;;) {
        unsigned seen = c->comm->ops->seen(c->comm, me);
        lock(c, me);
        bool closed = server->state == YK_SERVER_CLOSED, called = server->replace.called;
        unlock(c, me);
        if (closed)
            break;
        if (called)
            replace_worker(s);
        else
            c->comm->ops->wait(c->comm, me, seen, 0.5);
    }
    s->job.clean = server->clean;
}

/* A worker of another process waits until owner 0 lets it leave, or cannot do so any more. */
static void farewell(struct yk_session *s, struct yk_worker *w)
{
    struct yk_crew *c = &s->crew;
    int me = yk_worker_endpoint(c->comm, (int)w->index);
    double until = yk_now() + GOODBYE;
    for (bool over = false; !over && yk_now() < until;) {
        unsigned seen = c->comm->ops->seen(c->comm, me);
        lock(c, me);
        over = w->state >= YK_WORKER_CLOSED || w->failed != YK_OK;
        unlock(c, me);
        if (!over)
            c->comm->ops->wait(c->comm, me, seen, 0.5);
    }
    s->job.clean = w->state == YK_WORKER_CLOSED && w->clean;
}

static void run_threads(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    sigset_t before;
    yk_block_signals(&before); /* the main thread handles Ctrl-C */
    for (unsigned i = 1; i < c->locals; i++) {
        c->local[i].running =
            pthread_create(&c->local[i].thread, NULL, worker_thread, &c->local[i]) == 0;
        if (c->local[i].running) {
            char name[16];
            snprintf(name, sizeof name, "yoke-work-%u", i % 10000);
            pthread_setname_np(c->local[i].thread, name);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (unsigned i = 1; i < c->locals; i++)
        if (!c->local[i].running) {
            lock(c, 0);
            yk_server_fail(&c->server[0], YK_FAILED, "cannot start the threads of all workers");
            unlock(c, 0);
        }
    worker_thread(&c->local[0]);
    for (unsigned i = 1; i < c->locals; i++)
        if (c->local[i].running)
            pthread_join(c->local[i].thread, NULL);
}

yk_code yk_crew_start(struct yk_session *s, struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    yk_code rc =
        s->resume.state.n > 0 ? yk_sparse_state_restore(c, &s->state, &s->resume.state, e) : YK_OK;
    if (rc != YK_OK)
        return rc;
    for (unsigned i = 0; i < c->servers; i++)
        c->server[i].owner.step = s->now.step;
    if (c->has_clock) {
        lock(c, 0);
        yk_server_seed(&c->server[0], s->now.step, s->state.params.count);
        unlock(c, 0);
    }
    return YK_OK;
}

yk_code yk_crew_run(struct yk_session *s, struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    if (s->job.joined)
        pin(s);
    if (c->comm->shared) {
        run_threads(s);
    } else if (c->locals > 0) {
        struct yk_worker *w = &c->local[0].worker;
        yk_worker_start(w);
        do
            yk_loop_run(s, &c->local[0]);
        while (w->state == YK_WORKER_MEETS && replace_worker(s) == YK_OK);
        yk_worker_account(w);
        if (!c->has_clock)
            farewell(s, w);
        if (w->state == YK_WORKER_FENCED)
            yk_log_line(
                s->log, YK_WARN,
                "worker %u was considered lost and the others went on without it, so it leaves",
                w->index);
        if (w->failed != YK_OK && w->orphaned)
            return yk_fail(e, w->failed, "%s", w->why); /* owner 0 reports all other errors */
    } else if (!c->has_clock) {
        serve(s);
    }
    if (!c->has_clock)
        return c->servers > 0 && c->server[0].orphaned ? yk_fail(e, YK_LOST, "%s", c->server[0].why)
                                                       : YK_OK;
    if (!c->comm->shared)
        serve_clock(s);
    for (unsigned i = 0; i < c->servers; i++) /* in threads an owner does not tell owner 0 */
        if (c->server[i].failed != YK_OK)
            return yk_fail(e, c->server[i].failed, "%s", c->server[i].why);
    return YK_OK;
}

void yk_crew_dismiss(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    if (c->comm == NULL || c->comm->shared || !c->has_clock || c->server == NULL)
        return;
    lock(c, 0);
    yk_server_close(&c->server[0], s->job.clean);
    unlock(c, 0);
}
