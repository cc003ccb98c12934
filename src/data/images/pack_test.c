/* pack_test.c - packing drops blocks that are all zero, keeps the others in order, and can be
 * undone. */
#include "data/data.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct yk_dataset random_set(uint32_t rows, uint32_t features, unsigned density,
                                    struct yk_rng *r)
{
    struct yk_dataset d = {.name = "random",
                           .rows = rows,
                           .features = features,
                           .classes = 2,
                           .shape = {1, features, 1}};
    size_t bytes = (size_t)rows * features;
    d.pixels = malloc(bytes + YK_ROW_SLACK);
    d.labels = calloc(rows, sizeof *d.labels);
    assert_true(d.pixels != NULL && d.labels != NULL);
    memset(d.pixels + bytes, 0, YK_ROW_SLACK);
    for (size_t i = 0; i < bytes; i++)
        d.pixels[i] = yk_rng_below(r, 100) < density ? (uint8_t)(1 + yk_rng_below(r, 255)) : 0;
    return d;
}

static void check_unpacks(const struct yk_dataset *d, const uint8_t *pixels)
{
    uint32_t per_row = (d->features + 7) / 8, n = 0;
    assert_int_equal(d->packed.words, (per_row + 63) / 64);
    for (uint32_t i = 0; i < d->rows; i++) {
        assert_int_equal(d->packed.first[i], n);
        for (uint32_t b = 0; b < per_row; b++) {
            uint8_t want[8] = {0}, none[8] = {0};
            uint32_t left = d->features - b * 8;
            memcpy(want, pixels + (size_t)i * d->features + (size_t)b * 8, left < 8 ? left : 8);
            bool has = d->packed.nonzero[(size_t)i * d->packed.words + b / 64] >> (b % 64) & 1;
            assert_int_equal(has, memcmp(want, none, 8) != 0);
            if (has)
                assert_memory_equal(d->packed.blocks + (size_t)n++ * 8, want, 8);
        }
        for (uint32_t b = per_row; b < d->packed.words * 64; b++)
            assert_false(d->packed.nonzero[(size_t)i * d->packed.words + b / 64] >> (b % 64) & 1);
    }
    assert_int_equal(d->packed.first[d->rows], n);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const uint32_t FEATURES[] = {1, 7, 8, 9, 64, 511, 512, 513, 784, 1030};
    static const unsigned DENSITY[] = {0, 3, 20, 100};
    struct yk_rng r;
    yk_rng_init(&r, 1, 0, 0, 0);
    for (size_t f = 0; f < sizeof FEATURES / sizeof FEATURES[0]; f++)
        for (size_t k = 0; k < sizeof DENSITY / sizeof DENSITY[0]; k++) {
            struct yk_dataset d = random_set(57, FEATURES[f], DENSITY[k], &r);
            size_t bytes = (size_t)d.rows * d.features;
            uint8_t *before = malloc(bytes);
            assert_non_null(before);
            memcpy(before, d.pixels, bytes);
            assert_int_equal(yk_dataset_pack(&d, NULL), YK_OK);
            assert_null(d.pixels);
            check_unpacks(&d, before);
            const uint8_t *blocks = d.packed.blocks;
            assert_int_equal(yk_dataset_pack(&d, NULL), YK_OK); /* a second time changes nothing */
            assert_ptr_equal(d.packed.blocks, blocks);
            check_unpacks(&d, before);
            yk_dataset_release(&d);
            free(before);
        }
}

static void test_empty_and_too_big(void **state)
{
    (void)state;
    struct yk_dataset none = {.features = 784};
    assert_int_equal(yk_dataset_pack(&none, NULL), YK_OK);
    assert_null(none.packed.blocks);
    uint8_t byte = 0;
    struct yk_dataset huge = {.name = "huge", .rows = UINT32_MAX, .features = 784, .pixels = &byte};
    struct yk_error e;
    assert_int_equal(yk_dataset_pack(&huge, &e), YK_DATA);
    assert_non_null(strstr(e.text, "huge"));
    assert_ptr_equal(huge.pixels, &byte);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_empty_and_too_big)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
