/* rows_info.h - describes sparse rows for `yoke data info`, as text and as JSON. */
#ifndef YK_DATA_ROWS_ROWS_INFO_H
#define YK_DATA_ROWS_ROWS_INFO_H

#include "base/buf.h"
#include "base/json.h"
#include "data/rows/rows.h"

struct yk_rows_info {
    uint64_t rows, bad, positives, entries;
    uint32_t least, most; /* entries of a row */
    uint64_t empty;       /* rows without entries */
    uint64_t twice;       /* rows that have some key more than once */
    uint64_t features;    /* largest key + 1 */
    uint64_t distinct;    /* keys that occur */
    float low, high;      /* the smallest and the largest value */
    uint64_t bytes;       /* of the rows, in memory or mapped */
    uint64_t xxh3;
    const char *format; /* "libsvm"; NULL: unknown */
    unsigned hash_bits; /* the bits that keys were hashed to; 0: not hashed, or unknown */
    double before; /* hashed: likely number of features before; infinite if all keys are in use */
    double collisions; /* hashed: expected share of features that have the key of another, too */
};

/* Looks at every entry; needs a bit for every feature meanwhile, at most 512 MB. `format` and `how`
 * say how the rows were read; either may be NULL. */
yk_code yk_rows_info(const struct yk_rows *r, const char *format, const struct yk_reading *how,
                     struct yk_rows_info *out, struct yk_error *e);

/* The expected share of m features that have the key of another when hashed to so many bits. */
double yk_expected_collisions(double m, unsigned bits);

void yk_rows_info_text(const struct yk_rows_info *x, const char *name, struct yk_buf *out);
json_t *yk_rows_info_json(const struct yk_rows_info *x, const char *name); /* NULL: no memory */

#endif
