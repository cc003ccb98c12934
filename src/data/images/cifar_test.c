/* cifar_test.c - folders and single files of CIFAR-10 records: colours side by side, labels, parts,
 * and damaged files. */
#include "data/images/cifar.h"

#include "base/file.h"
#include "data/data.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Record i of a file: plane c has c * 50 + i + place. */
static uint8_t value(unsigned i, unsigned c, unsigned place)
{
    return (uint8_t)(c * 50 + i + place);
}

static void put(const char *dir, const char *name, unsigned records, unsigned first, size_t more)
{
    char path[YK_PATH_MAX];
    uint8_t *b = calloc((size_t)records * YK_CIFAR_RECORD + more, 1);
    assert_non_null(b);
    for (unsigned i = 0; i < records; i++) {
        uint8_t *r = b + (size_t)i * YK_CIFAR_RECORD;
        r[0] = (uint8_t)((first + i) % 10);
        for (unsigned k = 0; k < YK_CIFAR_PIXELS; k++)
            r[1 + k] = value(first + i, k / 1024, k % 1024);
    }
    assert_int_equal(yk_path(path, NULL, "%s/%s", dir, name), YK_OK);
    assert_int_equal(yk_file_write(path, b, (size_t)records * YK_CIFAR_RECORD + more, NULL), YK_OK);
    free(b);
}

static void expect_rows(const struct yk_dataset *d, uint32_t rows, unsigned first)
{
    assert_true(d->rows == rows && d->classes == 10 && d->features == 3072);
    assert_memory_equal(d->shape, ((uint32_t[]){32, 32, 3}), sizeof d->shape);
    assert_int_equal((uintptr_t)d->pixels % 64, 0);
    for (uint32_t i = 0; i < rows; i++) {
        assert_int_equal(d->labels[i], (first + i) % 10);
        for (unsigned k = 0; k < 1024; k++)
            for (unsigned c = 0; c < 3; c++)
                assert_int_equal(d->pixels[(size_t)i * 3072 + 3 * k + c], value(first + i, c, k));
    }
    for (int i = 0; i < YK_ROW_SLACK; i++)
        assert_int_equal(d->pixels[(size_t)rows * 3072 + (size_t)i], 0);
}

static void test_folder(void **state)
{
    struct yk_dataset train, test;
    uint64_t hash;
    put(*state, "data_batch_1.bin", 70, 0, 0); /* more than are read at a time */
    put(*state, "data_batch_2.bin", 5, 70, 0);
    put(*state, "data_batch_4.bin", 5, 90, 0); /* there is no third: not part of it */
    put(*state, "test_batch.bin", 3, 200, 0);
    assert_true(yk_data_is_dense(*state));
    assert_int_equal(yk_data_open(*state, NULL, &train, &test, NULL), YK_OK);
    expect_rows(&train, 75, 0);
    expect_rows(&test, 3, 200);
    hash = train.xxh3;
    yk_dataset_release(&train);
    yk_dataset_release(&test);
    assert_int_equal(yk_data_open_test(*state, NULL, &test, NULL), YK_OK);
    expect_rows(&test, 3, 200);
    yk_dataset_release(&test);
    put(*state, "data_batch_2.bin", 5, 71, 0);
    assert_int_equal(yk_data_open(*state, NULL, &train, NULL, NULL), YK_OK);
    assert_true(train.xxh3 != hash);
    yk_dataset_release(&train);
}

static void test_file(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_dataset d, none;
    put(*state, "mine.bin", 4, 3, 0);
    assert_int_equal(yk_path(path, NULL, "%s/mine.bin", (char *)*state), YK_OK);
    assert_true(yk_data_is_dense(path));
    assert_int_equal(yk_data_open(path, NULL, &d, &none, NULL), YK_OK);
    expect_rows(&d, 4, 3);
    assert_int_equal(none.rows, 0);
    assert_int_equal(yk_dataset_pack(&d, NULL), YK_OK);
    yk_dataset_release(&d);
    assert_int_equal(yk_data_open_test(path, NULL, &d, NULL), YK_OK);
    expect_rows(&d, 4, 3);
    yk_dataset_release(&d);
    put(*state, "other.bin", 4, 3, 1); /* of another length, and with another name: not CIFAR-10 */
    assert_int_equal(yk_path(path, NULL, "%s/other.bin", (char *)*state), YK_OK);
    assert_false(yk_data_is_dense(path));
}

static void refused(const char *what, const char *text)
{
    struct yk_dataset train, test;
    struct yk_error e = {0};
    assert_int_equal(yk_data_open(what, NULL, &train, &test, &e), YK_DATA);
    if (strstr(e.text, text) == NULL)
        fail_msg("expected '%s' in: %s", text, e.text);
    assert_true(train.pixels == NULL && test.pixels == NULL);
}

static void test_damaged(void **state)
{
    char path[YK_PATH_MAX];
    uint8_t ten = 10, pixels[2 * YK_CIFAR_PIXELS], records[2 * YK_CIFAR_RECORD] = {0};
    uint16_t labels[2];
    struct yk_error e;
    put(*state, "test_batch.bin", 3, 0, 0);
    refused(*state, "/data_batch_1.bin': no such file");
    put(*state, "data_batch_1.bin", 3, 0, 100);
    refused(*state, "/data_batch_1.bin' is 9319 bytes long; CIFAR-10 files are a multiple of 3073, "
                    "the length of a record");
    put(*state, "data_batch_1.bin", 0, 0, 0);
    refused(*state, "/data_batch_1.bin' is 0 bytes long");
    put(*state, "data_batch_1.bin", 100, 0, 0);
    assert_int_equal(yk_path(path, NULL, "%s/data_batch_1.bin", (char *)*state), YK_OK);
    FILE *f = fopen(path, "r+b");
    assert_true(f != NULL && fseek(f, 80 * YK_CIFAR_RECORD, SEEK_SET) == 0 &&
                fwrite(&ten, 1, 1, f) == 1 && fclose(f) == 0);
    refused(*state, "/data_batch_1.bin' has label 10 in record 80; labels of CIFAR-10 are 0 to 9");
    put(*state, "data_batch_1.bin", 3, 0, 0);
    put(*state, "test_batch.bin", 1, 0, 1);
    refused(*state, "/test_batch.bin' is 3074 bytes long");
    assert_int_equal(yk_cifar_parse(records, sizeof records - 1, "x", 5, pixels, labels, &e),
                     YK_DATA);
    assert_string_equal(e.text,
                        "'x' ends in the middle of record 6; CIFAR-10 records have 3073 bytes");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, testdir_setup, testdir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_folder), TEST(test_file), TEST(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
