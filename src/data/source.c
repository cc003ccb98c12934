/* source.c - the order in which the rows of a dataset are trained on, a new one each epoch.
 *
 * The order of an epoch is a Fisher-Yates shuffle of all rows, or of each window of rows. It always
 * starts from file order and from a random stream keyed by (seed, epoch), so it depends neither on
 * earlier epochs nor on the caller: all workers see one order, and a resumed run sees the order of
 * an uninterrupted one. The first caller of an epoch makes its order. Two orders are kept, so that
 * late batches of the epoch before still find theirs.
 * THREADS: any number of threads may ask; the dataset is only read. */
#include "data/data.h"

#include "base/rng.h"

#include <stdatomic.h>
#include <stdlib.h>

/* "shuf": separates these numbers from other uses of (seed, epoch). */
enum { SHUFFLE_STREAM = 0x73687566 };

/* 32 random bits a call, two calls for each 64-bit number: generating is half of a shuffle. */
struct bits {
    struct yk_rng rng;
    uint32_t spare;
    bool has_spare;
};

static inline uint32_t next_bits(struct bits *b)
{
    b->has_spare = !b->has_spare;
    if (!b->has_spare)
        return b->spare;
    uint64_t v = yk_rng_next(&b->rng);
    b->spare = (uint32_t)(v >> 32);
    return (uint32_t)v;
}

/* Uniform in [0, n) by Lemire's multiply-and-shift, like yk_rng_below, but from 32 bits. */
static inline uint32_t below(struct bits *b, uint32_t n)
{
    uint64_t m = (uint64_t)next_bits(b) * n;
    if ((uint32_t)m < n) {
        uint32_t uneven = -n % n;
        while ((uint32_t)m < uneven)
            m = (uint64_t)next_bits(b) * n;
    }
    return (uint32_t)(m >> 32);
}

static void shuffle(struct bits *b, uint32_t *row, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = below(b, i), last = row[i - 1];
        row[i - 1] = row[j];
        row[j] = last;
    }
}

static void make_order(const struct yk_source *s, uint32_t *row, uint64_t epoch)
{
    uint32_t rows = s->set->rows, window = s->window;
    struct bits b = {0};
    yk_dataset_rows(s->set, row);
    if (window == 1)
        return;
    yk_rng_init(&b.rng, s->seed, epoch, SHUFFLE_STREAM, 0);
    if (window == 0 || window >= rows) {
        shuffle(&b, row, rows);
        return;
    }
    for (uint32_t at = 0; at < rows; at += window)
        shuffle(&b, row + at, rows - at < window ? rows - at : window);
}

static const uint32_t *order_of(struct yk_source *s, uint64_t epoch)
{
    struct yk_order *o = &s->order[epoch % 2];
    if (atomic_load_explicit(&o->epoch, memory_order_acquire) == epoch)
        return o->row;
    pthread_mutex_lock(&s->making);
    if (atomic_load_explicit(&o->epoch, memory_order_relaxed) != epoch) {
        make_order(s, o->row, epoch);
        atomic_store_explicit(&o->epoch, epoch, memory_order_release);
    }
    pthread_mutex_unlock(&s->making);
    return o->row;
}

yk_code yk_source_init(struct yk_source *s, const struct yk_dataset *set, uint64_t seed,
                       uint32_t window, struct yk_error *e)
{
    *s = (struct yk_source){0};
    if (set->rows == 0)
        return yk_fail(e, YK_DATA, "'%s' has no %s examples to make batches of", set->name,
                       set->split);
    s->set = set;
    s->seed = seed;
    s->window = window;
    pthread_mutex_init(&s->making, NULL);
    size_t bytes = (size_t)set->rows * sizeof(uint32_t);
    for (int i = 0; i < 2; i++) {
        atomic_init(&s->order[i].epoch, UINT64_MAX);
        s->order[i].row = malloc(bytes);
    }
    if (s->order[0].row == NULL || s->order[1].row == NULL) {
        yk_source_release(s);
        return yk_fail_memory(e, 2 * bytes);
    }
    return YK_OK;
}

void yk_source_release(struct yk_source *s)
{
    if (s == NULL || s->set == NULL)
        return;
    free(s->order[0].row);
    free(s->order[1].row);
    pthread_mutex_destroy(&s->making);
    s->set = NULL;
}

void yk_source_at(struct yk_source *s, uint64_t position, uint32_t n, uint64_t ahead,
                  struct yk_batch *out)
{
    uint64_t rows = s->set->rows, epoch = position / rows;
    const uint32_t *order = order_of(s, epoch);
    uint64_t next = ahead / rows == epoch ? ahead % rows : rows, left = rows - next;
    *out = (struct yk_batch){
        .set = s->set,
        .n = n,
        .row = order + position % rows,
        .n_ahead = left < n ? (uint32_t)left : n,
        .ahead = order + next,
        .epoch = epoch,
    };
}
