/* mpi_stall.c - does Open MPI itself still answer? A thread that never calls MPI checks whether the
 * threads that call it come back.
 *
 * When Open MPI 4 looks at its messages it also reads the first bytes of new TCP connections, and
 * waits for them without end. So a client that connects to a rank's port, sends four bytes and
 * falls silent blocks the rank. Nothing outside can free it, but users must be told, because other
 * ranks only see a rank that is silent. Therefore the lock `wire` is tried every TICK. If it is
 * taken, and no look at messages has ended since the last tick, a thread is stuck inside MPI. After
 * LIMIT of that stalled() is called, and once more when it is over. As in mpi_watch.c, only time
 * during which this process was awake counts.
 * THREADS: one thread of its own; stalled() runs on it. It gives `wire` back at once.
 * LIMITS:  a replacement holds `wire` for longer. It is not counted, and mpi_spawn.c bounds it. */
#include <mpi.h>

#include "comm/mpi_engine.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define TICK 0.1  /* seconds between looks */
#define NAP 0.25  /* the most seconds that one look adds to the time without an answer */
#define LIMIT 1.0 /* seconds without an answer after which stalled() is called */

/* Has one thread been inside MPI since the last look? *turns is engine.turns at that look. */
static bool is_held(struct engine *m, unsigned *turns)
{
    unsigned before = *turns;
    *turns = atomic_load_explicit(&m->turns, memory_order_relaxed);
    if (pthread_mutex_trylock(&m->wire) == 0) {
        pthread_mutex_unlock(&m->wire);
        return false;
    }
    return *turns == before && !atomic_load(&m->replacing);
}

/* Sleep until the next look. False: there is none, because the engine closes. */
static bool rest(struct engine *m)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(TICK * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_clockwait(&m->stall.stop, CLOCK_MONOTONIC, &until) != 0)
        if (errno == ETIMEDOUT)
            return true;
    return false;
}

static void tell(const struct engine *m, double seconds, bool over)
{
    char text[120];
    snprintf(text, sizeof text,
             over ? "rank %d: Open MPI answers again, after %.1f s"
                  : "rank %d: Open MPI has not answered for %.1f s; a connection from outside may "
                    "block it",
             m->rank, seconds);
    m->stall.plan.stalled(m->stall.plan.stalled_arg, text, seconds, over);
}

static void *look(void *arg)
{
    struct engine *m = arg;
    unsigned turns = 0;
    double last = yk_now(), held = 0;
    bool said = false;
    while (rest(m)) {
        double now = yk_now();
        if (is_held(m, &turns)) {
            held += fmin(now - last, NAP);
        } else {
            if (said)
                tell(m, held, true);
            held = 0;
            said = false;
        }
        if (held >= LIMIT && !said) {
            said = true;
            tell(m, held, false);
        }
        last = now;
    }
    if (said && !is_held(m, &turns)) /* it is over, or the engine is left in the middle of it */
        tell(m, held, true);
    return NULL;
}

void yk_mpi_stall_open(struct engine *m, const struct yk_mpi_plan *plan)
{
    if (plan->stalled == NULL || sem_init(&m->stall.stop, 0, 0) != 0)
        return;
    m->stall.plan = *plan;
    m->stall.looks = pthread_create(&m->stall.thread, NULL, look, m) == 0;
    if (m->stall.looks) {
        pthread_setname_np(m->stall.thread, "yoke-stall");
        return;
    }
    char text[120];
    snprintf(text, sizeof text,
             "rank %d: cannot start the thread that checks whether Open MPI answers; going on "
             "without it",
             m->rank);
    plan->stalled(plan->stalled_arg, text, 0, false);
    sem_destroy(&m->stall.stop);
}

void yk_mpi_stall_close(struct engine *m)
{
    if (!m->stall.looks)
        return;
    sem_post(&m->stall.stop);
    pthread_join(m->stall.thread, NULL);
    sem_destroy(&m->stall.stop);
    m->stall.looks = false;
}
