/* rows_dataset_test.c - sparse rows as a training and a test part. */
#include "data/data.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct yk_reading MEMORY = {.no_cache = true};

static void parts_are_the_whole_or_a_sentence(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_dataset train, test;
    struct yk_error e = {0};
    assert_int_equal(yk_path(path, NULL, "%s/ten", (char *)*state), YK_OK);
    assert_int_equal(yk_file_write(path, "1\n0\n1\n0\n1\n0\n1\n0\n1\n0\n", 20, NULL), YK_OK);
    assert_int_equal(yk_data_open_rows(path, &MEMORY, 0.1, &train, &test, &e), YK_OK);
    assert_int_equal(train.rows, 9);
    assert_int_equal(test.rows, 1);
    yk_dataset_release(&test);
    yk_dataset_release(&train);
    assert_int_equal(yk_data_open_rows(path, &MEMORY, 0.09, &train, &test, &e),
                     YK_USAGE); /* a test part must not silently be empty */
    assert_non_null(strstr(e.text, "--holdout 0.09 of the 10 rows of '"));
    assert_int_equal(train.rows + test.rows, 0);
    assert_int_equal(yk_data_open_rows(path, &MEMORY, 0.09, &train, NULL, &e),
                     YK_USAGE); /* the same without a test part */
    assert_int_equal(yk_data_open_rows(path, &MEMORY, 0, &train, &test, &e), YK_OK);
    assert_int_equal(train.rows, 10);
    assert_int_equal(test.rows, 0);
    yk_dataset_release(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        parts_are_the_whole_or_a_sentence, testdir_setup, testdir_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
