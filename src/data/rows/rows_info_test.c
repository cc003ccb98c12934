/* rows_info_test.c - figures about sparse rows, against ones counted by hand, as text and as
 * JSON. */
#include "data/rows/rows_info.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Four rows: 3:0.5 9:1 | (none) | 9:-2 9:1 | 3:1 5:1 64:1 */
static const uint32_t FIRST[] = {0, 2, 2, 4, 7}, KEY[] = {3, 9, 9, 9, 3, 5, 64};
static const float VALUE[] = {.5f, 1, -2, 1, 1, 1, 1};
static const uint8_t LABEL[] = {1, 0, 0, 0};
static const uint64_t TWICE[] = {4};

static void test_by_hand(void **state)
{
    (void)state;
    struct yk_rows_block block = {
        .first = FIRST, .label = LABEL, .key = KEY, .value = VALUE, .twice = TWICE};
    struct yk_rows rows = {.rows = 4,
                           .entries = 7,
                           .features = 65,
                           .positives = 1,
                           .bad = 2,
                           .blocks = 1,
                           .block = &block,
                           .xxh3 = 0xabc};
    struct yk_rows_info x;
    struct yk_error e;
    struct yk_buf text = {0};
    assert_int_equal(yk_rows_info(&rows, "libsvm", NULL, &x, &e), YK_OK);
    assert_int_equal(x.least, 0);
    assert_int_equal(x.most, 3);
    assert_int_equal(x.empty, 1);
    assert_int_equal(x.twice, 1);
    assert_int_equal(x.distinct, 4);
    assert_true(x.low == -2 && x.high == 1);
    assert_int_equal(x.hash_bits, 0);
    assert_int_equal(x.bytes, 5 * 4 + 4 + 7 * 8 + 8);
    yk_rows_info_text(&x, "some/where/train.libsvm", &text);
    assert_string_equal(
        text.data,
        "train.libsvm: libsvm, sparse rows, 88 B in memory, xxh3 0000000000000abc\n"
        "  rows       4, and 2 malformed ones left out\n"
        "  non-zeros  7, 0 to 3 a row, 1.8 on average\n"
        "  empty      1 rows\n"
        "  repeated   1 rows have a key more than once\n"
        "  values     -2 to 1\n"
        "  features   65 (largest key + 1), 4 of them occur\n"
        "  hashing    would make features share keys: 0.00 % at 18, 0.00 % at 20, 0.00 % at 22, "
        "0.00 % at 24, 0.00 % at 26, 0.00 % at 28 bits\n"
        "  labels     1 are 1 (25.00 %), 3 are 0\n");
    json_t *j = yk_rows_info_json(&x, "train.libsvm");
    assert_int_equal(json_integer_value(json_object_get(j, "rows")), 4);
    assert_int_equal(json_integer_value(json_object_get(j, "bad")), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "distinct_features")), 4);
    assert_true(json_real_value(json_object_get(j, "mean_per_row")) == 1.75);
    assert_string_equal(json_string_value(json_object_get(j, "format")), "libsvm");
    json_decref(j);
    yk_buf_release(&text);
}

/* More than a block, all values 1 and so not there at all; keys as if hashed to 12 bits. */
static void test_blocks_and_collisions(void **state)
{
    (void)state;
    enum { ROWS = YK_BLOCK_ROWS + 10, FEATURES = 3000, BITS = 12 };
    uint32_t *first = calloc(YK_BLOCK_ROWS + 1, sizeof *first),
             *key = calloc(YK_BLOCK_ROWS, sizeof *key);
    uint8_t *label = calloc(YK_BLOCK_ROWS, 1);
    bool hit[1 << BITS] = {0};
    uint64_t distinct = 0, x = 1;
    assert_true(first != NULL && key != NULL && label != NULL);
    for (uint32_t i = 0; i < YK_BLOCK_ROWS; i++) {
        x = (i % FEATURES + 1) * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        key[i] = (uint32_t)(x >> (64 - BITS));
        first[i + 1] = i + 1;
        distinct += !hit[key[i]];
        hit[key[i]] = true;
    }
    struct yk_rows_block block[] = {{.first = first, .label = label, .key = key},
                                    {.first = first, .label = label, .key = key}};
    struct yk_rows rows = {
        .rows = ROWS, .entries = ROWS, .features = 1 << BITS, .blocks = 2, .block = block};
    struct yk_reading how = {.hash_bits = BITS};
    struct yk_rows_info info;
    struct yk_error e;
    struct yk_buf text = {0};
    assert_int_equal(yk_rows_info(&rows, "criteo", &how, &info, &e), YK_OK);
    assert_int_equal(info.distinct, distinct);
    assert_true(info.low == 1 && info.high == 1);
    assert_int_equal(info.least, 1);
    assert_int_equal(info.most, 1);
    assert_int_equal(info.hash_bits, BITS);
    assert_true(fabs(info.before - FEATURES) <
                FEATURES * 0.05); /* what hashing hid is estimated well */
    double truth = yk_expected_collisions(FEATURES, BITS);
    assert_true(fabs(truth - 0.5193) < 0.0001); /* 1 - exp(-3000/4096) */
    assert_true(fabs(info.collisions - truth) < 0.02);
    yk_rows_info_text(&info, "x", &text);
    assert_non_null(strstr(text.data, "  values     all 1\n"));
    assert_non_null(strstr(text.data, "  hashed     to 12 bits, from about "));
    yk_buf_release(&text);
    how.hash_bits = 0;
    assert_int_equal(yk_rows_info(&rows, "criteo", &how, &info, &e), YK_OK);
    assert_int_equal(info.hash_bits, 22);
    assert_int_equal(yk_rows_info(&rows, "libsvm", &how, &info, &e), YK_OK);
    assert_int_equal(info.hash_bits, 0);
    free(first);
    free(key);
    free(label);
}

static void test_format_of(void **state)
{
    static const char *const FILES[][2] = {
        {"a", "1 3:0.5\n"}, {"b", "1 | x y\n"}, {"c", "hello, world\n"}};
    static const char *const EXPECTED[] = {"libsvm", "vw", NULL};
    char path[3][YK_PATH_MAX];
    struct yk_error e;
    struct yk_reading how = {.format = "criteo"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(yk_path(path[i], &e, "%s/%s", (const char *)*state, FILES[i][0]), YK_OK);
        assert_int_equal(yk_file_write(path[i], FILES[i][1], strlen(FILES[i][1]), &e), YK_OK);
        const char *found = yk_rows_format_of(path[i], NULL);
        if (EXPECTED[i] == NULL)
            assert_null(found);
        else
            assert_string_equal(found, EXPECTED[i]);
        assert_string_equal(yk_rows_format_of(path[i], &how), "criteo");
    }
    assert_string_equal(yk_rows_format_of("synth-criteo:10", NULL), "synthetic");
    assert_null(yk_rows_format_of("/no/such/file", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_blocks_and_collisions),
        cmocka_unit_test_setup_teardown(test_format_of, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
