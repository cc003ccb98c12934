/* owner_test.c - an owner of a part: it moves its own range and nothing else, by the rate of its
 * step, whatever the pieces. */
#include "strategy/owner.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { N = 100, LO = 30, HI = 70 };

static const struct yk_update CONSTANTS = {
    .momentum = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .beta = 1};

static struct yk_schedule shape(const char *text)
{
    struct yk_schedule s;
    assert_int_equal(yk_schedule_parse(text, &s, NULL), YK_OK);
    return s;
}

/* An owner of [lo, hi) with state of its own, all zero. */
static void owner_open(struct yk_owner *o, const char *optimizer, const char *schedule, double lr,
                       float *w, size_t lo, size_t hi, float state[YK_SLOTS][N])
{
    const struct yk_recipe recipe = {.optimizer = yk_optimizer_find(optimizer),
                                     .schedule = shape(schedule),
                                     .lr = lr,
                                     .constants = CONSTANTS};
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

/* Owners of [0, 30), [30, 70) and [70, 100) together do what one owner of everything does, bit
 * for bit. They share the optimizer's state, too, each its own part. */
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
                assert_memory_equal(shared + CUT[i + 1], before + CUT[i + 1],
                                    (N - CUT[i + 1]) * sizeof(float));
                assert_memory_not_equal(shared + CUT[i], before + CUT[i],
                                        (CUT[i + 1] - CUT[i]) * sizeof(float));
            }
            assert_memory_equal(whole, shared, sizeof whole);
        }
        for (unsigned i = 0; i < yk_optimizer_at(k)->slots; i++)
            assert_memory_equal(slot[i], parts[i], sizeof slot[i]);
    }
}

/* Rate and scale belong to the update: the schedule is asked for the step before it, the
 * gradient is divided by its examples. */
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

/* Blocks are added and applied range by range; the gradient is that of the added up sums, for
 * ranges longer than a chunk too. */
static void test_blocks(void **state)
{
    (void)state;
    enum { MANY = 3 * YK_SUM_CHUNK + 5, OWNED = 17 };
    static float w[MANY], expected[MANY], sum[3][MANY];
    struct yk_owner o;
    const struct yk_recipe recipe = {
        .optimizer = yk_optimizer_find("sgd"), .schedule = shape("constant"), .lr = 0.5};
    const struct yk_block block[] = {
        {0, 2, sum[0], 0}, {2, 3, sum[1] + OWNED, OWNED}, {3, 4, sum[2], 0}};
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
    yk_owner_apply_blocks(&o, block, 4, o.lo, o.hi, 11);
    assert_int_equal(o.step, 0);
    assert_memory_equal(w, expected, sizeof w);
}

/* An owner that holds nothing but its part, and is told keys in any order, does for these keys
 * what one of everything does when it is told ranges of which they are all; a dense step in
 * between is one, too. */
static void test_keys(void **state)
{
    (void)state;
    enum { ALL = 3000, FROM = 1024, TO = 2048, OWN = TO - FROM };
    static float w[ALL], whole[YK_SLOTS][ALL], part[OWN], parts[YK_SLOTS][OWN], g[ALL], out[OWN];
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++) {
        struct yk_recipe recipe = {.optimizer = yk_optimizer_at(k),
                                   .schedule = shape("staircase:0.5:7"),
                                   .lr = 0.1,
                                   .constants = CONSTANTS};
        float *const ws[YK_SLOTS] = {whole[0], whole[1]}, *const ps[YK_SLOTS] = {parts[0],
                                                                                 parts[1]};
        struct yk_owner one, mine;
        struct yk_rng r;
        uint32_t key[OWN];
        float kg[OWN];
        if (recipe.optimizer->apply_keys == NULL)
            continue;
        recipe.constants.l2 = 0.01f;
        yk_rng_init(&r, 9, k, 0, 0);
        memset(whole, 0, sizeof whole);
        memset(parts, 0, sizeof parts);
        for (size_t i = 0; i < ALL; i++)
            w[i] = (float)yk_rng_unit(&r);
        memcpy(part, w + FROM, sizeof part);
        yk_owner_init(&one, &recipe, w, ws, 0, ALL);
        recipe.sparse = true;
        yk_owner_init(&mine, &recipe, part, ps, FROM, TO);
        mine.origin = FROM;
        assert_int_equal(mine.slots, yk_recipe_slots(&recipe));
        for (int step = 0; step < 30; step++) {
            size_t cut = step % 3 == 0 ? 40 : 300;
            for (size_t i = 0; i < ALL; i++)
                g[i] = (float)yk_rng_unit(&r) - 0.5f;
            for (size_t i = 0; i < OWN; i++) {
                key[i] = (uint32_t)(FROM +
                                    (i * 389 + 7) % OWN); /* 389 is odd: all of them, in no order */
                kg[i] = g[key[i]];
            }
            yk_owner_apply(&one, g, 0, 0, ALL, 3);
            if (step % 5 == 4) {
                yk_owner_apply(&mine, g, 0, FROM, TO, 3);
            } else {
                yk_owner_apply_keys(&mine, key, kg, cut, 3);
                yk_owner_apply_keys(&mine, key + cut, kg + cut, OWN - cut, 3);
                yk_owner_apply_keys(&mine, key, kg, 0, 3);
            }
            yk_owner_finish(&one);
            yk_owner_finish(&mine);
            assert_memory_equal(part, w + FROM, sizeof part);
            for (unsigned i = 0; i < recipe.optimizer->slots; i++)
                assert_memory_equal(parts[i], whole[i] + FROM, sizeof parts[i]);
            yk_owner_read_keys(&mine, key, out, cut);
            yk_owner_read_keys(&mine, key + cut, out + cut, OWN - cut);
            for (size_t i = 0; i < OWN; i++)
                assert_memory_equal(&out[i], &part[key[i] - FROM], sizeof(float));
        }
    }
}

