/* rows_reader_test.c - progress reports while many rows are read or written. rows_test.c checks the
 * order of rows for any number of threads. */
#include "data/rows/rows.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct heard {
    int lines;
    char last[300];
};

static void hear(void *arg, const char *line)
{
    struct heard *h = arg;
    h->lines++;
    snprintf(h->last, sizeof h->last, "%s", line);
}

static void expect_line(struct heard *h, const char *part)
{
    assert_in_range(h->lines, 1, 1000);
    if (strstr(h->last, part) == NULL)
        fail_msg("said '%s', not '%s'", h->last, part);
    h->lines = 0;
}

static void long_work_is_told(void **state)
{
    struct heard h = {0};
    struct yk_reading how = {
        .threads = 2, .no_cache = true, .say = hear, .say_arg = &h, .say_every = 1e-9};
    static const char *const NAME[] = {"a.vw", "a.vw.gz"};
    struct yk_rows *r, *again;
    assert_int_equal(yk_rows_open(&r, "synth-criteo:50000:1000", &how, NULL), YK_OK);
    expect_line(&h, " of 50000 rows are made");
    for (int i = 0; i < 2; i++) {
        char path[YK_PATH_MAX];
        assert_int_equal(yk_path(path, NULL, "%s/%s", (char *)*state, NAME[i]), YK_OK);
        assert_int_equal(yk_rows_write(r, path, "vw", &how, NULL), YK_OK);
        expect_line(&h, "50000 of 50000 rows are written");
        assert_int_equal(yk_rows_open(&again, path, &how, NULL), YK_OK);
        expect_line(&h, i == 0 ? "a.vw': " : "a.vw.gz', file 1 of 1: ");
        yk_rows_close(again);
    }
    how.say_every = 0; /* ten seconds */
    assert_int_equal(yk_rows_open(&again, "synth-criteo:50000:1000", &how, NULL), YK_OK);
    assert_int_equal(h.lines, 0);
    yk_rows_close(again);
    yk_rows_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_work_is_told, testdir_setup, testdir_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
