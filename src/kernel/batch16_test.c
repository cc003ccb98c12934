/* batch16_test.c - every kernel of every instruction set against the slow layers of
 * tests/batch16_slow.h, over shapes where tiles, stretches and borders begin and end, and the slow
 * layers themselves against finite differences.
 *
 * Memory is of exactly the size that batch16.h names, so AddressSanitizer sees a kernel that goes
 * past it. What is overwritten begins as NaN, what is added to begins as numbers. An error is
 * measured against the sum of the absolute values of what was added up. */
#include "kernel/batch16.h"
#include "kernel/kernel.h"

#include "base/rng.h"
#include "tests/batch16_slow.h"
#include "tests/isas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { L = YK_BATCH16 };
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static float *floats(size_t n)
{
    void *p = NULL;
    size_t bytes = n * sizeof(float);
    assert_int_equal(posix_memalign(&p, 64, bytes == 0 ? 64 : bytes), 0);
    for (size_t i = 0; i < n; i++)
        ((float *)p)[i] = NAN;
    return p;
}

static void *scratch_of(size_t bytes)
{
    return floats((bytes + 3) / 4);
}

static float *random_floats(struct yk_rng *r, size_t n)
{
    float *p = floats(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(yk_rng_unit(r) * 2 - 1);
    return p;
}

/* Some of which are equal, so that pools have ties. */
static float *coarse_floats(struct yk_rng *r, size_t n)
{
    float *p = floats(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(int)(yk_rng_unit(r) * 7 - 3) / 4;
    return p;
}

static float *copy_of(const float *from, size_t n)
{
    float *p = floats(n);
    memcpy(p, from, n * sizeof(float));
    return p;
}

static double *zeros(size_t n)
{
    double *p = calloc(n + 1, sizeof(double));
    assert_non_null(p);
    return p;
}

static double *widened(const float *from, size_t n, bool positive)
{
    double *p = zeros(n);
    for (size_t i = 0; i < n && from != NULL; i++)
        p[i] = positive ? fabs((double)from[i]) : (double)from[i];
    return p;
}

/* size[i]: what the error may be measured against; NULL: 1 */
static void near(const char *what, const float *got, const double *want, const double *size,
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - want[i]),
               bound = 1e-6 * (size == NULL ? 1 : size[i]) + 1e-7;
        if (!(error <= bound))
            fail_msg("%s: [%zu] is %.9g, not %.9g", what, i, (double)got[i], want[i]);
    }
}

static void same(const float *a, const float *b, size_t n)
{
    assert_memory_equal(a, b, n * sizeof(float));
}

/* --- convolutions --- */

