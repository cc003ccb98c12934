/* crew.c - the owners and workers of this process; see crew.h. */
#include "train/crew.h"

#include "base/clock.h"
#include "data/prefetch.h"
#include "train/session.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double ACCOUNTS = 2; /* seconds that owner 0 waits for the others' accounts */
static const double GOODBYE =
    30; /* ... and others for its word that they may go; it evaluates and saves meanwhile */

void yk_crew_place(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    unsigned rank = (unsigned)s->job.mpi.rank;
    c->servers = c->rule.owners;
    c->hands = c->rule.workers;
    if (s->job.joined && c->rule.mode == YK_MODE_allreduce) {
        c->servers = c->hands = 1;
        c->first_server = c->first_hand = rank;
    } else if (s->job.joined && s->job.mpi.size > 1) {
        c->servers = rank < c->rule.owners;
        c->hands = !c->servers;
        c->first_server = rank;
        c->first_hand = c->hands ? rank - c->rule.owners : 0;
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
        s->share[0].next = s->now.position;
    yk_code rc = yk_clock_init(c, &s->crew.rule, s->now.position, s->restored, e);
    for (unsigned i = 0; rc == YK_OK && i < s->restored; i++)
        yk_deal_add(&c->deal, s->restored_pool[i]);
    if (rc == YK_OK)
        yk_clock_limit(c, s->now.step);
    return rc;
}

yk_code yk_crew_open(struct yk_session *s, struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    const struct yk_watcher watcher = {
        .stepped = yk_watch_stepped, .lost = yk_watch_lost, .account = account, .arg = s};
    const struct yk_mpi_plan plan = {.owners = (int)c->rule.owners,
                                     .workers = (int)c->rule.workers,
                                     .together = c->rule.mode == YK_MODE_allreduce,
                                     .heartbeat = s->o.heartbeat};
    bool alone = c->rule.threads = !s->job.joined || s->job.mpi.size == 1;
    yk_code rc = alone ? yk_comm_threads(&c->comm, plan.owners, plan.workers, e)
                       : yk_comm_mpi(&c->comm, &plan, e);
    if (rc == YK_OK && c->has_clock)
        rc = open_clock(s, e);
    if (rc != YK_OK)
        return rc;
    c->server = calloc(c->servers + 1, sizeof *c->server);
    c->hand = calloc(c->hands + 1, sizeof *c->hand);
    c->account = calloc(c->rule.workers, sizeof *c->account);
    if (c->server == NULL || c->hand == NULL || c->account == NULL)
        return yk_fail_memory(e, sizeof *c->hand);
    for (unsigned i = 0; rc == YK_OK && i < c->servers; i++) {
        unsigned k = c->first_server + i;
        size_t skip =
            c->rule.sparse ? yk_owner_at(k, c->rule.owners, s->params.count) - s->owned_from : 0;
        float *slot[YK_SLOTS];
        for (unsigned v = 0; v < YK_SLOTS; v++)
            slot[v] = s->slot[v] != NULL ? s->slot[v] + skip : NULL;
        rc = yk_server_init(&c->server[i], c->comm, &c->rule, k, &c->recipe, s->params.flat + skip,
                            slot, s->params.count, k == 0 ? &c->clock : NULL, &watcher, e);
        c->comm->ops->attach(c->comm, (int)k, &yk_server_handler, &c->server[i]);
    }
    /* A copy of its own where parameters change while it computes, or come from elsewhere; an all-reduce rank's are its owner's too, unless
     * changes are added to what it had: the owner's are overwritten with the others' exact ones before they are looked at. */
    bool own = c->comm->shared
                   ? c->rule.pooled
                   : c->rule.mode != YK_MODE_allreduce || c->rule.codec.kind != YK_CODEC_NONE;
    for (unsigned i = 0; rc == YK_OK && i < c->hands; i++) {
        struct yk_hand *h = &c->hand[i];
        unsigned k = c->first_hand + i;
        h->session = s;
        h->ready.id = YK_NO_PART;
        rc = yk_worker_init(&h->worker, c->comm, &c->rule, k, &s->params, own, e);
        h->worker.eager = s->ops->asks;
        if (rc == YK_OK)
            rc = s->ops->work_open(&h->work, s->model, s->threads, s->o.isa, e);
        if (rc == YK_OK)
            rc = yk_feed_open(&h->feed, &s->train, yk_options_augment(&s->o), (uint64_t)s->o.seed,
                              e);
        c->comm->ops->attach(c->comm, yk_worker_endpoint(c->comm, (int)k), &yk_worker_handler,
                             &h->worker);
    }
    return rc;
}

bool yk_crew_close(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    for (unsigned i = 0; c->hand != NULL && i < c->hands; i++) {
        yk_feed_close(c->hand[i].feed); /* before the data, which go whatever the engine says */
        c->hand[i].feed = NULL;
    }
    if (c->comm != NULL && !c->comm->ops->close(c->comm, s->job.clean))
        return false;
    if (c->comm == NULL && s->job.joined && s->job.clean)
        yk_mpi_leave();
    c->comm = NULL;
    for (unsigned i = 0; c->server != NULL && i < c->servers; i++)
        yk_server_release(&c->server[i]);
    for (unsigned i = 0; c->hand != NULL && i < c->hands; i++) {
        if (c->hand[i].work != NULL)
            s->ops->work_close(c->hand[i].work);
        yk_worker_release(&c->hand[i].worker);
        free(c->hand[i].shard);
    }
    yk_clock_release(&c->clock);
    free(c->server);
    free(c->hand);
    free(c->account);
    c->server = NULL;
    c->hand = NULL;
    c->account = NULL;
    return true;
}

bool yk_crew_elsewhere(const struct yk_session *s)
{
    return !s->crew.comm->shared && s->crew.rule.owners > 1;
}

unsigned yk_crew_busy(const struct yk_session *s)
{
    const struct yk_crew *c = &s->crew;
    uint32_t batch = c->rule.batch / (c->rule.pooled ? 1 : c->rule.shards);
    return c->hands > 0 ? c->hands * s->ops->busy(c->hand[0].work, batch) : 0;
}

static void lock(struct yk_crew *c, int endpoint)
{
    c->comm->ops->lock(c->comm, endpoint);
}

static void unlock(struct yk_crew *c, int endpoint)
{
    c->comm->ops->unlock(c->comm, endpoint);
}

void yk_crew_hold(struct yk_session *s)
{
    for (unsigned i = 1; i < s->crew.servers; i++)
        lock(&s->crew, (int)(s->crew.first_server + i));
}

void yk_crew_free(struct yk_session *s)
{
    for (unsigned i = 1; i < s->crew.servers; i++)
        unlock(&s->crew, (int)(s->crew.first_server + i));
}

/* Where a host has at least as many ranks as cores, a rank stays on one: each wait would otherwise be a chance to wake up on another
 * core, whose cache has nothing of ours, and a step would take twice as long. */
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

static void *hand_thread(void *arg)
{
    struct yk_hand *h = arg;
    struct yk_crew *c = &h->session->crew;
    if (yk_session_sweeps(h->session)) {
        yk_session_sweep(h->session, h);
        return NULL;
    }
    yk_worker_start(&h->worker);
    yk_session_work(h->session, h);
    yk_worker_account(&h->worker);
    if (h->worker.failed == YK_FAILED) { /* nobody would notice that a thread is missing */
        lock(c, 0);
        yk_server_fail(&c->server[0], YK_FAILED, "a worker is out of memory");
        unlock(c, 0);
    }
    return NULL;
}

/* Owner 0's process: until everybody has stopped. */
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
        ended = server->ended;
        unlock(c, 0);
        if (called && !ended)
            yk_crew_replace(s);
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

/* Another owner: until owner 0 says that the run is over. */
static void serve(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    struct yk_server *server = &c->server[0];
    int me = (int)c->first_server;
    for (;;) {
        unsigned seen = c->comm->ops->seen(c->comm, me);
        lock(c, me);
        bool closed = server->closed, called = server->replace.called;
        unlock(c, me);
        if (closed)
            break;
        if (called)
            yk_crew_replace(s);
        else
            c->comm->ops->wait(c->comm, me, seen, 0.5);
    }
    s->job.clean = server->clean;
}

/* A worker of another process waits for the word that it may go, or for a reason to leave without. */
static void farewell(struct yk_session *s, struct yk_worker *w)
{
    struct yk_crew *c = &s->crew;
    int me = yk_worker_endpoint(c->comm, (int)w->index);
    double until = yk_now() + GOODBYE;
    for (bool over = false; !over && yk_now() < until;) {
        unsigned seen = c->comm->ops->seen(c->comm, me);
        lock(c, me);
        over = w->closed || w->fenced || w->failed != YK_OK;
        unlock(c, me);
        if (!over)
            c->comm->ops->wait(c->comm, me, seen, 0.5);
    }
    s->job.clean = w->closed && w->clean;
}

static void run_threads(struct yk_session *s)
{
    struct yk_crew *c = &s->crew;
    sigset_t all, before; /* Ctrl-C is the main thread's business */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 1; i < c->hands; i++) {
        c->hand[i].running =
            pthread_create(&c->hand[i].thread, NULL, hand_thread, &c->hand[i]) == 0;
        if (c->hand[i].running) {
            char name[16];
            snprintf(name, sizeof name, "yoke-work-%u", i % 10000);
            pthread_setname_np(c->hand[i].thread, name);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (unsigned i = 1; i < c->hands; i++)
        if (!c->hand[i].running) {
            lock(c, 0);
            yk_server_fail(&c->server[0], YK_FAILED, "cannot start the threads of all workers");
            unlock(c, 0);
        }
    hand_thread(&c->hand[0]);
    for (unsigned i = 1; i < c->hands; i++)
        if (c->hand[i].running)
            pthread_join(c->hand[i].thread, NULL);
}

yk_code yk_crew_start(struct yk_session *s, struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    yk_code rc = s->restored_state.n > 0 ? yk_far_restore(s, e) : YK_OK;
    if (rc != YK_OK)
        return rc;
    for (unsigned i = 0; i < c->servers; i++)
        c->server[i].owner.step = s->now.step;
    if (c->has_clock) {
        lock(c, 0);
        yk_server_seed(&c->server[0], s->now.step, s->params.count);
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
    } else if (c->hands > 0) {
        struct yk_worker *w = &c->hand[0].worker;
        yk_worker_start(w);
        do
            yk_session_work(s, &c->hand[0]);
        while (w->meet && yk_crew_replace(s) == YK_OK);
        yk_worker_account(w);
        if (!c->has_clock)
            farewell(s, w);
        if (w->fenced)
            yk_log_line(s->log, YK_WARN,
                        "worker %u was taken for lost, and the others went on without: it leaves",
                        w->index);
        if (w->failed != YK_OK && w->orphaned)
            return yk_fail(e, w->failed, "%s",
                           w->why); /* otherwise owner 0 has said it, and speaks for all */
    } else if (!c->has_clock) {
        serve(s);
    }
    if (!c->has_clock)
        return c->servers > 0 && c->server[0].orphaned ? yk_fail(e, YK_LOST, "%s", c->server[0].why)
                                                       : YK_OK;
    if (!c->comm->shared)
        serve_clock(s);
    for (unsigned i = 0; i < c->servers; i++) /* in threads another owner cannot tell owner 0 */
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
