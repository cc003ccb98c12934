/* session.c - opens a training run: options, plan, data, model, parameters, run folder, crew, in this order, and everything is
 * checked before the folder is made. Closing undoes it in reverse and accepts a session that is only half open. Over MPI every rank
 * opens one; the run's folder, its checkpoints and its records are rank 0's.
 *
 * A resumed run takes its options from its own config.json; the command line may only change when it stops, how often it
 * looks and saves, and how it computes. */
#include "train/session.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/team.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Options of the command line that may not differ from the run's own. */
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

static yk_code load_run(struct yk_session *s, struct yk_error *e)
{
    json_t *config, *summary = NULL;
    yk_code rc = check_resume(&s->opts, e);
    if (rc == YK_OK)
        rc = yk_run_open(&s->run, s->o.resume, true, e);
    if (rc == YK_OK)
        rc = yk_run_load(&s->run, "config.json", &config, e);
    if (rc != YK_OK)
        return rc;
    s->resumed = true;
    for (const char *const *gone = (const char *const[]){"hosts", "hostfile", "ps-hosts", NULL};
         !s->job.joined && *gone != NULL; gone++)
        json_object_del(config,
                        *gone); /* it goes on in threads, now and when it is resumed again */
    const char *model = json_string_value(json_object_get(config, "model"));
    if (model == NULL || strlen(model) >= sizeof s->model_name)
        rc = yk_fail(e, YK_DATA, "'%s/config.json' names no model", s->run.dir);
    else
        snprintf(s->model_name, sizeof s->model_name, "%s", model);
    if (rc == YK_OK)
        rc = yk_opts_load(&s->opts, config, "config.json", YK_RESUMED,
                          yk_opts_any(&s->opts, YK_OPT_STOP, true) ? YK_OPT_STOP : 0, e);
    json_decref(config);
    if (rc != YK_OK || yk_run_load(&s->run, "summary.json", &summary, NULL) != YK_OK)
        return rc;
    s->old_summary = summary;
    const char *why = json_string_value(json_object_get(summary, "stop_reason"));
    /* A stop rule on this command line gives it something to do again. */
    s->already_done = why != NULL && strcmp(why, "signal") != 0 &&
                      !yk_opts_any(&s->opts, YK_OPT_STOP, true) && !s->o.dry_run;
    return YK_OK;
}

/* One of the models, or else a net: a name that comes with yoke, or a file. */
static yk_code find_model(struct yk_session *s, const char *word, struct yk_error *e)
{
    s->ops = s->o.net == NULL ? yk_model_find(s->model_name) : NULL;
    for (const char *const *o = (const char *const[]){"engine", "label-smoothing", "init", NULL};
         s->ops != NULL && *o != NULL; o++)
        if (yk_opts_typed(&s->opts, *o))
            return yk_fail(e, YK_USAGE, "--%s means nothing to %s: it is for nets", *o,
                           s->model_name);
    if (s->ops != NULL)
        return YK_OK;
    bool file = word != NULL &&
                (strchr(word, '/') != NULL || strstr(word, ".net") != NULL || yk_exists(word));
    bool known = false;
    for (const struct yk_net_file *f = yk_net_files; word != NULL && f->name != NULL; f++)
        known = known || strcmp(f->name, word) == 0;
    if (s->o.net != NULL || file || known)
        return yk_session_net_find(s, word, e);
    const char *names[64];
    size_t n = 0;
    for (; n < 64 && yk_model_at((unsigned)n) != NULL; n++)
        names[n] = yk_model_at((unsigned)n)->name;
    for (const struct yk_net_file *f = yk_net_files; n < 64 && f->name != NULL; f++)
        names[n++] = f->name;
    yk_fail(e, YK_USAGE, "unknown model '%.40s'", s->model_name);
    const char *near = yk_nearest(s->model_name, names, n, sizeof names[0]);
    if (near != NULL)
        yk_hint(e, "did you mean '%s'?", near);
    else
        yk_hint(e, "'yoke help train' lists the models");
    return YK_USAGE;
}

