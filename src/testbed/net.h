/* net.h - the inside of the box: the networks, the names, and the way from one host to another.
 * THREADS: for the box's first process alone. */
#ifndef YK_TESTBED_NET_H
#define YK_TESTBED_NET_H

#include "testbed/testbed.h"

#include <stdbool.h>

/* The program's path, or its name if it is on PATH; NULL if this machine has none. */
const char *yk_testbed_program(const char *name);

/* For a process with new network, mount, host name and process id namespaces: makes the switch, the
 * hosts and their links, and becomes n0. `cgroups` is the folder of the hosts' cgroups, "" if there
 * are none. */
yk_code yk_testbed_build(const struct yk_testbed_options *o, const char *cgroups,
                         struct yk_error *e);

/* For the process that becomes the command: joins n0's cgroup, and sets the environment by which
 * mpirun reaches the hosts. */
yk_code yk_testbed_enter(struct yk_error *e);

#endif
