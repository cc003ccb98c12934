/* fake_test.c - made-up images: valid names, the same pixels every time, and their randomness. */
#include "data/data.h"
#include "data/images/images.h"
#include "data/images/sets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void make(const struct yk_dataset *d, uint32_t row, uint8_t *out)
{
    const struct yk_variation none = {0};
    struct yk_canvas c = {0};
    assert_int_equal(d->images->ops->make(d->images, row, &none, &c, out, NULL), YK_OK);
    yk_canvas_release(&c);
}

static void test_shape(void **state)
{
    struct yk_dataset d, test;
    (void)state;
    assert_true(yk_data_is_dense("fake:224x224x3:1000"));
    assert_int_equal(yk_data_open("fake:224x224x3:1000", NULL, &d, &test, NULL), YK_OK);
    assert_memory_equal(d.shape, ((uint32_t[]){224, 224, 3}), sizeof d.shape);
    assert_true(d.rows == 100000 && d.classes == 1000 && d.features == 150528 && test.rows == 0);
    assert_string_equal(d.name, "fake:224x224x3:1000");
    unsigned count[1000] = {0};
    for (uint32_t i = 0; i < d.rows; i++) {
        assert_true(d.labels[i] < 1000);
        count[d.labels[i]]++;
    }
    for (int k = 0; k < 1000; k++) /* 100 each, more or less */
        assert_true(count[k] > 50 && count[k] < 150);
    yk_dataset_release(&d);
}

static void test_pixels(void **state)
{
    enum { N = 5 * 7 * 3 }; /* no multiple of 8 */
    struct yk_dataset a, b, other, test;
    uint8_t x[N + 8], y[N + 8];
    (void)state;
    memset(x, 7, sizeof x);
    memset(y, 7, sizeof y);
    assert_int_equal(yk_data_open("fake:5x7x3:4:1000", NULL, &a, NULL, NULL), YK_OK);
    assert_int_equal(yk_data_open("fake:5x7x3:4:1000", NULL, &b, NULL, NULL), YK_OK);
    assert_int_equal(yk_data_open("fake:5x7x3:4:1000:2", NULL, &other, NULL, NULL), YK_OK);
    assert_int_equal(yk_data_open_test("fake:5x7x3:4:1000", NULL, &test, NULL), YK_OK);
    assert_true(a.xxh3 == b.xxh3 && a.xxh3 != other.xxh3 && a.xxh3 != test.xxh3);
    assert_memory_equal(a.labels, b.labels, 2000);
    assert_memory_not_equal(a.labels, other.labels, 2000);
    make(&a, 999, x);
    make(&b, 999, y);
    assert_memory_equal(x, y, sizeof x); /* and nothing behind the pixels was touched */
    assert_int_equal(x[N], 7);
    make(&a, 998, y);
    assert_memory_not_equal(x, y, N);
    make(&other, 999, y);
    assert_memory_not_equal(x, y, N);
    make(&test, 999, y);
    assert_memory_not_equal(x, y, N);
    double sum = 0;
    for (uint32_t r = 0; r < 1000; r++) {
        make(&a, r, x);
        for (int i = 0; i < N; i++)
            sum += x[i];
    }
    assert_true(sum / (1000 * N) > 126 && sum / (1000 * N) < 129);
    assert_int_equal(yk_dataset_load(&a, NULL), YK_OK);
    make(&b, 17, y);
    assert_memory_equal(a.pixels + 17 * N, y, N);
    yk_dataset_release(&a);
    yk_dataset_release(&b);
    yk_dataset_release(&other);
    yk_dataset_release(&test);
}

static void test_mistakes(void **state)
{
    static const char *const BAD[][2] = {
        {"fake:", "is not fake:HxWxC:CLASSES"},
        {"fake:2x2:10", "is not fake:HxWxC:CLASSES"},
        {"fake:2x2x3", "is not fake:HxWxC:CLASSES"},
        {"fake:2x2x3:", "is not fake:HxWxC:CLASSES"},
        {"fake:2x2x3:10:", "is not fake:HxWxC:CLASSES"},
        {"fake:2x2x3:10:5:", "is not fake:HxWxC:CLASSES"},
        {"fake:2x2x3:10:5:1:1", "is not fake:HxWxC:CLASSES"},
        {"fake:2x2x3:1e3", "is not fake:HxWxC:CLASSES"},
        {"fake:2x-2x3:10", "is not fake:HxWxC:CLASSES"},
        {"fake:99999999999999999999x2x3:10", "is not fake:HxWxC:CLASSES"},
        {"fake:0x2x3:10", "too large, or empty"},
        {"fake:65535x65535x4096:10", "too large, or empty"},
        {"fake:70000x1x1:10", "too large, or empty"},
        {"fake:2x2x3:1", "wants 1 classes; 2 to 65536 are possible"},
        {"fake:2x2x3:65537", "wants 65537 classes"},
        {"fake:2x2x3:2:0", "wants 0 rows; 1 to 100000000 are possible"},
        {"fake:2x2x3:2:100000001", "wants 100000001 rows"}};
    struct yk_dataset d;
    struct yk_error e;
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_int_equal(yk_data_open(BAD[i][0], NULL, &d, NULL, &e), YK_USAGE);
        if (strstr(e.text, BAD[i][1]) == NULL)
            fail_msg("expected '%s' in: %s", BAD[i][1], e.text);
        assert_null(d.images);
    }
    assert_int_equal(yk_data_open("fake:2000x2000x3:10:1000000", NULL, &d, NULL, NULL), YK_OK);
    assert_int_equal(yk_dataset_pack(&d, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "needs all of them in memory"));
    yk_dataset_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shape), cmocka_unit_test(test_pixels),
                                       cmocka_unit_test(test_mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
