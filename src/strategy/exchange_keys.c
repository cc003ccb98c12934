/* exchange_keys.c - sparse models: keys instead of ranges; wire.h draws the messages.
 *
 *     worker: ask         --ASK-->   owner: remember the list  --VALUES--> worker: values
 *     worker: commit_keys --PUSH-->  owner: apply, or keep; remember the next list
 *     worker: begin       <--REPLY-- owner: values of the next list
 *
 * Everything at a worker is as long as the list of keys of one task: values, sums of gradients,
 * messages. The values of the list that was sent last arrive in a second buffer, and become the
 * model's when the task is the one that the list was for. Buffers grow when a batch has more keys
 * than any before it, and then stay.
 *
 * An owner remembers each worker's last list of keys. A push brings the gradients of those, and the
 * next list, so its length is known before it is read. Where a push is a step by itself it is
 * applied from where it arrived; otherwise it is copied, with its keys, until its step is complete.
 * Then the lists of all pushes are merged, and their sums laid side by side over the keys of all of
 * them, a chunk at a time: there they have the shape of dense sums, and are added by the same tree.
 *
 * After a loss whole batches are redone with other shards and so other keys, and by then some
 * owners may have applied that step and others not. So where there are several, each keeps the
 * values from before its last step and answers for either step. One step back is enough: a worker
 * pushes for the next step only when every owner has answered it for this one.
 * THREADS: values and commit_keys belong to the worker's thread; the rest runs under the endpoint's
 * lock.
 * LIMITS: a message that does not fit the agreed lengths ends the job; only a broken worker
 * sends one. */
#include "base/clock.h"
#include "strategy/deal.h"
#include "strategy/exchange.h"

#include <stdlib.h>
#include <string.h>

static const double PATIENCE = 0.5; /* seconds of one wait */

/* --- a worker's end: arrivals --- */

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

static yk_code open_worker(struct yk_worker *w, bool own, struct yk_error *e)
{
    struct yk_worker_keys *k = &w->keys;
    unsigned owners = w->rule->owners;
    (void)own; /* values are always copies */
    if (w->params.count >= YK_NO_KEY)
        return yk_fail(e, YK_USAGE,
                       "a model of %zu parameters is too large: sparse ones have fewer than %u",
                       w->params.count, YK_NO_KEY);
    w->params.flat = NULL;
    k->id = YK_NO_PART;
    k->at = calloc(owners + 1, sizeof *k->at);
    k->used_at = calloc(owners + 1, sizeof *k->used_at);
    k->here = calloc(owners, sizeof *k->here);
    bool got = k->at != NULL && k->used_at != NULL && k->here != NULL;
    return got ? YK_OK : yk_fail_memory(e, (owners + 1) * sizeof *k->at);
}

static void close_worker(struct yk_worker *w)
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

/* Are these the values of the list that was sent last? */
static bool fits(const struct yk_worker_keys *k, unsigned owners, const struct yk_note *n)
{
    return k->ask != 0 && n->task.ask == k->ask && n->from < owners && !k->here[n->from] &&
           n->bytes == (k->at[n->from + 1] - k->at[n->from]) * sizeof(float);
}

static void *place_values(struct yk_worker *w, const struct yk_note *n)
{
    return fits(&w->keys, w->rule->owners, n) ? yk_boxes_place(&w->keys.in, n->bytes) : NULL;
}

static void take_values(struct yk_worker *w, const struct yk_note *n, const void *data)
{
    struct yk_worker_keys *k = &w->keys;
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
    yk_boxes_free(&k->in, data);
}

/* Parts of a push leave with commit_keys. */
static void push_nothing(struct yk_worker *w, size_t lo, size_t hi)
{
    (void)w;
    (void)lo;
    (void)hi;
}

/* --- a worker's end: messages --- */

/* Under the lock: from now on values of this list are awaited, for the task `id` and the shards of
 * the present one. */
static bool await_values(struct yk_worker *w, uint64_t id, const uint32_t *key, size_t n)
{
    struct yk_worker_keys *k = &w->keys;
    unsigned owners = w->rule->owners;
    if (!yk_grow((void **)&k->fresh, &k->fresh_room, n, sizeof(float))) {
        w->failed = YK_FAILED;
        return false;
    }
    if (++k->ask == 0) /* 0 means that there is no list */
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

/* Room for messages, when the engine has let go of those before. */
static bool room_out(struct yk_worker *w, size_t words)
{
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
        struct yk_note note = {.kind = YK_ASK,
                               .incarnation = w->task.incarnation,
                               .step = w->task.step,
                               .push = {.id = w->task.id, .next = k->ask}};
        yk_worker_send(w, o, &note, out + k->at[o], (k->at[o + 1] - k->at[o]) * sizeof *key);
    }
}

