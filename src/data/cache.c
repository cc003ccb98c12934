/* cache.c - the file that holds a set of rows, ready to be mapped.
 *
 *     offset  bytes  the head
 *          0      8  "yokerows"
 *          8      4  version, 1
 *         12      4  01020304 as the writer's machine stores it: a file of the other byte order is refused
 *         16     40  u64 each: rows, entries (keys in all), features (largest key + 1), positives, bad (rows left out)
 *         56      8  XXH3 of the set: seeded with that of the blocks before, of each block's in turn
 *         64      8  u32 each: blocks, inputs
 *         72      8  offset of the index
 *         80      8  length of the file
 *         88      8  XXH3 of the index, seeded with that of bytes 0 .. 87
 *         96     32  zero
 *        128      -  the blocks, each at a multiple of 64
 *                      row starts  u32 (rows + 1), the first 0, the last the number of entries
 *                      labels      u8 (rows), 0 or 1
 *                      twice       u64 (rows / 64, rounded up), if some row has a key twice: its bit is 1
 *                      keys        u32 (entries)
 *                      values      f32 (entries), unless all are 1
 *                    each part is followed by zeros up to a multiple of 64
 *          -     64  zero: what a vector that begins at the last key may read
 *      index  32 * blocks  u64 offset, u64 XXH3, u32 rows (2^14 but in the last), u32 entries, u32 (1: values, 2: twice), u32 (low half of XXH3 of `twice`, 0 if none)
 *          -  24 * inputs  u64 XXH3 of the real path, u64 bytes, i64 ns of last change
 *
 * The head is written last, and the file has its name only when it is whole. A rebuilt cache is a new file under the old name, so a
 * mapping of the old one stays good. Nothing is believed before lengths and sums agree.
 * LIMITS: a file that somebody shortens while it is mapped is a SIGBUS; yoke itself never does. */
#include "data/cache.h"

#include "base/team.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

enum { VERSION = 1, ORDER = 0x01020304, ALIGN = 64, HASHED = 88, PARTS = 5 };
#define WHOLE_CHECK                                                                                \
    ((uint64_t)1 << 30) /* bytes up to which our own files are checked whole: 0.1 s */

struct head {
    char magic[8];
    uint32_t version, order;
    uint64_t rows, entries, features, positives, bad, xxh3;
    uint32_t blocks, inputs;
    uint64_t index, length;
    uint64_t sum;
    uint64_t zero[4];
};
_Static_assert(sizeof(struct head) == 128 && offsetof(struct head, sum) == HASHED,
               "as drawn above");
_Static_assert(sizeof(struct yk_cache_entry) == 32 && sizeof(struct yk_cache_input) == 24,
               "as drawn above");

static const char magic[8] = {'y', 'o', 'k', 'e', 'r', 'o', 'w', 's'};