/* c h w, out_c, kernel, stride, pad, groups; outputs follow. */
static const struct shape {
    uint32_t c, h, w, out_c, kernel[2], stride[2], pad[4], groups;
} SHAPES[] = {
    {1, 28, 28, 6, {5, 5}, {1, 1}, {2, 2, 2, 2}, 1}, /* LeNet's */
    {6, 14, 14, 16, {5, 5}, {1, 1}, {0, 0, 0, 0}, 1},
    {1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {3, 7, 5, 10, {3, 3}, {1, 1}, {1, 1, 1, 1}, 1},
    {2, 9, 31, 7, {3, 3}, {1, 1}, {0, 0, 0, 0}, 1},
    {5, 6, 23, 5, {5, 5}, {1, 1}, {4, 4, 4, 4}, 1},
    {4, 5, 5, 9, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {3, 8, 8, 4, {1, 1}, {2, 2}, {0, 0, 0, 0}, 1},
    {3, 17, 19, 8, {7, 7}, {2, 2}, {3, 3, 3, 3}, 1},
    {3, 23, 21, 3, {11, 11}, {4, 4}, {2, 2, 1, 1}, 1},
    {6, 9, 11, 12, {3, 5}, {1, 1}, {1, 2, 1, 2}, 3},
    {8, 6, 6, 8, {3, 3}, {1, 1}, {1, 1, 1, 1}, 8},
    {4, 12, 10, 6, {5, 3}, {2, 1}, {2, 0, 1, 2}, 2},
    {2, 10, 9, 5, {4, 2}, {1, 3}, {0, 1, 3, 0}, 1},
    {2, 6, 7, 11, {2, 4}, {3, 1}, {1, 3, 0, 0}, 1},
    {1, 9, 9, 2, {2, 2}, {3, 3}, {0, 0, 0, 0}, 1}, /* gaps between windows */
    {120, 3, 3, 13, {3, 3}, {1, 1}, {0, 0, 0, 0}, 1},
    {1, 5, 40, 1, {5, 5}, {1, 1}, {0, 0, 0, 0}, 1},
    {2, 5, 64, 2, {5, 5}, {1, 1}, {2, 2, 2, 2}, 1},
};

static struct yk_batch16_window window_of(const struct shape *s)
{
    struct yk_batch16_window g = {
        .c = s->c, .h = s->h, .w = s->w, .out_c = s->out_c, .groups = s->groups};
    memcpy(g.kernel, s->kernel, sizeof g.kernel);
    memcpy(g.stride, s->stride, sizeof g.stride);
    memcpy(g.pad, s->pad, sizeof g.pad);
    g.out_h = (s->h + s->pad[0] + s->pad[2] - s->kernel[0]) / s->stride[0] + 1;
    g.out_w = (s->w + s->pad[1] + s->pad[3] - s->kernel[1]) / s->stride[1] + 1;
    return g;
}

/* The slow results of one convolution: [0] of the numbers, [1] of their absolute values. */
struct truth {
    double *out[2], *din[2], *dweight[2], *dbias[2];
};

static struct truth truth_of(const struct yk_batch16_window *g, const float *in,
                             const float *weight, const float *bias, const float *dout)
{
    size_t in_n = slow_in_lines(g) * L, out_n = slow_out_lines(g) * L, weights = slow_weights(g),
           plane = out_n / g->out_c;
    struct truth t;
    for (int k = 0; k < 2; k++) {
        double *x = widened(in, in_n, k), *w = widened(weight, weights, k),
               *d = widened(dout, out_n, k);
        double *b = widened(bias, g->out_c, k);
        t.out[k] = zeros(out_n);
        t.din[k] = zeros(in_n);
        t.dweight[k] = zeros(weights);
        t.dbias[k] = zeros(g->out_c);
        slow_fill_bias(g, b, t.out[k]);
        slow_conv_walk(g, slow_conv_each,
                       &(struct slow_conv){x, w, d, t.out[k], t.din[k], t.dweight[k]});
        for (size_t i = 0; i < out_n; i++)
            t.dbias[k][i / plane] += d[i];
        free(x);
        free(w);
        free(d);
        free(b);
    }
    return t;
}

static void truth_free(struct truth *t)
{
    for (int k = 0; k < 2; k++) {
        free(t->out[k]);
        free(t->din[k]);
        free(t->dweight[k]);
        free(t->dbias[k]);
    }
}

/* What gradients begin with, so that adding is seen. */
static void check_added(const char *what, const float *got, const float *before, const double *want,
                        const double *size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - before[i] - want[i]);
        if (!(error <= 1e-6 * (size[i] + 1)))
            fail_msg("%s: [%zu] is %.9g, not %.9g", what, i, (double)got[i], before[i] + want[i]);
    }
}

