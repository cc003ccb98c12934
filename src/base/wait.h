/* wait.h - waiting for another thread to change a word: yield a few hundred times, then sleep.
 *
 * Most waits of a run end within microseconds, and waking a sleeping core costs about 57 us, more
 * than YK_YIELDS yields on an idle machine; so a waiting thread yields first. Then it counts itself
 * in `sleepers` and sleeps on a futex, so a change for which no thread sleeps costs no system call.
 * THREADS: all functions may be called from any thread of one process. */
#ifndef YK_BASE_WAIT_H
#define YK_BASE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>

enum { YK_YIELDS = 300, YK_WAKE_ALL = 1 << 20 };

/* A word with the threads that sleep until it changes. All zeros is a valid start. */
struct yk_wait {
    atomic_uint value;    /* a user who changes it calls yk_wait_wake afterwards */
    atomic_uint sleepers; /* threads that sleep or are about to */
};

/* Waits until the value is not `old`, however long that takes; returns the new value. */
unsigned yk_wait_leave(struct yk_wait *w, unsigned old);

/* The two halves of yk_wait_leave, for a limited wait and for a thread with work between its
 * yields. yk_wait_yield returns true as soon as the value is not `old`, and false after YK_YIELDS
 * yields. yk_wait_sleep sleeps for at most `seconds` (INFINITY: no limit) while the value is `old`;
 * it may also return early. */
bool yk_wait_yield(struct yk_wait *w, unsigned old);
void yk_wait_sleep(struct yk_wait *w, unsigned old, double seconds);

/* To be called after a change of the value: wakes up to `threads` sleeping threads. */
void yk_wait_wake(struct yk_wait *w, int threads);

#endif
