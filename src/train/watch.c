/* watch.c - watches the training from owner 0's place: everything that is due between steps.
 *
 * Owner 0 calls yk_watch_stepped after every update. Mostly that only counts. Checks, checkpoints,
 * progress, stop rules and Ctrl-C wait until the watcher *looks round*: at the steps where
 * something is due by count, and otherwise about once a millisecond, so that a step of a few
 * microseconds does not read the clock. Where other processes own parts of the parameters, the
 * watcher has them fetched before it looks at the state.
 * THREADS: under owner 0's lock while workers run, on the thread that pushed last. */
#include "train/watch.h"

#include "base/clock.h"
#include "record/progress.h"
#include "train/loop.h"
#include "train/plan.h"
#include "train/save.h"
#include "train/session.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOOK_SECONDS = 1e-3;  /* time between looks */
static const double SWEEP_SECONDS = 2e-2; /* the same for sweeps, which need some 10,000 rows */
enum {
    REPLACEMENTS = 100, /* most of one run: more is not bad luck */
    STALLS = 8,         /* stalls that are kept until the next look */
};

/* Something that happens every so often. */
struct due {
    struct yk_every every;
    double next; /* in the unit of `every` */
};

/* How often MPI has kept this rank waiting, and how long each time. The engine writes `count` and
 * `ms`, the watcher reads them. */
struct stalls {
    atomic_uint count;
    atomic_long ms[STALLS]; /* the last STALLS of them */
    unsigned noted;         /* stalls that are incidents already */
};

/* Lines of the progressive loss, at powers of two. */
struct progressive {
    uint64_t due; /* rows at the next line; UINT64_MAX: never */
    uint64_t rows;
    double loss; /* summed loss and rows at the last line */
};

/* New workers in the place of lost ones. */
struct replacements {
    unsigned count;
    unsigned worker; /* the last one that was replaced */
    uint64_t steps;  /* steps that it had done */
};

struct yk_watch {
    struct due check, save;
    uint64_t first_step; /* steps done before this start */
    uint64_t last_step;  /* step at which --steps or --epochs end the run */
    enum yk_stop last_why;
    uint64_t look_at;    /* step of the next look */
    uint64_t stride;     /* steps between looks that nothing forces */
    double looked;       /* time of the last look */
    double mark_seconds; /* seconds at the last check, or at this start before one */
    uint64_t mark_step;  /* step of the last check, or of this start before one */
    bool still;          /* every push has been applied by all owners, or by none */
    struct progressive progressive;
    struct yk_progress progress;
    struct stalls stalls;
    struct replacements replaced;
    yk_code rc; /* the error that ended the training, if it failed */
    struct yk_error error;
};

yk_code yk_watch_open(struct yk_session *s, struct yk_error *e)
{
    s->watch = calloc(1, sizeof *s->watch);
    return s->watch != NULL ? YK_OK : yk_fail_memory(e, sizeof *s->watch);
}

void yk_watch_close(struct yk_session *s)
{
    free(s->watch);
    s->watch = NULL;
}

/* The next incident of the summary, at this moment. */
static struct yk_incident *add_incident(struct yk_session *s)
{
    struct yk_incidents *all = &s->incidents;
    struct yk_incident *v =
        &all->event[all->events < YK_INCIDENTS ? all->events++ : YK_INCIDENTS - 1];
    v->seconds = s->times.started > 0 ? yk_session_seconds(s) : 0;
    v->step = s->now.step;
    return v;
}

void yk_incident(struct yk_session *s, enum yk_level level, const char *fmt, ...)
{
    struct yk_incident *v = add_incident(s);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->text, sizeof v->text, fmt, ap);
    va_end(ap);
    yk_log_line(s->log, level, "step %llu: %s", (unsigned long long)v->step, v->text);
}

static double amount(const struct due *d, const struct yk_moment *now, double seconds)
{
    return d->every.unit == YK_STEPS      ? (double)now->step
           : d->every.unit == YK_EXAMPLES ? (double)now->examples
                                          : seconds;
}

static void due_after(struct due *d, const struct yk_moment *now, double seconds)
{
    d->next = (floor(amount(d, now, seconds) / d->every.amount) + 1) * d->every.amount;
}

static bool is_due(const struct due *d, const struct yk_moment *now, double seconds)
{
    return d->every.unit != YK_NEVER && amount(d, now, seconds) >= d->next;
}

/* The first step at which it can be due by count. */
static uint64_t due_step(const struct due *d, const struct yk_session *s)
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

yk_code yk_watch_check(struct yk_session *s, bool last, struct yk_error *e)
{
    struct yk_watch *l = s->watch;
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
             test, (double)(s->now.step - l->first_step) / fmax(seconds - s->times.before, 1e-9));
    yk_progress_show(&l->progress, now, part, text);
}

