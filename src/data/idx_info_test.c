/* idx_info_test.c - which beginnings of files look like IDX, and the figures in a description, computed by hand. */
#include "data/info.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_sniff(void **state)
{
    (void)state;
    static const uint8_t TYPE[] = {0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e};
    uint8_t head[YK_SNIFF_BYTES] = {0};
    unsigned yes = 0;
    for (unsigned type = 0; type < 256; type++)
        for (unsigned dims = 0; dims < 256; dims++) {
            head[2] = (uint8_t)type;
            head[3] = (uint8_t)dims;
            bool known = memchr(TYPE, (int)type, sizeof TYPE) != NULL && dims >= 1 && dims <= 4;
            assert_int_equal(yk_format_idx.sniff(head, sizeof head), known);
            yes += known;
        }
    assert_int_equal(yes, 24);
    head[2] = 8, head[3] = 1;
    assert_true(yk_format_idx.sniff(head, 4));
    for (size_t n = 0; n < 4;
         n++) { /* what is not there is not looked at: an allocation of exactly n bytes */
        uint8_t *exact = malloc(n + (n == 0));
        assert_non_null(exact);
        memcpy(exact, head, n);
        assert_false(yk_format_idx.sniff(exact, n));
        assert_false(yk_format_idx.sniff(head, n)); /* nor believed, where it happens to be there */
        free(exact);
    }
    head[0] = 1;
    assert_false(yk_format_idx.sniff(head, sizeof head));
    head[0] = 0, head[1] = 1;
    assert_false(yk_format_idx.sniff(head, sizeof head));
}

static void test_describe(void **state)
{
    static const uint8_t LABELS[] = {0, 0, 8, 1, 0, 0, 0, 8, 3, 3, 3, 9, 9, 3, 3, 3};
    static const uint8_t BYTES_2D[] = {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 4, 255, 255, 0, 0};
    struct yk_buf out = {0};
    struct yk_error e;
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, &e, "%s/labels", (char *)*state), YK_OK);
    assert_int_equal(yk_file_write(path, LABELS, sizeof LABELS, &e), YK_OK);
    assert_int_equal(yk_format_idx.describe(path, &out, &e), YK_OK);
    assert_string_equal(out.data,
                        "labels: IDX, u8, 8, 8 B of elements\n"
                        "  values 3 .. 9, mean 4.500, 0.0 % zeros\n"
                        "  class       count   share\n"
                        "      3           6  75.0 %\n" /* classes that do not occur have no line */
                        "      9           2  25.0 %\n");
    yk_buf_clear(&out);
    assert_int_equal(yk_file_write(path, BYTES_2D, sizeof BYTES_2D, &e), YK_OK);
    assert_int_equal(yk_format_idx.describe(path, &out, &e), YK_OK);
    assert_string_equal(out.data, "labels: IDX, u8, 1x4, 4 B of elements\n"
                                  "  values 0 .. 255, mean 127.500, 50.0 % zeros\n");
    yk_buf_clear(&out);
    assert_int_equal(yk_file_write(path, BYTES_2D, sizeof BYTES_2D - 1, &e), YK_OK);
    assert_int_equal(yk_format_idx.describe(path, &out, &e), YK_DATA);
    assert_int_equal(out.len, 0); /* nothing half told */
    yk_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sniff),
        cmocka_unit_test_setup_teardown(test_describe, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
