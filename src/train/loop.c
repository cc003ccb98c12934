/* loop.c - the step loop of a worker: pull, step, commit.
 *
 * Everything that happens between steps happens at owner 0 (watch.c). One step in SAMPLE is timed
 * phase by phase, so that a step of a few microseconds does not read the clock.
 * THREADS: each worker runs it on a thread of its own. */
#include "train/loop.h"

#include "base/clock.h"
#include "data/images/prefetch.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 64 };

static double tick(bool timed)
{
    return timed ? yk_now() : 0;
}

static bool begins_epoch(const struct yk_session *s, const struct yk_task *t)
{
    return yk_input_position(s, t->id) % s->input.train.rows == 0;
}

/* The rows of shard i of the task, and those of the shard that comes next. */
static void rows_of(struct yk_session *s, const struct yk_task *t, uint32_t i,
                    struct yk_batch *batch)
{
    uint32_t v = s->crew.rule.shards, from = yk_shard_at(i, v, t->examples),
             to = yk_shard_at(i + 1, v, t->examples);
    uint64_t ahead = i + 1 < t->last ? t->id + to : t->ahead;
    if (ahead == t->ahead && ahead != YK_NO_PART)
        ahead += yk_shard_at(t->first, v, t->examples);
    yk_source_at(&s->input.source, yk_input_position(s, t->id) + from, to - from,
                 yk_input_position(s, ahead), batch);
}

/* The last batch of an epoch may have fewer examples than shards. An empty shard has gradient 0. */
static double empty_shard(const struct yk_params *params, struct yk_sink *sink)
{
    if (!yk_sink_need(sink, 0, params->count))
        return 0;
    memset(sink->grad, 0, params->count * sizeof(float));
    sink->ready(sink, 0, params->count);
    return 0;
}

/* Lists the keys of a task, for a model that needs their values before it computes. */
static yk_code plan_keys(struct yk_session *s, struct yk_local_worker *local, unsigned which,
                         const struct yk_task *t, struct yk_keys *keys)
{
    uint32_t n = t->last - t->first;
    struct yk_error e;
    if (n > local->shard_room) {
        struct yk_batch *more = realloc(local->shard, n * sizeof *more);
        if (more == NULL)
            return YK_FAILED;
        local->shard = more;
        local->shard_room = n;
    }
    for (uint32_t i = 0; i < n; i++)
        rows_of(s, t, t->first + i, &local->shard[i]);
    return s->ops->keys(local->work, which, local->shard, n, keys, &e);
}

/* Have mapped rows changed on the disk? In one process the watcher looks at the same mapping
 * before anything is saved, so a look now and then is enough here; over a wire only the worker
 * can look. */
static bool rows_changed(const struct yk_session *s, bool timed, struct yk_error *e)
{
    const struct yk_rows *rows = s->input.train.sparse;
    bool look = timed || !s->crew.comm->shared || !yk_rows_whole(rows);
    return look && yk_rows_intact(rows, e) != YK_OK;
}

static bool is_ready(const struct yk_ready *r, const struct yk_task *t)
{
    return r->id == t->id && r->first == t->first && r->last == t->last;
}

/* Makes the keys of a task the worker's next ones. False: out of memory. */
static bool get_ready(struct yk_session *s, struct yk_local_worker *local, const struct yk_task *t)
{
    struct yk_ready next = {
        .which = !local->ready.which, .id = t->id, .first = t->first, .last = t->last};
    if (plan_keys(s, local, next.which, t, &next.keys) != YK_OK) {
        local->worker.failed = YK_FAILED;
        return false;
    }
    local->ready = next;
    return true;
}

/* The task after this one, as far as it is known now. */
static struct yk_task task_after(const struct yk_session *s, const struct yk_task *t)
{
    struct yk_task after = *t;
    after.id = t->ahead;
    if (after.id == YK_NO_PART)
        return after;
    uint64_t rows = s->input.train.rows, left = rows - yk_input_position(s, after.id) % rows;
    after.examples = left < s->crew.rule.batch ? (uint32_t)left : s->crew.rule.batch;
    after.ahead = YK_NO_PART;
    return after;
}

/* The path of one batch of a sparse model: its keys, mostly sent ahead with the push before; their
 * values; gradients by key; and the keys of the batch after it. */
