/* cache.c - the file that holds a set of rows, ready to be mapped.
 *
 *     offset  bytes  the head
 *          0      8  "yokerows"
 *          8      4  version, 1
 *         12      4  01020304 in the byte order of the writer; the other byte order is refused
 *         16     40  u64 each: rows, entries, features (largest key + 1), positives, bad rows
 *         56      8  XXH3 of the set: of each block's XXH3 in turn, seeded with the one before
 *         64      8  u32 each: blocks, inputs
 *         72      8  offset of the index
 *         80      8  length of the file
 *         88      8  XXH3 of the index, seeded with that of bytes 0 .. 87
 *         96     32  zero
 *        128      -  the blocks, each at a multiple of 64, and each of five arrays:
 *                      row starts  u32 (rows + 1), the first 0, the last the number of entries
 *                      labels      u8 (rows), 0 or 1
 *                      twice       u64 (rows / 64, rounded up): bits of rows that have a key
 *                                  twice; absent if no row has
 *                      keys        u32 (entries)
 *                      values      f32 (entries); absent if all are 1
 *                    each array is followed by zeros up to a multiple of 64
 *          -     64  zero: vectors may be loaded from the last key on
 *      index  32 each for the blocks: u64 offset, u64 XXH3, u32 rows (2^14 but in the last block),
 *                    u32 entries, u32 (1: values, 2: twice), u32 low half of XXH3 of `twice` or 0
 *          -  24 each for the inputs: u64 XXH3 of the real path, u64 bytes, i64 ns of last change
 *
 * The head is written last, and the file gets its name only when it is whole. A rebuilt cache is a
 * new file under the old name, so a mapping of the old one stays good. Lengths and sums are checked
 * before use.
 * THREADS: see cache.h.
 * LIMITS: yoke never changes a finished file. If another program shortens a mapped file, zeros are
 * read; if it writes over it, size or time show it (yk_rows_intact). Reads in between are
 * unchecked. */
#include "data/rows/cache.h"

#include "base/guard.h"
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

enum { VERSION = 1, ORDER = 0x01020304, ALIGN = 64, HASHED = 88, ARRAYS = 5 };
/* Bytes up to which our own files are checked whole, in 0.1 s. */
#define WHOLE_CHECK ((uint64_t)1 << 30)

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
_Static_assert(sizeof(struct yk_block_info) == 32 && sizeof(struct yk_cache_input) == 24,
               "as drawn above");

static const char magic[8] = {'y', 'o', 'k', 'e', 'r', 'o', 'w', 's'};

