/* builder.c - see builder.h. The block that is being filled is five growing arrays; a full one is
 * hashed and either written or copied into one allocation, laid out as cache.c draws it. The
 * borders of chunks leave no trace: the same rows give the same blocks and the same hash.
 * THREADS: see builder.h.
 * LIMITS: a block has fewer than 2^32 entries. */
#include "data/rows/builder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEEN_BITS = 14,
    SLACK = 64, /* readable bytes behind the last array of a block */
    FEW = 64,   /* keys of a row up to which all pairs are compared */
};

/* --- facts of a chunk --- */

static int by_key(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Looks for a key that occurs twice; exact, but slow. */
static bool has_double(struct yk_facts *f, const uint32_t *key, uint32_t n, bool *found)
{
    if (n <= FEW) {
        for (uint32_t i = 1; i < n; i++)
            for (uint32_t j = 0; j < i; j++)
                *found |= key[i] == key[j];
        return true;
    }
    if (n > f->copy_room) {
        free(f->copy);
        f->copy = malloc(n * sizeof *f->copy);
        f->copy_room = f->copy == NULL ? 0 : n;
        if (f->copy == NULL)
            return false;
    }
    memcpy(f->copy, key, n * sizeof *key);
    qsort(f->copy, n, sizeof *key, by_key);
    for (uint32_t i = 1; i < n; i++)
        *found |= f->copy[i - 1] == f->copy[i];
    return true;
}

/* Looks for a key that occurs twice in a row whose keys do not ascend. A hash table of the last row
 * that had a key rules out most rows. */
static bool look_closely(struct yk_facts *f, uint32_t row, const uint32_t *key, uint32_t n,
                         bool *found)
{
    if (f->seen == NULL && (f->seen = calloc((size_t)1 << SEEN_BITS, sizeof *f->seen)) == NULL)
        return false;
    bool maybe = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *place = &f->seen[key[i] * 2654435769u >> (32 - SEEN_BITS)];
        maybe |= *place == row + 1;
        *place = row + 1;
    }
    return !maybe || has_double(f, key, n, found);
}

bool yk_facts_find(struct yk_facts *f, const struct yk_chunk *c)
{
    uint32_t words = c->rows / 64 + 1, one_bits, other = 0, top = 0;
    const float one = 1;
    if (words > f->room) {
        free(f->twice);
        f->twice = malloc(words * sizeof *f->twice);
        f->room = f->twice == NULL ? 0 : words;
        if (f->twice == NULL)
            return false;
    }
    f->doubles = false;
    memset(f->twice, 0, words * sizeof *f->twice);
    if (f->seen != NULL)
        memset(f->seen, 0, sizeof *f->seen << SEEN_BITS);
    memcpy(&one_bits, &one, sizeof one_bits);
    for (uint32_t i = 0; i < c->entries; i++) {
        uint32_t bits;
        memcpy(&bits, &c->value[i], sizeof bits);
        other |= bits ^ one_bits;
        top = c->key[i] > top ? c->key[i] : top;
    }
    f->ones = other == 0;
    f->top = c->entries == 0 ? 0 : (uint64_t)top + 1;
    for (uint32_t r = 0, from = 0; r < c->rows; from = c->end[r++]) {
        const uint32_t *key = c->key + from;
        uint32_t n = c->end[r] - from;
        bool falls = false, found = false;
        for (uint32_t i = 1; i < n; i++)
            falls |= key[i] <= key[i - 1];
        if (falls && !look_closely(f, r, key, n, &found))
            return false;
        f->twice[r / 64] |= (uint64_t)found << r % 64;
        f->doubles |= found;
    }
    return true;
}

void yk_facts_release(struct yk_facts *f)
{
    free(f->twice);
    free(f->seen);
    free(f->copy);
    *f = (struct yk_facts){0};
}

/* --- blocks --- */

void yk_rows_note(struct yk_rows *r, const char *why)
{
    snprintf(r->note, sizeof r->note, "%.*s", (int)sizeof r->note - 1, why);
}

struct yk_builder {
    struct yk_rows total; /* the counts so far; its blocks are those in memory */
    uint32_t block_room;
    bool cached; /* `cache` is open, and has all blocks */
    bool unnamed;
    struct yk_cache_writer cache;
    /* The rest is the block that is being filled. */
    uint32_t rows, entries, entry_room;
    bool ones, doubles;
    uint32_t first[YK_BLOCK_ROWS + 1];
    uint8_t label[YK_BLOCK_ROWS];
    uint64_t twice[YK_BLOCK_ROWS / 64];
    uint32_t *key; /* (entry_room) */
    float *value;  /* (entry_room) */
};

static void empty_block(struct yk_builder *b)
{
    b->rows = b->entries = 0;
    b->ones = true;
    b->doubles = false;
    b->first[0] = 0;
    memset(b->twice, 0, sizeof b->twice);
}

