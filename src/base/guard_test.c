/* guard_test.c - files that shrink under their mapping: guarded mappings become zeros, on any
 * thread, and others behave as if there were no guard. Each case runs in its own process, because
 * most cases end it. */
#include "base/guard.h"

#include "base/background.h"
#include "tests/testdir.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { BYTES = 1 << 20, THREADS = 4, FINE = 7, CAUGHT = 9 };

static int enter(void **state)
{
    return testdir_setup(state) == 0 ? chdir(*state) : -1;
}

static int leave(void **state)
{
    return chdir("/") == 0 ? testdir_teardown(state) : -1;
}

/* A mapped file of ones. */
static volatile const char *map_ones(const char *name)
{
    static char ones[BYTES];
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    memset(ones, 1, sizeof ones);
    if (fd < 0 || write(fd, ones, sizeof ones) != (ssize_t)sizeof ones)
        _exit(1);
    void *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        _exit(1);
    return map;
}

static long sum(volatile const char *map)
{
    long all = 0;
    for (long i = BYTES - 1; i >= 0; i--)
        all += map[i];
    return all;
}

/* Runs the function in a new process with the default action for SIGBUS; returns how it ended. */
static int status_of(void (*f)(void))
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL); /* sanitizers have a handler */
        f();
        _exit(FINE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void expect_fine(void (*f)(void))
{
    int status = status_of(f);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), FINE);
}

#define REQUIRE(x) ((x) ? (void)0 : _exit(__LINE__ & 127))

static void shrinks(void)
{
    volatile const char *a = map_ones("a"), *b = map_ones("b");
    unsigned ga = yk_guard((void *)a, BYTES), gb = yk_guard((void *)b, BYTES);
    REQUIRE(ga > 0 && gb > 0 && ga != gb);
    REQUIRE(sum(a) == BYTES && !yk_guard_broken(ga));
    REQUIRE(truncate("a", 4096) == 0);
    REQUIRE(sum(a) == 0); /* the whole mapping, not just the missing part */
    REQUIRE(yk_guard_broken(ga) && !yk_guard_broken(gb) && !yk_guard_broken(0));
    REQUIRE(sum(b) == BYTES);
    yk_unguard(ga);
    REQUIRE(munmap((void *)a, BYTES) == 0);
    unsigned again = yk_guard((void *)b, 4096);
    REQUIRE(again == ga &&
            !yk_guard_broken(again)); /* a new mapping is not broken by the one before */
}

static void *read_all(void *arg)
{
    static _Thread_local long all;
    all = sum(arg);
    return all >= 0 && all <= BYTES ? arg : NULL;
}

static void lane_reads(void *arg)
{
    REQUIRE(sum(arg) == 0);
}

static void shrinks_in_threads(void)
{
    volatile const char *a = map_ones("a");
    unsigned guard = yk_guard((void *)a, BYTES);
    pthread_t thread[THREADS];
    sigset_t before;
    struct yk_background *lane;
    void *ok;
    REQUIRE(truncate("a", 0) == 0);
    yk_block_signals(&before); /* as workers do */
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, read_all, (void *)a) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(thread[i], &ok) == 0 && ok != NULL);
    REQUIRE(yk_guard_broken(guard));
    volatile const char *b = map_ones("b");
    guard = yk_guard((void *)b, BYTES);
    REQUIRE(truncate("b", 0) == 0 && yk_background_open(&lane, "test", NULL) == YK_OK);
    yk_background_post(lane, lane_reads, (void *)b);
    yk_background_close(lane);
    REQUIRE(yk_guard_broken(guard));
}

static void unguarded(void)
{
    volatile const char *a = map_ones("a"), *b = map_ones("b");
    REQUIRE(yk_guard((void *)a, BYTES) > 0);
    REQUIRE(truncate("b", 0) == 0);
    REQUIRE(sum(b) >= 0);
}

static void no_longer_guarded(void)
{
    volatile const char *a = map_ones("a");
    yk_unguard(yk_guard((void *)a, BYTES));
    REQUIRE(truncate("a", 0) == 0);
    REQUIRE(sum(a) >= 0);
}

static void sent(void)
{
    REQUIRE(yk_guard((void *)map_ones("a"), BYTES) > 0);
    kill(getpid(), SIGBUS);
    pause();
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    _exit(CAUGHT);
}

static void handled_before(void)
{
    struct sigaction act = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    volatile const char *a = map_ones("a");
    sigaction(SIGBUS, &act, NULL);
    REQUIRE(yk_guard((void *)a, BYTES) > 0 && truncate("a", 0) == 0 && sum(a) == 0);
    unguarded();
}

static void full(void)
{
    volatile const char *a = map_ones("a");
    unsigned last = 1, n = 0;
    for (; n < 1000 && last > 0; n++)
        last = yk_guard((void *)a, BYTES);
    REQUIRE(last == 0 && n > 100);
    yk_unguard(0);
    yk_unguard(5);
    REQUIRE(yk_guard((void *)a, BYTES) == 5);
}

static void test_zeros(void **state)
{
    (void)state;
    expect_fine(shrinks);
    expect_fine(shrinks_in_threads);
    expect_fine(full);
}

static void test_others_are_not_ours(void **state)
{
    (void)state;
    void (*const ends[])(void) = {unguarded, no_longer_guarded, sent};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        int status = status_of(ends[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGBUS);
    }
    int status = status_of(handled_before);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), CAUGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_zeros, enter, leave),
        cmocka_unit_test_setup_teardown(test_others_are_not_ours, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
