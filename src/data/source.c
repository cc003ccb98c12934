/* source.c - deals the rows of a dataset out as batches, each epoch in an order of its own.
 *
 * The order of an epoch is a Fisher-Yates shuffle of 0 .. rows-1, always from the identity and from a random stream keyed by
 * (seed, epoch): it depends on nothing that happened before, so a source that seeks into the middle of epoch k deals what one
 * that walked there deals. It is made when the first batch of its epoch is asked for, not when the last one of the epoch
 * before is given, because that batch still points into it.
 * THREADS: a source belongs to one thread; several may share a dataset, which nobody changes. */
#include "data/data.h"

#include "base/rng.h"

#include <stdlib.h>

enum { SHUFFLE_STREAM = 0x73687566 }; /* keeps these numbers apart from other uses of (seed, epoch); "shuf" */

/* 32 random bits a call, two calls per number drawn: the generator is half of the cost of a shuffle. */
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

/* Uniform in [0, n): Lemire's multiply-and-shift, as yk_rng_below, which would draw 64 bits each time. */
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

static void order_epoch(struct yk_source *s)
{
    uint32_t *order = s->order, rows = s->set->rows;
    struct bits b = {0};
    for (uint32_t i = 0; i < rows; i++)
        order[i] = i;
    if (!s->shuffle)
        return;
    yk_rng_init(&b.rng, s->seed, s->cursor.epoch, SHUFFLE_STREAM, 0);
    for (uint32_t i = rows; i > 1; i--) {
        uint32_t j = below(&b, i), last = order[i - 1];
        order[i - 1] = order[j];
        order[j] = last;
    }
}

yk_code yk_source_init(struct yk_source *s, const struct yk_dataset *set, uint32_t batch, uint64_t seed, bool shuffle,
                       struct yk_error *e)
{
    *s = (struct yk_source){0};
    if (set->rows == 0)
        return yk_fail(e, YK_DATA, "'%s' has no %s examples to make batches of", set->name, set->split);
    if (batch == 0)
        return yk_fail(e, YK_USAGE, "a batch of 0 examples makes no step; expected at least 1");
    size_t bytes = (size_t)set->rows * sizeof *s->order;
    uint32_t *order = malloc(bytes);
    if (order == NULL)
        return yk_fail_memory(e, bytes);
    *s = (struct yk_source){.set = set, .order = order, .batch = batch, .seed = seed, .shuffle = shuffle};
    return YK_OK;
}

void yk_source_release(struct yk_source *s)
{
    if (s == NULL)
        return;
    free(s->order);
    *s = (struct yk_source){0};
}

void yk_source_next(struct yk_source *s, struct yk_batch *out)
{
    uint32_t at = (uint32_t)s->cursor.at, left = s->set->rows - at;
    if (at == 0)
        order_epoch(s);
    uint32_t n = s->batch < left ? s->batch : left, behind = left - n;
    *out = (struct yk_batch){
        .set = s->set,
        .n = n,
        .row = s->order + at,
        .n_ahead = behind < n ? behind : n,
        .ahead = s->order + at + n,
        .epoch = s->cursor.epoch,
    };
    s->cursor = behind > 0 ? (struct yk_cursor){s->cursor.epoch, at + n} : (struct yk_cursor){s->cursor.epoch + 1, 0};
}

yk_code yk_source_seek(struct yk_source *s, struct yk_cursor c, struct yk_error *e)
{
    if (c.at > s->set->rows)
        return yk_fail(e, YK_DATA, "cannot go on after example %llu of epoch %llu: '%s' has %u", (unsigned long long)c.at,
                       (unsigned long long)c.epoch, s->set->name, s->set->rows);
    s->cursor = c.at < s->set->rows ? c : (struct yk_cursor){c.epoch + 1, 0};
    if (s->cursor.at > 0)
        order_epoch(s);
    return YK_OK;
}
