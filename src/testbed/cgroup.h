/* cgroup.h - the CPU share of a testbed's hosts: one cgroup for each, gone when the testbed is,
 * however it ended.
 * THREADS: belongs to the thread that runs the testbed; the janitor is a process of its own. */
#ifndef YK_TESTBED_CGROUP_H
#define YK_TESTBED_CGROUP_H

#include "base/file.h"
#include "testbed/testbed.h"

#include <sys/types.h>

struct yk_cgroups {
    /* holds the folders n0, n1, ...; "" if no host is slow, and then there are no cgroups */
    char folder[YK_PATH_MAX];
    int lock;      /* `folder`, open and locked; -1: none */
    int alive;     /* the janitor waits until every copy of this is closed; -1: none */
    pid_t janitor; /* 0: none */
};

/* Removes the groups that killed testbeds left; then, if a host is to be slow, makes a cgroup for
 * every host. YK_FAILED says why that cannot be done here. */
yk_code yk_cgroups_open(struct yk_cgroups *g, const struct yk_testbed_options *o,
                        struct yk_error *e);

/* Waits until nothing runs in the groups any more, ten seconds at most, and removes them. */
void yk_cgroups_close(struct yk_cgroups *g);

#endif
