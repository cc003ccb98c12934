/* worker.c - a worker's end of the wire; see worker.h, and strategy.h for the messages. */
#include "strategy/worker.h"

#include "base/clock.h"
#include "strategy/deal.h"
#include "strategy/owner.h"
#include "strategy/worker_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SETTLE = 10;    /* seconds after which an owner that takes nothing is as good as lost */
static const double PATIENCE = 0.5; /* seconds of one wait; a lost owner is noticed by comm, which then calls us */

static int endpoint_of(const struct yk_worker *w)
{
    return yk_worker_endpoint(w->comm, (int)w->index);
}

/* --- what arrives --- */

static void *place(void *arg, const struct yk_note *n)
{
    struct yk_worker *w = arg;
    if (w->rule->sparse && (n->kind == YK_REPLY || n->kind == YK_VALUES))
        return yk_worker_place_values(w, n);
    if (n->kind == YK_REPLY && n->lo <= w->params.count && n->bytes <= (w->params.count - n->lo) * sizeof(float))
        return w->fresh + n->lo;
    if (n->kind == YK_END && n->bytes <= sizeof w->why)
        return w->why;
    return NULL;
}

static void arrive_reply(struct yk_worker *w, const struct yk_note *n, const float *data)
{
    if (w->rule->sparse)
        yk_worker_take_values(w, n, data);
    else if (n->bytes > 0 && data != NULL && data != w->fresh + n->lo) /* from an owner in this process */
        memcpy(w->fresh + n->lo, data, n->bytes);
    w->replies++;
    if (w->replies == 1 || n->step < w->oldest)
        w->oldest = n->step;
    if (n->from != 0)
        return;
    w->stop = w->stop || (n->flags & YK_STOP_FLAG) != 0;
    if (n->flags & YK_FURTHER_FLAG) /* the others answer when the step is complete */
        w->replies = w->rule->owners;
    w->ordered = w->started = true;
    w->next = (struct yk_task){.step = n->step,
                               .id = n->id,
                               .ahead = n->word,
                               .examples = n->examples,
                               .first = n->first,
                               .last = n->last,
                               .incarnation = n->incarnation};
}

