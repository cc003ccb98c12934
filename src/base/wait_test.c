/* wait_test.c - a change ends a wait whether the waiting thread yields or sleeps, a limit holds,
 * and a word can be a lock. Run it with SAN=thread too. */
#include "base/wait.h"

#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static struct yk_wait word;
static int counted; /* plain memory on purpose: the lock of test_lock must order it */

static void change(unsigned value)
{
    atomic_store(&word.value, value);
    yk_wait_wake(&word, YK_WAKE_ALL);
}

static void *change_soon(void *us)
{
    usleep(*(unsigned *)us);
    change(7);
    return NULL;
}

static void test_change(void **state)
{
    (void)state;
    /* at once, while the waiting thread yields, and long after it fell asleep */
    for (unsigned us = 0; us <= 30000; us = us == 0 ? 30 : us * 1000) {
        pthread_t thread;
        change(3);
        assert_int_equal(pthread_create(&thread, NULL, change_soon, &us), 0);
        assert_int_equal(yk_wait_leave(&word, 3), 7);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&word.sleepers), 0);
    }
    assert_int_equal(yk_wait_leave(&word, 3), 7); /* has changed already: no wait */
    assert_true(yk_wait_yield(&word, 3));
    assert_false(yk_wait_yield(&word, 7));
}

static void test_limit(void **state)
{
    (void)state;
    double t0 = yk_now();
    change(1);
    yk_wait_sleep(&word, 1, 0.02);
    assert_true(yk_now() - t0 >= 0.019);
    assert_int_equal(atomic_load(&word.sleepers), 0);
    yk_wait_sleep(&word, 2, INFINITY); /* not the value: no sleep */
}

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        unsigned unlocked = 0;
        while (!atomic_compare_exchange_strong(&word.value, &unlocked, 1)) {
            yk_wait_leave(&word, 1);
            unlocked = 0;
        }
        counted++;
        if (i % 500 == 0)
            usleep(2000); /* long enough for the others to fall asleep */
        atomic_store(&word.value, 0);
        yk_wait_wake(&word, 1);
    }
    return NULL;
}

static void test_lock(void **state)
{
    (void)state;
    pthread_t thread[4];
    change(0);
    counted = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(counted, 4 * 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