yk_code yk_builder_open(struct yk_builder **out, const char *path, bool unnamed, struct yk_error *e)
{
    struct yk_builder *b = calloc(1, sizeof *b);
    if (b == NULL)
        return yk_fail_memory(e, sizeof *b);
    b->unnamed = unnamed;
    b->cache.back = b->cache.file.fd = -1;
    b->total.backing = calloc(1, sizeof *b->total.backing);
    if (b->total.backing == NULL) {
        yk_builder_close(b);
        return yk_fail_memory(e, sizeof *b->total.backing);
    }
    struct yk_error why;
    if (path != NULL) {
        b->cached = yk_cache_create(&b->cache, path, unnamed, &why) == YK_OK;
        if (!b->cached)
            yk_rows_note(&b->total, why.text);
    }
    empty_block(b);
    *out = b;
    return YK_OK;
}

void yk_builder_close(struct yk_builder *b)
{
    if (b == NULL)
        return;
    yk_cache_abort(&b->cache);
    yk_rows_clear(&b->total);
    free(b->key);
    free(b->value);
    free(b);
}

/* Room for one more block in memory; returns its bytes, or NULL. */
static void *new_block(struct yk_builder *b, const struct yk_block_info *x, struct yk_error *e)
{
    struct yk_rows_backing *backing = b->total.backing;
    if (backing->memories == b->block_room) {
        uint32_t room = b->block_room ? 2 * b->block_room : 16;
        void **memory = realloc(backing->memory, room * sizeof *memory);
        if (memory != NULL)
            backing->memory = memory;
        struct yk_rows_block *block = realloc(b->total.block, room * sizeof *block);
        if (block != NULL)
            b->total.block = block;
        if (memory == NULL || block == NULL) {
            yk_fail_memory(e, room * sizeof *block);
            return NULL;
        }
        b->block_room = room;
    }
    size_t n = yk_block_bytes(x);
    void *bytes = aligned_alloc(64, n + SLACK); /* n is a multiple of 64 */
    if (bytes == NULL) {
        yk_fail_memory(e, n + SLACK);
        return NULL;
    }
    memset((char *)bytes + n, 0, SLACK);
    yk_block_view(&b->total.block[backing->memories], x, bytes);
    backing->memory[backing->memories++] = bytes;
    return bytes;
}

/* The cache cannot be written any further: its blocks are read back into memory. */
static yk_code give_up_cache(struct yk_builder *b, const struct yk_error *why, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (uint32_t i = 0; i < b->cache.blocks && rc == YK_OK; i++) {
        const struct yk_block_info *x = &b->cache.index[i];
        size_t n = yk_block_bytes(x), got = 0;
        char *bytes = new_block(b, x, e);
        if (bytes == NULL)
            return YK_FAILED;
        while (got < n && rc == YK_OK) {
            ssize_t k = pread(b->cache.back, bytes + got, n - got, (off_t)(x->offset + got));
            if (k == 0)
                errno = EIO;
            if (k > 0)
                got += (size_t)k;
            else if (k == 0 || errno != EINTR)
                rc = yk_fail_errno(e, YK_FAILED, "cannot read '%s' back", b->cache.file.temp);
        }
    }
    yk_rows_note(&b->total, why->text);
    yk_cache_abort(&b->cache);
    b->cached = false;
    return rc;
}

/* Are all values of a block 1? A chunk with other values may have none of them in this block. */
static bool all_ones(const float *value, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (value[i] != 1)
            return false;
    return true;
}

static yk_code end_block(struct yk_builder *b, struct yk_error *e)
{
    if (b->rows == 0)
        return YK_OK;
    bool ones = b->ones || all_ones(b->value, b->entries);
    struct yk_rows_block block = {.first = b->first,
                                  .label = b->label,
                                  .key = b->key,
                                  .value = ones ? NULL : b->value,
                                  .twice = b->doubles ? b->twice : NULL};
    struct yk_block_info x = yk_block_describe(&block, b->rows);
    yk_code rc = YK_OK;
    if (b->cached) {
        struct yk_error why;
        if (yk_cache_append(&b->cache, &block, &x, &why) != YK_OK)
            rc = give_up_cache(b, &why, e);
    }
    if (rc == YK_OK && !b->cached) {
        void *bytes = new_block(b, &x, e);
        if (bytes == NULL)
            return YK_FAILED;
        yk_block_store(bytes, &block, &x);
    }
    b->total.xxh3 = yk_rows_xxh3(b->total.xxh3, &x);
    b->total.blocks++;
    empty_block(b);
    return rc;
}

