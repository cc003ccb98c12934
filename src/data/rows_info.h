/* rows_info.h - what `yoke data info` says about sparse rows, as text and as JSON. */
#ifndef YK_DATA_ROWS_INFO_H
#define YK_DATA_ROWS_INFO_H

#include "base/buf.h"
#include "base/json.h"
#include "data/rows.h"

struct yk_rows_info {
    uint64_t rows, bad, positives, entries;
    uint32_t least, most; /* entries of a row */
    uint64_t empty;       /* rows without any */
    uint64_t twice;       /* rows that have some key more than once */
    uint64_t features;    /* largest key + 1 */
    uint64_t distinct;    /* keys that occur */
    float low, high;      /* values */
    uint64_t bytes;       /* of the rows, in memory or mapped */
    uint64_t xxh3;
    const char *format; /* "libsvm"; NULL: unknown */
    unsigned hash_bits; /* keys were hashed to so many bits; 0: they were not, or nobody knows */
    double
        before; /* hashed: how many features there are likely to have been before; infinite if no bucket is empty */
    double
        collisions; /* hashed: the expected share of features that share their key with another */
};

/* Looks at every entry; needs a bit for every feature while it does (at most 512 MB). `format` and `how` are what the rows were read from
 * and how; either may be NULL. */
yk_code yk_rows_info(const struct yk_rows *r, const char *format, const struct yk_reading *how,
                     struct yk_rows_info *out, struct yk_error *e);

/* In which format is it? As yk_rows_open would find out; NULL if it cannot be told without reading what cannot be read again. */
const char *yk_rows_format_of(const char *what, const struct yk_reading *how);

/* The expected share of m features that share their key with another when hashed to so many bits. */
double yk_expected_collisions(double m, unsigned bits);

void yk_rows_info_text(const struct yk_rows_info *x, const char *name, struct yk_buf *out);
json_t *yk_rows_info_json(const struct yk_rows_info *x, const char *name); /* NULL: no memory */

#endif
