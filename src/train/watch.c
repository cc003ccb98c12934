/* watch.c - watches the training from owner 0's place: everything that is due between steps.
 *
 * Owner 0 calls yk_watch_stepped after every update, under its lock. Mostly that only counts. Checks, checkpoints, progress, stop rules
 * and Ctrl-C wait until the watcher *looks round*, which it does at the steps where something is due by count, and otherwise about
 * once a millisecond, so that a step of a few microseconds pays for no clock. Where other processes own parts of the parameters, it has
 * them fetched before it looks at the state.
 * THREADS: under owner 0's lock while workers run, on whichever thread pushed last. */
#include "base/clock.h"
#include "param/checkpoint.h"
#include "train/session.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double LOOK_SECONDS = 1e-3,
                    SWEEP_SECONDS = 2e-2; /* a sweep is worth while from some 10,000 rows on */
enum { REPLACEMENTS = 100 };              /* of one run: more is not bad luck */

double yk_session_seconds(const struct yk_session *s)
{
    return s->times.before + (yk_now() - s->times.started - s->times.blocked);
}

void yk_session_event(struct yk_session *s, enum yk_level level, const char *fmt, ...)
{
    struct yk_event *v = &s->event[s->events < YK_EVENTS ? s->events++ : YK_EVENTS - 1];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, ap);
    va_end(ap);
    v->seconds = s->times.started > 0 ? yk_session_seconds(s) : 0;
    v->step = s->now.step;
    yk_log_line(s->log, level, "step %llu: %s", (unsigned long long)v->step, v->text);
}

static double amount(const struct yk_due *d, const struct yk_moment *now, double seconds)
{
    return d->every.unit == YK_STEPS      ? (double)now->step
           : d->every.unit == YK_EXAMPLES ? (double)now->examples
                                          : seconds;
}

static void due_after(struct yk_due *d, const struct yk_moment *now, double seconds)
{
    d->next = (floor(amount(d, now, seconds) / d->every.amount) + 1) * d->every.amount;
}

static bool is_due(const struct yk_due *d, const struct yk_moment *now, double seconds)
{
    return d->every.unit != YK_NEVER && amount(d, now, seconds) >= d->next;
}

