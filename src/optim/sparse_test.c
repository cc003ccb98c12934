/* sparse_test.c - sparse steps: the bits of dense steps if every key is touched, in any order; the
 * catching up of untouched keys, against the formulas applied to every key at every step; and
 * values at the edges of float. */
#include "optim/optim.h"

#include "base/opt.h"
#include "base/rng.h"
#include "tests/formulas.h"

#include <float.h>
#include <stdlib.h>

enum { N = 203, BASE = 1000, STEPS = 1000 }; /* no multiple of a strip or a vector */

struct sparse_weights {
    float w[N], slot[YK_SLOTS][N];
};

/* Constants of every kind that an optimizer may have; `t` counts the ways to regularize. */
enum { WAYS = 4 };
static bool constants(struct yk_update *u, const struct yk_optimizer_ops *o, unsigned t)
{
    *u = (struct yk_update){
        .lr = (float)o->lr, .scale = 0.5f, .momentum = 0.9f, .eps = 1e-8f, .beta = 1};
    u->l1 = t & 1 ? 0.01f : 0;
    u->l2 = t & 2 ? 0.05f : 0;
    return o->apply_keys != NULL && (u->l1 == 0 || yk_choice_has(o->uses, "l1")) &&
           (u->l2 == 0 || yk_choice_has(o->uses, "l2"));
}

static void slots_of(struct sparse_weights *s, float **slot)
{
    for (unsigned k = 0; k < YK_SLOTS; k++)
        slot[k] = s->slot[k];
}

static void begin(struct sparse_weights *s, struct yk_rng *r)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N; i++)
        s->w[i] = (float)(yk_rng_unit(r) - 0.5);
}

/* All keys or, if `rare`, some of them, in random order; the larger i, the rarer key i. */
static size_t some_keys(struct yk_rng *r, uint32_t *key, bool rare)
{
    size_t n = 0;
    for (uint32_t i = 0; i < N; i++)
        if (!rare || yk_rng_below(r, 1 + i) == 0)
            key[n++] = BASE + i;
    for (size_t i = n; i > 1; i--) {
        size_t j = yk_rng_below(r, (uint32_t)i);
        uint32_t k = key[j];
        key[j] = key[i - 1];
        key[i - 1] = k;
    }
    return n;
}

/* Every key at every step: once by range, once by unsorted keys, once by keys in calls of any
 * length. */
static void test_bits(void **state)
{
    (void)state;
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++)
        for (unsigned t = 0; t < WAYS; t++) {
            const struct yk_optimizer_ops *o = yk_optimizer_at(k);
            struct yk_update u, lazy;
            struct sparse_weights dense, keys, pieces;
            struct yk_rng r;
            float *ds[YK_SLOTS], *ks[YK_SLOTS], *ps[YK_SLOTS];
            if (!constants(&u, o, t))
                continue;
            yk_rng_init(&r, 1, k, t, 0);
            begin(&dense, &r);
            keys = pieces = dense;
            slots_of(&dense, ds);
            slots_of(&keys, ks);
            slots_of(&pieces, ps);
            for (uint64_t step = 0; step < 200; step++) {
                float g[N], kg[N], out[N];
                uint32_t key[N];
                u.step = step;
                lazy = u;
                lazy.lazy = yk_optimizer_slots(o, &u, true) > o->slots;
                assert_int_equal(some_keys(&r, key, false), N);
                for (int i = 0; i < N; i++)
                    g[i] = (float)((yk_rng_unit(&r) - 0.4) * pow(10, yk_rng_unit(&r) * 4 - 2));
                for (int i = 0; i < N; i++)
                    kg[i] = g[key[i] - BASE];
                o->read_keys(&lazy, keys.w, ks, BASE, key, out, N);
                for (int i = 0; i < N; i++)
                    assert_memory_equal(&out[i], &dense.w[key[i] - BASE], sizeof(float));
                o->apply(&u, dense.w, g, ds, N);
                o->apply_keys(&lazy, keys.w, ks, BASE, key, kg, N);
                for (size_t i = 0, m; i < N; i += m) {
                    m = yk_rng_below(&r, 70);
                    m = m < N - i ? m : N - i;
                    o->apply_keys(&lazy, pieces.w, ps, BASE, key + i, kg + i, m);
                }
                assert_memory_equal(dense.w, keys.w, sizeof dense.w);
                for (unsigned j = 0; j < o->slots; j++)
                    assert_memory_equal(dense.slot[j], keys.slot[j], sizeof dense.slot[j]);
                assert_memory_equal(&keys, &pieces, sizeof keys);
            }
        }
}

