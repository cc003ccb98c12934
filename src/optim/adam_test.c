/* adam_test.c - the bias corrections: the first step, and every step under a constant gradient, has
 * the length of the rate, whatever the size of the gradient. `step` is the number of earlier
 * updates, after a resume too. */
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct yk_update DEFAULTS = {
    .lr = 0.001f, .scale = 1, .momentum = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};

static void test_constant_gradient(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("adam");
    float w[3] = {0}, m[3] = {0}, v[3] = {0}, *slot[YK_SLOTS] = {m, v};
    const float g[3] = {0.0001f, -1000, 0};
    struct yk_update u = DEFAULTS;
    for (int t = 1; t <= 1000; t++) {
        o->apply(&u, w, g, slot, 3);
        u.step++;
        double far = 0.001 * t;
        assert_true(fabs((double)w[0] + far) < 5e-4 * far); /* eps is 1e-4 of this gradient */
        assert_true(fabs((double)w[1] - far) < 5e-5 * far);
        assert_true(w[2] == 0);
    }
}

/* A state that is 999 steps old must not be corrected as a fresh one. */
static void test_step_counts(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("adam");
    for (int late = 0; late < 2; late++) {
        float w = 0, m = 0.5f, v = 0.25f, g = 0.5f, *slot[YK_SLOTS] = {&m, &v};
        struct yk_update u = DEFAULTS;
        u.step = late ? 1000000 : 0;
        o->apply(&u, &w, &g, slot, 1);
        double first = late ? 1 : 1 / (1 - 0.9), second = late ? 1 : 1 / (1 - 0.999);
        double expected = -0.001 * (0.5 * first) / sqrt(0.25 * second);
        assert_true(fabs((double)w - expected) < 1e-4 * fabs(expected));
    }
}

/* beta1 = 0 is legal, and leaves no moment to correct. */
static void test_no_momentum(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("adam");
    float w = 0, m = 5, v = 0, g = 2, *slot[YK_SLOTS] = {&m, &v};
    struct yk_update u = DEFAULTS;
    u.momentum = u.beta2 = 0;
    o->apply(&u, &w, &g, slot, 1);
    assert_true(m == 2 && v == 4 && fabsf(w + 0.001f) < 1e-8f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constant_gradient),
                                       cmocka_unit_test(test_step_counts),
                                       cmocka_unit_test(test_no_momentum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
