/* exchange_bucket.c - whole batches, bucket by bucket: an owner's range is cut into *buckets*, and
 * a step is applied to a bucket when every shard has sent its part of it, while the rest is still
 * computed and sent. Between processes its parameters go back at once; threads read them in place.
 *
 *     worker: push(range) --PUSH--> owner: apply each bucket that is complete
 *     worker: need(range) <--PIECE-- owner: its parameters, to all workers of the step
 *     worker: begin       <--REPLY-- owner 0: the next task, when all its buckets are applied
 *
 * A bucket is applied once a step. Its sums are added over the tree, as all of the range would be,
 * so its bits do not depend on when. A step that is redone after a loss leaves the applied buckets
 * as they are, because the same sums would come out.
 *
 * An eager worker begins its next task with the first buckets that come: pull makes the buffer that
 * is being filled the model's and keeps the one before it; the model waits for each range that it
 * reads (need). Owner 0 names the task only after the last bucket of the step, when the parameters
 * of the first layers have long been here. So the worker guesses: the batch behind this one, and
 * its own shards of it. If owner 0 says otherwise, the step that was begun is given up.
 *
 * Nothing is pushed before all parameters and the task are here. So every owner has applied a step
 * before it sees anything of the next one, and a step that is redone finds its parameters where
 * they were: the model gives up the step it has begun (need says false), and pull goes back.
 * THREADS: need and push run on the worker's thread, the rest under the endpoint's lock.
 * LIMITS: a push has a buffer of the whole range, so memory does not depend on how far workers
 * are apart. */
#include "base/clock.h"
#include "strategy/deal.h"
#include "strategy/exchange.h"

#include <stdlib.h>
#include <string.h>

static const double PATIENCE = 0.5; /* seconds of one wait */

/* --- a worker's end --- */

static yk_code open_worker(struct yk_worker *w, bool own, struct yk_error *e)
{
    struct yk_worker_buckets *b = &w->buckets;
    yk_code rc = yk_range_open_worker(w, own, e);
    if (rc != YK_OK)
        return rc;
    /* A step may be redone when it has been answered in part, so the old parameters are kept. In an
     * all-reduce a lost worker is a lost owner, which ends the job. */
    if (own && !yk_rule_pairs_ranks(w->rule)) {
        w->fresh = w->mine[1] = yk_floats(w->params.count);
        if (w->fresh == NULL)
            return yk_fail_memory(e, w->params.count * sizeof(float));
    }
    w->cut = yk_rule_bucket(w->rule);
    b->at = calloc(w->rule->owners + 1, sizeof *b->at);
    if (b->at == NULL)
        return yk_fail_memory(e, (w->rule->owners + 1) * sizeof *b->at);
    for (unsigned k = 0; k < w->rule->owners; k++)
        b->at[k + 1] =
            b->at[k] +
            (unsigned)((yk_worker_owner_at(w, k + 1) - yk_worker_owner_at(w, k) + w->cut - 1) /
                       w->cut);
    b->n = b->missing = b->at[w->rule->owners];
    b->come = calloc(b->n + 1, sizeof *b->come);
    return b->come != NULL ? YK_OK : yk_fail_memory(e, b->n);
}

static void close_worker(struct yk_worker *w)
{
    free(w->buckets.at);
    free(w->buckets.come);
    yk_range_close_worker(w);
}

/* Parameters have come: which buckets are whole now? */
static void take(struct yk_worker *w, const struct yk_note *n, const void *data)
{
    size_t floats = yk_range_copy(w, n, data);
    if (floats == 0 || n->from >= w->rule->owners)
        return;
    struct yk_worker_buckets *b = &w->buckets;
    size_t lo = yk_worker_owner_at(w, n->from), hi = yk_worker_owner_at(w, n->from + 1u),
           from = n->task.lo, to = from + floats;
    if (from < lo || (from - lo) % w->cut != 0)
        return;
    for (size_t at = from; at < hi && (at + w->cut <= to || to >= hi); at += w->cut) {
        bool *come = &b->come[b->at[n->from] + (at - lo) / w->cut];
        b->missing -= !*come;
        *come = true;
    }
}

static bool are_here(const struct yk_worker *w, size_t lo, size_t hi)
{
    for (unsigned k = 0; k < w->rule->owners; k++) {
        size_t first = yk_worker_owner_at(w, k), last = yk_worker_owner_at(w, k + 1);
        size_t a = lo > first ? lo : first, b = hi < last ? hi : last;
        for (size_t i = a < b ? (a - first) / w->cut : 0; a < b && first + i * w->cut < b; i++)
            if (!w->buckets.come[w->buckets.at[k] + i])
                return false;
    }
    return true;
}

