/* cache.h - sets of rows as files that are mapped: written block by block, checked before they are believed.
 * THREADS: a writer belongs to one thread at a time; what is mapped is only read. */
#ifndef YK_DATA_CACHE_H
#define YK_DATA_CACHE_H

#include "base/file.h"
#include "data/rows.h"

/* A file that the rows came from, as it was then. */
struct yk_cache_input {
    uint64_t path;   /* XXH3 of its real path */
    uint64_t size;   /* bytes */
    int64_t changed; /* ns since 1970; of its content, its times or its name */
};

struct yk_cache_entry { /* one block in the index */
    uint64_t offset;    /* in the file; a multiple of 64 */
    uint64_t xxh3;      /* of its labels, row starts, keys and values */
    uint32_t rows, entries;
    uint32_t has; /* YK_BLOCK_VALUES | YK_BLOCK_TWICE */
    uint32_t
        twice; /* low half of the XXH3 of its bits for rows with a key more than once; 0 if it has none */
};
enum { YK_BLOCK_VALUES = 1, YK_BLOCK_TWICE = 2 };

/* A block as one stretch of memory, laid out as in the file. */
size_t yk_block_bytes(const struct yk_cache_entry *x);
void yk_block_view(struct yk_rows_block *out, const struct yk_cache_entry *x, const void *bytes);
/* What its index entry says of a block (`offset` is 0). */
struct yk_cache_entry yk_block_entry(const struct yk_rows_block *b, uint32_t rows);
/* Copy a block to `bytes`, yk_block_bytes of them. */
void yk_block_store(void *bytes, const struct yk_rows_block *b, const struct yk_cache_entry *x);

/* The hash of a set grows block by block, from 0. */
uint64_t yk_rows_xxh3(uint64_t before, const struct yk_cache_entry *x);

struct yk_cache_writer {
    struct yk_outfile file;
    int back; /* the same file to read; -1 when closed */
    uint64_t at;
    uint32_t blocks, room;
    struct yk_cache_entry *index; /* (blocks) */
};

/* On failure nothing is left behind. `unnamed`: the file loses its name at once, and lives only as long as it is open or mapped. */
yk_code yk_cache_create(struct yk_cache_writer *w, const char *path, bool unnamed,
                        struct yk_error *e);
/* x: from yk_block_entry. */
yk_code yk_cache_append(struct yk_cache_writer *w, const struct yk_rows_block *b,
                        const struct yk_cache_entry *x, struct yk_error *e);
/* Index and head, from the counts of `totals` (its blocks are not looked at). */
yk_code yk_cache_finish(struct yk_cache_writer *w, const struct yk_rows *totals,
                        const struct yk_cache_input *input, uint32_t inputs, struct yk_error *e);
/* Give it its name. Never waits for the disk: a cache that a power cut spoils is made again. */
yk_code yk_cache_commit(struct yk_cache_writer *w, struct yk_error *e);
void yk_cache_abort(struct yk_cache_writer *w); /* also after a commit, or twice */

/* How much of a file is looked at before it is believed: head and index always; whether each row's start, label, key and checksum make
 * sense, too, unless it is ours and larger than a gigabyte, where it would be reading everything twice. */
enum yk_cache_trust {
    YK_CACHE_JUST_WRITTEN, /* head and index */
    YK_CACHE_OURS,         /* from the cache folder */
    YK_CACHE_FOREIGN,      /* a file that the user named */
};

/* Map a cache. `input` (NULL: any will do) must be what the head says. What is no cache, damaged or made from other inputs is YK_DATA. */
yk_code yk_cache_map(struct yk_rows **out, int fd, const char *path, enum yk_cache_trust trust,
                     const struct yk_cache_input *input, uint32_t inputs, unsigned threads,
                     struct yk_error *e);
yk_code yk_cache_open(struct yk_rows **out, const char *path, enum yk_cache_trust trust,
                      const struct yk_cache_input *input, uint32_t inputs, unsigned threads,
                      struct yk_error *e);

/* For tests and fuzzers: the same from memory at a multiple of 64, which has to outlive the rows. */
yk_code yk_cache_parse(struct yk_rows **out, const void *bytes, size_t n, struct yk_error *e);

/* Does a file begin like one? */
bool yk_cache_sniff(const void *head, size_t n);

/* What stands behind the blocks of a set. */
struct yk_rows_hold {
    void *map; /* (length); NULL: nothing is mapped */
    size_t length;
    void **memory; /* (memories) blocks that are in memory; each is freed */
    uint32_t memories;
};

#endif
