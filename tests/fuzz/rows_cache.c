/* rows_cache.c - fuzz target: any bytes either are a cache of rows, whose rows can all be read and
 * have only valid keys, or give one error message. A fuzzer does not guess checksums, so they are
 * corrected first where that is possible. */
#include "data/rows/cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool promise)
{
    if (!promise)
        abort();
}

static uint64_t get(const uint8_t *p, size_t bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, bytes);
    return v;
}

/* Corrects the sums of the first blocks, of the set and of the head. */
static void make_sums_right(uint8_t *b, size_t n)
{
    if (n < 128)
        return;
    uint64_t index = get(b + 72, 8), blocks = get(b + 64, 4), set = 0;
    if (index > n || index % 64 != 0)
        return;
    for (uint64_t i = 0; i < blocks && (i + 1) * 32 <= n - index; i++) {
        uint8_t *entry = b + index + i * 32;
        struct yk_block_info x, real;
        struct yk_rows_block block;
        memcpy(&x, entry, sizeof x);
        if (x.offset % 64 == 0 && x.offset <= n && x.rows <= YK_BLOCK_ROWS &&
            yk_block_bytes(&x) <= n - x.offset) {
            yk_block_view(&block, &x, b + x.offset);
            if (block.first[x.rows] == x.entries) {
                real = yk_block_describe(&block, x.rows);
                x.xxh3 = real.xxh3;
                x.twice = real.twice;
                memcpy(entry, &x, sizeof x);
            }
        }
        set = yk_rows_xxh3(set, &x);
    }
    memcpy(b + 56, &set, 8);
    uint64_t sum = XXH3_64bits_withSeed(b + index, n - index, XXH3_64bits(b, 88));
    memcpy(b + 88, &sum, 8);
}

static void look(uint8_t *b, size_t n)
{
    struct yk_rows *r = NULL;
    struct yk_error e = {0};
    yk_code rc = yk_cache_parse(&r, b, n, &e);
    if (rc != YK_OK) {
        must((rc == YK_DATA || rc == YK_FAILED) && e.code == rc && e.text[0] != '\0' && r == NULL);
        return;
    }
    uint64_t entries = 0, positives = 0;
    volatile float sum = 0;
    for (uint64_t i = 0; i < r->rows; i++) {
        struct yk_row row = yk_row_at(r, i);
        for (uint32_t k = 0; k < row.n; k++) {
            must(row.key[k] < r->features);
            sum = sum + (row.value ? row.value[k] : 1);
        }
        volatile uint8_t behind = *((const uint8_t *)(row.key + row.n) + 63);
        (void)behind;
        must(row.label <= 1);
        entries += row.n;
        positives += row.label;
        const uint64_t *twice = r->block[i / YK_BLOCK_ROWS].twice;
        if (twice != NULL)
            must((twice[i % YK_BLOCK_ROWS / 64] >> i % 64) <= UINT64_MAX);
    }
    must(entries == r->entries && positives == r->positives);
    yk_rows_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    uint8_t *b = aligned_alloc(64, n / 64 * 64 + 64);
    if (b == NULL)
        exit(1);
    if (n > 0)
        memcpy(b, bytes, n);
    look(b, n);
    make_sums_right(b, n);
    look(b, n);
    free(b);
    return 0;
}
