/* hot_keys.c - the keys that nearly every row has, copied per thread while several threads sweep.
 *
 * Threads that share parameters without locks are slower than one alone if they share the *hot*
 * ones: a field of few values has weights that each thread writes every other row, and each
 * write takes the cache line away from the others. So the most frequent keys, some thousands, are
 * taken out of the parameters for the length of a sweep. Each thread has a compact copy of their
 * values and state; now and then it adds its changes to a common copy under a lock, and takes over
 * the changes of the others.
 *
 *     frequency  |bias ... |                |                                |
 *     merged     every tick  every 2nd tick   every 4th, 8th, ... tick
 *
 * A tick is YK_HOT_TICK rows; at each the longest prefix that is due is merged.
 *
 * A key is due in proportion to how often it comes, so that the copies differ by few updates, and
 * in the beginning far more often: after ten updates of a key, two threads must not add ten further
 * updates each without knowledge of the other's (that made the loss 0.7 % worse; now 0.1 %).
 * Changes add up, of parameters and of state (sums of squares, FTRL's z). Averaging the
 * parameters instead was tried: it halves what the hot keys learn, and adding has been stable at
 * every rate at which one thread is.
 *
 * Which keys: the most frequent of a sample of the rows. Each has a cell of its own in a table
 * found by one multiplication; where two want the same cell the more frequent one gets it and the
 * other stays cold, which only costs time.
 * THREADS: see hot_keys.h. A thread that finds the lock taken merges at the next tick instead; no
 * thread sleeps here. */
#include "model/logreg/hot_keys.h"

enum {
    SAMPLE = 4096, /* rows whose keys are counted */
    PIECE = 64,    /* neighbouring rows of the sample */
    AT_LEAST = 4,  /* the sample has a hot key at least so many times */
    TOP = 64,      /* keys that are due at every tick; twice as many every other tick, and so on */
    /* Rows of training after which TOP holds. The fewer rows before that, the more keys are due. */
    SETTLED = 1 << 16,
    BEHIND = 64, /* merges by others after which a thread merges all its keys */
};

struct key_count {
    uint32_t key, n;
};

static int by_count(const void *a, const void *b)
{
    const struct key_count *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Row i of the sample, which is all rows, or SAMPLE of them in evenly spread pieces. It is not
 * taken from the rows of the sweep, because the first sweep may have a single row. */
static struct yk_row sampled(const struct yk_rows *s, uint64_t i)
{
    return yk_row_at(s,
                     s->rows <= SAMPLE ? i : i / PIECE * (s->rows / (SAMPLE / PIECE)) + i % PIECE);
}

/* Lists the keys that the sample has AT_LEAST times, the most frequent first. */
static yk_code count_keys(const struct yk_rows *s, struct key_count **out, uint32_t *n,
                          struct yk_error *e)
{
    uint64_t rows = s->rows < SAMPLE ? s->rows : SAMPLE, entries = 0;
    struct yk_dedup d = {0};
    uint32_t keys = 0, longest = 0;
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t row_n = sampled(s, i).n;
        entries += row_n;
        longest = row_n > longest ? row_n : longest;
    }
    struct key_count *c = calloc(entries + 1, sizeof *c);
    uint32_t *list = malloc((entries + 1) * sizeof *list),
             *number = calloc((size_t)longest + 1, sizeof *number);
    yk_code rc = YK_OK;
    if (c == NULL || list == NULL || number == NULL || !yk_dedup_begin(&d, entries)) {
        rc = yk_fail_memory(e, entries * sizeof *c);
        goto out;
    }
    for (uint64_t i = 0; i < rows; i++) {
        struct yk_row row = sampled(s, i);
        keys = yk_dedup_add(&d, list, keys, row.key, row.n, number);
        for (uint32_t k = 0; k < row.n; k++)
            c[number[k]].n++;
    }
    *n = 0;
    for (uint32_t i = 0; i < keys; i++)
        if (c[i].n >= AT_LEAST)
            c[(*n)++] = (struct key_count){.key = list[i], .n = c[i].n};
    qsort(c, *n, sizeof *c, by_count);
    *out = c;
    c = NULL;
out:
    yk_dedup_release(&d);
    free(number);
    free(list);
    free(c);
    return rc;
}

