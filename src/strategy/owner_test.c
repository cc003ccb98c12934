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

/* An owner of [lo, hi) with state of its own, all zero. */
static void owner_open(struct yk_owner *o, const char *optimizer, const char *schedule, double lr, float *w, size_t lo, size_t hi,
                       float state[YK_SLOTS][N])
{
    const struct yk_recipe recipe = {
        .optimizer = yk_optimizer_find(optimizer), .schedule = shape(schedule), .lr = lr, .constants = CONSTANTS};
    float *const slot[YK_SLOTS] = {state[0], state[1]};
    memset(state, 0, sizeof(float[YK_SLOTS][N]));
    yk_owner_init(o, &recipe, w, slot, lo, hi);
    assert_int_equal(o->step, 0);
}

static void fill(float *f, struct yk_rng *r)
{
    for (int i = 0; i < N; i++)
        f[i] = (float)yk_rng_unit(r) - 0.5f;
}

/* Owners of [0, 30), [30, 70) and [70, 100) together do what one owner of everything does, bit for bit. They share the optimizer's
 * state, too, each its own part. */
static void test_shards(void **state)
{
    (void)state;
    static const size_t CUT[] = {0, LO, HI, N};
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++) {
        const char *name = yk_optimizer_at(k)->name;
        struct yk_owner one, part[3];
        float whole[N], shared[N], g[N], slot[YK_SLOTS][N], parts[YK_SLOTS][N];
        struct yk_rng r;
        yk_rng_init(&r, 6, k, 0, 0);
        fill(whole, &r);
        memcpy(shared, whole, sizeof shared);
        owner_open(&one, name, "exponential:0.9:3", 0.1, whole, 0, N, slot);
        for (int i = 0; i < 3; i++)
            owner_open(&part[i], name, "exponential:0.9:3", 0.1, shared, CUT[i], CUT[i + 1], parts);
        for (int step = 0; step < 20; step++) {
            fill(g, &r);
            yk_owner_apply(&one, g, 0, 0, 50, 7); /* in pieces, in any order */
            yk_owner_apply(&one, g + 60, 60, 60, N, 7);
            yk_owner_apply(&one, g + 10, 10, 50, 60, 7);
            assert_int_equal(one.step, step);
            yk_owner_finish(&one);
            assert_int_equal(one.step, step + 1);
            for (int i = 0; i < 3; i++) {
                float before[N];
                memcpy(before, shared, sizeof before);
                yk_owner_apply(&part[i], g, 0, CUT[i], CUT[i + 1], 7);
                yk_owner_finish(&part[i]);
                assert_memory_equal(shared, before, CUT[i] * sizeof(float));
                assert_memory_equal(shared + CUT[i + 1], before + CUT[i + 1], (N - CUT[i + 1]) * sizeof(float));
                assert_memory_not_equal(shared + CUT[i], before + CUT[i], (CUT[i + 1] - CUT[i]) * sizeof(float));
            }
            assert_memory_equal(whole, shared, sizeof whole);
        }
        for (unsigned i = 0; i < yk_optimizer_at(k)->slots; i++)
            assert_memory_equal(slot[i], parts[i], sizeof slot[i]);
    }
}

/* Rate and scale belong to the update: the schedule is asked for the step before it, the gradient is divided by its examples. */
static void test_rate(void **state)
{
    (void)state;
    static const double EXPECTED[] = {0.5, 1, 0.5, 0.5, 0.25}; /* of lr 1 */
    float w = 0, g = 3, slot[YK_SLOTS][N];
    struct yk_owner o;
    owner_open(&o, "sgd", "warmup:2,staircase:0.5:2", 1, &w, 0, 1, slot);
    for (int step = 0; step < 5; step++) {
        float before = w;
        yk_owner_apply(&o, &g, 0, 0, 1, 3);
        assert_true((double)o.update.lr == EXPECTED[step]);
        assert_int_equal(o.update.step, step);
        yk_owner_finish(&o);
        assert_true(fabs((double)(before - w) - EXPECTED[step]) < 1e-6);
    }
    o.step = 0; /* a snapshot brings an earlier step back, and its rate */
    yk_owner_apply(&o, &g, 0, 0, 1, 6);
    assert_true((double)o.update.lr == EXPECTED[0] && (double)o.update.scale == (double)(1.0f / 6));
}

/* Blocks are added and applied range by range; the gradient is that of the added up sums, for ranges longer than a chunk too. */
static void test_blocks(void **state)
{
    (void)state;
    enum { MANY = 3 * YK_SUM_CHUNK + 5, OWNED = 17 };
    static float w[MANY], expected[MANY], sum[3][MANY];
    struct yk_owner o;
    const struct yk_recipe recipe = {.optimizer = yk_optimizer_find("sgd"), .schedule = shape("constant"), .lr = 0.5};
    const struct yk_block block[] = {{0, 2, sum[0], 0}, {2, 3, sum[1] + OWNED, OWNED}, {3, 4, sum[2], 0}};
    struct yk_rng r;
    yk_rng_init(&r, 8, 0, 0, 0);
    for (size_t i = 0; i < MANY; i++) {
        w[i] = expected[i] = (float)yk_rng_unit(&r);
        for (int k = 0; k < 3; k++)
            sum[k][i] = (float)yk_rng_unit(&r);
        if (i >= OWNED && i < MANY - 1)
            expected[i] -= 0.5f * (1.0f / 11) * (sum[0][i] + (sum[1][i] + sum[2][i]));
    }
    yk_owner_init(&o, &recipe, w, NULL, OWNED, MANY - 1);
    yk_owner_apply_blocks(&o, block, 4, 11);
    assert_int_equal(o.step, 0);
    assert_memory_equal(w, expected, sizeof w);
}

/* Parts of the flat parameters: they tile it, on lines of 64 bytes, about equally long, some empty if there are more owners than lines. */
static void test_parts(void **state)
{
    (void)state;
    static const size_t COUNT[] = {1, 15, 16, 17, 320, 7856, 61000000};
    for (size_t c = 0; c < sizeof COUNT / sizeof COUNT[0]; c++)
        for (unsigned n = 1; n <= 256; n++) {
            size_t lines = (COUNT[c] + 15) / 16;
            assert_int_equal(yk_owner_at(0, n, COUNT[c]), 0);
            assert_int_equal(yk_owner_at(n, n, COUNT[c]), COUNT[c]);
            for (unsigned k = 0; k < n; k++) {
                size_t lo = yk_owner_at(k, n, COUNT[c]), hi = yk_owner_at(k + 1, n, COUNT[c]);
                assert_true(lo <= hi && (lo % 16 == 0 || lo == COUNT[c]));
                assert_in_range((hi - lo + 15) / 16, lines / n, (lines + n - 1) / n);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shards), cmocka_unit_test(test_rate), cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
