/* worker.c - the life of a worker's endpoint: tasks arrive, shards are summed, a step is committed;
 * see worker.h. How gradients leave and parameters come is the exchange's business (exchange.h). */
#include "strategy/worker.h"

#include "base/clock.h"
#include "strategy/exchange.h"
#include "strategy/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds after which an owner that takes nothing is as good as lost. */
static const double SETTLE = 10;
/* Seconds of one wait. comm notices a lost owner and calls the handler, which ends the wait. */
static const double PATIENCE = 0.5;

static int endpoint_of(const struct yk_worker *w)
{
    return yk_worker_endpoint(w->comm, (int)w->index);
}

static void enter(struct yk_worker *w, enum yk_worker_state state)
{
    if (state > w->state)
        w->state = state;
}

/* --- arrivals --- */

static void *place(void *arg, const struct yk_note *n)
{
    struct yk_worker *w = arg;
    if (n->kind == YK_REPLY || n->kind == YK_PIECE || n->kind == YK_VALUES)
        return w->exchange->place(w, n);
    if (n->kind == YK_END && n->bytes <= sizeof w->why)
        return w->why;
    return NULL;
}

static void arrive_reply(struct yk_worker *w, const struct yk_note *n, const void *data)
{
    w->exchange->take(w, n, data);
    w->replies++;
    if (w->replies == 1 || n->step < w->oldest)
        w->oldest = n->step;
    if (n->from != 0)
        return;
    if (n->flags & YK_STOP_FLAG)
        enter(w, YK_WORKER_STOPPED);
    if (n->flags & YK_FURTHER_FLAG) /* the other owners answer when the step is complete */
        w->replies = w->rule->owners;
    w->ordered = true;
    w->next = (struct yk_task){.step = n->step,
                               .id = n->task.id,
                               .ahead = n->task.ahead,
                               .examples = n->examples,
                               .first = n->task.first,
                               .last = n->task.last,
                               .incarnation = n->incarnation};
}

static void arrive_again(struct yk_worker *w, const struct yk_note *n)
{
    if (w->next.examples == 0) /* its first answer will have the new shards */
        return;
    /* Before the first step, and when all owners have answered, no owner waits for a step of it. */
    w->again = w->task.examples > 0 && !w->exchange->answered(w);
    w->next.first = n->task.first;
    w->next.last = n->task.last;
    w->next.incarnation = n->incarnation;
}

static void arrive(void *arg, const struct yk_note *n, const void *data)
{
    struct yk_worker *w = arg;
    switch (n->kind) {
    case YK_REPLY:
        arrive_reply(w, n, data);
        break;
    case YK_PIECE:
    case YK_VALUES:
        w->exchange->take(w, n, data);
        break;
    case YK_AGAIN:
        arrive_again(w, n);
        break;
    case YK_FENCED:
        enter(w, YK_WORKER_FENCED);
        break;
    case YK_REPLACE:
        enter(w, YK_WORKER_MEETS);
        w->newcomer = n->member.worker;
        break;
    case YK_CLOSE:
        enter(w, YK_WORKER_CLOSED);
        w->clean = (n->flags & YK_CLEAN_FLAG) != 0;
        break;
    case YK_END:
        w->failed = YK_LOST;
        break;
    default:
        break;
    }
}

static void lost(void *arg, int endpoint, const char *why)
{
    struct yk_worker *w = arg;
    if (endpoint != 0) /* owner 0 judges all other losses */
        return;
    w->failed = YK_LOST;
    w->orphaned = true;
    snprintf(w->why, sizeof w->why, "owner 0 is lost: %s", why);
}

const struct yk_handler yk_worker_handler = {.place = place, .arrive = arrive, .lost = lost};

/* --- sums --- */

void yk_worker_send(struct yk_worker *w, unsigned owner, struct yk_note *n, const void *data,
                    size_t bytes)
{
    n->from = (uint16_t)endpoint_of(w);
    n->to = (uint16_t)owner;
    yk_comm_send(w->comm, n, data, bytes, &w->sending);
}

static void ready(struct yk_sink *sink, size_t lo, size_t hi)
{
    struct yk_worker *w = (struct yk_worker *)sink;
    double start = w->timed ? yk_now() : 0;
    if (!yk_sink_need(sink, 0, w->params.count)) /* nothing leaves before all has come */
        return;
    for (unsigned k = 0; k < w->merges; k++)
        yk_add(w->sum[w->top - k - 1] + lo, w->sum[w->top - k] + lo, hi - lo);
    if (w->leaves)
        w->exchange->push(w, lo, hi);
    if (w->timed)
        w->phases.push += yk_now() - start;
}

bool yk_worker_have_sum(struct yk_worker *w, unsigned i)
{
    for (; w->sums <= i; w->sums++)
        if (w->sums == YK_SUMS || (w->sum[w->sums] = yk_floats(w->sum_floats)) == NULL)
            return false;
    return true;
}

