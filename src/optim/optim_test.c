/* optim_test.c - every optimizer against its formula in double over a thousand random steps, and
 * their common promises: ranges are independent, all state is in the slots, and the scale divides
 * the gradient once. */
#include "optim/optim.h"

#include "base/opt.h"
#include "base/rng.h"
#include "tests/formulas.h"

enum { N = 77, STEPS = 1000 }; /* N: no multiple of any vector */

static const struct yk_update CONSTANTS = {
    .momentum = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .beta = 1};

struct dense_weights {
    float w[N], slot[YK_SLOTS][N];
};

static void begin(struct dense_weights *s, struct yk_rng *r)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N; i++)
        s->w[i] = (float)(yk_rng_unit(r) - 0.5);
}

static void apply(const struct yk_optimizer_ops *o, const struct yk_update *u,
                  struct dense_weights *s, const float *g, size_t lo, size_t hi)
{
    float *slot[YK_SLOTS];
    for (unsigned k = 0; k < YK_SLOTS; k++)
        slot[k] = k < o->slots ? s->slot[k] + lo
                               : NULL; /* one that it does not have is not there to touch */
    o->apply(u, s->w + lo, g + lo, slot, hi - lo);
}

static void random_gradient(struct yk_rng *r, float *g)
{
    for (int i = 0; i < N; i++)
        g[i] = (float)((yk_rng_unit(r) - 0.4) *
                       pow(10, yk_rng_unit(r) * 4 - 1)); /* of many sizes, with a drift */
}

/* Regularizers to try: none, each, both. Those that an optimizer does not have are left out. */
static const struct {
    float l1, l2, decay;
} TRY[] = {{0, 0, 0}, {0.02f, 0, 0}, {0, 0.03f, 0}, {0.02f, 0.03f, 0}, {0, 0, 0.04f}};

static bool has(const struct yk_optimizer_ops *o, size_t t)
{
    return (TRY[t].l1 == 0 || yk_choice_has(o->uses, "l1")) &&
           (TRY[t].l2 == 0 || yk_choice_has(o->uses, "l2")) &&
           (TRY[t].decay == 0 || yk_choice_has(o->uses, "weight-decay"));
}

static void follow_formula(const struct yk_optimizer_ops *o, size_t t)
{
    struct yk_rng r;
    struct dense_weights s;
    double w[N], m[N] = {0}, v[N] = {0}, path[N] = {0};
    yk_rng_init(&r, 3, t, 0, 0);
    begin(&s, &r);
    for (int i = 0; i < N; i++)
        w[i] = (double)s.w[i];
    for (uint64_t step = 0; step < STEPS; step++) {
        float g[N];
        struct yk_update u = CONSTANTS;
        u.lr = (float)o->lr;
        u.scale = 1.0f / 64;
        u.step = step;
        u.l1 = TRY[t].l1;
        u.l2 = TRY[t].l2;
        u.decay = TRY[t].decay;
        random_gradient(&r, g);
        apply(o, &u, &s, g, 0, N);
        for (int i = 0; i < N; i++) {
            double before = w[i];
            formula(o->name, &u, (double)u.lr, &w[i], (double)g[i], &m[i], &v[i]);
            path[i] += fabs(w[i] - before);
            double off = fabs((double)s.w[i] - w[i]);
            double lost = t > 0 ? 6e-8 * (double)step * fabs(w[i])
                                : 0; /* a pull of equal parts is rounded alike every time */
            if (!(off <= 2e-6 * (path[i] + 1) + lost))
                fail_msg("%s, l1 %g, l2 %g, step %d: %.9g, not %.9g", o->name, (double)u.l1,
                         (double)u.l2, (int)step, (double)s.w[i], w[i]);
        }
    }
    assert_true(path[0] > 0.1); /* it did move */
}

static void test_formulas(void **state)
{
    (void)state;
    unsigned tried = 0;
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++)
        for (size_t t = 0; t < sizeof TRY / sizeof TRY[0]; t++)
            if (has(yk_optimizer_at(k), t)) {
                follow_formula(yk_optimizer_at(k), t);
                tried++;
            }
    assert_true(tried >= 16);
}

/* Updating two halves, or one by one, is updating the whole, bit for bit; what lies outside a range
 * stays. */