static size_t padded(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Bytes of the arrays of a block, without padding, in their order. */
static void array_sizes(const struct yk_block_info *x, size_t size[ARRAYS])
{
    size[0] = ((size_t)x->rows + 1) * sizeof(uint32_t);
    size[1] = x->rows;
    size[2] = x->has & YK_BLOCK_TWICE ? ((size_t)x->rows + 63) / 64 * sizeof(uint64_t) : 0;
    size[3] = (size_t)x->entries * sizeof(uint32_t);
    size[4] = x->has & YK_BLOCK_VALUES ? (size_t)x->entries * sizeof(float) : 0;
}

static void array_starts(const struct yk_rows_block *b, const void *start[ARRAYS])
{
    start[0] = b->first;
    start[1] = b->label;
    start[2] = b->twice;
    start[3] = b->key;
    start[4] = b->value;
}

size_t yk_block_bytes(const struct yk_block_info *x)
{
    size_t size[ARRAYS], n = 0;
    array_sizes(x, size);
    for (int i = 0; i < ARRAYS; i++)
        n += padded(size[i]);
    return n;
}

void yk_block_view(struct yk_rows_block *out, const struct yk_block_info *x, const void *bytes)
{
    size_t size[ARRAYS];
    const char *start[ARRAYS + 1] = {bytes};
    array_sizes(x, size);
    for (int i = 0; i < ARRAYS; i++)
        start[i + 1] = start[i] + padded(size[i]);
    *out = (struct yk_rows_block){
        .first = (const uint32_t *)(const void *)start[0],
        .label = (const uint8_t *)start[1],
        .twice = x->has & YK_BLOCK_TWICE ? (const uint64_t *)(const void *)start[2] : NULL,
        .key = (const uint32_t *)(const void *)start[3],
        .value = x->has & YK_BLOCK_VALUES ? (const float *)(const void *)start[4] : NULL};
}

void yk_block_store(void *bytes, const struct yk_rows_block *b, const struct yk_block_info *x)
{
    size_t size[ARRAYS];
    const void *start[ARRAYS];
    char *to = bytes;
    array_sizes(x, size);
    array_starts(b, start);
    for (int i = 0; i < ARRAYS; i++) {
        if (size[i] > 0)
            memcpy(to, start[i], size[i]);
        memset(to + size[i], 0, padded(size[i]) - size[i]);
        to += padded(size[i]);
    }
}

struct yk_block_info yk_block_describe(const struct yk_rows_block *b, uint32_t rows)
{
    struct yk_block_info x = {.rows = rows,
                              .entries = b->first[rows],
                              .has = (b->value ? YK_BLOCK_VALUES : 0u) |
                                     (b->twice ? YK_BLOCK_TWICE : 0u)};
    size_t size[ARRAYS];
    const void *start[ARRAYS];
    array_sizes(&x, size);
    array_starts(b, start);
    x.xxh3 = rows;
    for (int i = 0; i < ARRAYS; i++)
        if (i != 2 && size[i] > 0) /* `twice` follows from the keys and is not hashed */
            x.xxh3 = XXH3_64bits_withSeed(start[i], size[i], x.xxh3);
    x.twice = size[2] > 0 ? (uint32_t)XXH3_64bits(start[2], size[2]) : 0;
    return x;
}

uint64_t yk_rows_xxh3(uint64_t before, const struct yk_block_info *x)
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

static yk_code write_vector(struct yk_cache_writer *w, struct iovec *vec, int n, struct yk_error *e)
{
    while (n > 0) {
        ssize_t k = writev(w->file.fd, vec, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return yk_fail_errno(e, YK_FAILED, "cannot write '%s'", w->file.path);
        w->at += (uint64_t)k;
        for (; n > 0 && (size_t)k >= vec->iov_len; vec++, n--)
            k -= (ssize_t)vec->iov_len;
        if (n > 0) {
            vec->iov_base = (char *)vec->iov_base + k;
            vec->iov_len -= (size_t)k;
        }
    }
    return YK_OK;
}

yk_code yk_cache_append(struct yk_cache_writer *w, const struct yk_rows_block *b,
                        const struct yk_block_info *x, struct yk_error *e)
{
    static const char zeros[ALIGN];
    if (w->blocks == w->room) {
        uint32_t room = w->room ? 2 * w->room : 64;
        struct yk_block_info *index = realloc(w->index, room * sizeof *index);
        if (index == NULL)
            return yk_fail_memory(e, room * sizeof *index);
        w->index = index;
        w->room = room;
    }
    size_t size[ARRAYS];
    const void *start[ARRAYS];
    struct iovec vec[2 * ARRAYS];
    int n = 0;
    array_sizes(x, size);
    array_starts(b, start);
    for (int i = 0; i < ARRAYS; i++) {
        if (size[i] == 0)
            continue;
        vec[n++] = (struct iovec){.iov_base = (void *)start[i], .iov_len = size[i]};
        if (size[i] % ALIGN != 0)
            vec[n++] =
                (struct iovec){.iov_base = (void *)zeros, .iov_len = ALIGN - size[i] % ALIGN};
    }
    w->index[w->blocks] = *x;
    w->index[w->blocks].offset = w->at;
    yk_code rc = write_vector(w, vec, n, e);
    w->blocks += rc == YK_OK;
    return rc;
}

/* The sum over head and index. */
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
    struct iovec vec = {.iov_base = tail, .iov_len = ALIGN + n};
    yk_code rc = write_vector(w, &vec, 1, e);
    if (rc == YK_OK && pwrite(w->file.fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
        rc = yk_fail_errno(e, YK_FAILED, "cannot write '%s'", w->file.path);
    free(tail);
    return rc;
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
    const struct yk_block_info *index;
    const struct yk_rows_block *block;
    const void *base;
    unsigned threads;
    atomic_bool wrong;
    atomic_uint_fast64_t positives;
};

/* Checks that rows start in order, labels are 0 or 1, keys are below `features`, values are finite,
 * and the checksums are right. */
static bool block_makes_sense(const struct yk_block_info *x, const struct yk_rows_block *b,
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
    if (b->value != NULL)
        for (uint32_t i = 0; i < x->entries; i++) {
            uint32_t bits;
            memcpy(&bits, &b->value[i], sizeof bits);
            bits &= INT32_MAX;
            largest = bits > largest ? bits : largest;
        }
    *positives += ones;
    if (wrong || label > 1 || (x->entries > 0 && top >= features) ||
        largest >= 0x7f800000) /* infinite, or no number */
        return false;
    struct yk_block_info is = yk_block_describe(b, x->rows);
    return is.xxh3 == x->xxh3 && is.twice == x->twice;
}

static void check_blocks(void *arg, unsigned member)
{
    struct check *c = arg;
    uint64_t positives = 0;
    for (uint32_t i = member; i < c->h->blocks; i += c->threads) {
        if (atomic_load_explicit(&c->wrong, memory_order_relaxed))
            return;
        if (!block_makes_sense(&c->index[i], &c->block[i], c->h->features, &positives))
            atomic_store(&c->wrong, true);
    }
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
    uint64_t index = (uint64_t)h->blocks * sizeof(struct yk_block_info),
             sources = (uint64_t)h->inputs * sizeof(struct yk_cache_input);
    return h->length == n && h->index % ALIGN == 0 && h->index >= sizeof *h + ALIGN &&
           h->index <= n && n - h->index == index + sources &&
           head_sum(h, (const char *)h + h->index, index + sources) == h->sum &&
           h->features <= YK_KEY_MAX + UINT64_C(1) && h->rows <= YK_ROWS_MAX &&
           h->positives <= h->rows && h->blocks > 0;
}

/* Fills `block` from the index; false if the index makes no sense. */
static bool index_makes_sense(const struct head *h, const struct yk_block_info *index,
                              struct yk_rows_block *block)
{
    uint64_t rows = 0, entries = 0, xxh3 = 0, free_from = sizeof *h;
    for (uint32_t i = 0; i < h->blocks; i++) {
        const struct yk_block_info *x = &index[i];
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

/* Turns `bytes` into a set. On failure the caller keeps the bytes. */
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
    const struct yk_block_info *index = (const void *)((const char *)bytes + h->index);
    if (input != NULL &&
        (inputs != h->inputs || memcmp(index + h->blocks, input, inputs * sizeof *input) != 0))
        return yk_fail(e, YK_DATA, "'%s' was made from other files, or they have changed", path);
    struct yk_rows *r = calloc(1, sizeof *r);
    struct yk_rows_block *block = calloc(h->blocks, sizeof *block);
    struct yk_rows_backing *backing = calloc(1, sizeof *backing);
    if (r == NULL || block == NULL || backing == NULL) {
        free(r);
        free(block);
        free(backing);
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
                          .backing = backing};
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

static int64_t written(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static yk_code changed(const char *path, struct yk_error *e)
{
    return yk_fail(e, YK_DATA, "'%s' changed while it was read", path);
}

static void unmap(struct yk_rows_backing *backing)
{
    yk_unguard(backing->guard);
    if (backing->map != MAP_FAILED)
        munmap(backing->map, backing->length);
    if (backing->fd >= 0)
        close(backing->fd);
    free(backing->path);
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
    struct yk_rows_backing backing = {
        .length = (size_t)st.st_size, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .path = strdup(path)};
    /* Over a network the time of a new file may still move; that of a user's file does not. */
    backing.changed = trust == YK_CACHE_FOREIGN ? written(&st) : INT64_MIN;
    backing.map = mmap(NULL, backing.length, PROT_READ, MAP_SHARED, fd, 0);
    yk_code rc = YK_OK;
    if (backing.map == MAP_FAILED || backing.fd < 0 || backing.path == NULL)
        rc = yk_fail_errno(e, YK_DATA, "cannot map '%s'", path);
    else if ((backing.guard = yk_guard(backing.map, backing.length)) == 0)
        rc = yk_fail(e, YK_FAILED, "cannot map '%s': too many files of rows are open", path);
    else
        rc = take_bytes(out, backing.map, backing.length, path, trust, input, inputs, threads, e);
    if (rc != YK_OK) {
        if (yk_guard_broken(backing.guard))
            rc = changed(path, e);
        unmap(&backing);
        return rc;
    }
    *(*out)->backing = backing;
    return YK_OK;
}

void yk_rows_clear(struct yk_rows *r)
{
    struct yk_rows_backing *backing = r->backing;
    if (backing != NULL) {
        if (backing->map != NULL)
            unmap(backing);
        for (uint32_t i = 0; i < backing->memories; i++)
            free(backing->memory[i]);
        free(backing->memory);
    }
    free(backing);
    free(r->block);
    r->backing = NULL;
    r->block = NULL;
}

bool yk_rows_whole(const struct yk_rows *r)
{
    return r == NULL || r->backing == NULL || r->backing->map == NULL ||
           !yk_guard_broken(r->backing->guard);
}

yk_code yk_rows_intact(const struct yk_rows *r, struct yk_error *e)
{
    struct stat st;
    if (!yk_rows_whole(r))
        return changed(r->backing->path, e);
    if (r == NULL || r->backing == NULL || r->backing->map == NULL ||
        fstat(r->backing->fd, &st) != 0)
        return YK_OK;
    const struct yk_rows_backing *backing = r->backing;
    bool same = (uint64_t)st.st_size == backing->length &&
                (backing->changed == INT64_MIN || written(&st) == backing->changed);
    return same ? YK_OK : changed(backing->path, e);
}

yk_code yk_cache_open(struct yk_rows **out, const char *path, enum yk_cache_trust trust,
                      const struct yk_cache_input *input, uint32_t inputs, unsigned threads,
                      struct yk_error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
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
