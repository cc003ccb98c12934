/* owner_test.c - an owner of a part: it moves its own range and nothing else, by the rate of its step, whatever the pieces. */
#include "strategy/owner.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { N = 100, LO = 30, HI = 70 };

static const struct yk_update CONSTANTS = {.momentum = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};

static struct yk_schedule shape(const char *text)
{
    struct yk_schedule s;
    assert_int_equal(yk_schedule_parse(text, &s, NULL), YK_OK);
    return s;
}

static void fill(float *f, struct yk_rng *r)
{
    for (int i = 0; i < N; i++)
        f[i] = (float)yk_rng_unit(r) - 0.5f;
}

/* Owners of [0, 30), [30, 70) and [70, 100) together do what one owner of everything does, bit for bit. */
static void test_shards(void **state)
{
    (void)state;
    const struct yk_schedule decay = shape("exponential:0.9:3");
    static const size_t CUT[] = {0, LO, HI, N};
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++) {
        const struct yk_optimizer_ops *o = yk_optimizer_at(k);
        struct yk_owner one, part[3];
        float whole[N], shared[N], g[N];
        struct yk_rng r;
        yk_rng_init(&r, 6, k, 0, 0);
        fill(whole, &r);
        memcpy(shared, whole, sizeof shared);
        assert_int_equal(yk_owner_init(&one, o, &decay, 0.1, &CONSTANTS, whole, 0, N, NULL), YK_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(yk_owner_init(&part[i], o, &decay, 0.1, &CONSTANTS, shared, CUT[i], CUT[i + 1], NULL), YK_OK);
        for (int step = 0; step < 20; step++) {
            fill(g, &r);
            yk_owner_begin(&one, 7);
            yk_owner_apply(&one, g, 0, 50); /* in pieces, in any order */
            yk_owner_apply(&one, g, 60, N);
            yk_owner_apply(&one, g, 50, 60);
            assert_int_equal(one.step, step);
            yk_owner_finish(&one);
            assert_int_equal(one.step, step + 1);
            for (int i = 0; i < 3; i++) {
                float before[N];
                memcpy(before, shared, sizeof before);
                yk_owner_begin(&part[i], 7);
                yk_owner_apply(&part[i], g, CUT[i], CUT[i + 1]);
                yk_owner_finish(&part[i]);
                assert_memory_equal(shared, before, CUT[i] * sizeof(float));
                assert_memory_equal(shared + CUT[i + 1], before + CUT[i + 1], (N - CUT[i + 1]) * sizeof(float));
                assert_memory_not_equal(shared + CUT[i], before + CUT[i], (CUT[i + 1] - CUT[i]) * sizeof(float));
            }
            assert_memory_equal(whole, shared, sizeof whole);
        }
        for (int i = 0; i < 3; i++)
            yk_owner_release(&part[i]);
        yk_owner_release(&one);
        yk_owner_release(&one); /* harmless */
    }
}

/* Rate and scale belong to the update: the schedule is asked for the step before it, the gradient is divided by its examples. */
static void test_rate(void **state)
{
    (void)state;
    const struct yk_schedule stairs = shape("warmup:2,staircase:0.5:2");
    static const double EXPECTED[] = {0.5, 1, 0.5, 0.5, 0.25}; /* of lr 1 */
    float w = 0, g = 3;
    struct yk_owner o;
    assert_int_equal(yk_owner_init(&o, yk_optimizer_find("sgd"), &stairs, 1, &CONSTANTS, &w, 0, 1, NULL), YK_OK);
    for (int step = 0; step < 5; step++) {
        float before = w;
        yk_owner_begin(&o, 3);
        assert_true((double)o.update.lr == EXPECTED[step]);
        assert_int_equal(o.update.step, step);
        yk_owner_apply(&o, &g, 0, 1);
        yk_owner_finish(&o);
        assert_true(fabs((double)(before - w) - EXPECTED[step]) < 1e-6);
    }
    yk_owner_release(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shards), cmocka_unit_test(test_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
