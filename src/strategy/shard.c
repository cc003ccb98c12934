/* shard.c - see shard.h. Pure functions; any thread. */
#include "strategy/shard.h"

#include "base/wide.h"

uint32_t yk_subtree_end(uint32_t first, uint32_t last, uint32_t v)
{
    uint32_t size = 1;
    while (size < v && first % (2 * size) == 0 &&
           (first + 2 * size <= last || (last == v && first + 2 * size >= v)))
        size *= 2;
    return first + size < v ? first + size : v;
}

YK_WIDE void yk_add(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

YK_WIDE static void sum_of(float *restrict to, const float *restrict a, const float *restrict b,
                           size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

struct walk { /* one chunk that is being added */
    const struct yk_block *block;
    uint32_t v;
    size_t lo, hi;
};

/* The sum of the node of `size` shards at `first`, whose blocks begin at *k: a block's own
 * memory, or row[0]. The left half may end in row[0] too, the right one in row[1]. */
static const float *node(const struct walk *w, uint32_t *k, uint32_t first, uint32_t size,
                         float (*row)[YK_SUM_CHUNK])
{
    uint32_t end = first + size < w->v ? first + size : w->v, half = size / 2;
    const struct yk_block *b = &w->block[*k];
    if (b->first == first && b->last == end) {
        ++*k;
        return b->sum + (w->lo - b->origin);
    }
    const float *left = node(w, k, first, half, row);
    if (first + half >= w->v)
        return left;
    const float *right = node(w, k, first + half, half, row + 1);
    if (left == row[0])
        yk_add(row[0], right, w->hi - w->lo);
    else
        sum_of(row[0], left, right, w->hi - w->lo);
    return row[0];
}

const float *yk_tree_sum(const struct yk_block *block, uint32_t v, size_t lo, size_t hi,
                         float row[YK_SUM_DEPTH][YK_SUM_CHUNK])
{
    const struct walk w = {.block = block, .v = v, .lo = lo, .hi = hi};
    uint32_t size = 1, k = 0;
    while (size < v)
        size *= 2;
    return node(&w, &k, 0, size, row);
}
