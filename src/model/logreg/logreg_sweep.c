/* logreg_sweep.c - training straight on the parameters: the only process of a local run has them
 * all, so nothing needs to be listed, sorted or sent, and a step of one row may take a quarter of a
 * microsecond.
 *
 *     rows ahead     r+2D  prefetch the row      r+D  prefetch w and state of its keys
 *     a step         w[key] -> values side by side -> z, g -> gradients
 *                    -> state[key] side by side -> optimizer -> back to w[key], state[key]
 *
 * The parameters are far larger than the caches, so a step is a few dozen cache misses and little
 * else; they are all under way long before they are needed. Between reading and writing back, a
 * step's values lie side by side, where the optimizer's loop over a range runs at full width. A row
 * without duplicate keys is its own list; otherwise keys are numbered (dedup.h), and
 * gradients of one key are summed in the order of the rows before the optimizer sees them. The bias
 * is the last of the list. So the bits are those of slot space.
 *
 * THREADS: several threads take rows in runs. Frequent keys are copied per thread
 * (hot_keys.c); of the others a thread reads and writes whole floats (relaxed atomics, plain
 * moves), and now and then the update of one thread overwrites that of another. */
#include "model/logreg/hot_keys.h"
#include "model/logreg/logreg.h"

#include <stdatomic.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    /* Rows by which parameters are prefetched, at most; fewer if there is more state, because all
     * of it must stay in the nearest cache. */
    AHEAD = 8,
    RUN = 1024, /* rows that a thread takes at a time */
    /* Rows that one thread trains on before several do: the first steps change the most. */
    ALONE_FIRST = 4096,
};

/* The keys of a step. */
struct key_list {
    uint32_t *key;    /* (room) distinct features */
    uint32_t *number; /* (room) the place in `key` of each entry */
    uint32_t n;       /* distinct features */
    uint32_t room;    /* entries there is memory for */
};

/* Where the parameter and state of each key are: in the thread's copies or in the shared
 * vectors. */
struct key_places {
    float **from[1 + YK_SWEEP_SLOTS]; /* (room) */
    uint32_t room;
};

struct yk_sweeper {
    struct yk_dedup dedup;
    struct key_list list[2]; /* one in use, one being prepared */
    /* A step's values side by side, keys in the order of the list and the bias last. */
    uint32_t room;                      /* floats there is memory for in each of these vectors */
    float *w;                           /* (room) parameters */
    float *g;                           /* (room) gradients */
    float *seen;                        /* (room) parameters as read_keys returns them */
    float *slot[YK_SWEEP_SLOTS];        /* (room) the optimizer's state */
    float *was[1 + YK_SWEEP_SLOTS];     /* (room) ADDED: parameters and state before the step */
    uint32_t *self;                     /* (room) 0, 1, 2, ... */
    struct key_places place[AHEAD + 2]; /* several threads: of the rows ahead, and of the lists */
    const struct key_places *here;      /* the places of the step's keys */
    struct yk_copies copies;
    double loss;
    yk_code rc;
    struct yk_error error;
};

/* What the threads of one sweep share. */
struct sweep_job {
    struct yk_logreg_work *work;
    struct yk_sweep *sweep;
    const struct yk_hot_cell *cell; /* which keys are copied; NULL: none is */
    float *weight;                  /* of feature 0 */
    float *state[YK_SWEEP_SLOTS];   /* likewise */
    _Atomic uint64_t next;          /* the first step that no thread has taken */
    uint64_t steps;                 /* of the sweep */
    uint64_t run;                   /* steps that a thread takes at a time */
    unsigned ahead;                 /* rows by which parameters are prefetched, up to AHEAD */
};

/* --- memory --- */

