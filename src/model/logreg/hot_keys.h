/* hot_keys.h - hot keys: parameters that every thread of a sweep has a copy of; see hot_keys.c. */
#ifndef YK_MODEL_LOGREG_HOT_KEYS_H
#define YK_MODEL_LOGREG_HOT_KEYS_H

#include "model/logreg/logreg.h"

#include <pthread.h>

enum { YK_HOT_VECTORS = 1 + YK_SWEEP_SLOTS, YK_HOT_CELLS_BITS = 14, YK_HOT_MAX = 4096 };
enum { YK_HOT_TICK = 64 }; /* rows of a tick */

struct yk_hot {
    uint32_t n;    /* hot keys: the bias, then features, the most frequent first */
    uint32_t *key; /* (YK_HOT_MAX) features; [0], the bias, is not used */
    struct yk_hot_cell {
        uint32_t key;
        uint32_t at; /* place in the vectors; 0: an empty cell, whose key belongs elsewhere */
    } * cell;        /* (1 << YK_HOT_CELLS_BITS) one key a cell */
    float *vector[YK_HOT_VECTORS]; /* (YK_HOT_MAX) w and state while a sweep runs, under `lock` */
    uint64_t merges;               /* so far, under `lock` */
    uint64_t rows;                 /* trained on so far, under `lock` */
    pthread_mutex_t lock;
};

/* One thread's copies of the hot keys. */
struct yk_copies {
    float *mine[YK_HOT_VECTORS]; /* (YK_HOT_MAX) the values that the thread works on */
    float *then[YK_HOT_VECTORS]; /* (YK_HOT_MAX) the values after its last merge */
    uint64_t rows;               /* rows of this sweep that the thread has done */
    uint64_t merged;             /* `rows` at its last merge */
    uint64_t merges;             /* the common count of merges at its last merge */
};

/* Counts the keys of a sample of the rows and chooses the hot ones. */
yk_code yk_hot_open(struct yk_hot **out, const struct yk_sweep *s, struct yk_error *e);
void yk_hot_close(struct yk_hot *h);

/* One thread calls these before and after a sweep: they take the values of hot keys from the
 * parameters, and bring them back. */
void yk_hot_begin(struct yk_hot *h, const struct yk_logreg_model *m, const struct yk_sweep *s);
void yk_hot_end(struct yk_hot *h, const struct yk_logreg_model *m, const struct yk_sweep *s);

/* The copies of one thread, which calls all but init and release. */
yk_code yk_copies_init(struct yk_copies *c, struct yk_error *e);
void yk_copies_release(struct yk_copies *c);
void yk_copies_begin(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s);
/* Tells that the thread has done `rows` more rows. Merges the keys that are due, unless another
 * thread has the lock. */
void yk_copies_tick(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s, uint64_t rows);
/* Merges all keys. */
void yk_copies_end(struct yk_copies *c, struct yk_hot *h, const struct yk_sweep *s);

/* The only cell that a feature may have. */
static inline const struct yk_hot_cell *yk_hot_cell(const struct yk_hot_cell *cell,
                                                    uint32_t feature)
{
    return &cell[feature * 0x9E3779B1U >> (32 - YK_HOT_CELLS_BITS)];
}

#endif
