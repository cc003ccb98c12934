/* hot_keys.h - hot keys: parameters that every thread of a sweep has a copy of; see hot_keys.c. */
#ifndef YK_MODEL_LOGREG_HOT_KEYS_H
#define YK_MODEL_LOGREG_HOT_KEYS_H

#include "model/logreg/logreg.h"

#include <pthread.h>

enum { YK_HOT_VECTORS = 1 + YK_SWEEP_SLOTS, YK_HOT_CELLS_BITS = 14, YK_HOT_MAX = 4096 };
enum { YK_HOT_TICK = 64 }; /* rows of a tick */

struct yk_hot {
    uint32_t n;    /* the first is the bias, then features, the most frequent first */
    uint32_t *key; /* (YK_HOT_MAX) features; [0] means nothing */
    struct yk_hot_cell {
        uint32_t key;
        uint32_t at; /* place in the vectors; 0: an empty cell, whose key belongs elsewhere */
    } * cell;        /* (1 << YK_HOT_CELLS_BITS) one key a cell */
    float *vector[YK_HOT_VECTORS]; /* (YK_HOT_MAX) w and state while a sweep runs, under `lock` */
    uint64_t merges;               /* so far, under `lock` */
    uint64_t rows;                 /* trained on so far, under `lock` */
    pthread_mutex_t lock;
};

struct yk_copies {               /* a thread's own */
    float *mine[YK_HOT_VECTORS]; /* (YK_HOT_MAX) as it sees them */
    float *then[YK_HOT_VECTORS]; /* as they were when it last merged */
    uint64_t rows;               /* of this sweep that the thread has done */
    uint64_t merged;             /* `rows` when it last merged */
    uint64_t merges;             /* of all threads when it last merged */
};

/* Count the keys of a sample of the rows and choose. */
yk_code yk_hot_open(struct yk_hot **out, const struct yk_sweep *s, struct yk_error *e);
void yk_hot_close(struct yk_hot *h);

/* Around a sweep, by one thread: take the values of hot keys from the parameters, and bring them
 * back. */
void yk_hot_begin(struct yk_hot *h, const struct yk_logreg_model *m, const struct yk_sweep *s);
void yk_hot_end(struct yk_hot *h, const struct yk_logreg_model *m, const struct yk_sweep *s);

/* The copies of one thread, which calls all but init and release. */
yk_code yk_copies_init(struct yk_copies *c, struct yk_error *e);
void yk_copies_release(struct yk_copies *c);
void yk_copies_begin(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s);
/* So many rows have passed: exchange the keys that are due, unless another thread has the lock. */
void yk_copies_tick(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s, uint64_t rows);
/* Exchange all keys. */
void yk_copies_end(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s);

/* The only cell that a feature may have. */
static inline const struct yk_hot_cell *yk_hot_cell(const struct yk_hot_cell *cell,
                                                    uint32_t feature)
{
    return &cell[feature * 0x9E3779B1U >> (32 - YK_HOT_CELLS_BITS)];
}

#endif