/* Make room in sums for the task's keys; a buffer is made when a shard first needs it. */
static void room_sums(struct yk_worker *w, size_t n)
{
    if (n <= w->sum_floats)
        return;
    for (unsigned i = 0; i < w->sums; i++)
        yk_floats_free(w->sum[i]);
    w->sums = 0;
    w->sum_floats = n + n / 2;
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
    /* A mixture is as old as its oldest part, and never younger than the task: another worker may
     * have done its part in a step that is closed since. */
    if (!w->rule->fresh)
        w->task.step = k->step;
    else if (w->rule->pooled && k->oldest < w->task.step)
        w->task.step = k->oldest;
}

bool yk_worker_have_values(struct yk_worker *w, size_t n, bool *over)
{
    const struct yk_worker_keys *k = &w->keys;
    lock(w);
    /* A step that is redone need not be when all owners have answered for it. */
    *over = yk_worker_is_over(w) || w->again || yk_worker_answered(w);
    bool here = !*over && k->missing == 0 && k->id == w->task.id && k->n == n &&
                k->first == w->task.first && k->last == w->task.last;
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
        for (unsigned i = 0; i < sums; i++) {
            if (mine > 0)
                memcpy(out, w->sum[i] + k->used_at[o], mine);
            out += mine;
        }
        if (theirs > 0)
            memcpy(out, key + k->at[o], theirs);
        out += theirs;
        struct yk_note note = {.kind = YK_PUSH,
                               .flags = YK_LAST_FLAG,
                               .incarnation = t->incarnation,
                               .examples = to - from,
                               .step = t->step,
                               .push = {.id = t->id,
                                        .ask = k->used,
                                        .next = next ? k->ask : 0,
                                        .loss = loss,
                                        .first = t->first,
                                        .last = t->last}};
        yk_worker_send(w, o, &note, message, (size_t)(out - message));
    }
    if (w->timed)
        w->phases.push += yk_now() - start;
}

/* --- an owner's end: buffers --- */

static yk_code open_owner(struct yk_server *s, unsigned rows, struct yk_error *e)
{
    struct yk_server_keys *k = &s->keys;
    k->rows_most = rows;
    k->undo.step = UINT64_MAX;
    k->asked = calloc(s->rule->workers, sizeof *k->asked);
    k->row = calloc(rows, sizeof *k->row);
    k->list = calloc(rows, sizeof *k->list);
    return k->asked != NULL && k->row != NULL && k->list != NULL
               ? YK_OK
               : yk_fail_memory(e, rows * sizeof *k->row);
}

static void close_owner(struct yk_server *s)
{
    struct yk_server_keys *k = &s->keys;
    if (k->asked != NULL)
        for (unsigned w = 0; w < s->rule->workers; w++)
            free(k->asked[w].key);
    free(k->asked);
    free(k->row);
    free(k->list);
    free(k->place);
    free(k->mixed);
    free(k->undo.key);
    free(k->undo.value);
}

/* --- an owner's end: values --- */

/* Values of a list as of the step before. Those that the step changed are in the undo list; the
 * others are read as that step would have found them. */
static void read_before(struct yk_server *s, const struct yk_asked *a, float *out)
{
    struct yk_owner *o = &s->owner;
    size_t at = 0, run = 0; /* the first key that has not been read yet */
    o->step--;
    for (size_t i = 0; i < a->n; i++) {
        while (at < s->keys.undo.n && s->keys.undo.key[at] < a->key[i])
            at++;
        if (at == s->keys.undo.n || s->keys.undo.key[at] != a->key[i])
            continue;
        yk_owner_read_keys(o, a->key + run, out + run, i - run);
        out[i] = s->keys.undo.value[at];
        run = i + 1;
    }
    yk_owner_read_keys(o, a->key + run, out + run, a->n - run);
    o->step++;
}

/* Values of a list as of `step`, which is the present one or the one before; false if it is
 * neither. */
static bool read_as_of(struct yk_server *s, uint64_t step, const struct yk_asked *a, float *out)
{
    if (step == s->owner.step)
        yk_owner_read_keys(&s->owner, a->key, out, a->n);
    else if (step + 1 == s->owner.step && step == s->keys.undo.step)
        read_before(s, a, out);
    else
        return false;
    return true;
}

