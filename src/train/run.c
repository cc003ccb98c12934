/* run.c - a training run from its first step to its last.
 *
 * Training begins with the clocks of the run, lets the crew work, and ends with a last evaluation
 * and a last checkpoint. The step at which the run ends is computed here, too.
 * THREADS: the thread that opened the session. While workers run, the watcher acts for the run. */
#include "base/clock.h"
#include "param/checkpoint.h"
#include "train/save.h"
#include "train/session.h"

#include <math.h>

double yk_session_seconds(const struct yk_session *s)
{
    return s->times.before + (yk_now() - s->times.started - s->times.blocked);
}

uint32_t yk_session_batch(const struct yk_session *s)
{
    return s->crew.rule.batch * s->crew.rule.need;
}

yk_code yk_session_diverged(const struct yk_session *s, uint64_t step, const char *what,
                            struct yk_error *e)
{
    yk_code rc = yk_input_intact(&s->input, e);
    if (rc != YK_OK)
        return rc;
    yk_fail(e, YK_FAILED, "training diverged: %s step %llu is not a number", what,
            (unsigned long long)step);
    yk_hint(e, "try a smaller --lr than %g", s->o.lr);
    return YK_FAILED;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* Parts of an epoch that are not done yet: new ones of every share, and those that an earlier start
 * left over. */
static uint64_t parts_left(const struct yk_session *s, uint64_t epoch)
{
    const struct yk_rule *r = &s->crew.rule;
    uint64_t parts = 0;
    for (unsigned i = 0; i < s->resume.pooled; i++)
        parts += s->resume.pool[i] / r->rows == epoch;
    if (epoch >= (uint64_t)s->o.epochs)
        return parts;
    for (unsigned i = 0; i < r->shares; i++) {
        const struct yk_share *share = &s->input.share[i];
        uint64_t next = r->shares > 1 ? share->next : s->now.position, at = next / r->rows;
        if (at <= epoch)
            parts +=
                divide_up(share->rows - (at == epoch ? next % r->rows - share->from : 0), r->batch);
    }
    return parts;
}

/* Steps from here to the end of the last epoch. Earlier starts may have made steps of another
 * size. The parts of a step are all of one epoch, so each unfinished epoch ends with a step of
 * its own. */
static uint64_t steps_left(const struct yk_session *s)
{
    const struct yk_rule *r = &s->crew.rule;
    uint64_t newest = s->now.position / r->rows, oldest = newest, begun = 0, whole, all;
    if (r->shares > 1)
        for (unsigned i = 0; i < r->shares; i++)
            oldest = least(oldest, s->input.share[i].next / r->rows);
    for (unsigned i = 0; i < s->resume.pooled; i++)
        oldest = least(oldest, s->resume.pool[i] / r->rows);
    for (uint64_t epoch = oldest; epoch <= newest; epoch++)
        begun += divide_up(parts_left(s, epoch), r->need);
    whole = newest + 1 < (uint64_t)s->o.epochs ? (uint64_t)s->o.epochs - newest - 1 : 0;
    if (__builtin_mul_overflow(whole, divide_up(parts_left(s, newest + 1), r->need), &all) ||
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

static yk_code save(struct yk_session *s, struct yk_error *e)
{
    yk_code rc = yk_saver_post(s, e);
    return rc == YK_OK ? yk_saver_wait(s, e) : rc;
}

/* A needed process is gone. If all parameters are here and whole, a checkpoint keeps every step. */
static void end_lost(struct yk_session *s)
{
    s->stop = YK_STOP_LOST;
    bool whole = s->crew.rule.owners == 1 && yk_servers_even(s->crew.server, 1);
    if (whole && s->now.step > 0 && yk_saver_wait(s, NULL) == YK_OK)
        save(s, NULL);
}

/* The last evaluation, unless the last check has seen these parameters. */
static yk_code check_last(struct yk_session *s, struct yk_error *e)
{
    yk_code rc = yk_input_intact(&s->input, e);
    if (rc == YK_OK)
        rc = yk_evaluator_collect(s, true, e);
    if (!yk_session_reached_target(s)) /* such a run ended at the moment of its snapshot */
        s->now.seconds = yk_session_seconds(s);
    if (rc == YK_OK && s->curve.tested_step != s->now.step &&
        (s->now.loss_examples > 0 || s->input.test.rows > 0)) {
        rc = yk_watch_check(s, true, e);
        if (rc == YK_OK)
            rc = yk_evaluator_collect(s, true, e);
    }
    return rc;
}

static yk_code finish(struct yk_session *s, struct yk_error *e)
{
    char dir[YK_PATH_MAX];
    yk_code rc = check_last(s, e);
    yk_code saved = yk_saver_wait(s, rc == YK_OK ? e : NULL);
    if (rc == YK_OK)
        rc = saved;
    if (rc == YK_OK)
        rc = yk_run_path(&s->run, "checkpoints", dir, e);
    if (rc != YK_OK)
        return rc;
    yk_checkpoint_drop_after(dir, s->now.step);
    return save(s, e);
}

static void begin(struct yk_session *s)
{
    s->times.started = yk_now();
    s->times.startup = s->times.started - s->times.opened;
    s->times.before = s->now.seconds;
    s->curve.train_loss = NAN;
}

yk_code yk_session_train(struct yk_session *s, struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    begin(s);
    yk_code rc = yk_watch_begin(s, e);
    if (rc == YK_OK)
        rc = yk_crew_start(s, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_crew_run(s, e);
    if (!c->has_clock)
        return rc;
    yk_code failed = yk_watch_end(s, rc == YK_OK ? e : NULL);
    if (rc == YK_LOST)
        end_lost(s);
    if (rc == YK_OK)
        rc = failed;
    if (rc == YK_OK)
        rc = finish(s, e);
    c->comm->ops->lock(c->comm, 0);
    yk_watch_note_stalls(s);
    c->comm->ops->unlock(c->comm, 0);
    return rc;
}
