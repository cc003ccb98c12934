/* evaluate.c - evaluates snapshots of the parameters while training goes on.
 *
 * At a check the training thread copies the parameters (31 kB for MNIST), hands the copy to the evaluator's lane and trains on.
 * The lane scores the whole test set, writes metrics and events, and leaves its result to be collected: when the loop next looks
 * round, or when the next check is due. So every check happens, at exactly its step, whatever the timing; and if one reaches
 * the target, the run ends with *that snapshot*, and the steps done meanwhile are discarded. Without a free core the same
 * function runs inline and its time is kept apart from training. */
#include "base/clock.h"
#include "base/team.h"
#include "data/prefetch.h"
#include "train/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

yk_code yk_evaluate_prepare(const struct yk_model_ops *ops, struct yk_work *work,
                            const struct yk_dataset *set, uint32_t batch_size, struct yk_error *e)
{
    char said[256];
    return ops->prepare != NULL
               ? ops->prepare(work, set->rows < batch_size ? set->rows : batch_size, false, said, e)
               : YK_OK;
}

yk_code yk_evaluate(const struct yk_model_ops *ops, struct yk_work *work,
                    const struct yk_params *params, const struct yk_reader *reader,
                    const struct yk_dataset *set, const uint32_t *rows, uint32_t batch_size,
                    struct yk_score *score, float *prob, struct yk_error *e)
{
    struct yk_params values = *params; /* of a sparse model: those of the batch's keys */
    float *value = NULL;
    size_t room = 0;
    struct yk_feed *feed;
    yk_code rc =
        yk_feed_open(&feed, set, 0, 0,
                     e); /* its memory goes with it: evaluations are few, and their batches large */
    *score = (struct yk_score){.bins = score->bins};
    for (uint32_t at = 0; rc == YK_OK && at < set->rows; at += batch_size) {
        uint32_t n = set->rows - at < batch_size ? set->rows - at : batch_size;
        uint32_t left = set->rows - at - n;
        struct yk_batch batch = {.set = set,
                                 .n = n,
                                 .row = rows + at,
                                 .ahead = rows + at + n,
                                 .n_ahead = left < n ? left : n};
        if (ops->keys != NULL) {
            struct yk_keys keys;
            rc = ops->keys(work, 0, &batch, 1, &keys, e);
            if (rc == YK_OK && keys.n > room) {
                yk_floats_free(value);
                room = keys.n + keys.n / 4;
                value = yk_floats(room);
                rc = value != NULL ? YK_OK : yk_fail_memory(e, room * sizeof *value);
            }
            if (rc == YK_OK)
                rc = reader->read(reader->arg, keys.key, value, keys.n, e);
            if (rc != YK_OK)
                break;
            values.flat = value;
            ops->choose(work, 0, 0);
        }
        rc = yk_feed_take(feed, &batch, e);
        if (rc != YK_OK)
            break;
        ops->score(work, &values, &batch, score,
                   prob == NULL ? NULL : prob + (size_t)at * set->classes);
    }
    yk_feed_close(feed);
    yk_floats_free(value);
    return rc;
}

/* Values of a sparse model, wherever they are; in this process under the locks of all owners, or when nobody works. */
static yk_code read_values(void *arg, const uint32_t *key, float *out, size_t n, struct yk_error *e)
{
    struct yk_session *s = arg;
    struct yk_crew *c = &s->crew;
    if (yk_crew_elsewhere(s))
        return yk_server_read(&c->server[0], c->servers, key, out, n, e);
    for (unsigned i = 0; i < c->servers; i++) {
        struct yk_owner *o = &c->server[i].owner;
        size_t from = yk_keys_below(key, n, o->lo), to = yk_keys_below(key, n, o->hi);
        yk_owner_read_keys(o, key + from, out + from, to - from);
    }
    return YK_OK;
}

/* The workers' own curves, each in its folder of TensorBoard's. */
static void record_workers(struct yk_session *s)
{
    const struct yk_check *c = &s->check;
    uint64_t all = 0, step = c->snap.at.step;
    double wall = yk_wall();
    for (unsigned w = 0; c->since != NULL && w < s->crew.rule.workers; w++)
        all += c->since[w].steps;
    for (unsigned w = 0; c->since != NULL && w < s->crew.rule.workers; w++) {
        const struct yk_ledger *l = &c->since[w];
        struct yk_events *ev = s->worker_events[w];
        if (l->loss_examples > 0)
            yk_events_scalar(ev, step, wall, "worker/loss", l->loss / (double)l->loss_examples);
        yk_events_scalar(ev, step, wall, "worker/steps", (double)l->steps);
        yk_events_scalar(ev, step, wall, "worker/share",
                         all > 0 ? (double)l->steps / (double)all : 0);
        yk_events_scalar(ev, step, wall, "worker/staleness", yk_ledger_mean(l));
        yk_events_scalar(ev, step, wall, "worker/stale_dropped", (double)l->dropped);
        yk_events_flush(ev, NULL);
    }
}

