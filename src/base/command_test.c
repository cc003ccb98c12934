/* command_test.c - real commands that work, fail, print a lot, hang, or do not exist. */
#include "base/command.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_fails(const char *const argv[], const char *folder, double seconds,
                         const char *text)
{
    struct yk_error e = {0};
    assert_int_equal(yk_command_run(argv, folder, seconds, &e), YK_FAILED);
    assert_string_equal(e.text, text);
}

static void test_works(void **state)
{
    (void)state;
    const char *const quiet[] = {"true", NULL}, *const here[] = {"sh", "-c",
                                                                 "test \"$(pwd)\" = /usr", NULL};
    const char *const loud[] = {"sh", "-c", "head -c 1000000 /dev/zero", NULL}, *const reads[] = {
                                                                                    "cat", NULL};
    assert_int_equal(yk_command_run(quiet, "/", 10, NULL), YK_OK);
    assert_int_equal(yk_command_run(here, "/usr", 10, NULL), YK_OK);
    assert_int_equal(yk_command_run(loud, "/", 10, NULL), YK_OK);
    assert_int_equal(yk_command_run(reads, "/", 10, NULL),
                     YK_OK); /* there is nothing to read, so it ends */
}

static void test_fails(void **state)
{
    (void)state;
    const char *const quiet[] = {"sh", "-c", "exit 3", NULL}, *const none[] = {"no-such-program",
                                                                               NULL};
    const char *const talks[] = {"sh", "-c", "echo; echo '  why' >&2; echo more; exit 1", NULL};
    const char *const dies[] = {"sh", "-c", "kill -9 $$", NULL}, *const hangs[] = {"sleep", "60",
                                                                                   NULL};
    assert_fails(quiet, "/", 10, "'sh' failed with status 3");
    assert_fails(none, "/", 10, "'no-such-program' could not be started: status 127");
    assert_fails(quiet, "/nonexistent", 10, "'sh' could not be started: status 127");
    assert_fails(talks, "/", 10, "'sh' failed: why");
    assert_fails(dies, "/", 10, "'sh' was ended by signal 9");
    double start = yk_now();
    assert_fails(hangs, "/", 0.2, "'sleep' was stopped because it took longer than 0 s");
    assert_true(yk_now() - start < 30);
}

static void test_found(void **state)
{
    (void)state;
    assert_true(yk_command_found("sh"));
    assert_false(yk_command_found("no-such-program"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_works),
        cmocka_unit_test(test_fails),
        cmocka_unit_test(test_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
