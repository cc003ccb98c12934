/* mpirun_output_test.c - lines, whoever sends them in whatever pieces; noise, and what it blames on
 * whom. */
#include "launch/mpirun_output.h"

#include "launch/record.h"
#include "tests/testdir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void collect(void *arg, const char *text, size_t n)
{
    yk_buf_format(arg, "[%.*s]", (int)n, text);
}

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "one\n\ntwo three\r\nlast";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct yk_lines l = {0};
        struct yk_buf got = {0};
        for (size_t i = 0; i < sizeof text - 1; i += piece)
            yk_lines_feed(&l, text + i, sizeof text - 1 - i < piece ? sizeof text - 1 - i : piece,
                          collect, &got);
        yk_lines_end(&l, collect, &got);
        yk_lines_end(&l, collect, &got); /* the second time there is nothing left */
        assert_string_equal(got.data, "[one][][two three\r][last]");
        yk_buf_release(&got);
    }
}

static void measure(void *arg, const char *text, size_t n)
{
    (void)text;
    *(size_t *)arg = n;
}

/* A line without an end costs no more memory than the longest record, and the next one is read
 * again. */
static void test_endless_line(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20 };
    char *piece = malloc(PIECE);
    struct yk_lines l = {0};
    size_t n = 77;
    assert_non_null(piece);
    memset(piece, 'x', PIECE);
    for (int i = 0; i < YK_RECORD_MAX / PIECE + 4; i++) {
        yk_lines_feed(&l, piece, PIECE, measure, &n);
        assert_true(l.part.len <= YK_RECORD_MAX);
    }
    yk_lines_feed(&l, "\n", 1, measure, &n);
    assert_int_equal(n, 77);
    yk_lines_feed(&l, "four\n", 5, measure, &n);
    assert_int_equal(n, 4);
    yk_lines_end(&l, measure, &n);
    free(piece);
}

static void test_ours(void **state)
{
    (void)state;
    static const char *const yes[] = {"yoke: x", "yoke:", "hint: x", "rank 3: x"},
                             *const no[] = {"", "yoke", "rank x", "rank ", "[vm] yoke: x"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        assert_true(yk_line_is_ours(yes[i], strlen(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(yk_line_is_ours(no[i], strlen(no[i])));
}

static void add(struct yk_noise *noise, const char *text)
{
    yk_noise_add(noise, text, strlen(text));
}

static void test_ring(void **state)
{
    (void)state;
    struct yk_noise noise = {0};
    char line[64];
    add(&noise, "");
    add(&noise, "  \t ");
    add(&noise, "------------------");
    assert_int_equal(noise.n, 0);
    assert_string_equal(yk_noise_add(&noise, "a\tb\033[31m\r", 9), "a b?[31m?");
    noise.n = 0;
    for (int i = 0; i < YK_NOISE_LINES + 5; i++) {
        snprintf(line, sizeof line, "line %d", i);
        add(&noise, line);
    }
    assert_string_equal(noise.line[(noise.n - 1) % YK_NOISE_LINES], "line 44");
    assert_string_equal(noise.line[noise.n % YK_NOISE_LINES],
                        "line 5"); /* the oldest that is kept */
}

static void blames(const char *hosts, const char *line, const char *sentence, const char *hint)
{
    struct yk_hosts h;
    struct yk_error e = {0};
    struct yk_noise noise = {0};
    assert_int_equal(yk_hosts_read(&h, &(struct yk_hosts_ask){.hosts = hosts}, NULL), YK_OK);
    add(&noise, "something else");
    add(&noise, line);
    bool told = yk_noise_blame(&noise, &(struct yk_launch){.hosts = &h, .owners = 1}, &e);
    yk_hosts_release(&h);
    assert_true(told == (sentence != NULL));
    assert_string_equal(e.text, sentence != NULL ? sentence : "");
    assert_string_equal(e.hint, hint != NULL ? hint : "");
}

static void test_blame(void **state)
{
    (void)state;
    blames(
        "n1,n11", "ssh: connect to host n11 port 22: Connection refused",
        "cannot start anything on host 'n11': ssh: connect to host n11 port 22: Connection refused",
        "'ssh n11 orted --version' must work without a password");
    blames("localhost,n1", "Host key verification failed.",
           "cannot start anything on host 'n1': Host key verification failed.",
           "'ssh n1 orted --version' must work without a password");
    blames("n1,n2", "Host key verification failed.",
           "cannot start anything on one of the other hosts: Host key verification failed.",
           "'ssh n2 orted --version' must work without a password");
    blames("localhost:2", "Host key verification failed.", NULL, NULL);
    blames("n1,n2", "segmentation fault", NULL, NULL);
}

/* With mpirun itself, and an agent that stands for an ssh that fails. */
static void test_no_ssh(void **state)
{
    char agent[YK_PATH_MAX], *argv[] = {(char *)"/bin/true", NULL};
    const char *script =
        "#!/bin/sh\necho \"ssh: connect to host $1 port 22: Connection refused\" >&2\nexit 255\n";
    struct yk_hosts hosts;
    struct yk_launch_result r;
    struct yk_error e;
    assert_int_equal(yk_path(agent, NULL, "%s/agent", (char *)*state), YK_OK);
    assert_int_equal(yk_file_write(agent, script, strlen(script), NULL), YK_OK);
    assert_int_equal(chmod(agent, 0700), 0);
    assert_int_equal(
        yk_hosts_read(&hosts, &(struct yk_hosts_ask){.hosts = "localhost,test-n1"}, NULL), YK_OK);
    struct yk_launch l = {.hosts = &hosts, .argv = argv, .log = yk_log_open(YK_ERROR)};
    int keep = dup(2), null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    setenv("OMPI_MCA_plm_rsh_agent", agent, 1);
    yk_code rc = yk_launch_run(&l, &r, &e);
    unsetenv("OMPI_MCA_plm_rsh_agent");
    dup2(keep, 2);
    close(keep);
    close(null);
    assert_int_equal(rc, YK_LOST);
    assert_string_equal(e.text, "cannot start anything on host 'test-n1': ssh: connect to host "
                                "test-n1 port 22: Connection refused");
    yk_launch_result_release(&r);
    yk_hosts_release(&hosts);
    yk_log_close(l.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_ours),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_blame),
        cmocka_unit_test_setup_teardown(test_no_ssh, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
