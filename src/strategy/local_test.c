/* local_test.c - the local strategy: what a sink is told lands in the parameters at once, a commit counts a step, and only
 * timed steps pay for a clock. */
#include "strategy/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_step(void **state)
{
    (void)state;
    const struct yk_view spec[] = {{.name = "a", .ndim = 1, .shape = {3}}, {.name = "b", .ndim = 2, .shape = {2, 2}}};
    const struct yk_update constants = {.momentum = 0.5f};
    struct yk_schedule schedule;
    struct yk_params params;
    struct yk_strategy st;
    struct yk_error e;
    assert_int_equal(yk_schedule_parse("staircase:0.5:1", &schedule, &e), YK_OK);
    assert_int_equal(yk_params_init(&params, spec, 2, &e), YK_OK);
    assert_int_equal(yk_strategy_init(&st, yk_optimizer_find("momentum"), &schedule, 1, &constants, &params, &e), YK_OK);
    struct yk_sink *sink = yk_strategy_sink(&st);
    for (size_t i = 0; i < params.count; i++)
        assert_true(sink->grad[i] == 0);

    yk_strategy_pull(&st, 4);
    sink->grad[0] = 8;
    sink->grad[16] = -4;
    sink->ready(sink, 16, params.count); /* the later view first, as a net's last layer would */
    assert_true(params.flat[16] == 1 && params.flat[0] == 0);
    sink->ready(sink, 0, 16);
    assert_true(params.flat[0] == -2);
    assert_int_equal(st.owner.step, 0);
    yk_strategy_commit(&st);
    assert_int_equal(st.owner.step, 1);
    assert_true(st.push_seconds == 0);

    st.timed = true;
    yk_strategy_pull(&st, 8); /* a smaller last batch has a scale of its own; the rate is half by now */
    sink->ready(sink, 0, params.count);
    yk_strategy_commit(&st);
    assert_true(params.flat[0] == -2 - 0.5f * (0.5f * 2 + 1) && params.flat[16] == 1 + 0.5f * (0.5f * 1 + 0.5f));
    assert_int_equal(st.owner.step, 2);
    assert_true(st.push_seconds > 0);
    yk_strategy_release(&st);
    yk_strategy_release(&st);
    yk_params_release(&params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
