/* progress_test.c - the rate and the form of progress: a bar on a terminal, a plain line elsewhere.
 *  */
#include "record/progress.h"

#include "base/clock.h"
#include "tests/skip.h"
#include "tests/testdir.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/terminal.h"

static char seen[8192]; /* the bytes on stderr */

/* stderr becomes `fd` while `tell` shows something; the output is read back from `from`. */
static void capture(int fd, int from, void (*tell)(struct yk_progress *))
{
    struct yk_progress p;
    int real = dup(STDERR_FILENO);
    assert_true(real >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    struct yk_log *log = yk_log_open(YK_INFO);
    yk_progress_init(&p, log);
    double now = yk_now(), until = p.next;
    tell(&p);
    yk_log_close(log);
    dup2(real, STDERR_FILENO);
    close(real);
    double wait = fd == from ? 10 : 0.1; /* a file, or the near end of a terminal */
    assert_true(fabs(until - now - wait) < wait / 2);
    assert_false(yk_progress_due(&(struct yk_progress){.next = until}, now));
    assert_true(yk_progress_due(&(struct yk_progress){.next = until}, now + 1.5 * wait));
    if (fd == from)
        lseek(from, 0, SEEK_SET);
    read_all(from, seen, sizeof seen);
}

static void show(struct yk_progress *p)
{
    yk_progress_show(p, 100, 0.25, "step 50");
    assert_true(p->next > 100);
    assert_false(yk_progress_due(p, p->next - 0.01));
    assert_true(yk_progress_due(p, p->next));
    yk_progress_show(p, 200, -1, "step 51");
    yk_progress_clear(p);
}

static void test_file(void **state)
{
    char path[256];
    snprintf(path, sizeof path, "%s/stderr", (char *)*state);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    capture(fd, fd, show);
    assert_string_equal(seen, "yoke: step 50\nyoke: step 51\n");
    close(fd);
}

static unsigned count(const char *what)
{
    unsigned n = 0;
    for (const char *p = seen; (p = strstr(p, what)) != NULL; p += strlen(what))
        n++;
    return n;
}

static void test_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY), slave = -1;
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0)
        skip_because("there is no terminal to be had");
    capture(slave, master, show);
    assert_null(strstr(seen, "yoke: "));
    assert_int_equal(count("\u2501"), 6); /* a quarter of 24 */
    assert_int_equal(count("\u2500"), 18);
    assert_non_null(strstr(seen, " 25 %  step 50"));
    assert_non_null(strstr(seen, "step 51")); /* of unknown length: no bar */
    assert_null(strchr(seen, '\n'));
    close(slave);
    close(master);
}

static void extremes(struct yk_progress *p)
{
    yk_progress_show(p, 1, 0, "begin");
    yk_progress_show(p, 2, 1, "end");
    yk_progress_show(p, 3, 7, "beyond");
}

static void test_extremes(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY), slave = -1;
    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0)
        skip_because("there is no terminal to be had");
    capture(slave, master, extremes);
    assert_int_equal(count("\u2501"), 48); /* none, all, and no more than all */
    assert_int_equal(count("\u2500"), 24);
    close(slave);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