static void check_conv(const struct yk_batch16 *k, const char *isa, const struct shape *shape,
                       bool with_bias, bool relu)
{
    char what[160];
    struct yk_rng r;
    struct yk_batch16_window g = window_of(shape);
    yk_rng_init(&r, 7 + g.c, 0, 0, 0);
    size_t in_n = slow_in_lines(&g) * L, out_n = slow_out_lines(&g) * L, weights = slow_weights(&g);
    float *in = random_floats(&r, in_n), *weight = random_floats(&r, weights),
          *bias = random_floats(&r, g.out_c);
    float *dout = random_floats(&r, out_n), *out[2], *din[2], *dweight[2], *dbias[2],
          *before = random_floats(&r, weights);
    struct truth t = truth_of(&g, in, weight, with_bias ? bias : NULL, dout);
    snprintf(what, sizeof what, "%s: %ux%ux%u, %u %ux%u", isa, g.c, g.h, g.w, g.out_c, g.kernel[0],
             g.kernel[1]);
    assert_true(yk_batch16_window_fits(&g));
    g.relu = relu;
    if (relu)
        slow_relu(out_n, t.out[0]);
    for (int again = 0; again < 2; again++) { /* the same bits the second time */
        void *scratch = scratch_of(yk_batch16_conv_scratch(&g));
        out[again] = floats(out_n);
        din[again] = floats(in_n);
        dweight[again] = copy_of(before, weights);
        dbias[again] = copy_of(bias, g.out_c);
        k->conv(&g, in, weight, with_bias ? bias : NULL, out[again], scratch);
        k->conv_back(&g, dout, weight, din[again]);
        k->conv_grad(&g, in, dout, dweight[again], with_bias ? dbias[again] : NULL, scratch);
        free(scratch);
    }
    near(what, out[0], t.out[0], t.out[1], out_n);
    near(what, din[0], t.din[0], t.din[1], in_n);
    check_added(what, dweight[0], before, t.dweight[0], t.dweight[1], weights);
    if (with_bias)
        check_added(what, dbias[0], bias, t.dbias[0], t.dbias[1], g.out_c);
    else
        same(dbias[0], bias, g.out_c);
    same(out[0], out[1], out_n);
    same(din[0], din[1], in_n);
    same(dweight[0], dweight[1], weights);
    for (int again = 0; again < 2; again++) {
        free(out[again]);
        free(din[again]);
        free(dweight[again]);
        free(dbias[again]);
    }
    free(in);
    free(weight);
    free(bias);
    free(dout);
    free(before);
    truth_free(&t);
}

static void test_conv(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(SHAPES); s++)
        check_conv(kernels->batch16, kernels->name, &SHAPES[s], s % 3 != 2, s % 2 == 0);
}

/* Every width and number of channels up to past the largest tiles. */
static void test_conv_widths(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 14; n++) {
        const struct shape three = {1, 3, n + 2, n, {3, 3}, {1, 1}, {0, 0, 0, 0}, 1};
        const struct shape five = {2, 5, n + 4, 2, {5, 5}, {1, 1}, {0, 0, 0, 0}, 1};
        const struct shape taps = {n, 2, 3, 3, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1};
        const struct shape step = {1, 2, 2 * n, n, {2, 2}, {2, 2}, {0, 0, 0, 0}, 1};
        const struct shape *each[] = {&three, &five, &taps, &step};
        for (size_t s = 0; s < COUNT(each); s++)
            check_conv(kernels->batch16, kernels->name, each[s], true, false);
    }
}

static void test_fits(void **state)
{
    (void)state;
    struct yk_batch16_window good = window_of(&SHAPES[0]), g;
    assert_true(yk_batch16_window_fits(&good));
    g = good, g.out_w++;
    assert_false(yk_batch16_window_fits(&g));
    g = good, g.out_h = 0;
    assert_false(yk_batch16_window_fits(&g));
    g = good, g.stride[1] = 0;
    assert_false(yk_batch16_window_fits(&g));
    g = good, g.pad[2] = 5;
    assert_false(yk_batch16_window_fits(&g));
    g = good, g.groups = 4;
    assert_false(yk_batch16_window_fits(&g));
    g = good, g.kernel[0] = 40;
    assert_false(yk_batch16_window_fits(&g));
    g = (struct yk_batch16_window){.c = 1,
                                   .h = 1,
                                   .w = 1,
                                   .out_c = 1,
                                   .out_h = 2,
                                   .out_w = 1,
                                   .kernel = {2, 1},
                                   .stride = {2, 1},
                                   .pad = {1, 0, 1, 0},
                                   .groups = 1};
    g.h = 2;
    assert_true(yk_batch16_window_fits(&g)); /* 4 padded rows, windows at 0 and 2 */
    g.pad[0] = 0, g.h = 1, g.pad[2] = 1, g.stride[0] = 1, g.kernel[0] = 1;
    assert_false(yk_batch16_window_fits(&g)); /* the second window would see the border only */
}

