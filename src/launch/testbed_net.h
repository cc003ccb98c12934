/* testbed_net.h - what is inside the box: the networks, the names, and the way from one host to another.
 * THREADS: for the box's first process alone. */
#ifndef YK_LAUNCH_TESTBED_NET_H
#define YK_LAUNCH_TESTBED_NET_H

#include "launch/testbed.h"

#include <stdbool.h>

/* The program's path, or its name if it is on PATH; NULL if this machine has none. */
const char *yk_testbed_program(const char *name);

/* In a process whose network, mount, host name and process id namespaces are its own and new: make the switch, the hosts and their
 * links, and become n0. `cgroups` is the folder of the hosts' cgroups, "" if there are none. */
yk_code yk_testbed_build(const struct yk_testbed_options *o, const char *cgroups,
                         struct yk_error *e);

/* In the process that will be the command: join n0's cgroup, and set the environment by which mpirun reaches the hosts. */
yk_code yk_testbed_enter(struct yk_error *e);

#endif
