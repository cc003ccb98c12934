/* testbed.c - `yoke testbed`: runs a command on a cluster that exists only for it. */
#include "cmd/cmd.h"

#include "testbed/testbed.h"

#include <string.h>

/* "yoke: n2 is 198.18.0.3, 100 Mbit/s each way, 0.3 cores" */
static void describe(const struct yk_testbed_options *o)
{
    for (unsigned i = 0; i < o->hosts; i++) {
        char address[16];
        fprintf(stderr, "yoke: n%u is %s", i, yk_testbed_address(i, address));
        if (o->rate[i] > 0)
            fprintf(stderr, ", %g Mbit/s each way", (double)o->rate[i] / 1e6);
        if (o->cpu[i] > 0)
            fprintf(stderr, ", %g cores", o->cpu[i]);
        fputc('\n', stderr);
    }
}

static yk_code usage(struct yk_error *e)
{
    yk_hint(e, "for example: yoke testbed run --hosts 3 -- mpirun -H n0,n1,n2 hostname");
    return YK_USAGE;
}

struct testbed_options {
    char *hosts; /* a number, as text: elsewhere --hosts is a list */
    char *bandwidth;
    char *slow;
    char *slow_link;
    char *config;
    bool quiet;
    bool verbose;
};

#define AT(f) offsetof(struct testbed_options, f)
static const struct yk_opt TABLE[] = {
    {"hosts", .field = AT(hosts)},
    {"bandwidth", 0, YK_OPT_TEXT, AT(bandwidth), NULL, 0, 0, NULL, "RATE", 0,
     "bandwidth of every host's link: 1.8gbit, 100mbit (default: no limit)"},
    {"slow", 0, YK_OPT_TEXT, AT(slow), NULL, 0, 0, NULL, "HOST:X,...", 0,
     "give a host only this part of a core: n2:0.3"},
    {"slow-link", 0, YK_OPT_TEXT, AT(slow_link), NULL, 0, 0, NULL, "HOST:RATE,...", 0,
     "give a host a link of its own rate: n2:100mbit"},
    {"config", .field = AT(config)},
    {"quiet", .field = AT(quiet)},
    {"verbose", .field = AT(verbose)},
    {0},
};

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct testbed_options *o = call->values;
    const char *what = call->words > 0 ? call->word[0] : "";
    if (strcmp(what, "run") != 0) {
        yk_fail(e, YK_USAGE,
                what[0] == '\0' ? "'yoke testbed' needs the word run"
                                : "'yoke testbed %.40s' is unknown: run",
                what);
        return usage(e);
    }
    if (o->hosts == NULL) {
        yk_fail(e, YK_USAGE, "'yoke testbed run' needs --hosts N");
        return usage(e);
    }
    if (call->rest == NULL || call->rest[0] == NULL) {
        yk_fail(e, YK_USAGE, "'yoke testbed run' needs a command after --");
        return usage(e);
    }
    struct yk_testbed_options options;
    yk_code rc = yk_testbed_read(&options, o->hosts, o->bandwidth, o->slow, o->slow_link, e);
    if (rc != YK_OK)
        return rc;
    if (o->verbose)
        describe(&options);
    return yk_testbed_run(&options, call->rest, &call->status, e);
}

const struct verb verb_testbed = {
    .name = "testbed",
    .args = "run --hosts N [options] -- COMMAND [ARG]...",
    .summary = "run a command on a cluster in a box",
    .details = "Makes hosts n0, n1, ... on this machine, each with a network address of its\n"
               "own and a link to a common switch, runs COMMAND on n0, and removes everything\n"
               "again, whatever happens. COMMAND's exit code is yoke's. It runs as root, in\n"
               "the same folder and file system as without a testbed.\n"
               "\n"
               "Inside, 'mpirun -H n0,n1,n2' and 'yoke train --hosts n0,n1,n2' reach the\n"
               "hosts without ssh, 'ip netns exec n2 COMMAND' runs something in n2's network,\n"
               "and 'ip netns exec n2 ip link set eth0 down' cuts n2 off. Needs root.",
    .examples = "yoke testbed run --hosts 3 -- mpirun -H n0,n1,n2 hostname\n"
                "yoke testbed run --hosts 3 --bandwidth 1.8gbit -- \\\n"
                "    yoke train softmax --mode allreduce --hosts n0,n1,n2\n"
                "yoke testbed run --hosts 3 --slow n2:0.3 --slow-link n1:100mbit -- bash",
    .choices = "run",
    .most = 1,
    .takes_command = true,
    .options = TABLE,
    .values = sizeof(struct testbed_options),
    .run = run,
};
