/* api.c - the public functions of yoke.h, each a thin layer over the session or a trained model. */
#include "yoke.h"

#include "base/json.h"
#include "base/team.h"
#include "train/config.h"
#include "train/plan.h"
#include "train/report.h"
#include "train/save.h"
#include "train/session.h"
#include "train/trained.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct yk_error) == sizeof(yoke_error),
               "the public error is the internal one");

struct yoke_run {
    struct yk_session *session;
};

struct yoke_model {
    struct yk_trained trained;
};

static enum yoke_code give(yk_code rc, const struct yk_error *from, yoke_error *to)
{
    if (to != NULL) {
        memcpy(to, from, sizeof *to);
        to->code = (enum yoke_code)rc;
    }
    return (enum yoke_code)rc;
}

const char *yoke_version(void)
{
    return YK_VERSION;
}

yoke_config *yoke_config_new(void)
{
    yoke_config *c = calloc(1, sizeof *c);
    if (c != NULL &&
        yk_opts_init(&c->opts, yk_option_table, yk_option_count, &c->o, NULL) != YK_OK) {
        free(c);
        c = NULL;
    }
    return c;
}

enum yoke_code yoke_config_set(yoke_config *config, const char *name, const char *value,
                               yoke_error *error)
{
    struct yk_error e = {0};
    return give(yk_opts_set(&config->opts, name, value, YK_COMMAND_LINE, &e), &e, error);
}

void yoke_config_free(yoke_config *config)
{
    if (config == NULL)
        return;
    yk_opts_release(&config->opts);
    free(config);
}

yoke_run *yoke_open(const yoke_config *config, const char *model, yoke_error *error)
{
    struct yk_error e = {0};
    yoke_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        give(yk_fail_memory(&e, sizeof *run), &e, error);
        return NULL;
    }
    yk_code rc = yk_session_open(&run->session, &config->opts, model, &e);
    give(rc, &e, error);
    if (rc == YK_OK && config->restarts > 0) {
        run->session->incidents.restarts = config->restarts;
        if (run->session->job.mpi.rank == 0)
            yk_incident(
                run->session, YK_INFO,
                "restart %u, from step %llu: the previous start lost a process that it needed",
                config->restarts, (unsigned long long)run->session->now.step);
    }
    if (rc != YK_OK) {
        free(run);
        run = NULL;
    }
    return run;
}

enum yoke_code yoke_train(yoke_run *run, yoke_error *error)
{
    struct yk_session *s = run->session;
    struct yk_error e = {0};
    if (s->o.dry_run || s->resume.start == YK_START_DONE) {
        if (s->resume.start == YK_START_DONE && s->job.mpi.rank == 0)
            yk_log_line(s->log, YK_INFO, "'%s' is complete: nothing left to do", s->run.dir);
        return give(YK_OK, &e, error);
    }
    if (s->times.started > 0)
        return give(yk_fail(&e, YK_USAGE, "this run has been trained already"), &e, error);
    yk_code rc = yk_session_train(s, &e);
    if (rc == YK_OK && s->job.mpi.rank == 0)
        yk_log_line(
            s->log, YK_DEBUG,
            "stopped at step %llu (%s): train loss %.4f, test loss %.4f, test accuracy %.4f",
            (unsigned long long)s->now.step, yk_stop_name(s->stop), s->curve.train_loss,
            s->curve.test_loss, s->curve.test_accuracy);
    else if (rc != YK_OK)
        yk_log_line(s->log, YK_DEBUG, "failed after step %llu: %s", (unsigned long long)s->now.step,
                    e.text);
    if (rc == YK_OK && s->job.mpi.rank == 0) {
        json_t *summary = yk_session_summary(s);
        rc = yk_run_save(&s->run, "summary.json", summary, &e);
        json_decref(summary);
    }
    if (rc == YK_FAILED && e.hint[0] == '\0' && s->now.step > 0)
        yk_hint(&e, "once that is cured, 'yoke train --resume %.200s' continues", s->run.dir);
    if (rc == YK_LOST && e.hint[0] == '\0') /* only rank 0 knows the folder for sure */
        yk_hint(&e, "'yoke train --resume %.200s' goes on from the last checkpoint",
                s->run.dir[0] != '\0' ? s->run.dir
                : s->o.resume != NULL ? s->o.resume
                : s->o.run != NULL    ? s->o.run
                                      : "runs/latest");
    return give(rc, &e, error);
}