/* The progressive loss: the mean loss of rows before they were learnt, over all rows and over those
 * since the line before. */
static void show_progressive(struct yk_session *s, struct progressive *p)
{
    uint64_t rows = s->now.examples;
    if (rows < p->due)
        return;
    if (p->rows == 0)
        yk_log_line(s->log, YK_INFO, "%10s %10s %14s %12s", "average", "since", "rows", "features");
    char features[16] = "-"; /* of the last row; with --data-local another host may have it */
    if (!s->o.data_local) {
        struct yk_batch last;
        const struct yk_dataset *train = &s->input.train;
        yk_source_at(&s->input.source, s->now.position - 1, 1, UINT64_MAX, &last);
        snprintf(features, sizeof features, "%u",
                 train->sparse != NULL ? yk_row_at(train->sparse, last.row[0]).n : train->features);
    }
    yk_log_line(s->log, YK_INFO, "%10.6f %10.6f %14llu %12s", s->now.total_loss / (double)rows,
                (s->now.total_loss - p->loss) / (double)(rows - p->rows), (unsigned long long)rows,
                features);
    p->loss = s->now.total_loss;
    p->rows = rows;
    while (p->due <= rows)
        p->due *= 2;
}

/* The step of the next line of the progressive loss. */
static uint64_t progressive_step(const struct yk_session *s)
{
    uint64_t due = s->watch->progressive.due, batch = yk_session_batch(s);
    return due == UINT64_MAX ? due : s->now.step + (due - s->now.examples + batch - 1) / batch;
}

/* Where pushes are applied as they come, one step may include a part of another push: at another
 * owner, or in the range of another layer. */
static bool may_tear(const struct yk_session *s)
{
    return s->crew.rule.pooled && !s->crew.rule.held;
}

/* The log has the line at once. The incident waits for the next look, because owner 0's lock may be
 * held by a thread that is still inside MPI. */
void yk_watch_stalled(void *arg, const char *text, double seconds, bool over)
{
    struct yk_session *s = arg;
    struct stalls *all = &s->watch->stalls;
    yk_log_line(s->log, YK_WARN, "%s", text);
    if (!over || !s->crew.has_clock)
        return;
    unsigned n = atomic_load(&all->count);
    atomic_store(&all->ms[n % STALLS], (long)(seconds * 1000));
    atomic_store(&all->count, n + 1);
}

void yk_watch_note_stalls(struct yk_session *s)
{
    struct stalls *all = &s->watch->stalls;
    unsigned n = atomic_load(&all->count);
    if (n - all->noted > STALLS)
        all->noted = n - STALLS;
    for (; all->noted != n; all->noted++) {
        long ms = atomic_load(&all->ms[all->noted % STALLS]);
        struct yk_incident *v = add_incident(s);
        snprintf(v->text, sizeof v->text, "rank 0: Open MPI answers again, after %.1f s",
                 (double)ms / 1000);
    }
}

static enum yk_stop stop_rule(const struct yk_session *s, double seconds)
{
    if (s->stop_signal != 0)
        return YK_STOP_SIGNAL;
    if (s->now.step >= s->watch->last_step)
        return s->watch->last_why;
    if (s->o.max_seconds > 0 && seconds - s->times.before >= s->o.max_seconds)
        return YK_STOP_MAX_SECONDS;
    return YK_RUNNING;
}

/* A check at the very last step may still find the target reached. */
static yk_code check_due(struct yk_session *s, struct yk_watch *l, double seconds,
                         struct yk_error *e)
{
    enum yk_stop why = s->stop;
    s->stop = YK_RUNNING;
    yk_code rc = yk_watch_check(s, false, e);
    due_after(&l->check, &s->now, seconds);
    if (s->stop == YK_RUNNING)
        s->stop = why;
    return rc;
}

/* A torn state cannot be saved: the checkpoint stays due. While another one is being written, it
 * is skipped. A check is on record before the checkpoint that would skip it when the run is
 * resumed. */
static yk_code save_due(struct yk_session *s, struct yk_watch *l, double seconds,
                        struct yk_error *e)
{
    bool torn = may_tear(s) && !l->still;
    if (torn && !yk_saver_busy(s))
        return YK_OK;
    yk_code rc = yk_evaluator_collect(s, true, e);
    if (rc == YK_OK && s->stop == YK_RUNNING && !torn)
        rc = yk_saver_post(s, e);
    due_after(&l->save, &s->now, seconds);
    return rc;
}