/* Values that depend on the machine become part of the run, so that resuming elsewhere gives the same bits. */
static yk_code fix_machine(struct yk_session *s, struct yk_error *e)
{
    const struct yk_kernels *kernels;
    char text[16];
    yk_code rc = yk_kernels_pick(s->o.isa, &kernels, e);
    if (rc == YK_OK)
        rc = yk_opts_set(&s->opts, "isa", kernels->name, YK_COMMAND_LINE, e);
    if (rc == YK_OK && s->o.threads == 0 &&
        s->job.mpi.size == 1) { /* ranks settle it when they meet */
        unsigned each = yk_cpus() / (unsigned)s->o.workers;
        snprintf(text, sizeof text, "%u", each > 0 ? each : 1);
        rc = yk_opts_set(&s->opts, "threads", text, YK_FROM_MODEL, e);
    }
    s->threads = (unsigned)s->o.threads;
    return rc;
}

/* The cost guard: nothing of the size of a sparse model may have to move at every step, or be made on a worker that does not own it. */
static yk_code check_cost(const struct yk_session *s, struct yk_error *e)
{
    char size[24];
    yk_size_text((uint64_t)s->params.count * sizeof(float), size);
    if (s->crew.recipe.optimizer->apply_keys == NULL) {
        yk_fail(e, YK_USAGE, "--optimizer %s would move all %zu weights, %s, at every step of %s",
                s->o.optimizer, s->params.weights, size, s->model_name);
        yk_hint(e, "sgd, momentum, adagrad and ftrl move only those that a batch touches");
        return YK_USAGE;
    }
    if (s->threads > 1 && !yk_session_sweeps(s)) {
        yk_fail(e, YK_USAGE,
                "a worker of %s computes with one thread, not %u, where there are several workers "
                "or shards",
                s->model_name, s->threads);
        yk_hint(e, "more --workers use more cores");
        return YK_USAGE;
    }
    if (s->threads > 1 && yk_recipe_slots(&s->crew.recipe) > s->crew.recipe.optimizer->slots) {
        yk_fail(e, YK_USAGE,
                "--threads %u cannot be had with %s: what untouched weights are owed is told by "
                "the order of steps",
                s->threads, strcmp(s->o.optimizer, "momentum") == 0 ? "momentum" : "--l1 or --l2");
        yk_hint(e, "ftrl has both in its formula, and takes threads");
        return YK_USAGE;
    }
    return YK_OK;
}

static yk_code open_training(struct yk_session *s, struct yk_error *e)
{
    struct yk_recipe *recipe = &s->crew.recipe;
    yk_code rc = s->ops->open_net != NULL ? yk_session_net_open(s, e)
                                          : s->ops->open(&s->model, &s->train, e);
    if (rc == YK_OK)
        rc = s->ops->layout(s->model, &s->params, (uint64_t)s->o.seed, e);
    if (rc == YK_OK && recipe->sparse)
        rc = check_cost(s, e);
    if (rc == YK_OK)
        rc = yk_session_groups(s, e);
    size_t lines = (s->params.count + 15) / 16; /* what owners divide among them */
    if (rc == YK_OK && s->crew.rule.owners > lines) {
        rc = yk_fail(e, YK_USAGE, "%u owners are too many for the %zu parameters of %s",
                     s->crew.rule.owners, s->params.weights, s->model_name);
        yk_hint(e, "at most %zu: each owns at least 64 bytes, so that no two share a cache line",
                lines);
    }
    /* Of a sparse model this process has what its owners own, which may be nothing; a dense one is everybody's. */
    size_t lo = 0, owned = s->params.count;
    if (rc == YK_OK && recipe->sparse) {
        lo = s->crew.servers > 0
                 ? yk_owner_at(s->crew.first_server, s->crew.rule.owners, s->params.count)
                 : 0;
        owned = s->crew.servers > 0 ? yk_owner_at(s->crew.first_server + s->crew.servers,
                                                  s->crew.rule.owners, s->params.count) -
                                          lo
                                    : 0;
        if (owned > 0 && (s->params.flat = yk_floats(owned)) == NULL)
            rc = yk_fail_memory(e, owned * sizeof(float));
    }
    s->owned_from = lo;
    s->owned = owned;
    for (unsigned i = 0; rc == YK_OK && owned > 0 && i < yk_recipe_slots(recipe); i++)
        if ((s->slot[i] = yk_floats(owned)) == NULL)
            rc = yk_fail_memory(e, owned * sizeof(float));
    if (rc == YK_OK && s->train.rows > 0) /* an owner needs none where hosts have their own */
        rc = yk_source_init(&s->source, &s->train, (uint64_t)s->o.seed,
                            (uint32_t)s->o.shuffle_buffer, e);
    s->crew.rule.epochs = (uint64_t)s->o.epochs;
    s->crew.rule.last_step = rc == YK_OK ? yk_session_end(s, NULL) : 0;
    return rc;
}

