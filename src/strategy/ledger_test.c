/* ledger_test.c - a worker's account: every push counted once, staleness exactly as far as there
 * are buckets, and sums of accounts. */
#include "strategy/ledger.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_counts(void **state)
{
    (void)state;
    struct yk_ledger l = {0};
    assert_true(yk_ledger_mean(&l) == 0 && yk_ledger_quantile(&l, 0.99) == 0);
    yk_ledger_push(&l, 0, 10, 2.5);
    yk_ledger_push(&l, 3, 10, 1.5);
    yk_ledger_push(&l, 3, 4, 1);
    assert_true(l.steps == 3 && l.examples == 24 && l.loss == 5 && l.loss_examples == 24);
    assert_true(l.stale[0] == 1 && l.stale[3] == 2 && l.most == 3);
    assert_true(l.dropped == 0 && l.torn == 0);
    assert_true(yk_ledger_mean(&l) == 2);
}

/* The last bucket holds all that is above; the largest and the mean are still exact. */
static void test_far_behind(void **state)
{
    (void)state;
    struct yk_ledger l = {0};
    yk_ledger_push(&l, YK_STALE - 2, 1, 0);
    yk_ledger_push(&l, YK_STALE - 1, 1, 0);
    yk_ledger_push(&l, YK_STALE, 1, 0);
    yk_ledger_push(&l, 1000000, 1, 0);
    assert_true(l.stale[YK_STALE - 2] == 1 && l.stale[YK_STALE - 1] == 3);
    assert_int_equal(l.most, 1000000);
    assert_true(yk_ledger_mean(&l) == (254 + 255 + 256 + 1000000) / 4.0);
    assert_int_equal(yk_ledger_quantile(&l, 0.25), YK_STALE - 2);
    assert_int_equal(yk_ledger_quantile(&l, 0.26), 1000000); /* no better answer is known */
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Quantiles against a sorted list: the smallest value that at least this part does not exceed. */
static void test_quantiles(void **state)
{
    (void)state;
    static const double P[] = {0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
    struct yk_rng r;
    yk_rng_init(&r, 3, 0, 0, 0);
    for (unsigned n = 1; n <= 300; n++) {
        struct yk_ledger l = {0};
        uint64_t value[300];
        for (unsigned i = 0; i < n; i++) {
            value[i] = yk_rng_below(&r, 1 + yk_rng_below(&r, 200));
            yk_ledger_push(&l, value[i], 1, 0);
        }
        qsort(value, n, sizeof value[0], ascending);
        for (size_t k = 0; k < sizeof P / sizeof P[0]; k++) {
            unsigned rank = (unsigned)ceil(P[k] * n);
            assert_int_equal(yk_ledger_quantile(&l, P[k]), value[rank > 0 ? rank - 1 : 0]);
        }
        assert_int_equal(l.most, value[n - 1]);
    }
}

/* The account of all is the sum of the accounts. */
static void test_add(void **state)
{
    (void)state;
    struct yk_ledger part[3] = {0}, all = {0}, sum = {0};
    struct yk_rng r;
    yk_rng_init(&r, 4, 0, 0, 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t stale = yk_rng_below(&r, 400);
        uint32_t w = yk_rng_below(&r, 3), examples = 1 + yk_rng_below(&r, 100);
        double loss =
            yk_rng_below(&r, 1000); /* whole numbers: the order of adding does not matter */
        yk_ledger_push(&part[w], stale, examples, loss);
        yk_ledger_push(&all, stale, examples, loss);
    }
    part[0].dropped = 1, part[1].dropped = 2, part[2].torn = 5, part[0].torn = 1;
    all.dropped = 3, all.torn = 6;
    for (int w = 0; w < 3; w++)
        yk_ledger_add(&sum, &part[w]);
    assert_memory_equal(&sum, &all, sizeof all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts), cmocka_unit_test(test_far_behind),
        cmocka_unit_test(test_quantiles), cmocka_unit_test(test_add)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
