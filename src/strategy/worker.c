/* worker.c - a worker's end of the wire; see worker.h, and strategy.h for the messages. */
#include "strategy/worker.h"

#include "base/clock.h"
#include "strategy/deal.h"
#include "strategy/owner.h"
#include "strategy/worker_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SETTLE =
    10; /* seconds after which an owner that takes nothing is as good as lost */
static const double PATIENCE =
    0.5; /* seconds of one wait; a lost owner is noticed by comm, which then calls us */

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
    if ((n->kind == YK_REPLY || n->kind == YK_PIECE) && (n->flags & YK_PACKED_FLAG))
        return yk_worker_place_packed(w, n);
    if ((n->kind == YK_REPLY || n->kind == YK_PIECE) && n->lo <= w->params.count &&
        n->bytes <= (w->params.count - n->lo) * sizeof(float))
        return w->fresh + n->lo;
    if (n->kind == YK_END && n->bytes <= sizeof w->why)
        return w->why;
    return NULL;
}

/* Parameters of a range. */
static void take_range(struct yk_worker *w, const struct yk_note *n, const float *data)
{
    size_t floats = n->bytes / sizeof(float);
    if (data == NULL)
        return;
    if (n->flags & YK_PACKED_FLAG)
        floats = yk_worker_take_packed(w, n, data);
    else if (data != w->fresh + n->lo) /* from an owner in this process */
        memcpy(w->fresh + n->lo, data, n->bytes);
    if (w->pieces.n > 0)
        yk_worker_came(w, n, floats);
}

