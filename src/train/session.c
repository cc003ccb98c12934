/* session.c - opens a training run: options, plan, data, model, parameters, run folder, crew, in
 * this order. Everything is checked before the folder is made. Closing undoes it in reverse and
 * accepts a session that is only half open. Over MPI every rank opens one; the run's folder, its
 * checkpoints and its records belong to rank 0. */
#include "train/session.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/team.h"
#include "base/text.h"
#include "kernel/kernel.h"
#include "train/agree.h"
#include "train/loop.h"
#include "train/plan.h"
#include "train/recipe.h"
#include "train/save.h"
#include "train/session_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static yk_code unknown_model(const struct yk_session *s, struct yk_error *e)
{
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

/* Does the word name a net: one that comes with yoke, or a file? */
static bool names_net(const char *word)
{
    for (const struct yk_net_file *f = yk_net_files; f->name != NULL; f++)
        if (strcmp(f->name, word) == 0)
            return true;
    return strchr(word, '/') != NULL || strstr(word, ".net") != NULL || yk_exists(word);
}

static yk_code check_net_options(const struct yk_session *s, struct yk_error *e)
{
    static const char *const NET[] = {"engine", "label-smoothing", "init"};
    for (size_t i = 0; i < sizeof NET / sizeof NET[0]; i++)
        if (yk_opts_typed(&s->opts, NET[i]))
            return yk_fail(e, YK_USAGE, "--%s means nothing to %s: it is for nets", NET[i],
                           s->model_name);
    return YK_OK;
}

static yk_code find_model(struct yk_session *s, const char *word, struct yk_error *e)
{
    s->ops = s->o.net == NULL ? yk_model_find(s->model_name) : NULL;
    if (s->ops != NULL)
        return check_net_options(s, e);
    if (s->o.net != NULL || (word != NULL && names_net(word)))
        return yk_session_net_find(s, word, e);
    if (s->resume.start != YK_START_NEW) /* the run keeps the text; its file is not read again */
        return yk_fail(e, YK_DATA, "'%s/config.json' lacks the text of its net", s->o.resume);
    return unknown_model(s, e);
}

/* Values that depend on the machine become part of the run, so that a run resumed on another
 * machine has the same bits. */
static yk_code fix_machine(struct yk_session *s, struct yk_error *e)
{
    const struct yk_kernels *kernels;
    char text[16];
    yk_code rc = yk_kernels_pick(s->o.isa, &kernels, e);
    if (rc == YK_OK)
        rc = yk_opts_set(&s->opts, "isa", kernels->name, YK_COMMAND_LINE, e);
    if (rc == YK_OK && s->o.threads == 0 && s->job.mpi.size == 1) { /* else agree.c does it */
        unsigned each = yk_cpus() / (unsigned)s->o.workers;
        snprintf(text, sizeof text, "%u", each > 0 ? each : 1);
        rc = yk_opts_set(&s->opts, "threads", text, YK_FROM_MODEL, e);
    }
    s->threads = (unsigned)s->o.threads;
    return rc;
}

/* The cost guard: no step of a sparse model may move data of the size of the model, and no worker
 * may need memory of that size unless it owns the model. */
static yk_code check_cost(const struct yk_session *s, struct yk_error *e)
{
    char size[24];
    yk_size_text((uint64_t)s->state.params.count * sizeof(float), size);
    if (s->crew.recipe.optimizer->apply_keys == NULL) {
        yk_fail(e, YK_USAGE, "--optimizer %s would move all %zu weights, %s, at every step of %s",
                s->o.optimizer, s->state.params.weights, size, s->model_name);
        yk_hint(e, "sgd, momentum, adagrad and ftrl move only those that a batch touches");
        return YK_USAGE;
    }
    if (s->threads > 1 && !yk_sweep_fits(s)) {
        yk_fail(e, YK_USAGE,
                "a worker of %s computes with one thread, not %u, where there are several workers "
                "or shards",
                s->model_name, s->threads);
        yk_hint(e, "more --workers use more cores");
        return YK_USAGE;
    }
    if (s->threads > 1 && yk_recipe_slots(&s->crew.recipe) > s->crew.recipe.optimizer->slots) {
        yk_fail(e, YK_USAGE,
                "--threads %u does not work with %s: lazy updates need one ordered sequence of "
                "steps",
                s->threads, strcmp(s->o.optimizer, "momentum") == 0 ? "momentum" : "--l1 or --l2");
        yk_hint(e, "ftrl has both in its formula and works with threads");
        return YK_USAGE;
    }
    return YK_OK;
}

/* Of a dense model this process has all parameters; of a sparse one those that its owners own,
 * which may be none. */
static yk_code open_state(struct yk_session *s, struct yk_error *e)
{
    const struct yk_crew *c = &s->crew;
    struct yk_state *state = &s->state;
    size_t count = state->params.count;
    state->owned = count;
    if (c->recipe.sparse) {
        unsigned first = c->servers > 0 ? c->first_server : 0;
        state->owned_from = yk_owner_at(first, c->rule.owners, count);
        state->owned = yk_owner_at(first + c->servers, c->rule.owners, count) - state->owned_from;
    }
    if (state->owned == 0)
        return YK_OK;
    if (c->recipe.sparse && (state->params.flat = yk_floats(state->owned)) == NULL)
        return yk_fail_memory(e, state->owned * sizeof(float));
    for (unsigned i = 0; i < yk_recipe_slots(&c->recipe); i++)
        if ((state->slot[i] = yk_floats(state->owned)) == NULL)
            return yk_fail_memory(e, state->owned * sizeof(float));
    return YK_OK;
}

static yk_code check_owners(const struct yk_session *s, struct yk_error *e)
{
    size_t lines = (s->state.params.count + 15) / 16; /* cache lines that owners divide */
    if (s->crew.rule.owners <= lines)
        return YK_OK;
    yk_fail(e, YK_USAGE, "%u owners are too many for the %zu parameters of %s", s->crew.rule.owners,
            s->state.params.weights, s->model_name);
    yk_hint(e, "at most %zu: each owns at least 64 bytes, so that no two share a cache line",
            lines);
    return YK_USAGE;
}

static yk_code open_training(struct yk_session *s, struct yk_error *e)
{
    struct yk_recipe *recipe = &s->crew.recipe;
    yk_code rc = s->ops->open_net != NULL ? yk_session_net_open(s, e)
                                          : s->ops->open(&s->model, &s->input.train, e);
    if (rc == YK_OK)
        rc = s->ops->layout(s->model, &s->state.params, (uint64_t)s->o.seed, e);
    if (rc == YK_OK && recipe->sparse)
        rc = check_cost(s, e);
    if (rc == YK_OK)
        rc = yk_recipe_groups(recipe, &s->opts, s->ops, s->model_name, &s->state, e);
    if (rc == YK_OK)
        rc = check_owners(s, e);
    if (rc == YK_OK)
        rc = open_state(s, e);
    if (rc == YK_OK && s->input.train.rows > 0) /* with --data-local a server has none */
        rc = yk_source_init(&s->input.source, &s->input.train, (uint64_t)s->o.seed,
                            (uint32_t)s->o.shuffle_buffer, e);
    s->crew.rule.epochs = (uint64_t)s->o.epochs;
    s->crew.rule.last_step = rc == YK_OK ? yk_session_end(s, NULL) : 0;
    return rc;
}

yk_code yk_session_config(const struct yk_session *s, struct yk_error *e)
{
    json_t *config = yk_opts_json(&s->opts);
    json_object_set_new(config, "model", json_string(s->model_name));
    json_object_set_new(config, "version", json_string(YK_VERSION));
    json_object_set_new(config, "run_id", json_string(s->resume.run_id));
    if (s->resume.first_saved >= 0)
        json_object_set_new(config, "first_checkpoint", json_integer(s->resume.first_saved));
    yk_code rc = yk_run_keep(&s->run, "config.json", config, e);
    json_decref(config);
    return rc;
}

yk_code yk_session_ranks(struct yk_session *s, struct yk_error *e)
{
    const struct yk_rule *r = &s->crew.rule;
    bool processes = yk_job_has_peers(&s->job);
    unsigned owners = yk_plan_first_worker(r);
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

static yk_code open_log(struct yk_session *s, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = yk_run_path(&s->run, "log.txt", path, e);
    return rc == YK_OK ? yk_log_file(s->log, path, e) : rc;
}

/* From here on the folder exists. A resumed run changes nothing in it before its checkpoint has
 * been accepted. */
static yk_code open_run(struct yk_session *s, bool *found, struct yk_error *e)
{
    bool resumed = s->resume.start != YK_START_NEW;
    yk_code rc = resumed ? YK_OK
                         : yk_run_create(&s->run, s->o.run, s->model_name,
                                         yk_mode_name(s->crew.rule.mode), e);
    if (rc == YK_OK)
        rc = open_log(s, e);
    if (rc == YK_OK && resumed)
        rc = yk_resume_open(s, found, e);
    if (rc == YK_OK)
        rc = yk_resume_draw_id(s, e);
    if (rc == YK_OK)
        rc = yk_session_config(s, e);
    if (rc == YK_OK)
        rc = yk_session_ranks(s, e);
    if (rc != YK_OK)
        return rc;
    if (resumed)
        yk_log_line(s->log, YK_INFO,
                    *found ? "resuming '%s' at step %llu"
                           : "resuming '%s' from the start: it has no checkpoint yet (step %llu)",
                    s->run.dir, (unsigned long long)s->now.step);
    else
        yk_log_line(s->log, YK_DEBUG, "yoke %s trains %s on %s in '%s'", YK_VERSION, s->model_name,
                    s->o.data, s->run.dir);
    return YK_OK;
}

/* The model and the options of a start: from the command line, from the run that is resumed, or,
 * for a rank in the place of a lost one, from rank 0. */
static yk_code begin_options(struct yk_session *s, const char *model, struct yk_error *e)
{
    if (s->o.resume != NULL && model != NULL)
        return yk_fail(e, YK_USAGE, "--resume takes the model from the run, so leave out '%.40s'",
                       model);
    if (s->job.mpi.replacement)
        return yk_agree_config(s, YK_OK, e);
    if (s->o.resume != NULL) {
        yk_code rc = yk_options_check(&s->opts, e); /* as typed */
        s->resume.start = YK_START_RESUMED;
        if (rc == YK_OK && s->job.mpi.rank == 0)
            rc = yk_resume_load(s, e);
        return yk_agree_config(s, rc, e);
    }
    if (model == NULL)
        return yk_fail(e, YK_USAGE, "which model? for example: yoke train softmax");
    if (s->o.net != NULL) {
        yk_fail(e, YK_USAGE, "--net is where a run keeps the text of its net: it cannot be given");
        yk_hint(e, "yoke train FILE.net");
        return YK_USAGE;
    }
    snprintf(s->model_name, sizeof s->model_name, "%.*s", YK_NAME - 1, model);
    return YK_OK;
}

static yk_code open_options(struct yk_session *s, const char *model, struct yk_error *e)
{
    yk_code rc = begin_options(s, model, e);
    if (rc != YK_OK)
        return rc;
    rc = find_model(s, model, e);
    if (rc == YK_OK && s->ops->open_net != NULL)
        rc = yk_options_model(&s->opts, (const char *const *)s->net.setting, e);
    if (rc == YK_OK)
        rc = yk_options_model(&s->opts, s->ops->defaults, e);
    if (rc == YK_OK)
        rc = yk_options_check(&s->opts, e);
    if (rc == YK_USAGE && s->resume.start != YK_START_NEW) /* the fault is in the run's own file */
        rc = YK_DATA;
    return rc;
}

/* Everything that a rank does before it agrees with the others. */
static yk_code open_alone(struct yk_session *s, const char *model, struct yk_error *e)
{
    yk_code rc = open_options(s, model, e);
    if (rc != YK_OK || s->resume.start == YK_START_DONE)
        return rc;
    rc = yk_plan(s, e);
    if (rc == YK_OK)
        rc = yk_recipe_plan(&s->crew.recipe, &s->opts, s->ops, s->model_name, e);
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
    yk_code rc = yk_agree(s, open_alone(s, model, e), e);
    if (rc != YK_OK || s->resume.start == YK_START_DONE)
        return rc;
    rc = s->input.share != NULL ? YK_OK : yk_input_share(s, NULL, e);
    if (rc == YK_OK)
        rc = open_training(s, e);
    rc = yk_agree(s, rc, e);
    if (rc != YK_OK || s->o.dry_run)
        return rc;
    if (first)
        yk_input_log(s);
    if (first && yk_job_has_peers(&s->job) && !s->job.mpi.recovery)
        yk_log_line(s->log, YK_INFO,
                    "the loss of a rank will end this job: it was started without --mca "
                    "orte_enable_recovery 1");
    rc = yk_session_engine(s, e);
    if (rc == YK_OK && first)
        rc = open_run(s, &found, e);
    if (rc == YK_OK && found)
        s->crew.rule.last_step = yk_session_end(s, NULL); /* from where the checkpoint is */
    rc = yk_agree(s, rc, e);
    if (rc == YK_OK)
        rc = yk_watch_open(s, e);
    if (rc == YK_OK)
        rc = yk_crew_open(s, e);
    if (rc == YK_OK)
        rc = yk_session_prepare(s, e);
    if (rc == YK_OK && first)
        rc = yk_evaluator_open(s, found, e);
    if (rc == YK_OK && first)
        rc = yk_saver_open(s, found, e);
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
    s->resume.first_saved = -1;
    s->job.clean = true;
    s->job.mpi.size = 1;
    yk_code rc = yk_opts_copy(&s->opts, &s->o, opts, e);
    if (rc == YK_OK && (s->log = yk_log_open(s->o.quiet     ? YK_WARN
                                             : s->o.verbose ? YK_DEBUG
                                                            : YK_INFO)) == NULL)
        rc = yk_fail_memory(e, sizeof(void *));
    if (rc == YK_OK && yk_mpi_launched()) {
        rc = yk_mpi_join(&s->job.mpi, yk_resume_replaces(s), e);
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
    yk_crew_dismiss(s);
    bool gone = yk_crew_close(s);
    if (gone) { /* otherwise the engine may still use these buffers until the process ends */
        yk_watch_close(s);
        yk_source_release(&s->input.source);
        for (unsigned i = 0; i < YK_SLOTS; i++)
            yk_floats_free(s->state.slot[i]);
        free(s->state.span);
        yk_params_release(&s->state.params);
        yk_net_release(&s->net);
    }
    if (s->model != NULL)
        s->ops->close(s->model);
    yk_input_release(&s->input);
    json_decref(s->resume.old_summary);
    yk_run_close(&s->run);
    yk_log_close(s->log);
    yk_opts_release(&s->opts);
    free(s->job.host);
    free(s->job.pid);
    free(s);
    return gone;
}
