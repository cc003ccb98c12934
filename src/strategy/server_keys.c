/* server_keys.c - an owner's end of the wire for sparse models: keys instead of ranges; see strategy.h for the messages.
 *
 * An owner remembers each worker's last list of keys. A push brings the gradients of those, and the next list; so the length of a push is
 * known before it is read, and nobody sends a key twice. Where a push is a step of its own it is applied from where it arrived; otherwise
 * it is copied, with its keys, until its step is complete. Then the lists of all pushes are merged, and their sums laid side by side over
 * the keys of all of them, a chunk at a time: there they have the shape of dense sums, and are added by the same tree.
 *
 * After a loss whole batches are done once more, with other shards and so other keys, and by then an owner may have applied that step,
 * when another has not. So where there are several, each keeps what its last step changed, with the values from before, and answers for
 * either step. One step back is enough: nobody pushes for the next before every owner has answered him for this.
 * THREADS: under the owner's lock.
 * LIMITS:  a message that does not fit what was agreed ends the job; it can only come from a broken worker. */
#include "strategy/server.h"

#include "strategy/server_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

yk_code yk_server_init_keys(struct yk_server *s, unsigned rows, struct yk_error *e)
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

void yk_server_release_keys(struct yk_server *s)
{
    struct yk_server_keys *k = &s->keys;
    for (unsigned w = 0; k->asked != NULL && w < s->rule->workers; w++)
        free(k->asked[w].key);
    free(k->asked);
    free(k->row);
    free(k->list);
    free(k->place);
    free(k->mixed);
    free(k->undo.key);
    free(k->undo.value);
    yk_boxes_release(&k->in);
    yk_boxes_release(&k->out);
}

void yk_server_broken(struct yk_server *s, const char *why)
{
    struct yk_note n = {.kind = YK_END, .step = s->owner.step};
    char text[sizeof s->why];
    if (s->failed != YK_OK)
        return;
    snprintf(text, sizeof text, "owner %u cannot go on: %s", s->index, why);
    if (s->clock != NULL) {
        yk_server_fail(s, YK_FAILED, text);
        return;
    }
    s->failed = YK_FAILED;
    s->halted = true;
    memcpy(s->why, text, sizeof text);
    if (!s->comm
             ->shared) /* in one process the clock's lock comes before this one, so the workers are told instead */
        yk_server_send(s, 0, &n, s->why, sizeof s->why);
    for (int w = 0; s->comm->shared && w < s->comm->workers; w++)
        yk_server_send(s, yk_worker_endpoint(s->comm, w), &n, s->why, sizeof s->why);
}

/* --- values --- */

/* Values of a list as of the step before: what that step touched is in the list of what it changed; the rest is read as it would have
 * found it. */
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

/* Values of a list as of `step`, which is the present one or the one before; false if it is neither. */
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

/* The values of what worker w has asked for, as of `step`, behind a note. */
static void send_values(struct yk_server *s, unsigned w, uint64_t step, struct yk_note *n)
{
    const struct yk_asked *a = &s->keys.asked[w];
    int to = yk_worker_endpoint(s->comm, (int)w);
    size_t bytes = a->ask != 0 ? a->n * sizeof(float) : 0;
    n->lo = a->ask;
    n->from = (uint16_t)s->index;
    n->to = (uint16_t)to;
    if (bytes == 0) {
        yk_comm_send(s->comm, n, NULL, 0, NULL);
        return;
    }
    struct yk_box *box = yk_boxes_take(&s->keys.out, bytes);
    if (box == NULL)
        yk_server_broken(s, "there is no memory for the values that a worker wants");
    else if (read_as_of(s, step, a, box->data))
        yk_comm_send(s->comm, n, box->data, bytes, &box->sending);
}

void yk_server_reply_keys(struct yk_server *s, unsigned w, struct yk_note *n)
{
    send_values(s, w, s->owner.step, n);
}

/* --- a list arrives --- */

