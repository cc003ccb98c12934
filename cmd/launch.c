/* launch.c - see launch.h. A resumed run has its hosts in its config.json, so that
 * `yoke train --resume RUN` needs nothing else. */
#include "cmd/launch.h"

#include "launch/mpirun.h"
#include "record/run.h"
#include "strategy/rule.h"
#include "train/options.h"
#include "train/plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESTARTS = 3 }; /* of --on-worker-loss restart, unless --restarts says otherwise */

static yk_code read_hosts(const struct yk_opts *opts, struct yk_hosts_ask ask,
                          struct yk_hosts *hosts, struct yk_error *e)
{
    ask.tf_config = getenv("TF_CONFIG");
    if (!yk_opts_typed(opts, "workers"))
        ask.workers = 0;
    ask.both_typed = yk_opts_typed(opts, "hosts") && yk_opts_typed(opts, "hostfile");
    return yk_hosts_read(hosts, &ask, e);
}

static void say_standing_by(const struct yk_hosts *hosts, bool quiet)
{
    if (!quiet)
        fprintf(stderr,
                "yoke: TF_CONFIG says this is %s, so there is nothing to do here: the chief, or "
                "worker 0, starts the job\n",
                hosts->task);
}

/* Runs the job to its end; its output and signal are this call's. */
static yk_code run_job(struct call *call, struct yk_launch *launch, bool quiet, struct yk_error *e)
{
    struct yk_launch_result result;
    launch->log = yk_log_open(quiet ? YK_WARN : YK_INFO);
    yk_code rc = yk_launch_run(launch, &result, e);
    if (rc == YK_OK) {
        fputs(result.output, stdout);
        call->signal = result.signal;
        rc = (yk_code)result.code;
        call->told = true; /* by rank 0, on standard error */
    }
    yk_launch_result_release(&result);
    yk_log_close(launch->log);
    return rc;
}

/* This call's command line with the program's own path, and room for `more` words. */
static char **copy_argv(const struct call *call, char *program, size_t more, struct yk_error *e)
{
    size_t n = (size_t)call->argc + more + 1;
    char **argv = calloc(n, sizeof *argv);
    if (argv == NULL) {
        yk_fail_memory(e, n * sizeof *argv);
        return NULL;
    }
    memcpy(argv, call->argv, (size_t)call->argc * sizeof *argv);
    argv[0] = program;
    return argv;
}

/* --- training --- */

/* Adds the options of the run that is resumed. A folder that is absent or not readable is reported
 * where the run is opened. */
static void add_resumed(struct yk_opts *opts, const struct yk_options *o)
{
    struct yk_run run = {.lock = -1};
    json_t *config;
    if (o->resume == NULL || yk_run_open(&run, o->resume, false, NULL) != YK_OK ||
        yk_run_load(&run, "config.json", &config, NULL) != YK_OK)
        return;
    bool moved = yk_opts_typed(opts, "workers") && !yk_opts_typed(opts, "hosts") &&
                 !yk_opts_typed(opts, "hostfile");
    if (moved) { /* new --workers without hosts are threads of this process */
        json_object_del(config, "hosts");
        json_object_del(config, "hostfile");
        json_object_del(config, "ps-hosts");
    }
    yk_opts_load(opts, config, "config.json", YK_RESUMED, YK_OPT_STOP, NULL);
    json_decref(config);
}

/* Starts the ranks: as many `owners`, and a worker for each slot of the hosts. */
static yk_code run_training(struct call *call, const struct yk_options *o,
                            const struct yk_hosts *hosts, size_t owners, struct yk_error *e)
{
    char program[YK_PATH_MAX], count[24], slots[24];
    char ps[] = "--ps", workers[] = "--workers";
    yk_code rc = yk_launch_program(program, e);
    if (rc != YK_OK)
        return rc;
    char **argv = copy_argv(call, program, 4, e);
    if (argv == NULL)
        return YK_FAILED;
    size_t words = (size_t)call->argc;
    if (o->ps == 0 && owners > 1) { /* --ps-hosts or TF_CONFIG name several hosts, --ps no number */
        snprintf(count, sizeof count, "%zu", owners);
        argv[words++] = ps;
        argv[words++] = count;
    }
    if (!yk_opts_typed(&call->opts, "workers")) { /* the hosts count, even if a yoke.ini differs */
        snprintf(slots, sizeof slots, "%zu", hosts->workers.n);
        argv[words++] = workers;
        argv[words] = slots;
    }
    char verb[] = "train", resume[] = "--resume", folder[] = YK_LAUNCH_FOLDER, json[] = "--json",
         quiet[] = "--quiet", verbose[] = "--verbose";
    char *again[8] = {program, verb, resume, folder};
    size_t n = 4;
    if (o->json)
        again[n++] = json;
    if (o->quiet || o->verbose)
        again[n++] = o->quiet ? quiet : verbose;
    bool restart = o->on_worker_loss != NULL && strcmp(o->on_worker_loss, "restart") == 0;
    struct yk_launch launch = {.hosts = hosts,
                               .owners = owners,
                               .argv = argv,
                               .resume_argv = again,
                               .restarts =
                                   o->restarts > 0 ? (int)o->restarts : (restart ? RESTARTS : 0),
                               .verbose = o->verbose};
    rc = run_job(call, &launch, o->quiet, e);
    free(argv);
    return rc;
}

