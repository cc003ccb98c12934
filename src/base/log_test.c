/* log_test.c - the exact bytes on stderr and in log.txt, with a plain file or a pseudo-terminal as
 * stderr. */
#include "base/log.h"

#include "base/file.h"
#include "tests/skip.h"
#include "tests/testdir.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/terminal.h"

static char seen[65536]; /* the bytes on stderr */
static int real_stderr;

static void say(struct yk_log *log)
{
    yk_log_line(log, YK_DEBUG, "detail %d", 1);
    yk_log_line(log, YK_INFO, "step %d", 100);
    yk_log_line(log, YK_WARN, "checkpoint '%s' is damaged", "x");
    yk_log_line(log, YK_ERROR, "cannot open '%s'", "a");
}

static void redirect_to(int fd)
{
    real_stderr = dup(STDERR_FILENO);
    assert_true(real_stderr >= 0);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
}

static void restore(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
}

/* stderr becomes a file; `tell` logs; `seen` receives the bytes. */
static void capture_file(const char *dir, enum yk_level least, const char *log_path,
                         void (*tell)(struct yk_log *))
{
    char path[YK_PATH_MAX];
    yk_path(path, NULL, "%s/stderr", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0666);
    assert_true(fd >= 0);
    redirect_to(fd);
    struct yk_log *log = yk_log_open(least);
    yk_code rc = log_path != NULL ? yk_log_file(log, log_path, NULL) : YK_OK;
    bool terminal = yk_log_is_terminal(log);
    tell(log);
    yk_log_close(log);
    restore();
    assert_int_equal(rc, YK_OK);
    assert_false(terminal);
    ssize_t n = pread(fd, seen, sizeof seen - 1, 0);
    assert_true(n >= 0);
    seen[n] = '\0';
    close(fd);
}

/* stderr becomes a terminal. */
static void capture_terminal(void (*tell)(struct yk_log *))
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        skip_because("there is no terminal to be had");
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0)
        skip_because("there is no terminal to be had");
    redirect_to(slave);
    struct yk_log *log = yk_log_open(YK_INFO);
    bool terminal = yk_log_is_terminal(log);
    tell(log);
    yk_log_close(log);
    restore();
    assert_true(terminal);
    read_all(master, seen, sizeof seen);
    assert_true(seen[0] != '\0');
    close(slave);
    close(master);
}

static void test_plain(void **state)
{
    capture_file(*state, YK_INFO, NULL, say);
    assert_string_equal(seen, "yoke: step 100\nyoke: warning: checkpoint 'x' is damaged\nyoke: "
                              "cannot open 'a'\n");
    capture_file(*state, YK_ERROR, NULL, say);
    assert_string_equal(seen, "yoke: cannot open 'a'\n");
    capture_file(*state, YK_DEBUG, NULL, say);
    assert_non_null(strstr(seen, "yoke: detail 1\n"));
}

static void test_file_takes_everything(void **state)
{
    char path[YK_PATH_MAX];
    char *text;
    size_t n;
    yk_path(path, NULL, "%s/log.txt", (char *)*state);
    capture_file(*state, YK_ERROR, path, say);
    capture_file(*state, YK_ERROR, path, say); /* appends */
    assert_int_equal(yk_file_read(path, 100000, &text, &n, NULL), YK_OK);
    static const char *const want[] = {"debug detail 1", "info step 100",
                                       "warning checkpoint 'x' is damaged",
                                       "error cannot open 'a'"};
    char *save, *line = strtok_r(text, "\n", &save);
    for (int i = 0; i < 8; i++, line = strtok_r(NULL, "\n", &save)) {
        int year, month, day, hour, minute, second, ms, at = 0;
        assert_non_null(line);
        assert_int_equal(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &year, &month, &day, &hour,
                                &minute, &second, &ms, &at),
                         7);
        assert_int_equal(at, strlen("2026-11-15T20:00:00.123Z "));
        assert_string_equal(line + at, want[i % 4]);
    }
    assert_null(line);
    free(text);
}

static void tell_hostile(struct yk_log *log)
{
    yk_log_line(log, YK_INFO, "a\033[2Jb\nc\td\xc3\xa9");
    char longer[10000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    yk_log_line(log, YK_INFO, "%s", longer);
    yk_log_status(log, "ignored where there is no terminal");
}

static void test_hostile_text(void **state)
{
    capture_file(*state, YK_INFO, NULL, tell_hostile);
    const char *first = "yoke: a?[2Jb?c?d\xc3\xa9\n";
    assert_memory_equal(seen, first, strlen(first));
    assert_null(strstr(seen, "ignored"));
    assert_true(strlen(seen) < 3000);
    assert_int_equal(seen[strlen(seen) - 1], '\n');
}

static void test_full_disk_is_said_once(void **state)
{
    if (access("/dev/full", W_OK) != 0)
        skip_because("there is no /dev/full");
    capture_file(*state, YK_INFO, "/dev/full", say);
    const char *first = strstr(seen, "cannot write the log file");
    assert_non_null(first);
    assert_null(strstr(first + 1, "cannot write the log file"));
    assert_non_null(strstr(seen, "yoke: step 100\n"));
}

static void test_file_that_cannot_be_opened(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_error e;
    struct yk_log *log = yk_log_open(YK_ERROR);
    yk_path(path, NULL, "%s/none/log.txt", (char *)*state);
    assert_int_equal(yk_log_file(log, path, &e), YK_FAILED);
    yk_log_close(log);
}

static void tell_with_status(struct yk_log *log)
{
    yk_log_status(log, "50 %");
    yk_log_status(log, "50 %"); /* unchanged: not drawn again */
    yk_log_line(log, YK_INFO, "half");
    yk_log_status(log, "");
    yk_log_line(log, YK_WARN, "careful");
}

static void test_terminal(void **state)
{
    (void)state;
    unsetenv("NO_COLOR");
    capture_terminal(tell_with_status);
    assert_string_equal(seen, "\r\033[K\033[?7l50 %\033[?7h"
                              "\r\033[Kyoke: half\r\n\033[?7l50 %\033[?7h"
                              "\r\033[K"
                              "\033[33myoke: warning: careful\033[0m\r\n");
    capture_terminal(say);
    assert_non_null(strstr(seen, "\033[31myoke: cannot open 'a'\033[0m\r\n"));
    setenv("NO_COLOR", "1", 1);
    capture_terminal(say);
    assert_null(strchr(seen, '\033'));
    unsetenv("NO_COLOR");
}

static void *chatter(void *log)
{
    for (int i = 0; i < 200; i++)
        yk_log_line(log, YK_INFO, "0123456789012345678901234567890123456789");
    return NULL;
}

static void tell_from_threads(struct yk_log *log)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, chatter, log);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void test_threads_do_not_mix_lines(void **state)
{
    capture_file(*state, YK_INFO, NULL, tell_from_threads);
    const char *line = "yoke: 0123456789012345678901234567890123456789\n";
    assert_int_equal(strlen(seen), 800 * strlen(line));
    for (size_t i = 0; i < 800; i++)
        assert_memory_equal(seen + i * strlen(line), line, strlen(line));
}

static void test_null_log(void **state)
{
    (void)state;
    yk_log_line(NULL, YK_INFO, "x");
    yk_log_status(NULL, "x");
    assert_false(yk_log_is_terminal(NULL));
    yk_log_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_file_takes_everything, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(test_hostile_text, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_full_disk_is_said_once, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(test_file_that_cannot_be_opened, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test_setup_teardown(test_threads_do_not_mix_lines, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test(test_null_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