/* From now on this is what worker w has asked for. */
static bool remember(struct yk_server *s, unsigned w, uint32_t ask, const uint32_t *key, size_t n)
{
    struct yk_asked *a = &s->keys.asked[w];
    a->ask = 0;
    a->n = 0;
    if (ask == 0)
        return true;
    if (!yk_keys_ok(key, n, s->owner.lo, s->owner.hi)) {
        yk_server_broken(s, "a worker asks for keys that are not sorted or not there");
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

static void arrive_pull(struct yk_server *s, const struct yk_note *n, const uint32_t *key)
{
    unsigned w = yk_server_worker(s, n->from);
    struct yk_note values = {.kind = YK_VALUES, .step = s->owner.step};
    bool whole = s->rule->fresh && !s->rule->pooled;
    if (n->lo == 0) { /* a new worker: it begins with nothing */
        remember(s, w, 0, NULL, 0);
        return;
    }
    yk_server_see(s, n->incarnation);
    if (n->incarnation <
        s->least[w]) /* it will hear that it is taken for dead, or has to ask for something else */
        return;
    if (n->bytes % sizeof *key != 0 || (n->bytes > 0 && key == NULL)) {
        yk_server_broken(s, "a worker's question has a wrong length, or there is no memory for it");
        return;
    }
    if (!remember(s, w, (uint32_t)(n->lo >> 32), key, n->bytes / sizeof *key))
        return;
    values.step = whole ? n->step : s->owner.step;
    send_values(s, w, values.step, &values);
}

/* --- a push arrives --- */

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

/* Bytes of its gradients, or UINT64_MAX if the push does not belong to the list that is remembered. */
static uint64_t sum_bytes(const struct yk_server *s, const struct yk_note *n)
{
    const struct yk_asked *a = &s->keys.asked[yk_server_worker(s, n->from)];
    unsigned sums = sums_of(s, n->first, n->last);
    bool fits = sums > 0 && a->ask != 0 && a->ask == (uint32_t)n->lo &&
                n->bytes % sizeof(float) == 0 && n->bytes / sizeof(float) >= sums * (uint64_t)a->n;
    return fits ? sums * (uint64_t)a->n * sizeof(float) : UINT64_MAX;
}

void *yk_server_place_keys(struct yk_server *s, const struct yk_note *n)
{
    uint64_t keys = (s->owner.hi - s->owner.lo) * sizeof(uint32_t),
             sums = n->kind == YK_PUSH ? sum_bytes(s, n) : 0;
    if (sums == UINT64_MAX || n->bytes - sums > keys)
        return NULL;
    struct yk_box *box = yk_boxes_take(&s->keys.in, n->bytes);
    if (box == NULL)
        return NULL;
    box->busy = true;
    return box->data;
}

/* Keep the gradients of a push, and the keys that they are of, until its step is complete. */
static struct yk_push *keep(struct yk_server *s, const struct yk_note *n, const float *sum,
                            uint64_t bytes)
{
    unsigned w = yk_server_worker(s, n->from);
    struct yk_asked *a = &s->keys.asked[w];
    struct yk_push *p = yk_pushes_find(&s->table, w, n);
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
    p->loss = n->loss;
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
    uint32_t next = (uint32_t)(n->lo >> 32);
    yk_server_see(s, n->incarnation);
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
            yk_server_whole(s, p, n);
    } else {
        yk_owner_apply_keys(&s->owner, a->key, data, a->n, n->examples);
        if (remember(s, w, next, key, keys))
            yk_server_applied(s, n);
    }
}

void yk_server_arrive_keys(struct yk_server *s, const struct yk_note *n, const void *data)
{
    struct yk_box *box = data != NULL ? yk_boxes_around(&s->keys.in, data) : NULL;
    if (n->kind == YK_PULL)
        arrive_pull(s, n, data);
    else
        arrive_push(s, n, data);
    if (box != NULL)
        box->busy = false;
}

/* --- a step is complete --- */

void yk_server_add_rows(struct yk_server *s, const struct yk_push *p, uint32_t first, uint32_t last,
                        uint32_t v)
{
    struct yk_server_keys *k = &s->keys;
    const float *sum = p->sum;
    for (uint32_t end; first < last && k->rows < k->rows_most; first = end) {
        end = yk_subtree_end(first, last, v);
        k->row[k->rows++] = (struct yk_addend){.push = p, .sum = sum, .first = first, .last = end};
        sum += p->keys;
    }
}

static int by_first(const void *a, const void *b)
{
    const struct yk_addend *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* The rows, sorted, cover [0, v), each shard once: then the lists of keys of their pushes, whose rows are neighbours, and room for a
 * chunk of each and for what the step will change. False: they do not, or there is no memory. */
static bool prepare(struct yk_server_keys *k, uint32_t v, bool undo)
{
    uint32_t at = 0;
    size_t keys = 0; /* of all pushes: as many as all of them together have at most */
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

/* The next keys of all lists together, at most YK_SUM_CHUNK, and where each list's are among them. Without branches that depend on keys:
 * which list comes next cannot be foreseen. Returns how many there are. */
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

/* The next chunk: its keys, and the sums laid side by side over them, +0.0f where a push does not have the key. */
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

void yk_server_apply_rows(struct yk_server *s, uint32_t v, uint32_t examples)
{
    _Alignas(64) float row[YK_SUM_DEPTH][YK_SUM_CHUNK];
    uint32_t key[YK_SUM_CHUNK];
    struct yk_server_keys *k = &s->keys;
    bool undo = s->rule->owners > 1 && !s->rule->pooled;
    k->undo.n = 0;
    k->undo.step = undo ? s->owner.step : UINT64_MAX;
    qsort(k->row, k->rows, sizeof *k->row, by_first);
    bool ready = prepare(k, v, undo);
    if (!ready)
        yk_server_broken(
            s, "the gradients of a step do not fit together, or there is no memory for them");
    for (unsigned i = 0; ready && i < k->rows; i++)
        s->block[i] = (struct yk_block){.first = k->row[i].first,
                                        .last = k->row[i].last,
                                        .sum = k->mixed + i * (size_t)YK_SUM_CHUNK};
    for (size_t n; ready && (n = mix(k, key)) > 0;) {
        if (undo) {
            memcpy(k->undo.key + k->undo.n, key, n * sizeof *key);
            yk_owner_read_keys(&s->owner, key, k->undo.value + k->undo.n, n);
            k->undo.n += n;
        }
        yk_owner_apply_keys(&s->owner, key, yk_tree_sum(s->block, v, 0, n, row), n, examples);
    }
    k->rows = 0;
}