static void plan_next_look(struct yk_session *s, struct yk_watch *l, double now)
{
    double often = yk_sweep_fits(s) ? SWEEP_SECONDS : LOOK_SECONDS;
    if (now - l->looked < often / 2 && l->stride < 1 << 20)
        l->stride *= 2;
    else if (now - l->looked > often * 2 && l->stride > 1)
        l->stride /= 2;
    l->looked = now;
    l->look_at = least(least(s->now.step + l->stride, l->last_step),
                       least(due_step(&l->check, s), due_step(&l->save, s)));
    l->look_at = least(l->look_at, progressive_step(s));
}

static yk_code look_round(struct yk_session *s, struct yk_error *e)
{
    struct yk_watch *l = s->watch;
    double now = yk_now(), seconds = yk_session_seconds(s);
    yk_code rc = yk_input_intact(&s->input, e);
    if (rc == YK_OK)
        rc = yk_evaluator_collect(s, false, e);
    show_progressive(s, &l->progressive);
    yk_watch_note_stalls(s);
    if (rc != YK_OK || s->stop != YK_RUNNING)
        return rc;
    s->stop = stop_rule(s, seconds);
    if (is_due(&l->check, &s->now, seconds))
        rc = check_due(s, l, seconds, e);
    if (rc == YK_OK && s->stop == YK_RUNNING && is_due(&l->save, &s->now, seconds))
        rc = save_due(s, l, seconds, e);
    if (yk_progress_due(&l->progress, now))
        show_progress(s, l, now);
    plan_next_look(s, l, now);
    return rc;
}

/* May this look make a checkpoint, now or when a target has been reached? */
static bool may_save(const struct yk_session *s, double seconds)
{
    const struct yk_watch *l = s->watch;
    bool target = s->o.target_loss > 0 || s->o.target_accuracy > 0;
    return (!yk_saver_busy(s) && is_due(&l->save, &s->now, seconds)) ||
           (target && is_due(&l->check, &s->now, seconds));
}

/* What must happen before this look. A checkpoint may not contain a part of a push, because a
 * resumed run repeats all of that push; and the state of other processes has to be fetched, or has
 * to stand still where it is. Called with all locks of this process. */
static enum yk_verdict needs(const struct yk_session *s)
{
    double seconds = yk_session_seconds(s);
    bool saves = may_save(s, seconds), state = saves || is_due(&s->watch->check, &s->now, seconds);
    bool whole = saves && may_tear(s) && s->stop_signal == 0;
    if (yk_crew_elsewhere(&s->crew))
        return whole || (state && s->crew.rule.sparse) ? YK_HOLD : state ? YK_LOOK : YK_GO;
    return whole && !s->watch->still ? YK_PAUSE : YK_GO;
}

static enum yk_verdict verdict_after_look(const struct yk_session *s)
{
    if (s->watch->rc != YK_OK || yk_session_reached_target(s))
        return YK_LEAVE;
    return s->stop != YK_RUNNING ? YK_HALT : YK_GO;
}

/* Other processes own parts of a sparse model, and all of them stand still. This look runs on a
 * thread that may ask them. */
static void look_while_still(void *arg)
{
    struct yk_session *s = arg;
    struct yk_watch *l = s->watch;
    struct yk_comm *c = s->crew.comm;
    if (l->rc == YK_OK)
        l->rc = yk_saver_wait(s, &l->error); /* the writer asks the owners, too */
    if (l->rc == YK_OK)
        l->rc = look_round(s, &l->error);
    c->ops->lock(c, 0);
    yk_server_resume(&s->crew.server[0], verdict_after_look(s));
    c->ops->unlock(c, 0);
}

static void count_step(struct yk_session *s, const struct yk_stepped *st)
{
    struct yk_watch *l = s->watch;
    const struct yk_clock *clock = &s->crew.clock;
    s->now.step = st->step;
    s->now.examples += st->examples;
    s->now.loss += st->loss;
    s->now.total_loss += st->loss;
    s->now.loss_examples += st->examples;
    s->now.position = s->crew.rule.pooled ? yk_deal_position(&clock->deal) : clock->position;
    if (!isfinite(st->loss) && l->rc == YK_OK)
        l->rc = yk_session_diverged(s, s->now.step, "the loss of", &l->error);
}

