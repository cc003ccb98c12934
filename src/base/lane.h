/* lane.h - one background thread that runs one job at a time.
 *
 * The evaluator and the checkpoint writer are both this: the training thread hands over a snapshot and goes on, and waits only
 * if the job before it is still running. A waiting side yields a few hundred times before it sleeps, because waking a
 * sleeping core costs more than most of these jobs.
 * THREADS: post, wait and close come from one owning thread; the job runs on the lane's own. */
#ifndef YK_BASE_LANE_H
#define YK_BASE_LANE_H

#include "base/error.h"

#include <stdbool.h>

struct yk_lane;

/* `name` shows in top and gdb (15 characters). */
yk_code yk_lane_open(struct yk_lane **out, const char *name, struct yk_error *e);

/* Run job(arg) on the lane. Blocks while an earlier job runs. `arg` stays the lane's until the job is done. */
void yk_lane_post(struct yk_lane *lane, void (*job)(void *arg), void *arg);

bool yk_lane_busy(struct yk_lane *lane);  /* a posted job has not finished yet */
void yk_lane_wait(struct yk_lane *lane);  /* until it has; what the job wrote is then visible */
void yk_lane_close(struct yk_lane *lane); /* waits, then ends the thread; NULL is fine */

#endif