static void release_values(struct yk_sweeper *t)
{
    free(t->self);
    yk_floats_free(t->w);
    yk_floats_free(t->g);
    yk_floats_free(t->seen);
    for (unsigned k = 0; k < YK_SWEEP_SLOTS; k++)
        yk_floats_free(t->slot[k]);
    for (unsigned v = 0; v <= YK_SWEEP_SLOTS; v++)
        yk_floats_free(t->was[v]);
    t->room = 0;
}

/* Room for the values of n keys and the bias. */
static yk_code grow_values(struct yk_sweeper *t, uint32_t n)
{
    size_t room = YK_PADDED((size_t)n + n / 2 + 256);
    release_values(t);
    t->self = malloc(room * sizeof *t->self);
    t->w = yk_floats(room);
    t->g = yk_floats(room);
    t->seen = yk_floats(room);
    bool all = t->self != NULL && t->w != NULL && t->g != NULL && t->seen != NULL;
    for (unsigned k = 0; k < YK_SWEEP_SLOTS; k++)
        all = (t->slot[k] = yk_floats(room)) != NULL && all;
    for (unsigned v = 0; v <= YK_SWEEP_SLOTS; v++) /* memory that is never touched costs nothing */
        all = (t->was[v] = yk_floats(room)) != NULL && all;
    if (!all)
        return yk_fail_memory(&t->error, room * (5 + 2 * YK_SWEEP_SLOTS) * sizeof(float));
    for (uint32_t i = 0; i < room; i++)
        t->self[i] = i;
    t->room = (uint32_t)room;
    return YK_OK;
}

static yk_code grow_list(struct yk_sweeper *t, struct key_list *l, uint64_t entries)
{
    size_t room = entries + entries / 2 + 256;
    if (entries >= 1U << 30)
        return yk_fail(&t->error, YK_USAGE, "one batch has %llu values; at most 2^30 are possible",
                       (unsigned long long)entries);
    free(l->key);
    free(l->number);
    l->key = malloc(room * sizeof *l->key);
    l->number = malloc(room * sizeof *l->number);
    l->room = l->key != NULL && l->number != NULL ? (uint32_t)room : 0;
    return l->room > 0 ? YK_OK : yk_fail_memory(&t->error, room * 2 * sizeof(uint32_t));
}

static yk_code grow_places(struct yk_sweeper *t, struct key_places *p, uint64_t n)
{
    size_t room = n + n / 2 + 64;
    bool all = true;
    for (unsigned v = 0; v <= YK_SWEEP_SLOTS; v++) {
        free(p->from[v]);
        all = (p->from[v] = malloc(room * sizeof *p->from[v])) != NULL && all;
    }
    p->room = all ? (uint32_t)room : 0;
    return all ? YK_OK : yk_fail_memory(&t->error, room * (1 + YK_SWEEP_SLOTS) * sizeof(float *));
}

void yk_logreg_sweep_release(struct yk_logreg_work *w)
{
    if (w->sweeper == NULL)
        return;
    for (unsigned i = 0; i < w->threads; i++) {
        struct yk_sweeper *t = &w->sweeper[i];
        release_values(t);
        for (unsigned k = 0; k < 2; k++) {
            free(t->list[k].key);
            free(t->list[k].number);
        }
        for (unsigned k = 0; k < sizeof t->place / sizeof t->place[0]; k++)
            for (unsigned v = 0; v <= YK_SWEEP_SLOTS; v++)
                free(t->place[k].from[v]);
        yk_dedup_release(&t->dedup);
        yk_copies_release(&t->copies);
    }
    free(w->sweeper);
    yk_hot_close(w->hot);
    w->sweeper = NULL;
    w->hot = NULL;
}

/* --- parameters, the only thread's or shared --- */

/* ALONE: one thread has the parameters. COPIED: several threads do, and each has copies of the hot
 * keys. ADDED: the same for steps of many rows, in which another thread may write a key before the
 * step ends; so a step adds its change to the value instead of storing a new value. */
enum how { ALONE, COPIED, ADDED };

