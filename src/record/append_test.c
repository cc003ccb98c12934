/* append_test.c - the file has whole records only, even when the disk is full in the middle of one.
 *  */
#include "record/append.h"

#include "tests/testdir.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char path[YK_PATH_MAX];

static off_t size_now(void)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static void add_record(struct yk_append *a)
{
    yk_buf_text(&a->buf, "a record of twenty\n\n");
    yk_append_done(a);
}

static void test_flush_and_append(void **state)
{
    struct yk_append a;
    struct yk_error e;
    yk_path(path, NULL, "%s/a", (char *)*state);
    for (int round = 1; round <= 2; round++) {
        assert_int_equal(yk_append_open(&a, path, &e), YK_OK);
        add_record(&a);
        assert_int_equal(size_now(), (round - 1) * 40);
        assert_int_equal(yk_append_flush(&a, &e), YK_OK);
        assert_int_equal(size_now(), (round - 1) * 40 + 20);
        add_record(&a);
        assert_int_equal(yk_append_close(&a, &e), YK_OK);
        assert_int_equal(size_now(), round * 40);
    }
}

static void test_goes_out_when_full(void **state)
{
    struct yk_append a;
    yk_path(path, NULL, "%s/a", (char *)*state);
    assert_int_equal(yk_append_open(&a, path, NULL), YK_OK);
    for (int i = 0; i < 3276; i++)
        add_record(&a);
    assert_int_equal(size_now(), 0);
    add_record(&a); /* 65,540 bytes */
    assert_int_equal(size_now(), 65540);
    assert_int_equal(yk_append_close(&a, NULL), YK_OK);
}

/* A limit on the file size acts like a full disk. */
static int write_past_the_limit(void)
{
    struct yk_append a;
    struct yk_error e;
    signal(SIGXFSZ, SIG_IGN);
    if (yk_append_open(&a, path, &e) != YK_OK)
        return 1;
    add_record(&a);
    if (yk_append_flush(&a, &e) != YK_OK)
        return 2;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){45, RLIM_INFINITY});
    add_record(&a);
    add_record(&a); /* 60 bytes in all: cut after 45 */
    if (yk_append_flush(&a, &e) != YK_FAILED || strstr(e.text, "cannot write") == NULL ||
        size_now() != 20)
        return 3;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    add_record(&a);
    if (yk_append_close(&a, &e) != YK_FAILED || size_now() != 40) /* the failure is remembered */
        return 4;
    return 0;
}

static void test_cut_record_is_taken_back(void **state)
{
    yk_path(path, NULL, "%s/a", (char *)*state);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(write_past_the_limit());
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void test_open_fails(void **state)
{
    struct yk_append a;
    struct yk_error e;
    yk_path(path, NULL, "%s/none/a", (char *)*state);
    assert_int_equal(yk_append_open(&a, path, &e), YK_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flush_and_append, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_goes_out_when_full, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_cut_record_is_taken_back, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(test_open_fails, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
