/* mpirun.h - the yoke parent: starts the ranks of a job by mpirun, stays, and answers for how it ends.
 *
 *     struct yk_launch l = {.hosts = &hosts, .owners = 1, .argv = argv, .log = log};
 *     struct yk_launch_result r;
 *     if (yk_launch_run(&l, &r, &e) == YK_OK)
 *         fputs(r.output, stdout), code = r.signal != 0 ? 128 + r.signal : r.code;
 *
 * The parent believes records (record.h) and nothing else: with recovery switched on mpirun's own status says nothing, and
 * after the loss of a host it never returns.
 *
 *   start      no `started` within the deadline, or a rank on this machine gone before it: the job is killed, YK_LOST
 *   output     `done` carries what belongs on standard output. Lines of ranks that begin with 'yoke:', 'hint:' or 'rank N' pass
 *              to standard error; mpirun's own are kept, and shown if the job ends without a result, or with `verbose`
 *   signals    the first INT, TERM or HUP becomes SIGUSR1 to mpirun, which hands it to all ranks: they write a checkpoint and end.
 *              A second one, or one before `started`, ends the job at once
 *   end        the exit code is `done`'s. If mpirun has not returned two seconds later it is killed. A `lost` record, an `alive`
 *              promise that is not kept, or mpirun's end without `done` is YK_LOST
 *   restarts   a lost job that left a checkpoint is started again, `restarts` times at most, and not if it was lost twice in a
 *              row without a new checkpoint: that fault repeats
 *   clean-up   whatever happens to whom, no process and no file stays: see mpirun_tidy.h
 *
 * THREADS: for the main thread of a process that has no other: it forks, mpirun dies with the thread that called, and signals are
 * taken by signalfd. While it runs INT, TERM and HUP are blocked (those that the process ignores are left alone); afterwards the
 * mask is as it was, no handler has been touched, and a signal that came too late for us is delivered as always.
 * LIMITS: Open MPI 4. Its ranks on another host find the program and the current folder under the same paths. */
#ifndef YK_LAUNCH_MPIRUN_H
#define YK_LAUNCH_MPIRUN_H

#include "base/file.h"
#include "base/log.h"
#include "launch/hosts.h"

#include <stdbool.h>
#include <stddef.h>

/* In `resume_argv`, stands for the folder of the run. */
#define YK_LAUNCH_FOLDER "{folder}"

struct yk_launch {
    const struct yk_hosts *hosts; /* a worker rank for each of its slots */
    size_t
        owners; /* ranks 0 .. owners - 1; the workers follow. 0: all-reduce, every rank is a worker */
    char *const *argv;        /* what a rank runs: yk_launch_program's path, arguments, NULL */
    char *const *resume_argv; /* what it runs after a restart; NULL if the job cannot be resumed */
    int restarts;             /* at most */
    double start_deadline;    /* seconds; 0: 30 */
    bool verbose;             /* show mpirun's own lines as they come */
    struct yk_log *log;       /* for what the parent itself has to say */
};

struct yk_launch_result {
    int code;                 /* yk_code or whatever `done` said */
    int signal;               /* the signal that ended the job: the user's, 0 if none */
    char *output;             /* for standard output; never NULL after YK_OK */
    char folder[YK_PATH_MAX]; /* of the run; "" if no record named one */
    int restarts;             /* made */
};

/* YK_OK: the job ran to a `done` record, or was ended at once by a second signal; see `out`. Otherwise `e` says why there is no
 * result, out->code is the returned code, and what mpirun said last has been shown. `out` is to be released either way. */
yk_code yk_launch_run(const struct yk_launch *l, struct yk_launch_result *out, struct yk_error *e);
void yk_launch_result_release(struct yk_launch_result *r);

/* This program's own absolute path, for argv[0]. */
yk_code yk_launch_program(char out[YK_PATH_MAX], struct yk_error *e);

/* For a rank, before MPI_Init; does nothing without a yoke parent. On a machine that is not the parent's it leaves a small process
 * that removes what Open MPI keeps there when its daemon has gone. */
void yk_launch_join(void);

#endif