static yk_code save_config(struct yk_session *s, struct yk_error *e)
{
    json_t *config = yk_opts_json(&s->opts, YK_VERB(train));
    json_object_set_new(config, "model", json_string(s->model_name));
    json_object_set_new(config, "version", json_string(YK_VERSION));
    yk_code rc = yk_run_save(&s->run, "config.json", config, e);
    json_decref(config);
    return rc;
}

/* What an earlier start left as its result holds no longer, once this one trains. */
static yk_code drop_summary(struct yk_session *s, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = yk_run_path(&s->run, "summary.json", path, e);
    if (rc == YK_OK && unlink(path) != 0 && errno != ENOENT)
        rc = yk_fail_errno(e, YK_FAILED, "cannot remove '%s'", path);
    return rc;
}

yk_code yk_session_ranks(struct yk_session *s, struct yk_error *e)
{
    const struct yk_rule *r = &s->crew.rule;
    bool together = r->mode == YK_MODE_allreduce || r->mode == YK_MODE_local,
         processes = s->job.joined && s->job.mpi.size > 1;
    unsigned owners = together ? 0 : r->owners;
    struct yk_rank *rank = calloc(owners + r->workers, sizeof *rank);
    if (rank == NULL)
        return yk_fail_memory(e, (owners + r->workers) * sizeof *rank);
    for (unsigned i = 0; i < owners + r->workers; i++) {
        rank[i] = (struct yk_rank){.role = i < owners ? "ps" : "worker", .pid = (int)getpid()};
        if (processes) {
            snprintf(rank[i].host, sizeof rank[i].host, "%s", s->job.host[i]);
            rank[i].pid = s->job.pid[i];
        } else {
            gethostname(rank[i].host, sizeof rank[i].host - 1);
        }
    }
    yk_code rc = yk_run_save_ranks(&s->run, rank, owners + r->workers, e);
    free(rank);
    return rc;
}

/* The folder exists from here on. A resumed run changes nothing in it before its checkpoint has been accepted. */
static yk_code open_run(struct yk_session *s, bool *found, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = s->resumed ? YK_OK
                            : yk_run_create(&s->run, s->o.run, s->model_name,
                                            yk_mode_name(s->crew.rule.mode), e);
    if (rc == YK_OK)
        rc = yk_run_path(&s->run, "log.txt", path, e);
    if (rc == YK_OK)
        rc = yk_log_file(s->log, path, e);
    if (rc == YK_OK && s->resumed)
        rc = yk_saver_restore(s, found, e); /* a damaged checkpoint is told to log.txt too */
    if (rc == YK_OK && s->old_summary != NULL && s->now.step >= yk_session_end(s, NULL)) {
        rc = yk_fail(e, YK_USAGE, "'%s' is at step %llu already, past what the stop rule asks",
                     s->run.dir, (unsigned long long)s->now.step);
        yk_hint(e, "a larger --epochs or --steps makes it go on");
    }
    if (rc == YK_OK && s->resumed)
        rc = drop_summary(s, e);
    if (rc == YK_OK)
        rc = save_config(s, e);
    if (rc == YK_OK)
        rc = yk_session_ranks(s, e);
    if (rc != YK_OK)
        return rc;
    if (s->resumed)
        yk_log_line(s->log, YK_INFO,
                    *found ? "resuming '%s' at step %llu"
                           : "resuming '%s' from the start: it has no checkpoint yet (step %llu)",
                    s->run.dir, (unsigned long long)s->now.step);
    else
        yk_log_line(s->log, YK_DEBUG, "yoke %s trains %s on %s in '%s'", YK_VERSION, s->model_name,
                    s->o.data, s->run.dir);
    return YK_OK;
}

