/* text_test.c - sizes and counts from 0 to the largest. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_size_text(void **state)
{
    (void)state;
    char out[24];
    assert_string_equal(yk_size_text(0, out), "0 B");
    assert_string_equal(yk_size_text(999, out), "999 B");
    assert_string_equal(yk_size_text(1000, out), "1.0 kB");
    assert_string_equal(yk_size_text(47040016, out), "47.0 MB");
    assert_string_equal(yk_size_text(UINT64_MAX, out), "18.4 EB");
}

static void test_count_text(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(yk_count_text(0, text), "0");
    assert_string_equal(yk_count_text(999, text), "999");
    assert_string_equal(yk_count_text(61100840, text), "61,100,840");
    assert_string_equal(yk_count_text(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_text),
        cmocka_unit_test(test_count_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
