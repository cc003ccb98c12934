/* info_test.c - descriptions of small files, to the letter, and messages about files that cannot be
 * described. */
#include "data/info.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <zlib.h>

#include <cmocka.h>

#define BYTES(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

static const char *put(const char *dir, const char *name, const uint8_t *bytes, size_t n)
{
    static char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s/%s", dir, name), YK_OK);
    gzFile f = gzopen(path, strstr(name, ".gz") ? "wb9" : "wbT");
    assert_int_equal(n > 0 ? gzwrite(f, bytes, (unsigned)n) : 0, n);
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

static void assert_described(const char *path, const char *expected)
{
    struct yk_buf out = {0};
    struct yk_error e = {0};
    if (yk_data_info(path, &out, &e) != YK_OK)
        fail_msg("%s", e.text);
    assert_string_equal(out.data, expected);
    yk_buf_release(&out);
}

static void assert_refused(const char *path, const char *text)
{
    struct yk_buf out = {0};
    struct yk_error e = {0};
    assert_int_equal(yk_data_info(path, &out, &e), YK_DATA);
    if (strstr(e.text, text) == NULL)
        fail_msg("expected '%s' in: %s", text, e.text);
    yk_buf_release(&out);
}

static void test_files(void **state)
{
    assert_described(put(*state, "pixels", BYTES(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 9, 1)),
                     "pixels: IDX, u8, 2x2, 4 B of elements\n"
                     "  values 0 .. 9, mean 2.500, 50.0 % zeros\n");
    assert_described(put(*state, "labels.gz", BYTES(0, 0, 8, 1, 0, 0, 0, 4, 7, 0, 7, 7)),
                     "labels.gz: IDX (gzipped), u8, 4, 4 B of elements\n"
                     "  values 0 .. 7, mean 5.250, 25.0 % zeros\n"
                     "  class       count   share\n"
                     "      0           1  25.0 %\n"
                     "      7           3  75.0 %\n");
    assert_described(put(*state, "floats", BYTES(0, 0, 13, 1, 0, 0, 0, 1, 1, 2, 3, 4)),
                     "floats: IDX, f32, 1, 4 B of elements\n");
}

static void test_folder(void **state)
{
    put(*state, "train-images-idx3-ubyte",
        BYTES(0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4));
    put(*state, "train-labels-idx1-ubyte", BYTES(0, 0, 8, 1, 0, 0, 0, 2, 0, 2));
    char expected[512];
    const char *name = strrchr(*state, '/') + 1;
    snprintf(expected, sizeof expected,
             "%s: 2 labelled images, 3 classes, 6 B in memory\n"
             "  train           2 rows of 1x2x1, 6 B, xxh3 ",
             name);
    struct yk_buf out = {0};
    assert_int_equal(yk_data_info(*state, &out, NULL), YK_OK);
    assert_memory_equal(out.data, expected, strlen(expected));
    assert_string_equal(out.data + strlen(expected) + 17, "  class       train   share\n"
                                                          "      0           1  50.0 %\n"
                                                          "      1           0   0.0 %\n"
                                                          "      2           1  50.0 %\n");
    yk_buf_release(&out);
    put(*state, "t10k-images-idx3-ubyte",
        BYTES(0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2));
    put(*state, "t10k-labels-idx1-ubyte", BYTES(0, 0, 8, 1, 0, 0, 0, 1, 1));
    assert_int_equal(yk_data_info(*state, &out, NULL), YK_OK);
    assert_non_null(strstr(out.data, ": 3 labelled images, 3 classes, 9 B in memory\n"));
    assert_non_null(strstr(out.data, "\n      1           0   0.0 %           1  100.0 %\n"));
    yk_buf_release(&out);
}

static void test_refuses(void **state)
{
    static const char no_format[] = "is in no format yoke can read: expected IDX";
    assert_refused(put(*state, "text", (const uint8_t *)"hello", 5), no_format);
    assert_refused(put(*state, "text.gz", (const uint8_t *)"hello", 5), no_format);
    assert_refused(put(*state, "empty", NULL, 0), no_format);
    assert_refused(put(*state, "type", BYTES(0, 0, 7, 1, 0, 0, 0, 1, 1)), no_format);
    assert_refused(put(*state, "cut", BYTES(0, 0, 8, 1, 0, 0, 0, 9, 1)),
                   "is 9 bytes long, but its header says u8 9");
    assert_refused("/nonexistent/file", "cannot open '/nonexistent/file': no such file");
    assert_refused("/dev/null", "is neither a file nor a folder");
    assert_refused(*state, "cannot find 'train-images-idx3-ubyte'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_folder, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
