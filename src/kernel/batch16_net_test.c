/* batch16_net_test.c - a worked example: LeNet, forward and backward, through the kernels of
 * batch16.h, 16 images at a time.
 *
 *     28x28x1  conv 6 5x5 pad 2  maxpool 2x2 relu  conv 16 5x5  maxpool 2x2 relu
 *              dense 120 relu  dense 84 relu  dense 10
 *
 * relu comes after pooling, where it gives the same with a quarter of the work. 27 images make one
 * full batch and one with 5 empty lanes. Losses and all 61,706 gradients are compared with the slow
 * layers of tests/batch16_slow.h in double, for every instruction set, and the slow ones with
 * finite differences of their loss. */
#include "kernel/batch16.h"
#include "kernel/kernel.h"

#include "base/rng.h"
#include "tests/batch16_slow.h"
#include "tests/isas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { L = YK_BATCH16, IMAGES = 27, BLOCKS = (IMAGES + L - 1) / L, PIXELS = 28 * 28, CLASSES = 10 };
static const float SCALE = 1 / 255.0f, SHIFT = 0, SMOOTHING = 0.1f;

/* Flat parameters, weights and biases layer after layer. */
enum {
    W1 = 0,
    B1 = W1 + 6 * 25,
    W2 = B1 + 6,
    B2 = W2 + 16 * 6 * 25,
    W3 = B2 + 16,
    B3 = W3 + 120 * 400,
    W4 = B3 + 120,
    B4 = W4 + 84 * 120,
    W5 = B4 + 84,
    B5 = W5 + 10 * 84,
    PARAMS = B5 + 10
};
static const size_t VIEWS[] = {W1, B1, W2, B2, W3, B3, W4, B4, W5, B5, PARAMS};
enum { N_VIEWS = sizeof VIEWS / sizeof VIEWS[0] - 1 };

static const struct yk_batch16_window CONV1 = {.c = 1,
                                               .h = 28,
                                               .w = 28,
                                               .out_c = 6,
                                               .out_h = 28,
                                               .out_w = 28,
                                               .kernel = {5, 5},
                                               .stride = {1, 1},
                                               .pad = {2, 2, 2, 2},
                                               .groups = 1};
static const struct yk_batch16_window POOL1 = {.c = 6,
                                               .h = 28,
                                               .w = 28,
                                               .out_c = 6,
                                               .out_h = 14,
                                               .out_w = 14,
                                               .kernel = {2, 2},
                                               .stride = {2, 2},
                                               .groups = 1,
                                               .relu = true};
static const struct yk_batch16_window CONV2 = {.c = 6,
                                               .h = 14,
                                               .w = 14,
                                               .out_c = 16,
                                               .out_h = 10,
                                               .out_w = 10,
                                               .kernel = {5, 5},
                                               .stride = {1, 1},
                                               .groups = 1};
static const struct yk_batch16_window POOL2 = {.c = 16,
                                               .h = 10,
                                               .w = 10,
                                               .out_c = 16,
                                               .out_h = 5,
                                               .out_w = 5,
                                               .kernel = {2, 2},
                                               .stride = {2, 2},
                                               .groups = 1,
                                               .relu = true};

struct data {
    uint8_t image[IMAGES][PIXELS];
    uint16_t label[IMAGES];
    float params[PARAMS];
};

static void data_init(struct data *d)
{
    struct yk_rng r;
    yk_rng_init(&r, 4, 0, 0, 0);
    for (size_t i = 0; i < IMAGES; i++) {
        d->label[i] = (uint16_t)yk_rng_below(&r, CLASSES);
        for (size_t p = 0; p < PIXELS; p++) /* mostly background, as digits are */
            d->image[i][p] = yk_rng_below(&r, 5) == 0 ? (uint8_t)yk_rng_below(&r, 256) : 0;
    }
    static const float SPREAD[] = {0.2f, 0.1f, 0.08f, 0.1f, 0.05f, 0.1f, 0.1f, 0.1f, 0.2f, 0.1f};
    for (size_t v = 0; v < N_VIEWS; v++)
        for (size_t i = VIEWS[v]; i < VIEWS[v + 1]; i++)
            d->params[i] = (float)(yk_rng_unit(&r) * 2 - 1) * SPREAD[v];
}

/* --- the example --- */

/* What one thread needs for a batch. Gradients of activations take the place of the activations
 * where those are not needed any more. */