/* --- pools --- */

static const struct shape POOLS[] = {
    {6, 28, 28, 6, {2, 2}, {2, 2}, {0, 0, 0, 0}, 1},
    {16, 10, 10, 16, {2, 2}, {2, 2}, {0, 0, 0, 0}, 1},
    {2, 7, 5, 2, {2, 2}, {2, 2}, {0, 0, 0, 0}, 1},
    {3, 13, 13, 3, {3, 3}, {2, 2}, {0, 0, 0, 0}, 1},
    {2, 8, 9, 2, {3, 3}, {2, 2}, {1, 1, 1, 1}, 1},
    {1, 6, 6, 1, {2, 3}, {1, 2}, {1, 0, 0, 2}, 1},
    {2, 4, 4, 2, {4, 4}, {4, 4}, {0, 0, 0, 0}, 1},
    {1, 9, 9, 1, {2, 2}, {4, 3}, {0, 0, 0, 0}, 1},
    {1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
    {1, 16, 16, 1, {16, 16}, {1, 1}, {0, 0, 0, 0}, 1},
};

static void check_pool(const struct yk_batch16 *k, const char *isa, const struct shape *shape,
                       bool max, bool relu, bool include_pad)
{
    char what[160];
    struct yk_rng r;
    struct yk_batch16_window g = window_of(shape);
    yk_rng_init(&r, 11, 0, 0, 0);
    g.relu = relu;
    g.include_pad = include_pad;
    snprintf(what, sizeof what, "%s: %s %ux%ux%u %ux%u", isa, max ? "max" : "avg", g.c, g.h, g.w,
             g.kernel[0], g.kernel[1]);
    assert_true(yk_batch16_window_fits(&g));
    size_t in_n = slow_in_lines(&g) * L, out_n = slow_out_lines(&g) * L;
    float *in = coarse_floats(&r, in_n), *dout = random_floats(&r, out_n), *out = floats(out_n),
          *din = floats(in_n);
    double *x = widened(in, in_n, false), *d = widened(dout, out_n, false), *y = zeros(out_n),
           *dx = zeros(in_n);
    uint8_t *index = malloc(out_n);
    slow_pool(&g, max, x, y, d, dx);
    if (max) {
        k->maxpool(&g, in, out, NULL);
        near(what, out, y, NULL, out_n);
        memset(out, 0xff, out_n * sizeof(float));
        k->maxpool(&g, in, out, index);
        k->maxpool_back(&g, dout, index, relu ? out : NULL, din);
    } else {
        k->avgpool(&g, in, out);
        k->avgpool_back(&g, dout, relu ? out : NULL, din);
    }
    near(what, out, y, NULL, out_n);
    near(what, din, dx, NULL, in_n);
    free(in);
    free(dout);
    free(out);
    free(din);
    free(index);
    free(x);
    free(d);
    free(y);
    free(dx);
}

static void test_pools(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(POOLS); s++)
        for (unsigned how = 0; how < 8; how++)
            check_pool(kernels->batch16, kernels->name, &POOLS[s], how & 1, how & 2, how & 4);
}

/* --- dense --- */

