/* launch.c - the parent's side of a job on several hosts: from the options to a launch, and from its result to this call's.
 * A run that is resumed brings its hosts along, in its config.json, so that `yoke train --resume RUN` needs nothing else. */
#include "cmd/cmd.h"

#include "launch/mpirun.h"
#include "record/run.h"
#include "strategy/strategy.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RESTARTS = 3 }; /* of --on-worker-loss restart, unless --restarts says otherwise */

/* What the run that is resumed was started with. A folder that is not there, or not readable, is told by whoever opens it. */
static void recall(struct yk_opts *opts, const struct yk_options *o)
{
    struct yk_run run = {.lock = -1};
    json_t *config;
    if (o->resume == NULL || yk_run_open(&run, o->resume, false, NULL) != YK_OK ||
        yk_run_load(&run, "config.json", &config, NULL) != YK_OK)
        return;
    bool moved = yk_opts_typed(opts, "workers") && !yk_opts_typed(opts, "hosts") &&
                 !yk_opts_typed(opts, "hostfile");
    if (moved) { /* other workers, and no word on where: threads of this process */
        json_object_del(config, "hosts");
        json_object_del(config, "hostfile");
        json_object_del(config, "ps-hosts");
    }
    yk_opts_load(opts, config, "config.json", YK_RESUMED, YK_OPT_STOP, NULL);
    json_decref(config);
}

static yk_code read_hosts(const struct yk_opts *opts, const struct yk_options *o,
                          struct yk_hosts *hosts, struct yk_error *e)
{
    const struct yk_hosts_ask ask = {.hosts = o->hosts,
                                     .hostfile = o->hostfile,
                                     .ps_hosts = o->ps_hosts,
                                     .tf_config = getenv("TF_CONFIG"),
                                     .workers = yk_opts_typed(opts, "workers") ? o->workers : 0,
                                     .both_typed = yk_opts_typed(opts, "hosts") &&
                                                   yk_opts_typed(opts, "hostfile")};
    return yk_hosts_read(hosts, &ask, e);
}

static yk_code run_job(struct call *call, const struct yk_options *o, const struct yk_hosts *hosts,
                       size_t owners, bool train, struct yk_error *e)
{
    char program[YK_PATH_MAX];
    yk_code rc = yk_launch_program(program, e);
    if (rc != YK_OK)
        return rc;
    char **argv = calloc((size_t)call->argc + 5, sizeof *argv), ps[] = "--ps", count[24],
         workers[] = "--workers", slots[24];
    if (argv == NULL)
        return yk_fail_memory(e, ((size_t)call->argc + 5) * sizeof *argv);
    size_t words = (size_t)call->argc;
    memcpy(argv, call->argv, words * sizeof *argv);
    argv[0] = program;
    if (o->ps == 0 &&
        owners > 1) { /* --ps-hosts or TF_CONFIG name several, and nobody said how many */
        snprintf(count, sizeof count, "%zu", owners);
        argv[words++] = ps;
        argv[words++] = count;
    }
    if (train && !yk_opts_typed(&call->config->opts,
                                "workers")) { /* the hosts count, whatever a yoke.ini says */
        snprintf(slots, sizeof slots, "%zu", hosts->workers.n);
        argv[words++] = workers;
        argv[words] = slots;
    }
    char again_word[] = "train", resume[] = "--resume", folder[] = YK_LAUNCH_FOLDER,
         json[] = "--json", quiet[] = "--quiet", verbose[] = "--verbose";
    char *again[8] = {program, again_word, resume, folder};
    size_t n = 4;
    if (o->json)
        again[n++] = json;
    if (o->quiet || o->verbose)
        again[n++] = o->quiet ? quiet : verbose;
    bool restart = o->on_worker_loss != NULL && strcmp(o->on_worker_loss, "restart") == 0;
    struct yk_log *log = yk_log_open(o->quiet ? YK_WARN : YK_INFO);
    const struct yk_launch launch = {.hosts = hosts,
                                     .owners = owners,
                                     .argv = argv,
                                     .resume_argv = train ? again : NULL,
                                     .restarts = o->restarts > 0 ? (int)o->restarts
                                                 : restart       ? RESTARTS
                                                                 : 0,
                                     .verbose = o->verbose,
                                     .log = log};
    struct yk_launch_result result;
    rc = yk_launch_run(&launch, &result, e);
    if (rc == YK_OK) {
        fputs(result.output, stdout);
        call->signal = result.signal;
        rc = (yk_code)result.code;
        call->told = true; /* by rank 0, on standard error */
    }
    yk_launch_result_release(&result);
    yk_log_close(log);
    free(argv);
    return rc;
}

