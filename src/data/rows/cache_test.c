/* cache_test.c - a cache file byte for byte as cache.c draws it, and every changed byte is
 * noticed. */
#include "data/rows/cache.h"

#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#include <cmocka.h>

static const uint32_t first[] = {0, 2, 2, 5};
static const uint8_t label[] = {1, 0, 1};
static const uint32_t key[5 + 16] = {3, 70000, 9, 9, 1};
static const float value[5 + 16] = {1, 0.5f, 2, -3, 1};
static const uint64_t twice[] = {4};

/* Three rows in a file; its bytes at a multiple of 64. */
static uint8_t *three_rows(const char *folder, bool values, size_t *n)
{
    char path[YK_PATH_MAX], *bytes;
    struct yk_error e = {0};
    struct yk_cache_writer w;
    struct yk_rows_block b = {
        .first = first, .label = label, .key = key, .value = values ? value : NULL, .twice = twice};
    struct yk_block_info x = yk_block_describe(&b, 3);
    struct yk_rows total = {.rows = 3,
                            .entries = 5,
                            .features = 70001,
                            .positives = 2,
                            .bad = 6,
                            .xxh3 = yk_rows_xxh3(0, &x)};
    struct yk_cache_input input = {.path = 11, .size = 12, .changed = 13};
    assert_int_equal(yk_path(path, NULL, "%s/three.rows", folder), YK_OK);
    assert_int_equal(yk_cache_create(&w, path, false, &e), YK_OK);
    assert_int_equal(yk_cache_append(&w, &b, &x, &e), YK_OK);
    assert_int_equal(yk_cache_finish(&w, &total, &input, 1, &e), YK_OK);
    assert_int_equal(yk_outfile_commit(&w.file, &e), YK_OK);
    yk_cache_abort(&w);
    assert_int_equal(yk_file_read(path, 1 << 20, &bytes, n, &e), YK_OK);
    uint8_t *aligned = aligned_alloc(64, (*n + 63) / 64 * 64);
    assert_non_null(aligned);
    memcpy(aligned, bytes, *n);
    free(bytes);
    return aligned;
}

static uint64_t u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void is_as_drawn(void **state)
{
    size_t n;
    uint8_t *b = three_rows(*state, true, &n);
    assert_memory_equal(b, "yokerows\1\0\0\0\4\3\2\1", 16);
    static const uint64_t counts[] = {3, 5, 70001, 2, 6};
    for (int i = 0; i < 5; i++)
        assert_int_equal(u64(b + 16 + 8 * i), counts[i]);
    assert_int_equal(u64(b + 64), 1 | (uint64_t)1 << 32);
    /* one block of five arrays, each in one line of 64 bytes, and one line of zeros */
    uint64_t index = u64(b + 72);
    assert_int_equal(index, 128 + 5 * 64 + 64);
    assert_int_equal(u64(b + 80), n);
    assert_int_equal(n, index + 32 + 24);
    assert_int_equal(u64(b + 88), XXH3_64bits_withSeed(b + index, n - index, XXH3_64bits(b, 88)));
    assert_memory_equal(b + 128, first, sizeof first);
    assert_memory_equal(b + 192, label, sizeof label);
    assert_memory_equal(b + 256, twice, sizeof twice);
    assert_memory_equal(b + 320, key, 20);
    assert_memory_equal(b + 384, value, 20);
    for (int i = 0; i < 64; i++)
        assert_int_equal(b[448 + i], 0);
    assert_int_equal(u64(b + index), 128);
    assert_int_equal(u64(b + index + 16), 3 | (uint64_t)5 << 32);
    assert_int_equal(u64(b + index + 24), 3 | XXH3_64bits(twice, 8) << 32);
    assert_int_equal(u64(b + index + 32), 11);
    assert_int_equal(u64(b + index + 40), 12);
    assert_int_equal(u64(b + index + 48), 13);
    uint64_t h = XXH3_64bits_withSeed(
        value, 20,
        XXH3_64bits_withSeed(key, 20,
                             XXH3_64bits_withSeed(label, 3, XXH3_64bits_withSeed(first, 16, 3))));
    assert_int_equal(u64(b + index + 8), h);
    assert_int_equal(u64(b + 56), XXH3_64bits_withSeed(&h, 8, 0));
    free(b);
}

static void comes_back(void **state)
{
    for (int values = 0; values < 2; values++) {
        size_t n;
        uint8_t *b = three_rows(*state, values, &n);
        struct yk_rows *r;
        struct yk_error e = {0};
        assert_int_equal(yk_cache_parse(&r, b, n, &e), YK_OK);
        assert_int_equal(r->rows, 3);
        assert_int_equal(r->bad, 6);
        assert_int_equal(r->features, 70001);
        assert_int_equal(r->positives, 2);
        struct yk_row last = yk_row_at(r, 2);
        assert_int_equal(last.n, 3);
        assert_int_equal(last.label, 1);
        assert_memory_equal(last.key, key + 2, 12);
        if (values)
            assert_memory_equal(last.value, value + 2, 12);
        else
            assert_null(last.value);
        assert_int_equal(yk_row_at(r, 1).n, 0);
        assert_int_equal(r->block[0].twice[0], 4);
        yk_rows_close(r);
        free(b);
    }
}