/* The values of worker w's list, as of `step`, with this note. */
static void send_values(struct yk_server *s, unsigned w, uint64_t step, struct yk_note *n)
{
    const struct yk_asked *a = &s->keys.asked[w];
    size_t bytes = a->ask != 0 ? a->n * sizeof(float) : 0;
    n->task.ask = a->ask;
    if (bytes == 0) {
        yk_server_send_worker(s, w, n, NULL, 0);
        return;
    }
    n->from = (uint16_t)s->index;
    n->to = (uint16_t)yk_worker_endpoint(s->comm, (int)w);
    struct yk_box *box = yk_boxes_take(&s->out, bytes);
    if (box == NULL)
        yk_server_broken(s, "there is no memory for the values that a worker wants");
    else if (read_as_of(s, step, a, box->data))
        yk_comm_send(s->comm, n, box->data, bytes, &box->sending);
}

static void reply(struct yk_server *s, unsigned w, struct yk_note *n)
{
    send_values(s, w, s->owner.step, n);
}

/* --- an owner's end: a list arrives --- */

/* From now on this is worker w's list. False: it is broken, or there is no memory. */
static bool remember(struct yk_server *s, unsigned w, uint32_t ask, const uint32_t *key, size_t n)
{
    struct yk_asked *a = &s->keys.asked[w];
    a->ask = 0;
    a->n = 0;
    if (ask == 0)
        return true;
    if (!yk_keys_ok(key, n, s->owner.lo, s->owner.hi)) {
        yk_server_broken(s, "a worker asks for keys that are not sorted or not of this owner");
        return false;
    }
    if (!yk_grow((void **)&a->key, &a->room, n + 1, sizeof *a->key)) {
        yk_server_broken(s, "there is no memory for the keys that a worker asks for");
        return false;
    }
    if (key != NULL)
        memcpy(a->key, key, n * sizeof *key);
    a->key[n] = YK_NO_KEY;
    a->n = n;
    a->ask = ask;
    return true;
}

static void welcome(struct yk_server *s, unsigned w)
{
    remember(s, w, 0, NULL, 0);
}

static void arrive_ask(struct yk_server *s, const struct yk_note *n, const uint32_t *key)
{
    unsigned w = yk_server_worker(s, n->from);
    struct yk_note values = {.kind = YK_VALUES,
                             .step = yk_rule_batches(s->rule) ? n->step : s->owner.step};
    yk_server_see_incarnation(s, n->incarnation);
    if (n->incarnation < s->least[w]) /* it is fenced, or will have to ask for other keys */
        return;
    if (n->bytes % sizeof *key != 0 || (n->bytes > 0 && key == NULL)) {
        yk_server_broken(s, "a worker's question has a wrong length, or there is no memory for it");
        return;
    }
    if (remember(s, w, n->push.next, key, n->bytes / sizeof *key))
        send_values(s, w, values.step, &values);
}

/* --- an owner's end: a push arrives --- */

/* Sums in a push of the shards [first, last); 0 if there is no such span. */
static unsigned sums_of(const struct yk_server *s, uint32_t first, uint32_t last)
{
    unsigned sums = 0;
    if (first >= last || last > s->rule->shards)
        return 0;
    for (; first < last; first = yk_subtree_end(first, last, s->rule->shards))
        sums++;
    return sums;
}

/* Bytes of the gradients of a push; UINT64_MAX: it does not belong to the list that is
 * remembered. */
static uint64_t sum_bytes(const struct yk_server *s, const struct yk_note *n)
{
    const struct yk_asked *a = &s->keys.asked[yk_server_worker(s, n->from)];
    unsigned sums = sums_of(s, n->push.first, n->push.last);
    bool fits = sums > 0 && a->ask != 0 && a->ask == n->push.ask && n->bytes % sizeof(float) == 0 &&
                n->bytes / sizeof(float) >= sums * (uint64_t)a->n;
    return fits ? sums * (uint64_t)a->n * sizeof(float) : UINT64_MAX;
}

static void *place_push(struct yk_server *s, const struct yk_note *n)
{
    uint64_t keys = (s->owner.hi - s->owner.lo) * sizeof(uint32_t),
             sums = n->kind == YK_PUSH ? sum_bytes(s, n) : 0;
    if (sums == UINT64_MAX || n->bytes - sums > keys)
        return NULL;
    return yk_boxes_place(&s->in, n->bytes);
}

