/* shard.h - virtual shards, and the one order in which their sums are added.
 *
 * The global batch of b examples is cut into V shards, whatever the number of workers; shard i
 * is [i b/V, (i+1) b/V). Sums of shards are added over a binary tree whose node at `first` of
 * height h covers the shards [first, first + 2^h), first a multiple of 2^h; shards past V are
 * absent and add no term. A worker adds whole subtrees and sends one sum for each; owners add
 * the rest of the tree. So every float is added in the same order for any number of workers, and
 * the bits are the same. */
#ifndef YK_STRATEGY_SHARD_H
#define YK_STRATEGY_SHARD_H

#include <stddef.h>
#include <stdint.h>

/* First example of shard i of v in a batch of b; shard i ends where i+1 begins. */
static inline uint32_t yk_shard_at(uint32_t i, uint32_t v, uint32_t b)
{
    return (uint32_t)((uint64_t)i * b / v);
}

/* First shard of worker w of n; its last is where w+1 begins. */
static inline uint32_t yk_shard_of(uint32_t w, uint32_t n, uint32_t v)
{
    return (uint32_t)((uint64_t)w * v / n);
}

/* The largest subtree that begins with shard `first` and does not reach past `last`: returns its
 * end. */
uint32_t yk_subtree_end(uint32_t first, uint32_t last, uint32_t v);

/* The sum of a subtree: floats of [lo, hi) of the flat parameters. `origin` is the flat index of
 * sum[0]. */
struct yk_block {
    uint32_t first, last; /* shards */
    const float *sum;
    size_t origin;
};

enum { YK_SUM_CHUNK = 1024, YK_SUM_DEPTH = 13 }; /* floats added at a time; 2^12 shards at most */

/* Add the blocks, which cover [0, v) exactly and are sorted by `first`, over the tree: floats
 * [lo, hi), at most YK_SUM_CHUNK of them. Returns where the sum is: in `row`, or in the memory
 * of the only block. */
const float *yk_tree_sum(const struct yk_block *block, uint32_t v, size_t lo, size_t hi,
                         float row[YK_SUM_DEPTH][YK_SUM_CHUNK]);

/* to[0, n) += from[0, n) */
void yk_add(float *restrict to, const float *restrict from, size_t n);

#endif
