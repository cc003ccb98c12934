/* schedule_test.c - texts that the grammar accepts and refuses, and every shape at its turning
 * points. */
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double rate(const char *text, double lr, uint64_t step)
{
    struct yk_schedule s;
    struct yk_error e = {0};
    if (yk_schedule_parse(text, &s, &e) != YK_OK)
        fail_msg("%s", e.text);
    return yk_schedule_at(&s, lr, step);
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t step;
        double expected; /* for lr = 2 */
    } AT[] = {
        {"constant", 0, 2},
        {"constant", UINT64_MAX, 2},
        {"staircase:0.5:1000", 0, 2},
        {"staircase:0.5:1000", 999, 2},
        {"staircase:0.5:1000", 1000, 1},
        {"staircase:0.5:1000", 1999, 1},
        {"staircase:0.5:1000", 3000, 0.25},
        {"staircase:0.5:2.5", 2, 2}, /* every is a real number: stairs at 2.5, 5, 7.5 */
        {"staircase:0.5:2.5", 3, 1},
        {"staircase:0.5:2.5", 4, 1},
        {"staircase:0.5:2.5", 5, 0.5},
        {"staircase:0.5:2.5", 7, 0.5},
        {"staircase:0.5:2.5", 8, 0.25},
        {"stairs:4:250:3000", 0, 2}, /* as published for AlexNet: three falls that make a 250th */
        {"stairs:4:250:3000", 999, 2},
        {"stairs:4:250:3000", 1000, 0.3174802104},
        {"stairs:4:250:3000", 2000, 0.0503968420},
        {"stairs:4:250:3000", 3000, 0.008},
        {"stairs:2:10:500", 499, 2}, /* and for its biases */
        {"stairs:2:10:500", 500, 0.2},
        {"exponential:0.25:1000", 0, 2},
        {"exponential:0.25:1000", 500, 1},
        {"exponential:0.25:1000", 1, 1.9972293321},
        {"exponential:0.25:1000", 1500, 0.25},
        {"exponential:2:10", 20, 8}, /* may rise */
        {"cosine:1000", 0, 2},
        {"cosine:1000", 250, 1.7071067812},
        {"cosine:1000", 500, 1},
        {"cosine:1000", 1000, 0},
        {"cosine:1000", 1500, 0}, /* and stays */
        {"cosine:1000:0.5", 0, 2},
        {"cosine:1000:0.5", 500, 1.25},
        {"cosine:1000:0.5", 1000, 0.5},
        {"cosine:1000:0.5", 123456, 0.5},
        {"cosine:1000:0", 1000, 0},
        {"warmup:4", 0, 0.5}, /* equal parts, the first step is not zero, the fourth is whole */
        {"warmup:4", 1, 1},
        {"warmup:4", 2, 1.5},
        {"warmup:4", 3, 2},
        {"warmup:4", 4, 2},
        {"warmup:4,constant", 2, 1.5},
        {"warmup:4,staircase:0.5:2", 1, 1}, /* times the shape, which has begun */
        {"warmup:4,staircase:0.5:2", 2, 0.75},
        {"warmup:4,staircase:0.5:2", 3, 1},
        {"warmup:4,staircase:0.5:2", 4, 0.5},
        {"warmup:100,cosine:1000:0.5", 500, 1.25},
    };
    for (size_t i = 0; i < sizeof AT / sizeof AT[0]; i++) {
        double got = rate(AT[i].text, 2, AT[i].step);
        if (!(fabs(got - AT[i].expected) <= 1e-8))
            fail_msg("%s at %llu: %.10g, not %.10g", AT[i].text, (unsigned long long)AT[i].step,
                     got, AT[i].expected);
    }
}

/* A rate is never above the user's, whatever the length of the warm-up. */
static void test_warmup_stays_below(void **state)
{
    (void)state;
    static const char *const TEXT[] = {"warmup:0.5", "warmup:1", "warmup:2.5",
                                       "warmup:3.9,cosine:100"};
    for (size_t i = 0; i < sizeof TEXT / sizeof TEXT[0]; i++)
        for (uint64_t step = 0; step < 10; step++)
            assert_true(rate(TEXT[i], 2, step) <= 2);
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",
        "linear",
        "Constant",
        "constant ",
        "constant:1",
        "constantly",
        "staircase",
        "staircase:0.5",
        "staircase:0.5:",
        "staircase:0.5:0",
        "staircase:0:1000",
        "staircase:-1:1000",
        "staircase:0.5:1000:1",
        "staircase:0.5,1000",
        "staircase:nan:1000",
        "staircase:0.5:inf",
        "staircase:x:1000",
        "stairs",
        "stairs:4:250",
        "stairs:1:250:3000",
        "stairs:2.5:250:3000",
        "stairs:4:0:3000",
        "stairs:4:250:0",
        "stairs:4:250:3000:1",
        "exponential",
        "exponential:0.96",
        "exponential:0.96:-5",
        "exponential:0.96:1000x",
        "cosine",
        "cosine:",
        "cosine:0",
        "cosine:1000:",
        "cosine:1000:-0.1",
        "cosine:1000:0.1:2",
        "warmup",
        "warmup:",
        "warmup:0",
        "warmup:-3",
        "warmup:10,",
        "warmup:10constant",
        "warmup:10,warmup:10",
        "warmup:10,staircase",
        "cosine:10,warmup:10",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct yk_schedule s = {.warmup = 42};
        struct yk_error e = {0};
        if (yk_schedule_parse(BAD[i], &s, &e) != YK_USAGE)
            fail_msg("'%s' was taken for a schedule", BAD[i]);
        assert_non_null(strstr(e.text, BAD[i]));
        assert_non_null(strstr(e.hint, "cosine:STEPS"));
        assert_true(s.warmup == 42); /* untouched */
    }
}