/* What the run writes about itself. The curves of the whole run are with owner 0; several workers have a folder each besides. */
static yk_code open_records(struct yk_session *s, bool found, struct yk_error *e)
{
    const struct yk_rule *r = &s->crew.rule;
    bool served = r->mode != YK_MODE_local && r->mode != YK_MODE_allreduce;
    yk_code rc =
        yk_metrics_open(&s->metrics, &s->run, served ? "ps-0" : "worker-0", s->now.step, e);
    if (rc == YK_OK && s->resumed)
        yk_events_restart(yk_metrics_events(s->metrics), s->now.step + 1);
    if (rc == YK_OK && !found)
        s->ops->graph(s->model, yk_metrics_events(s->metrics));
    if (rc == YK_OK && (served || r->workers > 1)) {
        s->worker_events = calloc(r->workers, sizeof(struct yk_events *));
        if (s->worker_events == NULL)
            return yk_fail_memory(e, r->workers * sizeof(struct yk_events *));
    }
    for (unsigned w = 0; rc == YK_OK && s->worker_events != NULL && w < r->workers; w++) {
        char folder[YK_PATH_MAX];
        if (!served && w == 0) { /* its folder is owner 0's */
            s->worker_events[0] = yk_metrics_events(s->metrics);
            continue;
        }
        rc = yk_path(folder, e, "%s/events/worker-%u", s->run.dir, w);
        if (rc == YK_OK)
            rc = yk_events_open(&s->worker_events[w], folder, e);
        if (rc == YK_OK && s->resumed)
            yk_events_restart(s->worker_events[w], s->now.step + 1);
    }
    if (rc == YK_OK)
        rc = yk_evaluator_open(s, e);
    if (rc == YK_OK)
        rc = yk_saver_open(s, e);
    return rc;
}

/* Options, from what was typed, from the run that is resumed, and from the model. */
static yk_code open_options(struct yk_session *s, const char *model, struct yk_error *e)
{
    yk_code rc = YK_OK;
    if (s->o.resume != NULL && model != NULL)
        return yk_fail(e, YK_USAGE, "--resume takes the model from the run, so leave out '%.40s'",
                       model);
    if (s->o.resume == NULL && model == NULL)
        return yk_fail(e, YK_USAGE, "which model? for example: yoke train softmax");
    if (s->o.resume != NULL) {
        rc = yk_options_check(&s->opts, YK_VERB(train),
                              e); /* what was typed, before what the run adds to it */
        if (rc == YK_OK && s->job.mpi.rank == 0)
            rc = load_run(s, e);
        s->resumed = true;
        rc = yk_meet_config(s, rc, e);
        if (rc != YK_OK)
            return rc;
    } else if (s->o.net != NULL &&
               !s->job.mpi.replacement) { /* which gets it like any other option */
        yk_fail(e, YK_USAGE, "--net is where a run keeps the text of its net: it cannot be given");
        yk_hint(e, "yoke train FILE.net");
        return YK_USAGE;
    } else {
        snprintf(s->model_name, sizeof s->model_name, "%.*s", YK_NAME - 1, model);
    }
    rc = find_model(s, model, e);
    if (rc == YK_OK && s->ops->open_net != NULL)
        rc = yk_options_model(&s->opts, (const char *const *)s->net.setting, e);
    if (rc == YK_OK)
        rc = yk_options_model(&s->opts, s->ops->defaults, e);
    if (rc == YK_OK)
        rc = yk_options_check(&s->opts, YK_VERB(train), e);
    if (rc == YK_USAGE &&
        s->resumed) /* what does not fit stands in the run's own file, not on the command line */
        rc = YK_DATA;
    return rc;
}

