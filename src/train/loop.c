/* loop.c - the step loop, and everything that happens between steps.
 *
 * A step is four lines. Everything else (checks, checkpoints, progress, stop rules, Ctrl-C) waits until the loop *looks round*,
 * which it does at the steps where something is due by count, and otherwise about once a millisecond, so that a step of
 * one microsecond pays for no clock. One step in SAMPLE is timed phase by phase.
 * THREADS: the training thread only. */
#include "base/clock.h"
#include "param/checkpoint.h"
#include "record/progress.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>

enum { SAMPLE = 64 };
static const double LOOK_SECONDS = 1e-3;

struct due { /* something that happens every so often */
    struct yk_every every;
    double next; /* in the unit of `every` */
};

struct loop {
    struct due check, save;
    uint64_t last_step; /* the step that --steps or --epochs allow */
    enum yk_stop last_why;
    uint64_t look_at;    /* look round at this step */
    uint64_t stride;     /* steps between looks that nothing forces */
    double looked;       /* when we last did */
    double mark_seconds; /* when the last check was */
    uint64_t mark_step;  /* its step, or the first of this start */
    struct yk_progress progress;
};

double yk_session_seconds(const struct yk_session *s)
{
    return s->before + (yk_now() - s->started - s->blocked);
}

static double amount(const struct due *d, const struct yk_moment *now, double seconds)
{
    return d->every.unit == YK_STEPS ? (double)now->step : d->every.unit == YK_EXAMPLES ? (double)now->examples : seconds;
}

static void due_after(struct due *d, const struct yk_moment *now, double seconds)
{
    d->next = (floor(amount(d, now, seconds) / d->every.amount) + 1) * d->every.amount;
}

static bool is_due(const struct due *d, const struct yk_moment *now, double seconds)
{
    return d->every.unit != YK_NEVER && amount(d, now, seconds) >= d->next;
}

