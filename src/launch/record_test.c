/* record_test.c - records come out of a pipe as they went in, and everything else is noise. */
#include "launch/record.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What `speak` writes to standard output, as one block; the caller frees it. */
static char *heard(void (*speak)(void), size_t *n)
{
    int fd = memfd_create("heard", MFD_CLOEXEC), keep = dup(STDOUT_FILENO);
    fflush(stdout);
    assert_true(fd >= 0 && keep >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    speak();
    fflush(stdout);
    assert_true(dup2(keep, STDOUT_FILENO) >= 0);
    close(keep);
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)size, 0), size);
    text[size] = '\0';
    *n = (size_t)size;
    close(fd);
    return text;
}

/* One line was said, and it is this record. */
static void one(void (*speak)(void), struct yk_record *r)
{
    size_t n;
    char *text = heard(speak, &n);
    assert_true(n > 1 && text[n - 1] == '\n' && strchr(text, '\n') == text + n - 1);
    for (size_t i = 1; i + 1 < n; i++)
        assert_true(text[i] >= ' ' && text[i] <= '~');
    assert_true(yk_record_parse(text, n - 1, r));
    for (size_t cut = 0; cut < n - 2;
         cut += cut < 200 ? 1 : 997) { /* whatever a killed rank leaves of it is noise */
        struct yk_record half;
        assert_false(yk_record_parse(text, cut, &half));
        assert_null(half.output);
    }
    free(text);
}

static void say_started(void)
{
    yk_record_started("runs/soft max-\"sync\"\\1", 4, 0.25, 1000, true);
}

static void say_alive(void)
{
    yk_record_alive(15);
}

static void say_saved(void)
{
    yk_record_saved(INT64_MAX);
}

static void say_lost(void)
{
    yk_record_lost("rank 0 is silent");
}

static void say_done(void)
{
    yk_record_done(4, 10, "runs/\xe9t\xc3\xa9", true, 77,
                   "caf\xc3\xa9 \xff\x01\t\r\n{\"a\":1}\n\x1eyoke {}\n");
}

static void say_done_plain(void)
{
    yk_record_done(0, 0, NULL, false, 0, NULL);
}

static void say_nan(void)
{
    yk_record_started("", 1, 0.0 / 0.0, 0, false);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct yk_record r;
    one(say_started, &r);
    assert_int_equal(r.kind, YK_RECORD_STARTED);
    assert_string_equal(r.folder, "runs/soft max-\"sync\"\\1");
    assert_int_equal(r.ranks, 4);
    assert_true(r.seconds == 0.25 && r.resumable && r.step == 1000 && r.output == NULL);
    one(say_alive, &r);
    assert_true(r.kind == YK_RECORD_ALIVE && r.seconds == 15);
    one(say_saved, &r);
    assert_true(r.kind == YK_RECORD_SAVED && r.step == INT64_MAX);
    one(say_lost, &r);
    assert_int_equal(r.kind, YK_RECORD_LOST);
    assert_string_equal(r.output, "rank 0 is silent");
    free(r.output);
    one(say_done, &r);
    assert_true(r.kind == YK_RECORD_DONE && r.code == 4 && r.signal == 10 && r.resumable &&
                r.step == 77);
    assert_string_equal(r.folder, "runs/\xe9t\xc3\xa9");
    assert_string_equal(r.output, "caf\xc3\xa9 \xff\x01\t\r\n{\"a\":1}\n\x1eyoke {}\n");
    free(r.output);
    one(say_done_plain, &r);
    assert_true(r.code == 0 && r.signal == 0 && !r.resumable && r.folder[0] == '\0');
    assert_string_equal(r.output, "");
    free(r.output);
    one(say_nan, &r);
    assert_true(r.seconds == 0 && r.ranks == 1);
}

static char big[400000];

static void say_big(void)
{
    yk_record_done(0, 0, "r", false, 1, big);
}

static void test_big(void **state)
{
    (void)state;
    struct yk_record r;
    for (size_t i = 0; i + 1 < sizeof big; i++)
        big[i] = (char)(i % 80 == 79 ? '\n' : 'a' + (int)(i % 26));
    one(say_big, &r);
    assert_string_equal(r.output, big);
    free(r.output);
}

static bool parses(const char *line)
{
    struct yk_record r;
    bool ok = yk_record_parse(line, strlen(line), &r);
    free(r.output);
    return ok;
}

#define MARK "\x1eyoke "
#define PLACE "\"folder\":\"f\",\"resumable\":true,\"step\":1"

