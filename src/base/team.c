/* team.c - see team.h. A ticket counts the jobs handed out; helpers wait for it to change. Each helper counts itself done in one
 * shared counter that the caller waits for. Waiting is pause x SPIN, sched_yield x YIELD, then a futex.
 * LIMITS: helpers beyond the CPUs of the process only take turns; the options refuse more threads than make sense. */
#include "base/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN = 200, YIELD = 300, MOST = 256 };

struct yk_team {
    unsigned size;
    unsigned parts; /* of the current job */
    void (*job)(void *arg, unsigned part);
    void *arg;
    _Alignas(64) atomic_uint ticket; /* raised when there is a job (or the end) */
    _Alignas(64) atomic_uint done;   /* helpers that have finished the current one */
    _Alignas(64)
        atomic_uint asleep; /* helpers in the futex: only then does the caller pay for a wake-up */
    atomic_uint caller_asleep; /* the caller likewise, waiting for `done` */
    atomic_bool stop;
    unsigned started;
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

/* Until *word != old. `asleep` is counted up while the thread sleeps. */
static void await_change(atomic_uint *word, unsigned old, atomic_uint *asleep)
{
    for (unsigned i = 0; atomic_load_explicit(word, memory_order_acquire) == old; i++) {
        if (i < SPIN) {
            pause_cpu();
        } else if (i < SPIN + YIELD) {
            sched_yield();
        } else {
            atomic_fetch_add(asleep, 1);
            syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
            atomic_fetch_sub(asleep, 1);
        }
    }
}

static void *help(void *arg)
{
    struct helper *h = arg;
    struct yk_team *t = h->team;
    for (unsigned seen = 0;; seen++) {
        await_change(&t->ticket, seen, &t->asleep);
        if (atomic_load(&t->stop))
            return NULL;
        if (h->part < t->parts)
            t->job(t->arg, h->part);
        atomic_fetch_add(&t->done, 1);
        if (atomic_load(&t->caller_asleep) > 0)
            syscall(SYS_futex, &t->done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void call(struct yk_team *t)
{
    atomic_fetch_add(&t->ticket, 1);
    if (atomic_load(&t->asleep) > 0)
        syscall(SYS_futex, &t->ticket, FUTEX_WAKE_PRIVATE, MOST, NULL, NULL, 0);
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
    atomic_store(&t->stop, true);
    call(t);
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
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    call(t);
    job(arg, 0);
    for (unsigned done;
         (done = atomic_load_explicit(&t->done, memory_order_acquire)) != t->size - 1;)
        await_change(&t->done, done, &t->caller_asleep);
}

unsigned yk_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}