static void check_dense(const struct yk_batch16 *k, const char *isa, uint32_t in_n, uint32_t out_n,
                        bool with_bias, bool relu)
{
    char what[80];
    struct yk_rng r;
    struct yk_batch16_window g = slow_dense(in_n, out_n);
    yk_rng_init(&r, in_n * 1000 + out_n, 0, 0, 0);
    snprintf(what, sizeof what, "%s: dense %u -> %u", isa, in_n, out_n);
    size_t weights = (size_t)in_n * out_n, scratch_n = yk_batch16_dense_scratch(in_n);
    float *in = random_floats(&r, in_n * L), *weight = random_floats(&r, weights),
          *bias = random_floats(&r, out_n);
    float *dout = random_floats(&r, out_n * L), *out = floats(out_n * L), *din = floats(in_n * L);
    float *before = random_floats(&r, weights), *dweight = copy_of(before, weights),
          *dbias = copy_of(bias, out_n);
    void *scratch = scratch_of(scratch_n);
    struct truth t = truth_of(&g, in, weight, with_bias ? bias : NULL, dout);
    if (relu)
        slow_relu(out_n * L, t.out[0]);
    k->dense(in_n, out_n, relu, in, weight, with_bias ? bias : NULL, out);
    k->dense_back(in_n, out_n, dout, weight, din);
    k->dense_grad(in_n, out_n, in, dout, dweight, with_bias ? dbias : NULL, scratch);
    near(what, out, t.out[0], t.out[1], out_n * L);
    near(what, din, t.din[0], t.din[1], in_n * L);
    check_added(what, dweight, before, t.dweight[0], t.dweight[1], weights);
    if (with_bias)
        check_added(what, dbias, bias, t.dbias[0], t.dbias[1], out_n);
    else
        same(dbias, bias, out_n);
    free(in);
    free(weight);
    free(bias);
    free(dout);
    free(out);
    free(din);
    free(before);
    free(dweight);
    free(dbias);
    free(scratch);
    truth_free(&t);
}

static void test_dense(void **state)
{
    (void)state;
    static const uint32_t BIG[][2] = {{400, 120}, {120, 84}, {84, 10}, {257, 33}, {1000, 3}};
    for (size_t s = 0; s < COUNT(BIG); s++)
        check_dense(kernels->batch16, kernels->name, BIG[s][0], BIG[s][1], true, s % 2 == 0);
    for (uint32_t n = 1; n <= 27; n++) {
        check_dense(kernels->batch16, kernels->name, n, 28 - n, n % 2 == 0, n % 3 == 0);
        check_dense(kernels->batch16, kernels->name, 16 * n + n % 5, 5, true, false);
    }
}

/* --- one number at a time --- */

static double slow_point(enum yk_batch16_point f, double x)
{
    return f == YK_BATCH16_RELU ? fmax(x, 0) : f == YK_BATCH16_TANH ? tanh(x) : 1 / (1 + exp(-x));
}

static void test_points(void **state)
{
    (void)state;
    enum { N = 4096 };
    static const enum yk_batch16_point F[] = {YK_BATCH16_RELU, YK_BATCH16_TANH, YK_BATCH16_SIGMOID};
    for (size_t f = 0; f < COUNT(F); f++) {
        const struct yk_batch16 *k = kernels->batch16;
        float *in = floats(N * L), *out = floats(N * L), *dout = floats(N * L);
        for (size_t j = 0; j < (size_t)N * L; j++) { /* 1e-6 .. 100 of both signs */
            in[j] = (float)((j % 2 ? -1 : 1) * pow(10, -6 + 8 * (double)j / (N * L)));
            dout[j] = 1 + (float)(j % 5);
        }
        k->point(F[f], N, in, out);
        k->point_back(F[f], N, out, dout, dout);
        for (size_t j = 0; j < (size_t)N * L; j++) {
            double x = in[j], y = slow_point(F[f], x), h = 1e-4;
            double slope = (slow_point(F[f], x + h * fabs(x)) - slow_point(F[f], x - h * fabs(x))) /
                           (2 * h * fabs(x));
            if (!(fabs(out[j] - y) <= 4e-7 * fabs(y) + 1e-37))
                fail_msg("%s: function %zu of %g is %.9g, not %.9g", kernels->name, f, x,
                         (double)out[j], y);
            if (!(fabs(dout[j] / (1 + (double)(j % 5)) - slope) <= 1e-6))
                fail_msg("%s: slope %zu at %g is %.9g, not %.9g", kernels->name, f, x,
                         (double)dout[j], slope);
        }
        k->point(F[f], N, in, in); /* in place */
        same(in, out, (size_t)N * L);
        in[3] = NAN; /* is not hidden */
        k->point(F[f], 1, in, out);
        assert_true(isnan(out[3]) && !isnan(out[2]));
        free(in);
        free(out);
        free(dout);
    }
}