static bool answered(const struct yk_worker *w)
{
    return w->ordered && w->buckets.missing == 0;
}

/* If the task is confirmed and all its parameters are here, those that come next are the next
 * task's. */
static void complete(struct yk_worker *w)
{
    struct yk_worker_buckets *b = &w->buckets;
    if (b->task != YK_TASK_EARLY || b->missing > 0)
        return;
    memset(b->come, 0, b->n * sizeof *b->come);
    b->missing = b->n;
    b->task = YK_TASK_WHOLE;
    w->fresh = b->old;
}

/* The task after this one, if that can be known. */
static bool guess(const struct yk_worker *w, struct yk_task *out)
{
    const struct yk_rule *r = w->rule;
    const struct yk_task *t = &w->task;
    if (!w->eager || r->shares > 1 || t->examples == 0 || t->ahead == YK_NO_PART ||
        w->buckets.task != YK_TASK_WHOLE || w->again)
        return false;
    uint64_t left = r->rows - t->ahead % r->rows;
    *out = *t;
    out->step++;
    out->id = t->ahead;
    out->examples = left < r->batch ? (uint32_t)left : r->batch;
    out->ahead = left > r->batch ? t->ahead + r->batch : YK_NO_PART;
    return true;
}

/* Owner 0 has named the task: is it the one that was guessed? */
static bool guessed_right(struct yk_worker *w)
{
    const struct yk_task *a = &w->task, *b = &w->next;
    if (w->state == YK_WORKER_STOPPED || a->step != b->step || a->id != b->id ||
        a->examples != b->examples || a->first != b->first || a->last != b->last ||
        a->incarnation != b->incarnation)
        return false;
    w->task = w->next;
    w->buckets.task = YK_TASK_EARLY;
    w->ordered = false;
    w->replies = 0;
    return true;
}

/* The step before is to be done again first; the parameters that have come stay in `fresh`. */
static void go_back(struct yk_worker *w)
{
    struct yk_worker_buckets *b = &w->buckets;
    w->params.flat = b->old;
    w->task = b->before;
    w->ordered = w->ordered || b->task == YK_TASK_EARLY;
    b->task = YK_TASK_WHOLE;
}

static bool begin(struct yk_worker *w)
{
    struct yk_worker_buckets *b = &w->buckets;
    struct yk_task guessed;
    /* A step that was given up for a meeting goes on; complete() may make it whole. */
    bool begun = b->task == YK_TASK_EARLY;
    complete(w);
    if (b->task == YK_TASK_GUESSED || (b->task == YK_TASK_EARLY && w->again))
        go_back(w);
    bool told = answered(w) || (w->ordered && w->eager && w->task.examples > 0 && !w->again);
    if (told || (!begun && guess(w, &guessed))) {
        b->before = w->task;
        b->old = w->params.flat;
        if (w->mine[1] != NULL)
            w->params.flat = w->fresh;
        w->task = told ? w->next : guessed;
        b->task = told ? YK_TASK_EARLY : YK_TASK_GUESSED;
        if (told) {
            w->replies = 0;
            w->ordered = false;
        }
        complete(w);
    } else if (w->again) {
        yk_worker_redo(w);
    } else if (!begun) {
        return false;
    }
    w->again = b->abandoned = false;
    return true;
}

/* A worker asks for everything when it is about to push, which takes a confirmed task. */
static bool is_enough(const struct yk_worker *w, size_t lo, size_t hi)
{
    bool all = lo == 0 && hi == w->params.count;
    return w->buckets.task == YK_TASK_WHOLE ||
           (are_here(w, lo, hi) && !(w->buckets.task == YK_TASK_GUESSED && all));
}

