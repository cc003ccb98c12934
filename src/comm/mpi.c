/* mpi.c - endpoints in processes, over Open MPI: the contract of comm.h. How the engine is built is
 * in mpi_engine.h.
 *
 * MPI moves nothing big unless it is called, and its own waiting burns a core. So a thread that
 * waits here drives: it looks for messages that have moved, delivers them, and yields. After about
 * 300 looks in vain it sleeps in between, 20 us and growing to 200, and after a lull to 500. While
 * large messages are under way it sleeps sooner: a piece takes a millisecond, so more looks would
 * only take the core from others. A helper thread looks when no thread has for a millisecond: while
 * the process computes, transfers go on, heartbeats leave, and an owner that shares the process
 * does its duty.
 * THREADS: as comm.h says. fence may be called from a handler; wait and settle may not.
 * LIMITS:  a handler that runs for long keeps the process from receiving, not from sending. */
#include <mpi.h>

#include "comm/mpi_engine.h"

#include "base/clock.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    NAP_SHORT = 20, /* microseconds from here on */
    NAP_LONG = 200,
    NAP_STEP = 2,
    NAP_LULL = 500,
    HELP_AFTER = 1000, /* the helper drives when no waiting thread has for so long */
    HELP_BUSY = 50,    /* its pause while transfers move */
    BULK_NAP = 100,    /* a nap, and its pause, while large messages are under way */
    /* looks that found nothing, from here on */
    LULL = 1500,     /* about a quarter of a second; from then on a nap is NAP_LULL */
    BULK_YIELDS = 4, /* while large messages are under way: a waiting thread then naps */
    PATIENCE = 400,  /* the helper then slows down, although transfers are under way */
};
#define CLOSE_GRACE 10.0 /* seconds for the last messages to get through */

static struct engine *engine_of(struct yk_comm *c)
{
    return (struct engine *)c;
}

/* One look, if no other thread drives. If one does, it may be inside a handler for a while, so
 * heartbeats are sent from here. */
static bool drive(struct engine *m, double now)
{
    if (pthread_mutex_trylock(&m->driving) != 0) {
        yk_mpi_beat(m, now);
        return false;
    }
    bool moved = yk_mpi_pass(m);
    pthread_mutex_unlock(&m->driving);
    return moved;
}

/* One look of a waiting thread. If it finds nothing, a yield follows or, after many such looks,
 * which *idle counts, a nap. An arrival at `end` (may be NULL) cuts the nap short. */
static void look_and_rest(struct engine *m, unsigned *idle, struct endpoint *end, unsigned before)
{
    double now = yk_now();
    atomic_store_explicit(&m->driven, (long long)(now * 1e9), memory_order_relaxed);
    if (drive(m, now)) {
        *idle = 0;
        return;
    }
    bool bulk = atomic_load_explicit(&m->bulk, memory_order_relaxed) > 0;
    if (++*idle <= (bulk ? BULK_YIELDS : YK_YIELDS)) {
        sched_yield();
        return;
    }
    long nap = bulk ? BULK_NAP : NAP_SHORT + (long)(*idle - YK_YIELDS) * NAP_STEP;
    nap = *idle > LULL ? NAP_LULL : nap < NAP_LONG ? nap : NAP_LONG;
    if (end != NULL)
        yk_wait_sleep(&end->arrived, before, (double)nap * 1e-6);
    else
        nanosleep(&(struct timespec){0, nap * 1000}, NULL);
}

bool yk_mpi_drive_until(struct engine *m, bool (*until)(struct engine *m), double seconds)
{
    double end = yk_now() + seconds;
    unsigned idle = 0;
    while (!until(m)) {
        if (yk_now() > end)
            return false;
        look_and_rest(m, &idle, NULL, 0);
    }
    return true;
}

