/* momentum_test.c - under a constant gradient the velocity is a geometric sum, and a new rate acts
 * on all of it at once. */
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_constant_gradient(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("momentum");
    struct yk_update u = {.lr = 0.5f, .scale = 0.5f, .momentum = 0.5f};
    float w = 0, v = 0, g = 4, *slot[YK_SLOTS] = {&v};
    double sum = 0;
    for (int t = 1; t <= 20; t++) {
        double expected =
            2 * (1 - pow(0.5, t)) / 0.5; /* g/2 (1 + mu + mu^2 ...); exact in binary */
        o->apply(&u, &w, &g, slot, 1);
        sum -= 0.5 * expected;
        assert_true((double)v == expected);
        assert_true(fabs((double)w - sum) < 1e-5);
    }
    float before = w, velocity = v;
    u.lr = 0; /* the rate is not part of v */
    o->apply(&u, &w, &g, slot, 1);
    assert_true(w == before && v == 0.5f * velocity + 2);
    u.lr = 1;
    g = 0; /* without a gradient the value glides on */
    before = w;
    velocity = v;
    o->apply(&u, &w, &g, slot, 1);
    assert_true(w == before - 0.5f * velocity);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constant_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