static void train_keys(struct yk_session *s, struct yk_local_worker *local,
                       const struct yk_task *task, double pulled, bool timed)
{
    struct yk_worker *w = &local->worker;
    struct yk_phases *p = &w->phases;
    struct yk_error e;
    double loss = 0, t0 = tick(timed), push = p->push;
    w->timed = timed;
    if (!is_ready(&local->ready, task) && !get_ready(s, local, task))
        return;
    const struct yk_ready now = local->ready;
    double t1 = tick(timed);
    if (!yk_worker_values(w, now.keys.key, now.keys.n))
        return;
    double t2 = tick(timed);
    for (uint32_t i = task->first; i < task->last; i++) {
        struct yk_batch batch;
        struct yk_sink *sink = yk_worker_sink(w, i);
        if (sink == NULL)
            return;
        rows_of(s, task, i, &batch);
        s->ops->choose(local->work, now.which, i - task->first);
        loss += s->ops->step(local->work, &w->params, &batch, sink);
    }
    double t3 = tick(timed);
    const struct yk_task after = task_after(s, task);
    struct yk_keys next = {0};
    if (after.id != YK_NO_PART) {
        if (!get_ready(s, local, &after))
            return;
        next = local->ready.keys;
    }
    if (rows_changed(s, timed, &e)) { /* gradients of such rows must not be sent */
        yk_worker_fail(w, e.code, e.text);
        return;
    }
    if (timed) {
        p->samples++;
        p->pull += pulled + (t2 - t1);
        p->input += (t1 - t0) + (yk_now() - t3); /* keys of this batch and of the next */
        p->compute += t3 - t2 - (p->push - push);
    }
    yk_worker_commit_keys(w, loss, after.id, next.key, next.n);
}

/* Times at the start of a step, and the time for its rows. */
struct spent {
    double start, input, push, pull, images;
};

static struct spent begin_step(const struct yk_local_worker *local, bool timed)
{
    const struct yk_phases *p = &local->worker.phases;
    return (struct spent){.start = tick(timed),
                          .push = p->push,
                          .pull = p->pull,
                          .images = yk_feed_waited(local->feed)};
}

/* Parameters that came while the step computed, and images that it waited for, are not compute. */
static void end_step(struct yk_local_worker *local, const struct spent *t, double pulled,
                     bool timed)
{
    struct yk_phases *p = &local->worker.phases;
    double images = yk_feed_waited(local->feed) - t->images;
    p->images += images;
    if (timed) {
        p->samples++;
        p->input += t->input;
        p->compute +=
            yk_now() - t->start - t->input - images - (p->push - t->push) - (p->pull - t->pull);
        p->pull += pulled;
    } else {
        p->shuffle += t->input;
    }
}

/* The path of one batch. */
static void train_step(struct yk_session *s, struct yk_local_worker *local,
                       const struct yk_task *task, double pulled, bool timed)
{
    struct yk_worker *w = &local->worker;
    struct yk_batch batch;
    struct yk_error e;
    struct spent spent = begin_step(local, timed);
    double loss = 0;
    bool shuffles = begins_epoch(s, task); /* then the first shard pays for the shuffle */
    w->timed = timed;
    for (uint32_t i = task->first; i < task->last; i++) {
        double t = tick(timed || shuffles);
        rows_of(s, task, i, &batch); /* rows of the data, shuffled */
        if (timed || shuffles)
            spent.input += yk_now() - t;
        shuffles = false;
        if (yk_feed_take(local->feed, &batch, &e) != YK_OK) { /* images that have to be made */
            yk_worker_fail(w, e.code, e.text);
            return;
        }
        struct yk_sink *sink = yk_worker_sink(w, i);
        if (sink == NULL)
            return;
        /* Gradients leave through the sink as they finish. */
        loss += batch.n > 0 ? s->ops->step(local->work, &w->params, &batch, sink)
                            : empty_shard(&w->params, sink);
    }
    yk_worker_commit(w, loss); /* the push is complete */
    end_step(local, &spent, pulled, timed);
}

void yk_loop_run(struct yk_session *s, struct yk_local_worker *local)
{
    struct yk_worker *w = &local->worker;
    struct yk_task task;
    double born = yk_now();
    uint64_t sample = 1; /* the first step is slower than the others, and no sample */
    for (;;) {
        bool timed = w->phases.steps >= sample;
        double start = tick(timed);
        if (!yk_worker_pull(w, &task)) /* parameters fresh enough, and the next task */
            break;
        timed = timed && !begins_epoch(s, &task); /* nor is a step that shuffles */
        if (timed)
            sample = w->phases.steps + SAMPLE;
        double pulled = timed ? yk_now() - start : 0;
        if (s->ops->keys != NULL)
            train_keys(s, local, &task, pulled, timed);
        else
            train_step(s, local, &task, pulled, timed);
    }
    w->phases.seconds += yk_now() - born;
}
