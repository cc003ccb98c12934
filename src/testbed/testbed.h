/* testbed.h - a cluster in a box: hosts n0, n1, ... on one machine, each with a network of its own,
 * for one command.
 *
 *     struct yk_testbed_options o;
 *     char *argv[] = {"mpirun", "-H", "n0,n1,n2", "hostname", NULL};
 *     if (yk_testbed_read(&o, "3", "1.8gbit", "n2:0.3", NULL, &e) == YK_OK &&
 *         yk_testbed_run(&o, argv, &status, &e) == YK_OK)
 *         ... `status` is the command's
 *
 * THREADS: for a process that has one thread, because it forks, changes namespaces and takes
 * signals while the command runs. */
#ifndef YK_TESTBED_TESTBED_H
#define YK_TESTBED_TESTBED_H

#include "base/error.h"

#include <stdint.h>

enum { YK_TESTBED_HOSTS = 64 }; /* at most */

struct yk_testbed_options {
    /* n0 to n<hosts - 1> */
    unsigned hosts;
    /* bits a second that a host's link carries, each way; 0: as fast as it goes */
    uint64_t rate[YK_TESTBED_HOSTS];
    /* cores that everything on a host may use together; 0: as many as there are */
    double cpu[YK_TESTBED_HOSTS];
};

/* The options as a user types them: "3", "1.8gbit", "n2:0.3,n1:0.5", "n2:100mbit". All but `hosts`
 * may be NULL. A mistake is YK_USAGE. */
yk_code yk_testbed_read(struct yk_testbed_options *o, const char *hosts, const char *bandwidth,
                        const char *slow, const char *slow_link, struct yk_error *e);

/* "198.18.0.3" for host 2. Returns `out`. */
const char *yk_testbed_address(unsigned host, char out[16]);

/* Makes the hosts, runs `argv` on n0 with this process's standard streams and folder, and removes
 * everything again. `status` becomes the command's exit status, 128 + n if signal n ended it;
 * as in a shell 127 if there is no such command and 126 if it cannot be run, and the result is
 * YK_USAGE then. While it runs, INT, QUIT, TERM and HUP are passed on to the command; ten seconds
 * after a TERM or HUP whatever is left is killed. Needs root. */
yk_code yk_testbed_run(const struct yk_testbed_options *o, char *const *argv, int *status,
                       struct yk_error *e);

#endif