/* Vector v (0 is w, the others are state) from feature 0 on; bias_of is the bias in it. */
INLINE float *vector_of(const struct sweep_job *j, unsigned v)
{
    return v == 0 ? j->weight : j->state[v - 1];
}

INLINE float *bias_of(const struct sweep_job *j, const struct yk_sweeper *t, unsigned v,
                      enum how how)
{
    return how != ALONE ? t->copies.mine[v]
                        : (v == 0 ? j->sweep->w : j->sweep->slot[v - 1]) + j->work->model->bias;
}

/* Prefetch a line that will be written. Every x86-64 knows the instruction or ignores it, but
 * compilers only use it when told that it exists. */
INLINE void fetch(const float *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*p));
#else
    __builtin_prefetch(p, 1);
#endif
}

/* Find the parameters and state of keys [from, to) of a list and prefetch them; there is room. No
 * branch: whether a key is hot cannot be predicted. */
INLINE void locate(const struct sweep_job *j, struct yk_sweeper *t, struct key_places *p,
                   const uint32_t *key, uint32_t from, uint32_t to)
{
    unsigned slots = j->sweep->slots;
    float *base[1 + YK_SWEEP_SLOTS][2]; /* cold, hot */
    for (unsigned v = 0; v <= slots; v++) {
        base[v][0] = vector_of(j, v);
        base[v][1] = t->copies.mine[v];
    }
    for (uint32_t i = from; i < to; i++) {
        const struct yk_hot_cell *c = yk_hot_cell(j->cell, key[i]);
        uint32_t hot = c->key == key[i], place = key[i] ^ ((key[i] ^ c->at) & (0U - hot));
        for (unsigned v = 0; v <= slots; v++) {
            p->from[v][i] = base[v][hot] + place;
            fetch(p->from[v][i]);
        }
    }
}

/* The values of vector v for n keys. */
INLINE struct yk_picks picks(const struct sweep_job *j, const struct yk_sweeper *t, unsigned v,
                             const uint32_t *key, uint32_t n, enum how how)
{
    float bias = *bias_of(j, t, v, how);
    return how != ALONE ? (struct yk_picks){.from = t->here->from[v], .n = n, .bias = bias}
                        : (struct yk_picks){.w = vector_of(j, v), .at = key, .n = n, .bias = bias};
}

INLINE void collect(const struct sweep_job *j, struct yk_sweeper *t, unsigned v,
                    const uint32_t *key, uint32_t n, enum how how)
{
    const struct yk_picks p = picks(j, t, v, key, n, how);
    float *to = v == 0 ? t->w : t->slot[v - 1];
    j->work->kernels->pick(&p, to);
    if (how == ADDED)
        memcpy(t->was[v], to, n * sizeof *to);
}

INLINE void bring_back(const struct sweep_job *j, struct yk_sweeper *t, unsigned v,
                       const uint32_t *key, uint32_t n, enum how how)
{
    const float *value = v == 0 ? t->w : t->slot[v - 1];
    if (how == ALONE) {
        float *to = vector_of(j, v);
        for (uint32_t i = 0; i < n; i++)
            to[key[i]] = value[i];
    } else if (how == COPIED) {
        float *const *to = t->here->from[v];
        for (uint32_t i = 0; i < n; i++) {
            float one = value[i];
            __atomic_store(to[i], &one, __ATOMIC_RELAXED);
        }
    } else {
        float *const *to = t->here->from[v];
        const float *was = t->was[v];
        for (uint32_t i = 0; i < n; i++) {
            float now;
            __atomic_load(to[i], &now, __ATOMIC_RELAXED);
            now = now == was[i] ? value[i] : now + (value[i] - was[i]);
            __atomic_store(to[i], &now, __ATOMIC_RELAXED);
        }
    }
    *bias_of(j, t, v, how) = value[n];
}

/* --- rows --- */

INLINE uint64_t row_number(const struct yk_sweep *s, uint64_t i)
{
    return s->order == NULL ? s->first + i : s->order[i];
}