static size_t padded(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Bytes of the parts of a block, without padding, in their order. */
static void part_sizes(const struct yk_cache_entry *x, size_t size[PARTS])
{
    size[0] = ((size_t)x->rows + 1) * sizeof(uint32_t);
    size[1] = x->rows;
    size[2] = x->has & YK_BLOCK_TWICE ? ((size_t)x->rows + 63) / 64 * sizeof(uint64_t) : 0;
    size[3] = (size_t)x->entries * sizeof(uint32_t);
    size[4] = x->has & YK_BLOCK_VALUES ? (size_t)x->entries * sizeof(float) : 0;
}

static void part_starts(const struct yk_rows_block *b, const void *start[PARTS])
{
    start[0] = b->first;
    start[1] = b->label;
    start[2] = b->twice;
    start[3] = b->key;
    start[4] = b->value;
}

size_t yk_block_bytes(const struct yk_cache_entry *x)
{
    size_t size[PARTS], n = 0;
    part_sizes(x, size);
    for (int i = 0; i < PARTS; i++)
        n += padded(size[i]);
    return n;
}

void yk_block_view(struct yk_rows_block *out, const struct yk_cache_entry *x, const void *bytes)
{
    size_t size[PARTS];
    const char *start[PARTS + 1] = {bytes};
    part_sizes(x, size);
    for (int i = 0; i < PARTS; i++)
        start[i + 1] = start[i] + padded(size[i]);
    *out = (struct yk_rows_block){
        .first = (const uint32_t *)(const void *)start[0],
        .label = (const uint8_t *)start[1],
        .twice = x->has & YK_BLOCK_TWICE ? (const uint64_t *)(const void *)start[2] : NULL,
        .key = (const uint32_t *)(const void *)start[3],
        .value = x->has & YK_BLOCK_VALUES ? (const float *)(const void *)start[4] : NULL};
}

void yk_block_store(void *bytes, const struct yk_rows_block *b, const struct yk_cache_entry *x)
{
    size_t size[PARTS];
    const void *start[PARTS];
    char *to = bytes;
    part_sizes(x, size);
    part_starts(b, start);
    for (int i = 0; i < PARTS; i++) {
        if (size[i] > 0)
            memcpy(to, start[i], size[i]);
        memset(to + size[i], 0, padded(size[i]) - size[i]);
        to += padded(size[i]);
    }
}

struct yk_cache_entry yk_block_entry(const struct yk_rows_block *b, uint32_t rows)
{
    struct yk_cache_entry x = {.rows = rows,
                               .entries = b->first[rows],
                               .has = (b->value ? YK_BLOCK_VALUES : 0u) |
                                      (b->twice ? YK_BLOCK_TWICE : 0u)};
    size_t size[PARTS];
    const void *start[PARTS];
    part_sizes(&x, size);
    part_starts(b, start);
    x.xxh3 = rows;
    for (int i = 0; i < PARTS; i++)
        if (i != 2 &&
            size[i] > 0) /* `twice` follows from the keys, and is no part of what a set is */
            x.xxh3 = XXH3_64bits_withSeed(start[i], size[i], x.xxh3);
    x.twice = size[2] > 0 ? (uint32_t)XXH3_64bits(start[2], size[2]) : 0;
    return x;
}

uint64_t yk_rows_xxh3(uint64_t before, const struct yk_cache_entry *x)
{
    return XXH3_64bits_withSeed(&x->xxh3, sizeof x->xxh3, before);
}

/* --- writing --- */

yk_code yk_cache_create(struct yk_cache_writer *w, const char *path, bool unnamed,
                        struct yk_error *e)
{
    *w = (struct yk_cache_writer){.back = -1, .file.fd = -1, .at = sizeof(struct head)};
    yk_code rc = yk_outfile_open(&w->file, path, e);
    if (rc != YK_OK)
        return rc;
    w->file.hasty = true;
    if (w->file.temp[0] == '\0')
        rc = yk_fail(e, YK_USAGE, "cannot write a cache to '%s': it is a pipe or device", path);
    else if ((w->back = open(w->file.temp, O_RDONLY | O_CLOEXEC)) < 0)
        rc = yk_fail_errno(e, YK_FAILED, "cannot open '%s'", w->file.temp);
    else if (lseek(w->file.fd, sizeof(struct head), SEEK_SET) < 0)
        rc = yk_fail_errno(e, YK_FAILED, "cannot write '%s'", path);
    else if (unnamed)
        unlink(w->file.temp);
    if (rc != YK_OK)
        yk_cache_abort(w);
    return rc;
}

static yk_code write_parts(struct yk_cache_writer *w, struct iovec *part, int n, struct yk_error *e)
{
    while (n > 0) {
        ssize_t k = writev(w->file.fd, part, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return yk_fail_errno(e, YK_FAILED, "cannot write '%s'", w->file.path);
        w->at += (uint64_t)k;
        for (; n > 0 && (size_t)k >= part->iov_len; part++, n--)
            k -= (ssize_t)part->iov_len;
        if (n > 0) {
            part->iov_base = (char *)part->iov_base + k;
            part->iov_len -= (size_t)k;
        }
    }
    return YK_OK;
}

yk_code yk_cache_append(struct yk_cache_writer *w, const struct yk_rows_block *b,
                        const struct yk_cache_entry *x, struct yk_error *e)
{
    static const char zeros[ALIGN];
    if (w->blocks == w->room) {
        uint32_t room = w->room ? 2 * w->room : 64;
        struct yk_cache_entry *index = realloc(w->index, room * sizeof *index);
        if (index == NULL)
            return yk_fail_memory(e, room * sizeof *index);
        w->index = index;
        w->room = room;
    }
    size_t size[PARTS];
    const void *start[PARTS];
    struct iovec part[2 * PARTS];
    int n = 0;
    part_sizes(x, size);
    part_starts(b, start);
    for (int i = 0; i < PARTS; i++) {
        if (size[i] == 0)
            continue;
        part[n++] = (struct iovec){.iov_base = (void *)start[i], .iov_len = size[i]};
        if (size[i] % ALIGN != 0)
            part[n++] =
                (struct iovec){.iov_base = (void *)zeros, .iov_len = ALIGN - size[i] % ALIGN};
    }
    w->index[w->blocks] = *x;
    w->index[w->blocks].offset = w->at;
    yk_code rc = write_parts(w, part, n, e);
    w->blocks += rc == YK_OK;
    return rc;
}

/* The sum that makes head and index one. */
static uint64_t head_sum(const struct head *h, const void *index, size_t n)
{
    return XXH3_64bits_withSeed(index, n, XXH3_64bits(h, HASHED));
}

yk_code yk_cache_finish(struct yk_cache_writer *w, const struct yk_rows *totals,
                        const struct yk_cache_input *input, uint32_t inputs, struct yk_error *e)
{
    size_t blocks = w->blocks * sizeof *w->index, sources = inputs * sizeof *input,
           n = blocks + sources;
    char *tail = calloc(1, ALIGN + n);
    if (tail == NULL)
        return yk_fail_memory(e, ALIGN + n);
    if (blocks > 0)
        memcpy(tail + ALIGN, w->index, blocks);
    if (sources > 0)
        memcpy(tail + ALIGN + blocks, input, sources);
    struct head h = {.version = VERSION,
                     .order = ORDER,
                     .rows = totals->rows,
                     .entries = totals->entries,
                     .features = totals->features,
                     .positives = totals->positives,
                     .bad = totals->bad,
                     .xxh3 = totals->xxh3,
                     .blocks = w->blocks,
                     .inputs = inputs,
                     .index = w->at + ALIGN,
                     .length = w->at + ALIGN + n};
    memcpy(h.magic, magic, sizeof magic);
    h.sum = head_sum(&h, tail + ALIGN, n);
    struct iovec part = {.iov_base = tail, .iov_len = ALIGN + n};
    yk_code rc = write_parts(w, &part, 1, e);
    if (rc == YK_OK && pwrite(w->file.fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
        rc = yk_fail_errno(e, YK_FAILED, "cannot write '%s'", w->file.path);
    free(tail);
    return rc;
}

yk_code yk_cache_commit(struct yk_cache_writer *w, struct yk_error *e)
{
    return yk_outfile_commit(&w->file, e);
}

void yk_cache_abort(struct yk_cache_writer *w)
{
    yk_outfile_abort(&w->file);
    if (w->back >= 0)
        close(w->back);
    w->back = -1;
    free(w->index);
    w->index = NULL;
}

/* --- reading --- */

struct check { /* shared by the threads that check blocks */
    const struct head *h;
    const struct yk_cache_entry *index;
    const struct yk_rows_block *block;
    const void *base;
    unsigned threads;
    atomic_bool wrong;
    atomic_uint_fast64_t positives;
};

/* Does every row start where it may, has every label a meaning, is every key one of the features and every value a number? */
static bool block_makes_sense(const struct yk_cache_entry *x, const struct yk_rows_block *b,
                              uint64_t features, uint64_t *positives)
{
    bool wrong = b->first[0] != 0 || b->first[x->rows] != x->entries;
    uint32_t ones = 0, top = 0, largest = 0;
    uint8_t label = 0;
    for (uint32_t r = 0; r < x->rows; r++)
        wrong |= b->first[r] > b->first[r + 1];
    for (uint32_t r = 0; r < x->rows; r++) {
        label |= b->label[r];
        ones += b->label[r];
    }
    for (uint32_t i = 0; i < x->entries; i++)
        top = b->key[i] > top ? b->key[i] : top;
    for (uint32_t i = 0; b->value != NULL && i < x->entries; i++) {
        uint32_t bits;
        memcpy(&bits, &b->value[i], sizeof bits);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    *positives += ones;
    if (wrong || label > 1 || (x->entries > 0 && top >= features) ||
        largest >= 0x7f800000) /* infinite, or no number */
        return false;
    struct yk_cache_entry is = yk_block_entry(b, x->rows);
    return is.xxh3 == x->xxh3 && is.twice == x->twice;
}

static void check_blocks(void *arg, unsigned part)
{
    struct check *c = arg;
    uint64_t positives = 0;
    for (uint32_t i = part;
         i < c->h->blocks && !atomic_load_explicit(&c->wrong, memory_order_relaxed);
         i += c->threads)
        if (!block_makes_sense(&c->index[i], &c->block[i], c->h->features, &positives))
            atomic_store(&c->wrong, true);
    atomic_fetch_add(&c->positives, positives);
}

static bool all_make_sense(struct check *c, unsigned threads)
{
    struct yk_team *team = NULL;
    threads = threads == 0 ? yk_cpus() : threads;
    c->threads = threads < c->h->blocks ? threads : c->h->blocks;
    if (c->threads > 1 && yk_team_open(&team, c->threads, NULL) != YK_OK)
        c->threads = 1;
    yk_team_run(team, c->threads, check_blocks, c);
    yk_team_close(team);
    return !c->wrong && c->positives == c->h->positives;
}

static bool head_makes_sense(const struct head *h, uint64_t n)
{
    uint64_t index = (uint64_t)h->blocks * sizeof(struct yk_cache_entry),
             sources = (uint64_t)h->inputs * sizeof(struct yk_cache_input);
    return h->length == n && h->index % ALIGN == 0 && h->index >= sizeof *h + ALIGN &&
           h->index <= n && n - h->index == index + sources &&
           head_sum(h, (const char *)h + h->index, index + sources) == h->sum &&
           h->features <= YK_KEY_MAX + UINT64_C(1) && h->rows <= YK_ROWS_MAX &&
           h->positives <= h->rows && h->blocks > 0;
}

/* Fill `block` from the index if it is one. */
static bool index_makes_sense(const struct head *h, const struct yk_cache_entry *index,
                              struct yk_rows_block *block)
{
    uint64_t rows = 0, entries = 0, xxh3 = 0, free_from = sizeof *h;
    for (uint32_t i = 0; i < h->blocks; i++) {
        const struct yk_cache_entry *x = &index[i];
        if (x->rows < 1 || x->rows > YK_BLOCK_ROWS ||
            (x->rows < YK_BLOCK_ROWS && i + 1 < h->blocks) || x->has > 3 ||
            x->offset % ALIGN != 0 || x->offset < free_from || x->offset > h->index - ALIGN ||
            yk_block_bytes(x) > h->index - ALIGN - x->offset)
            return false;
        free_from = x->offset + yk_block_bytes(x);
        yk_block_view(&block[i], x, (const char *)h + x->offset);
        rows += x->rows;
        entries += x->entries;
        xxh3 = yk_rows_xxh3(xxh3, x);
    }
    return rows == h->rows && entries == h->entries && xxh3 == h->xxh3;
}

/* `bytes` become a set if they are one; *out is NULL else, and the bytes stay the caller's. */
static yk_code take_bytes(struct yk_rows **out, const void *bytes, uint64_t n, const char *path,
                          enum yk_cache_trust trust, const struct yk_cache_input *input,
                          uint32_t inputs, unsigned threads, struct yk_error *e)
{
    const struct head *h = bytes;
    if (!yk_cache_sniff(bytes, n))
        return yk_fail(e, YK_DATA, "'%s' is not a cache of rows", path);
    if (n < sizeof *h || h->version != VERSION || h->order != ORDER) {
        yk_fail(
            e, YK_DATA,
            "'%s' is a cache of rows of another version or of a machine of the other byte order",
            path);
        yk_hint(e, "convert the original again");
        return YK_DATA;
    }
    if (!head_makes_sense(h, n))
        goto damaged;
    const struct yk_cache_entry *index = (const void *)((const char *)bytes + h->index);
    if (input != NULL &&
        (inputs != h->inputs || memcmp(index + h->blocks, input, inputs * sizeof *input) != 0))
        return yk_fail(e, YK_DATA, "'%s' was made from other files, or they have changed", path);
    struct yk_rows *r = calloc(1, sizeof *r);
    struct yk_rows_block *block = calloc(h->blocks, sizeof *block);
    struct yk_rows_hold *hold = calloc(1, sizeof *hold);
    if (r == NULL || block == NULL || hold == NULL) {
        free(r);
        free(block);
        free(hold);
        return yk_fail_memory(e, h->blocks * sizeof *block);
    }
    *r = (struct yk_rows){.rows = h->rows,
                          .entries = h->entries,
                          .features = h->features,
                          .positives = h->positives,
                          .bad = h->bad,
                          .xxh3 = h->xxh3,
                          .blocks = h->blocks,
                          .block = block,
                          .hold = hold};
    struct check c = {.h = h, .index = index, .block = block};
    bool whole = trust == YK_CACHE_FOREIGN || (trust == YK_CACHE_OURS && n <= WHOLE_CHECK);
    if (index_makes_sense(h, index, block) && (!whole || all_make_sense(&c, threads))) {
        *out = r;
        return YK_OK;
    }
    yk_rows_close(r);
damaged:
    yk_fail(e, YK_DATA, "'%s' is damaged: it is a cache of rows whose parts contradict each other",
            path);
    yk_hint(e, "convert the original again");
    return YK_DATA;
}

yk_code yk_cache_map(struct yk_rows **out, int fd, const char *path, enum yk_cache_trust trust,
                     const struct yk_cache_input *input, uint32_t inputs, unsigned threads,
                     struct yk_error *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > SIZE_MAX)
        return yk_fail(e, YK_DATA, "'%s' is not a cache of rows", path);
    size_t n = (size_t)st.st_size;
    void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return yk_fail_errno(e, YK_DATA, "cannot map '%s'", path);
    yk_code rc = take_bytes(out, map, n, path, trust, input, inputs, threads, e);
    if (rc != YK_OK) {
        munmap(map, n);
        return rc;
    }
    (*out)->hold->map = map;
    (*out)->hold->length = n;
    return YK_OK;
}

yk_code yk_cache_open(struct yk_rows **out, const char *path, enum yk_cache_trust trust,
                      const struct yk_cache_input *input, uint32_t inputs, unsigned threads,
                      struct yk_error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC |
                            O_NONBLOCK); /* so that a pipe is refused, not waited for */
    if (fd < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    yk_code rc = yk_cache_map(out, fd, path, trust, input, inputs, threads, e);
    close(fd);
    return rc;
}

yk_code yk_cache_parse(struct yk_rows **out, const void *bytes, size_t n, struct yk_error *e)
{
    return take_bytes(out, bytes, n, "(memory)", YK_CACHE_FOREIGN, NULL, 0, 1, e);
}

bool yk_cache_sniff(const void *head, size_t n)
{
    return n >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}
