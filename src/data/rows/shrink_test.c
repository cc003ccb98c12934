/* shrink_test.c - a file of rows that is shortened, or written over, while it is open: all readers
 * survive and report it, and files that only got another name or time of use are not suspected. */
#include "data/data.h"
#include "data/rows/rows_info.h"

#include "base/file.h"
#include "base/guard.h"
#include "base/team.h"
#include "tests/testdir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

enum { ROWS = 40000 }; /* three blocks */

static struct sigaction guarding; /* cmocka puts handlers of its own in its place for each test */

static int enter(void **state)
{
    return testdir_setup(state) == 0 && setenv("XDG_CACHE_HOME", *state, 1) == 0 ? chdir(*state)
                                                                                 : -1;
}

static int leave(void **state)
{
    return chdir("/") == 0 ? testdir_teardown(state) : -1;
}

static struct yk_rows *must_open(const char *what)
{
    struct yk_rows *r = NULL;
    struct yk_error e = {0};
    if (yk_rows_open(&r, what, NULL, &e) != YK_OK)
        fail_msg("%s", e.text);
    return r;
}

/* big.rows, open. */
static struct yk_rows *big(void)
{
    struct yk_error e = {0};
    sigaction(SIGBUS, &guarding, NULL);
    struct yk_rows *made = must_open("synth-criteo:40000:5000:3");
    assert_int_equal(yk_rows_write(made, "big.rows", "cache", NULL, &e), YK_OK);
    yk_rows_close(made);
    return must_open("big.rows");
}

static void expect_changed(const struct yk_rows *r, bool missed)
{
    struct yk_error e = {0};
    assert_int_equal(yk_rows_intact(r, &e), YK_DATA);
    assert_string_equal(e.text, "'big.rows' changed while it was read");
    assert_int_equal(yk_rows_whole(r), !missed);
}

/* Several threads read all rows again and again, and one of them shortens the file meanwhile. */
struct reading {
    const struct yk_rows *r;
    const uint32_t *length; /* (ROWS) of each row, as it was */
    off_t size;
    atomic_bool wrong;
    atomic_uint_fast64_t keys;
};

static void read_part(void *arg, unsigned part)
{
    struct reading *x = arg;
    uint64_t keys = 0;
    for (int pass = 0; pass < 6; pass++) {
        if (part == 0 && pass == 2 && truncate("big.rows", x->size) != 0)
            atomic_store(&x->wrong, true);
        for (uint64_t i = 0; i < x->r->rows; i++) {
            struct yk_row row = yk_row_at(x->r, i);
            if (row.n != x->length[i] && row.n != 0)
                atomic_store(&x->wrong, true);
            for (uint32_t k = 0; k < row.n; k++)
                keys += row.key[k] + (row.value != NULL && row.value[k] > 1e30f);
        }
    }
    atomic_fetch_add(&x->keys, keys); /* so that they are read */
}

/* Wherever the file is cut, a row is as long as it was or empty, whichever thread reads it. */
static void test_rows_as_long_as_before(void **state)
{
    (void)state;
    static uint32_t length[ROWS];
    const off_t SIZE[] = {0, 100, 4096, 8192, 16384, 40960, 69632, 1 << 20, 3000001};
    for (size_t s = 0; s < sizeof SIZE / sizeof SIZE[0]; s++) {
        struct yk_rows *r = big();
        struct yk_team *team;
        struct yk_error e;
        assert_int_equal(r->rows, ROWS);
        for (uint32_t i = 0; i < ROWS; i++)
            length[i] = yk_row_at(r, i).n;
        assert_int_equal(yk_rows_intact(r, &e), YK_OK);
        struct reading x = {.r = r, .length = length, .size = SIZE[s]};
        assert_int_equal(yk_team_open(&team, 3, &e), YK_OK);
        yk_team_run(team, 3, read_part, &x);
        yk_team_close(team);
        assert_false(x.wrong);
        expect_changed(r, true);
        yk_rows_close(r);
    }
}

/* The start of a row is on the last page that is there, and its end on the next. */
static void test_row_across_the_end(void **state)
{
    (void)state;
    enum { HEAD = 128, PAGE = 4096, LAST = (PAGE - HEAD) / sizeof(uint32_t) - 1 };
    struct yk_rows *r = big();
    assert_int_equal((uintptr_t)&r->block[0].first[LAST + 1] % PAGE, 0);
    assert_true(r->block[0].first[LAST] > 0);
    assert_int_equal(truncate("big.rows", PAGE), 0);
    assert_int_equal(yk_row_at(r, LAST).n, 0);
    expect_changed(r, true);
    yk_rows_close(r);
}

