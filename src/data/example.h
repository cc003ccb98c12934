/* example.h - a labelled sparse row out of a tf.train.Example, the protocol buffer inside TFRecord files.
 * THREADS: a struct yk_example belongs to one thread. */
#ifndef YK_DATA_EXAMPLE_H
#define YK_DATA_EXAMPLE_H

#include "data/rows.h"

#include <endian.h>
#include <string.h>

static inline uint64_t yk_u64_at(const void *p) /* little endian, at any address */
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static inline uint32_t yk_u32_at(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

/* The field numbers of the lists that a Feature may be. */
enum yk_example_kind { YK_EXAMPLE_ABSENT, YK_EXAMPLE_BYTES, YK_EXAMPLE_FLOATS, YK_EXAMPLE_INT64S };

struct yk_example_part { /* one of the three features that make a row */
    const char *name;
    size_t len;
    enum yk_example_kind kind;
    uint32_t n; /* values so far */
};

struct yk_example {
    struct yk_example_part label, index, value;
    double y; /* the label: 0, 1 or -1 */
    unsigned hash_bits;
    uint64_t beyond; /* the largest key, hashed or not; a negative one is very large */
    uint32_t *key; /* (as many as the example has bytes) where the row's keys go, index.n of them */
    float *to;     /* (as many) and its values */
    char why[320]; /* what is wrong with it: "expected one label, found 2" */
};

/* Which features make a row, as `how` says. */
void yk_example_init(struct yk_example *x, const struct yk_reading *how);

/* Read the n bytes of an example into x->key, x->to and x->y; false: x->why. 64 bytes behind it must be readable. */
bool yk_example_take(struct yk_example *x, const char *bytes, size_t n);

#endif