static void *help(void *arg)
{
    struct engine *m = arg;
    long pause = HELP_AFTER;
    unsigned idle = 0;
    while (!atomic_load(&m->stop)) {
        nanosleep(&(struct timespec){0, pause * 1000}, NULL);
        double now = yk_now();
        if ((long long)(now * 1e9) - atomic_load_explicit(&m->driven, memory_order_relaxed) <
            HELP_AFTER * 1000LL) {
            pause = HELP_AFTER;
            continue;
        }
        idle = drive(m, now) ? 0 : idle + 1;
        bool busy = idle == 0 ||
                    (idle < PATIENCE && atomic_load_explicit(&m->flight, memory_order_relaxed) > 0);
        long soon = atomic_load_explicit(&m->bulk, memory_order_relaxed) > 0 ? BULK_NAP : HELP_BUSY;
        pause = busy ? soon : pause * 2 < HELP_AFTER ? pause * 2 : HELP_AFTER;
    }
    return NULL;
}

/* --- the contract --- */

static void attach(struct yk_comm *c, int endpoint, const struct yk_handler *h, void *arg)
{
    struct endpoint *end = &engine_of(c)->end[endpoint];
    pthread_mutex_lock(&end->lock);
    end->arg = arg;
    atomic_store(&end->handler, h);
    pthread_mutex_unlock(&end->lock);
}

static void send_note(struct yk_comm *c, struct yk_note *note, const void *data, size_t bytes,
                      atomic_uint *pending)
{
    struct engine *m = engine_of(c);
    struct endpoint *to = &m->end[note->to];
    note->bytes = bytes;
    if (to->rank == m->rank) {
        yk_mpi_hand(m, note, data);
        return;
    }
    atomic_fetch_add_explicit(&to->sent, bytes + sizeof *note, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->messages_sent, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->sends, 1, memory_order_relaxed);
    yk_mpi_post(m, to->rank, note, data, bytes, pending);
}

static unsigned seen(struct yk_comm *c, int endpoint)
{
    return atomic_load_explicit(&engine_of(c)->end[endpoint].arrived.value, memory_order_acquire);
}

static void wait_for(struct yk_comm *c, int endpoint, unsigned before, double seconds)
{
    struct engine *m = engine_of(c);
    struct endpoint *end = &m->end[endpoint];
    double until = yk_now() + seconds;
    /* A thread whose last wait ended without an arrival goes on with long naps. */
    unsigned idle = atomic_load_explicit(&end->idle, memory_order_relaxed);
    while (atomic_load_explicit(&end->arrived.value, memory_order_acquire) == before) {
        look_and_rest(m, &idle, end, before);
        if (yk_now() >= until)
            break;
    }
    bool came = atomic_load_explicit(&end->arrived.value, memory_order_acquire) != before;
    atomic_store_explicit(&end->idle, came ? 0 : idle, memory_order_relaxed);
}

static void settle(struct yk_comm *c, atomic_uint *pending)
{
    unsigned idle = 0;
    while (atomic_load_explicit(pending, memory_order_acquire) != 0)
        look_and_rest(engine_of(c), &idle, NULL, 0);
}

static void lock(struct yk_comm *c, int endpoint)
{
    pthread_mutex_lock(&engine_of(c)->end[endpoint].lock);
}

static void unlock(struct yk_comm *c, int endpoint)
{
    pthread_mutex_unlock(&engine_of(c)->end[endpoint].lock);
}

void yk_mpi_fence(struct engine *m, int rank)
{
    if (!atomic_exchange(&m->peer[rank].fenced, true)) {
        atomic_store(&m->deaths, true);
        atomic_fetch_add(&m->fences, 1);
    }
}

/* All endpoints of a rank are fenced together: they are one process. */
static void fence(struct yk_comm *c, int endpoint)
{
    struct engine *m = engine_of(c);
    yk_mpi_fence(m, m->end[endpoint].rank);
}

static void traffic(struct yk_comm *c, int endpoint, struct yk_traffic *out)
{
    struct endpoint *end = &engine_of(c)->end[endpoint];
    *out = (struct yk_traffic){atomic_load(&end->sent), atomic_load(&end->received),
                               atomic_load(&end->messages_sent), atomic_load(&end->messages)};
}