static void test_ranges(void **state)
{
    (void)state;
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++) {
        const struct yk_optimizer_ops *o = yk_optimizer_at(k);
        struct yk_rng r;
        struct dense_weights whole, halves, single, before;
        yk_rng_init(&r, 4, k, 0, 0);
        begin(&whole, &r);
        halves = single = whole;
        for (uint64_t step = 0; step < 50; step++) {
            float g[N];
            struct yk_update u = CONSTANTS;
            u.lr = 0.05f;
            u.scale = 1.0f / 7;
            u.step = step;
            random_gradient(&r, g);
            size_t cut = 1 + yk_rng_below(&r, N - 1);
            apply(o, &u, &whole, g, 0, N);
            before = halves;
            apply(o, &u, &halves, g, cut, N);
            assert_memory_equal(halves.w, before.w, cut * sizeof(float));
            for (unsigned j = 0; j < YK_SLOTS; j++)
                assert_memory_equal(halves.slot[j], before.slot[j], cut * sizeof(float));
            before = halves;
            apply(o, &u, &halves, g, 0, cut);
            assert_memory_equal(halves.w + cut, before.w + cut, (N - cut) * sizeof(float));
            apply(o, &u, &halves, g, cut, cut); /* nothing */
            for (size_t i = 0; i < N; i++)
                apply(o, &u, &single, g, i, i + 1);
            assert_memory_equal(&whole, &halves, sizeof whole);
            assert_memory_equal(&whole, &single, sizeof whole);
        }
        assert_memory_not_equal(whole.w, before.w, sizeof whole.w);
    }
}

/* The gradient is a sum; scale is 1 / examples. With powers of two both ways round alike. */
static void test_scale(void **state)
{
    (void)state;
    for (unsigned k = 0; yk_optimizer_at(k) != NULL; k++) {
        const struct yk_optimizer_ops *o = yk_optimizer_at(k);
        struct yk_rng r;
        struct dense_weights sum, mean;
        yk_rng_init(&r, 5, k, 0, 0);
        begin(&sum, &r);
        mean = sum;
        for (uint64_t step = 0; step < 20; step++) {
            float g[N], many[N];
            struct yk_update u = CONSTANTS, v;
            u.lr = 0.1f;
            u.scale = 1;
            u.step = step;
            v = u;
            v.scale = 1.0f / 128;
            random_gradient(&r, g);
            for (int i = 0; i < N; i++)
                many[i] = g[i] * 128;
            apply(o, &u, &mean, g, 0, N);
            apply(o, &v, &sum, many, 0, N);
        }
        assert_memory_equal(&sum, &mean, sizeof sum);
    }
}

static void test_list(void **state)
{
    (void)state;
    unsigned n = 0;
    for (; yk_optimizer_at(n) != NULL; n++) {
        const struct yk_optimizer_ops *o = yk_optimizer_at(n);
        assert_ptr_equal(yk_optimizer_find(o->name), o);
        assert_true(o->slots <= YK_SLOTS && o->lr > 0 && o->help[0] != '\0');
        unsigned most = o->slots + (o->lazy != YK_LAZY_NEVER);
        for (unsigned k = 0; k < YK_SLOTS; k++) { /* names in a checkpoint: there, and different */
            assert_int_equal(o->slot[k] != NULL, k < most);
            assert_true(k == 0 || k >= most || strcmp(o->slot[0], o->slot[k]) != 0);
        }
        assert_true(o->lazy == YK_LAZY_NEVER || strcmp(o->slot[o->slots], "seen") == 0);
        assert_true(o->lazy == YK_LAZY_NEVER || o->apply_keys != NULL);
        assert_int_equal(o->apply_keys == NULL, o->read_keys == NULL);
    }
    assert_true(n >= 5);
    assert_null(yk_optimizer_at(n + 1));
    assert_null(yk_optimizer_find("adamw"));
    assert_null(yk_optimizer_find(""));
    assert_null(yk_optimizer_find("SGD"));
}

/* The slot "seen" exists only where missed steps matter. */
static void test_slots(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned dense, sparse, regularized; /* slots */
    } OF[] = {{"sgd", 0, 0, 1},
              {"momentum", 1, 2, 2},
              {"adagrad", 1, 1, 2},
              {"adam", 2, 2, 2},
              {"ftrl", 2, 2, 2}};
    for (size_t i = 0; i < sizeof OF / sizeof OF[0]; i++) {
        const struct yk_optimizer_ops *o = yk_optimizer_find(OF[i].name);
        const struct yk_update none = {0}, l1 = {.l1 = 1e-9f}, l2 = {.l2 = 1e-9f};
        assert_int_equal(yk_optimizer_slots(o, &none, false), OF[i].dense);
        assert_int_equal(yk_optimizer_slots(o, &l2, false), OF[i].dense);
        assert_int_equal(yk_optimizer_slots(o, &none, true), OF[i].sparse);
        assert_int_equal(yk_optimizer_slots(o, &l1, true), OF[i].regularized);
        assert_int_equal(yk_optimizer_slots(o, &l2, true), OF[i].regularized);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_scale),    cmocka_unit_test(test_list),
        cmocka_unit_test(test_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
