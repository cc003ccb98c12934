/* evaluate.c - evaluates snapshots of the parameters while training goes on.
 *
 * At a check the training thread copies the parameters (31 kB for MNIST), hands the copy to the
 * evaluator's thread and trains on. That thread scores the whole test set, writes metrics and
 * events, and leaves its result to be collected: when the watcher next looks round, or when the
 * next check is due. So every check happens at exactly its step, whatever the timing. If one
 * reaches the target, the run ends with *that snapshot*, and the steps done meanwhile are
 * discarded. Without a free core the same function runs inline and its time is kept apart from
 * training.
 *
 * A sparse model is never copied: it is scored in place, inline, while nothing moves. */
#include "train/evaluate.h"

#include "base/background.h"
#include "base/clock.h"
#include "base/team.h"
#include "data/images/prefetch.h"
#include "record/metrics.h"
#include "train/plan.h"
#include "train/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One evaluation. */
struct check {
    struct yk_snapshot snap;
    double train_loss;       /* mean over the steps since the check before */
    double steps_per_second; /* likewise */
    double lr;
    bool record;             /* goes into metrics and events; not after a signal */
    bool last;               /* training has ended: no target is reached any more */
    struct yk_ledger *since; /* (workers) their work since the check before; NULL for one worker */
    struct yk_score score;   /* out */
    double took;             /* out: seconds */
    yk_code rc;              /* out: the evaluation, or recording it, failed */
    struct yk_error error;
};

struct yk_evaluator {
    bool overlaps; /* has a core to itself */
    bool checking; /* a check has been handed over and not collected */
    struct check check;
    struct yk_work *work;
    uint32_t *rows;                   /* (test rows) in the order of the file */
    struct yk_bins *bins;             /* of a model with two classes; else NULL */
    struct yk_background *thread;     /* NULL if everything runs inline */
    struct yk_metrics *metrics;       /* the curves of the whole run */
    struct yk_events **worker_events; /* (workers) the curves of each; NULL for one worker */
};

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
    struct yk_feed *feed; /* lives for one evaluation: those are few, and their batches large */
    yk_code rc = yk_feed_open(&feed, set, 0, 0, e);
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
        rc = yk_rows_intact(set->sparse, e);
    }
    yk_feed_close(feed);
    yk_floats_free(value);
    return rc;
}

/* Values of a sparse model, from this process under the locks of all owners, or from others that
 * stand still. */
static yk_code read_values(void *arg, const uint32_t *key, float *out, size_t n, struct yk_error *e)
{
    struct yk_crew *c = arg;
    if (yk_crew_elsewhere(c))
        return yk_server_read(&c->server[0], c->servers, key, out, n, e);
    for (unsigned i = 0; i < c->servers; i++) {
        struct yk_owner *o = &c->server[i].owner;
        size_t from = yk_keys_below(key, n, o->lo), to = yk_keys_below(key, n, o->hi);
        yk_owner_read_keys(o, key + from, out + from, to - from);
    }
    return YK_OK;
}

