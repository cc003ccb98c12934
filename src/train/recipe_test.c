/* recipe_test.c - from options to how parameters move: biases by a rate of their own, decay and
 * clipping as their formulas say, and the same bits for any number of workers and owners. */
#include "tests/tiny.h"

#include <math.h>

/* The parameters after training; returns how many there are. */
static size_t trained(const char *options, float *flat, size_t most)
{
    struct yk_session *s = tiny_train(options);
    size_t n = s->state.params.count;
    assert_true(n <= most);
    memcpy(flat, s->state.params.flat, n * sizeof *flat);
    yk_session_close(s);
    return n;
}

enum {
    MOST = 1000,
    BIASES = 4
}; /* views are sorted by name: the biases come first, on a line of their own */

/* One step from zero: twice the rate moves the biases twice as far, and nothing else; a shape
 * and a decay of their own likewise. */
static void test_biases(void **state)
{
    (void)state;
    float plain[MOST], faster[MOST], second[MOST], shaped[MOST];
    size_t n = trained("steps=1 lr=0.01", plain, MOST);
    trained("steps=1 lr=0.01 bias-lr=0.02", faster, MOST);
    for (size_t i = 0; i < n; i++)
        assert_true(faster[i] == (i < BIASES ? 2 * plain[i] : plain[i]));
    assert_true(plain[0] != 0 && plain[n - 1] == plain[n - 1]);

    trained("steps=2 lr=0.01 optimizer=momentum", second, MOST);
    trained("steps=2 lr=0.01 optimizer=momentum bias-momentum=0 bias-weight-decay=3", faster, MOST);
    trained("steps=2 lr=0.01 optimizer=momentum bias-schedule=stairs:2:10:1", shaped, MOST);
    for (size_t i = 0; i < n; i++) {
        bool bias = i < BIASES;
        if (!bias) { /* they feel the biases only through the second gradient */
            assert_true(fabsf(faster[i] - second[i]) < 0.01f * fabsf(second[i]) + 1e-4f);
            continue;
        }
        float first = plain[i], rest = second[i] - first; /* -lr (mu g1 + g2) */
        float g1 = -first / 0.01f, g2 = -rest / 0.01f - 0.9f * g1;
        assert_true(fabsf(faster[i] - (first - 0.01f * (g2 + 3 * first))) <
                    1e-4f * fabsf(first) + 1e-6f);
        assert_true(fabsf(shaped[i] - (first + rest / 10)) < 1e-4f * fabsf(first) + 1e-6f);
    }
}

/* After one step from zero no parameter is further than rate times limit, some are exactly
 * there, and those that were below are untouched. */
static void test_clip(void **state)
{
    (void)state;
    float plain[MOST], clipped[MOST];
    unsigned there = 0, below = 0;
    size_t n = trained("steps=1 lr=1", plain, MOST);
    trained("steps=1 lr=1 clip=0.01", clipped, MOST);
    for (size_t i = 0; i < n; i++) {
        bool over = fabsf(plain[i]) > 0.01f;
        assert_true(over ? fabsf(clipped[i] - copysignf(0.01f, plain[i])) < 1e-8f
                         : clipped[i] == plain[i]);
        there += over;
        below += !over && plain[i] != 0;
    }
    assert_true(there > 10 && below > 10);
}

/* Everything at once: the bits do not depend on how ranges are cut, nor on when the run was
 * interrupted. */
static void test_bits(void **state)
{
    (void)state;
#define ALL                                                                                        \
    "global-batch=120 shards=12 threads=1 optimizer=momentum lr=0.05 weight-decay=0.01 clip=0.02 " \
    "bias-lr=0.1 "                                                                                 \
    "bias-momentum=0.5 bias-weight-decay=0 schedule=staircase:0.5:4 bias-schedule=stairs:3:7:10 "
    char first[17], other[17];
    tiny_hash(ALL "steps=20", first);
    static const char *const SAME[] = {ALL "steps=20 workers=3 mode=sync ps=2",
                                       ALL "steps=20 workers=4 mode=allreduce",
                                       ALL "steps=20 workers=1 mode=sync ps=3"};
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
        tiny_hash(SAME[i], other);
        assert_string_equal(first, other);
    }
    yk_session_close(tiny_train(ALL "steps=9 run=half"));
    tiny_hash("resume=half steps=20", other);
    assert_string_equal(first, other);
    static const char *const OTHER[] = {"clip=0.03",         "bias-lr=0.11",
                                        "weight-decay=0.02", "bias-weight-decay=0.1",
                                        "bias-momentum=0.4", "bias-schedule=constant"};
    for (size_t i = 0; i < sizeof OTHER / sizeof OTHER[0]; i++) {
        char options[512];
        snprintf(options, sizeof options, ALL "steps=20 %s", OTHER[i]);
        tiny_hash(options, other);
        assert_string_not_equal(first, other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_biases, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_clip, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_bits, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
