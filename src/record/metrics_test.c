/* metrics_test.c - the lines of metrics.jsonl, the lines that a resume removes, and the values in
 * the events. */
#include "record/metrics.h"

#include "base/json.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct yk_run run;
static char path[YK_PATH_MAX];

static struct yk_metrics *open_at(void **state, uint64_t from)
{
    struct yk_metrics *m;
    struct yk_error e;
    run = (struct yk_run){.lock = -1};
    yk_path(run.dir, NULL, "%s", (char *)*state);
    yk_run_path(&run, "metrics.jsonl", path, NULL);
    if (yk_metrics_open(&m, &run, "worker-0", from, &e) != YK_OK)
        fail_msg("%s", e.text);
    return m;
}

static void assert_content(const char *want)
{
    char *text;
    size_t n;
    assert_int_equal(yk_file_read(path, 1 << 24, &text, &n, NULL), YK_OK);
    assert_string_equal(text, want);
    free(text);
}

static void test_lines(void **state)
{
    struct yk_metrics *m = open_at(state, 0);
    yk_metrics_begin(m, 100, 0.0013, 10000);
    yk_metrics_value(m, "train/loss", 0.93);
    yk_metrics_value(m, "lr", 0.01);
    yk_metrics_end(m);
    yk_metrics_begin(m, UINT64_MAX, INFINITY, 0);
    yk_metrics_value(m, "nan", NAN);
    yk_metrics_value(m, "a \"b\" \\c", -1e-30);
    yk_metrics_histogram(m, "weights", (float[]){1, 2}, 2);
    yk_metrics_end(m);
    assert_content("");
    assert_int_equal(yk_metrics_flush(m, NULL), YK_OK);
    assert_content(
        "{\"step\":100,\"seconds\":0.0013,\"examples\":10000,\"train/loss\":0.93,\"lr\":0.01}\n"
        "{\"step\":18446744073709551615,\"seconds\":null,\"examples\":0,\"nan\":null,\"a \\\"b\\\" "
        "\\\\c\":-1e-30}\n");
    assert_non_null(yk_metrics_events(m));
    assert_int_equal(yk_metrics_close(m, NULL), YK_OK);
    assert_int_equal(yk_metrics_close(NULL, NULL), YK_OK);
}

static void test_lines_are_json(void **state)
{
    char *text, *save;
    size_t n;
    struct yk_metrics *m = open_at(state, 0);
    for (uint64_t i = 1; i <= 3000; i++) {
        yk_metrics_begin(m, i, (double)i * 1e-5, i * 100);
        yk_metrics_value(m, "x\"\\/y", exp((double)i) / 3);
        yk_metrics_end(m);
    }
    assert_int_equal(yk_file_read(path, 1 << 24, &text, &n, NULL), YK_OK);
    assert_true(n > 100000); /* written without a flush, in whole lines */
    assert_int_equal(text[n - 1], '\n');
    free(text);
    assert_int_equal(yk_metrics_close(m, NULL), YK_OK);
    assert_int_equal(yk_file_read(path, 1 << 24, &text, &n, NULL), YK_OK);
    int lines = 0;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        json_t *v;
        assert_int_equal(yk_json_parse(line, strlen(line), "line", &v, NULL), YK_OK);
        assert_int_equal(json_integer_value(json_object_get(v, "step")), ++lines);
        assert_non_null(json_object_get(v, "x\"\\/y"));
        json_decref(v);
    }
    assert_int_equal(lines, 3000);
    free(text);
}

static void test_resume_cuts(void **state)
{
    static const char before[] =
        "{\"step\":100,\"seconds\":1}\n"
        "{\"step\":300,\"seconds\":3}\n"
        "garbage\n"
        "{\"step\":\n"
        "\n"
        "{\"step\":200,\"seconds\":2}\n" /* a late evaluation: not in order */
        "{\"step\":201,\"seconds\":2}\n"
        "{\"step\":150,\"seco";
    yk_path(path, NULL, "%s/metrics.jsonl", (char *)*state);
    assert_int_equal(yk_file_write(path, before, strlen(before), NULL), YK_OK);
    struct yk_metrics *m = open_at(state, 200);
    assert_content("{\"step\":100,\"seconds\":1}\n{\"step\":200,\"seconds\":2}\n");
    yk_metrics_begin(m, 201, 2.5, 7);
    yk_metrics_end(m);
    assert_int_equal(yk_metrics_close(m, NULL), YK_OK);
    assert_content("{\"step\":100,\"seconds\":1}\n{\"step\":200,\"seconds\":2}\n{\"step\":201,"
                   "\"seconds\":2.5,\"examples\":7}\n");
}

static void test_resume_leaves_a_good_file_alone(void **state)
{
    struct stat before, after;
    yk_path(path, NULL, "%s/metrics.jsonl", (char *)*state);
    assert_int_equal(yk_file_write(path, "{\"step\":100}\n", 13, NULL), YK_OK);
    stat(path, &before);
    yk_metrics_close(open_at(state, 100), NULL);
    stat(path, &after);
    assert_int_equal(before.st_ino, after.st_ino); /* not written anew */
    assert_int_equal(after.st_size, 13);
}

static void test_events_come_along(void **state)
{
    struct yk_metrics *m = open_at(state, 0);
    yk_metrics_begin(m, 1, 1, 1);
    yk_metrics_value(m, "some/unusual tag", 1);
    yk_metrics_end(m);
    assert_int_equal(yk_metrics_close(m, NULL), YK_OK);
    char folder[YK_PATH_MAX], file[YK_PATH_MAX] = "", *text;
    size_t n;
    yk_path(folder, NULL, "%s/events/worker-0", (char *)*state);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            yk_path(file, NULL, "%s/%s", folder, e->d_name);
    closedir(d);
    assert_int_equal(yk_file_read(file, 1 << 20, &text, &n, NULL), YK_OK);
    assert_non_null(memmem(text, n, "some/unusual tag", 16));
    free(text);
}

static void test_open_fails(void **state)
{
    struct yk_metrics *m;
    struct yk_error e;
    run = (struct yk_run){.lock = -1};
    yk_path(run.dir, NULL, "%s/none", (char *)*state);
    assert_int_equal(yk_metrics_open(&m, &run, "worker-0", 0, &e), YK_FAILED);
    yk_path(run.dir, NULL, "%s", (char *)*state);
    yk_path(path, NULL, "%s/events", (char *)*state); /* a file where the folder should be */
    assert_int_equal(yk_file_write(path, "", 0, NULL), YK_OK);
    assert_int_equal(yk_metrics_open(&m, &run, "worker-0", 0, &e), YK_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_lines_are_json, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_resume_cuts, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_resume_leaves_a_good_file_alone, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(test_events_come_along, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_open_fails, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