static bool all_through(struct engine *m)
{
    pthread_mutex_lock(&m->wire);
    bool busy = m->listed > LIST_REST;
    for (int r = 0; r < m->size && !busy; r++)
        busy = m->peer[r].out.first != NULL;
    pthread_mutex_unlock(&m->wire);
    return !busy || atomic_load(&m->deaths);
}

/* Are all ranks at the last barrier, or has one died? MPI_Finalize would wait for them too, but it
 * burns a core and never ends if a rank has died. */
static bool part(struct engine *m)
{
    int through = 0;
    pthread_mutex_lock(&m->wire);
    MPI_Test(&m->parting, &through, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&m->wire);
    return through != 0 || atomic_load(&m->deaths);
}

static void release(struct engine *m)
{
    if (m == NULL)
        return;
    if (m->peer != NULL) {
        yk_mpi_watch_close(m);
        yk_mpi_release_wire(m);
    }
    free(m->peer);
    free(m->end);
    free(m->card);
    free(m->who);
    free(m->daemon);
    free(m);
}

static bool close_mpi(struct yk_comm *c, bool clean)
{
    if (c == NULL)
        return true;
    struct engine *m = engine_of(c);
    atomic_store(&m->closing, true);
    clean = clean && !atomic_load(&m->deaths) && yk_mpi_drive_until(m, all_through, CLOSE_GRACE);
    if (clean) {
        pthread_mutex_lock(&m->wire);
        clean = MPI_Ibarrier(m->mpi, &m->parting) == MPI_SUCCESS;
        pthread_mutex_unlock(&m->wire);
    }
    if (clean) /* no time limit: all ranks come or, as the watch goes on, one is found dead */
        clean = yk_mpi_drive_until(m, part, HUGE_VAL) && !atomic_load(&m->deaths);
    yk_mpi_stall_close(m);
    if (atomic_load(&m->stuck))
        return false; /* the helper may be hanging too */
    atomic_store(&m->stop, true);
    if (m->helping)
        pthread_join(m->helper, NULL);
    if (!clean)
        return false; /* MPI may still be using our buffers */
    yk_mpi_unring(m);
    clean = yk_mpi_finalize();
    release(m);
    return clean;
}

static const struct yk_comm_ops OPS = {
    .name = "mpi",
    .attach = attach,
    .send = send_note,
    .seen = seen,
    .wait = wait_for,
    .settle = settle,
    .lock = lock,
    .unlock = unlock,
    .fence = fence,
    .traffic = traffic,
    .close = close_mpi,
};

/* --- opening --- */

static void *many(int n, size_t size)
{
    size_t bytes = ((size_t)n * size + 63) / 64 * 64;
    char *p = aligned_alloc(64, bytes);
    for (size_t i = 0; p != NULL && i < bytes; i++)
        p[i] = 0;
    return p;
}

static yk_code create(struct engine **out, const struct yk_mpi_plan *plan, const struct job *job,
                      struct yk_error *e)
{
    int ends = plan->owners + plan->workers;
    struct engine *m = many(1, sizeof *m);
    if (m == NULL)
        return yk_fail_memory(e, sizeof *m);
    m->comm = (struct yk_comm){.ops = &OPS, .owners = plan->owners, .workers = plan->workers};
    m->mpi = job->comm;
    m->rank = job->rank;
    m->size = job->size;
    m->together = plan->together;
    m->round = job->round;
    atomic_store(&m->deaths, job->endpoint >= 0); /* a replacement is there because of one */
    m->heartbeat = plan->heartbeat;
    m->epoll = -1;
    pthread_mutex_init(&m->driving, NULL);
    pthread_mutex_init(&m->wire, NULL);
    m->peer = many(m->size, sizeof *m->peer);
    m->end = many(ends, sizeof *m->end);
    m->card = many(m->size, sizeof *m->card);
    m->who = many(m->size, sizeof *m->who);
    m->daemon = many(m->size, sizeof *m->daemon);
    if (m->peer == NULL || m->end == NULL || m->card == NULL || m->who == NULL ||
        m->daemon == NULL) {
        free(m->peer);
        m->peer = NULL;
        release(m);
        return yk_fail_memory(e, (size_t)(job->size + ends) * sizeof *m->peer);
    }
    for (int r = 0; r < m->size; r++) {
        m->peer[r].pidfd = -1;
        m->peer[r].beat = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < ends; i++) {
        m->end[i].rank = plan->together && i >= plan->owners ? i - plan->owners : i;
        pthread_mutex_init(&m->end[i].lock, NULL);
        if (m->end[i].rank == m->rank)
            m->here[m->heres++] = i;
    }
    *out = m;
    return YK_OK;
}