/* The lane's job (or, inline, the training thread's). Touches the check, the metrics and the evaluator's work only. */
static void run_check(void *arg)
{
    struct yk_session *s = arg;
    struct yk_check *c = &s->check;
    double start = yk_now();
    const struct yk_reader reader = {.read = read_values, .arg = s};
    c->score = (struct yk_score){.bins = s->eval_bins};
    if (s->eval_bins != NULL)
        memset(s->eval_bins, 0, sizeof *s->eval_bins);
    c->rc = YK_OK;
    if (s->test.rows > 0)
        c->rc = yk_evaluate(s->ops, s->eval_work,
                            s->ops->keys != NULL ? &s->params : &c->snap.params, &reader, &s->test,
                            s->eval_rows, (uint32_t)s->o.test_batch, &c->score, NULL, &c->error);
    c->took = yk_now() - start;
    if (!c->record || c->rc != YK_OK)
        return;
    yk_metrics_begin(s->metrics, c->snap.at.step, c->snap.at.seconds, c->snap.at.examples);
    yk_metrics_value(s->metrics, "train/loss", c->train_loss);
    if (c->score.examples > 0) {
        yk_metrics_value(s->metrics, "test/loss", c->score.loss / (double)c->score.examples);
        yk_metrics_value(s->metrics, "test/accuracy",
                         (double)c->score.correct / (double)c->score.examples);
    }
    if (c->score.bins != NULL && c->score.examples > 0) {
        yk_metrics_value(s->metrics, "test/auc", yk_score_auc(&c->score, NULL));
        yk_metrics_value(s->metrics, "test/precision", yk_score_precision(&c->score));
        yk_metrics_value(s->metrics, "test/recall", yk_score_recall(&c->score));
    }
    yk_metrics_value(s->metrics, "lr", c->lr);
    yk_metrics_value(s->metrics, "steps_per_second", c->steps_per_second);
    for (size_t i = 0; i < c->snap.params.views; i++) {
        const struct yk_view *v = &c->snap.params.view[i];
        yk_metrics_histogram(s->metrics, v->name, c->snap.params.flat + v->at, v->count);
    }
    yk_metrics_end(s->metrics);
    record_workers(s);
    c->rc = yk_metrics_flush(s->metrics, &c->error);
}

yk_code yk_evaluator_open(struct yk_session *s, struct yk_error *e)
{
    bool target = s->o.target_loss > 0 ||
                  s->o.target_accuracy > 0; /* only then may a run end with a snapshot */
    bool sparse = s->ops->keys != NULL;     /* is looked at where it is, while nothing moves */
    yk_code rc = sparse ? YK_OK : yk_snapshot_init(&s->check.snap, s, target, e);
    s->curve.test_loss = s->curve.test_accuracy = s->curve.target_seconds = NAN;
    s->curve.test_auc = s->curve.test_precision = s->curve.test_recall = NAN;
    s->curve.before = (struct yk_point){.at.seconds = NAN, .test_loss = NAN, .test_accuracy = NAN};
    s->curve.tested_step = UINT64_MAX;
    s->curve.stride = 1;
    s->overlap =
        !sparse &&
        (!s->crew.comm->shared ||
         yk_crew_busy(s) < yk_cpus()); /* over MPI an owner must not keep its workers waiting */
    if (rc == YK_OK && s->worker_events != NULL) {
        s->check.since = calloc(s->crew.rule.workers, sizeof *s->check.since);
        if (s->check.since == NULL)
            return yk_fail_memory(e, s->crew.rule.workers * sizeof *s->check.since);
    }
    if (rc == YK_OK && s->test.rows > 0) {
        s->eval_rows = malloc(s->test.rows * sizeof *s->eval_rows);
        if (s->eval_rows == NULL)
            return yk_fail_memory(e, s->test.rows * sizeof *s->eval_rows);
        yk_dataset_rows(&s->test, s->eval_rows);
    }
    if (rc == YK_OK && s->test.rows > 0 && sparse &&
        (s->eval_bins = calloc(1, sizeof *s->eval_bins)) == NULL)
        return yk_fail_memory(e, sizeof *s->eval_bins);
    if (rc == YK_OK)
        rc = s->ops->work_open(&s->eval_work, s->model, s->overlap ? 1 : yk_cpus(), s->o.isa, e);
    if (rc == YK_OK && s->test.rows > 0)
        rc = yk_evaluate_prepare(s->ops, s->eval_work, &s->test, (uint32_t)s->o.test_batch, e);
    if (rc == YK_OK && (s->overlap || (sparse && yk_crew_elsewhere(s))))
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
    free(s->eval_bins);
    s->eval_bins = NULL;
    free(s->check.since);
    s->check.since = NULL;
    yk_snapshot_release(&s->check.snap);
}

