/* exchange_range.c - dense models, range by range: where one push is a step (local, async, ssp) an
 * owner applies a range the moment it is here; with backups it keeps pushes until the clock has
 * named the set that forms the step. The answer to a push is the whole range.
 *
 *     worker: push(range) ... commit --PUSH--> owner: apply, or keep until the set is named
 *     worker: begin when all owners have answered <--REPLY-- owner
 *
 * Whole batches (exchange_bucket.c) use the same functions where nothing differs.
 * THREADS: push and commit run on the worker's thread, the rest under the endpoint's lock. In
 * threads replies carry no data unless parameters change while workers read them. */
#include "strategy/exchange.h"

#include <stdlib.h>
#include <string.h>

/* --- a worker's end --- */

yk_code yk_range_open_worker(struct yk_worker *w, bool own, struct yk_error *e)
{
    w->sum_floats = w->params.count;
    if (own)
        w->params.flat = w->mine[0] = yk_floats(w->params.count);
    w->fresh = w->params.flat;
    if ((own && w->mine[0] == NULL) || !yk_worker_have_sum(w, 0))
        return yk_fail_memory(e, w->params.count * sizeof(float));
    return yk_pack_open_worker(w, e);
}

void yk_range_close_worker(struct yk_worker *w)
{
    yk_floats_free(w->mine[0]);
    yk_floats_free(w->mine[1]);
    yk_pack_close_worker(w);
}

/* A part of the finished sum to its owner. The last part for owner 0 waits for commit. */
static void push_part(struct yk_worker *w, unsigned k, size_t lo, size_t hi, bool commit,
                      double loss)
{
    const struct yk_task *t = &w->task;
    uint32_t from = yk_shard_at(w->tree, w->rule->shards, t->examples),
             to = yk_shard_at(w->end, w->rule->shards, t->examples);
    size_t bytes = (hi - lo) * sizeof(float);
    bool completes = w->left[k] == bytes, final = completes && w->end == t->last;
    if (k == 0 && final && !commit) {
        w->kept_lo = lo;
        w->kept_hi = hi;
        return;
    }
    /* The range that is finished last is needed first, but a worker's sums keep their order. */
    unsigned rank = w->end < t->last ? YK_URGENT_LEVELS : w->finished;
    struct yk_note n = {
        .kind = YK_PUSH,
        .urgency = w->exchange->task_urgency > 0 ? yk_urgency(rank, true) : 0,
        .flags = final ? YK_LAST_FLAG : 0,
        .incarnation = t->incarnation,
        .examples = to - from,
        .step = t->step,
        .push = {
            .id = t->id, .lo = lo, .loss = commit ? loss : 0, .first = w->tree, .last = w->end}};
    const void *data = w->sum[w->base] + lo;
    w->left[k] -= bytes;
    if (yk_pack_applies(w, k) &&
        (data = yk_pack_sum(w, w->sum[w->base], lo, hi - lo, &n.flags, &bytes)) == NULL) {
        w->failed = YK_FAILED;
        return;
    }
    yk_worker_send(w, k, &n, data, bytes);
}

/* A range of the finished sum to the owners of its parts, the last owner first: owner 0 gets its
 * part last. */
static void push(struct yk_worker *w, size_t lo, size_t hi, bool commit, double loss)
{
    for (unsigned k = w->rule->owners; k-- > 0;) {
        size_t first = yk_worker_owner_at(w, k), last = yk_worker_owner_at(w, k + 1);
        size_t a = lo > first ? lo : first, b = hi < last ? hi : last;
        while (a < b) {
            size_t rest = w->cut - (a - first) % w->cut, end = b - a > rest ? a + rest : b;
            push_part(w, k, a, end, commit, loss);
            a = end;
        }
    }
}

void yk_range_push(struct yk_worker *w, size_t lo, size_t hi)
{
    push(w, lo, hi, false, 0);
    w->finished++;
}

void yk_range_commit(struct yk_worker *w, double loss)
{
    if (w->kept_lo < w->kept_hi)
        push(w, w->kept_lo, w->kept_hi, true, loss);
    w->kept_lo = w->kept_hi = 0;
}

void *yk_range_place(struct yk_worker *w, const struct yk_note *n)
{
    if (n->kind == YK_VALUES || n->from >= w->rule->owners)
        return NULL;
    if (n->flags & YK_PACKED_FLAG)
        return yk_pack_place(w, n);
    size_t lo = yk_worker_owner_at(w, n->from), hi = yk_worker_owner_at(w, n->from + 1u);
    bool fits =
        n->task.lo >= lo && n->task.lo <= hi && n->bytes <= (hi - n->task.lo) * sizeof(float);
    return fits ? w->fresh + n->task.lo : NULL;
}

size_t yk_range_copy(struct yk_worker *w, const struct yk_note *n, const void *data)
{
    if (data == NULL || n->kind == YK_VALUES)
        return 0;
    if (n->flags & YK_PACKED_FLAG)
        return yk_pack_take(w, n, data);
    if (data != w->fresh + n->task.lo) /* from an owner in this process */
        memcpy(w->fresh + n->task.lo, data, n->bytes);
    return n->bytes / sizeof(float);
}

void yk_range_take(struct yk_worker *w, const struct yk_note *n, const void *data)
{
    yk_range_copy(w, n, data);
}

