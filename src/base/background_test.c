/* background_test.c - jobs run in order, one at a time, on another thread, and their results are
 * visible after a wait. Run it with SAN=thread too. */
#include "base/background.h"

#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct work {
    int runs;      /* plain memory on purpose: the handover must order it */
    int sleep_us;  /* how long the job takes */
    pthread_t who; /* the thread that ran it */
    char name[16]; /* the name of that thread */
    sigset_t mask; /* the signals that it blocks */
};

static void job(void *arg)
{
    struct work *w = arg;
    if (w->sleep_us > 0)
        usleep((unsigned)w->sleep_us);
    w->runs++;
    w->who = pthread_self();
    pthread_getname_np(pthread_self(), w->name, sizeof w->name);
    pthread_sigmask(SIG_SETMASK, NULL, &w->mask);
}

static void test_runs_elsewhere(void **state)
{
    (void)state;
    struct yk_background *b;
    struct yk_error e;
    struct work w = {0};
    assert_int_equal(yk_background_open(&b, "a name that is too long", &e), YK_OK);
    assert_false(yk_background_busy(b));
    yk_background_wait(b); /* nothing posted: at once */
    yk_background_post(b, job, &w);
    yk_background_wait(b);
    assert_false(yk_background_busy(b));
    assert_int_equal(w.runs, 1);
    assert_false(pthread_equal(w.who, pthread_self()));
    assert_string_equal(w.name, "a name that is ");
    assert_true(sigismember(&w.mask, SIGINT));
    yk_background_close(b);
}

static void gate(void *arg)
{
    char byte;
    ssize_t n = read(*(int *)arg, &byte, 1);
    (void)n;
}

static void test_busy(void **state)
{
    (void)state;
    struct yk_background *b;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(yk_background_open(&b, "gate", NULL), YK_OK);
    yk_background_post(b, gate, &pipes[0]);
    usleep(20000);
    assert_true(yk_background_busy(b));
    assert_int_equal(write(pipes[1], "x", 1), 1);
    yk_background_wait(b);
    assert_false(yk_background_busy(b));
    yk_background_close(b);
    close(pipes[0]);
    close(pipes[1]);
}

static void test_post_waits_for_the_job_before(void **state)
{
    (void)state;
    struct yk_background *b;
    struct work first = {.sleep_us = 30000},
                second = first; /* long past the yields: both sides sleep */
    assert_int_equal(yk_background_open(&b, "slow", NULL), YK_OK);
    double t0 = yk_now();
    yk_background_post(b, job, &first);
    yk_background_post(b, job, &second);
    assert_int_equal(first.runs, 1);
    assert_true(yk_now() - t0 >= 0.03);
    yk_background_wait(b);
    assert_int_equal(second.runs, 1);
    usleep(20000); /* the thread sleeps now; posting must wake it */
    yk_background_post(b, job, &first);
    yk_background_wait(b);
    assert_int_equal(first.runs, 2);
    yk_background_close(b);
}

static void test_many_jobs(void **state)
{
    (void)state;
    struct yk_background *b;
    struct work w = {0};
    assert_int_equal(yk_background_open(&b, "many", NULL), YK_OK);
    for (int i = 0; i < 5000; i++) {
        yk_background_post(b, job, &w);
        if (i % 3 == 0) {
            yk_background_wait(b);
            assert_int_equal(w.runs, i + 1);
            w.runs = i + 1; /* the job's memory is the owner's again after a wait */
        }
    }
    yk_background_wait(b);
    assert_int_equal(w.runs, 5000);
    yk_background_close(b);
}

static void test_close_waits(void **state)
{
    (void)state;
    struct yk_background *b;
    struct work w = {.sleep_us = 20000};
    assert_int_equal(yk_background_open(&b, "close", NULL), YK_OK);
    yk_background_post(b, job, &w);
    yk_background_close(b);
    assert_int_equal(w.runs, 1);
    yk_background_close(NULL);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(yk_background_open(&b, "close", NULL), YK_OK);
        yk_background_close(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_elsewhere),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_post_waits_for_the_job_before),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_close_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