/* Where between two checks a value that fell (or rose) in a straight line crossed the target. */
static double crossing(const struct yk_point *from, const struct yk_point *to, double v0, double v1,
                       double target)
{
    double t0 = from->at.seconds, t1 = to->at.seconds;
    if (isnan(v0) || v0 == v1)
        return t1;
    return t0 + (t1 - t0) * fmin(fmax((target - v0) / (v1 - v0), 0), 1);
}

static void keep_point(struct yk_curve *c, const struct yk_point *p)
{
    if (c->skipped++ % c->stride != 0)
        return;
    if (c->points == YK_CURVE) {
        for (unsigned i = 0; i < YK_CURVE / 2; i++)
            c->point[i] = c->point[2 * i];
        c->points = YK_CURVE / 2;
        c->stride *= 2;
    }
    c->point[c->points++] = *p;
}

static void take_result(struct yk_session *s)
{
    struct yk_check *c = &s->check;
    s->times.eval_seconds += c->took;
    if (c->score.examples > 0) {
        s->curve.test_loss = c->score.loss / (double)c->score.examples;
        s->curve.test_accuracy = (double)c->score.correct / (double)c->score.examples;
        s->curve.tested_step = c->snap.at.step;
        s->curve.test_auc = c->score.bins != NULL ? yk_score_auc(&c->score, NULL) : NAN;
        s->curve.test_precision = c->score.bins != NULL ? yk_score_precision(&c->score) : NAN;
        s->curve.test_recall = c->score.bins != NULL ? yk_score_recall(&c->score) : NAN;
    }
    const struct yk_point here = {c->snap.at, c->train_loss, s->curve.test_loss,
                                  s->curve.test_accuracy},
                          then = s->curve.before;
    keep_point(&s->curve, &here);
    enum yk_stop reached = YK_RUNNING;
    if (s->o.target_loss > 0 && s->curve.test_loss <= s->o.target_loss && !c->last) {
        reached = YK_STOP_TARGET_LOSS;
        s->curve.target_seconds =
            crossing(&then, &here, then.test_loss, here.test_loss, s->o.target_loss);
    } else if (s->o.target_accuracy > 0 && s->curve.test_accuracy >= s->o.target_accuracy &&
               !c->last) {
        reached = YK_STOP_TARGET_ACCURACY;
        s->curve.target_seconds =
            crossing(&then, &here, then.test_accuracy, here.test_accuracy, s->o.target_accuracy);
    }
    if (reached != YK_RUNNING) {
        s->stop = reached;
        s->discarded = s->now.step - c->snap.at.step;
        s->curve.train_loss = c->train_loss; /* not that of the steps that go */
        yk_snapshot_restore(&c->snap, s);
    }
    s->curve.before = here;
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
        s->times.blocked += yk_now() - start;
    }
    s->checking = false;
    take_result(s);
    if (s->check.rc != YK_OK && e != NULL)
        *e = s->check.error;
    return s->check.rc;
}

/* What each worker did since the check before. */
static void take_ledgers(struct yk_session *s)
{
    for (unsigned w = 0; s->check.since != NULL && w < s->crew.rule.workers; w++) {
        s->check.since[w] = s->crew.clock.member[w].since;
        s->crew.clock.member[w].since = (struct yk_ledger){0};
    }
}

yk_code yk_evaluator_post(struct yk_session *s, double train_loss, double steps_per_second,
                          bool last, struct yk_error *e)
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
    c->lr = yk_schedule_at(&s->crew.recipe.schedule, s->crew.recipe.lr, s->now.step);
    take_ledgers(s);
    s->checking = true;
    if (s->overlap) {
        yk_lane_post(s->evaluator, run_check, s);
        return YK_OK;
    }
    run_check(s);
    s->times.blocked += s->check.took;
    return yk_evaluator_collect(s, true, e);
}