/* Exchange cards with all ranks. A rank that could not make its engine (m == NULL) comes here too,
 * so that the others do not wait for it in vain. */
static yk_code introduce(struct engine *m, const struct job *job, struct yk_error *e)
{
    struct card mine;
    yk_mpi_introduce(&mine);
    mine.ok = m != NULL;
    struct card *all = malloc((size_t)job->size * sizeof *all);
    if (all == NULL)
        return yk_fail_memory(e, (size_t)job->size * sizeof *all);
    yk_code rc = yk_mpi_gather(job->comm, &mine, sizeof mine, all, YK_MPI_MEETING, e);
    for (int r = 0; rc == YK_OK && m != NULL && r < job->size; r++) {
        if (!all[r].ok)
            rc = yk_fail(e, YK_FAILED, "rank %d on '%s' could not start", r, all[r].host);
        m->card[r] = all[r];
        m->daemon[r] = all[r].daemon;
    }
    free(all);
    return rc;
}

yk_code yk_comm_mpi(struct yk_comm **out, const struct yk_mpi_plan *plan, struct yk_error *e)
{
    const struct job *job = yk_mpi_job();
    int ends = plan->together ? plan->workers : plan->owners + plan->workers;
    if (plan->owners < 1 || plan->workers < 1 ||
        (plan->together && plan->owners != plan->workers) || ends != job->size)
        return yk_fail(e, YK_USAGE, "the job has %d ranks, but %d owners and %d workers need %d",
                       job->size, plan->owners, plan->workers, ends);
    struct engine *m = NULL;
    yk_code rc = create(&m, plan, job, e);
    if (job->endpoint < 0) { /* a replacement has met the others when it joined */
        yk_code met = introduce(m, job, rc == YK_OK ? e : NULL);
        rc = rc != YK_OK ? rc : met;
    }
    if (rc != YK_OK || m == NULL) {
        release(m);
        return rc;
    }
    yk_mpi_take_places(m, job->endpoint < 0 ? m->card : job->cards,
                       job->endpoint < 0 ? m->size : job->present);
    yk_mpi_watch_open(m);
    rc = yk_mpi_ring(m, e);
    if (rc != YK_OK)
        return rc; /* MPI may write into the engine from now on, so it is not freed */
    m->helping = pthread_create(&m->helper, NULL, help, m) == 0;
    if (!m->helping)
        return yk_fail(e, YK_FAILED, "cannot start the helper thread of MPI");
    pthread_setname_np(m->helper, "yoke-mpi");
    yk_mpi_stall_open(m, plan);
    *out = &m->comm;
    return YK_OK;
}

int yk_comm_rank(const struct yk_comm *c, int endpoint)
{
    return ((const struct engine *)c)->end[endpoint].rank;
}

const char *yk_comm_host(const struct yk_comm *c, int rank)
{
    return ((const struct engine *)c)->card[rank].host;
}

int yk_comm_pid(const struct yk_comm *c, int rank)
{
    return ((const struct engine *)c)->card[rank].pid;
}
