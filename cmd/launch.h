/* launch.h - the parent's side of a job of several processes: from the options to a launch, and
 * from its result to this call's. */
#ifndef YK_CMD_LAUNCH_H
#define YK_CMD_LAUNCH_H

#include "cmd/cmd.h"

/* Where the processes of a verb whose ranks are all alike run. */
struct rank_options {
    int64_t workers;
    char *hosts;
    char *hostfile;
    bool quiet;
    bool verbose;
};

/* Does `yoke train` start a job on other hosts (--hosts, --hostfile, TF_CONFIG, or a resumed run
 * that had them)? Then it does, and *done is true. */
yk_code launch_training(struct call *call, bool *done, struct yk_error *e);

/* For verbs whose ranks are all alike: --hosts and the like name the hosts, else `here` processes
 * of this machine run. */
yk_code launch_ranks(struct call *call, const struct rank_options *o, int64_t here,
                     struct yk_error *e);
/* Are there hosts: --hosts, --hostfile or TF_CONFIG? */
bool hosts_given(const struct rank_options *o);

#endif