INLINE struct yk_row row_at(const struct yk_sweep *s, uint64_t i)
{
    return yk_row_at(s->rows, row_number(s, i));
}

static bool has_duplicates(const struct yk_rows *s, uint64_t row)
{
    const struct yk_rows_block *b = &s->block[row / YK_BLOCK_ROWS];
    uint32_t r = row % YK_BLOCK_ROWS;
    return b->twice != NULL && b->twice[r / 64] >> r % 64 & 1;
}

/* Prefetch row i, and where row i + AHEAD lies; the CPU prefetches rows in the order of the file
 * by itself. */
INLINE void fetch_row(const struct yk_sweep *s, uint64_t i, uint64_t end)
{
    if (s->order == NULL)
        return;
    if (i + AHEAD < end)
        __builtin_prefetch(&s->rows->block[s->order[i + AHEAD] / YK_BLOCK_ROWS]
                                .first[s->order[i + AHEAD] % YK_BLOCK_ROWS]);
    if (i < end)
        yk_row_prefetch(s->rows, s->order[i]);
}

/* Prefetch the parameters of n keys. */
INLINE void fetch_keys(const struct sweep_job *j, const uint32_t *key, uint32_t n)
{
    unsigned slots = j->sweep->slots;
    const float *w = j->weight, *a = j->state[0], *b = j->state[1];
    if (slots == 0)
        for (uint32_t k = 0; k < n; k++)
            fetch(w + key[k]);
    else if (slots == 1)
        for (uint32_t k = 0; k < n; k++) {
            fetch(w + key[k]);
            fetch(a + key[k]);
        }
    else
        for (uint32_t k = 0; k < n; k++) {
            fetch(w + key[k]);
            fetch(a + key[k]);
            fetch(b + key[k]);
        }
}

/* List the distinct keys of the rows [from, to) of the sweep and prefetch their parameters. */
static yk_code make_list(const struct sweep_job *j, struct yk_sweeper *t, struct key_list *l,
                         uint64_t from, uint64_t to, uint64_t end)
{
    const struct yk_sweep *s = j->sweep;
    uint64_t entries = 0;
    uint32_t n = 0, at = 0;
    for (uint64_t i = from; i < to; i++)
        entries += row_at(s, i).n;
    if (entries > l->room) {
        yk_code rc = grow_list(t, l, entries);
        if (rc != YK_OK)
            return rc;
    }
    struct key_places *places = &t->place[AHEAD + (l - t->list)];
    if (j->cell != NULL && entries > places->room && grow_places(t, places, entries) != YK_OK)
        return t->error.code;
    if (!yk_dedup_begin(&t->dedup, entries))
        return yk_fail_memory(&t->error, entries * 4 * sizeof(uint32_t));
    for (uint64_t i = from; i < to; i++) {
        struct yk_row row = row_at(s, i);
        uint32_t before = n;
        fetch_row(s, i + AHEAD, end);
        n = yk_dedup_add(&t->dedup, l->key, n, row.key, row.n, l->number + at);
        if (j->cell != NULL)
            locate(j, t, places, l->key, before, n);
        else
            fetch_keys(j, l->key + before, n - before);
        at += row.n;
    }
    l->n = n;
    return YK_PADDED(n) > t->room ? grow_values(t, n) : YK_OK;
}

/* --- a step: collect its values, make a gradient for each, apply the optimizer --- */

/* Parameters of n keys and the bias as the step sees them, with updates that are still owed. */
INLINE void read_lazily(const struct sweep_job *j, struct yk_sweeper *t, const struct yk_update *u,
                        const uint32_t *key, uint32_t n, enum how how)
{
    for (unsigned v = 0; v <= j->sweep->slots; v++)
        collect(j, t, v, key, n, how);
    j->sweep->read_keys(u, t->w, t->slot, 0, NULL, t->seen, n + 1);
}