yk_code yk_hot_open(struct yk_hot **out, const struct yk_sweep *s, struct yk_error *e)
{
    enum { CELLS = 1 << YK_HOT_CELLS_BITS };
    struct key_count *count = NULL;
    uint32_t n = 0;
    struct yk_hot *h = calloc(1, sizeof *h);
    if (h == NULL)
        return yk_fail_memory(e, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    yk_code rc = count_keys(s->rows, &count, &n, e);
    if (rc != YK_OK)
        goto out_hot;
    h->key = calloc(YK_HOT_MAX, sizeof *h->key);
    h->cell = calloc(CELLS, sizeof *h->cell);
    bool all = h->key != NULL && h->cell != NULL;
    for (unsigned v = 0; v < YK_HOT_VECTORS; v++)
        all = (h->vector[v] = yk_floats(YK_HOT_MAX)) != NULL && all;
    if (!all) {
        rc = yk_fail_memory(e, CELLS * sizeof *h->cell);
        goto out_count;
    }
    /* An empty cell has a key that belongs to another cell, so no look-up finds it: feature 0
     * belongs to cell 0, and feature 1 does not. */
    for (uint32_t i = 0; i < CELLS; i++)
        h->cell[i].key = i == 0;
    h->n = 1; /* the bias */
    for (uint32_t i = 0; i < n && h->n < YK_HOT_MAX; i++) {
        struct yk_hot_cell *c = h->cell + (yk_hot_cell(h->cell, count[i].key) - h->cell);
        if (c->at != 0)
            continue;
        *c = (struct yk_hot_cell){.key = count[i].key, .at = h->n};
        h->key[h->n++] = count[i].key;
    }
    free(count);
    *out = h;
    return YK_OK;
out_count:
    free(count);
out_hot:
    yk_hot_close(h);
    return rc;
}

void yk_hot_close(struct yk_hot *h)
{
    if (h == NULL)
        return;
    pthread_mutex_destroy(&h->lock);
    free(h->key);
    free(h->cell);
    for (unsigned v = 0; v < YK_HOT_VECTORS; v++)
        yk_floats_free(h->vector[v]);
    free(h);
}

static float *place(const struct yk_hot *h, const struct yk_logreg_model *m,
                    const struct yk_sweep *s, unsigned v, uint32_t i)
{
    float *flat = v == 0 ? s->w : s->slot[v - 1];
    return flat + (i == 0 ? m->bias : m->weight + h->key[i]);
}

void yk_hot_begin(struct yk_hot *h, const struct yk_logreg_model *m, const struct yk_sweep *s)
{
    for (unsigned v = 0; v <= s->slots; v++)
        for (uint32_t i = 0; i < h->n; i++)
            h->vector[v][i] = *place(h, m, s, v, i);
}

/* The changes of a parameter and of its state were added up separately. Where one follows from the
 * other (FTRL), this update makes them agree; its gradient is too small to change anything else. */
static void agree(const struct yk_hot *h, const struct yk_sweep *s, uint32_t i)
{
    float w = h->vector[0][i], tiny = 1e-30f, state[YK_SWEEP_SLOTS], *slot[YK_SWEEP_SLOTS];
    for (unsigned v = 0; v < s->slots; v++) {
        state[v] = h->vector[v + 1][i];
        slot[v] = &state[v];
    }
    s->apply(s->update(s->arg, 0, (s->count - 1) / s->batch, 1), &w, &tiny, slot, 1);
    h->vector[0][i] = w;
}

void yk_hot_end(struct yk_hot *h, const struct yk_logreg_model *m, const struct yk_sweep *s)
{
    for (uint32_t i = 0; i < h->n; i++) {
        bool changed = false;
        for (unsigned v = 0; v <= s->slots; v++)
            changed = changed || h->vector[v][i] != *place(h, m, s, v, i);
        if (changed && s->slots > 0)
            agree(h, s, i);
        for (unsigned v = 0; v <= s->slots; v++)
            *place(h, m, s, v, i) = h->vector[v][i];
    }
}

yk_code yk_copies_init(struct yk_copies *c, struct yk_error *e)
{
    bool all = true;
    for (unsigned v = 0; v < YK_HOT_VECTORS; v++) {
        c->mine[v] = yk_floats(YK_HOT_MAX);
        c->then[v] = yk_floats(YK_HOT_MAX);
        all = all && c->mine[v] != NULL && c->then[v] != NULL;
    }
    return all ? YK_OK : yk_fail_memory(e, sizeof(float) * YK_HOT_MAX * YK_HOT_VECTORS * 2);
}

void yk_copies_release(struct yk_copies *c)
{
    for (unsigned v = 0; v < YK_HOT_VECTORS; v++) {
        yk_floats_free(c->mine[v]);
        yk_floats_free(c->then[v]);
    }
}

void yk_copies_begin(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s)
{
    c->rows = c->merged = 0;
    pthread_mutex_lock(&h->lock);
    c->merges = h->merges;
    for (unsigned v = 0; v <= s->slots; v++) {
        memcpy(c->mine[v], h->vector[v], h->n * sizeof(float));
        memcpy(c->then[v], h->vector[v], h->n * sizeof(float));
    }
    pthread_mutex_unlock(&h->lock);
}

/* Adds the thread's changes to the common copy, and takes over the result. */
static void exchange(float *restrict all, float *restrict mine, float *restrict then, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        all[i] = mine[i] = then[i] = all[i] + (mine[i] - then[i]);
}

static void merge(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s, uint32_t n)
{
    for (unsigned v = 0; v <= s->slots; v++)
        exchange(h->vector[v], c->mine[v], c->then[v], n);
}

/* How often TOP is doubled because training is young: at first a copy misses most updates. */
static unsigned earliness(uint64_t rows)
{
    unsigned k = 0;
    while (k < 16 && rows << k < SETTLED)
        k++;
    return k;
}

void yk_copies_tick(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s, uint64_t rows)
{
    c->rows += rows;
    uint64_t before = c->merged / YK_HOT_TICK, now = c->rows / YK_HOT_TICK;
    if (now == before || pthread_mutex_trylock(&h->lock) != 0)
        return;
    h->rows += c->rows - c->merged;
    /* the ticks since the last merge include a multiple of 2^k */
    unsigned k = 63 - (unsigned)__builtin_clzll(before ^ now) + earliness(h->rows);
    /* After more than BEHIND merges by others the thread has slept, and all its copies are old. */
    bool all = k >= 16 || (uint32_t)TOP << k >= h->n || h->merges - c->merges > BEHIND;
    merge(c, h, s, all ? h->n : (uint32_t)TOP << k);
    c->merges = ++h->merges;
    c->merged = c->rows;
    pthread_mutex_unlock(&h->lock);
}

void yk_copies_end(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s)
{
    pthread_mutex_lock(&h->lock);
    merge(c, h, s, h->n);
    h->rows += c->rows - c->merged;
    pthread_mutex_unlock(&h->lock);
}
