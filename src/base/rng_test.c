/* rng_test.c - streams depend on their key alone, keys do not collide, and draws are uniform. The
 * first numbers of one stream are fixed here, because changing them would change every shuffle and
 * with it every published result. */
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* xoshiro256++ from its definition: result = rotl(s0 + s3, 23) + s0. */
static uint64_t slow_next(uint64_t s[4])
{
    uint64_t sum = s[0] + s[3], out = (sum << 23 | sum >> 41) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return out;
}

static void test_generator(void **state)
{
    (void)state;
    struct yk_rng r = {{1, 2, 3, 4}};
    uint64_t s[4] = {1, 2, 3, 4};
    assert_true(yk_rng_next(&r) == 41943041u); /* the published first output for this state */
    slow_next(s);
    for (int i = 0; i < 1000; i++)
        assert_true(yk_rng_next(&r) == slow_next(s));
}

static void test_key_decides(void **state)
{
    (void)state;
    struct yk_rng a, b;
    yk_rng_init(&a, 1, 2, 3, 4);
    yk_rng_init(&b, 1, 2, 3, 4);
    assert_true(yk_rng_next(&a) == 4521299757645133901u && yk_rng_next(&b) == 4521299757645133901u);
    for (int i = 0; i < 100; i++)
        assert_true(yk_rng_next(&a) == yk_rng_next(&b));
    uint64_t first[5 * 5 * 5 * 5];
    size_t n = 0;
    for (uint64_t key = 0; key < 625; key++) {
        yk_rng_init(&a, key % 5, key / 5 % 5, key / 25 % 5, key / 125);
        first[n] = yk_rng_next(&a);
        for (size_t i = 0; i < n; i++)
            assert_true(first[i] != first[n]);
        n++;
    }
}

static void test_below_is_uniform(void **state)
{
    (void)state;
    struct yk_rng r;
    yk_rng_init(&r, 42, 0, 0, 0);
    enum { SIDES = 7, DRAWS = 70000 };
    int seen[SIDES] = {0};
    for (int i = 0; i < DRAWS; i++) {
        uint32_t v = yk_rng_below(&r, SIDES);
        assert_true(v < SIDES);
        seen[v]++;
    }
    for (int i = 0; i < SIDES; i++) /* 10,000 expected, standard deviation 93 */
        assert_in_range(seen[i], 9500, 10500);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(yk_rng_below(&r, 1), 0);
        assert_true(yk_rng_below(&r, 3000000000u) < 3000000000u);
    }
}

static void test_unit(void **state)
{
    (void)state;
    struct yk_rng r;
    double sum = 0;
    yk_rng_init(&r, 7, 0, 0, 0);
    for (int i = 0; i < 100000; i++) {
        double v = yk_rng_unit(&r);
        assert_true(v >= 0 && v < 1);
        sum += v;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generator),
        cmocka_unit_test(test_key_decides),
        cmocka_unit_test(test_below_is_uniform),
        cmocka_unit_test(test_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
