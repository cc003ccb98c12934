/* mpi_watch.c - which ranks are alive: rank 0 watches all ranks, and all watch rank 0.
 *
 * MPI reports nothing when a rank dies. On one host its pidfd does, within a tick of 10 ms; lost()
 * is called a little later, when the rank's last messages have been delivered. Between hosts, and
 * for a process that is stopped or cut off, silence counts. Any arrival from a rank ends its
 * silence, and a rank that has sent nothing for a quarter of the heartbeat sends one byte. Only
 * time during which this process was awake counts: a tick adds at most NAP to a silence, so a
 * process that was stopped does not take the others for dead when it wakes.
 * THREADS: the driver watches. Heartbeats are sent by any thread that comes by, so that a handler
 * that runs for long does not delay them.
 * LIMITS:  if the only thread that could drive is inside a handler for longer than the others'
 * grace, they take this rank for dead. */
#include <mpi.h>

#include "comm/mpi_engine.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICK 0.01           /* seconds between looks */
#define NAP 0.25            /* the most that one tick adds to a silence */
#define DRAIN 0.02          /* from the end of a process to lost(): its last messages come first */
#define CLOCK_GRACE 10.0    /* silence after which rank 0 is lost to the others */
#define LONGEST_PERIOD 0.25 /* between heartbeats */
#define HEARTBEAT_NEAR 2.0  /* the default if all ranks are on one host */
#define HEARTBEAT_FAR 5.0   /* the default between hosts */

static bool same_host(const struct card *a, const struct card *b)
{
    return a->pids == b->pids && a->pids != 0 && strcmp(a->host, b->host) == 0 &&
           strcmp(a->boot, b->boot) == 0;
}

void yk_mpi_watch_rank(struct engine *m, int rank)
{
    struct peer *p = &m->peer[rank];
    if (p->pidfd >= 0)
        close(p->pidfd);
    p->pidfd = -1;
    p->watched = rank != m->rank && p->at >= 0 && (rank == 0 || m->rank == 0);
    p->silent = p->dead = 0;
    p->told = yk_now();
    p->grace = rank == 0 ? CLOCK_GRACE : m->heartbeat;
    if (!p->watched || !same_host(&m->card[rank], &m->card[m->rank]))
        return;
    p->pidfd = (int)syscall(SYS_pidfd_open, m->card[rank].pid, 0);
    if (p->pidfd < 0 && errno == ESRCH)
        p->dead = p->told; /* it has ended already */
    if (p->pidfd < 0)
        return; /* it has ended, or the kernel has no pidfds: then its silence will show */
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = (uint32_t)rank}};
    if (epoll_ctl(m->epoll, EPOLL_CTL_ADD, p->pidfd, &event) != 0) {
        close(p->pidfd);
        p->pidfd = -1;
    }
}

void yk_mpi_watch_open(struct engine *m)
{
    bool near = true;
    for (int r = 0; r < m->size; r++)
        near = near && same_host(&m->card[r], &m->card[m->rank]);
    if (m->heartbeat <= 0)
        m->heartbeat = near ? HEARTBEAT_NEAR : HEARTBEAT_FAR;
    m->period = m->heartbeat / 4 < LONGEST_PERIOD ? m->heartbeat / 4 : LONGEST_PERIOD;
    m->epoll = epoll_create1(EPOLL_CLOEXEC);
    m->ticked = yk_now();
    for (int r = 0; r < m->size; r++) {
        m->peer[r].pidfd = -1;
        yk_mpi_watch_rank(m, r);
    }
}

void yk_mpi_watch_close(struct engine *m)
{
    for (int r = 0; r < m->size; r++)
        if (m->peer[r].pidfd >= 0)
            close(m->peer[r].pidfd);
    if (m->epoll >= 0)
        close(m->epoll);
}

static void lose(struct engine *m, int rank, const char *why)
{
    pthread_mutex_lock(&m->wire);
    yk_mpi_lose(m, rank, why);
    pthread_mutex_unlock(&m->wire);
}

/* Call lost() on the endpoints of this process, for each endpoint of the rank. One whose lock is
 * taken is told at the next tick. */
static void tell(struct engine *m, int rank)
{
    struct peer *p = &m->peer[rank];
    for (int i = 0; i < m->heres; i++) {
        struct endpoint *end = &m->end[m->here[i]];
        const struct yk_handler *h = atomic_load(&end->handler);
        if ((p->told_of & 1u << i) || h == NULL || pthread_mutex_trylock(&end->lock) != 0)
            continue;
        p->told_of |= 1u << i;
        for (int n = 0; n < m->comm.owners + m->comm.workers && h->lost != NULL; n++)
            if (m->end[n].rank == rank && !atomic_load(&p->fenced))
                h->lost(end->arg, n, p->why);
        pthread_mutex_unlock(&end->lock);
        yk_mpi_wake(end);
    }
}

void yk_mpi_watch(struct engine *m, double now)
{
    double passed = now - m->ticked;
    if (passed < TICK)
        return;
    m->ticked = now;
    struct epoll_event ended[16];
    int n = m->epoll >= 0 ? epoll_wait(m->epoll, ended, 16, 0) : 0;
    for (int i = 0; i < n; i++) {
        struct peer *p = &m->peer[ended[i].data.u32];
        close(p->pidfd); /* which takes it out of the set */
        p->pidfd = -1;
        p->dead = now;
    }
    passed = passed < NAP ? passed : NAP;
    for (int r = 0; r < m->size; r++) {
        struct peer *p = &m->peer[r];
        char why[sizeof p->why];
        if (atomic_load(&p->fenced))
            continue;
        if (p->watched && !atomic_load(&p->lost)) {
            p->silent += passed;
            if (p->dead > 0 && now - p->dead >= DRAIN) {
                snprintf(why, sizeof why, "process %d has ended", m->card[r].pid);
                lose(m, r, why);
            } else if (p->silent > p->grace) {
                snprintf(why, sizeof why, "nothing heard for %.1f s", p->silent);
                lose(m, r, why);
            }
        }
        if (atomic_load(&p->lost) && !atomic_load(&m->closing))
            tell(m, r);
    }
}

void yk_mpi_beat(struct engine *m, double now)
{
    long long at = (long long)(now * 1e9);
    if (at < atomic_load_explicit(&m->due, memory_order_relaxed) || atomic_load(&m->stuck))
        return;
    pthread_mutex_lock(&m->wire);
    atomic_store_explicit(&m->due, at + (long long)(m->period * 0.5e9), memory_order_relaxed);
    static const unsigned char BEAT = 1;
    for (int r = 0; r < m->size; r++) {
        struct peer *p = &m->peer[r];
        if (!p->watched || p->at < 0 || atomic_load(&p->fenced) || now - p->told < m->period)
            continue;
        int through = 1; /* while the last one is under way, no other is sent */
        if (p->beat != MPI_REQUEST_NULL)
            MPI_Test(&p->beat, &through, MPI_STATUS_IGNORE);
        if (through &&
            MPI_Isend(&BEAT, 1, MPI_BYTE, p->at, TAG_BEAT, m->mpi, &p->beat) != MPI_SUCCESS)
            p->beat = MPI_REQUEST_NULL;
        p->told = now;
    }
    pthread_mutex_unlock(&m->wire);
}
