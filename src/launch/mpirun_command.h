/* mpirun_command.h - the mpirun command that starts a run: its words and its environment.
 *
 * One application context for each stretch of ranks on one host, in rank order, because that is how
 * Open MPI numbers ranks: owners first, then workers in the order of their hosts. Settings go by
 * environment (OMPI_MCA_*), which holds for all contexts and reaches the daemons on other hosts,
 * and where a variable that the user has set simply stays.
 * THREADS: a struct yk_mpirun_command belongs to its caller. */
#ifndef YK_LAUNCH_MPIRUN_COMMAND_H
#define YK_LAUNCH_MPIRUN_COMMAND_H

#include "launch/mpirun.h"

struct yk_words { /* a NULL-terminated array of strings that grows */
    char **word;
    size_t n;
    bool failed; /* no memory; further calls do nothing */
};

struct yk_mpirun_command {
    struct yk_words argv, env;
};

/* `argv` is the command of each rank, `folder` the scratch folder, `restarts` the number of
 * restarts so far. */
yk_code yk_mpirun_command_build(struct yk_mpirun_command *c, const struct yk_launch *l,
                                char *const *argv, const char *folder, int restarts,
                                struct yk_error *e);
void yk_mpirun_command_release(struct yk_mpirun_command *c);

/* The host of a rank, owners first. */
const char *yk_launch_host(const struct yk_launch *l, size_t rank);

#endif
