/* logreg_isa_test.c - one row of logistic regression on every instruction set: against doubles, at
 * the ends of the number line, and equal in bits whichever way the weights are handed over. Buffers
 * end where they end: the sanitizers see a read past them. */
#include "base/rng.h"
#include "kernel/kernel.h"
#include "tests/isas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONGEST = 200, SPREAD = 3000 };

static float uniform(struct yk_rng *r)
{
    return (float)(yk_rng_unit(r) * 2 - 1);
}

static bool same(struct yk_logit a, struct yk_logit b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* A row without weights is its bias. */
static struct yk_logit alone(const struct yk_kernels *k, float bias, unsigned label)
{
    const struct yk_logreg_row row = {.weights.bias = bias, .label = label};
    /* cppcheck-suppress returnDanglingLifetime ; three floats, no pointer among them */
    return k->logreg(&row);
}

static void *copy_of(const void *p, size_t bytes)
{
    void *c = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(c);
    return memcpy(c, p, bytes);
}

/* Every length, gathered or side by side, with values or without. */
static void test_sum(void **state)
{
    (void)state;
    static float spread[SPREAD];
    struct yk_rng r;
    yk_rng_init(&r, 7, 0, 0, 0);
    for (int i = 0; i < SPREAD; i++)
        spread[i] = uniform(&r);
    for (uint32_t n = 0; n <= LONGEST; n++) {
        float w[LONGEST] = {0}, x[LONGEST] = {0}, one[LONGEST] = {0}, bias = uniform(&r);
        uint32_t at[LONGEST] = {0};
        double z = bias, plain = bias, size = fabs(bias);
        for (uint32_t i = 0; i < n; i++) {
            at[i] = yk_rng_below(&r, SPREAD);
            w[i] = spread[at[i]];
            x[i] = uniform(&r) * 3;
            one[i] = 1;
            z += (double)x[i] * w[i];
            plain += w[i];
            size += fabs(w[i]) * 3;
        }
        float *wn = copy_of(w, n * sizeof *w), *xn = copy_of(x, n * sizeof *x);
        uint32_t *atn = copy_of(at, n * sizeof *at);
        float **from = malloc((n + 1) * sizeof *from);
        assert_non_null(from);
        for (uint32_t i = 0; i < n; i++)
            from[i] = &spread[at[i]];
        const struct yk_picks picks[] = {{.w = wn, .n = n, .bias = bias},
                                         {.w = spread, .at = atn, .n = n, .bias = bias},
                                         {.from = from, .n = n, .bias = bias}};
        struct yk_logit a = {0}, b = {0};
        for (unsigned way = 0; way < 3;
             way++) { /* side by side, by index, by address: equal in bits */
            float copy[LONGEST + 17], grad[LONGEST + 17];
            struct yk_logreg_row row = {.weights = picks[way], .label = n & 1};
            struct yk_logit ones = kernels->logreg(&row);
            row.x = one;
            assert_true(same(ones, kernels->logreg(&row)));
            memset(grad, -1, sizeof grad);
            row.grad = grad;
            row.x = NULL;
            assert_true(same(ones, kernels->logreg(&row)));
            for (uint32_t i = 0; i < LONGEST + 17; i++) /* x g, g, zeros, and not a float more */
                assert_true(i <= n             ? grad[i] == ones.g
                            : i < YK_PADDED(n) ? grad[i] == 0
                                               : isnan(grad[i]));
            row.x = xn;
            memset(copy, -1, sizeof copy);
            memset(grad, -1, sizeof grad);
            row.copy = copy;
            struct yk_logit full = kernels->logreg(&row);
            for (uint32_t i = 0; i < LONGEST + 17; i++) {
                assert_true(i < n    ? grad[i] == x[i] * full.g + 0.0f
                            : i == n ? grad[i] == full.g
                                     : true);
                assert_true(i < n ? copy[i] == w[i] : i == n ? copy[i] == bias : true);
                assert_true(i <= n || (i < YK_PADDED(n) ? grad[i] == 0 && copy[i] == 0
                                                        : isnan(grad[i]) && isnan(copy[i])));
            }
            float picked[LONGEST + 17];
            memset(picked, -1, sizeof picked);
            kernels->pick(&picks[way], picked);
            assert_memory_equal(picked, copy, sizeof copy);
            if (way == 0) {
                a = full;
                b = ones;
            }
            assert_true(same(a, full) && same(b, ones));
        }
        assert_true(fabs(a.z - z) <= 1e-6 * size);
        assert_true(fabs(b.z - plain) <= 1e-6 * size);
        free(from);
        free(wn);
        free(xn);
        free(atn);
    }
}

/* Slope and loss relative to what they are, from a row that is right by 87 to one that is wrong by
 * 1000. */
static void test_accuracy(void **state)
{
    (void)state;
    const struct yk_kernels *row = kernels;
    double worst_g = 0, worst_loss = 0;
    for (int i = -87000; i <= 1000000; i += i < 90000 ? 1 : 997) {
        float m = (float)i / 1000; /* the margin by which it is wrong */
        double g = 1 / (1 + exp(-(double)m)),
               loss = m > 0 ? m + log1p(exp(-(double)m)) : log1p(exp((double)m));
        struct yk_logit zero = alone(row, m, 0), one = alone(row, -m, 1);
        assert_true(zero.g == -one.g && zero.loss == one.loss && zero.z == m && one.z == -m);
        worst_g = fmax(worst_g, fabs(zero.g - g) / g);
        worst_loss = fmax(worst_loss, fabs(zero.loss - loss) / loss);
    }
    assert_true(worst_g < 3e-7);
    assert_true(worst_loss < 3e-7);
}

static void test_ends(void **state)
{
    (void)state;
    const struct yk_kernels *row = kernels;
    struct yk_logit even = alone(row, 0, 1), far = alone(row, 1e30f, 1);
    assert_true(even.g == -0.5f && fabs(even.loss - log(2)) < 1e-7);
    /* right beyond doubt: no gradient, and a plain zero */
    assert_true(far.g == 0 && !signbit(far.g) && far.loss == 0);
    far = alone(row, 1e30f, 0);
    assert_true(far.g == 1 && far.loss == 1e30f);
    far = alone(row, INFINITY, 0);
    assert_true(far.g == 1 && isinf(far.loss));
    far = alone(row, INFINITY, 1);
    assert_true(far.g == 0 && far.loss == 0);
    const float w[3] = {1, NAN, 2}, huge[3] = {3e38f, 3e38f, -1};
    for (unsigned label = 0; label < 2; label++) {
        struct yk_logit lost = row->logreg(
            &(struct yk_logreg_row){.weights = {.w = w, .n = 3},
                                    .label = label}); /* a run that diverged must be seen to have */
        assert_true(isnan(lost.z) && isnan(lost.g) && isnan(lost.loss));
    }
    assert_true(isinf(
        row->logreg(&(struct yk_logreg_row){.weights = {.w = huge, .n = 2}, .x = huge}).loss));
    /* a gradient that is too small for a float is a plain zero too */
    float grad[16];
    const float tiny[1] = {1e-45f};
    far = row->logreg(&(struct yk_logreg_row){
        .weights = {.w = tiny, .n = 1}, .x = tiny, .label = 1, .grad = grad});
    assert_true(far.g == -0.5f && grad[0] == 0 && !signbit(grad[0]));
}

int main(void)
{
    const struct CMUnitTest each[] = {cmocka_unit_test(test_sum), cmocka_unit_test(test_accuracy),
                                      cmocka_unit_test(test_ends)};
    return isa_run(NULL, 0, each, sizeof each / sizeof each[0]);
}