/* `st` is NULL when owner 0 has done what an earlier verdict asked for. */
enum yk_verdict yk_watch_stepped(void *arg, const struct yk_stepped *st)
{
    struct yk_session *s = arg;
    struct yk_watch *l = s->watch;
    struct yk_crew *c = &s->crew;
    if (st != NULL)
        count_step(s, st);
    if (l->rc != YK_OK)
        return YK_LEAVE;
    if (st != NULL && s->stop != YK_RUNNING) /* a push that was under way when the run stopped */
        return YK_HALT;
    if (st != NULL && s->now.step < l->look_at && s->stop_signal == 0)
        return YK_GO;
    if (st == NULL && c->rule.sparse && yk_crew_elsewhere(c)) {
        yk_evaluator_lend(s, look_while_still, s);
        return YK_HOLD;
    }
    yk_crew_lock_owners(c);
    if (st != NULL) {
        l->still = !yk_crew_elsewhere(c) && yk_servers_even(c->server, c->servers);
        enum yk_verdict first = needs(s);
        if (first != YK_GO) {
            l->still = first == YK_HOLD; /* at the next call */
            yk_crew_unlock_owners(c);
            return first;
        }
    }
    l->rc = look_round(s, &l->error);
    enum yk_verdict verdict = verdict_after_look(s);
    if (verdict == YK_LEAVE) /* the state is that of the snapshot, and has to stay so */
        for (unsigned i = 0; i < c->servers; i++)
            yk_server_halt(&c->server[i]);
    yk_crew_unlock_owners(c);
    return verdict;
}

void yk_watch_signal(struct yk_session *s)
{
    s->stop = YK_STOP_SIGNAL;
    yk_server_stop(&s->crew.server[0]);
}

/* If a new worker dies before it has done anything, the next one would, too. */
static bool is_worth_replacing(struct yk_session *s, unsigned worker)
{
    struct replacements *r = &s->watch->replaced;
    uint64_t done = s->crew.clock.member[worker].ledger.steps;
    bool idle = r->count > 0 && r->worker == worker && r->steps == done;
    if (idle || r->count == REPLACEMENTS) {
        yk_incident(s, YK_WARN,
                    idle ? "the new worker did nothing before it was lost: no other is started"
                         : "too many workers were replaced: no other is started");
        return false;
    }
    *r = (struct replacements){.count = r->count + 1, .worker = worker, .steps = done};
    return true;
}

bool yk_watch_lost(void *arg, int worker, const char *why)
{
    struct yk_session *s = arg;
    const char *policy = s->o.on_worker_loss;
    bool owns = yk_plan_workers_own(&s->crew.rule);
    s->job.clean = false;
    if (worker < 0) {
        yk_incident(s, YK_WARN, "an owner is lost: %s", why);
        return false;
    }
    s->incidents.lost++;
    if (owns || strcmp(policy, "fail") == 0 || strcmp(policy, "restart") == 0 ||
        !s->job.mpi.recovery) {
        yk_incident(s, YK_WARN, "worker %d is lost: %s%s", worker, why,
                    owns ? "; in an all-reduce it owns parameters" : "");
        return false;
    }
    if (yk_clock_sole(&s->crew.clock, (unsigned)worker)) {
        yk_incident(s, YK_WARN, "worker %d is lost: %s; no other worker has its host's data",
                    worker, why);
        return false;
    }
    yk_incident(s, YK_WARN, "worker %d is lost: %s; going on with %u", worker, why,
                s->crew.clock.alive - 1);
    if (strcmp(policy, "replace") == 0 && s->crew.clock.alive > 1 &&
        is_worth_replacing(s, (unsigned)worker))
        yk_server_want(&s->crew.server[0], (unsigned)worker);
    return true;
}

uint64_t yk_watch_next(const struct yk_session *s)
{
    return s->watch->look_at;
}

/* The line of the progressive loss comes by itself where no test set says how good the model is. */
static void begin_progressive(const struct yk_session *s, struct progressive *p)
{
    p->due = UINT64_MAX;
    if (!s->crew.has_clock ||
        !(s->o.progressive || (s->ops->keys != NULL && s->input.test.rows == 0)))
        return;
    p->loss = s->now.total_loss;
    p->rows = s->now.examples;
    p->due = 1;
    while (p->due <= s->now.examples)
        p->due *= 2;
}

yk_code yk_watch_begin(struct yk_session *s, struct yk_error *e)
{
    struct yk_watch *l = s->watch;
    l->check.every = s->o.eval_every;
    l->save.every = s->o.checkpoint_every;
    due_after(&l->check, &s->now, s->times.before);
    due_after(&l->save, &s->now, s->times.before);
    l->stride = 1;
    l->last_step = yk_session_end(s, &l->last_why);
    l->mark_seconds = s->times.before;
    l->first_step = l->mark_step = s->now.step;
    begin_progressive(s, &l->progressive);
    yk_progress_init(&l->progress, s->log);
    if (!s->crew.has_clock)
        return YK_OK;
    yk_code rc = look_round(s, e);
    s->crew.clock.stopping = s->stop != YK_RUNNING; /* there may be nothing to do */
    return rc;
}

yk_code yk_watch_end(struct yk_session *s, struct yk_error *e)
{
    struct yk_watch *l = s->watch;
    yk_progress_clear(&l->progress);
    if (l->rc != YK_OK && e != NULL)
        *e = l->error;
    return l->rc;
}