/* The optimizer, over the n keys of the step and the bias behind them. */
INLINE void update(const struct sweep_job *j, struct yk_sweeper *t, const struct yk_update *u,
                   const uint32_t *key, uint32_t n, bool lazy, enum how how)
{
    const struct yk_sweep *s = j->sweep;
    if (lazy) {
        s->apply_keys(u, t->w, t->slot, 0, t->self, t->g, n + 1);
    } else {
        for (unsigned v = 1; v <= s->slots; v++)
            collect(j, t, v, key, n, how);
        /* in whole vectors: the padding is zero, and is not stored */
        s->apply(u, t->w, t->g, t->slot, YK_PADDED(n));
    }
    for (unsigned v = 0; v <= s->slots; v++)
        bring_back(j, t, v, key, n, how);
}

/* A step of one row without duplicate keys: the row is the list. */
INLINE void step_one(const struct sweep_job *j, struct yk_sweeper *t, const struct yk_update *u,
                     struct yk_row row, bool lazy, enum how how)
{
    uint32_t n = row.n;
    struct yk_logreg_row r = {.x = row.value, .label = row.label, .grad = t->g};
    if (lazy) {
        read_lazily(j, t, u, row.key, n, how);
        r.weights = (struct yk_picks){.w = t->seen, .n = n, .bias = t->seen[n]};
    } else {
        r.weights = picks(j, t, 0, row.key, n, how);
        r.copy = t->w;
    }
    t->loss += (double)j->work->kernels->logreg(&r).loss;
    update(j, t, u, row.key, n, lazy, how);
}

/* A step of any rows, [from, to) of the sweep, whose list is made. */
INLINE void step_many(const struct sweep_job *j, struct yk_sweeper *t, const struct yk_update *u,
                      const struct key_list *l, uint64_t from, uint64_t to, bool lazy, enum how how)
{
    const struct yk_sweep *s = j->sweep;
    uint32_t n = l->n;
    t->here = &t->place[AHEAD + (l - t->list)];
    if (lazy)
        read_lazily(j, t, u, l->key, n, how);
    else
        collect(j, t, 0, l->key, n, how);
    const float *w = lazy ? t->seen : t->w;
    const uint32_t *number = l->number;
    float *g = t->g, bias = 0;
    memset(g, 0, YK_PADDED(n) * sizeof *g);
    for (uint64_t i = from; i < to; i++) {
        struct yk_row row = row_at(s, i);
        const struct yk_logreg_row r = {.weights = {.w = w, .at = number, .n = row.n, .bias = w[n]},
                                        .x = row.value,
                                        .label = row.label};
        struct yk_logit at = j->work->kernels->logreg(&r);
        t->loss += (double)at.loss;
        bias += at.g;
        yk_row_add_grad(&row, at.g, number, g);
        number += row.n;
    }
    g[n] = bias;
    update(j, t, u, l->key, n, lazy, how);
}

/* --- steps --- */

struct row_range {
    uint64_t from, to; /* rows of the sweep */
};

INLINE struct row_range rows_of(const struct yk_sweep *s, uint64_t step)
{
    uint64_t from = step * s->batch, to = from + s->batch;
    return (struct row_range){from, to < s->count ? to : s->count};
}

/* Prefetch the parameters of row i. */
INLINE yk_code look_ahead(const struct sweep_job *j, struct yk_sweeper *t, uint64_t i, uint64_t end,
                          enum how how)
{
    struct yk_row row = row_at(j->sweep, i);
    fetch_row(j->sweep, i + AHEAD, end);
    if (how == ALONE) {
        fetch_keys(j, row.key, row.n);
        return YK_OK;
    }
    struct key_places *p = &t->place[i % AHEAD];
    if (row.n > p->room && grow_places(t, p, row.n) != YK_OK)
        return t->error.code;
    locate(j, t, p, row.key, 0, row.n);
    return YK_OK;
}

