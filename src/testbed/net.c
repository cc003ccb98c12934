/* net.c - see net.h.
 *
 *     n0 [eth0]---[n0]\
 *     n1 [eth0]---[n1]--[bridge] switch    every [eth0]---[nX] is a veth pair with a token bucket
 *     n2 [eth0]---[n2]/                    at both ends
 *
 * Each name is a network namespace under /run/netns, where `ip netns exec` looks for it; the port
 * of a host carries the host's name. A token bucket shapes only outgoing packets, so there is one
 * in the host and one in the switch: a real link is as narrow in both directions, as a parameter
 * server that all workers send to would notice.
 *
 * The box's own tmpfs on /run holds all that is written here:
 *     /run/netns/        the network namespaces
 *     /run/yoke/hosts    bound over /etc/hosts
 *     /run/yoke/on       the agent, `on HOST CMD...`
 *     /run/yoke/cgroup/  the hosts' cgroups, if any
 *     /run/yoke/tmp/     for Open MPI
 * LIMITS: hosts share the file systems, /dev/shm and the processors of this machine. Inside,
 * cgroups are not visible under /sys. */
#include "testbed/net.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/command.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOX "/run/yoke"
#define AGENT BOX "/on"
#define BATCH BOX "/batch"

/* seconds for one ip or tc; a machine with many network namespaces may be slow */
static const double PATIENCE = 30;

/* The environment of mpirun. The user's own settings stay, unless the testbed would not work with
 * them. */
static const struct {
    const char *name, *value;
    bool keep;
} ENVIRONMENT[] = {
    {"OMPI_MCA_plm_rsh_agent", AGENT, false},
    {"OMPI_MCA_plm_rsh_no_tree_spawn", "1", false},
    {"OMPI_MCA_btl", "tcp,self", false},
    {"OMPI_MCA_btl_tcp_if_include", "eth0", false},
    {"OMPI_MCA_oob_tcp_if_include", "eth0", false},
    /* process ids here are those of processes outside, too */
    {"OMPI_MCA_orte_tmpdir_base", BOX "/tmp", false},
    {"OMPI_ALLOW_RUN_AS_ROOT", "1", false},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", false},
    {"OMPI_MCA_btl_tcp_sndbuf", "4194304", true},
    {"OMPI_MCA_btl_tcp_rcvbuf", "4194304", true},
    /* else every host binds its first rank to core 0 */
    {"OMPI_MCA_hwloc_base_binding_policy", "none", true},
    {"OMPI_MCA_mpi_yield_when_idle", "1", true}, /* the hosts share cores, and cannot know */
};

static const char AGENT_TEXT[] =
    "# on HOST COMMAND...: runs COMMAND on a host of the testbed, the way ssh would\n"
    "host=$1\n"
    "shift\n"
    "[ -e \"/run/netns/$host\" ] || { echo \"the testbed has no host '$host'\" >&2; exit 255; }\n"
    "group=" BOX "/cgroup/$host/cgroup.procs\n"
    "[ ! -e \"$group\" ] || echo 0 >\"$group\" || exit 255\n"
    "cd \"${HOME:-/}\" 2>/dev/null || cd /\n"
    "exec \"$ip\" netns exec \"$host\" unshare --uts /bin/sh -c \\\n"
    "    'echo \"$0\" >/proc/sys/kernel/hostname; exec /bin/sh -c \"$*\"' \"$host\" \"$@\"\n";

const char *yk_testbed_program(const char *name)
{
    static const char *const PLACES[][3] = {{"ip", "/usr/sbin/ip", "/sbin/ip"},
                                            {"tc", "/usr/sbin/tc", "/sbin/tc"}};
    if (yk_command_found(name))
        return name;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 1; k < 3; k++)
            if (strcmp(PLACES[i][0], name) == 0 && access(PLACES[i][k], X_OK) == 0)
                return PLACES[i][k];
    return NULL;
}

static yk_code mount_(const char *what, const char *where, const char *type, unsigned long flags,
                      struct yk_error *e)
{
    const char *data = type != NULL && strcmp(type, "tmpfs") == 0 ? "mode=755" : NULL;
    return mount(what, where, type, flags, data) == 0
               ? YK_OK
               : yk_fail_errno(e, YK_FAILED, "cannot mount '%s' on '%s'", what, where);
}

static yk_code write_file(const char *path, const struct yk_buf *text, mode_t mode,
                          struct yk_error *e)
{
    if (text->failed)
        return yk_fail_memory(e, text->cap);
    yk_code rc = yk_file_write(path, text->data, text->len, e);
    if (rc == YK_OK && chmod(path, mode) != 0)
        rc = yk_fail_errno(e, YK_FAILED, "cannot make '%s' executable", path);
    return rc;
}

