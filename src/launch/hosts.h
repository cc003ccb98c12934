/* hosts.h - the machines that take part in a job, from options, a file or TF_CONFIG.
 *
 *     --hosts a,b:2,a   a worker slot for each name; `b:2` is two of them; names may repeat
 *     --hostfile FILE   'host slots=n', 'host:n' or 'host' a line, '#' comments
 *     TF_CONFIG         {"cluster":{"chief":["h:port"],"worker":[...],"ps":[...]},
 *                        "task":{"type":"worker","index":0}}
 *                       ports are ignored, and one task launches for all: the chief, or worker 0
 *                       if there is no chief
 *     --ps-hosts a,b    the hosts of the owners, in turn; otherwise the first worker's host
 *
 * The stronger source wins as a whole: --hosts, then --hostfile, then TF_CONFIG. Names end up on
 * mpirun's command line, in its comma lists and in commands for a remote shell, so they have
 * letters, digits, dots and hyphens only; Open MPI refuses everything else anyway, also IPv6
 * addresses.
 * THREADS: a struct yk_hosts belongs to its caller; nothing here is shared. */
#ifndef YK_LAUNCH_HOSTS_H
#define YK_LAUNCH_HOSTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_HOST_SLOTS_MAX = 1024, YK_HOST_MAX = 253 };

struct yk_host_list {
    char **name; /* (n) one string a slot, in order */
    size_t n;
};

/* The part of this process. */
enum yk_hosts_part {
    YK_HOSTS_NONE,     /* no host is named: one process, or a rank of a job */
    YK_HOSTS_LAUNCH,   /* start the job on `workers` and `owners` */
    YK_HOSTS_STAND_BY, /* another task of TF_CONFIG starts it: say so and exit 0 */
};

struct yk_hosts {
    enum yk_hosts_part part;
    struct yk_host_list workers; /* one entry a worker */
    struct yk_host_list owners;  /* where owners may live; empty: on the first worker's host */
    const char *source; /* "--hosts", "--hostfile" or "TF_CONFIG", for messages; NULL if NONE */
    char task[64];      /* TF_CONFIG's name for this process, "worker 1"; "" elsewhere */
};

/* The user's options; NULL or 0 for those that were left out. */
struct yk_hosts_ask {
    const char *hosts, *hostfile, *ps_hosts;
    const char *tf_config; /* the text of the environment variable */
    int64_t workers;       /* --workers, which must then be the number of slots */
    bool both_typed;       /* --hosts and --hostfile were both given for this call: YK_USAGE */
};

/* Fills `h`, which needs no release if this fails. YK_USAGE names the option, YK_DATA the file and
 * its line. */
yk_code yk_hosts_read(struct yk_hosts *h, const struct yk_hosts_ask *ask, struct yk_error *e);
void yk_hosts_release(struct yk_hosts *h); /* a zeroed struct is fine */

/* Is every rank on this machine? */
bool yk_hosts_local(const struct yk_hosts *h);
/* Does `name` mean the machine we are on: localhost, 127.*, or its own name? Looks nothing up. */
bool yk_host_is_local(const char *name);

/* Adds the hosts of a host file's text to a list. `what` names the file in messages. */
yk_code yk_hosts_file_text(struct yk_host_list *to, const char *text, size_t n, const char *what,
                           struct yk_error *e);

#endif
