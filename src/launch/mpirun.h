/* mpirun.h - the yoke parent: starts the ranks of a job by mpirun, stays, and reports how it ends.
 *
 *     struct yk_launch l = {.hosts = &hosts, .owners = 1, .argv = argv, .log = log};
 *     struct yk_launch_result r;
 *     if (yk_launch_run(&l, &r, &e) == YK_OK)
 *         fputs(r.output, stdout), code = r.signal != 0 ? 128 + r.signal : r.code;
 *
 * The parent relies on records (record.h) and on nothing else: with recovery switched on mpirun's
 * own status says nothing, and after the loss of a host mpirun never returns.
 *
 *   start      without `started` within the deadline, or if a rank on this machine ends before it,
 *              the job is killed: YK_LOST
 *   output     `done` carries the text for standard output. Lines of ranks that begin with 'yoke:',
 *              'hint:' or 'rank N' pass to standard error; mpirun's own are kept, and shown if the
 *              job ends without a result, or with `verbose`
 *   signals    the first INT, TERM or HUP becomes SIGUSR1 to mpirun, which hands it to all ranks:
 *              they write a checkpoint and end. A second one, or one before `started`, ends the job
 *              at once
 *   end        the exit code is `done`'s. If mpirun has not returned two seconds later it is
 *              killed. A `lost` record, an `alive` promise that is not kept, or mpirun's end
 *              without `done` is YK_LOST
 *   restarts   a lost job that left a checkpoint is started again, `restarts` times at most, and
 *              not if it was lost twice in a row without a new checkpoint: that fault repeats
 *   clean-up   in every case no process and no file stays: see mpirun_tidy.h
 *
 * THREADS: for the main thread of a process that has no other: it forks, mpirun dies with the
 * thread that called, and signals are taken by signalfd. While it runs INT, TERM and HUP are
 * blocked (except those that the process ignores); afterwards the mask is as before, no handler was
 * touched, and a signal that came too late is delivered as usual.
 * LIMITS: Open MPI 4. Ranks on another host find the program and the current folder under the same
 * paths. */
#ifndef YK_LAUNCH_MPIRUN_H
#define YK_LAUNCH_MPIRUN_H

#include "base/file.h"
#include "base/log.h"
#include "launch/hosts.h"

#include <stdbool.h>
#include <stddef.h>

/* In `resume_argv`: the folder of the run. */
#define YK_LAUNCH_FOLDER "{folder}"

struct yk_launch {
    const struct yk_hosts *hosts; /* a worker rank for each of its slots */
    /* ranks 0 .. owners - 1, before the workers; 0: all-reduce, every rank is a worker */
    size_t owners;
    char *const *argv;        /* command of a rank: yk_launch_program's path, arguments, NULL */
    char *const *resume_argv; /* command after a restart; NULL if the job cannot be resumed */
    int restarts;             /* at most */
    double start_deadline;    /* seconds; 0: 30 */
    bool verbose;             /* show mpirun's own lines as they come */
    struct yk_log *log;       /* for the parent's own messages */
};

struct yk_launch_result {
    int code;                 /* yk_code or whatever `done` said */
    int signal;               /* the signal that ended the job: the user's, 0 if none */
    char *output;             /* for standard output; never NULL after YK_OK */
    char folder[YK_PATH_MAX]; /* of the run; "" if no record named one */
    int restarts;             /* made */
};

/* YK_OK: the job ran to a `done` record, or was ended at once by a second signal; see `out`.
 * Otherwise `e` says why there is no result, out->code is the returned code, and the last lines of
 * mpirun have been shown. The caller releases `out` in both cases. */
yk_code yk_launch_run(const struct yk_launch *l, struct yk_launch_result *out, struct yk_error *e);
void yk_launch_result_release(struct yk_launch_result *r);

/* This program's own absolute path, for argv[0]. */
yk_code yk_launch_program(char out[YK_PATH_MAX], struct yk_error *e);

/* For a rank, before MPI_Init; does nothing without a yoke parent. On another machine than the
 * parent's it leaves a small process that removes Open MPI's files there when its daemon has
 * gone. */
void yk_launch_join(void);

#endif