static void check_loss(const struct yk_kernels *k, uint32_t classes, uint32_t n, float smoothing,
                       float scale)
{
    struct yk_rng r;
    yk_rng_init(&r, classes * 17 + n, 0, 0, 0);
    float *z = random_floats(&r, classes * L), *grad = floats(classes * L),
          *prob = floats(classes * L);
    uint16_t label[L];
    uint32_t correct = 0;
    for (size_t i = 0; i < classes * L; i++)
        z[i] *= scale;
    for (uint32_t i = 0; i < n; i++)
        label[i] = (uint16_t)(yk_rng_unit(&r) * classes);
    struct yk_batch16_loss l = {.classes = classes,
                                .n = n,
                                .label = label,
                                .z = z,
                                .smoothing = smoothing,
                                .grad = grad,
                                .prob = prob};
    k->batch16->loss(&l);
    double *wide = widened(z, classes * L, false), *want = zeros(classes * L);
    for (size_t i = 0; i < L; i++) {
        if (i >= n) {
            assert_true(l.loss[i] == 0);
            for (size_t c = 0; c < classes; c++)
                assert_true(grad[c * L + i] == 0);
            continue;
        }
        double loss = slow_loss(classes, wide + i, label[i], smoothing, want + i);
        size_t best = 0;
        for (size_t c = 0; c < classes; c++) {
            double target = smoothing / classes + (c == label[i] ? 1 - (double)smoothing : 0);
            assert_true(fabs(grad[c * L + i] - want[c * L + i]) <= 1e-6);
            assert_true(fabs(prob[c * L + i] - want[c * L + i] - target) <= 1e-6);
            best = z[c * L + i] > z[best * L + i] ? c : best;
        }
        correct += best == label[i];
        assert_true(fabs(l.loss[i] - loss) <= 1e-6 * (1 + loss + scale));
    }
    assert_int_equal(l.correct, correct);
    struct yk_batch16_loss in_place = l;
    in_place.grad = z;
    in_place.prob = NULL;
    k->batch16->loss(&in_place);
    same(z, grad, classes * L);
    same(in_place.loss, l.loss, L);
    free(z);
    free(grad);
    free(prob);
    free(wide);
    free(want);
}

static void test_loss(void **state)
{
    (void)state;
    static const uint32_t CLASSES[] = {1, 2, 10, 17, 1000};
    for (size_t c = 0; c < COUNT(CLASSES); c++)
        for (uint32_t n = 0; n <= L; n += 4) {
            check_loss(kernels, CLASSES[c], n, 0, 3);
            check_loss(kernels, CLASSES[c], n == 0 ? 1 : n - 1, 0.1f, 80);
        }
}

/* --- into the layout and out of it --- */

