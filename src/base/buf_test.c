/* buf_test.c - growth, termination and formatting; a failed buffer stays failed until it is
 * cleared. */
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_grows_and_terminates(void **state)
{
    (void)state;
    struct yk_buf b = {0};
    for (int i = 0; i < 10000; i++) {
        char c = (char)('a' + i % 26);
        yk_buf_add(&b, &c, 1);
        assert_int_equal(b.data[b.len], '\0');
    }
    assert_int_equal(b.len, 10000);
    assert_false(b.failed);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    assert_true(b.cap > b.len);
    yk_buf_release(&b);
    assert_null(b.data);
    assert_int_equal(b.len, 0);
}

static void test_format_and_text(void **state)
{
    (void)state;
    struct yk_buf b = {0};
    yk_buf_text(&b, "step ");
    yk_buf_format(&b, "%d of %s", 7, "ten");
    assert_string_equal(b.data, "step 7 of ten");
    assert_int_equal(b.len, 13);
    yk_buf_format(&b, "%0500d", 1); /* longer than any first guess */
    assert_int_equal(b.len, 513);
    assert_int_equal(strlen(b.data), 513);
    yk_buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    yk_buf_release(&b);
}

static void test_binary(void **state)
{
    (void)state;
    struct yk_buf b = {0};
    const uint8_t bytes[] = {0, 255, 0, 10};
    yk_buf_add(&b, bytes, sizeof bytes);
    yk_buf_add(&b, NULL, 0);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, bytes, 4);
    yk_buf_release(&b);
}

static void test_failure_is_sticky(void **state)
{
    (void)state;
    struct yk_buf b = {0};
    yk_buf_text(&b, "abc");
    yk_buf_add(&b, "x", SIZE_MAX / 2); /* refused before anything is read or allocated */
    assert_true(b.failed);
    yk_buf_text(&b, "def");
    assert_int_equal(b.len, 3);
    yk_buf_clear(&b);
    assert_false(b.failed);
    yk_buf_text(&b, "def");
    assert_string_equal(b.data, "def");
    yk_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_and_terminates),
        cmocka_unit_test(test_format_and_text),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_failure_is_sticky),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
