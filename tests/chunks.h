/* chunks.h - runs a parser on bytes in memory as the reader would: in an allocation with exactly
 * the promised slack, filled with bytes that look like more of the same. For tests only. */
#ifndef YK_TESTS_CHUNKS_H
#define YK_TESTS_CHUNKS_H

#include "data/rows/rows_format.h"

#include <stdlib.h>
#include <string.h>

struct parsed {
    yk_code rc;
    struct yk_error e;
    struct yk_chunk c;
};

static struct parsed parse_bytes(const struct yk_rows_format *f, const struct yk_reading *how,
                                 const void *bytes, size_t n, char slack)
{
    struct parsed p = {0};
    char *copy = malloc(n + 64);
    if (copy == NULL)
        abort();
    if (n > 0)
        memcpy(copy, bytes, n);
    memset(copy + n, slack, 64);
    struct yk_piece piece = {.bytes = copy, .n = n, .path = "rows.txt", .offset = 1000, .line = 10};
    p.rc = f->parse(how, &piece, &p.c, &p.e);
    free(copy);
    return p;
}

static void parsed_release(struct parsed *p)
{
    yk_chunk_release(&p->c);
}

static inline struct yk_row chunk_row(const struct yk_chunk *c, uint32_t r)
{
    uint32_t first = r == 0 ? 0 : c->end[r - 1];
    return (struct yk_row){.key = c->key + first,
                           .value = c->value + first,
                           .n = c->end[r] - first,
                           .label = c->label[r]};
}

static inline bool chunk_has_row(const struct yk_chunk *c, uint32_t r, int label, uint32_t n,
                                 const uint32_t *key, const float *value)
{
    struct yk_row row = r < c->rows ? chunk_row(c, r) : (struct yk_row){.n = UINT32_MAX};
    return row.n == n && row.label == label && memcmp(row.key, key, n * sizeof *key) == 0 &&
           memcmp(row.value, value, n * sizeof *value) == 0;
}

/* Does a chunk keep the promises of rows_format.h? */
static inline bool chunk_is_sound(const struct yk_chunk *c)
{
    uint32_t last = 0;
    for (uint32_t r = 0; r < c->rows; r++) {
        if (c->end[r] < last || c->label[r] > 1)
            return false;
        last = c->end[r];
    }
    for (uint32_t i = 0; i < c->entries; i++)
        if (!(c->value[i] - c->value[i] == 0) ||
            c->key[i] > YK_KEY_MAX) /* neither infinite nor NaN */
            return false;
    return last == c->entries && c->rows <= c->row_room && c->entries <= c->entry_room;
}

#endif