static bool need(struct yk_sink *sink, size_t lo, size_t hi)
{
    struct yk_worker *w = (struct yk_worker *)sink;
    struct yk_worker_buckets *b = &w->buckets;
    struct yk_comm *c = w->comm;
    int me = yk_worker_endpoint(c, (int)w->index);
    if (b->task == YK_TASK_WHOLE || b->abandoned) /* only this thread changes them */
        return !b->abandoned;
    double start = w->timed ? yk_now() : 0;
    for (bool got = false; !got;) {
        unsigned seen = c->ops->seen(c, me);
        c->ops->lock(c, me);
        bool stopped = w->state != YK_WORKER_RUNS && w->state != YK_WORKER_STOPPED;
        b->abandoned = stopped || w->again || w->failed != YK_OK ||
                       (b->task == YK_TASK_GUESSED && w->ordered && !guessed_right(w));
        complete(w);
        got = is_enough(w, lo, hi);
        c->ops->unlock(c, me);
        if (b->abandoned)
            return false;
        if (!got)
            c->ops->wait(c, me, seen, PATIENCE);
    }
    if (b->task == YK_TASK_WHOLE)
        yk_worker_begin(w);
    if (w->timed)
        w->phases.pull += yk_now() - start;
    return true;
}

static void commit(struct yk_worker *w, double loss)
{
    if (w->buckets.abandoned)
        w->kept_lo = w->kept_hi = 0;
    yk_range_commit(w, loss);
}

/* --- an owner's end --- */

/* Where a bucket begins; the last ends with the range. */
static size_t bucket_at(const struct yk_server *s, unsigned i)
{
    size_t at = s->owner.lo + i * yk_rule_bucket(s->rule);
    return at < s->owner.hi ? at : s->owner.hi;
}

/* A step begins, or its open buckets do so once more. */
static void open_step(struct yk_server *s, bool again)
{
    struct yk_server_buckets *b = &s->buckets;
    for (unsigned i = 0; i < b->n; i++) {
        uint64_t floats = bucket_at(s, i + 1) - bucket_at(s, i);
        b->applied[i] = again && b->applied[i];
        b->due[i] = b->applied[i] ? 0 : floats * s->rule->shards;
    }
    b->closed = again ? b->closed : 0;
}

static void reopen(struct yk_server *s)
{
    open_step(s, true);
}

static yk_code open_owner(struct yk_server *s, unsigned pushes, struct yk_error *e)
{
    struct yk_server_buckets *b = &s->buckets;
    size_t size = yk_rule_bucket(s->rule), workers = s->rule->workers;
    (void)pushes;
    b->n = (unsigned)((yk_server_floats(s) + size - 1) / size);
    b->due = calloc(b->n + 1, sizeof *b->due);
    b->applied = calloc(b->n + 1, sizeof *b->applied);
    b->has = malloc(workers * sizeof *b->has);
    if (b->due == NULL || b->applied == NULL || b->has == NULL)
        return yk_fail_memory(e, b->n * sizeof *b->due);
    memset(b->has, 0xff, workers * sizeof *b->has);
    open_step(s, false);
    return yk_pack_open_owner(s, e);
}

static void close_owner(struct yk_server *s)
{
    free(s->buckets.due);
    free(s->buckets.applied);
    free(s->buckets.has);
    yk_pack_close_owner(s);
}

