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

static const double LOOK_SECONDS = 1e-3;
enum { REPLACEMENTS = 100 }; /* of one run: more is not bad luck */

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
    return d->every.unit == YK_STEPS ? (double)now->step : d->every.unit == YK_EXAMPLES ? (double)now->examples : seconds;
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
        return s->now.step + (uint64_t)ceil((d->next - (double)s->now.examples) / (double)yk_session_batch(s));
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

/* Steps from here to the end of the last epoch. Earlier starts of the run may have made steps of another size. With backups a step takes
 * several parts, all of one epoch, and the last of an epoch what is left; parts that an earlier start left over come first. */
static uint64_t steps_left(const struct yk_session *s)
{
    const struct yk_rule *r = &s->crew.rule;
    uint64_t rows = s->train.rows, epoch = s->now.position / rows, older = 0, here = 0, left = 0, all;
    for (unsigned i = 0; i < s->restored; i++) { /* each unfinished epoch ends with a step of its own */
        uint64_t of = s->restored_pool[i] / rows, parts = 0;
        bool first = true;
        for (unsigned k = 0; k < s->restored; k++) {
            parts += s->restored_pool[k] / rows == of;
            first = first && (k >= i || s->restored_pool[k] / rows != of);
        }
        here += of == epoch;
        older += of < epoch && first ? upward(parts, r->need) : 0;
    }
    if (epoch < (uint64_t)s->o.epochs) {
        here += upward(rows - s->now.position % rows, r->batch);
        left = (uint64_t)s->o.epochs - epoch - 1;
    }
    uint64_t begun = older + upward(here, r->need);
    if (__builtin_mul_overflow(left, upward(upward(rows, r->batch), r->need), &all) || __builtin_add_overflow(all, begun, &all))
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
    return yk_evaluator_post(s, s->curve.train_loss, took > 0 ? (double)steps / took : NAN, last, e);
}

static void show_progress(struct yk_session *s, struct yk_watch *l, double now)
{
    char text[200], test[64] = "";
    double seconds = yk_session_seconds(s);
    double part = l->last_step != UINT64_MAX ? (double)s->now.step / (double)l->last_step : -1;
    if (s->o.max_seconds > 0)
        part = fmax(part, fmin((seconds - s->times.before) / s->o.max_seconds, 1));
    if (!isnan(s->curve.test_loss))
        snprintf(test, sizeof test, "  test %.4f %.2f %%", s->curve.test_loss, s->curve.test_accuracy * 100);
    snprintf(text, sizeof text, "step %llu  epoch %.1f  train %.4f%s  %.0f steps/s", (unsigned long long)s->now.step,
             (double)s->now.examples / s->train.rows,
             s->now.loss_examples > 0 ? s->now.loss / (double)s->now.loss_examples : s->curve.train_loss, test,
             (double)(s->now.step - s->first_step) / fmax(seconds - s->times.before, 1e-9));
    yk_progress_show(&l->progress, now, part, text);
}

static yk_code look_round(struct yk_session *s, struct yk_watch *l, struct yk_error *e)
{
    double now = yk_now(), seconds = yk_session_seconds(s);
    yk_code rc = yk_evaluator_collect(s, false, e);
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

/* Will this look touch the state? Then parts of it that other processes own have to be fetched first. */
static bool needs_state(const struct yk_session *s, double seconds)
{
    const struct yk_watch *l = &s->watch;
    return is_due(&l->check, &s->now, seconds) || is_due(&l->save, &s->now, seconds);
}

enum yk_verdict yk_watch_stepped(void *arg, const struct yk_stepped *st)
{
    struct yk_session *s = arg;
    struct yk_watch *l = &s->watch;
    if (st != NULL) {
        s->now.step = st->step;
        s->now.examples += st->examples;
        s->now.loss += st->loss;
        s->now.loss_examples += st->examples;
        s->now.position = s->crew.rule.pooled ? s->crew.clock.deal.next : s->crew.clock.position;
        if (!isfinite(st->loss) && l->rc == YK_OK) {
            l->rc = yk_fail(&l->error, YK_FAILED, "training diverged: the loss of step %llu is not a number",
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
    bool elsewhere = !s->crew.comm->shared && s->crew.rule.owners > 1;
    if (st != NULL && elsewhere && needs_state(s, yk_session_seconds(s)))
        return YK_LOOK;
    yk_crew_hold(s);
    l->rc = look_round(s, l, &l->error);
    bool reached = s->stop == YK_STOP_TARGET_LOSS || s->stop == YK_STOP_TARGET_ACCURACY;
    for (unsigned i = 0; (reached || l->rc != YK_OK) && i < s->crew.servers; i++)
        s->crew.server[i].halted = true; /* the state is that of the snapshot: nothing may change it */
    yk_crew_free(s);
    return l->rc != YK_OK || reached ? YK_LEAVE : s->stop != YK_RUNNING ? YK_HALT : YK_GO;
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
    if (all || strcmp(policy, "fail") == 0 || strcmp(policy, "restart") == 0 || !s->job.mpi.recovery) {
        yk_session_event(s, YK_WARN, "worker %d is lost: %s%s", worker, why, all ? "; in an all-reduce it owns parameters" : "");
        return false;
    }
    yk_session_event(s, YK_WARN, "worker %d is lost: %s; going on with %u", worker, why, s->crew.clock.alive - 1);
    if (strcmp(policy, "replace") == 0 && s->crew.clock.alive > 1 && may_replace(s, (unsigned)worker))
        yk_server_want(&s->crew.server[0], (unsigned)worker);
    return true;
}

/* The run is over: a last look at the parameters, and everything onto the disk. */
static yk_code finish(struct yk_session *s, struct yk_watch *l, struct yk_error *e)
{
    char dir[YK_PATH_MAX];
    yk_code rc = yk_evaluator_collect(s, true, e);
    if (s->stop != YK_STOP_TARGET_LOSS && s->stop != YK_STOP_TARGET_ACCURACY) /* those ended with a snapshot, and its time */
        s->now.seconds = yk_session_seconds(s);
    if (rc == YK_OK && s->curve.tested_step != s->now.step && (s->now.loss_examples > 0 || s->test.rows > 0)) {
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
    *l = (struct yk_watch){.check.every = s->o.eval_every, .save.every = s->o.checkpoint_every, .stride = 1};
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
    yk_crew_start(s);
    yk_code rc = yk_crew_run(s, e);
    if (!c->has_clock)
        return rc;
    yk_progress_clear(&l->progress);
    if (rc == YK_LOST) {
        s->stop = YK_STOP_LOST;
        if (c->rule.owners == 1 && s->now.step > 0 && yk_saver_wait(s, NULL) == YK_OK && yk_saver_post(s, NULL) == YK_OK)
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