/* The curves of each worker, in its own folder for TensorBoard. */
static void record_workers(const struct yk_evaluator *v, unsigned workers)
{
    const struct check *c = &v->check;
    uint64_t all = 0, step = c->snap.at.step;
    double wall = yk_wall();
    for (unsigned w = 0; w < workers; w++)
        all += c->since[w].steps;
    for (unsigned w = 0; w < workers; w++) {
        const struct yk_ledger *l = &c->since[w];
        struct yk_events *ev = v->worker_events[w];
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

static yk_code record(struct yk_evaluator *v, unsigned workers)
{
    struct check *c = &v->check;
    struct yk_metrics *m = v->metrics;
    yk_metrics_begin(m, c->snap.at.step, c->snap.at.seconds, c->snap.at.examples);
    yk_metrics_value(m, "train/loss", c->train_loss);
    if (c->score.examples > 0) {
        yk_metrics_value(m, "test/loss", c->score.loss / (double)c->score.examples);
        yk_metrics_value(m, "test/accuracy", (double)c->score.correct / (double)c->score.examples);
    }
    if (c->score.bins != NULL && c->score.examples > 0) {
        yk_metrics_value(m, "test/auc", yk_score_auc(&c->score, NULL));
        yk_metrics_value(m, "test/precision", yk_score_precision(&c->score));
        yk_metrics_value(m, "test/recall", yk_score_recall(&c->score));
    }
    yk_metrics_value(m, "lr", c->lr);
    yk_metrics_value(m, "steps_per_second", c->steps_per_second);
    for (size_t i = 0; i < c->snap.params.views; i++) {
        const struct yk_view *view = &c->snap.params.view[i];
        yk_metrics_histogram(m, view->name, c->snap.params.flat + view->at, view->count);
    }
    yk_metrics_end(m);
    if (c->since != NULL)
        record_workers(v, workers);
    return yk_metrics_flush(m, &c->error);
}

/* The job of the evaluator's thread or, inline, of the training thread. Of the session it only
 * reads what does not change while workers run. */
static void run_check(void *arg)
{
    struct yk_session *s = arg;
    struct yk_evaluator *v = s->evaluator;
    struct check *c = &v->check;
    double start = yk_now();
    const struct yk_reader reader = {.read = read_values, .arg = &s->crew};
    c->score = (struct yk_score){.bins = v->bins};
    if (v->bins != NULL)
        memset(v->bins, 0, sizeof *v->bins);
    c->rc = YK_OK;
    if (s->input.test.rows > 0)
        c->rc = yk_evaluate(
            s->ops, v->work, s->ops->keys != NULL ? &s->state.params : &c->snap.params, &reader,
            &s->input.test, v->rows, (uint32_t)s->o.test_batch, &c->score, NULL, &c->error);
    c->took = yk_now() - start;
    if (c->record && c->rc == YK_OK)
        c->rc = record(v, s->crew.rule.workers);
}

/* Owner 0 writes the curves of the whole run. If there are several workers, each has a folder of
 * its own as well; without servers worker 0 shares owner 0's. */
static yk_code open_records(struct yk_session *s, bool found, struct yk_error *e)
{
    struct yk_evaluator *v = s->evaluator;
    const struct yk_rule *r = &s->crew.rule;
    bool resumed = s->resume.start == YK_START_RESUMED, servers = yk_plan_has_servers(r);
    yk_code rc =
        yk_metrics_open(&v->metrics, &s->run, servers ? "ps-0" : "worker-0", s->now.step, e);
    if (rc != YK_OK)
        return rc;
    if (resumed)
        yk_events_restart(yk_metrics_events(v->metrics), s->now.step + 1);
    if (!found)
        s->ops->graph(s->model, yk_metrics_events(v->metrics));
    if (!servers && r->workers == 1)
        return YK_OK;
    v->worker_events = calloc(r->workers, sizeof(struct yk_events *));
    v->check.since = calloc(r->workers, sizeof *v->check.since);
    if (v->worker_events == NULL || v->check.since == NULL)
        return yk_fail_memory(e, r->workers * sizeof *v->check.since);
    if (!servers)
        v->worker_events[0] = yk_metrics_events(v->metrics);
    for (unsigned w = servers ? 0 : 1; w < r->workers && rc == YK_OK; w++) {
        char folder[YK_PATH_MAX];
        rc = yk_path(folder, e, "%s/events/worker-%u", s->run.dir, w);
        if (rc == YK_OK)
            rc = yk_events_open(&v->worker_events[w], folder, e);
        if (rc == YK_OK && resumed)
            yk_events_restart(v->worker_events[w], s->now.step + 1);
    }
    return rc;
}

static void begin_curve(struct yk_curve *c)
{
    c->test_loss = c->test_accuracy = c->target_seconds = NAN;
    c->test_auc = c->test_precision = c->test_recall = NAN;
    c->before = (struct yk_point){.at.seconds = NAN, .test_loss = NAN, .test_accuracy = NAN};
    c->tested_step = UINT64_MAX;
    c->stride = 1;
}

static yk_code open_test(struct yk_session *s, struct yk_error *e)
{
    struct yk_evaluator *v = s->evaluator;
    uint32_t rows = s->input.test.rows;
    v->rows = malloc(rows * sizeof *v->rows);
    if (v->rows == NULL)
        return yk_fail_memory(e, rows * sizeof *v->rows);
    yk_dataset_rows(&s->input.test, v->rows);
    if (s->ops->keys != NULL && (v->bins = calloc(1, sizeof *v->bins)) == NULL)
        return yk_fail_memory(e, sizeof *v->bins);
    return yk_evaluate_prepare(s->ops, v->work, &s->input.test, (uint32_t)s->o.test_batch, e);
}

yk_code yk_evaluator_open(struct yk_session *s, bool found, struct yk_error *e)
{
    bool target = s->o.target_loss > 0 || s->o.target_accuracy > 0;
    bool sparse = s->ops->keys != NULL;
    struct yk_evaluator *v = s->evaluator = calloc(1, sizeof *v);
    if (v == NULL)
        return yk_fail_memory(e, sizeof *v);
    begin_curve(&s->curve);
    /* Over MPI an owner must not keep its workers waiting, so a check always overlaps. */
    v->overlaps = !sparse && (!s->crew.comm->shared || yk_crew_busy(s) < yk_cpus());
    yk_code rc = open_records(s, found, e);
    if (rc == YK_OK && !sparse) /* only at a target does a run end with a snapshot */
        rc = yk_snapshot_init(&v->check.snap, &s->crew, &s->state, target, e);
    if (rc == YK_OK)
        rc = s->ops->work_open(&v->work, s->model, v->overlaps ? 1 : yk_cpus(), s->o.isa, e);
    if (rc == YK_OK && s->input.test.rows > 0)
        rc = open_test(s, e);
    if (rc == YK_OK && (v->overlaps || (sparse && yk_crew_elsewhere(&s->crew))))
        rc = yk_background_open(&v->thread, "yoke-eval", e);
    return rc;
}

void yk_evaluator_close(struct yk_session *s)
{
    struct yk_evaluator *v = s->evaluator;
    if (v == NULL)
        return;
    yk_background_close(v->thread);
    if (v->work != NULL)
        s->ops->work_close(v->work);
    if (v->worker_events != NULL)
        for (unsigned w = 0; w < s->crew.rule.workers; w++)
            if (v->worker_events[w] != yk_metrics_events(v->metrics))
                yk_events_close(v->worker_events[w], NULL);
    free(v->worker_events);
    yk_metrics_close(v->metrics, NULL);
    free(v->rows);
    free(v->bins);
    free(v->check.since);
    yk_snapshot_release(&v->check.snap);
    free(v);
    s->evaluator = NULL;
}

bool yk_evaluator_overlaps(const struct yk_session *s)
{
    return s->evaluator != NULL && s->evaluator->overlaps;
}

void yk_evaluator_lend(struct yk_session *s, void (*job)(void *arg), void *arg)
{
    yk_background_post(s->evaluator->thread, job, arg);
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
    if (c->seen++ % c->stride != 0)
        return;
    if (c->points == YK_CURVE) {
        for (unsigned i = 0; i < YK_CURVE / 2; i++)
            c->point[i] = c->point[2 * i];
        c->points = YK_CURVE / 2;
        c->stride *= 2;
    }
    c->point[c->points++] = *p;
}

static void take_score(struct yk_curve *curve, const struct check *c)
{
    const struct yk_score *score = &c->score;
    if (score->examples == 0)
        return;
    curve->test_loss = score->loss / (double)score->examples;
    curve->test_accuracy = (double)score->correct / (double)score->examples;
    curve->tested_step = c->snap.at.step;
    curve->test_auc = score->bins != NULL ? yk_score_auc(score, NULL) : NAN;
    curve->test_precision = score->bins != NULL ? yk_score_precision(score) : NAN;
    curve->test_recall = score->bins != NULL ? yk_score_recall(score) : NAN;
}

/* The run ends with the snapshot of this check. */
static void end_at(struct yk_session *s, const struct check *c, enum yk_stop why, double seconds)
{
    s->stop = why;
    s->curve.target_seconds = seconds;
    s->curve.discarded = s->now.step - c->snap.at.step;
    s->curve.train_loss = c->train_loss; /* without the steps that are discarded */
    s->now = c->snap.at;
    yk_snapshot_restore(&c->snap, &s->crew, &s->state);
}

static void take_result(struct yk_session *s)
{
    const struct check *c = &s->evaluator->check;
    const struct yk_options *o = &s->o;
    struct yk_curve *curve = &s->curve;
    s->times.eval_seconds += c->took;
    take_score(curve, c);
    const struct yk_point here = {c->snap.at, c->train_loss, curve->test_loss,
                                  curve->test_accuracy},
                          then = curve->before;
    keep_point(curve, &here);
    curve->before = here;
    if (c->last)
        return;
    if (o->target_loss > 0 && here.test_loss <= o->target_loss)
        end_at(s, c, YK_STOP_TARGET_LOSS,
               crossing(&then, &here, then.test_loss, here.test_loss, o->target_loss));
    else if (o->target_accuracy > 0 && here.test_accuracy >= o->target_accuracy)
        end_at(s, c, YK_STOP_TARGET_ACCURACY,
               crossing(&then, &here, then.test_accuracy, here.test_accuracy, o->target_accuracy));
}

yk_code yk_evaluator_collect(struct yk_session *s, bool wait, struct yk_error *e)
{
    struct yk_evaluator *v = s->evaluator;
    struct check *c = &v->check;
    if (!v->checking)
        return YK_OK;
    if (v->overlaps) {
        if (!wait && yk_background_busy(v->thread))
            return YK_OK;
        double start = yk_now();
        yk_background_wait(v->thread);
        s->times.blocked += yk_now() - start;
    }
    v->checking = false;
    take_result(s);
    if (c->rc != YK_OK && e != NULL)
        *e = c->error;
    if (c->rc == YK_OK && c->score.examples > 0 && !isfinite(c->score.loss))
        return yk_session_diverged(s, c->snap.at.step, "the test loss of", e);
    return c->rc;
}

/* The work of each worker since the check before. */
static void take_ledgers(struct check *c, struct yk_crew *crew)
{
    if (c->since == NULL)
        return;
    for (unsigned w = 0; w < crew->rule.workers; w++) {
        c->since[w] = crew->clock.member[w].since;
        crew->clock.member[w].since = (struct yk_ledger){0};
    }
}

yk_code yk_evaluator_post(struct yk_session *s, double train_loss, double steps_per_second,
                          bool last, struct yk_error *e)
{
    struct yk_evaluator *v = s->evaluator;
    struct check *c = &v->check;
    yk_code rc = yk_evaluator_collect(s, true, e);
    if (rc != YK_OK || (s->stop != YK_RUNNING && !last))
        return rc; /* the check before reached the target */
    struct yk_moment now = s->now;
    now.seconds = yk_session_seconds(s);
    yk_snapshot_take(&c->snap, &s->crew, &s->state, &now);
    c->last = last;
    c->record = s->stop != YK_STOP_SIGNAL; /* a resumed run would record this check twice */
    c->train_loss = train_loss;
    c->steps_per_second = steps_per_second;
    c->lr = yk_schedule_at(&s->crew.recipe.schedule, s->crew.recipe.lr, s->now.step);
    take_ledgers(c, &s->crew);
    v->checking = true;
    if (v->overlaps) {
        yk_background_post(v->thread, run_check, s);
        return YK_OK;
    }
    run_check(s);
    s->times.blocked += c->took;
    return yk_evaluator_collect(s, true, e);
}