static int by_first(const void *a, const void *b)
{
    const struct yk_block *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Parameters of bucket i, as of the step that is being made, to all workers that take part in
 * it. */
static void send_bucket(struct yk_server *s, unsigned i)
{
    size_t lo = bucket_at(s, i), n = bucket_at(s, i + 1) - lo;
    if (s->pack.out != NULL)
        yk_pack_bucket(s, lo, n);
    for (unsigned w = 0; w < s->rule->workers; w++) {
        bool takes_part = false;
        for (unsigned k = 0; k < s->table.n && !takes_part; k++)
            takes_part = s->table.push[k].used && s->table.push[k].worker == w;
        if (!takes_part)
            continue;
        struct yk_note note = {.kind = YK_PIECE,
                               .urgency = yk_urgency(s->buckets.closed, false),
                               .step = s->owner.step + 1,
                               .task.lo = lo};
        if (s->pack.out != NULL)
            yk_pack_send_bucket(s, w, &note, n);
        else
            yk_server_send_worker(s, w, &note, s->owner.weights + lo, n * sizeof(float));
    }
    s->buckets.closed++;
}

/* All shards are here with their part of bucket i, unless a part was sent by a worker that is lost:
 * then the bucket comes again. False: it does. */
static bool apply_bucket(struct yk_server *s, unsigned i)
{
    uint32_t n = 0, shards = 0, examples = 0;
    for (unsigned k = 0; k < s->table.n; k++) {
        const struct yk_push *p = &s->table.push[k];
        if (!p->used)
            continue;
        s->block[n++] = (struct yk_block){
            .first = p->first, .last = p->last, .sum = p->sum, .origin = p->origin};
        shards += p->last - p->first;
        examples += p->examples;
    }
    if (shards != s->rule->shards)
        return false;
    qsort(s->block, n, sizeof *s->block, by_first);
    yk_owner_apply_blocks(&s->owner, s->block, shards, bucket_at(s, i), bucket_at(s, i + 1),
                          examples);
    return s->buckets.applied[i] = true;
}

/* A part of a push is here: apply the buckets that are complete with it. */
static void fill(struct yk_server *s, const struct yk_push *p, size_t lo, size_t hi,
                 void (*send)(struct yk_server *s, unsigned i))
{
    struct yk_server_buckets *b = &s->buckets;
    unsigned first = (unsigned)((lo - s->owner.lo) / yk_rule_bucket(s->rule));
    for (unsigned i = first; i < b->n && bucket_at(s, i) < hi; i++) {
        size_t from = bucket_at(s, i) > lo ? bucket_at(s, i) : lo,
               to = bucket_at(s, i + 1) < hi ? bucket_at(s, i + 1) : hi;
        uint64_t part = (uint64_t)(to - from) * (p->last - p->first);
        if (b->applied[i] || b->due[i] == 0)
            continue;
        b->due[i] -= part < b->due[i] ? part : b->due[i];
        if (b->due[i] == 0 && apply_bucket(s, i) && send != NULL)
            send(s, i);
    }
}

static void arrive_push(struct yk_server *s, const struct yk_note *note, const void *data,
                        void (*send)(struct yk_server *s, unsigned i))
{
    struct yk_note n = *note;
    struct yk_push *p;
    if (n.kind != YK_PUSH || !yk_range_receive(s, &n, data, &p) || p == NULL)
        return;
    yk_range_keep(s, p, &n, data);
    fill(s, p, n.push.lo, n.push.lo + n.bytes / sizeof(float), send);
    if (p->bytes >= yk_server_floats(s) * sizeof(float))
        yk_server_push_complete(s, p, &n);
}

static void arrive(struct yk_server *s, const struct yk_note *n, const void *data)
{
    arrive_push(s, n, data, send_bucket);
}

static void welcome(struct yk_server *s, unsigned w)
{
    s->buckets.has[w] = UINT64_MAX;
}

static void reply(struct yk_server *s, unsigned w, struct yk_note *n)
{
    bool has = s->buckets.has[w] == s->owner.step; /* they have gone, bucket by bucket */
    s->buckets.has[w] = s->owner.step;
    if (has)
        yk_server_send_worker(s, w, n, NULL, 0);
    else
        yk_range_reply(s, w, n);
}

/* All buckets have been applied. */
static void apply(struct yk_server *s, const struct yk_part *part, unsigned n, uint32_t v,
                  uint32_t examples)
{
    (void)v;
    (void)examples;
    for (unsigned i = 0; i < n; i++)
        s->buckets.has[part[i].push->worker] = s->owner.step + 1;
    open_step(s, false);
}

const struct yk_exchange yk_exchange_bucket = {
    .open_worker = open_worker,
    .close_worker = close_worker,
    .need = need,
    .push = yk_range_push,
    .commit = commit,
    .place = yk_range_place,
    .take = take,
    .answered = answered,
    .begin = begin,
    .open_owner = open_owner,
    .close_owner = close_owner,
    .place_push = yk_range_place_push,
    .arrive = arrive,
    .welcome = welcome,
    .reply = reply,
    .apply = apply,
    .reopen = reopen,
    .task_urgency = YK_AT_ONCE,
    .reads_in_place = true,
};

/* --- threads: buckets are applied as they fill, and nothing has to be sent back --- */

static void arrive_in_threads(struct yk_server *s, const struct yk_note *n, const void *data)
{
    arrive_push(s, n, data, NULL);
}

static void reply_in_threads(struct yk_server *s, unsigned w, struct yk_note *n)
{
    yk_server_send_worker(s, w, n, NULL, 0);
}

const struct yk_exchange yk_exchange_threads = {
    .open_worker = yk_range_open_worker,
    .close_worker = yk_range_close_worker,
    .push = yk_range_push,
    .commit = yk_range_commit,
    .place = yk_range_place,
    .take = yk_range_take,
    .answered = yk_worker_answered,
    .begin = yk_worker_begin_task,
    .open_owner = open_owner,
    .close_owner = close_owner,
    .place_push = yk_range_place_push,
    .arrive = arrive_in_threads,
    .welcome = welcome,
    .reply = reply_in_threads,
    .apply = apply,
    .reopen = reopen,
};
