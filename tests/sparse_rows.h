/* sparse_rows.h - sparse rows for tests: random ones with repeated keys and empty rows, in the
 * blocks of data/rows/rows.h. */
#ifndef YK_TESTS_SPARSE_ROWS_H
#define YK_TESTS_SPARSE_ROWS_H

#include "base/rng.h"
#include "data/data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct made_rows {
    struct yk_rows rows;
    struct yk_dataset set;
    uint32_t *first;
    uint8_t *label;
    uint32_t *key;
    float *value;
    uint64_t *twice;
};

struct made_how {
    uint32_t rows, features, longest; /* rows have up to `longest` entries, or exactly so many */
    bool exactly, values, repeat;     /* repeat: a row may have a key more than once */
    double skew; /* 1: keys are evenly spread; larger: lower ones are more frequent */
    uint64_t seed;
};

/* The true weight of a key, for labels that can be learned. */
static inline double made_weight(uint32_t key)
{
    struct yk_rng r;
    yk_rng_init(&r, 99, key, 0, 0);
    return yk_rng_unit(&r) * 2 - 1;
}

static inline void rows_make(struct made_rows *m, struct made_how how)
{
    uint32_t blocks = (how.rows + YK_BLOCK_ROWS - 1) / YK_BLOCK_ROWS, at = 0;
    size_t room = (size_t)how.rows * how.longest + 16;
    struct yk_rng r;
    yk_rng_init(&r, how.seed, 1, 2, 3);
    *m = (struct made_rows){.rows = {.rows = how.rows, .features = how.features, .blocks = blocks}};
    m->first = calloc((size_t)how.rows + blocks + 1, sizeof *m->first);
    m->label = calloc(how.rows + 1, 1);
    m->key = calloc(room, sizeof *m->key);
    m->value = calloc(room, sizeof *m->value);
    m->twice = calloc((size_t)blocks * YK_BLOCK_ROWS / 64 + 1, sizeof *m->twice);
    m->rows.block = calloc(blocks + 1, sizeof *m->rows.block);
    assert_true(m->first && m->label && m->key && m->value && m->twice && m->rows.block);
    for (uint32_t i = 0; i < how.rows; i++) {
        uint32_t b = i / YK_BLOCK_ROWS, in = i % YK_BLOCK_ROWS,
                 n = how.exactly ? how.longest : yk_rng_below(&r, how.longest + 1);
        struct yk_rows_block *block = &m->rows.block[b];
        double z = -0.5;
        if (in == 0)
            *block = (struct yk_rows_block){
                .first = m->first + i + b,
                .label = m->label + i,
                .key = m->key + at,
                .value = how.values ? m->value + at : NULL,
                .twice = how.repeat ? m->twice + (size_t)b * YK_BLOCK_ROWS / 64 : NULL};
        uint32_t *key = m->key + at;
        for (uint32_t k = 0; k < n; k++) {
            bool again = true;
            while (again) {
                key[k] = (uint32_t)(pow(yk_rng_unit(&r), how.skew) * how.features);
                again = false;
                for (uint32_t before = 0; before < k; before++)
                    again = again || key[before] == key[k];
                if (again && how.repeat)
                    m->twice[(size_t)b * YK_BLOCK_ROWS / 64 + in / 64] |= (uint64_t)1 << in % 64;
                again = again && !how.repeat;
            }
            m->value[at + k] = how.values ? (float)(yk_rng_unit(&r) * 3 - 1) : 1;
            z += made_weight(key[k]) * (double)m->value[at + k];
        }
        at += n;
        m->first[i + b + 1] = (uint32_t)(m->key + at - block->key);
        m->label[i] = yk_rng_unit(&r) < 1 / (1 + exp(-z));
        m->rows.positives += m->label[i];
    }
    m->rows.entries = at;
    m->set = (struct yk_dataset){.name = "made",
                                 .rows = how.rows,
                                 .features = how.features,
                                 .classes = 2,
                                 .sparse = &m->rows};
}

static inline void rows_release(struct made_rows *m)
{
    free(m->first);
    free(m->label);
    free(m->key);
    free(m->value);
    free(m->twice);
    free(m->rows.block);
}

#endif
