/* synth_test.c - made-up rows: shape, power laws, labels that follow the true model, and the same
 * bits on every machine. */
#include "data/rows/synth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

static struct yk_synth *opened(uint64_t features, uint64_t seed)
{
    struct yk_synth *s;
    struct yk_error e;
    assert_int_equal(yk_synth_open(&s, 1000, features, seed, &e), YK_OK);
    return s;
}

static struct yk_chunk made(const struct yk_synth *s, uint64_t from, uint32_t rows)
{
    struct yk_chunk c = {0};
    struct yk_error e;
    assert_int_equal(yk_synth_chunk(s, from, rows, &c, &e), YK_OK);
    assert_int_equal(c.rows, rows);
    assert_int_equal(c.entries, rows * 39);
    return c;
}

static void test_rows_look_right(void **state)
{
    (void)state;
    static const uint64_t FEATURES[] = {100, 139,      10000,     1000000,
                                        0,   33762579, 100000000, 4294967001};
    enum { ROWS = 20000 };
    for (size_t f = 0; f < sizeof FEATURES / sizeof *FEATURES; f++) {
        struct yk_synth *s = opened(FEATURES[f], 3);
        uint64_t features = FEATURES[f] == 0 ? 33762578 : FEATURES[f];
        assert_int_equal(yk_synth_features(s), features);
        struct yk_chunk c = made(s, 0, ROWS);
        uint32_t low[39] = {0}, high[39] = {0};
        for (uint32_t r = 0; r < ROWS; r++) {
            assert_int_equal(c.end[r], (r + 1) * 39);
            for (uint32_t i = 0; i < 39; i++) {
                uint32_t k = c.key[r * 39 + i];
                float v = c.value[r * 39 + i];
                assert_true(k < features && (i == 0 || k > c.key[r * 39 + i - 1]));
                assert_true(i < 13 ? v >= (float)log1p(1) && v < 7 : v == 1);
                low[i] = r == 0 || k < low[i] ? k : low[i];
                high[i] = r == 0 || k > high[i] ? k : high[i];
            }
        }
        for (int i = 1; i < 39; i++)
            assert_true(low[i] > high[i - 1]); /* each field has a range of its own */
        assert_int_equal(low[0], 0);
        yk_chunk_release(&c);
        yk_synth_close(s);
    }
}