struct yk_sink *yk_worker_sink(struct yk_worker *w, uint32_t i)
{
    const struct yk_task *t = &w->task;
    if (i == t->first || i == w->end) { /* a subtree begins */
        w->base = i == t->first ? 0 : w->base + 1;
        w->top = w->base;
        w->tree = i;
        w->end = yk_subtree_end(i, t->last, w->rule->shards);
        w->finished = 0;
        for (unsigned k = 0; k < w->rule->owners; k++)
            w->left[k] = (yk_worker_owner_at(w, k + 1) - yk_worker_owner_at(w, k)) * sizeof(float);
    } else { /* the shard before has gone up the tree as far as it completes it */
        w->top += 1 - w->merges;
    }
    w->leaves = i + 1 == w->end;
    w->merges = w->leaves ? w->top - w->base : (unsigned)__builtin_ctz(i - w->tree + 1);
    if (!yk_worker_have_sum(w, w->top)) {
        w->failed = YK_FAILED;
        return NULL;
    }
    w->sink.grad = w->sum[w->top];
    return &w->sink;
}

void yk_worker_commit(struct yk_worker *w, double loss)
{
    double start = w->timed ? yk_now() : 0;
    w->exchange->commit(w, loss);
    if (w->timed)
        w->phases.push += yk_now() - start;
}

/* --- pull --- */

void yk_worker_start(struct yk_worker *w)
{
    for (unsigned k = w->rule->owners; k-- > 0;) {
        struct yk_note n = {.kind = YK_JOIN};
        yk_worker_send(w, k, &n, NULL, 0);
    }
}

bool yk_worker_is_over(const struct yk_worker *w)
{
    return w->state != YK_WORKER_RUNS || w->failed != YK_OK;
}

bool yk_worker_answered(const struct yk_worker *w)
{
    return w->ordered && w->replies >= w->rule->owners;
}

void yk_worker_redo(struct yk_worker *w)
{
    w->task.first = w->next.first;
    w->task.last = w->next.last;
    w->task.incarnation = w->next.incarnation;
    w->again = false;
}

bool yk_worker_begin_task(struct yk_worker *w)
{
    if (!yk_worker_answered(w)) {
        if (!w->again)
            return false;
        yk_worker_redo(w);
        return true;
    }
    w->replies = 0;
    w->ordered = w->again = false;
    w->task = w->next;
    if (w->mine[1] != NULL) {
        float *old = w->params.flat;
        w->params.flat = w->fresh;
        w->fresh = old;
    }
    return true;
}

void yk_worker_settle(struct yk_worker *w)
{
    struct yk_comm *c = w->comm;
    int me = endpoint_of(w);
    for (double end = yk_now() + SETTLE;
         atomic_load_explicit(&w->sending, memory_order_acquire) > 0 && yk_now() < end;)
        c->ops->wait(c, me, c->ops->seen(c, me), 1e-4);
}

bool yk_worker_pull(struct yk_worker *w, struct yk_task *out)
{
    struct yk_comm *c = w->comm;
    int me = endpoint_of(w);
    for (;;) {
        unsigned seen = c->ops->seen(c, me);
        c->ops->lock(c, me);
        bool over = yk_worker_is_over(w), got = !over && w->exchange->begin(w);
        c->ops->unlock(c, me);
        if (over)
            return false;
        if (got)
            break;
        c->ops->wait(c, me, seen, PATIENCE);
    }
    if (w->buckets.task == YK_TASK_WHOLE)
        yk_worker_begin(w);
    *out = w->task;
    w->phases.steps++;
    return true;
}

void yk_worker_begin(struct yk_worker *w)
{
    if (atomic_load_explicit(&w->sending, memory_order_acquire) > 0)
        yk_worker_settle(w);
    yk_pack_begin(w);
}

/* --- the end --- */

void yk_worker_fail(struct yk_worker *w, yk_code code, const char *why)
{
    struct yk_note n = {.kind = YK_END, .member.code = (uint32_t)code};
    snprintf(w->reported, sizeof w->reported, "%s", why);
    yk_worker_send(w, 0, &n, w->reported, strlen(w->reported) + 1);
}

void yk_worker_account(struct yk_worker *w)
{
    struct yk_note n = {.kind = YK_ACCOUNT};
    struct yk_traffic t;
    if (w->failed != YK_OK || w->state == YK_WORKER_FENCED)
        return;
    if (w->comm->shared) {
        w->comm->ops->traffic(w->comm, endpoint_of(w), &t);
        w->phases.sent = t.sent;
        w->phases.received = t.received;
    } else {
        for (int k = 0; k < w->comm->owners; k++) {
            w->comm->ops->traffic(w->comm, k, &t);
            w->phases.sent += t.sent;
            w->phases.received += t.received;
        }
    }
    yk_worker_send(w, 0, &n, &w->phases, sizeof w->phases);
    yk_worker_settle(w);
}

yk_code yk_worker_init(struct yk_worker *w, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_params *params, bool own, struct yk_error *e)
{
    const struct yk_exchange *x = yk_exchange_of(rule, comm);
    *w = (struct yk_worker){.sink = {.ready = ready, .need = x->need},
                            .exchange = x,
                            .comm = comm,
                            .rule = rule,
                            .index = index,
                            .params = *params,
                            .cut = SIZE_MAX};
    w->left = calloc(rule->owners, sizeof *w->left);
    yk_code rc = w->left != NULL ? x->open_worker(w, own, e)
                                 : yk_fail_memory(e, rule->owners * sizeof *w->left);
    if (rc != YK_OK)
        yk_worker_release(w);
    return rc;
}

void yk_worker_release(struct yk_worker *w)
{
    for (unsigned i = 0; i < w->sums; i++)
        yk_floats_free(w->sum[i]);
    free(w->left);
    if (w->exchange != NULL)
        w->exchange->close_worker(w);
    *w = (struct yk_worker){0};
}
