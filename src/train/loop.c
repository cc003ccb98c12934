/* loop.c - the step loop of a worker: pull, step, commit.
 *
 * Everything that happens between steps happens at owner 0 (watch.c). One step in SAMPLE is timed phase by phase, so that a step of
 * a few microseconds pays for no clock.
 * THREADS: each worker runs it on a thread of its own. */
#include "base/clock.h"
#include "data/prefetch.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 64 };

static double tick(bool timed)
{
    return timed ? yk_now() : 0;
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
    yk_source_at(&s->source, yk_input_position(s, t->id) + from, to - from,
                 yk_input_position(s, ahead), batch);
}

/* A shard without examples (the last batch of an epoch may have fewer than shards) is a sum of nothing. */
static double nothing(const struct yk_params *params, struct yk_sink *sink)
{
    if (!yk_sink_need(sink, 0, params->count))
        return 0;
    memset(sink->grad, 0, params->count * sizeof(float));
    sink->ready(sink, 0, params->count);
    return 0;
}

/* The batches of the shards of a task, for a model that wants to know its keys before it computes. */
static yk_code plan_keys(struct yk_session *s, struct yk_hand *hand, unsigned which,
                         const struct yk_task *t, struct yk_keys *keys)
{
    uint32_t n = t->last - t->first;
    struct yk_error e;
    if (n > hand->shard_room) {
        struct yk_batch *more = realloc(hand->shard, n * sizeof *more);
        if (more == NULL)
            return YK_FAILED;
        hand->shard = more;
        hand->shard_room = n;
    }
    for (uint32_t i = 0; i < n; i++)
        rows_of(s, t, t->first + i, &hand->shard[i]);
    return s->ops->keys(hand->work, which, hand->shard, n, keys, &e);
}

/* The path of one batch of a sparse model: its keys, mostly sent ahead with the push before; values of them; gradients by slot; and the
 * keys of the batch after it. */
static void train_keys(struct yk_session *s, struct yk_hand *hand, const struct yk_task *task,
                       double pulled, bool timed)
{
    struct yk_worker *w = &hand->worker;
    struct yk_phases *p = &w->phases;
    struct yk_keys keys = hand->ready.keys, next = {0};
    unsigned which = hand->ready.which;
    double loss = 0, t0 = tick(timed), push = p->push;
    w->timed = timed;
    if (hand->ready.id != task->id || hand->ready.first != task->first ||
        hand->ready.last != task->last) {
        which = !which;
        if (plan_keys(s, hand, which, task, &keys) != YK_OK) {
            w->failed = YK_FAILED;
            return;
        }
        hand->ready = (struct yk_ready){
            .which = which, .id = task->id, .first = task->first, .last = task->last, .keys = keys};
    }
    double t1 = tick(timed);
    if (!yk_worker_values(w, keys.key, keys.n))
        return;
    double t2 = tick(timed);
    for (uint32_t i = task->first; i < task->last; i++) {
        struct yk_batch batch;
        struct yk_sink *sink = yk_worker_sink(w, i);
        if (sink == NULL)
            return;
        rows_of(s, task, i, &batch);
        s->ops->choose(hand->work, which, i - task->first);
        loss += s->ops->step(hand->work, &w->params, &batch, sink);
    }
    double t3 = tick(timed);
    struct yk_task after = *task;
    after.id = task->ahead;
    if (after.id != YK_NO_PART) {
        uint64_t left = s->train.rows - yk_input_position(s, after.id) % s->train.rows;
        after.examples = left < s->crew.rule.batch ? (uint32_t)left : s->crew.rule.batch;
        after.ahead = YK_NO_PART;
        if (plan_keys(s, hand, !which, &after, &next) != YK_OK) {
            w->failed = YK_FAILED;
            return;
        }
        hand->ready = (struct yk_ready){.which = !which,
                                        .id = after.id,
                                        .first = after.first,
                                        .last = after.last,
                                        .keys = next};
    }
    if (timed) {
        p->samples++;
        p->pull += pulled + (t2 - t1);
        p->input += (t1 - t0) + (yk_now() - t3); /* what is needed of the data, now and next */
        p->compute += t3 - t2 - (p->push - push);
    }
    yk_worker_commit_keys(w, loss, after.id, next.key, next.n);
}

/* The path of one batch. */
static void train_step(struct yk_session *s, struct yk_hand *hand, const struct yk_task *task,
                       double pulled, bool timed)
{
    struct yk_worker *w = &hand->worker;
    struct yk_phases *p = &w->phases;
    struct yk_batch batch;
    struct yk_error e;
    double loss = 0, input = 0, push = p->push, pull = p->pull, images = yk_feed_waited(hand->feed),
           t0 = tick(timed);
    bool begins = yk_input_position(s, task->id) % s->train.rows == 0;
    w->timed = timed;
    for (uint32_t i = task->first; i < task->last; i++) {
        double t1 = tick(timed || begins);
        rows_of(s, task, i, &batch); /* rows of the data, shuffled */
        if (timed || begins)
            input += yk_now() - t1;
        if (yk_feed_take(hand->feed, &batch, &e) != YK_OK) { /* images that have to be made */
            yk_worker_fail(w, e.code, e.text);
            return;
        }
        struct yk_sink *sink = yk_worker_sink(w, i);
        if (sink == NULL)
            return;
        loss += batch.n > 0 ? s->ops->step(hand->work, &w->params, &batch,
                                           sink) /* gradients leave as they finish */
                            : nothing(&w->params, sink);
        begins = false;
    }
    yk_worker_commit(w, loss); /* the push is complete */
    images = yk_feed_waited(hand->feed) - images;
    p->images += images;
    if (timed) {
        p->samples++;
        p->input += input;
        p->compute += yk_now() - t0 - input - images - (p->push - push) -
                      (p->pull - pull); /* some parameters came meanwhile */
        p->pull += pulled;
    } else if (input > 0) {
        p->shuffle += input;
    }
}

void yk_session_work(struct yk_session *s, struct yk_hand *hand)
{
    struct yk_worker *w = &hand->worker;
    struct yk_task task;
    double born = yk_now();
    for (uint64_t next = 1;;) { /* the first step is no sample of the others */
        bool timed = w->phases.steps >= next;
        double start = tick(timed);
        if (!yk_worker_pull(w, &task)) /* parameters fresh enough, and what to compute with them */
            break;
        timed = timed &&
                yk_input_position(s, task.id) % s->train.rows != 0; /* nor is one that shuffles */
        if (timed)
            next = w->phases.steps + SAMPLE;
        double pulled = timed ? yk_now() - start : 0;
        if (s->ops->keys != NULL)
            train_keys(s, hand, &task, pulled, timed);
        else
            train_step(s, hand, &task, pulled, timed);
    }
    w->phases.seconds += yk_now() - born;
}