/* Keys that are left alone: read, they are what a dense run without a gradient has; read as a
 * range, the same; in memory nothing has happened to them. */
static void test_untouched(void **state)
{
    (void)state;
    static const char *const NAME[] = {"sgd", "adagrad", "momentum"};
    for (size_t k = 0; k < 3; k++) {
        struct yk_recipe recipe = {.optimizer = yk_optimizer_find(NAME[k]),
                                   .schedule = shape("warmup:10,cosine:100"),
                                   .lr = 0.1,
                                   .constants = CONSTANTS};
        float w[N], d[N], ws[YK_SLOTS][N] = {{0}}, ds[YK_SLOTS][N] = {{0}}, g[N], zero[N] = {0},
                          out[N], all[N];
        float *const slot[YK_SLOTS] = {ws[0], ws[1]}, *const dslot[YK_SLOTS] = {ds[0], ds[1]};
        struct yk_owner lazy, dense, moved;
        uint32_t key[N];
        struct yk_rng r;
        recipe.constants.l2 = 0.5f;
        yk_rng_init(&r, 10, k, 0, 0);
        fill(w, &r);
        fill(g, &r);
        memcpy(d, w, sizeof d);
        yk_owner_init(&dense, &recipe, d, dslot, 0, N);
        recipe.sparse = true;
        yk_owner_init(&lazy, &recipe, w, slot, 0, N);
        for (uint32_t i = 0; i < N; i++)
            key[i] = N - 1 - i;
        yk_owner_apply(&lazy, g, 0, 0, N, 1);
        yk_owner_finish(&lazy);
        yk_owner_apply(&dense, g, 0, 0, N, 1);
        yk_owner_finish(&dense);
        assert_memory_equal(w, d, sizeof w);
        for (int step = 1; step < 60; step++) {
            yk_owner_apply_keys(&lazy, key, zero, 0, 1); /* of somebody else's keys */
            yk_owner_finish(&lazy);
            yk_owner_apply(&dense, zero, 0, 0, N, 1);
            yk_owner_finish(&dense);
        }
        moved = lazy; /* an owner may be copied */
        memset(&lazy, 0x5a, sizeof lazy);
        memcpy(all, w, sizeof all);
        yk_owner_read_keys(&moved, key, out, N);
        assert_memory_equal(all, w, sizeof all);
        yk_owner_read(&moved, all, 0, N);
        for (int i = 0; i < N; i++) {
            assert_true(fabsf(all[i] - d[i]) <= 1e-5f &&
                        (fabsf(all[i] - w[i]) > 1e-4f || fabsf(w[i]) < 1e-3f));
            assert_memory_equal(&out[N - 1 - i], &all[i], sizeof(float));
        }
    }
}

/* Parts of the flat parameters: they tile it, on lines of 64 bytes, about equally long, some
 * empty if there are more owners than lines. */
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

/* Biases with a rate, shape, momentum and decay of their own, and statistics: each float moves
 * as in a run in which all do so, bit by bit, whatever the ranges that gradients come in. */