/* The step at which it can be due at the earliest, by count alone. */
static uint64_t due_step(const struct yk_due *d, const struct yk_session *s)
{
    if (d->every.unit == YK_STEPS)
        return (uint64_t)d->next;
    if (d->every.unit == YK_EXAMPLES)
        return s->now.step +
               (uint64_t)ceil((d->next - (double)s->now.examples) / (double)yk_session_batch(s));
    return UINT64_MAX;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t yk_session_batch(const struct yk_session *s)
{
    return s->crew.rule.batch * s->crew.rule.need;
}

static uint64_t upward(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* Parts of an epoch that are not done: new ones, of every host's share, and those that an earlier start left over. */
static uint64_t parts_of(const struct yk_session *s, uint64_t epoch)
{
    const struct yk_rule *r = &s->crew.rule;
    uint64_t parts = 0;
    for (unsigned i = 0; i < r->shares && epoch < (uint64_t)s->o.epochs; i++) {
        uint64_t next = r->shares > 1 ? s->share[i].next : s->now.position, at = next / r->rows;
        if (at <= epoch)
            parts += upward(
                s->share[i].rows - (at == epoch ? next % r->rows - s->share[i].from : 0), r->batch);
    }
    for (unsigned i = 0; i < s->restored; i++)
        parts += s->restored_pool[i] / r->rows == epoch;
    return parts;
}

/* Steps from here to the end of the last epoch. Earlier starts of the run may have made steps of another size. Where a step takes several
 * parts they are all of one epoch, so each unfinished epoch ends with a step of its own. */
static uint64_t steps_left(const struct yk_session *s)
{
    const struct yk_rule *r = &s->crew.rule;
    uint64_t newest = s->now.position / r->rows, oldest = newest, begun = 0, whole, all;
    for (unsigned i = 0; i < r->shares && r->shares > 1; i++)
        oldest = least(oldest, s->share[i].next / r->rows);
    for (unsigned i = 0; i < s->restored; i++)
        oldest = least(oldest, s->restored_pool[i] / r->rows);
    for (uint64_t epoch = oldest; epoch <= newest; epoch++)
        begun += upward(parts_of(s, epoch), r->need);
    whole = newest + 1 < (uint64_t)s->o.epochs ? (uint64_t)s->o.epochs - newest - 1 : 0;
    if (__builtin_mul_overflow(whole, upward(parts_of(s, newest + 1), r->need), &all) ||
        __builtin_add_overflow(all, begun, &all))
        return UINT64_MAX - 1;
    return all;
}

uint64_t yk_session_end(const struct yk_session *s, enum yk_stop *why)
{
    uint64_t end = UINT64_MAX;
    enum yk_stop reason = YK_RUNNING;
    if (s->o.epochs > 0) {
        if (__builtin_add_overflow(s->now.step, steps_left(s), &end))
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

static yk_code check(struct yk_session *s, struct yk_watch *l, bool last, struct yk_error *e)
{
    double seconds = yk_session_seconds(s), took = seconds - l->mark_seconds;
    uint64_t steps = s->now.step - l->mark_step;
    if (s->now.loss_examples > 0)
        s->curve.train_loss = s->now.loss / (double)s->now.loss_examples;
    if (s->stop != YK_STOP_SIGNAL) { /* a resumed run goes on with this interval */
        s->now.loss = 0;
        s->now.loss_examples = 0;
    }
    l->mark_step = s->now.step;
    l->mark_seconds = seconds;
    return yk_evaluator_post(s, s->curve.train_loss, took > 0 ? (double)steps / took : NAN, last,
                             e);
}

static void show_progress(struct yk_session *s, struct yk_watch *l, double now)
{
    char text[200], test[64] = "";
    double seconds = yk_session_seconds(s);
    double part = l->last_step != UINT64_MAX ? (double)s->now.step / (double)l->last_step : -1;
    if (s->o.max_seconds > 0)
        part = fmax(part, fmin((seconds - s->times.before) / s->o.max_seconds, 1));
    if (!isnan(s->curve.test_loss))
        snprintf(test, sizeof test, "  test %.4f %.2f %%", s->curve.test_loss,
                 s->curve.test_accuracy * 100);
    snprintf(text, sizeof text, "step %llu  epoch %.1f  train %.4f%s  %.0f steps/s",
             (unsigned long long)s->now.step, (double)s->now.examples / (double)s->crew.rule.rows,
             s->now.loss_examples > 0 ? s->now.loss / (double)s->now.loss_examples
                                      : s->curve.train_loss,
             test, (double)(s->now.step - s->first_step) / fmax(seconds - s->times.before, 1e-9));
    yk_progress_show(&l->progress, now, part, text);
}

/* The progressive loss: the mean over rows of what each cost before it was learnt, over all and since the line before; at powers of two. */
static void show_power(struct yk_session *s, struct yk_watch *l)
{
    uint64_t rows = s->now.examples;
    if (rows < l->power)
        return;
    if (l->power_rows == 0)
        yk_log_line(s->log, YK_INFO, "%10s %10s %14s %12s", "average", "since", "rows", "features");
    char features[16] = "-"; /* of the last row; with --data-local it may be another host's */
    if (!s->o.data_local) {
        struct yk_batch last;
        yk_source_at(&s->source, s->now.position - 1, 1, UINT64_MAX, &last);
        snprintf(features, sizeof features, "%u",
                 s->train.sparse != NULL ? yk_row_at(s->train.sparse, last.row[0]).n
                                         : s->train.features);
    }
    yk_log_line(s->log, YK_INFO, "%10.6f %10.6f %14llu %12s", s->now.total_loss / (double)rows,
                (s->now.total_loss - l->power_loss) / (double)(rows - l->power_rows),
                (unsigned long long)rows, features);
    l->power_loss = s->now.total_loss;
    l->power_rows = rows;
    while (l->power <= rows)
        l->power *= 2;
}

/* The step at which it is said next. */
static uint64_t power_step(const struct yk_session *s)
{
    if (s->watch.power == UINT64_MAX)
        return UINT64_MAX;
    return s->now.step + upward(s->watch.power - s->now.examples, yk_session_batch(s));
}

static yk_code look_round(struct yk_session *s, struct yk_watch *l, struct yk_error *e)
{
    double now = yk_now(), seconds = yk_session_seconds(s);
    yk_code rc = yk_evaluator_collect(s, false, e);
    show_power(s, l);
    if (rc != YK_OK || s->stop != YK_RUNNING)
        return rc;
    if (s->stop_signal != 0)
        s->stop = YK_STOP_SIGNAL;
    else if (s->now.step >= l->last_step)
        s->stop = l->last_why;
    else if (s->o.max_seconds > 0 && seconds - s->times.before >= s->o.max_seconds)
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
        rc = yk_evaluator_collect(
            s, true,
            e); /* a check is on record before the checkpoint that would skip it on resume */
        if (rc == YK_OK && s->stop == YK_RUNNING)
            rc = yk_saver_post(s, e);
        due_after(&l->save, &s->now, seconds);
    }
    if (yk_progress_due(&l->progress, now))
        show_progress(s, l, now);

    double often = yk_session_sweeps(s) ? SWEEP_SECONDS : LOOK_SECONDS;
    if (now - l->looked < often / 2 && l->stride < 1 << 20)
        l->stride *= 2;
    else if (now - l->looked > often * 2 && l->stride > 1)
        l->stride /= 2;
    l->looked = now;
    l->look_at = least(least(s->now.step + l->stride, l->last_step),
                       least(due_step(&l->check, s), due_step(&l->save, s)));
    l->look_at = least(l->look_at, power_step(s));
    return rc;
}

/* Will this look touch the state? Then parts of it that other processes own have to be fetched first. */
static bool needs_state(const struct yk_session *s, double seconds)
{
    const struct yk_watch *l = &s->watch;
    bool writing = s->save_pending && yk_lane_busy(s->writer); /* then the next one waits */
    return is_due(&l->check, &s->now, seconds) || (!writing && is_due(&l->save, &s->now, seconds));
}

/* What was due has been done, or a stop rule holds. */
static enum yk_verdict verdict_of(const struct yk_session *s)
{
    const struct yk_watch *l = &s->watch;
    bool reached = s->stop == YK_STOP_TARGET_LOSS || s->stop == YK_STOP_TARGET_ACCURACY;
    return l->rc != YK_OK || reached ? YK_LEAVE : s->stop != YK_RUNNING ? YK_HALT : YK_GO;
}

/* Other processes own parts of a sparse model, and everything stands still: look round, on a thread that may ask them. */
static void look_still(void *arg)
{
    struct yk_session *s = arg;
    struct yk_comm *c = s->crew.comm;
    if (s->watch.rc == YK_OK)
        s->watch.rc = yk_saver_wait(s, &s->watch.error); /* it asks the owners, too */
    if (s->watch.rc == YK_OK)
        s->watch.rc = look_round(s, &s->watch, &s->watch.error);
    c->ops->lock(c, 0);
    yk_server_resume(&s->crew.server[0], verdict_of(s));
    c->ops->unlock(c, 0);
}

enum yk_verdict yk_watch_stepped(void *arg, const struct yk_stepped *st)
{
    struct yk_session *s = arg;
    struct yk_watch *l = &s->watch;
    if (st != NULL) {
        s->now.step = st->step;
        s->now.examples += st->examples;
        s->now.loss += st->loss;
        s->now.total_loss += st->loss;
        s->now.loss_examples += st->examples;
        s->now.position =
            s->crew.rule.pooled ? yk_deal_position(&s->crew.clock.deal) : s->crew.clock.position;
        if (!isfinite(st->loss) && l->rc == YK_OK) {
            l->rc = yk_fail(&l->error, YK_FAILED,
                            "training diverged: the loss of step %llu is not a number",
                            (unsigned long long)s->now.step);
            yk_hint(&l->error, "try a smaller --lr than %g", s->o.lr);
        }
        if (l->rc != YK_OK)
            return YK_LEAVE;
        if (s->stop != YK_RUNNING) /* somebody's push was under way */
            return YK_HALT;
        if (s->now.step < l->look_at && s->stop_signal == 0)
            return YK_GO;
    }
    if (st != NULL && yk_crew_elsewhere(s) && needs_state(s, yk_session_seconds(s)))
        return s->crew.rule.sparse ? YK_HOLD : YK_LOOK;
    if (st == NULL && s->crew.rule.sparse && yk_crew_elsewhere(s)) {
        yk_lane_post(s->evaluator, look_still, s);
        return YK_HOLD;
    }
    yk_crew_hold(s);
    l->rc = look_round(s, l, &l->error);
    bool reached = s->stop == YK_STOP_TARGET_LOSS || s->stop == YK_STOP_TARGET_ACCURACY;
    for (unsigned i = 0; (reached || l->rc != YK_OK) && i < s->crew.servers; i++)
        s->crew.server[i].halted =
            true; /* the state is that of the snapshot: nothing may change it */
    yk_crew_free(s);
    return verdict_of(s);
}

void yk_watch_signal(struct yk_session *s)
{
    s->stop = YK_STOP_SIGNAL;
    yk_server_stop(&s->crew.server[0]);
}

/* A new worker that dies before it has done anything would only be followed by the next. */
static bool may_replace(struct yk_session *s, unsigned worker)
{
    uint64_t done = s->crew.clock.member[worker].ledger.steps;
    bool idle = s->replaced > 0 && s->replaced_worker == worker && s->replaced_steps == done;
    if (idle || s->replaced == REPLACEMENTS) {
        yk_session_event(s, YK_WARN,
                         idle ? "the new worker did nothing before it was lost: no other is started"
                              : "too many workers were replaced: no other is started");
        return false;
    }
    s->replaced++;
    s->replaced_worker = worker;
    s->replaced_steps = done;
    return true;
}

bool yk_watch_lost(void *arg, int worker, const char *why)
{
    struct yk_session *s = arg;
    const char *policy = s->o.on_worker_loss;
    bool all = s->crew.rule.mode == YK_MODE_allreduce; /* every worker is an owner */
    s->job.clean = false;
    if (worker < 0) {
        yk_session_event(s, YK_WARN, "an owner is lost: %s", why);
        return false;
    }
    s->lost++;
    if (all || strcmp(policy, "fail") == 0 || strcmp(policy, "restart") == 0 ||
        !s->job.mpi.recovery) {
        yk_session_event(s, YK_WARN, "worker %d is lost: %s%s", worker, why,
                         all ? "; in an all-reduce it owns parameters" : "");
        return false;
    }
    if (yk_clock_sole(&s->crew.clock, (unsigned)worker)) {
        yk_session_event(s, YK_WARN, "worker %d is lost: %s; nobody else has its host's data",
                         worker, why);
        return false;
    }
    yk_session_event(s, YK_WARN, "worker %d is lost: %s; going on with %u", worker, why,
                     s->crew.clock.alive - 1);
    if (strcmp(policy, "replace") == 0 && s->crew.clock.alive > 1 &&
        may_replace(s, (unsigned)worker))
        yk_server_want(&s->crew.server[0], (unsigned)worker);
    return true;
}

/* The run is over: a last look at the parameters, and everything onto the disk. */
static yk_code finish(struct yk_session *s, struct yk_watch *l, struct yk_error *e)
{
    char dir[YK_PATH_MAX];
    yk_code rc = yk_evaluator_collect(s, true, e);
    if (s->stop != YK_STOP_TARGET_LOSS &&
        s->stop != YK_STOP_TARGET_ACCURACY) /* those ended with a snapshot, and its time */
        s->now.seconds = yk_session_seconds(s);
    if (rc == YK_OK && s->curve.tested_step != s->now.step &&
        (s->now.loss_examples > 0 || s->test.rows > 0)) {
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

static void begin(struct yk_session *s)
{
    struct yk_watch *l = &s->watch;
    *l = (struct yk_watch){.check.every = s->o.eval_every,
                           .save.every = s->o.checkpoint_every,
                           .stride = 1,
                           .power = UINT64_MAX};
    if ((s->o.progressive || (s->ops->keys != NULL && s->test.rows == 0)) && s->crew.has_clock) {
        l->power_loss = s->now.total_loss;
        l->power_rows = s->now.examples;
        for (l->power = 1; l->power <= s->now.examples;)
            l->power *= 2;
    }
    l->last_step = yk_session_end(s, &l->last_why);
    yk_progress_init(&l->progress, s->log);
    s->times.started = yk_now();
    s->times.startup = s->times.started - s->times.opened;
    s->times.before = l->mark_seconds = s->now.seconds;
    s->first_step = l->mark_step = s->now.step;
    due_after(&l->check, &s->now, s->times.before);
    due_after(&l->save, &s->now, s->times.before);
    s->curve.train_loss = NAN;
}

yk_code yk_session_train(struct yk_session *s, struct yk_error *e)
{
    struct yk_watch *l = &s->watch;
    struct yk_crew *c = &s->crew;
    begin(s);
    if (c->has_clock) {
        yk_code rc = look_round(s, l, e);
        if (rc != YK_OK)
            return rc;
        c->clock.stopping = s->stop != YK_RUNNING; /* there may be nothing to do */
    }
    yk_code rc = yk_crew_start(s, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_crew_run(s, e);
    if (!c->has_clock)
        return rc;
    yk_progress_clear(&l->progress);
    if (rc == YK_LOST) {
        s->stop = YK_STOP_LOST;
        if (c->rule.owners == 1 && s->now.step > 0 && yk_saver_wait(s, NULL) == YK_OK &&
            yk_saver_post(s, NULL) == YK_OK)
            yk_saver_wait(s, NULL); /* the state is whole: nothing that was learnt is lost */
    }
    if (rc == YK_OK && l->rc != YK_OK) {
        rc = l->rc;
        *e = l->error;
    }
    if (rc == YK_OK)
        rc = finish(s, l, e);
    return rc;
}
