/* mpirun_tidy.h - no process and no file of a job stays behind: a run's scratch folder, its
 * processes, and a janitor for both if the parent is killed.
 *
 * Open MPI keeps session files and shared memory in files. mpirun removes them at its normal end,
 * but after a kill -9 they stay. So a run has one *scratch folder* for all of them,
 * /dev/shm/yoke-mpi.<pid>.<n>.<host> (below $TMPDIR or /tmp if /dev/shm is missing or small). Its
 * path is in the environment of every process of the run (YOKE_PARENT), by which they are found.
 *
 *     at the start     folders that no process holds are removed; the new one is made and held by
 *                      an flock, which dies with its holders
 *     while it runs    the *janitor*, a forked child, waits for the parent to end. If that happens
 *                      by kill -9, it does the work of yk_tidy_close. It has no stream of the
 *                      user's open, and no signal but KILL can stop it
 *     at the end       remaining processes are killed, the folder is removed, the janitor ends
 *
 * On another machine orted makes the folder (it makes any orte_tmpdir_base) but does not remove it.
 * The first rank there that can lock it leaves a janitor of its own, which waits for the end of
 * orted: yk_tidy_join. Hosts of a testbed share the folder with the parent, which holds it already.
 * LIMITS: a process is found by its environment in /proc, so only on this machine and only if it is
 * our user's. If parent and janitor are both killed with -9, the folder stays until the next start;
 * mpirun and with it the ranks end all the same.
 * THREADS: one caller. open() forks a child that goes on without exec, so call it before there are
 * threads. */
#ifndef YK_LAUNCH_MPIRUN_TIDY_H
#define YK_LAUNCH_MPIRUN_TIDY_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct yk_tidy {
    char folder[YK_PATH_MAX];
    int hold;      /* the folder, open and locked */
    int leash;     /* one end of a pipe; when its last copy closes, the janitor acts */
    pid_t janitor; /* our child */
};

/* Removes dead folders, makes a new one and starts the janitor. On failure there is nothing to
 * close. */
yk_code yk_tidy_open(struct yk_tidy *t, size_t ranks, struct yk_error *e);
/* Kills every process of the run on this machine, until none is left (at most 5 s). */
void yk_tidy_kill(const struct yk_tidy *t);
/* Empties the folder for another start of the same run. */
void yk_tidy_empty(const struct yk_tidy *t);
/* alive[r] for r < n: does rank r run on this machine? */
void yk_tidy_ranks(const struct yk_tidy *t, bool *alive, size_t n);
/* Kills the processes, removes the folder and ends the janitor. */
void yk_tidy_close(struct yk_tidy *t);

/* For a rank of a yoke parent, before MPI_Init: makes sure that the folder is removed on this
 * machine too. */
void yk_tidy_join(void);

#endif
