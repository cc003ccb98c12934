/* evaluate.c - evaluates snapshots of the parameters while training goes on.
 *
 * At a check the training thread copies the parameters (31 kB for MNIST), hands the copy to the evaluator's lane and trains on.
 * The lane scores the whole test set, writes metrics and events, and leaves its result to be collected: when the loop next looks
 * round, or when the next check is due. So every check happens, at exactly its step, whatever the timing; and if one reaches
 * the target, the run ends with *that snapshot*, and the steps done meanwhile are discarded. Without a free core the same
 * function runs inline and its time is kept apart from training. */
#include "base/clock.h"
#include "base/team.h"
#include "train/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EVAL_BATCH = 1024 };

void yk_evaluate(const struct yk_model_ops *ops, struct yk_work *work, const struct yk_params *params,
                 const struct yk_dataset *set, const uint32_t *rows, struct yk_score *score, float *prob)
{
    *score = (struct yk_score){0};
    for (uint32_t at = 0; at < set->rows; at += EVAL_BATCH) {
        uint32_t n = set->rows - at < EVAL_BATCH ? set->rows - at : EVAL_BATCH;
        uint32_t left = set->rows - at - n;
        struct yk_batch batch = {.set = set, .n = n, .row = rows + at, .ahead = rows + at + n, .n_ahead = left < n ? left : n};
        ops->score(work, params, &batch, score, prob == NULL ? NULL : prob + (size_t)at * set->classes);
    }
}

/* The lane's job (or, inline, the training thread's). Touches the check, the metrics and the evaluator's work only. */
static void run_check(void *arg)
{
    struct yk_session *s = arg;
    struct yk_check *c = &s->check;
    double start = yk_now();
    c->score = (struct yk_score){0};
    if (s->test.rows > 0)
        yk_evaluate(s->ops, s->eval_work, &c->snap.params, &s->test, s->eval_rows, &c->score, NULL);
    c->took = yk_now() - start;
    c->rc = YK_OK;
    if (!c->record)
        return;
    yk_metrics_begin(s->metrics, c->snap.at.step, c->snap.at.seconds, c->snap.at.examples);
    yk_metrics_value(s->metrics, "train/loss", c->train_loss);
    if (c->score.examples > 0) {
        yk_metrics_value(s->metrics, "test/loss", c->score.loss / (double)c->score.examples);
        yk_metrics_value(s->metrics, "test/accuracy", (double)c->score.correct / (double)c->score.examples);
    }
    yk_metrics_value(s->metrics, "lr", c->lr);
    yk_metrics_value(s->metrics, "steps_per_second", c->steps_per_second);
    for (size_t i = 0; i < c->snap.params.views; i++) {
        const struct yk_view *v = &c->snap.params.view[i];
        yk_metrics_histogram(s->metrics, v->name, c->snap.params.flat + v->at, v->count);
    }
    yk_metrics_end(s->metrics);
    c->rc = yk_metrics_flush(s->metrics, &c->error);
}

yk_code yk_evaluator_open(struct yk_session *s, struct yk_error *e)
{
    bool target = s->o.target_loss > 0 || s->o.target_accuracy > 0; /* only then may a run end with a snapshot */
    yk_code rc = yk_snapshot_init(&s->check.snap, s, target, e);
    s->test_loss = s->test_accuracy = s->target_seconds = NAN;
    s->previous_loss = s->previous_accuracy = s->previous_seconds = NAN;
    s->tested_step = UINT64_MAX;
    s->stride = 1;
    s->overlap = s->ops->busy(s->work, (uint32_t)s->o.batch) < yk_cpus();
    if (rc == YK_OK && s->test.rows > 0) {
        s->eval_rows = malloc(s->test.rows * sizeof *s->eval_rows);
        if (s->eval_rows == NULL)
            return yk_fail_memory(e, s->test.rows * sizeof *s->eval_rows);
        for (uint32_t i = 0; i < s->test.rows; i++)
            s->eval_rows[i] = i;
    }
    if (rc == YK_OK)
        rc = s->ops->work_open(&s->eval_work, s->model, s->overlap ? 1 : s->threads, s->o.isa, e);
    if (rc == YK_OK && s->overlap)
        rc = yk_lane_open(&s->evaluator, "yoke-eval", e);
    return rc;
}

