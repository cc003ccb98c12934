/* rows.h - sparse labelled rows: each a handful of (key, value) pairs, called entries, and a label.
 *
 * Rows come in blocks of a fixed number of rows, so that they can be written while they are read,
 * and found by number without a large index. The first time an input is read its rows go into a
 * *cache* (cache.c draws it), which is mapped from then on: a worker that trains on every fourth
 * row touches only the pages of those rows.
 * THREADS: an open set is never changed; any number of threads may read it. */
#ifndef YK_DATA_ROWS_ROWS_H
#define YK_DATA_ROWS_ROWS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_BLOCK_ROWS = 1 << 14 };
#define YK_ROWS_MAX 4000000000u /* rows of a set: their numbers fit in 32 bits */
/* The largest key: a flat index of a parameter fits in 32 bits with room to spare. */
#define YK_KEY_MAX 4294967000u

struct yk_rows_block {     /* YK_BLOCK_ROWS rows; the last block of a set may have fewer */
    const uint32_t *first; /* (rows + 1) the number of a row's first entry */
    const uint8_t *label;  /* (rows) 0 or 1 */
    const uint32_t *key;   /* (entries) in the order of the input; 64 readable bytes behind */
    const float *value;    /* (entries) likewise; NULL: every value of the block is 1 */
    /* bit r % 64 of word r / 64: row r has a key more than once; NULL: no row has */
    const uint64_t *twice;
};

struct yk_rows {
    uint64_t rows, entries;
    uint64_t features;  /* largest key + 1 */
    uint64_t positives; /* rows labelled 1 */
    uint64_t bad;       /* malformed rows that were skipped */
    uint32_t blocks;
    struct yk_rows_block *block; /* (blocks) */
    uint64_t xxh3;  /* of labels, row lengths, keys and values: a resumed run compares it */
    char note[160]; /* why there is no cache; "" if there is one */
    struct yk_rows_backing *backing; /* the mapping or the memory behind the blocks */
};

struct yk_row {
    const uint32_t *key; /* (n) */
    const float *value;  /* (n); NULL: all are 1 */
    uint32_t n;
    uint8_t label;
};

/* A mapped file that shrinks becomes zeros at any moment (base/guard.h). The start is read before
 * the end: a row is then as long as it was, or empty, but never longer. */
static inline struct yk_row yk_row_at(const struct yk_rows *s, uint64_t row)
{
    const struct yk_rows_block *b = &s->block[row / YK_BLOCK_ROWS];
    uint32_t r = row % YK_BLOCK_ROWS, at = __atomic_load_n(&b->first[r], __ATOMIC_ACQUIRE),
             end = b->first[r + 1];
    return (struct yk_row){.key = b->key + at,
                           .value = b->value == NULL ? NULL : b->value + at,
                           .n = end > at ? end - at : 0,
                           .label = b->label[r]};
}

/* How text and records become rows. */
struct yk_reading {
    const char *format; /* NULL: told by the first bytes */
    /* 0: keys as they are, except that names in criteo and vw are hashed to 22 bits */
    unsigned hash_bits;
    uint64_t skip_bad; /* malformed rows that may be skipped */
    /* Features of a tf.train.Example; NULL: "label", "index", "value". */
    const char *label, *index, *value;
    bool no_cache;    /* keep the rows in memory, write nothing */
    unsigned threads; /* parsers; 0: one per core */
    /* Called now and then during long work, one call at a time, from any thread; may be NULL. */
    void (*say)(void *arg, const char *line);
    void *say_arg;
    double say_every; /* seconds; 0: 10 */
};

/* Opens a file, a list of files separated by commas, a folder (its files in the order of their
 * names), "-" for standard input, a cache file, or "synth-criteo:ROWS[:FEATURES[:SEED]]"; files may
 * be gzipped. Missing or malformed input is YK_DATA. */
yk_code yk_rows_open(struct yk_rows **out, const char *what, const struct yk_reading *how,
                     struct yk_error *e);
void yk_rows_close(struct yk_rows *r); /* NULL is fine */

/* YK_DATA if the file behind the rows has changed since it was opened: all results since the last
 * call that returned YK_OK must be discarded. NULL is fine. */
yk_code yk_rows_intact(const struct yk_rows *r, struct yk_error *e);
/* A cheaper check, of one load: false only if a read hit a page that the file no longer has. */
bool yk_rows_whole(const struct yk_rows *r);

/* Would yk_rows_open take it? Looks only at the beginning of the first file. */
bool yk_rows_sniff(const char *what, const struct yk_reading *how);

/* The format of `what`, as yk_rows_open would find it: "libsvm", "cache", "synthetic"; NULL:
 * unknown, or a pipe. */
const char *yk_rows_format_of(const char *what, const struct yk_reading *how);

/* Writes a set. `format` is "cache" or one of rows_format.h that can be written; rows that it
 * cannot express are YK_USAGE. A path that ends in ".gz" is compressed and "-" is standard output;
 * neither works for a cache. A file is either whole or absent. `how` may be NULL. */
yk_code yk_rows_write(const struct yk_rows *r, const char *path, const char *format,
                      const struct yk_reading *how, struct yk_error *e);

#endif