/* Runs the lines of `text` through `ip -batch` or `tc -batch`, in the network namespace of this
 * process. */
static yk_code batch(const char *program, const struct yk_buf *text, struct yk_error *e)
{
    yk_code rc = write_file(BATCH, text, 0600, e);
    const char *const argv[] = {yk_testbed_program(program), "-batch", BATCH, NULL};
    return rc == YK_OK ? yk_command_run(argv, "/", PATIENCE, e) : rc;
}

/* A line for tc. The bucket holds 2.33 ms of the wire, 512 KB at 1.8 Gbit/s, but at least one
 * packet of 64 KB as the kernel hands them down; 50 ms of the wire may queue before packets are
 * lost. */
static void add_bucket(struct yk_buf *text, const char *device, uint64_t rate)
{
    double burst = (double)rate / 8 * 524288 / 225e6;
    if (rate > 0)
        yk_buf_format(text, "qdisc add dev %s root tbf rate %llubit burst %.0f latency 50ms\n",
                      device, (unsigned long long)rate, burst > 65536 ? burst : 65536);
}

/* Gives the network namespace of this process a name for `ip netns`. */
static yk_code name_network(const char *name, struct yk_error *e)
{
    char path[64];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int fd = open(path, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0444);
    if (fd < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot make '%s'", path);
    close(fd);
    return mount_("/proc/self/ns/net", path, NULL, MS_BIND, e);
}

static yk_code enter_network(const char *name, struct yk_error *e)
{
    char path[64];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    yk_code rc = ok ? YK_OK : yk_fail_errno(e, YK_FAILED, "cannot enter the network of '%s'", name);
    if (fd >= 0)
        close(fd);
    return rc;
}

static yk_code make_host(const struct yk_testbed_options *o, unsigned host, struct yk_error *e)
{
    struct yk_buf links = {0}, buckets = {0};
    char name[16], address[16];
    snprintf(name, sizeof name, "n%u", host);
    if (unshare(CLONE_NEWNET) != 0)
        return yk_fail_errno(e, YK_FAILED, "cannot make a network namespace for '%s'", name);
    yk_code rc = name_network(name, e);
    yk_buf_format(&links,
                  "link set lo up\nlink add eth0 type veth peer name %s netns switch\naddr add "
                  "%s/15 dev eth0\nlink set eth0 up\n",
                  name, yk_testbed_address(host, address));
    add_bucket(&buckets, "eth0", o->rate[host]);
    if (rc == YK_OK)
        rc = batch("ip", &links, e);
    if (rc == YK_OK && o->rate[host] > 0)
        rc = batch("tc", &buckets, e);
    yk_buf_release(&links);
    yk_buf_release(&buckets);
    return rc;
}

/* The bridge is made before the hosts' links: a port with the number that eth0 has in its host (2)
 * would be taken for a device without a peer, whose carrier the kernel notices up to a second
 * late. */
static yk_code make_switch(struct yk_error *e)
{
    struct yk_buf links = {0};
    yk_buf_text(&links, "link set lo up\nlink add bridge type bridge\nlink set bridge up\n");
    yk_code rc = name_network("switch", e);
    if (rc == YK_OK)
        rc = batch("ip", &links, e);
    yk_buf_release(&links);
    return rc;
}

/* Plugs the hosts' links into the bridge. */
static yk_code plug_in(const struct yk_testbed_options *o, struct yk_error *e)
{
    struct yk_buf links = {0}, buckets = {0};
    for (unsigned i = 0; i < o->hosts; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        yk_buf_format(&links, "link set %s master bridge\nlink set %s up\n", name, name);
        add_bucket(&buckets, name, o->rate[i]);
    }
    yk_code rc = enter_network("switch", e);
    if (rc == YK_OK)
        rc = batch("ip", &links, e);
    if (rc == YK_OK && buckets.len > 0)
        rc = batch("tc", &buckets, e);
    yk_buf_release(&links);
    yk_buf_release(&buckets);
    return rc;
}

/* Waits until links are up. A link takes its first packet only when the kernel has seen the
 * carriers of both ends; a connection that is tried before would wait for a second. IFF_RUNNING
 * tells. */
static yk_code await_device(const char *network, const char *device, struct yk_error *e)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    yk_code rc = enter_network(network, e);
    if (rc != YK_OK)
        return rc;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot make a socket in '%s'", network);
    double end = yk_now() + PATIENCE;
    bool running = false, known = true;
    while (known && !running && yk_now() < end) {
        known = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
        running = known && (request.ifr_flags & IFF_RUNNING) != 0;
        if (!running)
            usleep(500);
    }
    close(fd);
    return running
               ? YK_OK
               : yk_fail(e, YK_FAILED, "the link '%s' of '%s' does not come up", device, network);
}