static int by_count(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Every key of a small set is used, the frequent ones far more often than the rare ones. */
static void test_power_law(void **state)
{
    (void)state;
    enum { FEATURES = 10000, ROWS = 200000 };
    struct yk_synth *s = opened(FEATURES, 1);
    struct yk_chunk c = made(s, 0, ROWS);
    uint32_t *count = calloc(FEATURES, sizeof *count), sum = 0;
    assert_non_null(count);
    for (uint32_t i = 0; i < c.entries; i++)
        count[c.key[i]]++;
    uint32_t last = 0;
    for (uint32_t i = 0; i < FEATURES; i++)
        last = count[i] > 0 ? i : last;
    assert_int_equal(last, FEATURES - 1);
    qsort(count, FEATURES, sizeof *count, by_count);
    assert_true(count[FEATURES - 1] > 0);
    for (int i = 0; i < FEATURES / 100; i++)
        sum += count[i];
    assert_true(sum > c.entries / 4 &&
                sum <
                    c.entries / 10 * 9); /* one per cent of the keys has a quarter of the entries */
    free(count);
    yk_chunk_release(&c);
    yk_synth_close(s);
}

static void test_a_row_depends_on_its_number_alone(void **state)
{
    (void)state;
    struct yk_synth *s = opened(0, 7), *other = opened(0, 8);
    struct yk_chunk all = made(s, 1000, 500), part = {0}, differ = made(other, 1000, 500);
    struct yk_error e;
    for (uint32_t r = 0; r < 500; r += 100)
        assert_int_equal(yk_synth_chunk(s, 1000 + r, 100, &part, &e), YK_OK);
    assert_memory_equal(all.key, part.key, all.entries * sizeof *all.key);
    assert_memory_equal(all.value, part.value, all.entries * sizeof *all.value);
    assert_memory_equal(all.label, part.label, all.rows);
    assert_memory_equal(all.end, part.end, all.rows * sizeof *all.end);
    assert_memory_not_equal(all.key, differ.key, all.entries * sizeof *all.key);
    yk_chunk_release(&all);
    yk_chunk_release(&part);
    yk_chunk_release(&differ);
    yk_synth_close(s);
    yk_synth_close(other);
}

/* The log loss of the true model, from its scores and the labels, is what yk_synth_best says; the
 * share of ones is a quarter. */
static void test_the_true_model(void **state)
{
    (void)state;
    enum { ROWS = 100000 };
    static const uint64_t FEATURES[] = {10000, 0};
    for (uint64_t i = 0; i < 6; i++) {
        struct yk_synth *s = opened(FEATURES[i % 2], 1 + i);
        struct yk_chunk c = made(s, 0, ROWS);
        double loss = 0, ones = 0;
        for (uint32_t r = 0; r < ROWS; r++) {
            double z = yk_synth_score(s, r);
            loss += log1p(exp(c.label[r] ? -z : z));
            ones += c.label[r];
        }
        double best = yk_synth_best(s, 0, ROWS), share = ones / ROWS;
        assert_true(fabs(loss / ROWS - best) <
                    0.005); /* three standard deviations of a mean over so many */
        assert_true(best > 0.39 && best < 0.44);
        assert_true(share > 0.23 && share < 0.27);
        yk_chunk_release(&c);
        yk_synth_close(s);
    }
}

/* The ranks of a job make their rows themselves, so rows must be the same on every machine and in
 * the next version. */
static void test_same_bits_for_ever(void **state)
{
    (void)state;
    struct yk_synth *s = opened(0, 1);
    struct yk_chunk c = made(s, 0, 1000);
    XXH64_hash_t hash = XXH3_64bits(c.key, c.entries * sizeof *c.key);
    hash = XXH3_64bits_withSeed(c.value, c.entries * sizeof *c.value, hash);
    hash = XXH3_64bits_withSeed(c.label, c.rows, hash);
    assert_int_equal(hash, UINT64_C(0x0e6ca8dc27c0621f));
    yk_chunk_release(&c);
    yk_synth_close(s);
}

static void test_refusals(void **state)
{
    (void)state;
    struct yk_synth *s;
    struct yk_error e;
    assert_int_equal(yk_synth_open(&s, 0, 0, 1, &e), YK_USAGE);
    assert_null(s);
    assert_int_equal(yk_synth_open(&s, 1, 99, 1, &e), YK_USAGE);
    assert_int_equal(yk_synth_open(&s, 1, 4294967002, 1, &e), YK_USAGE);
    assert_string_equal(e.text, "synthetic data has 100 to 4294967001 features, not 4294967002");
    yk_synth_close(NULL);
}

static void test_names(void **state)
{
    (void)state;
    uint64_t rows, features, seed;
    assert_true(yk_synth_name("synth-criteo:1000", &rows, &features, &seed));
    assert_true(rows == 1000 && features == 0 && seed == 1);
    assert_true(yk_synth_name("synth-criteo:5:10000", &rows, &features, &seed));
    assert_true(rows == 5 && features == 10000 && seed == 1);
    assert_true(yk_synth_name("synth-criteo:5:10000:77", &rows, &features, &seed));
    assert_true(rows == 5 && features == 10000 && seed == 77);
    static const char *const NO[] = {"synth-criteo",         "synth-criteo:",
                                     "synth-criteo:x",       "synth-criteo:5:",
                                     "synth-criteo:5:6:7:8", "synth-criteo:5x",
                                     "synth-criteo:-5",      "criteo:5",
                                     "synth-criteo:5::7",    "synth-criteo:99999999999999999999"};
    for (size_t i = 0; i < sizeof NO / sizeof *NO; i++)
        assert_false(yk_synth_name(NO[i], &rows, &features, &seed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_look_right),
        cmocka_unit_test(test_power_law),
        cmocka_unit_test(test_a_row_depends_on_its_number_alone),
        cmocka_unit_test(test_the_true_model),
        cmocka_unit_test(test_same_bits_for_ever),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
