/* team.c - see team.h.
 *
 * `ticket` counts the jobs handed out; helpers wait for it to change. Each helper that has finished
 * its part adds one to `done`, for which the caller waits. A wait first spins, because steps follow
 * each other within microseconds, then yields and sleeps as in wait.h.
 * LIMITS: helpers beyond the CPUs of the process only take turns. */
#include "base/team.h"

#include "base/wait.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { SPIN = 200, MOST = 256 };

struct yk_team {
    unsigned size;
    void (*job)(void *arg, unsigned part); /* the current one; NULL ends the helpers */
    void *arg;
    unsigned parts;                     /* of the current job */
    unsigned started;                   /* helpers to be joined */
    _Alignas(64) struct yk_wait ticket; /* jobs handed out so far */
    _Alignas(64) struct yk_wait done;   /* helpers that have finished the current job */
    struct helper {
        struct yk_team *team;
        unsigned part;
        pthread_t thread;
    } helper[];
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static unsigned spin_and_wait(struct yk_wait *w, unsigned old)
{
    for (int i = 0; i < SPIN; i++) {
        unsigned value = atomic_load_explicit(&w->value, memory_order_acquire);
        if (value != old)
            return value;
        pause_cpu();
    }
    return yk_wait_leave(w, old);
}

static void *help(void *arg)
{
    struct helper *h = arg;
    struct yk_team *t = h->team;
    for (unsigned seen = 0;; seen++) {
        spin_and_wait(&t->ticket, seen);
        if (t->job == NULL)
            return NULL;
        if (h->part < t->parts)
            t->job(t->arg, h->part);
        atomic_fetch_add(&t->done.value, 1);
        yk_wait_wake(&t->done, 1);
    }
}

static void call_helpers(struct yk_team *t)
{
    atomic_fetch_add(&t->ticket.value, 1);
    yk_wait_wake(&t->ticket, YK_WAKE_ALL);
}

yk_code yk_team_open(struct yk_team **out, unsigned threads, struct yk_error *e)
{
    if (threads < 1 || threads > MOST)
        return yk_fail(e, YK_USAGE, "a team has 1 to %d threads, not %u", MOST, threads);
    size_t bytes = sizeof(struct yk_team) + (threads - 1) * sizeof(struct helper);
    struct yk_team *t = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (t == NULL)
        return yk_fail_memory(e, bytes);
    *t = (struct yk_team){.size = threads};
    for (unsigned i = 1; i < threads; i++) {
        struct helper *h = &t->helper[i - 1];
        *h = (struct helper){.team = t, .part = i};
        if (pthread_create(&h->thread, NULL, help, h) != 0) {
            yk_team_close(t);
            return yk_fail(e, YK_FAILED, "cannot start thread %u of %u", i + 1, threads);
        }
        char name[16];
        snprintf(name, sizeof name, "yoke-team-%u", i % 1000);
        pthread_setname_np(h->thread, name);
        t->started++;
    }
    *out = t;
    return YK_OK;
}

void yk_team_close(struct yk_team *t)
{
    if (t == NULL)
        return;
    t->job = NULL;
    call_helpers(t);
    for (unsigned i = 0; i < t->started; i++)
        pthread_join(t->helper[i].thread, NULL);
    free(t);
}

unsigned yk_team_size(const struct yk_team *t)
{
    return t->size;
}

void yk_team_run(struct yk_team *t, unsigned parts, void (*job)(void *arg, unsigned part),
                 void *arg)
{
    if (parts <= 1) {
        job(arg, 0);
        return;
    }
    t->job = job;
    t->arg = arg;
    t->parts = parts;
    atomic_store_explicit(&t->done.value, 0, memory_order_relaxed);
    call_helpers(t);
    job(arg, 0);
    unsigned done = atomic_load_explicit(&t->done.value, memory_order_acquire);
    while (done != t->size - 1)
        done = spin_and_wait(&t->done, done);
}

unsigned yk_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}