static yk_code await_links(const struct yk_testbed_options *o, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (unsigned i = 0; rc == YK_OK && i < o->hosts; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        rc = await_device("switch", name, e);
        if (rc == YK_OK)
            rc = await_device(name, "eth0", e);
    }
    return rc;
}

/* Folders that are private to the box. */
static yk_code make_mounts(const char *cgroups, struct yk_error *e)
{
    static const char *const FOLDERS[] = {"/run/netns", BOX, BOX "/tmp", BOX "/cgroup"};
    yk_code rc = mount_("none", "/", NULL, MS_REC | MS_PRIVATE, e);
    if (rc == YK_OK)
        rc = mount_("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, e);
    if (rc == YK_OK)
        rc = mount_("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, e);
    for (size_t i = 0; rc == YK_OK && i < sizeof FOLDERS / sizeof FOLDERS[0]; i++)
        if (mkdir(FOLDERS[i], 0755) != 0)
            rc = yk_fail_errno(e, YK_FAILED, "cannot make '%s'", FOLDERS[i]);
    if (rc == YK_OK && cgroups[0] != '\0')
        rc = mount_(cgroups, BOX "/cgroup", NULL, MS_BIND, e);
    return rc;
}

/* The names of the hosts, and the agent that reaches them. */
static yk_code make_files(const struct yk_testbed_options *o, struct yk_error *e)
{
    struct yk_buf hosts = {0}, agent = {0};
    yk_buf_text(&hosts, "127.0.0.1 localhost\n::1 localhost\n");
    for (unsigned i = 0; i < o->hosts; i++) {
        char address[16];
        yk_buf_format(&hosts, "%s n%u\n", yk_testbed_address(i, address), i);
    }
    yk_buf_format(&agent, "#!/bin/sh\nip='%s'\n", yk_testbed_program("ip"));
    yk_buf_text(&agent, AGENT_TEXT);
    yk_code rc = write_file(BOX "/hosts", &hosts, 0644, e);
    if (rc == YK_OK)
        rc = write_file(AGENT, &agent, 0755, e);
    if (rc == YK_OK)
        rc = mount_(BOX "/hosts", "/etc/hosts", NULL, MS_BIND, e);
    yk_buf_release(&hosts);
    yk_buf_release(&agent);
    return rc;
}

yk_code yk_testbed_build(const struct yk_testbed_options *o, const char *cgroups,
                         struct yk_error *e)
{
    yk_code rc = make_mounts(cgroups, e);
    if (rc == YK_OK)
        rc = make_files(o, e);
    if (rc == YK_OK)
        rc = make_switch(e);
    for (unsigned i = 0; rc == YK_OK && i < o->hosts; i++)
        rc = make_host(o, i, e);
    if (rc == YK_OK)
        rc = plug_in(o, e);
    if (rc == YK_OK)
        rc = await_links(o, e);
    if (rc == YK_OK)
        rc = enter_network("n0", e);
    if (rc == YK_OK && sethostname("n0", 2) != 0)
        rc = yk_fail_errno(e, YK_FAILED, "cannot set the host name");
    if (rc == YK_OK)
        /* it shows the network of the process that mounts it */
        rc = mount_("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, e);
    return rc;
}

yk_code yk_testbed_enter(struct yk_error *e)
{
    int fd = open(BOX "/cgroup/n0/cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return yk_fail_errno(e, YK_FAILED, "cannot join the cgroup of 'n0'");
    bool joined = fd < 0 || write(fd, "0", 1) == 1;
    yk_code rc = joined ? YK_OK : yk_fail_errno(e, YK_FAILED, "cannot join the cgroup of 'n0'");
    if (fd >= 0)
        close(fd);
    if (rc != YK_OK)
        return rc;
    for (size_t i = 0; i < sizeof ENVIRONMENT / sizeof ENVIRONMENT[0]; i++)
        if (setenv(ENVIRONMENT[i].name, ENVIRONMENT[i].value, !ENVIRONMENT[i].keep) != 0)
            return yk_fail_errno(e, YK_FAILED, "cannot set '%s'", ENVIRONMENT[i].name);
    return YK_OK;
}
