/* memory_test.c - the free memory of the machine, and the part that a control group allows. The
 * source is included, not linked, so that the kernel's files can be replaced. */
#include "base/memory.c" /* NOLINT(bugprone-suspicious-include) */

#include "base/file.h"
#include "tests/skip.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void put(void **state, const char *name, const char *text)
{
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s%s", (char *)*state, name), YK_OK);
    assert_int_equal(yk_file_write(path, text, strlen(text), NULL), YK_OK);
}

static void make_folders(void **state)
{
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s/proc", (char *)*state), YK_OK);
    assert_int_equal(yk_mkdirs(path, NULL), YK_OK);
    assert_int_equal(yk_path(path, NULL, "%s/sys/fs/cgroup/memory", (char *)*state), YK_OK);
    assert_int_equal(yk_mkdirs(path, NULL), YK_OK);
}

/* Files of /proc report a size of 0 and are not empty. */
static void this_machine_is_asked(void **state)
{
    (void)state;
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    if (f == NULL)
        skip_because("there is no /proc/meminfo");
    while (fgets(line, sizeof line, f) != NULL && sscanf(line, "MemTotal: %llu", &kib) != 1)
        ;
    fclose(f);
    assert_true(yk_memory_free() <= kib * 1024);
    assert_int_not_equal(yk_memory_free(),
                         (uint64_t)1 << 30); /* the guess for kernels that do not say */
}

static void control_groups_have_used_some(void **state)
{
    make_folders(state);
    assert_int_equal(free_below(*state), (uint64_t)1 << 30);
    put(state, "/proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    8000 kB\n");
    assert_int_equal(free_below(*state), 8000 * 1024);
    put(state, "/sys/fs/cgroup/memory.max", "max\n");
    put(state, "/sys/fs/cgroup/memory.current", "3000000\n");
    put(state, "/sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 500000\n");
    assert_int_equal(free_below(*state), 8000 * 1024);
    put(state, "/sys/fs/cgroup/memory.max", "7000000\n");
    assert_int_equal(free_below(*state), 4500000);
    put(state, "/sys/fs/cgroup/memory.max", "2000000\n");
    assert_int_equal(free_below(*state), 0);
    put(state, "/sys/fs/cgroup/memory.max", "max\n");
    put(state, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    put(state, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    assert_int_equal(free_below(*state), 4000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_machine_is_asked),
        cmocka_unit_test_setup_teardown(control_groups_have_used_some, testdir_setup,
                                        testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