static void test_noise(void **state)
{
    (void)state;
    assert_true(parses(MARK "{\"kind\":\"saved\",\"step\":7}"));
    assert_true(parses(MARK "{\"kind\":\"saved\",\"step\":7}\r"));
    assert_true(parses("step 7 " MARK "{\"kind\":\"saved\",\"step\":7}"));
    assert_true(parses(MARK "{\"kind\":\"do" MARK "{\"kind\":\"saved\",\"step\":7,\"new\":[]}"));
    assert_true(parses(MARK "{\"kind\":\"started\"," PLACE ",\"ranks\":2,\"seconds\":1}"));
    assert_true(
        parses(MARK "{\"kind\":\"done\"," PLACE ",\"code\":0,\"signal\":0,\"output\":\"\"}"));
    static const char *const noise[] = {
        "",
        "\x1e",
        MARK,
        "yoke {\"kind\":\"saved\",\"step\":7}",
        "{\"kind\":\"saved\",\"step\":7}",
        MARK "[]",
        MARK "{}",
        MARK "{\"kind\":7}",
        MARK "{\"kind\":\"other\",\"step\":7}",
        MARK "{\"kind\":\"saved\"}",
        MARK "{\"kind\":\"saved\",\"step\":-1}",
        MARK "{\"kind\":\"saved\",\"step\":1.5}",
        MARK "{\"kind\":\"saved\",\"step\":7} and more",
        MARK "{\"kind\":\"saved\",\"step\":7,\"step\":8}",
        MARK "{\"kind\":\"saved\",\"step\":7}" MARK "{\"kind\":\"do",
        MARK "{\"kind\":\"alive\",\"within\":-1}",
        MARK "{\"kind\":\"alive\",\"within\":\"x\"}",
        MARK "{\"kind\":\"lost\"}",
        MARK "{\"kind\":\"lost\",\"why\":\"\\u0100\"}",
        MARK "{\"kind\":\"lost\",\"why\":\"\\u0000\"}",
        MARK "{\"kind\":\"started\"," PLACE ",\"ranks\":2}",
        MARK "{\"kind\":\"done\"," PLACE ",\"code\":256,\"signal\":0,\"output\":\"\"}",
        MARK "{\"kind\":\"done\"," PLACE ",\"code\":0,\"signal\":65,\"output\":\"\"}",
        MARK "{\"kind\":\"done\"," PLACE ",\"code\":0,\"signal\":0}",
        MARK "{\"kind\":\"done\",\"code\":0,\"signal\":0,\"output\":\"\"}",
        MARK "{\"kind\":\"done\",\"folder\":\"\\u20ac\",\"resumable\":true,\"step\":1,\"code\":0,"
             "\"signal\":0,\"output\":\"\"}",
        MARK "{\"kind\":\"done\",\"folder\":\"f\",\"resumable\":1,\"step\":1,\"code\":0,\"signal\":"
             "0,\"output\":\"\"}",
    };
    for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++)
        if (parses(noise[i]))
            fail_msg("taken for a record: %s", noise[i] + strspn(noise[i], "\x1e"));
    struct yk_record r;
    assert_false(
        yk_record_parse(MARK "{\"kind\":\"saved\",\"step\":7}\0x", 34, &r)); /* a NUL inside */

    char deep[YK_PATH_MAX + 200]; /* a folder that fits no path */
    int n = snprintf(deep, sizeof deep,
                     MARK "{\"kind\":\"started\",\"ranks\":1,\"seconds\":0,\"step\":0,"
                          "\"resumable\":true,\"folder\":\"");
    memset(deep + n, 'd', YK_PATH_MAX);
    snprintf(deep + n + YK_PATH_MAX, sizeof deep - (size_t)n - YK_PATH_MAX, "\"}");
    assert_false(parses(deep));
}

static void test_wanted(void **state)
{
    (void)state;
    unsetenv(YK_PARENT_VARIABLE);
    setenv(YK_RESTARTS_VARIABLE, "2", 1);
    assert_false(yk_record_wanted());
    assert_int_equal(yk_record_restarts(), 0);
    setenv(YK_PARENT_VARIABLE, "", 1);
    assert_false(yk_record_wanted());
    setenv(YK_PARENT_VARIABLE, "/tmp/x", 1);
    assert_true(yk_record_wanted());
    assert_int_equal(yk_record_restarts(), 2);
    for (const char *const *p = (const char *const[]){"", "-1", "x", "99999999999999999999", NULL};
         *p != NULL; p++) {
        setenv(YK_RESTARTS_VARIABLE, *p, 1);
        assert_int_equal(yk_record_restarts(), 0);
    }
    unsetenv(YK_RESTARTS_VARIABLE);
    assert_int_equal(yk_record_restarts(), 0);
    unsetenv(YK_PARENT_VARIABLE);
}

/* A pipe is smaller than a record; a rank that leaves by _exit right after must have said all of
 * it. */
static void test_pipe(void **state)
{
    (void)state;
    int fd[2];
    memset(big, 'x', sizeof big - 1);
    fflush(stdout);
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], STDOUT_FILENO);
        close(fd[0]);
        yk_record_done(0, 0, "r", false, 1, big);
        _exit(0);
    }
    close(fd[1]);
    char *text = malloc(sizeof big + 1000);
    size_t n = 0;
    assert_non_null(text);
    for (ssize_t k;
         n < sizeof big + 1000 && (k = read(fd[0], text + n, sizeof big + 1000 - n)) > 0;)
        n += (size_t)k;
    close(fd[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct yk_record r;
    assert_true(n > 1 && yk_record_parse(text, n - 1, &r));
    assert_string_equal(r.output, big);
    free(r.output);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_big),
        cmocka_unit_test(test_noise),      cmocka_unit_test(test_wanted),
        cmocka_unit_test(test_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
