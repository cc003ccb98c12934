/* ftrl_test.c - FTRL-proximal by hand: the first steps, the threshold of l1, the shrinking by l2,
 * and a hot key, whose root must keep growing by the right amount when it is large. */
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_by_hand(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("ftrl");
    struct yk_update u = {.lr = 0.5f, .scale = 0.25f, .beta = 1};
    float w = 0, z = 0, n = 0, g = 12, *slot[YK_SLOTS] = {&z, &n};
    o->apply(&u, &w, &g, slot, 1); /* the mean gradient is 3: n = 9, s = 3/0.5 */
    assert_true(z == 3 && n == 9 && w == -3.0f / 8);
    g = 16; /* 4: n = 25, s = (5 - 3)/0.5 = 4, z = 3 + 4 + 4 * 3/8 */
    o->apply(&u, &w, &g, slot, 1);
    assert_true(z == 8.5f && n == 25 && fabsf(w + 8.5f / 12) < 1e-7f);
    u.lr = 0.25f; /* another rate does not move what no gradient moves */
    g = 0;
    float before = w;
    o->apply(&u, &w, &g, slot, 1);
    assert_true(z == 8.5f && n == 25 && w == before);
}

static void test_regularizers(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("ftrl");
    struct yk_update u = {.lr = 1, .scale = 1, .beta = 1, .l1 = 2, .l2 = 5};
    float w[4] = {0}, z[4] = {0}, n[4] = {0}, *slot[YK_SLOTS] = {z, n};
    const float g[4] = {2, -2, 4, -4}; /* at the threshold: zero, and not minus zero */
    o->apply(&u, w, g, slot, 4);
    assert_true(w[0] == 0 && !signbit(w[0]) && w[1] == 0 && !signbit(w[1]));
    assert_true(w[2] == -2.0f / 10 && w[3] == 2.0f / 10);
    u.l1 = 1e30f; /* nothing is large enough */
    o->apply(&u, w, g, slot, 4);
    assert_true(w[2] == 0 && w[3] == 0);
}

/* A million gradients of one size: n = k g^2, and z stays where gradient and pull balance. With the
 * difference of two float roots it would drift by per cents. */
static void test_hot_key(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("ftrl");
    const struct yk_update u = {.lr = 0.1f, .scale = 1, .beta = 1};
    float w = 0, z = 0, n = 0, *slot[YK_SLOTS] = {&z, &n};
    double dw = 0, dz = 0, dn = 0;
    for (int i = 0; i < 1000000; i++) {
        float g = i % 3 == 0 ? -0.5f : 0.25f; /* exact in n up to 2^24 */
        double gd = (double)g, after = dn + gd * gd, lr = (double)u.lr;
        o->apply(&u, &w, &g, slot, 1);
        dz += gd - (sqrt(after) - sqrt(dn)) / lr * dw;
        dn = after;
        dw = -dz / ((1 + sqrt(dn)) / lr);
    }
    assert_true((double)n == dn);
    assert_true(fabs((double)w - dw) < 1e-3 * (fabs(dw) + 0.01));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand),
                                       cmocka_unit_test(test_regularizers),
                                       cmocka_unit_test(test_hot_key)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