struct lenet {
    _Alignas(64) float in[PIXELS * L];
    float conv1[6 * 28 * 28 * L]; /* later its gradient */
    float pool1[6 * 14 * 14 * L], d_pool1[6 * 14 * 14 * L];
    float conv2[16 * 10 * 10 * L]; /* later its gradient */
    float pool2[400 * L], d_pool2[400 * L];
    float dense1[120 * L], d_dense1[120 * L];
    float dense2[84 * L], d_dense2[84 * L];
    float z[CLASSES * L]; /* later its gradient */
    uint8_t which1[6 * 14 * 14 * L], which2[400 * L];
    void *scratch;
};

static struct lenet *lenet_open(void)
{
    void *n = NULL, *scratch = NULL;
    size_t bytes = yk_batch16_conv_scratch(&CONV1);
    bytes = bytes > yk_batch16_conv_scratch(&CONV2) ? bytes : yk_batch16_conv_scratch(&CONV2);
    bytes = bytes > yk_batch16_dense_scratch(400) ? bytes : yk_batch16_dense_scratch(400);
    assert_int_equal(posix_memalign(&n, 64, sizeof(struct lenet)), 0);
    assert_int_equal(posix_memalign(&scratch, 64, bytes), 0);
    memset(n, 0xff, sizeof(struct lenet));
    ((struct lenet *)n)->scratch = scratch;
    return n;
}

/* One block: adds to grad, gives each image's loss. */
static void lenet_block(const struct yk_batch16 *k, struct lenet *n, const uint8_t *const image[L],
                        const uint16_t *label, uint32_t images, const float *w, float *grad,
                        float loss[L])
{
    k->from_u8(1, PIXELS, image, &SCALE, &SHIFT, n->in);
    k->conv(&CONV1, n->in, w + W1, w + B1, n->conv1, n->scratch);
    k->maxpool(&POOL1, n->conv1, n->pool1, n->which1);
    k->conv(&CONV2, n->pool1, w + W2, w + B2, n->conv2, n->scratch);
    k->maxpool(&POOL2, n->conv2, n->pool2, n->which2);
    k->dense(400, 120, true, n->pool2, w + W3, w + B3, n->dense1);
    k->dense(120, 84, true, n->dense1, w + W4, w + B4, n->dense2);
    k->dense(84, CLASSES, false, n->dense2, w + W5, w + B5, n->z);

    struct yk_batch16_loss l = {.classes = CLASSES,
                                .n = images,
                                .label = label,
                                .z = n->z,
                                .smoothing = SMOOTHING,
                                .grad = n->z};
    k->loss(&l);
    memcpy(loss, l.loss, sizeof l.loss);

    k->dense_grad(84, CLASSES, n->dense2, n->z, grad + W5, grad + B5, n->scratch);
    k->dense_back(84, CLASSES, n->z, w + W5, n->d_dense2);
    k->point_back(YK_BATCH16_RELU, 84, n->dense2, n->d_dense2, n->d_dense2);
    k->dense_grad(120, 84, n->dense1, n->d_dense2, grad + W4, grad + B4, n->scratch);
    k->dense_back(120, 84, n->d_dense2, w + W4, n->d_dense1);
    k->point_back(YK_BATCH16_RELU, 120, n->dense1, n->d_dense1, n->d_dense1);
    k->dense_grad(400, 120, n->pool2, n->d_dense1, grad + W3, grad + B3, n->scratch);
    k->dense_back(400, 120, n->d_dense1, w + W3, n->d_pool2);
    k->maxpool_back(&POOL2, n->d_pool2, n->which2, n->pool2, n->conv2);
    k->conv_grad(&CONV2, n->pool1, n->conv2, grad + W2, grad + B2, n->scratch);
    k->conv_back(&CONV2, n->conv2, w + W2, n->d_pool1);
    k->maxpool_back(&POOL1, n->d_pool1, n->which1, n->pool1, n->conv1);
    k->conv_grad(&CONV1, n->in, n->conv1, grad + W1, grad + B1,
                 n->scratch); /* the gradient of pixels is not needed */
}

static void lenet_step(const struct yk_batch16 *k, const struct data *d, float *grad,
                       float loss[BLOCKS][L])
{
    struct lenet *n = lenet_open();
    memset(grad, 0, sizeof(float) * PARAMS);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint32_t images = IMAGES - b * L < L ? IMAGES - b * L : L;
        const uint8_t *image[L] = {0};
        for (uint32_t i = 0; i < images; i++)
            image[i] = d->image[b * L + i];
        lenet_block(k, n, image, d->label + b * L, images, d->params, grad, loss[b]);
    }
    free(n->scratch);
    free(n);
}

/* --- the same, slowly --- */

