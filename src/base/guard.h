/* guard.h - survives mapped files that shrink while they are read.
 *
 * Reading a mapped page that the file no longer has raises SIGBUS, which ends a process. In a
 * guarded mapping it does not: a handler replaces the *whole* mapping by zeros and marks the guard
 * as broken. Readers go on with zeros until they ask yk_guard_broken. Since every byte is zero from
 * then on, a reader sees a mixture of old bytes and zeros for at most one access, and must tolerate
 * that (see yk_row_at).
 *
 * The handler is installed with the first guard and stays. Any other SIGBUS goes to the handler
 * that was there before, or to the default action.
 * THREADS: any; no locks. Threads that read a mapping must not block SIGBUS; yk_block_signals
 * leaves it open. */
#ifndef YK_BASE_GUARD_H
#define YK_BASE_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Guards the mapping [start, start + n), which must be private or read-only. Returns a number above
 * 0, or 0 if too many mappings are guarded. */
unsigned yk_guard(void *start, size_t n);
/* To be called before munmap. 0 is fine. */
void yk_unguard(unsigned guard);
/* Has the mapping been replaced by zeros? Costs one load; false for 0. */
bool yk_guard_broken(unsigned guard);

/* Blocks all signals of the calling thread, except those that its own faults raise; the main thread
 * gets the others. `was` receives the mask before. */
void yk_block_signals(sigset_t *was);

#endif