static yk_code entry_room(struct yk_builder *b, uint32_t more, struct yk_error *e)
{
    if (more > UINT32_MAX - SLACK - b->entries)
        return yk_fail(e, YK_DATA, "%d consecutive rows have more than %u keys", YK_BLOCK_ROWS,
                       UINT32_MAX - SLACK);
    uint32_t need = b->entries + more;
    if (need <= b->entry_room)
        return YK_OK;
    size_t room = (size_t)need + need / 4;
    room = room < UINT32_MAX ? room : UINT32_MAX;
    uint32_t *key = realloc(b->key, room * sizeof *key);
    if (key != NULL)
        b->key = key;
    float *value = realloc(b->value, room * sizeof *value);
    if (value != NULL)
        b->value = value;
    if (key == NULL || value == NULL)
        return yk_fail_memory(e, room * sizeof *key);
    b->entry_room = (uint32_t)room;
    return YK_OK;
}

/* Adds rows [from, to) of the chunk, which fit into the block. */
static yk_code take_rows(struct yk_builder *b, const struct yk_chunk *c, const struct yk_facts *f,
                         uint32_t from, uint32_t to, struct yk_error *e)
{
    uint32_t start = from == 0 ? 0 : c->end[from - 1], n = c->end[to - 1] - start, rows = to - from;
    yk_code rc = entry_room(b, n, e);
    if (rc != YK_OK)
        return rc;
    uint32_t shift = b->entries - start; /* may wrap around, and wraps back below */
    for (uint32_t i = 0; i < rows; i++)
        b->first[b->rows + 1 + i] = c->end[from + i] + shift;
    uint32_t positives = 0;
    for (uint32_t i = 0; i < rows; i++) {
        b->label[b->rows + i] = c->label[from + i];
        positives += c->label[from + i];
    }
    if (n > 0) {
        memcpy(b->key + b->entries, c->key + start, n * sizeof *b->key);
        memcpy(b->value + b->entries, c->value + start, n * sizeof *b->value);
    }
    if (f->doubles)
        for (uint32_t i = from; i < to; i++) {
            uint32_t r = b->rows + (i - from);
            uint64_t bit = f->twice[i / 64] >> i % 64 & 1;
            b->twice[r / 64] |= bit << r % 64;
            b->doubles |= bit != 0;
        }
    b->ones &= f->ones;
    b->rows += rows;
    b->entries += n;
    b->total.rows += rows;
    b->total.entries += n;
    b->total.positives += positives;
    return YK_OK;
}

yk_code yk_builder_add(struct yk_builder *b, const struct yk_chunk *c, const struct yk_facts *f,
                       struct yk_error *e)
{
    yk_code rc = YK_OK;
    if (c->rows > YK_ROWS_MAX - b->total.rows)
        return yk_fail(e, YK_DATA, "the data have more than %u rows, the most that a set can have",
                       YK_ROWS_MAX);
    for (uint32_t from = 0, to; from < c->rows && rc == YK_OK; from = to) {
        to = c->rows - from < YK_BLOCK_ROWS - b->rows ? c->rows : from + (YK_BLOCK_ROWS - b->rows);
        rc = take_rows(b, c, f, from, to, e);
        if (rc == YK_OK && b->rows == YK_BLOCK_ROWS)
            rc = end_block(b, e);
    }
    b->total.features = f->top > b->total.features ? f->top : b->total.features;
    b->total.bad += c->bad;
    return rc;
}

yk_code yk_builder_finish(struct yk_builder *b, const struct yk_cache_input *input, uint32_t inputs,
                          struct yk_rows **out, struct yk_error *e)
{
    struct yk_rows *r = NULL;
    yk_code rc = end_block(b, e);
    if (rc == YK_OK && b->total.rows == 0)
        return yk_fail(e, YK_DATA, "the data have no rows; expected at least one");
    if (rc == YK_OK && b->cached) {
        struct yk_error why;
        yk_code wrote = yk_cache_finish(&b->cache, &b->total, input, inputs, &why);
        if (wrote == YK_OK)
            wrote = yk_cache_map(&r, b->cache.back, b->cache.file.path, YK_CACHE_JUST_WRITTEN, NULL,
                                 0, 1, &why);
        if (wrote == YK_OK && !b->unnamed) {
            wrote = yk_outfile_commit(&b->cache.file, &why);
            /* The mapping works all the same, but no later run will find the cache. */
            if (wrote != YK_OK)
                yk_rows_note(r, why.text);
        }
        if (r != NULL) {
            *out = r;
            return YK_OK;
        }
        rc = give_up_cache(b, &why, e);
    }
    if (rc != YK_OK)
        return rc;
    r = malloc(sizeof *r);
    if (r == NULL)
        return yk_fail_memory(e, sizeof *r);
    *r = b->total;
    b->total.block = NULL;
    b->total.backing = NULL;
    *out = r;
    return YK_OK;
}