/* Any bit that matters: all but the padding. */
static void no_bit_flips_unnoticed(void **state)
{
    size_t n;
    uint8_t *b = three_rows(*state, true, &n);
    int unnoticed = 0;
    for (size_t i = 0; i < n * 8; i++) {
        struct yk_rows *r;
        struct yk_error e = {0};
        b[i / 8] ^= (uint8_t)(1 << i % 8);
        yk_code rc = yk_cache_parse(&r, b, n, &e);
        b[i / 8] ^= (uint8_t)(1 << i % 8);
        if (rc == YK_OK) {
            unnoticed++;
            yk_rows_close(r);
            size_t at = i / 8, in = at % 64;
            bool padding = (at >= 96 && at < 128) || (at >= 128 && at < 192 && in >= 16) ||
                           (at >= 192 && at < 256 && in >= 3) ||
                           (at >= 256 && at < 320 && in >= 8) ||
                           (at >= 320 && at < 448 && in >= 20) || (at >= 448 && at < 512);
            if (!padding)
                fail_msg("bit %zu of byte %zu may change", i % 8, at);
        } else {
            assert_int_equal(rc, YK_DATA);
            assert_non_null(strstr(e.text, "'(memory)' is "));
        }
    }
    assert_in_range(unnoticed, 1, 4000);
    for (size_t k = 0; k < n; k++) { /* nor does a missing end */
        struct yk_rows *r;
        uint8_t *cut = aligned_alloc(64, (k + 64) / 64 * 64);
        assert_non_null(cut);
        memcpy(cut, b, k);
        assert_int_equal(yk_cache_parse(&r, cut, k, NULL), YK_DATA);
        free(cut);
    }
    free(b);
}

/* A file whose sums are all right is still refused if its content would do harm. */
static void sums_alone_do_not_convince(void **state)
{
    static const struct {
        size_t at; /* in the file; from the index on: 1000 + offset in it */
        uint64_t value;
        size_t bytes;
    } lies[] = {{16, 4, 8},
                {24, 6, 8},
                {32, 70000, 8},
                {32, (uint64_t)1 << 33, 8},
                {32, 4294967002, 8}, /* a key may be 4294967000 at most */
                {40, 3, 8},
                {40, 1, 8},
                {64, 2, 4},
                {64, 0, 4},
                {68, 0, 4},
                {68, 0xffffff, 4},
                {72, 0, 8},
                {80, 1, 8},
                {128, 1, 4},
                {132, 6, 4},
                {140, 4, 4},
                {192, 2, 1},
                {192, 2, 3},
                {320, 70001, 4},
                {384, 0x7f800000, 4}, /* infinite */
                {388, 0xffc00000, 4}, /* NaN */
                {1000, 64, 8},
                {1000, 160, 8},
                {1000, 192, 8},
                {1000, ~0ull - 63, 8},
                {1016, 4, 4},
                {1016, 0, 4},
                {1016, 20000, 4},
                {1020, 6, 4},
                {1020, 0xffffffff, 4},
                {1024, 4, 4},
                {1024, 0, 4}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        size_t n;
        uint8_t *b = three_rows(*state, true, &n);
        uint64_t index = u64(b + 72);
        size_t at = lies[i].at >= 1000 ? lies[i].at - 1000 + index : lies[i].at;
        memcpy(b + at, &lies[i].value, lies[i].bytes);
        /* the block's own sum, the set's and the head's, as far as they can be made */
        const struct yk_rows_block block = {.first = (uint32_t *)(void *)(b + 128),
                                            .label = b + 192,
                                            .key = (uint32_t *)(void *)(b + 320),
                                            .value = (float *)(void *)(b + 384)};
        uint64_t h = XXH3_64bits_withSeed(
            block.value, 20,
            XXH3_64bits_withSeed(
                block.key, 20,
                XXH3_64bits_withSeed(block.label, 3, XXH3_64bits_withSeed(block.first, 16, 3))));
        memcpy(b + index + 8, &h, 8);
        h = XXH3_64bits_withSeed(&h, 8, 0);
        memcpy(b + 56, &h, 8);
        h = XXH3_64bits_withSeed(b + index, n - index, XXH3_64bits(b, 88));
        memcpy(b + 88, &h, 8);
        struct yk_rows *r;
        if (yk_cache_parse(&r, b, n, NULL) != YK_DATA)
            fail_msg("lie %zu was believed", i);
        free(b);
    }
}

static void refuses_other_things(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_rows *r;
    struct yk_error e = {0};
    assert_int_equal(yk_path(path, NULL, "%s/x", (char *)*state), YK_OK);
    assert_int_equal(yk_cache_open(&r, path, YK_CACHE_FOREIGN, NULL, 0, 1, &e), YK_DATA);
    assert_non_null(strstr(e.text, "cannot open"));
    assert_int_equal(yk_cache_open(&r, *state, YK_CACHE_FOREIGN, NULL, 0, 1, &e), YK_DATA);
    assert_int_equal(yk_file_write(path, "", 0, NULL), YK_OK);
    assert_int_equal(yk_cache_open(&r, path, YK_CACHE_FOREIGN, NULL, 0, 1, &e), YK_DATA);
    assert_int_equal(yk_file_write(path, "1 2:3\n", 6, NULL), YK_OK);
    assert_int_equal(yk_cache_open(&r, path, YK_CACHE_FOREIGN, NULL, 0, 1, &e), YK_DATA);
    assert_non_null(strstr(e.text, "is not a cache of rows"));
    struct yk_cache_writer w;
    assert_int_equal(yk_cache_create(&w, "/dev/null", false, &e), YK_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_as_drawn, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(comes_back, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(no_bit_flips_unnoticed, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(sums_alone_do_not_convince, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(refuses_other_things, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
