/* softmax_test.c - gradients against finite differences of the loss, and batches cut over threads:
 * the same sums, the same bits from run to run, every row once. */
#include "model/model.h"

#include "base/file.h"
#include "base/rng.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/packed.h"

enum { ROWS = 1000, HEIGHT = 5, WIDTH = 7, FEATURES = HEIGHT * WIDTH, CLASSES = 6 };

extern const struct yk_model_ops yk_model_softmax;
static const struct yk_model_ops *const OPS = &yk_model_softmax;

static _Alignas(64) uint8_t pixels[ROWS * FEATURES + YK_ROW_SLACK];
static uint16_t labels[ROWS];
static uint32_t order[ROWS];
static struct yk_dataset set = {.name = "random",
                                .rows = ROWS,
                                .features = FEATURES,
                                .classes = CLASSES,
                                .shape = {HEIGHT, WIDTH, 1},
                                .pixels = pixels,
                                .labels = labels,
                                .scale = 1.0f / 255};

static struct yk_dataset packed;

/* A model with random parameters, and a sink that remembers what it was told. */
struct rig {
    struct yk_sink sink; /* first */
    struct yk_model *model;
    struct yk_work *work;
    struct yk_params params;
    unsigned calls;
    size_t lo, hi;
};

static void ready(struct yk_sink *s, size_t lo, size_t hi)
{
    struct rig *r = (struct rig *)s;
    r->calls++;
    r->lo = lo;
    r->hi = hi;
}

static void rig_open(struct rig *r, unsigned threads)
{
    struct yk_error e;
    struct yk_rng rng;
    *r = (struct rig){.sink.ready = ready};
    yk_rng_init(&rng, 1, 2, 3, 4);
    for (size_t i = 0; i < ROWS * FEATURES; i++)
        pixels[i] = yk_rng_below(&rng, 4) == 0 ? (uint8_t)yk_rng_below(&rng, 256) : 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        labels[i] = (uint16_t)yk_rng_below(&rng, CLASSES);
        order[i] = (i * 389 + 17) % ROWS; /* 389 and 1000 have no common factor: every row once */
    }
    if (packed.packed.blocks == NULL) /* the same for every rig, and kept for all of them */
        packed = packed_copy(&set);
    assert_int_equal(OPS->open(&r->model, &packed, &e), YK_OK);
    assert_int_equal(OPS->layout(r->model, &r->params, 1, &e), YK_OK);
    for (size_t i = 0; i < r->params.count; i++)
        assert_true(r->params.flat[i] == 0); /* the documented start */
    for (size_t v = 0; v < r->params.views; v++)
        for (size_t i = 0; i < r->params.view[v].count; i++)
            r->params.flat[r->params.view[v].at + i] = (float)(yk_rng_unit(&rng) - 0.5) * 2;
    assert_int_equal(OPS->work_open(&r->work, r->model, threads, "auto", &e), YK_OK);
    r->sink.grad = yk_floats(r->params.count);
    assert_non_null(r->sink.grad);
}

static void rig_close(struct rig *r)
{
    OPS->work_close(r->work);
    OPS->close(r->model);
    yk_params_release(&r->params);
    yk_floats_free(r->sink.grad);
}

static struct yk_batch rows(uint32_t n)
{
    return (struct yk_batch){
        .set = &packed, .n = n, .row = order, .ahead = order, .n_ahead = n / 2};
}

static double loss_of(struct rig *r, const struct yk_batch *b)
{
    struct yk_score score = {0};
    OPS->score(r->work, &r->params, b, &score, NULL);
    assert_int_equal(score.examples, b->n);
    return score.loss;
}