/* All that a rank does by itself before it meets the others. */
static yk_code open_alone(struct yk_session *s, const char *model, struct yk_error *e)
{
    yk_code rc = open_options(s, model, e);
    if (rc != YK_OK || s->already_done)
        return rc;
    rc = yk_plan(s, e);
    if (rc == YK_OK)
        rc = yk_session_recipe(s, e);
    if (rc == YK_OK)
        rc = fix_machine(s, e);
    if (rc == YK_OK) {
        yk_crew_place(s);
        rc = yk_input_open(s, e);
    }
    return rc;
}

static yk_code open_session(struct yk_session *s, const char *model, struct yk_error *e)
{
    bool found = false, first = s->job.mpi.rank == 0;
    yk_code rc = yk_meet(s, open_alone(s, model, e), e);
    if (rc != YK_OK || s->already_done)
        return rc;
    rc = s->share != NULL ? YK_OK : yk_input_share(s, NULL, e);
    if (rc == YK_OK)
        rc = open_training(s, e);
    rc = yk_meet(s, rc, e);
    if (rc != YK_OK || s->o.dry_run)
        return rc;
    if (first)
        yk_input_say(s);
    if (first && s->job.joined && s->job.mpi.size > 1 && !s->job.mpi.recovery)
        yk_log_line(s->log, YK_INFO,
                    "the loss of a rank will end this job: it was started without --mca "
                    "orte_enable_recovery 1");
    rc = yk_session_engine(s, e);
    if (rc == YK_OK && first)
        rc = open_run(s, &found, e);
    if (rc == YK_OK && found)
        s->crew.rule.last_step = yk_session_end(s, NULL); /* from where the checkpoint is */
    rc = yk_meet(s, rc, e);
    if (rc == YK_OK)
        rc = yk_crew_open(s, e);
    if (rc == YK_OK)
        rc = yk_session_prepare(s, e);
    if (rc == YK_OK && first)
        rc = open_records(s, found, e);
    return rc;
}

yk_code yk_session_open(struct yk_session **out, const struct yk_opts *opts, const char *model,
                        struct yk_error *e)
{
    double opened = yk_now();
    struct yk_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return yk_fail_memory(e, sizeof *s);
    s->times.opened = opened;
    s->run.lock = -1;
    atomic_store(&s->saved_step, -1);
    s->job.clean = true;
    s->job.mpi.size = 1;
    yk_code rc = yk_opts_copy(&s->opts, &s->o, opts, e);
    if (rc == YK_OK && (s->log = yk_log_open(s->o.quiet     ? YK_WARN
                                             : s->o.verbose ? YK_DEBUG
                                                            : YK_INFO)) == NULL)
        rc = yk_fail_memory(e, sizeof(void *));
    if (rc == YK_OK && yk_mpi_launched()) {
        rc = yk_mpi_join(&s->job.mpi, e);
        s->job.joined = rc == YK_OK;
    }
    if (rc == YK_OK)
        rc = open_session(s, model, e);
    if (rc != YK_OK) {
        yk_session_close(s);
        return rc;
    }
    *out = s;
    return YK_OK;
}

