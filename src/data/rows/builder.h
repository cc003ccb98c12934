/* builder.h - turns chunks of rows, in order, into the blocks of a set: in memory, or in a cache
 * that is then mapped.
 *
 * The thread that parsed a chunk also finds its facts (`yk_facts_find`), so that the one thread
 * that appends only copies, hashes and writes. If the cache cannot be written to the end, its
 * blocks are read back and the set goes on in memory: standard input cannot be read again.
 * THREADS:  facts belong to their chunk; a builder belongs to one thread at a time. */
#ifndef YK_DATA_ROWS_BUILDER_H
#define YK_DATA_ROWS_BUILDER_H

#include "data/rows/cache.h"
#include "data/rows/rows_format.h"

struct yk_facts {
    /* bit r % 64 of word r / 64: row r of the chunk has a key more than once; only if `doubles` */
    uint64_t *twice;
    uint32_t room;  /* words of `twice` */
    bool doubles;   /* some row has a key more than once */
    bool ones;      /* every value is 1 */
    uint64_t top;   /* largest key + 1 */
    uint32_t *seen; /* hash table: the row that last had a key; for keys that do not ascend */
    uint32_t *copy; /* (copy_room) a row with its keys sorted */
    uint32_t copy_room;
};

bool yk_facts_find(struct yk_facts *f, const struct yk_chunk *c); /* false: no memory */
void yk_facts_release(struct yk_facts *f);

/* Notes why a set has no cache. */
void yk_rows_note(struct yk_rows *r, const char *why);

struct yk_builder;

/* Opens a builder that writes a cache to `path`; NULL: in memory only. An `unnamed` cache is
 * deleted when the set is closed. A cache that cannot be written is no failure, see `note`. */
yk_code yk_builder_open(struct yk_builder **out, const char *path, bool unnamed,
                        struct yk_error *e);
yk_code yk_builder_add(struct yk_builder *b, const struct yk_chunk *c, const struct yk_facts *f,
                       struct yk_error *e);
/* Hands over the set. `input` goes into the head of the cache. A set without rows is YK_DATA. */
yk_code yk_builder_finish(struct yk_builder *b, const struct yk_cache_input *input, uint32_t inputs,
                          struct yk_rows **out, struct yk_error *e);
void yk_builder_close(struct yk_builder *b); /* NULL is fine */

#endif