void yk_evaluator_close(struct yk_session *s)
{
    yk_lane_close(s->evaluator);
    s->evaluator = NULL;
    if (s->ops != NULL && s->eval_work != NULL)
        s->ops->work_close(s->eval_work);
    s->eval_work = NULL;
    free(s->eval_rows);
    s->eval_rows = NULL;
    yk_snapshot_release(&s->check.snap);
}

/* Where between two checks a value that fell (or rose) in a straight line crossed the target. */
static double crossing(double t0, double v0, double t1, double v1, double target)
{
    if (isnan(v0) || v0 == v1)
        return t1;
    double f = (target - v0) / (v1 - v0);
    return t0 + (t1 - t0) * fmin(fmax(f, 0), 1);
}

static void keep_point(struct yk_session *s)
{
    if (s->skipped++ % s->stride != 0)
        return;
    if (s->points == YK_CURVE) {
        for (unsigned i = 0; i < YK_CURVE / 2; i++)
            s->curve[i] = s->curve[2 * i];
        s->points = YK_CURVE / 2;
        s->stride *= 2;
    }
    s->curve[s->points++] = (struct yk_point){s->check.snap.at, s->check.train_loss, s->test_loss, s->test_accuracy};
}

static void take_result(struct yk_session *s)
{
    struct yk_check *c = &s->check;
    s->eval_seconds += c->took;
    if (c->score.examples > 0) {
        s->test_loss = c->score.loss / (double)c->score.examples;
        s->test_accuracy = (double)c->score.correct / (double)c->score.examples;
        s->tested_step = c->snap.at.step;
    }
    keep_point(s);
    double then = s->previous_seconds, at = c->snap.at.seconds;
    enum yk_stop reached = YK_RUNNING;
    if (s->o.target_loss > 0 && s->test_loss <= s->o.target_loss && !c->last) {
        reached = YK_STOP_TARGET_LOSS;
        s->target_seconds = crossing(then, s->previous_loss, at, s->test_loss, s->o.target_loss);
    } else if (s->o.target_accuracy > 0 && s->test_accuracy >= s->o.target_accuracy && !c->last) {
        reached = YK_STOP_TARGET_ACCURACY;
        s->target_seconds = crossing(then, s->previous_accuracy, at, s->test_accuracy, s->o.target_accuracy);
    }
    if (reached != YK_RUNNING) {
        s->stop = reached;
        s->discarded = s->now.step - c->snap.at.step;
        s->last_loss = c->train_loss; /* not that of the steps that go */
        yk_snapshot_restore(&c->snap, s);
    }
    s->previous_loss = s->test_loss;
    s->previous_accuracy = s->test_accuracy;
    s->previous_seconds = at;
}

yk_code yk_evaluator_collect(struct yk_session *s, bool wait, struct yk_error *e)
{
    if (!s->checking)
        return YK_OK;
    if (s->overlap) {
        if (!wait && yk_lane_busy(s->evaluator))
            return YK_OK;
        double start = yk_now();
        yk_lane_wait(s->evaluator);
        s->blocked += yk_now() - start;
    }
    s->checking = false;
    take_result(s);
    if (s->check.rc != YK_OK && e != NULL)
        *e = s->check.error;
    return s->check.rc;
}

yk_code yk_evaluator_post(struct yk_session *s, double train_loss, double steps_per_second, bool last, struct yk_error *e)
{
    yk_code rc = yk_evaluator_collect(s, true, e);
    if (rc != YK_OK || (s->stop != YK_RUNNING && !last))
        return rc; /* the check before reached the target: there is nothing left to look at */
    struct yk_check *c = &s->check;
    yk_snapshot_take(&c->snap, s);
    c->last = last;
    c->record = s->stop != YK_STOP_SIGNAL;
    c->train_loss = train_loss;
    c->steps_per_second = steps_per_second;
    c->lr = yk_schedule_at(&s->strategy.owner.schedule, s->strategy.owner.lr, s->now.step);
    s->checking = true;
    if (s->overlap) {
        yk_lane_post(s->evaluator, run_check, s);
        return YK_OK;
    }
    run_check(s);
    s->blocked += s->check.took;
    return yk_evaluator_collect(s, true, e);
}