/* Touches a few keys per step and reads all of them at times. The result must be as if the
 * formula had been applied to all keys at every step, with no gradient for most. */
static void follow(const struct yk_optimizer_ops *o, const struct yk_update *constant,
                   const char *schedule, double within)
{
    struct yk_update u = *constant;
    struct yk_schedule shape;
    struct sparse_weights s;
    struct yk_rng r;
    double w[N], m[N] = {0}, v[N] = {0}, most[N] = {0}, base = (double)u.lr;
    float *slot[YK_SLOTS], before[N], out[N];
    unsigned moved = 0;
    assert_int_equal(yk_schedule_parse(schedule, &shape, NULL), YK_OK);
    yk_rng_init(&r, 2, 0, 0, 0);
    begin(&s, &r);
    slots_of(&s, slot);
    u.lazy = yk_optimizer_slots(o, &u, true) > o->slots;
    u.schedule = shape.shape == YK_CONSTANT && shape.warmup == 0 ? NULL : &shape;
    u.base_lr = base;
    for (int i = 0; i < N; i++)
        w[i] = (double)s.w[i];
    for (uint64_t step = 0; step < STEPS; step++) {
        uint32_t key[N];
        float g[N];
        double all[N] = {0}, lr = yk_schedule_at(&shape, base, step);
        u.step = step;
        u.lr = (float)lr;
        if (step % 50 == 49 || step < 3) {
            memcpy(before, s.w, sizeof before);
            o->read_keys(&u, s.w, slot, 0, NULL, out, N);
            assert_memory_equal(before, s.w, sizeof before);
            for (int i = 0; i < N; i++) {
                double scale = fmax(most[i], 1e-3);
                if (!(fabs((double)out[i] - w[i]) <= within * scale))
                    fail_msg("%s, l1 %g, l2 %g, %s, step %d, key %d: %.9g, not %.9g", o->name,
                             (double)u.l1, (double)u.l2, schedule, (int)step, i, (double)out[i],
                             w[i]);
                moved += out[i] != s.w[i];
            }
        }
        size_t n = some_keys(&r, key, true);
        for (size_t i = 0; i < n; i++)
            all[key[i] - BASE] = (double)(g[i] = (float)(4 * yk_rng_unit(&r) - 1.8));
        o->apply_keys(&u, s.w, slot, BASE, key, g, n);
        for (int i = 0; i < N; i++) {
            most[i] = fmax(most[i], fabs(w[i]));
            formula(o->name, &u, lr, &w[i], all[i], &m[i], &v[i]);
        }
    }
    assert_true(u.lazy ? moved > 500 : moved == 0); /* there was something to catch up */
    memcpy(before, s.w, sizeof before);
    o->read_keys(&u, s.w, slot, 0, NULL, out, N);
    o->read_keys(&u, s.w, slot, 0, NULL, s.w, N); /* in place */
    assert_memory_equal(out, s.w, sizeof out);
}

static void test_lazy(void **state)
{
    (void)state;
    unsigned tried = 0;
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++)
        for (unsigned t = 0; t < WAYS; t++) {
            struct yk_update u;
            if (!constants(&u, yk_optimizer_at(k), t))
                continue;
            follow(yk_optimizer_at(k), &u, "constant", 1e-5);
            tried++;
        }
    assert_true(tried >= 14); /* sgd, adagrad and ftrl four each, momentum two */
}

static void test_schedules(void **state)
{
    (void)state;
    static const char *const TEXT[] = {"staircase:0.7:90", "exponential:0.5:300",
                                       "cosine:800:0.001", "warmup:200,constant",
                                       "warmup:100,exponential:0.9:50"};
    for (size_t i = 0; i < sizeof TEXT / sizeof TEXT[0]; i++)
        for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++)
            for (unsigned t = 0; t < WAYS; t++) {
                struct yk_update u;
                bool pieces = strcmp(yk_optimizer_at(k)->name, "momentum") == 0; /* at mean rates */
                if (constants(&u, yk_optimizer_at(k), t))
                    follow(yk_optimizer_at(k), &u, TEXT[i], pieces ? 5e-5 : 1e-5);
            }
}