static void test_groups(void **state)
{
    (void)state;
    static const struct yk_span SPAN[] = {{5, 11, YK_BIASES},      {20, 25, YK_STATISTICS},
                                          {25, 30, YK_BIASES},     {30, 31, YK_BIASES},
                                          {40, 70, YK_STATISTICS}, {99, N, YK_BIASES}};
    static const size_t CUT[] = {0, 7, 30, 35, 50, 70, 98, N};
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++) {
        struct yk_recipe recipe = {.optimizer = yk_optimizer_at(k),
                                   .schedule = shape("staircase:0.5:4"),
                                   .lr = 0.1,
                                   .constants = CONSTANTS};
        struct yk_owner alone[2], both;
        float w[3][N], statistic[N], g[N], slot[3][YK_SLOTS][N] = {{{0}}};
        struct yk_rng r;
        yk_rng_init(&r, 8, k, 0, 0);
        fill(w[0], &r);
        memcpy(w[1], w[0], sizeof w[0]);
        memcpy(w[2], w[0], sizeof w[0]);
        memcpy(statistic, w[0], sizeof w[0]);
        recipe.constants.decay = 0.01f;
        yk_owner_init(&alone[0], &recipe, w[0], (float *const[]){slot[0][0], slot[0][1]}, 0, N);
        recipe.span = SPAN;
        recipe.spans = sizeof SPAN / sizeof SPAN[0];
        recipe.bias.lr = 0.2;
        recipe.bias.schedule = shape("constant");
        recipe.bias.momentum = 0.5f;
        recipe.bias.decay = 0;
        yk_owner_init(&both, &recipe, w[2], (float *const[]){slot[2][0], slot[2][1]}, 0, N);
        recipe.lr = recipe.bias.lr;
        recipe.schedule = recipe.bias.schedule;
        recipe.constants.momentum = 0.5f;
        recipe.constants.decay = 0;
        recipe.spans = 0;
        yk_owner_init(&alone[1], &recipe, w[1], (float *const[]){slot[1][0], slot[1][1]}, 0, N);
        for (int step = 0; step < 20; step++) {
            fill(g, &r);
            for (int i = 0; i < N; i++)
                statistic[i] -= 1.0f / 3 * g[i];
            for (int i = 0; i < 2; i++) {
                yk_owner_apply(&alone[i], g, 0, 0, N, 3);
                yk_owner_finish(&alone[i]);
            }
            for (size_t i = sizeof CUT / sizeof CUT[0] - 1; i > 0; i--)
                yk_owner_apply(&both, g, 0, CUT[i - 1], CUT[i], 3);
            yk_owner_finish(&both);
        }
        for (size_t i = 0; i < N; i++) {
            enum yk_group group = YK_WEIGHTS;
            for (size_t b = 0; b < sizeof SPAN / sizeof SPAN[0]; b++)
                group = i >= SPAN[b].lo && i < SPAN[b].hi ? SPAN[b].group : group;
            assert_true(w[2][i] == (group == YK_STATISTICS ? statistic[i] : w[group][i]));
            assert_true(w[0][i] != w[1][i]);
        }
    }
}

/* Each number of the mean is limited, whatever the range is cut into; what is not a number stays
 * so. */
static void test_clip(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    static float w[MANY], g[MANY];
    struct yk_recipe recipe = {.optimizer = yk_optimizer_find("sgd"),
                               .schedule = shape("constant"),
                               .lr = 1,
                               .clip = 0.5f};
    struct yk_owner o;
    yk_owner_init(&o, &recipe, w, (float *const[]){NULL, NULL}, 0, MANY);
    for (int i = 0; i < MANY; i++)
        g[i] = ((float)i - 2500) / 500; /* a sum over four: means from -1.25 to 1.25 */
    g[7] = NAN;
    yk_owner_apply(&o, g, 0, 0, 1700, 4);
    yk_owner_apply(&o, g, 0, 1700, MANY, 4);
    for (int i = 0; i < MANY; i++) {
        float mean = g[i] / 4, limited = mean > 0.5f ? 0.5f : mean < -0.5f ? -0.5f : mean;
        assert_true(i == 7 ? isnan(w[i]) : w[i] == -limited);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards),    cmocka_unit_test(test_rate),
        cmocka_unit_test(test_blocks),    cmocka_unit_test(test_keys),
        cmocka_unit_test(test_untouched), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_groups),    cmocka_unit_test(test_clip)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