/* The gradient of the summed loss, parameter by parameter. */
static void test_finite_differences(void **state)
{
    (void)state;
    struct rig r;
    const struct yk_batch b = rows(40);
    const float h = 1.0f / 64;
    rig_open(&r, 1);
    double loss = OPS->step(r.work, &r.params, &b, &r.sink);
    assert_true(fabs(loss - loss_of(&r, &b)) < 1e-9 * loss);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.lo, 0);
    assert_int_equal(r.hi, r.params.count);
    for (size_t v = 0; v < r.params.views; v++) {
        double largest = 0;
        for (size_t i = 0; i < r.params.view[v].count; i++) {
            float *w = r.params.flat + r.params.view[v].at + i, kept = *w;
            *w = kept + h;
            double up = loss_of(&r, &b);
            *w = kept - h;
            double slope = (up - loss_of(&r, &b)) / (2 * (double)h),
                   got = (double)r.sink.grad[r.params.view[v].at + i];
            *w = kept;
            largest = fmax(largest, fabs(slope));
            if (!(fabs(got - slope) < 2e-3 + 1e-3 * fabs(slope)))
                fail_msg("%s[%zu]: %.6f, not %.6f", r.params.view[v].name, i, got, slope);
        }
        assert_true(largest > 0.5); /* so that the tolerance means something */
    }
    rig_close(&r);
}

static void test_layout(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, 1);
    const struct yk_view *w = yk_params_find(&r.params, "softmax.weight"),
                         *b = yk_params_find(&r.params, "softmax.bias");
    assert_int_equal(r.params.views, 2);
    assert_true(w->ndim == 2 && w->shape[0] == CLASSES && w->shape[1] == FEATURES);
    assert_true(b->ndim == 1 && b->shape[0] == CLASSES);
    rig_close(&r);
}

/* Steps over more rows than one thread takes: 1, 2 and 3 parts add up to the same, and a part's
 * place is its own. */
