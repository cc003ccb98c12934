/* cache_dir_test.c - the folder of caches: one maker at a time, and the oldest go when there are
 * too many. */
#include "data/rows/cache_dir.h"

#include "tests/testdir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <utime.h>

#include <cmocka.h>

static const char *dir;
static char name_[YK_PATH_MAX];

static const char *at(const char *name)
{
    assert_int_equal(yk_path(name_, NULL, "%s/%s", dir, name), YK_OK);
    return name_;
}

static void put(const char *name, int days)
{
    const struct utimbuf t = {.actime = time(NULL) - days * 86400,
                              .modtime = time(NULL) - days * 86400};
    assert_int_equal(yk_file_write(at(name), "0123456789", 10, NULL), YK_OK);
    assert_int_equal(utime(at(name), &t), 0);
}

static void the_least_used_go(void **state)
{
    dir = *state;
    put("new.rows", 0);
    put("two.rows", 2);
    put("three.rows", 3);
    put("three.rows.lock", 3);
    put("four.rows", 4);
    put("nine.rows", 9);
    put("nine.txt", 9);
    put("young.rows.tmp.1.1", 0);
    put("old.rows.tmp.1.1", 2);
    yk_cache_dir_trim(at("new.rows"), 50);
    assert_false(yk_exists(at("old.rows.tmp.1.1")));
    assert_true(yk_exists(at("nine.rows"))); /* there is room */
    yk_cache_dir_used(at("nine.rows"));
    int fd = yk_cache_dir_lock(at("four.rows"), NULL); /* another process makes it again */
    assert_true(fd >= 0);
    yk_cache_dir_trim(at("new.rows"), 40);
    assert_false(yk_exists(at("three.rows")));
    assert_false(yk_exists(at("three.rows.lock")));
    assert_true(yk_exists(at("two.rows")));
    close(fd);
    yk_cache_dir_trim(at("new.rows"), 0);
    static const char *const STAY[] = {"new.rows", "nine.rows", "nine.txt", "young.rows.tmp.1.1"},
                             *const GONE[] = {"two.rows", "four.rows"};
    for (size_t i = 0; i < 4; i++)
        assert_true(yk_exists(at(STAY[i])));
    for (size_t i = 0; i < 2; i++)
        assert_false(yk_exists(at(GONE[i])));
    put("new.rows", 5);
    yk_cache_dir_trim(at("new.rows"), 0); /* not the one it is for */
    assert_true(yk_exists(at("new.rows")));
    yk_cache_dir_trim("/nowhere/at/all.rows", 0);
    assert_true(yk_cache_dir_room(at("new.rows")) > 0);
}

static void a_lock_that_lost_its_name_is_none(void **state)
{
    dir = *state;
    int a = yk_cache_dir_lock(at("x.rows"), NULL);
    assert_true(a >= 0);
    assert_int_equal(unlink(at("x.rows.lock")), 0);
    int b = yk_cache_dir_lock(at("x.rows"), NULL); /* another file of that name */
    assert_true(b >= 0);
    close(a);
    close(b);
    struct yk_error e = {0};
    assert_int_equal(yk_cache_dir_lock("/nowhere/at/all.rows", &e), -1);
    assert_non_null(strstr(e.text, "cannot create"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_least_used_go, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(a_lock_that_lost_its_name_is_none, testdir_setup,
                                        testdir_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
