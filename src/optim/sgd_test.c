/* sgd_test.c - plain descent by hand: w -= lr * (g / examples), without memory of earlier steps. */
#include "optim/optim.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_by_hand(void **state)
{
    (void)state;
    const struct yk_optimizer_ops *o = yk_optimizer_find("sgd");
    const struct yk_update u = {
        .lr = 0.5f, .scale = 0.25f, .momentum = 0.9f, .beta2 = 0.999f, .eps = 1};
    float w[3] = {1, -2, 0};
    const float g[3] = {8, -16, 0};
    o->apply(&u, w, g, NULL, 3);
    assert_true(w[0] == 0 && w[1] == 0 && w[2] == 0);
    o->apply(&u, w, g, NULL, 3); /* the same again: nothing was kept */
    assert_true(w[0] == -1 && w[1] == 2 && w[2] == 0);
    assert_int_equal(o->slots, 0);
}

/* As torch has it: w -= lr (g + decay w). */
static void test_decay(void **state)
{
    (void)state;
    const struct yk_update u = {.lr = 0.5f, .scale = 0.25f, .decay = 0.5f};
    float w[3] = {1, -2, 0};
    const float g[3] = {8, -16, 0};
    yk_optimizer_find("sgd")->apply(&u, w, g, NULL, 3);
    assert_true(w[0] == -0.25f && w[1] == 0.5f && w[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand),
                                       cmocka_unit_test(test_decay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