/* A step number beyond 32 bits, and a key that the current step has touched already. */
static void test_far_steps(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("sgd");
    struct yk_update u = {
        .lr = 0.5f, .scale = 1, .l2 = 0.01f, .lazy = true, .step = (UINT64_C(1) << 32) - 2};
    float w = 1, seen = 0, g = 0, out, *slot[YK_SLOTS] = {&seen};
    const uint32_t key = 0;
    for (int i = 0; i < 4; i++, u.step++)
        o->apply_keys(
            &u, &w, slot, 0, &key, &g,
            1); /* the first one catches up 2^32 - 2 steps: too many to be told from few */
    float start = w;
    assert_true(start > 0.9f);
    u.step += 100;
    o->read_keys(&u, &w, slot, 0, &key, &out, 1);
    assert_true(fabs((double)out - (double)start * exp(-0.01 * 0.5 * 100)) < 1e-6);
    o->apply_keys(&u, &w, slot, 0, &key, &g, 1);
    o->read_keys(&u, &w, slot, 0, &key, &out, 1); /* in the same step */
    assert_true(out == w && fabs((double)w - (double)start * exp(-0.01 * 0.5 * 101)) < 1e-6);
}

/* Only infinite or NaN inputs give such results, and zero stays zero. */
static void test_extremes(void **state)
{
    (void)state;
    static const float G[] = {0, -0.0f, FLT_TRUE_MIN, 1e-30f, -1e-20f, 1, -1e10f, 1e18f};
    static const float L[] = {0, 1e-30f, 1e-6f, 1, 1e6f};
    enum { GS = sizeof G / sizeof G[0], LS = sizeof L / sizeof L[0] };
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++)
        for (unsigned a = 0; a < LS * LS; a++) {
            const struct yk_optimizer_ops *o = yk_optimizer_at(k);
            struct yk_update u = {.lr = 0.1f,
                                  .scale = 1,
                                  .momentum = 0.9f,
                                  .eps = 1e-8f,
                                  .beta = 1,
                                  .l1 = L[a / LS],
                                  .l2 = L[a % LS]};
            float w[GS] = {0}, x[GS] = {0}, y[GS] = {0}, *slot[YK_SLOTS] = {x, y};
            uint32_t key[GS];
            bool linear =
                strcmp(o->name, "momentum") == 0; /* adds l2 w: no step is stable with l2 = 1e6 */
            if (o->apply_keys == NULL || (u.l1 > 0 && !yk_choice_has(o->uses, "l1")) ||
                (linear && u.l2 >= 1))
                continue;
            u.lazy = yk_optimizer_slots(o, &u, true) > o->slots;
            for (uint32_t i = 0; i < GS; i++)
                key[i] = i;
            for (int step = 0; step < 50; step++, u.step += step % 7 == 0 ? 1000000 : 1)
                o->apply_keys(&u, w, slot, 0, key, G, GS);
            assert_true(w[0] == 0 && w[1] == 0);
            for (unsigned i = 0; i < GS; i++)
                if (!isfinite(w[i]) || (G[i] > 0 && w[i] > 0) || (G[i] < 0 && w[i] < 0))
                    fail_msg("%s, l1 %g, l2 %g: gradient %g made %g", o->name, (double)u.l1,
                             (double)u.l2, (double)G[i], (double)w[i]);
        }
}

/* A run that diverges must show it. */
static void test_nan_stays(void **state)
{
    (void)state;
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++)
        for (unsigned t = 0; t < WAYS; t++) {
            const struct yk_optimizer_ops *o = yk_optimizer_at(k);
            struct yk_update u;
            float w = 1, x = 0, y = 0, g = NAN, *slot[YK_SLOTS] = {&x, &y};
            const uint32_t key = 0;
            if (!constants(&u, o, t))
                continue;
            u.lazy = yk_optimizer_slots(o, &u, true) > o->slots;
            o->apply_keys(&u, &w, slot, 0, &key, &g, 1);
            assert_true(isnan(w));
            g = 1;
            u.step = 5;
            o->apply_keys(&u, &w, slot, 0, &key, &g, 1);
            assert_true(isnan(w));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),      cmocka_unit_test(test_lazy),
        cmocka_unit_test(test_schedules), cmocka_unit_test(test_far_steps),
        cmocka_unit_test(test_extremes),  cmocka_unit_test(test_nan_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