/* Steps [from, to) of one row each. */
INLINE yk_code steps_of_one(const struct sweep_job *j, struct yk_sweeper *t, unsigned thread,
                            uint64_t from, uint64_t to, bool lazy, enum how how)
{
    const struct yk_sweep *s = j->sweep;
    for (uint64_t i = from; i < to && i < from + j->ahead; i++)
        if (look_ahead(j, t, i, to, how) != YK_OK)
            return t->error.code;
    for (uint64_t i = from; i < to; i++) {
        struct yk_row row = row_at(s, i);
        const struct yk_update *u = s->update(s->arg, thread, i, 1);
        if (!has_duplicates(s->rows, row_number(s, i))) {
            if (YK_PADDED(row.n) > t->room && grow_values(t, row.n) != YK_OK)
                return t->error.code;
            t->here = &t->place[i % AHEAD];
            step_one(j, t, u, row, lazy, how);
        } else {
            if (make_list(j, t, &t->list[0], i, i + 1, to) != YK_OK)
                return t->error.code;
            step_many(j, t, u, &t->list[0], i, i + 1, lazy, how);
        }
        if (i + j->ahead < to && look_ahead(j, t, i + j->ahead, to, how) != YK_OK)
            return t->error.code;
        if (how == COPIED && (i + 1) % YK_HOT_TICK == 0)
            yk_copies_tick(&t->copies, j->work->hot, s, YK_HOT_TICK);
    }
    return YK_OK;
}

/* Steps [from, to) of several rows each: the list of the next one is made before a step is
 * computed. */
INLINE yk_code steps_of_many(const struct sweep_job *j, struct yk_sweeper *t, unsigned thread,
                             uint64_t from, uint64_t to, bool lazy, enum how how)
{
    const struct yk_sweep *s = j->sweep;
    uint64_t end = rows_of(s, to - 1).to;
    if (make_list(j, t, &t->list[from & 1], rows_of(s, from).from, rows_of(s, from).to, end) !=
        YK_OK)
        return t->error.code;
    for (uint64_t step = from; step < to; step++) {
        struct row_range now = rows_of(s, step), next = rows_of(s, step + 1);
        const struct yk_update *u = s->update(s->arg, thread, step, (uint32_t)(now.to - now.from));
        if (step + 1 < to &&
            make_list(j, t, &t->list[(step + 1) & 1], next.from, next.to, end) != YK_OK)
            return t->error.code;
        step_many(j, t, u, &t->list[step & 1], now.from, now.to, lazy, how);
        if (how != ALONE)
            yk_copies_tick(&t->copies, j->work->hot, s, now.to - now.from);
    }
    return YK_OK;
}

INLINE yk_code steps(const struct sweep_job *j, struct yk_sweeper *t, unsigned thread,
                     uint64_t from, uint64_t to, bool lazy, enum how how)
{
    return j->sweep->batch == 1
               ? steps_of_one(j, t, thread, from, to, lazy, how)
               : steps_of_many(j, t, thread, from, to, lazy, how == ALONE ? ALONE : ADDED);
}

/* One thread, until no step is left. */
static void run(void *arg, unsigned thread)
{
    struct sweep_job *j = arg;
    struct yk_sweeper *t = &j->work->sweeper[thread];
    t->loss = 0;
    t->rc = YK_OK;
    if (j->cell != NULL)
        yk_copies_begin(&t->copies, j->work->hot, j->sweep);
    while (t->rc == YK_OK) {
        uint64_t from = atomic_fetch_add_explicit(&j->next, j->run, memory_order_relaxed);
        uint64_t to = from + j->run < j->steps ? from + j->run : j->steps;
        if (from >= j->steps)
            break;
        if (j->cell != NULL)
            t->rc = steps(j, t, thread, from, to, false, COPIED);
        else if (j->sweep->lazy)
            t->rc = steps(j, t, thread, from, to, true, ALONE);
        else
            t->rc = steps(j, t, thread, from, to, false, ALONE);
    }
    if (j->cell != NULL)
        yk_copies_end(&t->copies, j->work->hot, j->sweep);
}

