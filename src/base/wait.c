/* wait.c - see wait.h.
 *
 * No wake-up is lost: a sleeper counts itself before it compares the value, and a waker changes the
 * value before it reads the count, both in sequentially consistent order. So either the waker sees
 * the sleeper, or the sleeper (or the futex, which compares again) sees the change. */
#include "base/wait.h"

#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool yk_wait_yield(struct yk_wait *w, unsigned old)
{
    for (int i = 0; i < YK_YIELDS; i++) {
        if (atomic_load_explicit(&w->value, memory_order_acquire) != old)
            return true;
        sched_yield();
    }
    return false;
}

void yk_wait_sleep(struct yk_wait *w, unsigned old, double seconds)
{
    struct timespec limit = {0};
    if (isfinite(seconds)) {
        limit.tv_sec = (time_t)seconds;
        limit.tv_nsec = (long)((seconds - (double)limit.tv_sec) * 1e9);
    }
    atomic_fetch_add(&w->sleepers, 1);
    if (atomic_load(&w->value) == old)
        syscall(SYS_futex, &w->value, FUTEX_WAIT_PRIVATE, old, isfinite(seconds) ? &limit : NULL,
                NULL, 0);
    atomic_fetch_sub(&w->sleepers, 1);
}

unsigned yk_wait_leave(struct yk_wait *w, unsigned old)
{
    unsigned value;
    yk_wait_yield(w, old);
    while ((value = atomic_load_explicit(&w->value, memory_order_acquire)) == old)
        yk_wait_sleep(w, old, INFINITY);
    return value;
}

void yk_wait_wake(struct yk_wait *w, int threads)
{
    if (atomic_load(&w->sleepers) != 0)
        syscall(SYS_futex, &w->value, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}