yk_code launch_job(struct call *call, bool train, bool *done, struct yk_error *e)
{
    struct yk_hosts hosts = {0};
    struct yk_options o = {0};
    struct yk_opts opts;
    *done = false;
    yk_code rc = yk_opts_copy(&opts, &o, &call->config->opts, e);
    if (rc != YK_OK)
        return rc;
    if (train)
        recall(&opts, &o);
    rc = read_hosts(&opts, &o, &hosts, e);
    if (rc == YK_OK && hosts.part != YK_HOSTS_NONE && train) {
        o.workers = (int64_t)hosts.workers.n;
        rc = yk_plan_check(&opts, e);
    }
    if (rc == YK_OK && hosts.part == YK_HOSTS_STAND_BY) {
        *done = true;
        if (!o.quiet)
            fprintf(
                stderr,
                "yoke: TF_CONFIG says this is %s; the job is started by its chief, or worker 0\n",
                hosts.task);
    } else if (rc == YK_OK && hosts.part == YK_HOSTS_LAUNCH) {
        enum yk_mode mode = hosts.workers.n > 1 ? YK_MODE_sync : YK_MODE_local;
        if (o.mode != NULL)
            yk_mode_find(o.mode, &mode);
        bool served = train && mode != YK_MODE_local && mode != YK_MODE_allreduce;
        *done = true;
        size_t named = hosts.owners.n > 0 ? hosts.owners.n : 1,
               owners = o.ps > 0 ? (size_t)o.ps : named;
        rc = run_job(call, &o, &hosts, served ? owners : 0, train, e);
    }
    yk_hosts_release(&hosts);
    yk_opts_release(&opts);
    return rc;
}

bool hosts_said(const struct yk_options *o)
{
    const char *tf_config = getenv("TF_CONFIG");
    return o->hosts != NULL || o->hostfile != NULL || (tf_config != NULL && tf_config[0] != '\0');
}

yk_code launch_ranks(struct call *call, int64_t here, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    char hosts[40], verbose[] = "--verbose";
    if (!hosts_said(o)) {
        snprintf(hosts, sizeof hosts, "localhost:%lld", (long long)here);
        yk_code rc = yk_opts_set(&call->config->opts, "hosts", hosts, YK_COMMAND_LINE, e);
        if (rc != YK_OK)
            return rc;
    }
    struct call ranks = *call;
    ranks.argv = calloc((size_t)call->argc + 2, sizeof *ranks.argv);
    if (ranks.argv == NULL)
        return yk_fail_memory(e, ((size_t)call->argc + 2) * sizeof *ranks.argv);
    bool show =
        isatty(STDERR_FILENO) && !o->quiet && !o->verbose; /* ranks cannot see the terminal */
    size_t n = 0;
    for (int i = 0; i < call->argc; i++) {
        ranks.argv[n++] = call->argv[i];
        if (i == 1 && show) /* after the verb */
            ranks.argv[n++] = verbose;
    }
    ranks.argc = (int)n;
    bool done;
    yk_code rc = launch_job(&ranks, false, &done, e);
    free(ranks.argv);
    call->signal = ranks.signal;
    call->told = ranks.told;
    return rc;
}