static void arrive(void *arg, const struct yk_note *n, const void *data)
{
    struct yk_worker *w = arg;
    switch (n->kind) {
    case YK_REPLY:
        arrive_reply(w, n, data);
        break;
    case YK_VALUES:
        if (w->rule->sparse)
            yk_worker_take_values(w, n, data);
        break;
    case YK_AGAIN:
        if (!w->started) /* its first answer will know */
            break;
        /* some owner still waits for the step under way; before the first step there is none */
        w->again = w->task.examples > 0 && !(w->ordered && w->replies >= w->rule->owners);
        w->next.first = n->first;
        w->next.last = n->last;
        w->next.incarnation = n->incarnation;
        break;
    case YK_FENCED:
        w->fenced = true;
        break;
    case YK_REPLACE:
        w->meet = true;
        w->newcomer = n->first;
        break;
    case YK_CLOSE:
        w->closed = true;
        w->clean = (n->flags & YK_LAST_FLAG) != 0;
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
    if (endpoint != 0) /* all others are owner 0's to judge */
        return;
    w->failed = YK_LOST;
    w->orphaned = true;
    snprintf(w->why, sizeof w->why, "owner 0 is lost: %s", why);
}

const struct yk_handler yk_worker_handler = {.place = place, .arrive = arrive, .lost = lost};

/* --- what leaves --- */

void yk_worker_send(struct yk_worker *w, unsigned owner, struct yk_note *n, const void *data, size_t bytes)
{
    n->from = (uint16_t)endpoint_of(w);
    n->to = (uint16_t)owner;
    yk_comm_send(w->comm, n, data, bytes, &w->sending);
}

/* A range of the finished sum to the owners of its parts, the last owner first: owner 0 gets its part last. */
static void push(struct yk_worker *w, size_t lo, size_t hi, bool commit, double loss)
{
    const struct yk_task *t = &w->task;
    uint32_t from = yk_shard_at(w->tree, w->rule->shards, t->examples), to = yk_shard_at(w->end, w->rule->shards, t->examples);
    for (unsigned k = w->rule->owners; k-- > 0;) {
        size_t first = yk_owner_at(k, w->rule->owners, w->params.count),
               last = yk_owner_at(k + 1, w->rule->owners, w->params.count);
        size_t a = lo > first ? lo : first, b = hi < last ? hi : last;
        if (a >= b)
            continue;
        uint64_t bytes = (b - a) * sizeof(float);
        bool completes = w->left[k] == bytes, final = completes && w->end == t->last;
        if (k == 0 && final && !commit) {
            w->held.any = true;
            w->held.lo = a;
            w->held.hi = b;
            continue;
        }
        struct yk_note n = {.kind = YK_PUSH,
                            .flags = final ? YK_LAST_FLAG : 0,
                            .incarnation = t->incarnation,
                            .examples = to - from,
                            .step = t->step,
                            .id = t->id,
                            .lo = a,
                            .loss = commit ? loss : 0,
                            .first = w->tree,
                            .last = w->end};
        w->left[k] -= bytes;
        yk_worker_send(w, k, &n, w->sum[w->base] + a, bytes);
    }
}

static void ready(struct yk_sink *sink, size_t lo, size_t hi)
{
    struct yk_worker *w = (struct yk_worker *)sink;
    double start = w->timed ? yk_now() : 0;
    for (unsigned k = 0; k < w->merges; k++)
        yk_add(w->sum[w->top - k - 1] + lo, w->sum[w->top - k] + lo, hi - lo);
    if (w->leaves && !w->rule->sparse)
        push(w, lo, hi, false, 0);
    if (w->timed)
        w->phases.push += yk_now() - start;
}

/* A buffer for the sum at depth i; made when a task first needs it, which is in the first steps. */
static bool have_sum(struct yk_worker *w, unsigned i)
{
    size_t count = w->rule->sparse ? w->keys.sum_room : w->params.count;
    for (; w->sums <= i; w->sums++)
        if (w->sums == YK_SUMS || (w->sum[w->sums] = yk_floats(count)) == NULL)
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
        for (unsigned k = 0; k < w->rule->owners; k++)
            w->left[k] =
                (yk_owner_at(k + 1, w->rule->owners, w->params.count) - yk_owner_at(k, w->rule->owners, w->params.count)) *
                sizeof(float);
    } else { /* the shard before has gone up the tree as far as it completes it */
        w->top += 1 - w->merges;
    }
    w->leaves = i + 1 == w->end;
    w->merges = w->leaves ? w->top - w->base : (unsigned)__builtin_ctz(i - w->tree + 1);
    if (!have_sum(w, w->top)) {
        w->failed = YK_FAILED;
        return NULL;
    }
    w->sink.grad = w->sum[w->top];
    return &w->sink;
}

void yk_worker_commit(struct yk_worker *w, double loss)
{
    double start = w->timed ? yk_now() : 0;
    if (w->held.any)
        push(w, w->held.lo, w->held.hi, true, loss);
    w->held.any = false;
    if (w->timed)
        w->phases.push += yk_now() - start;
}

/* --- pull --- */

void yk_worker_start(struct yk_worker *w)
{
    for (unsigned k = w->rule->owners; k-- > 0;) {
        struct yk_note n = {.kind = YK_PULL};
        yk_worker_send(w, k, &n, NULL, 0);
    }
}

