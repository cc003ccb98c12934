/* worker_keys.c - a worker's end of the wire for sparse models; see worker.h for what the step loop does, and strategy.h for the
 * messages.
 *
 * Everything here is as long as the list of keys of one task: values, sums of gradients, messages. The values that belong to the list
 * that was sent last arrive in a second buffer, and become the model's when the task is the one that the list was for. Buffers grow when
 * a batch has more keys than any before it, and then stay.
 * THREADS: values and commit_keys belong to the worker's thread, the rest runs under the endpoint's lock. */
#include "base/clock.h"
#include "strategy/deal.h"
#include "strategy/worker.h"
#include "strategy/worker_parts.h"

#include <stdlib.h>
#include <string.h>

static const double PATIENCE = 0.5; /* seconds of one wait */

static int endpoint_of(const struct yk_worker *w)
{
    return yk_worker_endpoint(w->comm, (int)w->index);
}

static void lock(struct yk_worker *w)
{
    w->comm->ops->lock(w->comm, endpoint_of(w));
}

static void unlock(struct yk_worker *w)
{
    w->comm->ops->unlock(w->comm, endpoint_of(w));
}

yk_code yk_worker_init_keys(struct yk_worker *w, struct yk_error *e)
{
    struct yk_worker_keys *k = &w->keys;
    unsigned owners = w->rule->owners;
    if (w->params.count >= YK_NO_KEY)
        return yk_fail(e, YK_USAGE, "a sparse model has fewer than %u parameters, and this one %zu",
                       YK_NO_KEY, w->params.count);
    w->params.flat = NULL;
    k->id = YK_NO_PART;
    k->at = calloc(owners + 1, sizeof *k->at);
    k->used_at = calloc(owners + 1, sizeof *k->used_at);
    k->here = calloc(owners, sizeof *k->here);
    bool got = k->at != NULL && k->used_at != NULL && k->here != NULL;
    return got ? YK_OK : yk_fail_memory(e, (owners + 1) * sizeof *k->at);
}

void yk_worker_release_keys(struct yk_worker *w)
{
    struct yk_worker_keys *k = &w->keys;
    free(k->at);
    free(k->used_at);
    free(k->here);
    free(k->fresh);
    free(k->value);
    free(k->out);
    yk_boxes_release(&k->in);
}

/* --- what arrives --- */

/* Are these the values of the list that was sent last? */
static bool fits(const struct yk_worker_keys *k, unsigned owners, const struct yk_note *n)
{
    return k->ask != 0 && n->lo == k->ask && n->from < owners && !k->here[n->from] &&
           n->bytes == (k->at[n->from + 1] - k->at[n->from]) * sizeof(float);
}

void *yk_worker_place_values(struct yk_worker *w, const struct yk_note *n)
{
    struct yk_box *box =
        fits(&w->keys, w->rule->owners, n) ? yk_boxes_take(&w->keys.in, n->bytes) : NULL;
    if (box == NULL)
        return NULL;
    box->busy = true;
    return box->data;
}

void yk_worker_take_values(struct yk_worker *w, const struct yk_note *n, const float *data)
{
    struct yk_worker_keys *k = &w->keys;
    struct yk_box *box = data != NULL ? yk_boxes_around(&k->in, data) : NULL;
    if (fits(k, w->rule->owners, n) && (n->bytes == 0 || data != NULL)) {
        if (n->bytes > 0)
            memcpy(k->fresh + k->at[n->from], data, n->bytes);
        if (k->missing == w->rule->owners || n->step < k->oldest)
            k->oldest = n->step;
        if (n->from == 0)
            k->step = n->step;
        k->here[n->from] = true;
        k->missing--;
    }
    if (box != NULL)
        box->busy = false;
}

/* --- what leaves --- */

/* Under the lock: from now on values of this list are awaited, for the task `id` and the span of the present one. */
static bool await_values(struct yk_worker *w, uint64_t id, const uint32_t *key, size_t n)
{
    struct yk_worker_keys *k = &w->keys;
    unsigned owners = w->rule->owners;
    if (!yk_grow((void **)&k->fresh, &k->fresh_room, n, sizeof(float))) {
        w->failed = YK_FAILED;
        return false;
    }
    if (++k->ask == 0) /* means that there is none */
        k->ask = 1;
    k->id = id;
    k->first = w->task.first;
    k->last = w->task.last;
    k->n = n;
    k->missing = owners;
    memset(k->here, 0, owners * sizeof *k->here);
    yk_keys_split(key, n, owners, w->params.count, k->at);
    return true;
}

/* Room for what is to be sent, when the engine has let go of what was sent before. */
static bool room_out(struct yk_worker *w, size_t words)
{
    if (!w->comm->shared)
        yk_worker_settle(w);
    if (atomic_load_explicit(&w->sending, memory_order_acquire) == 0 &&
        yk_grow(&w->keys.out, &w->keys.out_room, words, 4))
        return true;
    w->failed = YK_FAILED;
    return false;
}