/* Keep the gradients of a push, and the keys that they are of, until its step is complete. */
static struct yk_push *keep(struct yk_server *s, const struct yk_note *n, const float *sum,
                            uint64_t bytes)
{
    unsigned w = yk_server_worker(s, n->from);
    struct yk_asked *a = &s->keys.asked[w];
    struct yk_push *p = yk_pending_find(&s->table, w, n);
    if (p == NULL ||
        !yk_grow((void **)&p->buffer, &p->room, bytes / sizeof(float) + 1, sizeof(float))) {
        if (p != NULL)
            p->used = false;
        yk_server_broken(s, "there is no memory for a worker's gradients");
        return NULL;
    }
    if (bytes > 0)
        memcpy(p->buffer, sum, bytes);
    p->sum = p->buffer;
    p->bytes = bytes;
    p->examples = n->examples;
    p->loss = n->push.loss;
    uint32_t *key = p->key;
    size_t room = p->key_room;
    p->key = a->key;
    p->keys = a->n;
    p->key_room = a->room;
    a->key = key;
    a->room = room;
    a->n = 0;
    return p;
}

static void arrive_push(struct yk_server *s, const struct yk_note *n, const float *data)
{
    unsigned w = yk_server_worker(s, n->from);
    struct yk_asked *a = &s->keys.asked[w];
    uint32_t next = n->push.next;
    yk_server_see_incarnation(s, n->incarnation);
    uint64_t bytes = sum_bytes(s, n);
    bool fits = bytes != UINT64_MAX && (n->bytes == 0 || data != NULL),
         counts = yk_server_counts(s, n);
    if (!fits && counts) {
        yk_server_broken(s, "a worker's push has a wrong length, or there is no memory for it");
        return;
    }
    const uint32_t *key = fits && n->bytes > bytes
                              ? (const uint32_t *)(const void *)((const char *)data + bytes)
                              : NULL;
    size_t keys = fits ? (n->bytes - bytes) / sizeof *key : 0;
    if (!counts) {
        if (remember(s, w, fits ? next : 0, key, keys))
            yk_server_drop(s, n);
        return;
    }
    if (s->rule->held) {
        struct yk_push *p = keep(s, n, data, bytes);
        if (p != NULL && remember(s, w, next, key, keys))
            yk_server_push_complete(s, p, n);
    } else {
        yk_owner_apply_keys(&s->owner, a->key, data, a->n, n->examples);
        if (remember(s, w, next, key, keys))
            yk_server_applied(s, n);
    }
}

static void arrive(struct yk_server *s, const struct yk_note *n, const void *data)
{
    if (n->kind == YK_ASK)
        arrive_ask(s, n, data);
    else
        arrive_push(s, n, data);
    yk_boxes_free(&s->in, data);
}

/* --- an owner's end: a step is complete --- */

/* The sums of a part, one for each of its subtrees. */
static void add_rows(struct yk_server_keys *k, const struct yk_part *part, uint32_t v)
{
    const struct yk_push *p = part->push;
    const float *sum = p->sum;
    uint32_t first = part->first;
    while (first < part->last && k->rows < k->rows_most) {
        uint32_t end = yk_subtree_end(first, part->last, v);
        k->row[k->rows++] = (struct yk_addend){.push = p, .sum = sum, .first = first, .last = end};
        sum += p->keys;
        first = end;
    }
}

