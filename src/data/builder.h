/* builder.h - chunks of rows, in order, become the blocks of a set: in memory, or in a cache that is then mapped.
 *
 * What can be told of a chunk alone is found by the thread that parsed it (`yk_facts_find`), so that the one that appends has little left
 * to do: copy, hash, write. If the cache cannot be written after all, the blocks that are in it come back into memory and the set goes on
 * there: standard input cannot be read again.
 * THREADS: facts belong to their chunk; a builder to one thread at a time. */
#ifndef YK_DATA_BUILDER_H
#define YK_DATA_BUILDER_H

#include "data/cache.h"
#include "data/rows_format.h"

struct yk_facts {
    uint64_t *
        twice; /* bit r % 64 of word r / 64: row r of the chunk has some key more than once; only if `doubles` */
    uint32_t room; /* words */
    bool doubles;  /* some row has */
    bool ones;     /* every value is 1 */
    uint64_t top;  /* largest key + 1 */
    uint32_t
        *seen; /* which row last met a key of this hash, where keys are not in ascending order */
    uint32_t *copy; /* (copy_room) such a row, sorted */
    uint32_t copy_room;
};

bool yk_facts_find(struct yk_facts *f, const struct yk_chunk *c); /* false: no memory */
void yk_facts_release(struct yk_facts *f);

/* Why a set has no cache. */
void yk_rows_note(struct yk_rows *r, const char *why);

struct yk_builder;

/* path: where the cache is to be; NULL: in memory only. `unnamed`: the cache is no longer than the set is open. A cache that cannot
 * be written is no failure: see `note` of the set. */
yk_code yk_builder_open(struct yk_builder **out, const char *path, bool unnamed,
                        struct yk_error *e);
yk_code yk_builder_add(struct yk_builder *b, const struct yk_chunk *c, const struct yk_facts *f,
                       struct yk_error *e);
/* The set; `input` goes into the head of the cache. A set without rows is YK_DATA. */
yk_code yk_builder_finish(struct yk_builder *b, const struct yk_cache_input *input, uint32_t inputs,
                          struct yk_rows **out, struct yk_error *e);
void yk_builder_close(struct yk_builder *b); /* NULL is fine */

#endif