struct slow {
    double in[PIXELS * L], conv1[6 * 28 * 28 * L], pool1[6 * 14 * 14 * L], conv2[1600 * L],
        pool2[400 * L], dense1[120 * L];
    double dense2[84 * L], z[CLASSES * L], d_conv1[6 * 28 * 28 * L], d_pool1[6 * 14 * 14 * L],
        d_conv2[1600 * L], d_pool2[400 * L];
    double d_dense1[120 * L], d_dense2[84 * L], d_z[CLASSES * L];
};

static void slow_forward(const struct yk_batch16_window *g, const double *in, const double *weight,
                         const double *bias, double *out)
{
    slow_fill_bias(g, bias, out);
    slow_conv_walk(g, slow_conv_each, &(struct slow_conv){.in = in, .weight = weight, .out = out});
}

static void slow_backward(const struct yk_batch16_window *g, const double *in, const double *weight,
                          const double *dout, double *din, double *dweight, double *dbias)
{
    slow_conv_walk(g, slow_conv_each,
                   &(struct slow_conv){
                       .in = in, .weight = weight, .dout = dout, .din = din, .dweight = dweight});
    for (size_t i = 0; i < slow_out_lines(g) * L; i++)
        dbias[i / (slow_out_lines(g) * L / g->out_c)] += dout[i];
}

/* The summed loss of block b, and unless NULL each image's; adds to grad unless NULL. */
static double slow_block(const struct data *d, const double *w, uint32_t b, double *grad,
                         double *each)
{
    const struct yk_batch16_window d1 = slow_dense(400, 120), d2 = slow_dense(120, 84),
                                   d3 = slow_dense(84, CLASSES);
    struct slow *s = calloc(1, sizeof *s);
    assert_non_null(s);
    double loss = 0;
    for (uint32_t i = 0; i < L && b * L + i < IMAGES; i++)
        for (size_t p = 0; p < PIXELS; p++)
            s->in[p * L + i] = d->image[b * L + i][p] * (double)SCALE;
    slow_forward(&CONV1, s->in, w + W1, w + B1, s->conv1);
    slow_pool(&POOL1, true, s->conv1, s->pool1, NULL, NULL);
    slow_forward(&CONV2, s->pool1, w + W2, w + B2, s->conv2);
    slow_pool(&POOL2, true, s->conv2, s->pool2, NULL, NULL);
    slow_forward(&d1, s->pool2, w + W3, w + B3, s->dense1);
    slow_relu(120 * L, s->dense1);
    slow_forward(&d2, s->dense1, w + W4, w + B4, s->dense2);
    slow_relu(84 * L, s->dense2);
    slow_forward(&d3, s->dense2, w + W5, w + B5, s->z);
    for (uint32_t i = 0; i < L && b * L + i < IMAGES; i++) {
        double one =
            slow_loss(CLASSES, s->z + i, d->label[b * L + i], (double)SMOOTHING, s->d_z + i);
        loss += one;
        if (each != NULL)
            each[i] = one;
    }
    if (grad != NULL) {
        slow_backward(&d3, s->dense2, w + W5, s->d_z, s->d_dense2, grad + W5, grad + B5);
        slow_relu_back(84 * L, s->dense2, s->d_dense2);
        slow_backward(&d2, s->dense1, w + W4, s->d_dense2, s->d_dense1, grad + W4, grad + B4);
        slow_relu_back(120 * L, s->dense1, s->d_dense1);
        slow_backward(&d1, s->pool2, w + W3, s->d_dense1, s->d_pool2, grad + W3, grad + B3);
        slow_pool(&POOL2, true, s->conv2, s->pool2, s->d_pool2, s->d_conv2);
        slow_backward(&CONV2, s->pool1, w + W2, s->d_conv2, s->d_pool1, grad + W2, grad + B2);
        slow_pool(&POOL1, true, s->conv1, s->pool1, s->d_pool1, s->d_conv1);
        slow_backward(&CONV1, s->in, w + W1, s->d_conv1, NULL, grad + W1, grad + B1);
    }
    free(s);
    return loss;
}

static double *wide_params(const struct data *d)
{
    double *w = calloc(PARAMS, sizeof *w);
    assert_non_null(w);
    for (size_t i = 0; i < PARAMS; i++)
        w[i] = d->params[i];
    return w;
}

/* --- the tests --- */