static void arrive_reply(struct yk_worker *w, const struct yk_note *n, const float *data)
{
    if (w->rule->sparse)
        yk_worker_take_values(w, n, data);
    else
        take_range(w, n, data);
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

bool yk_worker_answered(const struct yk_worker *w)
{
    return w->ordered && (w->pieces.n > 0 ? w->pieces.missing == 0 : w->replies >= w->rule->owners);
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
    case YK_PIECE:
        take_range(w, n, data);
        break;
    case YK_AGAIN:
        if (!w->started) /* its first answer will know */
            break;
        /* some owner still waits for the step under way; before the first step there is none */
        w->again = w->task.examples > 0 && !yk_worker_answered(w);
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

void yk_worker_send(struct yk_worker *w, unsigned owner, struct yk_note *n, const void *data,
                    size_t bytes)
{
    n->from = (uint16_t)endpoint_of(w);
    n->to = (uint16_t)owner;
    yk_comm_send(w->comm, n, data, bytes, &w->sending);
}

/* A part of the finished sum to its owner. The last that owner 0 gets waits for commit. */
static void push_part(struct yk_worker *w, unsigned k, size_t lo, size_t hi, bool commit,
                      double loss)
{
    const struct yk_task *t = &w->task;
    uint32_t from = yk_shard_at(w->tree, w->rule->shards, t->examples),
             to = yk_shard_at(w->end, w->rule->shards, t->examples);
    size_t bytes = (hi - lo) * sizeof(float);
    bool completes = w->left[k] == bytes, final = completes && w->end == t->last;
    if (k == 0 && final && !commit) {
        w->held.any = true;
        w->held.lo = lo;
        w->held.hi = hi;
        return;
    }
    /* Of whole batches what is finished last is needed first; but a worker's sums keep their order. */
    bool orderly = !yk_rule_buckets(w->rule), early = w->end < t->last;
    struct yk_note n = {.kind = YK_PUSH,
                        .urgency =
                            orderly ? 0 : yk_urgency(early ? YK_URGENT_LEVELS : w->finished, true),
                        .flags = final ? YK_LAST_FLAG : 0,
                        .incarnation = t->incarnation,
                        .examples = to - from,
                        .step = t->step,
                        .id = t->id,
                        .lo = lo,
                        .loss = commit ? loss : 0,
                        .first = w->tree,
                        .last = w->end};
    const void *data = w->sum[w->base] + lo;
    w->left[k] -= bytes;
    if (yk_worker_packs(w, k) &&
        (data = yk_worker_pack(w, w->sum[w->base], lo, hi - lo, &n.flags, &bytes)) == NULL) {
        w->failed = YK_FAILED;
        return;
    }
    yk_worker_send(w, k, &n, data, bytes);
}

/* A range of the finished sum to the owners of its parts, the last owner first: owner 0 gets its part last. Over a wire it goes bucket by
 * bucket, or in pieces as long. */
static void push(struct yk_worker *w, size_t lo, size_t hi, bool commit, double loss)
{
    size_t bucket = yk_rule_bucket(w->rule);
    for (unsigned k = w->rule->owners; k-- > 0;) {
        size_t first = yk_owner_at(k, w->rule->owners, w->params.count),
               last = yk_owner_at(k + 1, w->rule->owners, w->params.count);
        size_t a = lo > first ? lo : first, b = hi < last ? hi : last;
        for (size_t end; a < b; a = end) {
            end = first + ((a - first) / bucket + 1) * bucket;
            end = end < b && (w->pieces.n > 0 || yk_worker_packs(w, k)) ? end : b;
            push_part(w, k, a, end, commit, loss);
        }
    }
}

static void ready(struct yk_sink *sink, size_t lo, size_t hi)
{
    struct yk_worker *w = (struct yk_worker *)sink;
    double start = w->timed ? yk_now() : 0;
    if (!yk_worker_need(sink, 0, w->params.count)) /* nothing leaves before all has come */
        return;
    for (unsigned k = 0; k < w->merges; k++)
        yk_add(w->sum[w->top - k - 1] + lo, w->sum[w->top - k] + lo, hi - lo);
    if (w->leaves && !w->rule->sparse) {
        push(w, lo, hi, false, 0);
        w->finished++;
    }
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
        w->finished = 0;
        for (unsigned k = 0; k < w->rule->owners; k++)
            w->left[k] = (yk_owner_at(k + 1, w->rule->owners, w->params.count) -
                          yk_owner_at(k, w->rule->owners, w->params.count)) *
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
    if (w->held.any && !w->abandoned)
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

/* Under the lock: take what has arrived, if it is all there, or enough to begin with. */
static bool take(struct yk_worker *w)
{
    bool begun =
        w->early &&
        !w->guessed; /* a step that was abandoned, for a meeting or to do the one before again */
    yk_worker_have_all(w);
    if (w->early && (w->again || w->guessed))
        yk_worker_go_back(w);
    bool told = yk_worker_answered(w) ||
                (w->ordered && w->eager && w->task.examples > 0 && w->pieces.n > 0 && !w->again);
    if (told || yk_worker_guess(w)) {
        w->guessed = !told;
        if (told) {
            w->replies = 0;
            w->ordered = false;
        }
        w->before = w->task;
        w->old = w->params.flat;
        if (w->mine[1] != NULL)
            w->params.flat = w->fresh;
        if (w->pieces.n > 0)
            yk_worker_go_early(w);
        else if (w->mine[1] != NULL)
            w->fresh = w->old;
        w->task = told ? w->next : w->hoped;
        /* Owners answer who came too late at their own time: a mixture is as old as its oldest part. Values of keys are asked for later. */
        if (w->rule->pooled && w->rule->fresh && !w->rule->sparse)
            w->task.step = w->oldest;
    } else if (w->again) { /* the same batch and parameters, other shards of it */
        w->task.first = w->next.first;
        w->task.last = w->next.last;
        w->task.incarnation = w->next.incarnation;
    } else if (!begun) {
        return false;
    }
    w->again = w->abandoned = false;
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

/* Gradients may be written: nothing of the step before is under way any more. */
void yk_worker_begin(struct yk_worker *w)
{
    if (!w->comm->shared)
        yk_worker_settle(w);
    yk_worker_begin_pack(w);
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
    if (!w->early)
        yk_worker_begin(w);
    *out = w->task;
    w->phases.steps++;
    return true;
}

void yk_worker_fail(struct yk_worker *w, yk_code code, const char *why)
{
    struct yk_note n = {.kind = YK_END, .first = (uint32_t)code};
    snprintf(w->said, sizeof w->said, "%s", why);
    yk_worker_send(w, 0, &n, w->said, strlen(w->said) + 1);
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

yk_code yk_worker_init(struct yk_worker *w, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_params *params, bool own, struct yk_error *e)
{
    *w = (struct yk_worker){.sink = {.ready = ready, .need = yk_worker_need},
                            .comm = comm,
                            .rule = rule,
                            .index = index,
                            .params = *params};
    /* A step may be done again when it has been answered in part; of an all-reduce a lost worker is a lost owner. */
    bool twice =
        own && !rule->pooled && (rule->owners > 1 || rule->held) && rule->mode != YK_MODE_allreduce;
    w->left = calloc(rule->owners, sizeof *w->left);
    if (rule->sparse) {
        yk_code rc = w->left != NULL ? yk_worker_init_keys(w, e)
                                     : yk_fail_memory(e, rule->owners * sizeof *w->left);
        if (rc != YK_OK)
            yk_worker_release(w);
        return rc;
    }
    for (unsigned i = 0; own && i < (twice ? 2 : 1); i++)
        w->mine[i] = yk_floats(params->count);
    if (own)
        w->params.flat = w->mine[0];
    w->fresh = twice ? w->mine[1] : w->params.flat;
    if (w->left == NULL || (own && w->mine[0] == NULL) || (twice && w->mine[1] == NULL) ||
        !have_sum(w, 0)) {
        yk_worker_release(w);
        return yk_fail_memory(e, params->count * sizeof(float));
    }
    yk_code rc = rule->codec.kind != YK_CODEC_NONE ? yk_worker_init_pack(w, e) : YK_OK;
    if (rc == YK_OK && yk_rule_buckets(rule) && !comm->shared)
        rc = yk_worker_init_pieces(w, e);
    if (rc != YK_OK)
        yk_worker_release(w);
    return rc;
}

void yk_worker_release(struct yk_worker *w)
{
    for (unsigned i = 0; i < w->sums; i++)
        yk_floats_free(w->sum[i]);
    yk_floats_free(w->mine[0]);
    yk_floats_free(w->mine[1]);
    free(w->left);
    yk_worker_release_keys(w);
    yk_worker_release_pack(w);
    yk_worker_release_pieces(w);
    *w = (struct yk_worker){0};
}
