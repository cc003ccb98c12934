/* adagrad_test.c - under a constant gradient of any size the steps are lr, lr/sqrt 2, lr/sqrt 3,
 * ..., and a gradient of zero neither moves a value nor divides by zero. */
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_constant_gradient(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("adagrad");
    const struct yk_update u = {.lr = 0.1f, .scale = 0.01f, .eps = 1e-8f};
    float w[3] = {0}, n[3] = {0}, *slot[YK_SLOTS] = {n};
    const float g[3] = {100, -0.5f, 0};
    double sum = 0;
    for (int t = 1; t <= 100; t++) {
        o->apply(&u, w, g, slot, 3);
        sum += 0.1 / sqrt(t);
        assert_true(fabs((double)w[0] + sum) < 1e-5 * sum);
        assert_true(fabs((double)w[1] - sum) < 1e-5 * sum);
        assert_true(w[2] == 0);
    }
    assert_true(fabs((double)n[0] - 100) < 1e-3 && n[2] == 0); /* t g^2, of the mean gradient */
}

/* eps is outside the root: it matters for gradients of its own size. */
static void test_eps(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("adagrad");
    const struct yk_update u = {.lr = 1, .scale = 1, .eps = 0.25f};
    float w = 0, n = 0, g = 0.25f, *slot[YK_SLOTS] = {&n};
    o->apply(&u, &w, &g, slot, 1);
    assert_true(w == -0.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constant_gradient),
                                       cmocka_unit_test(test_eps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
