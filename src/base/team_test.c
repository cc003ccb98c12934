/* team_test.c - every part runs once per job, on its own thread, and its results are visible when
 * the job is over. The values are plain memory on purpose: ThreadSanitizer finds any handover that
 * does not order them. */
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 8, NUMBERS = 1000 };

struct sums {
    unsigned parts;
    uint32_t number[NUMBERS];
    uint64_t sum[MOST];
    unsigned runs[MOST];
    pthread_t who[MOST];
    unsigned sleep_us;
};

static void add(void *arg, unsigned part)
{
    struct sums *s = arg;
    if (s->sleep_us > 0 && part > 0)
        usleep(s->sleep_us * part);
    s->runs[part]++;
    s->who[part] = pthread_self();
    s->sum[part] = 0;
    for (unsigned i = NUMBERS * part / s->parts; i < NUMBERS * (part + 1) / s->parts; i++)
        s->sum[part] += s->number[i];
}

/* Runs one job over `parts` and checks that exactly these parts ran, once each. */
static void run(struct yk_team *t, struct sums *s, unsigned parts, uint32_t round)
{
    uint64_t expected = 0, got = 0;
    s->parts = parts;
    for (unsigned i = 0; i < NUMBERS; i++) {
        s->number[i] = i ^ round;
        expected += s->number[i];
    }
    memset(s->runs, 0, sizeof s->runs);
    yk_team_run(t, parts, add, s);
    for (unsigned i = 0; i < MOST; i++) {
        assert_int_equal(s->runs[i], i < parts);
        got += i < parts ? s->sum[i] : 0;
    }
    assert_true(got == expected);
}

static void test_sums(void **state)
{
    (void)state;
    for (unsigned size = 1; size <= 4; size++) {
        struct yk_team *t;
        struct yk_error e;
        struct sums s = {0};
        assert_int_equal(yk_team_open(&t, size, &e), YK_OK);
        assert_int_equal(yk_team_size(t), size);
        for (uint32_t round = 0; round < 2000; round++)
            run(t, &s, 1 + round * 7 % size, round);
        yk_team_close(t);
    }
}

static void test_who(void **state)
{
    (void)state;
    struct yk_team *t;
    struct sums s = {0};
    assert_int_equal(yk_team_open(&t, 4, NULL), YK_OK);
    run(t, &s, 4, 1);
    assert_true(pthread_equal(s.who[0], pthread_self()));
    pthread_t first[4];
    memcpy(first, s.who, sizeof first);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_false(pthread_equal(first[i], first[k]));
    run(t, &s, 4, 2); /* a part stays on its thread, whose cache already holds its data */
    assert_memory_equal(first, s.who, sizeof first);
    yk_team_close(t);
}

/* Helpers that have gone to sleep are woken, and slow ones are waited for. */
static void test_sleepers(void **state)
{
    (void)state;
    struct yk_team *t;
    struct sums s = {0};
    assert_int_equal(yk_team_open(&t, 3, NULL), YK_OK);
    for (uint32_t round = 0; round < 5; round++) {
        usleep(20000); /* long past the spinning */
        s.sleep_us = round % 2 ? 10000 : 0;
        run(t, &s, 3, round);
        run(t, &s, 2, round);
    }
    yk_team_close(t);
}

static void test_open_and_close(void **state)
{
    (void)state;
    struct yk_team *t = NULL;
    struct yk_error e;
    for (unsigned i = 0; i < 100; i++) {
        struct sums s = {0};
        assert_int_equal(yk_team_open(&t, 1 + i % 3, &e), YK_OK);
        if (i % 2) /* also without ever having had a job */
            run(t, &s, 1 + i % 3, i);
        yk_team_close(t);
    }
    yk_team_close(NULL);
    t = NULL;
    assert_int_equal(yk_team_open(&t, 0, &e), YK_USAGE);
    assert_int_equal(yk_team_open(&t, 257, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "257"));
    assert_null(t);
}

static void test_cpus(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(yk_cpus(), CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(yk_cpus(), 1); /* the affinity mask counts, not the machine */
    struct yk_team *t;              /* more threads than cores still finish */
    struct sums s = {0};
    assert_int_equal(yk_team_open(&t, 3, NULL), YK_OK);
    for (uint32_t round = 0; round < 100; round++)
        run(t, &s, 3, round);
    yk_team_close(t);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),     cmocka_unit_test(test_who),
        cmocka_unit_test(test_sleepers), cmocka_unit_test(test_open_and_close),
        cmocka_unit_test(test_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
