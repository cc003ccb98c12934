/* cache.h - files of rows that are mapped: written block after block, and checked before use.
 * THREADS: a writer belongs to one thread at a time; a mapping is only read. */
#ifndef YK_DATA_ROWS_CACHE_H
#define YK_DATA_ROWS_CACHE_H

#include "base/file.h"
#include "data/rows/rows.h"

/* A file that the rows were read from, as it was then. */
struct yk_cache_input {
    uint64_t path;   /* XXH3 of its real path */
    uint64_t size;   /* bytes */
    int64_t changed; /* ns since 1970 of the last change of its content, its times or its name */
};

struct yk_block_info { /* a block, as the index of the file describes it */
    uint64_t offset;   /* in the file; a multiple of 64 */
    uint64_t xxh3;     /* of its labels, row starts, keys and values */
    uint32_t rows, entries;
    uint32_t has;   /* YK_BLOCK_VALUES | YK_BLOCK_TWICE */
    uint32_t twice; /* low half of the XXH3 of the block's `twice` bits; 0 if it has none */
};
enum { YK_BLOCK_VALUES = 1, YK_BLOCK_TWICE = 2 };

/* The size of a block in memory, laid out as in the file, and a view of it. */
size_t yk_block_bytes(const struct yk_block_info *x);
void yk_block_view(struct yk_rows_block *out, const struct yk_block_info *x, const void *bytes);
/* Describes a block for the index, with offset 0. */
struct yk_block_info yk_block_describe(const struct yk_rows_block *b, uint32_t rows);
/* Copies a block to `bytes`, which has room for yk_block_bytes. */
void yk_block_store(void *bytes, const struct yk_rows_block *b, const struct yk_block_info *x);

/* The hash of a set after one more block; 0 before the first. */
uint64_t yk_rows_xxh3(uint64_t before, const struct yk_block_info *x);

struct yk_cache_writer {
    struct yk_outfile file;
    int back; /* the same file, opened to be read; -1 when closed */
    uint64_t at;
    uint32_t blocks, room;
    struct yk_block_info *index; /* (blocks) */
};

/* On failure no file is left behind. An `unnamed` file loses its name at once, and exists only
 * while it is open or mapped. */
yk_code yk_cache_create(struct yk_cache_writer *w, const char *path, bool unnamed,
                        struct yk_error *e);
/* `x` is from yk_block_describe. */
yk_code yk_cache_append(struct yk_cache_writer *w, const struct yk_rows_block *b,
                        const struct yk_block_info *x, struct yk_error *e);
/* Writes index and head, from the counts of `totals`; its blocks are not looked at. Committing
 * `file` then gives it its name, without waiting for the disk: a damaged cache is made again. */
yk_code yk_cache_finish(struct yk_cache_writer *w, const struct yk_rows *totals,
                        const struct yk_cache_input *input, uint32_t inputs, struct yk_error *e);
void yk_cache_abort(struct yk_cache_writer *w); /* also after a commit, or a second time */

/* How much of a file is checked: head and index always; row starts, labels, keys and checksums,
 * too, unless it is our own file of more than a gigabyte, which would be read twice. */
enum yk_cache_trust {
    YK_CACHE_JUST_WRITTEN, /* head and index */
    YK_CACHE_OURS,         /* from the cache folder */
    YK_CACHE_FOREIGN,      /* a file that the user named */
};

/* Maps a cache. Its head must name the files `input`; NULL: any. A file that is no cache, is
 * damaged or was made from other files is YK_DATA. */
yk_code yk_cache_map(struct yk_rows **out, int fd, const char *path, enum yk_cache_trust trust,
                     const struct yk_cache_input *input, uint32_t inputs, unsigned threads,
                     struct yk_error *e);
yk_code yk_cache_open(struct yk_rows **out, const char *path, enum yk_cache_trust trust,
                      const struct yk_cache_input *input, uint32_t inputs, unsigned threads,
                      struct yk_error *e);

/* Releases what yk_rows_close releases, but not `r` itself. */
void yk_rows_clear(struct yk_rows *r);

/* For tests and fuzzers: a cache in memory at a multiple of 64, which has to outlive the rows. */
yk_code yk_cache_parse(struct yk_rows **out, const void *bytes, size_t n, struct yk_error *e);

/* Does a file begin like a cache? */
bool yk_cache_sniff(const void *head, size_t n);

/* The memory or the mapping behind the blocks of a set. */
struct yk_rows_backing {
    void *map; /* (length); NULL: nothing is mapped, and the next five fields are unused */
    size_t length;
    unsigned guard;  /* of the mapping, see base/guard.h */
    int fd;          /* of the file, to see whether it has changed */
    char *path;      /* of the file, for messages */
    int64_t changed; /* ns since 1970 of the last write; INT64_MIN: not compared */
    void **memory;   /* (memories) blocks that are in memory; each is freed */
    uint32_t memories;
};

#endif