static void test_threads(void **state)
{
    (void)state;
    static const uint32_t N[] = {100, 255, 256, 383, 384, 600, ROWS};
    static float prob[3][ROWS * CLASSES];
    for (size_t k = 0; k < sizeof N / sizeof N[0]; k++) {
        const struct yk_batch b = rows(N[k]);
        struct rig r[3];
        struct yk_score score[3] = {{0}};
        double loss[3];
        for (unsigned t = 0; t < 3; t++) {
            rig_open(&r[t], t + 1);
            loss[t] = OPS->step(r[t].work, &r[t].params, &b, &r[t].sink);
            assert_int_equal(r[t].calls, 1);
            OPS->score(r[t].work, &r[t].params, &b, &score[t], prob[t]);
            assert_true(fabs(loss[t] - loss[0]) < 1e-9 * loss[0]);
            assert_true(fabs(score[t].loss - loss[0]) < 1e-9 * loss[0]);
            assert_int_equal(score[t].correct, score[0].correct);
            assert_int_equal(score[t].examples, N[k]);
            assert_memory_equal(prob[t], prob[0],
                                /* a row does not see its neighbours */
                                N[k] * CLASSES * sizeof(float));
            for (size_t i = 0; i < r[0].params.count; i++)
                assert_true(fabsf(r[t].sink.grad[i] - r[0].sink.grad[i]) < 2e-5f * (float)N[k]);
            struct yk_score twice = score[t];
            OPS->score(r[t].work, &r[t].params, &b, &twice, NULL); /* scores add up */
            assert_int_equal(twice.examples, 2 * N[k]);
            assert_int_equal(twice.correct, 2 * score[t].correct);
            assert_true(fabs(twice.loss - 2 * loss[0]) < 1e-8 * loss[0]);
        }
        assert_in_range(score[0].correct, 1, N[k]);
        for (unsigned t = 0; t < 3; t++)
            rig_close(&r[t]);
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    const struct yk_batch b = rows(ROWS);
    struct rig r;
    rig_open(&r, 3);
    size_t bytes = r.params.count * sizeof(float);
    double loss = OPS->step(r.work, &r.params, &b, &r.sink);
    float *first = malloc(bytes);
    assert_non_null(first);
    memcpy(first, r.sink.grad, bytes);
    for (int i = 0; i < 50; i++) {
        const struct yk_batch other = rows(130 + (uint32_t)i * 17);
        OPS->step(r.work, &r.params, &other, &r.sink); /* leaves parts of other lengths behind */
        assert_true(OPS->step(r.work, &r.params, &b, &r.sink) == loss);
        assert_memory_equal(r.sink.grad, first, bytes);
    }
    const struct yk_view *bias = yk_params_find(&r.params, "softmax.bias");
    for (size_t i = bias->at + bias->count; i < 16; i++)
        assert_true(r.sink.grad[i] == 0); /* the gap between views stays zero */
    free(first);
    rig_close(&r);
}

static void test_busy(void **state)
{
    (void)state;
    static const struct {
        uint32_t batch;
        unsigned of_one, of_two, of_three;
    } BUSY[] = {{1, 1, 1, 1},   {100, 1, 1, 1}, {255, 1, 1, 1},  {256, 1, 2, 2},
                {383, 1, 2, 2}, {384, 1, 2, 3}, {60000, 1, 2, 3}};
    struct rig one, two, three;
    rig_open(&one, 1);
    rig_open(&two, 2);
    rig_open(&three, 3);
    for (size_t i = 0; i < sizeof BUSY / sizeof BUSY[0]; i++) {
        assert_int_equal(OPS->busy(one.work, BUSY[i].batch), BUSY[i].of_one);
        assert_int_equal(OPS->busy(two.work, BUSY[i].batch), BUSY[i].of_two);
        assert_int_equal(OPS->busy(three.work, BUSY[i].batch), BUSY[i].of_three);
    }
    rig_close(&one);
    rig_close(&two);
    rig_close(&three);
}

static void test_refuses(void **state)
{
    (void)state;
    struct yk_error e;
    struct yk_model *m = NULL;
    struct yk_work *w = NULL;
    struct yk_dataset bad = set;
    static const uint32_t CLASSES_BAD[] = {0, 1, 257, 100000};
    for (size_t i = 0; i < 4; i++) {
        bad.classes = CLASSES_BAD[i];
        assert_int_equal(OPS->open(&m, &bad, &e), YK_USAGE);
        assert_non_null(strstr(e.text, "2 to 256 classes"));
    }
    assert_null(m);
    bad.classes = 256;
    assert_int_equal(OPS->open(&m, &bad, &e), YK_OK);
    assert_int_equal(OPS->work_open(&w, m, 1, "mmx", &e), YK_USAGE);
    assert_int_equal(OPS->work_open(&w, m, 0, "auto", &e), YK_USAGE);
    assert_int_equal(OPS->work_open(&w, m, 100000, "auto", &e), YK_USAGE);
    assert_null(w);
    OPS->close(m);
}

/* TensorBoard gets the shapes of this very data. */
static void test_graph(void **state)
{
    static const char *const NODES[] = {"pixels",       "labels",         "softmax/weight",
                                        "softmax/bias", "softmax/logits", "loss"};
    struct yk_events *events;
    struct yk_error e;
    struct rig r;
    char path[YK_PATH_MAX] = "", *bytes;
    size_t n;
    rig_open(&r, 1);
    assert_int_equal(yk_events_open(&events, *state, &e), YK_OK);
    OPS->graph(r.model, events);
    assert_int_equal(yk_events_close(events, &e), YK_OK);
    DIR *dir = opendir(*state);
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        if (strstr(d->d_name, "tfevents") != NULL)
            assert_int_equal(yk_path(path, &e, "%s/%s", (char *)*state, d->d_name), YK_OK);
    closedir(dir);
    assert_int_equal(yk_file_read(path, 1 << 20, &bytes, &n, &e), YK_OK);
    for (size_t i = 0; i < sizeof NODES / sizeof NODES[0]; i++)
        assert_non_null(memmem(bytes, n, NODES[i], strlen(NODES[i])));
    /* a dimension, as a varint */
    assert_non_null(memmem(bytes, n, (const char[]){0x08, FEATURES}, 2));
    free(bytes);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test_setup_teardown(test_graph, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
