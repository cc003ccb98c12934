/* logreg.h - what the files of logistic regression share: the model, a worker's work, and the parts
 * that are built into it.
 *
 *     logreg.c        the model: layout, steps and scores in slot space
 *     key_map.c       the keys of a task, and the slot of each entry
 *     logreg_sweep.c  training straight on the owner's parameters
 *     hot_keys.c      frequent keys, of which each thread of a sweep has a copy */
#ifndef YK_MODEL_LOGREG_LOGREG_H
#define YK_MODEL_LOGREG_LOGREG_H

#include "base/team.h"
#include "kernel/kernel.h"
#include "model/logreg/dedup.h"
#include "model/model.h"

struct yk_logreg_model {
    uint64_t features;
    uint32_t bias, weight; /* flat keys: of the bias, and of feature 0 */
};

/* The keys of a task's shards, and the slot of each entry. */
struct yk_key_map {
    uint32_t *key;   /* (n) ascending; the bias is the first */
    uint32_t *slot;  /* (entries) row after row, shard after shard */
    uint32_t *shard; /* (shards + 1) a shard's first entry in `slot` */
    /* (entries) the rows' values, and 0 for keys that the model lacks; NULL if it has all keys */
    float *value;
    uint64_t *sort; /* (2, n) key << 32 | number, being sorted */
    uint32_t n;
    uint32_t room, shard_room; /* entries and shards there is memory for */
    struct yk_dedup dedup;
};

/* Keys that the model lacks (features of a test set that training never met) have value 0. */
yk_code yk_key_map_make(struct yk_key_map *p, const struct yk_logreg_model *m,
                        const struct yk_batch *shard, uint32_t shards, struct yk_error *e);
void yk_key_map_release(struct yk_key_map *p);

struct yk_sweeper; /* the memory of one thread of a sweep */
struct yk_hot;     /* the hot keys of all threads */

struct yk_logreg_work {
    const struct yk_logreg_model *model;
    const struct yk_kernels *kernels;
    struct yk_team *team;
    unsigned threads;
    struct yk_key_map map[2];
    const struct yk_key_map *chosen;
    uint32_t shard;             /* the chosen shard of that map */
    struct yk_sweeper *sweeper; /* (threads) made by the first sweep */
    struct yk_hot *hot;         /* made by the first sweep of several threads */
};

yk_code yk_logreg_sweep(struct yk_work *work, struct yk_sweep *s, struct yk_error *e);
void yk_logreg_sweep_release(struct yk_logreg_work *w);

/* Adds the gradient of a row to the sums of its entries, whose places are `at`; `g` is the row's
 * d loss / d z. */
static inline __attribute__((always_inline)) void yk_row_add_grad(const struct yk_row *row, float g,
                                                                  const uint32_t *at, float *sum)
{
    if (row->value == NULL)
        for (uint32_t k = 0; k < row->n; k++)
            sum[at[k]] += g;
    else
        for (uint32_t k = 0; k < row->n; k++)
            sum[at[k]] += row->value[k] * g + 0.0f;
}

/* Prefetches a row, which may be anywhere in a set much larger than the caches. */
static inline void yk_row_prefetch(const struct yk_rows *s, uint64_t row)
{
    const struct yk_rows_block *b = &s->block[row / YK_BLOCK_ROWS];
    uint32_t r = row % YK_BLOCK_ROWS, from = b->first[r], to = b->first[r + 1];
    __builtin_prefetch(b->label + r);
    for (uint32_t i = from; i < to && i < from + 64; i += 16) {
        __builtin_prefetch(b->key + i);
        if (b->value != NULL)
            __builtin_prefetch(b->value + i);
    }
}

#endif
