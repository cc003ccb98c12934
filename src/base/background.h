/* background.h - one background thread that runs one job at a time.
 *
 * The evaluator and the checkpoint writer use it: the training thread hands over a snapshot and
 * goes on, and waits only if the previous job is still running.
 * THREADS: post, busy, wait and close are for one owning thread; jobs run on the background
 * thread. */
#ifndef YK_BASE_BACKGROUND_H
#define YK_BASE_BACKGROUND_H

#include "base/error.h"

#include <stdbool.h>

struct yk_background;

/* `name` shows in top and gdb, cut to 15 characters. */
yk_code yk_background_open(struct yk_background **out, const char *name, struct yk_error *e);

/* Runs job(arg) in the background. Blocks while an earlier job runs. `arg` belongs to the job until
 * the job is done. */
void yk_background_post(struct yk_background *b, void (*job)(void *arg), void *arg);

/* True while a posted job has not finished. */
bool yk_background_busy(struct yk_background *b);

/* Waits for the posted job; its results are then visible to the caller. */
void yk_background_wait(struct yk_background *b);

/* Waits, then ends the thread. NULL is fine. */
void yk_background_close(struct yk_background *b);

#endif
