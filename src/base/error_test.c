/* error_test.c - codes are returned, texts are cut and never overflow, and a new error has no
 * hint. */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_fail(void **state)
{
    (void)state;
    struct yk_error e;
    assert_int_equal(yk_fail(&e, YK_DATA, "cannot read '%s': row %d", "a.svm", 3), YK_DATA);
    assert_int_equal(e.code, YK_DATA);
    assert_string_equal(e.text, "cannot read 'a.svm': row 3");
    assert_string_equal(e.hint, "");
    yk_hint(&e, "try '%s'", "yoke help");
    assert_string_equal(e.hint, "try 'yoke help'");
    yk_fail(&e, YK_USAGE, "other");
    assert_string_equal(e.hint, "");
}

static void test_fail_errno(void **state)
{
    (void)state;
    struct yk_error e;
    errno = ENOENT;
    assert_int_equal(yk_fail_errno(&e, YK_FAILED, "cannot open '%s'", "x"), YK_FAILED);
    assert_string_equal(e.text, "cannot open 'x': no such file or directory");
}

static void test_null_is_fine(void **state)
{
    (void)state;
    assert_int_equal(yk_fail(NULL, YK_LOST, "rank %d", 3), YK_LOST);
    assert_int_equal(yk_fail_errno(NULL, YK_DATA, "x"), YK_DATA);
    assert_int_equal(yk_fail_memory(NULL, 12), YK_FAILED);
    yk_hint(NULL, "x");
}

static void test_long_texts_are_cut(void **state)
{
    (void)state;
    struct {
        struct yk_error e;
        char guard[16];
    } s;
    char path[2000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    memset(s.guard, 'g', sizeof s.guard);
    errno = EACCES;
    yk_fail_errno(&s.e, YK_DATA, "cannot open '%s'", path);
    yk_hint(&s.e, "%s", path);
    assert_int_equal(strlen(s.e.text), sizeof s.e.text - 1);
    assert_int_equal(strlen(s.e.hint), sizeof s.e.hint - 1);
    for (size_t i = 0; i < sizeof s.guard; i++)
        assert_int_equal(s.guard[i], 'g');
}

static void test_memory_names_the_size(void **state)
{
    (void)state;
    struct yk_error e;
    yk_fail_memory(&e, 4096);
    assert_non_null(strstr(e.text, "4096"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_fail_errno),
        cmocka_unit_test(test_null_is_fine),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_memory_names_the_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