static int by_first(const void *a, const void *b)
{
    const struct yk_addend *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Checks that the sorted rows cover [0, v), each shard once. Makes the lists of keys of their
 * pushes, whose rows are neighbours, and room for a chunk of each row and for the undo list.
 * False: the rows do not fit together, or there is no memory. */
static bool prepare(struct yk_server_keys *k, uint32_t v, bool undo)
{
    uint32_t at = 0;
    size_t keys = 0; /* of all pushes: an upper limit for the undo list */
    k->lists = 0;
    for (unsigned i = 0; i < k->rows; i++) {
        const struct yk_push *p = k->row[i].push;
        if (k->row[i].first != at)
            return false;
        at = k->row[i].last;
        if (i == 0 || p != k->row[i - 1].push) {
            k->list[k->lists++] = (struct yk_list){.key = p->key, .head = p->key[0], .row = i};
            keys += p->keys;
        }
        k->list[k->lists - 1].rows++;
    }
    if (at != v ||
        !yk_grow((void **)&k->mixed, &k->mixed_room, k->rows * (size_t)YK_SUM_CHUNK,
                 sizeof *k->mixed) ||
        !yk_grow((void **)&k->place, &k->place_room, k->lists * (size_t)YK_SUM_CHUNK,
                 sizeof *k->place))
        return false;
    for (unsigned i = 0; i < k->lists; i++)
        k->list[i].place = k->place + i * (size_t)YK_SUM_CHUNK;
    return !undo ||
           (yk_grow((void **)&k->undo.key, &k->undo.room, keys, sizeof *k->undo.key) &&
            yk_grow((void **)&k->undo.value, &k->undo.value_room, keys, sizeof *k->undo.value));
}

/* The next keys of all lists together, at most YK_SUM_CHUNK, and where each list's are among them.
 * Returns how many there are. No branch depends on a key, because no processor could predict which
 * list comes next. */
static uint32_t merge(struct yk_list *list, unsigned lists, uint32_t *key)
{
    uint32_t n = 0;
    for (; n < YK_SUM_CHUNK; n++) {
        uint32_t least = YK_NO_KEY;
        for (unsigned i = 0; i < lists; i++)
            least = list[i].head < least ? list[i].head : least;
        if (least == YK_NO_KEY)
            break;
        key[n] = least;
        for (unsigned i = 0; i < lists; i++) {
            struct yk_list *l = &list[i];
            l->place[l->taken] = (uint16_t)n;
            l->taken += l->head == least;
            l->head = l->key[l->taken];
        }
    }
    return n;
}

/* The next chunk: its keys, and the sums laid side by side over them, +0.0f where a push does
 * not have the key. */
static size_t mix(struct yk_server_keys *k, uint32_t *key)
{
    size_t n = merge(k->list, k->lists, key);
    for (unsigned i = 0; i < k->lists; i++) {
        struct yk_list *l = &k->list[i];
        for (unsigned r = l->row; r < l->row + l->rows; r++) {
            float *to = k->mixed + r * (size_t)YK_SUM_CHUNK;
            const float *from = k->row[r].sum + l->done;
            memset(to, 0, n * sizeof *to);
            for (uint32_t j = 0; j < l->taken; j++)
                to[l->place[j]] = from[j];
        }
        l->key += l->taken;
        l->done += l->taken;
        l->taken = 0;
    }
    return n;
}

static void apply(struct yk_server *s, const struct yk_part *part, unsigned n, uint32_t v,
                  uint32_t examples)
{
    _Alignas(64) float row[YK_SUM_DEPTH][YK_SUM_CHUNK];
    uint32_t key[YK_SUM_CHUNK];
    struct yk_server_keys *k = &s->keys;
    bool undo = s->rule->owners > 1 && !s->rule->pooled;
    k->rows = 0;
    k->undo.n = 0;
    k->undo.step = undo ? s->owner.step : UINT64_MAX;
    for (unsigned i = 0; i < n; i++)
        add_rows(k, &part[i], v);
    qsort(k->row, k->rows, sizeof *k->row, by_first);
    if (!prepare(k, v, undo)) {
        yk_server_broken(
            s, "the gradients of a step do not fit together, or there is no memory for them");
        return;
    }
    for (unsigned i = 0; i < k->rows; i++)
        s->block[i] = (struct yk_block){.first = k->row[i].first,
                                        .last = k->row[i].last,
                                        .sum = k->mixed + i * (size_t)YK_SUM_CHUNK};
    for (size_t keys = mix(k, key); keys > 0; keys = mix(k, key)) {
        if (undo) {
            memcpy(k->undo.key + k->undo.n, key, keys * sizeof *key);
            yk_owner_read_keys(&s->owner, key, k->undo.value + k->undo.n, keys);
            k->undo.n += keys;
        }
        yk_owner_apply_keys(&s->owner, key, yk_tree_sum(s->block, v, 0, keys, row), keys, examples);
    }
}

const struct yk_exchange yk_exchange_keys = {
    .open_worker = open_worker,
    .close_worker = close_worker,
    .push = push_nothing,
    .place = place_values,
    .take = take_values,
    .answered = yk_worker_answered,
    .begin = yk_worker_begin_task,
    .open_owner = open_owner,
    .close_owner = close_owner,
    .place_push = place_push,
    .arrive = arrive,
    .welcome = welcome,
    .reply = reply,
    .apply = apply,
};