/* The step at which it can be due at the earliest, by count alone. */
static uint64_t due_step(const struct due *d, const struct yk_session *s)
{
    if (d->every.unit == YK_STEPS)
        return (uint64_t)d->next;
    if (d->every.unit == YK_EXAMPLES)
        return s->now.step + (uint64_t)ceil((d->next - (double)s->now.examples) / (double)s->o.batch);
    return UINT64_MAX;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t yk_session_end(const struct yk_session *s, enum yk_stop *why)
{
    uint64_t per_epoch = (s->train.rows + (uint64_t)s->o.batch - 1) / (uint64_t)s->o.batch, end = UINT64_MAX;
    enum yk_stop reason = YK_RUNNING;
    if (s->o.epochs > 0) {
        if (__builtin_mul_overflow((uint64_t)s->o.epochs, per_epoch, &end))
            end = UINT64_MAX - 1;
        reason = YK_STOP_EPOCHS;
    }
    if (s->o.steps > 0 && (uint64_t)s->o.steps < end) {
        end = (uint64_t)s->o.steps;
        reason = YK_STOP_STEPS;
    }
    if (why != NULL)
        *why = reason;
    return end;
}

static yk_code check(struct yk_session *s, struct loop *l, bool last, struct yk_error *e)
{
    double seconds = yk_session_seconds(s), took = seconds - l->mark_seconds;
    uint64_t steps = s->now.step - l->mark_step;
    if (s->now.loss_examples > 0)
        s->last_loss = s->now.loss / (double)s->now.loss_examples;
    if (s->stop != YK_STOP_SIGNAL) { /* a resumed run goes on with this interval */
        s->now.loss = 0;
        s->now.loss_examples = 0;
    }
    l->mark_step = s->now.step;
    l->mark_seconds = seconds;
    return yk_evaluator_post(s, s->last_loss, took > 0 ? (double)steps / took : NAN, last, e);
}

static void show_progress(struct yk_session *s, struct loop *l, double now)
{
    char text[200], test[64] = "";
    double seconds = yk_session_seconds(s);
    double part = l->last_step != UINT64_MAX ? (double)s->now.step / (double)l->last_step : -1;
    if (s->o.max_seconds > 0)
        part = fmax(part, fmin((seconds - s->before) / s->o.max_seconds, 1));
    if (!isnan(s->test_loss))
        snprintf(test, sizeof test, "  test %.4f %.2f %%", s->test_loss, s->test_accuracy * 100);
    snprintf(text, sizeof text, "step %llu  epoch %.1f  train %.4f%s  %.0f steps/s", (unsigned long long)s->now.step,
             (double)s->now.examples / s->train.rows,
             s->now.loss_examples > 0 ? s->now.loss / (double)s->now.loss_examples : s->last_loss, test,
             (double)(s->now.step - s->first_step) / fmax(seconds - s->before, 1e-9));
    yk_progress_show(&l->progress, now, part, text);
}

static yk_code look_round(struct yk_session *s, struct loop *l, struct yk_error *e)
{
    double now = yk_now(), seconds = yk_session_seconds(s);
    yk_code rc = yk_evaluator_collect(s, false, e);
    if (rc != YK_OK || s->stop != YK_RUNNING)
        return rc;
    if (s->stop_signal != 0)
        s->stop = YK_STOP_SIGNAL;
    else if (s->now.step >= l->last_step)
        s->stop = l->last_why;
    else if (s->o.max_seconds > 0 && seconds - s->before >= s->o.max_seconds)
        s->stop = YK_STOP_MAX_SECONDS;
    if (is_due(&l->check, &s->now, seconds)) {
        enum yk_stop why = s->stop;
        s->stop = YK_RUNNING; /* a check at the very last step may still find the target reached */
        rc = check(s, l, false, e);
        due_after(&l->check, &s->now, seconds);
        if (s->stop == YK_RUNNING)
            s->stop = why;
    }
    if (rc == YK_OK && s->stop == YK_RUNNING && is_due(&l->save, &s->now, seconds)) {
        rc = yk_evaluator_collect(s, true, e); /* a check is on record before the checkpoint that would skip it on resume */
        if (rc == YK_OK && s->stop == YK_RUNNING)
            rc = yk_saver_post(s, e);
        due_after(&l->save, &s->now, seconds);
    }
    if (yk_progress_due(&l->progress, now))
        show_progress(s, l, now);

    if (now - l->looked < LOOK_SECONDS / 2 && l->stride < 1 << 20)
        l->stride *= 2;
    else if (now - l->looked > LOOK_SECONDS * 2 && l->stride > 1)
        l->stride /= 2;
    l->looked = now;
    l->look_at = least(least(s->now.step + l->stride, l->last_step), least(due_step(&l->check, s), due_step(&l->save, s)));
    return rc;
}

static double tick(bool timed)
{
    return timed ? yk_now() : 0;
}

/* The path of one batch. */
static double train_step(struct yk_session *s, bool timed)
{
    struct yk_batch batch;
    bool begins = s->now.cursor.at == 0;
    timed = timed && !begins;
    s->strategy.timed = timed;
    double t0 = tick(timed || begins);
    yk_source_next(&s->source, &batch); /* rows of the data, shuffled */
    double t1 = tick(timed || begins);
    yk_strategy_pull(&s->strategy, batch.n); /* fresh enough parameters */
    double t2 = tick(timed);
    double loss = s->ops->step(s->work, &s->params, &batch, yk_strategy_sink(&s->strategy)); /* gradients leave as they finish */
    yk_strategy_commit(&s->strategy); /* the optimizer has run at the owner */
    double t3 = tick(timed);

    s->now.step = s->strategy.owner.step;
    s->now.examples += batch.n;
    s->now.loss += loss;
    s->now.loss_examples += batch.n;
    s->now.cursor = s->source.cursor;
    if (begins)
        s->phases.shuffle += t1 - t0;
    if (timed) {
        s->phases.samples++;
        s->phases.input += t1 - t0;
        s->phases.pull += t2 - t1;
        s->phases.compute += t3 - t2;
    }
    return loss;
}

/* The run is over: a last look at the parameters, and everything onto the disk. */
static yk_code finish(struct yk_session *s, struct loop *l, struct yk_error *e)
{
    char dir[YK_PATH_MAX];
    yk_code rc = yk_evaluator_collect(s, true, e);
    if (s->stop != YK_STOP_TARGET_LOSS && s->stop != YK_STOP_TARGET_ACCURACY) /* those ended with a snapshot, and its time */
        s->now.seconds = yk_session_seconds(s);
    if (rc == YK_OK && s->tested_step != s->now.step && (s->now.loss_examples > 0 || s->test.rows > 0)) {
        rc = check(s, l, true, e);
        if (rc == YK_OK)
            rc = yk_evaluator_collect(s, true, e);
    }
    yk_code saved = yk_saver_wait(s, rc == YK_OK ? e : NULL);
    if (rc == YK_OK)
        rc = saved;
    if (rc == YK_OK)
        rc = yk_run_path(&s->run, "checkpoints", dir, e);
    if (rc == YK_OK) {
        yk_checkpoint_drop_after(dir, s->now.step);
        rc = yk_saver_post(s, e);
    }
    if (rc == YK_OK)
        rc = yk_saver_wait(s, e);
    return rc;
}

yk_code yk_session_train(struct yk_session *s, struct yk_error *e)
{
    struct loop l = {.check.every = s->o.eval_every, .save.every = s->o.checkpoint_every, .stride = 1};
    l.last_step = yk_session_end(s, &l.last_why);
    yk_progress_init(&l.progress, s->log);
    s->started = yk_now();
    s->startup = s->started - s->opened;
    s->before = l.mark_seconds = s->now.seconds;
    s->first_step = l.mark_step = s->now.step;
    due_after(&l.check, &s->now, s->before);
    due_after(&l.save, &s->now, s->before);
    s->last_loss = NAN;

    yk_code rc = look_round(s, &l, e);
    while (rc == YK_OK && s->stop == YK_RUNNING) {
        double loss = train_step(s, s->now.step % SAMPLE == 1);
        if (!isfinite(loss)) {
            rc = yk_fail(e, YK_FAILED, "training diverged: the loss of step %llu is not a number",
                         (unsigned long long)s->now.step);
            yk_hint(e, "try a smaller --lr than %g", s->o.lr);
        } else if (s->now.step >= l.look_at || s->stop_signal != 0) {
            rc = look_round(s, &l, e);
        }
    }
    yk_progress_clear(&l.progress);
    if (rc == YK_OK)
        rc = finish(s, &l, e);
    return rc;
}