void yk_worker_ask(struct yk_worker *w, const uint32_t *key, size_t n)
{
    struct yk_worker_keys *k = &w->keys;
    if (!room_out(w, n))
        return;
    lock(w);
    bool awaited = await_values(w, w->task.id, key, n);
    unlock(w);
    if (!awaited)
        return;
    uint32_t *out = k->out;
    if (n > 0)
        memcpy(out, key, n * sizeof *key);
    for (unsigned o = w->rule->owners; o-- > 0;) {
        struct yk_note note = {.kind = YK_PULL,
                               .incarnation = w->task.incarnation,
                               .step = w->task.step,
                               .id = w->task.id,
                               .lo = (uint64_t)k->ask << 32};
        yk_worker_send(w, o, &note, out + k->at[o], (k->at[o + 1] - k->at[o]) * sizeof *key);
    }
}

/* Sums have room for the task's keys: each is made when a shard first needs it. */
static void room_sums(struct yk_worker *w, size_t n)
{
    if (n <= w->keys.sum_room)
        return;
    for (unsigned i = 0; i < w->sums; i++)
        yk_floats_free(w->sum[i]);
    w->sums = 0;
    w->keys.sum_room = n + n / 2;
}

/* Under the lock: the values that have arrived are the model's. */
static void use_values(struct yk_worker *w)
{
    struct yk_worker_keys *k = &w->keys;
    float *value = k->value;
    size_t room = k->value_room, *at = k->used_at;
    w->params.flat = k->value = k->fresh;
    k->value_room = k->fresh_room;
    k->fresh = value;
    k->fresh_room = room;
    k->used_at = k->at;
    k->at = at;
    k->used = k->ask;
    k->id = YK_NO_PART;
    if (!w->rule->fresh)
        w->task.step = k->step;
    else if (
        w->rule->pooled &&
        k->oldest <
            w->task
                .step) /* a mixture is as old as its oldest part. Never younger than the task: somebody */
        w->task.step = k->oldest; /* else may have done its part in a step that is closed since */
}

bool yk_worker_have_values(struct yk_worker *w, size_t n, bool *over)
{
    const struct yk_worker_keys *k = &w->keys;
    lock(w);
    bool closed = yk_worker_answered(
        w); /* a step that is done again need not be: no owner waits for it now */
    *over = w->stop || w->fenced || w->meet || w->failed != YK_OK || w->again || closed;
    bool here = !*over && k->missing == 0 && k->id == w->task.id && k->n == n &&
                (w->rule->pooled || (k->first == w->task.first && k->last == w->task.last));
    if (here)
        use_values(w);
    unlock(w);
    if (here)
        room_sums(w, n);
    return here;
}

bool yk_worker_values(struct yk_worker *w, const uint32_t *key, size_t n)
{
    struct yk_comm *c = w->comm;
    int me = endpoint_of(w);
    for (bool asked = false, over;; asked = true) {
        unsigned seen = c->ops->seen(c, me);
        if (yk_worker_have_values(w, n, &over))
            return true;
        if (over)
            return false;
        if (asked)
            c->ops->wait(c, me, seen, PATIENCE);
        else
            yk_worker_ask(w, key, n);
    }
}

void yk_worker_commit_keys(struct yk_worker *w, double loss, uint64_t id, const uint32_t *key,
                           size_t n)
{
    double start = w->timed ? yk_now() : 0;
    struct yk_worker_keys *k = &w->keys;
    const struct yk_task *t = &w->task;
    uint32_t from = yk_shard_at(t->first, w->rule->shards, t->examples),
             to = yk_shard_at(t->last, w->rule->shards, t->examples);
    unsigned owners = w->rule->owners, sums = w->base + 1;
    bool next = id != YK_NO_PART;
    n = next ? n : 0;
    if (!room_out(w, sums * k->used_at[owners] + n))
        return;
    lock(w);
    bool awaited = await_values(w, id, key, n);
    unlock(w);
    if (!awaited)
        return;
    char *out = k->out;
    for (unsigned o = owners; o-- > 0;) { /* owner 0 gets its part last: then the batch counts */
        char *message = out;
        size_t mine = (k->used_at[o + 1] - k->used_at[o]) * sizeof(float),
               theirs = (k->at[o + 1] - k->at[o]) * sizeof *key;
        for (unsigned i = 0; mine > 0 && i < sums; i++, out += mine)
            memcpy(out, w->sum[i] + k->used_at[o], mine);
        if (theirs > 0)
            memcpy(out, key + k->at[o], theirs);
        out += theirs;
        struct yk_note note = {.kind = YK_PUSH,
                               .flags = YK_LAST_FLAG,
                               .incarnation = t->incarnation,
                               .examples = to - from,
                               .step = t->step,
                               .id = t->id,
                               .lo = k->used | (uint64_t)(next ? k->ask : 0) << 32,
                               .loss = loss,
                               .first = t->first,
                               .last = t->last};
        yk_worker_send(w, o, &note, message, (size_t)(out - message));
    }
    if (w->timed)
        w->phases.push += yk_now() - start;
}