void yoke_stop(yoke_run *run)
{
    run->session->stop_signal = 1;
}

int yoke_was_stopped(const yoke_run *run)
{
    return run->session->stop == YK_STOP_SIGNAL;
}

char *yoke_summary(const yoke_run *run)
{
    const struct yk_session *s = run->session;
    if (s->job.mpi.rank != 0)
        return NULL;
    json_t *summary = s->o.dry_run ? yk_plan_json(s) : yk_session_summary(s);
    char *text = json_dumps(summary, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    json_decref(summary);
    return text;
}

char *yoke_report(const yoke_run *run)
{
    struct yk_buf text = {0};
    if (run->session->job.mpi.rank != 0)
        return NULL;
    if (run->session->o.dry_run)
        yk_plan_text(run->session, &text);
    else
        yk_report(run->session, &text);
    if (text.failed)
        yk_buf_release(&text);
    return text.data;
}

const char *yoke_folder(const yoke_run *run)
{
    return run->session->run.dir;
}

int yoke_rank(const yoke_run *run)
{
    return run->session->job.mpi.rank;
}

int yoke_ranks(const yoke_run *run)
{
    return run->session->job.mpi.size;
}

long long yoke_step(const yoke_run *run)
{
    return (long long)run->session->now.step;
}

long long yoke_saved(const yoke_run *run)
{
    return yk_saver_step(run->session);
}

void yoke_on_saved(yoke_run *run, void (*saved)(void *arg, long long step), void *arg)
{
    yk_saver_notify(run->session, saved, arg);
}

int yoke_close(yoke_run *run)
{
    if (run == NULL)
        return 0;
    bool gone = yk_session_close(run->session);
    free(run);
    return gone ? 0 : 1;
}

yoke_model *yoke_load(const char *run_or_file, yoke_error *error)
{
    struct yk_error e = {0};
    yoke_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        give(yk_fail_memory(&e, sizeof *model), &e, error);
        return NULL;
    }
    yk_code rc = yk_trained_open(&model->trained, run_or_file, yk_cpus(), "auto", NULL, NULL, &e);
    give(rc, &e, error);
    if (rc != YK_OK) {
        free(model);
        model = NULL;
    }
    return model;
}

void yoke_model_shape(const yoke_model *model, unsigned shape[3], unsigned *classes)
{
    for (int i = 0; i < 3; i++)
        shape[i] = model->trained.shape.shape[i];
    *classes = model->trained.shape.classes;
}

enum yoke_code yoke_predict(yoke_model *model, const unsigned char *pixels, size_t n, float *prob,
                            yoke_error *error)
{
    struct yk_error e = {0};
    struct yk_score score;
    struct yk_dataset set = model->trained.shape;
    if (n > UINT32_MAX)
        return give(yk_fail(&e, YK_USAGE, "%zu examples are too many for one call", n), &e, error);
    set.rows = (uint32_t)n;
    set.scale = 1.0f / 255;
    set.labels = calloc(n + 1, sizeof *set.labels);       /* unknown; their loss is not asked for */
    set.pixels = malloc(n * set.features + YK_ROW_SLACK); /* a copy: the model may repack it */
    if (set.labels == NULL || set.pixels == NULL) {
        yk_dataset_release(&set);
        return give(yk_fail_memory(&e, n * set.features), &e, error);
    }
    memcpy(set.pixels, pixels, n * set.features);
    yk_code rc = yk_trained_score(&model->trained, &set, 1024, &score, prob, &e);
    yk_dataset_release(&set);
    return give(rc, &e, error);
}

void yoke_model_free(yoke_model *model)
{
    if (model == NULL)
        return;
    yk_trained_close(&model->trained);
    free(model);
}