bool yk_session_close(struct yk_session *s)
{
    if (s == NULL)
        return true;
    yk_saver_close(s);
    yk_evaluator_close(s);
    for (unsigned w = 0; s->worker_events != NULL && w < s->crew.rule.workers; w++)
        if (s->worker_events[w] != yk_metrics_events(s->metrics))
            yk_events_close(s->worker_events[w], NULL);
    free(s->worker_events);
    yk_metrics_close(s->metrics, NULL);
    yk_crew_dismiss(s);
    bool gone = yk_crew_close(s);
    if (gone) { /* otherwise the engine may still use the buffers of this process, which has to end with them */
        yk_source_release(&s->source);
        for (unsigned i = 0; i < YK_SLOTS; i++)
            yk_floats_free(s->slot[i]);
        free(s->span);
        yk_params_release(&s->params);
        yk_net_release(&s->net);
    }
    if (s->model != NULL)
        s->ops->close(s->model);
    yk_dataset_release(&s->train);
    yk_dataset_release(&s->test);
    json_decref(s->old_summary);
    yk_run_close(&s->run);
    yk_log_close(s->log);
    yk_opts_release(&s->opts);
    free(s->job.host);
    free(s->job.pid);
    free(s->share);
    free(s->share_of);
    free(s);
    return gone;
}

void yk_session_plan(const struct yk_session *s, struct yk_buf *out)
{
    char size[24];
    uint64_t trained = s->crew.rule.rows,
             bytes = (trained + s->test.rows) * (s->train.features + 1ull);
    const struct yk_rows *rows = s->train.sparse;
    yk_buf_format(out, "model     %s, %zu parameters\n", s->model_name, s->params.weights);
    if (rows != NULL)
        yk_buf_format(out,
                      "data      %s: %llu training and %u test rows, %.1f non-zeros each, %u "
                      "features, %s mapped\n",
                      s->o.data, (unsigned long long)trained, s->test.rows,
                      (double)rows->entries / (double)rows->rows, s->train.features,
                      yk_size_text(rows->entries * 8 + rows->rows * 5, size));
    else
        yk_buf_format(out,
                      "data      %s: %llu training and %u test examples of %ux%ux%u, %u classes, "
                      "%s in memory\n",
                      s->o.data, (unsigned long long)trained, s->test.rows, s->train.shape[0],
                      s->train.shape[1], s->train.shape[2], s->train.classes,
                      yk_size_text(bytes, size));
    uint32_t batch = yk_session_batch(s);
    yk_buf_format(out, "steps     of %u examples, %llu an epoch, seed %lld\n", batch,
                  (unsigned long long)((trained + batch - 1) / batch), (long long)s->o.seed);
    yk_plan_text(s, out);
    yk_buf_format(out, "optimizer %s, rate %g, schedule %s\n", s->o.optimizer, s->o.lr,
                  s->o.schedule);
    yk_buf_format(out, "compute   %s kernels, %u thread%s a worker\n", s->o.isa, s->threads,
                  s->threads == 1 ? "" : "s");
    yk_buf_text(out, "stops    ");
    if (s->o.steps > 0)
        yk_buf_format(out, " after %lld steps", (long long)s->o.steps);
    if (s->o.epochs > 0)
        yk_buf_format(out, " after %lld epochs", (long long)s->o.epochs);
    if (s->o.target_loss > 0)
        yk_buf_format(out, " at test loss %g", s->o.target_loss);
    if (s->o.target_accuracy > 0)
        yk_buf_format(out, " at test accuracy %g", s->o.target_accuracy);
    if (s->o.max_seconds > 0)
        yk_buf_format(out, " after %g s", s->o.max_seconds);
    yk_buf_text(out, "\n");
}

json_t *yk_session_plan_json(const struct yk_session *s)
{
    json_t *plan = yk_opts_json(&s->opts, YK_VERB(train));
    json_object_set_new(plan, "model", json_string(s->model_name));
    json_object_set_new(plan, "dry_run", json_true());
    json_object_set_new(plan, "parameters", json_integer((json_int_t)s->params.weights));
    json_object_set_new(plan, "train_examples", json_integer((json_int_t)s->crew.rule.rows));
    json_object_set_new(plan, "test_examples", json_integer(s->test.rows));
    return plan;
}