static void test_info_and_write(void **state)
{
    (void)state;
    static const char *const FORMAT[] = {"libsvm", "vw", "tfrecord", "cache"};
    struct yk_rows_info x;
    struct yk_error e = {0};
    struct yk_rows *r = big();
    assert_int_equal(yk_rows_info(r, "cache", NULL, &x, &e), YK_OK);
    assert_int_equal(truncate("big.rows", 70000), 0);
    assert_int_equal(yk_rows_info(r, "cache", NULL, &x, &e), YK_DATA);
    expect_changed(r, true);
    yk_rows_close(r);
    for (int i = 0; i < 4; i++) {
        r = big();
        assert_int_equal(truncate("big.rows", 70000),
                         0); /* only the writer has missed a page so far */
        assert_int_equal(yk_rows_write(r, "out", FORMAT[i], NULL, &e), YK_DATA);
        assert_string_equal(e.text, "'big.rows' changed while it was read");
        assert_false(yk_exists("out"));
        yk_rows_close(r);
    }
}

/* The first thing that is done with a file is to check it; that may come too late as well. */
static void test_opening(void **state)
{
    (void)state;
    struct yk_error e = {0};
    struct yk_rows *r = big(), *again;
    assert_int_equal(truncate("big.rows", 70000), 0);
    assert_int_equal(yk_rows_open(&again, "big.rows", NULL, &e),
                     YK_DATA); /* a short file is a damaged one */
    assert_non_null(strstr(e.text, "is damaged"));
    yk_rows_close(r);
}

/* No page is missing, and the bytes are others. */
static void test_written_over(void **state)
{
    (void)state;
    struct yk_error e = {0};
    struct yk_rows *r = big();
    const struct timespec tick = {.tv_nsec = 30000000}; /* times of files are no finer than 10 ms */
    nanosleep(&tick, NULL);
    int fd = open("big.rows", O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 5000), 1);
    close(fd);
    expect_changed(r, false);
    yk_rows_close(r);
    r = big();
    fd = open("big.rows", O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    expect_changed(r, false);
    yk_rows_close(r);
    assert_int_equal(yk_rows_intact(NULL, &e), YK_OK);
}

/* A file that is replaced the way yoke does it, loses its name or is looked at, is as it was; so is
 * one of our own caches that got another time. */
static void test_not_suspected(void **state)
{
    (void)state;
    struct yk_error e = {0};
    struct yk_rows *r = big(), *cached = must_open("synth-criteo:40000:5000:3"),
                   *next = must_open("synth-criteo:100:500:4");
    assert_int_equal(chmod("big.rows", 0600), 0);
    assert_int_equal(yk_rows_write(next, "big.rows", "cache", NULL, &e), YK_OK);
    assert_int_equal(unlink("big.rows"), 0);
    assert_int_equal(yk_rows_intact(r, &e), YK_OK);
    assert_int_equal(system("touch yoke/rows/*.rows"), 0);
    assert_int_equal(yk_rows_intact(cached, &e), YK_OK);
    yk_rows_close(r);
    yk_rows_close(cached);
    yk_rows_close(next);
    struct yk_rows *held = NULL;
    const struct yk_reading memory = {.no_cache = true};
    assert_int_equal(yk_rows_open(&held, "synth-criteo:100:500:4", &memory, &e), YK_OK);
    assert_int_equal(yk_rows_intact(held, &e), YK_OK);
    assert_true(yk_rows_whole(held));
    yk_rows_close(held);
}

int main(void)
{
    char one[1];
    yk_unguard(yk_guard(one, sizeof one));
    sigaction(SIGBUS, NULL, &guarding);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_as_long_as_before, enter, leave),
        cmocka_unit_test_setup_teardown(test_row_across_the_end, enter, leave),
        cmocka_unit_test_setup_teardown(test_info_and_write, enter, leave),
        cmocka_unit_test_setup_teardown(test_opening, enter, leave),
        cmocka_unit_test_setup_teardown(test_written_over, enter, leave),
        cmocka_unit_test_setup_teardown(test_not_suspected, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