/* Parameter servers of a launched job; 0 if its mode has none. */
static size_t owners_of(const struct yk_options *o, const struct yk_hosts *hosts)
{
    enum yk_mode mode = yk_plan_mode(o);
    if (mode == YK_MODE_local || mode == YK_MODE_allreduce)
        return 0;
    size_t named = hosts->owners.n > 0 ? hosts->owners.n : 1;
    return o->ps > 0 ? (size_t)o->ps : named;
}

yk_code launch_training(struct call *call, bool *done, struct yk_error *e)
{
    struct yk_hosts hosts = {0};
    struct yk_options o = {0};
    struct yk_opts opts;
    *done = false;
    yk_code rc = yk_opts_copy(&opts, &o, &call->opts, e);
    if (rc != YK_OK)
        return rc;
    add_resumed(&opts, &o);
    const struct yk_hosts_ask ask = {
        .hosts = o.hosts, .hostfile = o.hostfile, .ps_hosts = o.ps_hosts, .workers = o.workers};
    rc = read_hosts(&opts, ask, &hosts, e);
    if (rc == YK_OK && hosts.part != YK_HOSTS_NONE) {
        o.workers = (int64_t)hosts.workers.n;
        rc = yk_plan_check(&opts, e);
        *done = rc == YK_OK;
    }
    if (rc == YK_OK && hosts.part == YK_HOSTS_STAND_BY)
        say_standing_by(&hosts, o.quiet);
    else if (rc == YK_OK && hosts.part == YK_HOSTS_LAUNCH)
        rc = run_training(call, &o, &hosts, owners_of(&o, &hosts), e);
    yk_hosts_release(&hosts);
    yk_opts_release(&opts);
    return rc;
}

/* --- ranks that are all alike --- */

bool hosts_given(const struct rank_options *o)
{
    const char *tf_config = getenv("TF_CONFIG");
    return o->hosts != NULL || o->hostfile != NULL || (tf_config != NULL && tf_config[0] != '\0');
}

static yk_code start_ranks(struct call *call, const struct rank_options *o,
                           const struct yk_hosts *hosts, struct yk_error *e)
{
    char program[YK_PATH_MAX], verbose[] = "--verbose";
    yk_code rc = yk_launch_program(program, e);
    if (rc != YK_OK)
        return rc;
    char **argv = copy_argv(call, program, 1, e);
    if (argv == NULL)
        return YK_FAILED;
    /* Ranks cannot see the terminal, so they are asked to report for it. */
    if (isatty(STDERR_FILENO) && !o->quiet && !o->verbose) {
        memmove(argv + 3, argv + 2, ((size_t)call->argc - 2) * sizeof *argv);
        argv[2] = verbose; /* after the verb */
    }
    struct yk_launch launch = {.hosts = hosts, .argv = argv, .verbose = o->verbose};
    rc = run_job(call, &launch, o->quiet, e);
    free(argv);
    return rc;
}

yk_code launch_ranks(struct call *call, const struct rank_options *o, int64_t here,
                     struct yk_error *e)
{
    struct yk_hosts hosts = {0};
    char local[40];
    snprintf(local, sizeof local, "localhost:%lld", (long long)here);
    const struct yk_hosts_ask ask = {
        .hosts = hosts_given(o) ? o->hosts : local, .hostfile = o->hostfile, .workers = o->workers};
    yk_code rc = read_hosts(&call->opts, ask, &hosts, e);
    if (rc == YK_OK && hosts.part == YK_HOSTS_STAND_BY)
        say_standing_by(&hosts, o->quiet);
    else if (rc == YK_OK && hosts.part == YK_HOSTS_LAUNCH)
        rc = start_ranks(call, o, &hosts, e);
    yk_hosts_release(&hosts);
    return rc;
}