/* The closed forms against plain sums, over short and long stretches with any start. */
static void test_sums(void **state)
{
    (void)state;
    static const char *const TEXT[] = {
        "constant",
        "staircase:0.5:1000",
        "staircase:0.9:7",
        "staircase:0.5:2.5",
        "staircase:1.01:33",
        "staircase:0.25:1e9",
        "staircase:1:10",
        "exponential:0.96:1000",
        "exponential:0.5:1",
        "exponential:1:50",
        "exponential:1.5:900",
        "exponential:0.9:1e12",
        "cosine:1000",
        "cosine:1234.5:0.25",
        "cosine:3",
        "cosine:1e9",
        "warmup:100",
        "warmup:2.5",
        "warmup:700,cosine:1500:1",
        "warmup:1e6,exponential:0.9:1e12",
        "warmup:0.5",
        "warmup:300,staircase:0.7:9",
        "warmup:50,cosine:20",
        "warmup:500,exponential:0.96:100",
    };
    for (size_t i = 0; i < sizeof TEXT / sizeof TEXT[0]; i++) {
        struct yk_schedule s;
        struct yk_prefix prefix;
        assert_int_equal(yk_schedule_parse(TEXT[i], &s, NULL), YK_OK);
        yk_prefix_init(&prefix, &s, 2);
        assert_true(yk_prefix_at(&prefix, 0) == 0);
        for (uint64_t from = 0; from < 2000; from += 1 + from / 3)
            for (uint64_t n = 0; n < 1700; n += 1 + n / 4) {
                double expected = 0;
                for (uint64_t k = from; k < from + n; k++)
                    expected += yk_schedule_at(&s, 2, k);
                double got = yk_schedule_sum(&s, 2, from, from + n);
                if (!(fabs(got - expected) <= 1e-9 * expected + 1e-14 * (double)n))
                    fail_msg("%s over [%d, +%d): %.17g, not %.17g", TEXT[i], (int)from, (int)n, got,
                             expected);
                double whole = yk_prefix_at(&prefix, from + n),
                       difference = whole - yk_prefix_at(&prefix, from);
                if (!(fabs(difference - expected) <= 1e-9 * expected + 1e-12 * whole))
                    fail_msg("%s over [%d, +%d): prefixes give %.17g, not %.17g", TEXT[i],
                             (int)from, (int)n, difference, expected);
            }
    }
}

/* Sums over far too many steps to add one by one: no step is skipped and nothing overflows. */
static void test_long_sums(void **state)
{
    (void)state;
    struct yk_schedule s;
    const uint64_t far = UINT64_C(1) << 40;
    assert_int_equal(yk_schedule_parse("constant", &s, NULL), YK_OK);
    assert_true(yk_schedule_sum(&s, 0.5, far, 3 * far) == (double)far);
    assert_int_equal(yk_schedule_parse("exponential:0.5:1000", &s, NULL), YK_OK);
    double half = pow(0.5, 1e-3);
    assert_true(fabs(yk_schedule_sum(&s, 1, 0, far) * (1 - half) - 1) < 1e-9);
    assert_true(yk_schedule_sum(&s, 1, far, far + 1000) == 0); /* below the smallest number */
    assert_int_equal(yk_schedule_parse("staircase:0.999:10", &s, NULL),
                     YK_OK); /* many more stairs than are added one by one */
    assert_true(
        fabs(yk_schedule_sum(&s, 1, 0, 100000) / (10 * (1 - pow(0.999, 10000)) / (1 - 0.999)) - 1) <
        1e-9);
    assert_int_equal(yk_schedule_parse("cosine:1000000", &s, NULL), YK_OK);
    assert_true(fabs(yk_schedule_sum(&s, 1, 0, far) - 500000.5) < 1e-3);
    assert_int_equal(yk_schedule_parse("warmup:1000000000", &s, NULL), YK_OK);
    assert_true(fabs(yk_schedule_sum(&s, 1, 0, 2000000000) - 1500000000.5) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_warmup_stays_below),
        cmocka_unit_test(test_sums), cmocka_unit_test(test_long_sums),
        cmocka_unit_test(test_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