static yk_code make_sweepers(struct yk_logreg_work *w, const struct yk_sweep *s, bool copies,
                             struct yk_error *e)
{
    yk_code rc = YK_OK;
    if (w->sweeper == NULL && (w->sweeper = calloc(w->threads, sizeof *w->sweeper)) == NULL)
        return yk_fail_memory(e, w->threads * sizeof *w->sweeper);
    if (copies && w->hot == NULL) {
        rc = yk_hot_open(&w->hot, s, e);
        for (unsigned i = 0; rc == YK_OK && i < w->threads; i++)
            rc = yk_copies_init(&w->sweeper[i].copies, e);
    }
    return rc;
}

/* Steps that a thread takes at a time. */
static uint64_t steps_of_run(const struct yk_sweep *s)
{
    return (RUN + s->batch - 1) / s->batch;
}

/* Do the steps [j->next, j->steps) with so many threads. */
static yk_code run_threads(struct sweep_job *j, unsigned threads, struct yk_error *e)
{
    struct yk_logreg_work *w = j->work;
    yk_code rc = YK_OK;
    j->cell = threads > 1 ? w->hot->cell : NULL;
    j->run = threads > 1 ? steps_of_run(j->sweep) : j->steps;
    if (threads > 1)
        yk_hot_begin(w->hot, w->model, j->sweep);
    yk_team_run(w->team, threads, run, j);
    if (threads > 1)
        yk_hot_end(w->hot, w->model, j->sweep);
    for (unsigned i = 0; i < threads; i++) {
        j->sweep->loss += w->sweeper[i].loss;
        if (w->sweeper[i].rc != YK_OK && rc == YK_OK) {
            rc = w->sweeper[i].rc;
            if (e != NULL)
                *e = w->sweeper[i].error;
        }
    }
    return rc;
}

yk_code yk_logreg_sweep(struct yk_work *work, struct yk_sweep *s, struct yk_error *e)
{
    struct yk_logreg_work *w = (struct yk_logreg_work *)work;
    uint64_t steps_in_all = (s->count + s->batch - 1) / s->batch;
    /* updates that are owed to a key need steps in their order */
    unsigned threads = s->lazy ? 1 : w->threads;
    s->loss = 0;
    if (s->rows->features > w->model->features)
        return yk_fail(e, YK_USAGE, "the rows have %llu features, the model %llu",
                       (unsigned long long)s->rows->features,
                       (unsigned long long)w->model->features);
    if (steps_in_all == 0)
        return YK_OK;
    yk_code rc = make_sweepers(w, s, threads > 1, e);
    if (rc != YK_OK)
        return rc;
    struct sweep_job j = {
        .work = w, .sweep = s, .weight = s->w + w->model->weight, .steps = steps_in_all};
    j.ahead = s->slots < 2 ? AHEAD - 2 * s->slots : AHEAD / 2;
    for (unsigned v = 0; v < s->slots; v++)
        j.state[v] = s->slot[v] + w->model->weight;
    if (threads == 1)
        return run_threads(&j, 1, e);
    uint64_t alone =
        w->hot->rows < ALONE_FIRST ? (ALONE_FIRST - w->hot->rows + s->batch - 1) / s->batch : 0;
    if (steps_in_all - (alone < steps_in_all ? alone : steps_in_all) < 2 * steps_of_run(s))
        alone = steps_in_all;
    if (alone > 0) {
        j.steps = alone;
        rc = run_threads(&j, 1, e);
        w->hot->rows += rows_of(s, alone - 1).to;
        j.next = alone;
        j.steps = steps_in_all;
    }
    if (rc == YK_OK && j.next < j.steps)
        rc = run_threads(&j, threads, e);
    return rc;
}