static bool begin(struct yk_worker *w)
{
    bool got = yk_worker_begin_task(w);
    /* Backups: owners answer a late worker each at its own time. A mixture is as old as its oldest
     * part. */
    if (got && yk_rule_backups(w->rule))
        w->task.step = w->oldest;
    return got;
}

static yk_code open_worker(struct yk_worker *w, bool own, struct yk_error *e)
{
    yk_code rc = yk_range_open_worker(w, own, e);
    if (w->pack.carry != NULL)
        w->cut = yk_rule_bucket(w->rule);
    return rc;
}

/* --- an owner's end --- */

static yk_code open_owner(struct yk_server *s, unsigned pushes, struct yk_error *e)
{
    (void)pushes;
    return yk_pack_open_owner(s, e);
}

static void welcome(struct yk_server *s, unsigned w)
{
    (void)s;
    (void)w;
}

void *yk_range_place_push(struct yk_server *s, const struct yk_note *n)
{
    if (n->kind != YK_PUSH)
        return NULL;
    yk_server_see_incarnation(s, n->incarnation);
    return yk_server_counts(s, n) ? yk_pending_place(&s->table, yk_server_worker(s, n->from), n)
                                  : NULL;
}

bool yk_range_receive(struct yk_server *s, struct yk_note *n, const float *data,
                      struct yk_push **push)
{
    unsigned w = yk_server_worker(s, n->from);
    yk_server_see_incarnation(s, n->incarnation);
    struct yk_push *p = data != NULL ? yk_pending_around(&s->table, data) : NULL;
    bool received = p != NULL, counts = yk_server_counts(s, n) && data != NULL;
    if (received)
        p->receiving--;
    else if (s->rule->held && counts)
        p = yk_pending_find(&s->table, w, n);
    bool mine = p != NULL && p->used && p->worker == w && p->step == n->step && p->id == n->push.id;
    *push = mine ? p : NULL;
    if (!counts || (p != NULL && !mine)) {
        if (n->flags & YK_LAST_FLAG)
            yk_server_drop(s, n);
        if (mine)
            p->used = false;
        return false;
    }
    return !(n->flags & YK_PACKED_FLAG) || (received && yk_pack_unpack(s, p, n));
}

void yk_range_keep(struct yk_server *s, struct yk_push *p, const struct yk_note *n,
                   const float *data)
{
    bool received = p->buffer != NULL && data == p->buffer + (n->push.lo - s->owner.lo);
    p->sum = received ? p->buffer : data - n->push.lo; /* or where its worker keeps it */
    p->origin = received ? s->owner.lo : 0;
    p->bytes += n->bytes;
    p->examples = n->examples;
    p->loss += n->push.loss;
    p->final = p->final || (n->flags & YK_LAST_FLAG);
}

/* A range of a push that is a step by itself: apply it now. */
static void apply_now(struct yk_server *s, const struct yk_note *n, struct yk_push *p,
                      const float *data)
{
    size_t lo = n->push.lo;
    if (p != NULL)
        p->used = !(n->flags & YK_LAST_FLAG);
    yk_owner_apply(&s->owner, data, lo, lo, lo + n->bytes / sizeof(float), n->examples);
    s->begun[yk_server_worker(s, n->from)] = true;
    if (n->flags & YK_LAST_FLAG)
        yk_server_applied(s, n);
}

static void arrive(struct yk_server *s, const struct yk_note *note, const void *data)
{
    struct yk_note n = *note;
    struct yk_push *p;
    if (n.kind != YK_PUSH || !yk_range_receive(s, &n, data, &p))
        return;
    if (!s->rule->held) {
        apply_now(s, &n, p, data);
    } else if (p != NULL) {
        yk_range_keep(s, p, &n, data);
        if (p->bytes >= yk_server_floats(s) * sizeof(float))
            yk_server_push_complete(s, p, &n);
    }
}

void yk_range_reply(struct yk_server *s, unsigned w, struct yk_note *n)
{
    if (s->pack.out != NULL) {
        yk_pack_reply(s, w, n);
        return;
    }
    n->task.lo = s->owner.lo;
    yk_server_send_worker(s, w, n, s->owner.weights + s->owner.lo,
                          yk_server_floats(s) * sizeof(float));
}

static void reply(struct yk_server *s, unsigned w, struct yk_note *n)
{
    /* In threads the workers read the owner's parameters, unless these change under them. */
    if (s->comm->shared && !s->rule->pooled)
        yk_server_send_worker(s, w, n, NULL, 0);
    else
        yk_range_reply(s, w, n);
}

static void apply(struct yk_server *s, const struct yk_part *part, unsigned n, uint32_t v,
                  uint32_t examples)
{
    for (unsigned i = 0; i < n; i++)
        s->block[i] = (struct yk_block){.first = part[i].first,
                                        .last = part[i].last,
                                        .sum = part[i].push->sum,
                                        .origin = part[i].push->origin};
    yk_owner_apply_blocks(&s->owner, s->block, v, s->owner.lo, s->owner.hi, examples);
}

const struct yk_exchange yk_exchange_range = {
    .open_worker = open_worker,
    .close_worker = yk_range_close_worker,
    .push = yk_range_push,
    .commit = yk_range_commit,
    .place = yk_range_place,
    .take = yk_range_take,
    .answered = yk_worker_answered,
    .begin = begin,
    .open_owner = open_owner,
    .close_owner = yk_pack_close_owner,
    .place_push = yk_range_place_push,
    .arrive = arrive,
    .welcome = welcome,
    .reply = reply,
    .apply = apply,
};