/* Under the lock: take what has arrived, if it is all there. */
static bool take(struct yk_worker *w)
{
    if (w->ordered && w->replies >= w->rule->owners) {
        w->replies = 0;
        w->ordered = false;
        if (w->fresh != w->params.flat && w->mine[1] != NULL) {
            float *old = w->params.flat;
            w->params.flat = w->fresh;
            w->fresh = old;
        }
        w->task = w->next;
        /* Owners answer who came too late at their own time: a mixture is as old as its oldest part. Values of keys are asked for later. */
        if (w->rule->pooled && w->rule->fresh && !w->rule->sparse)
            w->task.step = w->oldest;
    } else if (w->again) { /* the same batch and parameters, other shards of it */
        w->task.first = w->next.first;
        w->task.last = w->next.last;
        w->task.incarnation = w->next.incarnation;
    } else {
        return false;
    }
    w->again = false;
    return true;
}

void yk_worker_settle(struct yk_worker *w)
{
    struct yk_comm *c = w->comm;
    int me = endpoint_of(w);
    for (double end = yk_now() + SETTLE; atomic_load_explicit(&w->sending, memory_order_acquire) > 0 && yk_now() < end;)
        c->ops->wait(c, me, c->ops->seen(c, me), 1e-4);
}

bool yk_worker_pull(struct yk_worker *w, struct yk_task *out)
{
    struct yk_comm *c = w->comm;
    int me = endpoint_of(w);
    for (;;) {
        unsigned seen = c->ops->seen(c, me);
        c->ops->lock(c, me);
        bool over = w->stop || w->fenced || w->meet || w->failed != YK_OK, got = !over && take(w);
        c->ops->unlock(c, me);
        if (over)
            return false;
        if (got)
            break;
        c->ops->wait(c, me, seen, PATIENCE);
    }
    if (!c->shared)
        yk_worker_settle(w);
    *out = w->task;
    w->phases.steps++;
    return true;
}

void yk_worker_account(struct yk_worker *w)
{
    struct yk_note n = {.kind = YK_ACCOUNT};
    struct yk_traffic t;
    if (w->failed != YK_OK || w->fenced) /* nobody wants to know any more */
        return;
    for (int k = 0; !w->comm->shared && k < w->comm->owners; k++) {
        w->comm->ops->traffic(w->comm, k, &t);
        w->phases.sent += t.sent;
        w->phases.received += t.received;
    }
    if (w->comm->shared) {
        w->comm->ops->traffic(w->comm, endpoint_of(w), &t);
        w->phases.sent = t.sent;
        w->phases.received = t.received;
    }
    yk_worker_send(w, 0, &n, &w->phases, sizeof w->phases);
    yk_worker_settle(w);
}

yk_code yk_worker_init(struct yk_worker *w, struct yk_comm *comm, const struct yk_rule *rule, unsigned index,
                       const struct yk_params *params, bool own, struct yk_error *e)
{
    *w = (struct yk_worker){.sink = {.ready = ready}, .comm = comm, .rule = rule, .index = index, .params = *params};
    bool twice = own && !rule->pooled && rule->owners > 1; /* a step may be done again when some owners have answered it */
    w->left = calloc(rule->owners, sizeof *w->left);
    if (rule->sparse) {
        yk_code rc = w->left != NULL ? yk_worker_init_keys(w, e) : yk_fail_memory(e, rule->owners * sizeof *w->left);
        if (rc != YK_OK)
            yk_worker_release(w);
        return rc;
    }
    for (unsigned i = 0; own && i < (twice ? 2 : 1); i++)
        w->mine[i] = yk_floats(params->count);
    if (own)
        w->params.flat = w->mine[0];
    w->fresh = twice ? w->mine[1] : w->params.flat;
    if (w->left == NULL || (own && w->mine[0] == NULL) || (twice && w->mine[1] == NULL) || !have_sum(w, 0)) {
        yk_worker_release(w);
        return yk_fail_memory(e, params->count * sizeof(float));
    }
    return YK_OK;
}

void yk_worker_release(struct yk_worker *w)
{
    for (unsigned i = 0; i < w->sums; i++)
        yk_floats_free(w->sum[i]);
    yk_floats_free(w->mine[0]);
    yk_floats_free(w->mine[1]);
    free(w->left);
    yk_worker_release_keys(w);
    *w = (struct yk_worker){0};
}