static void test_against_slow(void **state)
{
    (void)state;
    struct data *d = calloc(1, sizeof *d);
    double *want = calloc(PARAMS, sizeof *want), each[BLOCKS][L] = {{0}};
    float *grad = calloc(PARAMS, sizeof *grad), *again = calloc(PARAMS, sizeof *again),
          loss[BLOCKS][L];
    assert_true(d != NULL && want != NULL && grad != NULL && again != NULL);
    data_init(d);
    double *w = wide_params(d);
    for (uint32_t b = 0; b < BLOCKS; b++)
        slow_block(d, w, b, want, each[b]);
    const struct yk_kernels *k = kernels;
    lenet_step(k->batch16, d, grad, loss);
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t l = 0; l < L; l++)
            if (!(fabs(loss[b][l] - each[b][l]) <= 2e-6 * (1 + each[b][l])))
                fail_msg("%s: image %u has loss %.9g, not %.9g", k->name, b * L + l,
                         (double)loss[b][l], each[b][l]);
    for (size_t v = 0; v < N_VIEWS; v++) {
        double top = 0;
        for (size_t p = VIEWS[v]; p < VIEWS[v + 1]; p++)
            top = fmax(top, fabs(want[p]));
        assert_true(top > 1e-3); /* something arrives at every layer */
        for (size_t p = VIEWS[v]; p < VIEWS[v + 1]; p++)
            if (!(fabs(grad[p] - want[p]) <= 1e-5 * top))
                fail_msg("%s: gradient %zu of view %zu is %.9g, not %.9g", k->name, p - VIEWS[v], v,
                         (double)grad[p], want[p]);
    }
    lenet_step(k->batch16, d, again, loss);
    assert_memory_equal(grad, again, sizeof(float) * PARAMS);
    free(d);
    free(want);
    free(grad);
    free(again);
    free(w);
}

/* The slow gradient is the slope of the slow loss: a few parameters of every view, by central
 * differences. */
static void test_slow_against_differences(void **state)
{
    (void)state;
    enum { SOME = 3 };
    const double h = 1e-6;
    struct data *d = calloc(1, sizeof *d);
    double *grad = calloc(PARAMS, sizeof *grad);
    assert_true(d != NULL && grad != NULL);
    data_init(d);
    double *w = wide_params(d);
    struct yk_rng r;
    yk_rng_init(&r, 9, 0, 0, 0);
    slow_block(d, w, BLOCKS - 1, grad, NULL);
    for (size_t v = 0; v < N_VIEWS; v++)
        for (int n = 0; n < SOME; n++) {
            size_t p = VIEWS[v] + yk_rng_below(&r, (uint32_t)(VIEWS[v + 1] - VIEWS[v]));
            double before = w[p];
            w[p] = before + h;
            double up = slow_block(d, w, BLOCKS - 1, NULL, NULL);
            w[p] = before - h;
            double slope = (up - slow_block(d, w, BLOCKS - 1, NULL, NULL)) / (2 * h);
            w[p] = before;
            if (!(fabs(slope - grad[p]) <= 1e-6 * (1 + fabs(slope))))
                fail_msg("parameter %zu of view %zu: slope %.9g, gradient %.9g", p - VIEWS[v], v,
                         slope, grad[p]);
        }
    free(d);
    free(grad);
    free(w);
}

/* An image's loss is the same bits in any lane and whatever is beside it, and an empty lane leaves
 * no trace in the gradient. */
static void test_lanes_are_apart(void **state)
{
    (void)state;
    struct data *d = calloc(1, sizeof *d);
    float *grad = calloc(PARAMS, sizeof *grad), loss[3][L];
    assert_true(d != NULL && grad != NULL);
    data_init(d);
    struct lenet *n = lenet_open();
    const uint8_t *all[L] = {0}, *one[L] = {d->image[2]}, *none[L] = {0};
    for (uint32_t l = 0; l < L; l++)
        all[l] = d->image[l];
    lenet_block(kernels->batch16, n, all, d->label, L, d->params, grad, loss[0]);
    lenet_block(kernels->batch16, n, one, d->label + 2, 1, d->params, grad, loss[1]);
    assert_true(loss[0][2] == loss[1][0] && loss[1][0] > 0 && loss[1][1] == 0);
    memset(grad, 0, sizeof(float) * PARAMS);
    lenet_block(kernels->batch16, n, none, d->label, 0, d->params, grad, loss[2]);
    for (size_t p = 0; p < PARAMS; p++)
        assert_true(grad[p] == 0);
    free(n->scratch);
    free(n);
    free(d);
    free(grad);
}

int main(void)
{
    const struct CMUnitTest once[] = {cmocka_unit_test(test_slow_against_differences)};
    const struct CMUnitTest each[] = {cmocka_unit_test(test_against_slow),
                                      cmocka_unit_test(test_lanes_are_apart)};
    return isa_run(once, sizeof once / sizeof once[0], each, sizeof each / sizeof each[0]);
}
