/* resume.c - what a start of a run takes over from the starts before it.
 *
 * A resumed run takes its options from its own config.json; the command line may only change when
 * it stops, how often it looks and saves, and how it computes. The state comes from the newest
 * whole checkpoint (save.c). Nothing in the folder changes before that checkpoint has been
 * accepted.
 * THREADS: the thread that opens the session, in rank 0. */
#include "train/resume.h"

#include "train/save.h"
#include "train/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Refuses options of the command line that must stay those of the run. */
static yk_code check_resume(const struct yk_opts *given, struct yk_error *e)
{
    for (size_t i = 0; i < given->n; i++) {
        const struct yk_opt *t = &given->table[i];
        if (!given->given[i] || given->origin[i] < YK_CONFIG_FILE ||
            (t->flags & (YK_OPT_ON_RESUME | YK_OPT_TRANSIENT)))
            continue;
        yk_fail(e, YK_USAGE, "--%s cannot be changed when a run is resumed", t->name);
        yk_hint(e, "start a new run, or leave it out; stop rules, workers and where they run, "
                   "--mode, --eval-every, "
                   "--checkpoint-every, --keep, --threads and --isa may change");
        return YK_USAGE;
    }
    return YK_OK;
}

/* The model, the id and the options of the run. Hosts are left out if it goes on in threads now. */
static yk_code take_config(struct yk_session *s, json_t *config, struct yk_error *e)
{
    static const char *const HOSTS[] = {"hosts", "hostfile", "ps-hosts"};
    struct yk_resume *r = &s->resume;
    if (!s->job.joined)
        for (size_t i = 0; i < sizeof HOSTS / sizeof HOSTS[0]; i++)
            json_object_del(config, HOSTS[i]);
    const char *model = json_string_value(json_object_get(config, "model"));
    if (model == NULL || strlen(model) >= sizeof s->model_name)
        return yk_fail(e, YK_DATA, "'%s/config.json' names no model", s->run.dir);
    snprintf(s->model_name, sizeof s->model_name, "%s", model);
    const char *id = json_string_value(json_object_get(config, "run_id"));
    snprintf(r->run_id, sizeof r->run_id, "%s", id != NULL ? id : "");
    const json_t *first = json_object_get(config, "first_checkpoint");
    r->first_saved = json_is_integer(first) ? (long long)json_integer_value(first) : -1;
    return yk_opts_load(&s->opts, config, "config.json", YK_RESUMED,
                        yk_opts_any(&s->opts, YK_OPT_STOP, true) ? YK_OPT_STOP : 0, e);
}

yk_code yk_resume_load(struct yk_session *s, struct yk_error *e)
{
    json_t *config;
    yk_code rc = check_resume(&s->opts, e);
    if (rc == YK_OK)
        rc = yk_run_open(&s->run, s->o.resume, true, e);
    if (rc == YK_OK)
        rc = yk_run_load(&s->run, "config.json", &config, e);
    if (rc != YK_OK)
        return rc;
    rc = take_config(s, config, e);
    json_decref(config);
    json_t *summary = NULL;
    if (rc != YK_OK || yk_run_load(&s->run, "summary.json", &summary, NULL) != YK_OK)
        return rc;
    s->resume.old_summary = summary;
    const char *why = json_string_value(json_object_get(summary, "stop_reason"));
    /* A stop rule on this command line gives a complete run something to do again. */
    if (why != NULL && strcmp(why, "signal") != 0 && !yk_opts_any(&s->opts, YK_OPT_STOP, true) &&
        !s->o.dry_run)
        s->resume.start = YK_START_DONE;
    return YK_OK;
}

/* The id is random, so that a checkpoint of another run in this folder is noticed. Training does
 * not depend on it. */
yk_code yk_resume_draw_id(struct yk_session *s, struct yk_error *e)
{
    uint64_t id;
    if (s->resume.run_id[0] != '\0')
        return YK_OK;
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return yk_fail_errno(e, YK_FAILED, "cannot draw an id for the run");
    snprintf(s->resume.run_id, sizeof s->resume.run_id, "%016" PRIx64, id);
    return YK_OK;
}

/* A run that was killed before its first checkpoint starts over. A run that had written checkpoints
 * has lost them, and another start must not replace its history. */
static yk_code check_lost(const struct yk_session *s, struct yk_error *e)
{
    const json_t *ended = json_object_get(s->resume.old_summary, "global_steps");
    long long had = s->resume.first_saved;
    if (had < 0 && ended != NULL) /* an older yoke did not note the first */
        had = (long long)json_integer_value(ended);
    if (had < 0)
        return YK_OK;
    yk_fail(e, YK_DATA, "'%s' has lost its checkpoints: it had one of step %lld", s->run.dir, had);
    yk_hint(e, "bring '%.200s/checkpoints' back, or start a new run without --resume", s->run.dir);
    return YK_DATA;
}

/* The result of an earlier start is out of date once this one trains. */
static yk_code drop_summary(struct yk_session *s, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = yk_run_path(&s->run, "summary.json", path, e);
    if (rc == YK_OK && unlink(path) != 0 && errno != ENOENT)
        rc = yk_fail_errno(e, YK_FAILED, "cannot remove '%s'", path);
    return rc;
}

yk_code yk_resume_open(struct yk_session *s, bool *found, struct yk_error *e)
{
    yk_code rc = yk_saver_restore(s, found, e); /* log.txt names damaged checkpoints */
    if (rc == YK_OK && !*found)
        rc = check_lost(s, e);
    if (rc != YK_OK)
        return rc;
    if (*found && s->resume.first_saved < 0)
        s->resume.first_saved = (long long)s->now.step;
    if (s->resume.old_summary != NULL && s->now.step >= yk_session_end(s, NULL)) {
        yk_fail(e, YK_USAGE, "'%s' is at step %llu already, past the end that the stop rule sets",
                s->run.dir, (unsigned long long)s->now.step);
        yk_hint(e, "a larger --epochs or --steps makes it go on");
        return YK_USAGE;
    }
    return drop_summary(s, e);
}

bool yk_resume_replaces(const struct yk_session *s)
{
    struct yk_run run = {.lock = -1};
    json_t *config = NULL;
    const char *what = s->o.on_worker_loss;
    if (s->o.resume != NULL && !yk_opts_typed(&s->opts, "on-worker-loss") &&
        yk_run_open(&run, s->o.resume, false, NULL) == YK_OK &&
        yk_run_load(&run, "config.json", &config, NULL) == YK_OK)
        what = json_string_value(json_object_get(config, "on-worker-loss"));
    bool yes = what != NULL && strcmp(what, "replace") == 0;
    json_decref(config);
    return yes;
}
