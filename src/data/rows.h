/* rows.h - sparse labelled rows: each a handful of (key, value) pairs and a label 0 or 1.
 *
 * Rows come in blocks of a fixed number of rows, so that they can be written as they are read, mapped as they are, and found by number
 * without an index of the size of the set. The first time an input is read its rows go into a *cache* (cache.c draws it), which is mapped
 * from then on: a worker that trains on every fourth row touches only the pages of those.
 * THREADS: an open set is never changed; any number of threads may read it. */
#ifndef YK_DATA_ROWS_H
#define YK_DATA_ROWS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_BLOCK_ROWS = 1 << 14 };
#define YK_ROWS_MAX 4000000000u /* rows of a set: their numbers fit in 32 bits */
#define YK_KEY_MAX                                                                                 \
    4294967000u /* the largest key, so that a flat index of a parameter fits in 32 bits with room to spare */

struct yk_rows_block {     /* YK_BLOCK_ROWS rows; the last block of a set may have fewer */
    const uint32_t *first; /* (rows + 1) a row's first entry in key and value */
    const uint8_t *label;  /* (rows) 0 or 1 */
    const uint32_t *key; /* (entries) as in the input and in its order; 64 readable bytes behind */
    const float *value;  /* (entries) likewise; NULL: every value of the block is 1 */
    const uint64_t
        *twice; /* bit r % 64 of word r / 64: row r has some key more than once; NULL: no row has */
};

struct yk_rows {
    uint64_t rows, entries;
    uint64_t features;  /* largest key + 1 */
    uint64_t positives; /* rows labelled 1 */
    uint64_t bad;       /* rows that were skipped */
    uint32_t blocks;
    struct yk_rows_block *block; /* (blocks) */
    uint64_t xxh3;  /* of labels, row lengths, keys and values: a resumed run can tell other data */
    char note[160]; /* why there is no cache, if there is none; "" */
    struct yk_rows_hold *hold; /* the mapping or the memory behind the blocks */
};

struct yk_row {
    const uint32_t *key; /* (n) */
    const float *value;  /* (n); NULL: all are 1 */
    uint32_t n;
    uint8_t label;
};

static inline struct yk_row yk_row_at(const struct yk_rows *s, uint64_t row)
{
    const struct yk_rows_block *b = &s->block[row / YK_BLOCK_ROWS];
    uint32_t r = row % YK_BLOCK_ROWS, at = b->first[r];
    return (struct yk_row){.key = b->key + at,
                           .value = b->value == NULL ? NULL : b->value + at,
                           .n = b->first[r + 1] - at,
                           .label = b->label[r]};
}

/* How text and records become rows. */
struct yk_reading {
    const char *format; /* NULL: sniffed from content */
    unsigned hash_bits; /* 0: keys as they are; criteo and vw, which have names, take 22 then */
    uint64_t skip_bad;  /* so many rows may be malformed */
    const char *label, *index,
        *value;       /* features of a tf.train.Example; NULL: "label", "index", "value" */
    bool no_cache;    /* keep the rows in memory, write nothing */
    unsigned threads; /* parsers; 0: one per core */
    /* Called now and then while it takes long, one call at a time, from any thread; NULL: nobody wants to know. */
    void (*say)(void *arg, const char *line);
    void *say_arg;
    double say_every; /* seconds; 0: 10 */
};

/* `what` is a file, a list of files separated by commas, a folder (its files in the order of their names), "-" for standard input, a cache
 * file, or "synth-criteo:ROWS[:FEATURES[:SEED]]"; files may be gzipped. Anything missing or malformed is YK_DATA. */
yk_code yk_rows_open(struct yk_rows **out, const char *what, const struct yk_reading *how,
                     struct yk_error *e);
void yk_rows_close(struct yk_rows *r); /* NULL is fine */

/* Would yk_rows_open take it? Looks at the beginning of the (first) file only. */
bool yk_rows_sniff(const char *what, const struct yk_reading *how);

/* Write a set, for other programs or for yk_rows_open. `format` is "cache" or one of rows_format.h that can be written; what it cannot
 * express is YK_USAGE. A path that ends in ".gz" is compressed (not a cache), "-" is standard output (not for a cache). A file is either
 * whole or absent. `how` may be NULL. */
yk_code yk_rows_write(const struct yk_rows *r, const char *path, const char *format,
                      const struct yk_reading *how, struct yk_error *e);

#endif