static void check_bytes(const struct yk_batch16 *k, uint32_t c, size_t pixels, uint32_t n)
{
    struct yk_rng r;
    yk_rng_init(&r, pixels, 0, 0, 0);
    const float scale[] = {1 / 255.0f, 0.25f, -2, 1}, shift[] = {0, -0.5f, 3, 7};
    uint8_t *bytes[L] = {0};
    float *out = floats(pixels * c * L);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t lane = (i * 5 + 3) % L; /* not the first ones */
        bytes[lane] = malloc(pixels * c);
        assert_non_null(bytes[lane]);
        for (size_t p = 0; p < pixels * c; p++)
            bytes[lane][p] = (uint8_t)(yk_rng_unit(&r) * 256);
    }
    k->from_u8(c, pixels, (const uint8_t *const *)bytes, scale, shift, out);
    for (size_t p = 0; p < pixels; p++)
        for (size_t ch = 0; ch < c; ch++)
            for (size_t l = 0; l < L; l++) {
                double want =
                    bytes[l] == NULL ? 0 : (double)bytes[l][p * c + ch] * scale[ch] + shift[ch];
                assert_true(fabs(out[(ch * pixels + p) * L + l] - want) <= 1e-4);
            }
    for (size_t l = 0; l < L; l++)
        free(bytes[l]);
    free(out);
}

static void test_loading(void **state)
{
    (void)state;
    static const size_t PIXELS[] = {1, 5, 15, 16, 17, 49, 784, 1024};
    for (size_t p = 0; p < COUNT(PIXELS); p++)
        for (uint32_t c = 1; c <= 4; c++)
            for (uint32_t n = 1; n <= L; n += 5)
                check_bytes(kernels->batch16, c, PIXELS[p], n);
}

static void test_rows(void **state)
{
    (void)state;
    static const size_t N[] = {1, 3, 4, 15, 16, 17, 400};
    for (size_t k = 0; k < COUNT(N); k++) {
        struct yk_rng r;
        yk_rng_init(&r, 5, 0, 0, 0);
        size_t n = N[k];
        float *row[L], *back[L], *out = floats(n * L);
        for (size_t l = 0; l < L; l++) {
            row[l] = l == 3 || l == 15 ? NULL : random_floats(&r, n);
            back[l] = l == 4 ? NULL : floats(n);
        }
        kernels->batch16->from_rows(n, (const float *const *)row, out);
        for (size_t j = 0; j < n * L; j++)
            assert_true(out[j] == (row[j % L] == NULL ? 0 : row[j % L][j / L]));
        kernels->batch16->to_rows(n, out, back);
        for (size_t l = 0; l < L; l++)
            for (size_t j = 0; j < n && back[l] != NULL; j++)
                assert_true(back[l][j] == out[j * L + l]);
        for (size_t l = 0; l < L; l++) {
            free(row[l]);
            free(back[l]);
        }
        free(out);
    }
}

/* A table of which nothing is empty, and all is the set's own. */
static void test_tables(void **state)
{
    (void)state;
    union table {
        struct yk_batch16 batch16;
        void (*function[sizeof(struct yk_batch16) / sizeof(void (*)(void))])(void);
    } mine = {.batch16 = *kernels->batch16};
    for (size_t k = 0; k < COUNT(mine.function); k++)
        assert_true(mine.function[k] != NULL);
    for (unsigned i = 0; yk_kernels_at(i) != kernels; i++) {
        const union table other = {.batch16 = *yk_kernels_at(i)->batch16};
        for (size_t k = 0; k < COUNT(mine.function); k++)
            assert_true(other.function[k] != mine.function[k]);
    }
}

int main(void)
{
    const struct CMUnitTest once[] = {cmocka_unit_test(test_fits)};
    const struct CMUnitTest each[] = {
        cmocka_unit_test(test_tables),      cmocka_unit_test(test_conv),
        cmocka_unit_test(test_conv_widths), cmocka_unit_test(test_pools),
        cmocka_unit_test(test_dense),       cmocka_unit_test(test_points),
        cmocka_unit_test(test_loss),        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_rows),
    };
    return isa_run(once, COUNT(once), each, COUNT(each));
}
