/* pack.c - drops the background of images: see yk_dataset_pack in data.h.
 *
 *     pixels   (rows, features)    0 0 0 0 0 0 0 0 | 0 0 7 9 3 0 0 0 | 0 0 0 0 0 0 0 0 | 1 0 0 ...
 *     nonzero  (rows, words)       bits 0 1 0 1 ...: the blocks of 8 pixels that are not all zero
 *     blocks   those blocks alone  0 0 7 9 3 0 0 0 | 1 0 0 ...
 *     first    (rows + 1)          the number of each row's first block
 *
 * Four fifths of MNIST are background: packed it takes 19 MB instead of 47, and a row is 5 or 6
 * cache lines instead of 13. Rows of whole blocks are packed in place, so memory never holds the
 * set twice. The last block of other rows is filled up with zeros.
 * THREADS: no state. */
#include "data/data.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = YK_PACK_BLOCK };

static uint64_t load_block(const uint8_t *x, uint32_t left)
{
    uint64_t v = 0;
    memcpy(&v, x, left < BLOCK ? left : BLOCK);
    return v;
}

static size_t count_blocks(const struct yk_dataset *d)
{
    size_t n = 0;
    for (uint32_t i = 0; i < d->rows; i++)
        for (uint32_t q = 0; q < d->features; q += BLOCK)
            n += load_block(d->pixels + (size_t)i * d->features + q, d->features - q) != 0;
    return n;
}

/* Returns the pages behind the last block to the system. */
static void give_back(uint8_t *blocks, size_t used, size_t had)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skew = (uintptr_t)blocks % page;
    size_t from = (skew + used + YK_ROW_SLACK + page - 1) / page * page - skew,
           to = (skew + had) / page * page - skew;
    if (to > from)
        madvise(blocks + from, to - from, MADV_DONTNEED);
}

yk_code yk_dataset_pack(struct yk_dataset *d, struct yk_error *e)
{
    uint32_t per_row = (d->features + BLOCK - 1) / BLOCK, words = (per_row + 63) / 64;
    bool in_place = d->features % BLOCK == 0;
    if (d->packed.blocks != NULL || d->rows == 0)
        return YK_OK;
    yk_code rc = yk_dataset_load(d, e);
    if (rc != YK_OK)
        return rc;
    if ((uint64_t)d->rows * per_row >= UINT32_MAX)
        return yk_fail(e, YK_DATA, "'%s' is too big for this model: %u rows of %u pixels", d->name,
                       d->rows, d->features);
    size_t room =
        in_place ? (size_t)d->rows * d->features : (count_blocks(d) * BLOCK + YK_ROW_SLACK);
    uint64_t *nonzero = calloc((size_t)d->rows * words, sizeof *nonzero);
    uint32_t *first = malloc(((size_t)d->rows + 1) * sizeof *first);
    uint8_t *blocks = in_place ? d->pixels : malloc(room);
    if (nonzero == NULL || first == NULL || blocks == NULL) {
        free(nonzero);
        free(first);
        if (!in_place)
            free(blocks);
        return yk_fail_memory(e, room);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->rows; i++) {
        const uint8_t *x = d->pixels + (size_t)i * d->features;
        uint64_t *word = nonzero + (size_t)i * words;
        first[i] = n;
        /* In place, writing stays behind reading: a block is written after it was read. */
        for (uint32_t b = 0; b < per_row; b++) {
            uint64_t v = load_block(x + (size_t)b * BLOCK, d->features - b * BLOCK);
            memcpy(blocks + (size_t)n * BLOCK, &v, BLOCK);
            n += v != 0;
            word[b / 64] |= (uint64_t)(v != 0) << (b % 64);
        }
    }
    first[d->rows] = n;
    if (in_place)
        give_back(blocks, (size_t)n * BLOCK, room);
    else
        free(d->pixels);
    d->pixels = NULL;
    d->packed =
        (struct yk_packed){.blocks = blocks, .first = first, .nonzero = nonzero, .words = words};
    return YK_OK;
}
