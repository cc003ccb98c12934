/* net_start_test.c - a net before its first step: starting values by seed and of the right spread,
 * data that do not fit, the masks of dropout. */
#include "kernel/onednn.h"
#include "model/net/net_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct yk_model_ops *const OPS = &yk_model_net;

static void expect_near(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %.9g, should be %.9g +- %.2g", what, got, want, tolerance);
}

/* Starting values: by seed and layer, of the right spread. */
static void test_start(void **state)
{
    (void)state;
    const char *text = "net t\ninput 20x20x3\nconv 40 5x5 init he bias 0.5\ndense 200 init "
                       "glorot\nrelu\ndense 100 init normal 0.01\n"
                       "batchnorm\ndense 50 init zero\nsoftmax\n";
    struct yk_net net;
    struct yk_params p[3];
    struct yk_error e;
    struct yk_model *m[3];
    assert_int_equal(yk_net_parse("t", text, strlen(text), &net, &e), YK_OK);
    const struct yk_dataset set = {
        .name = "x", .classes = 50, .shape = {20, 20, 3}, .features = 1200};
    const struct yk_net_how how = {0};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(OPS->open_net(&m[i], &net, &how, &set, &e), YK_OK);
        assert_int_equal(OPS->layout(m[i], &p[i], i == 2 ? 8 : 7, &e), YK_OK);
    }
    assert_memory_equal(p[0].flat, p[1].flat, p[0].count * sizeof(float));
    assert_memory_not_equal(p[0].flat, p[2].flat, p[0].count * sizeof(float));
    const struct {
        const char *view;
        double mean, deviation;
    } want[] = {{"conv1.weight", 0, sqrt(2.0 / 75)},
                {"conv1.bias", 0.5, 0},
                {"dense1.weight", 0, sqrt(2.0 / (10240 + 200))},
                {"dense2.weight", 0, 0.01},
                {"dense3.weight", 0, 0},
                {"dense1.bias", 0, 0},
                {"batchnorm1.weight", 1, 0},
                {"batchnorm1.var", 1, 0},
                {"batchnorm1.mean", 0, 0}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const struct yk_view *v = yk_params_find(&p[0], want[i].view);
        assert_non_null(v);
        double mean = 0, square = 0;
        for (size_t k = 0; k < v->count; k++)
            mean += p[0].flat[v->at + k] / (double)v->count;
        for (size_t k = 0; k < v->count; k++)
            square += pow(p[0].flat[v->at + k] - mean, 2) / (double)v->count;
        expect_near(want[i].view, mean, want[i].mean,
                    1e-6 + 5 * want[i].deviation / sqrt((double)v->count));
        expect_near(want[i].view, sqrt(square), want[i].deviation, 1e-6 + 0.05 * want[i].deviation);
    }
    for (unsigned i = 0; i < 3; i++) {
        yk_params_release(&p[i]);
        OPS->close(m[i]);
    }
    yk_net_release(&net);
}

/* A set of another shape, or with more classes. */
static void test_shapes(void **state)
{
    (void)state;
    struct yk_net net;
    struct yk_error e;
    struct yk_model *m;
    const char *text = "net t\ninput 3x5x2\ndense 7\nrelu\ndense 5\nsoftmax\n";
    assert_int_equal(yk_net_parse("t", text, strlen(text), &net, &e), YK_OK);
    const struct yk_net_how how = {0};
    struct yk_dataset set = {.name = "photos", .classes = 5, .shape = {5, 3, 2}, .features = 30};
    assert_int_equal(OPS->open_net(&m, &net, &how, &set, &e), YK_USAGE);
    assert_string_equal(e.text,
                        "'photos' (5x3x2, 5 classes) does not fit the net 't' (3x5x2, 5 classes)");
    set.shape[0] = 3;
    set.shape[1] = 5;
    set.classes = 6;
    assert_int_equal(OPS->open_net(&m, &net, &how, &set, &e), YK_USAGE);
    set.classes = 4; /* fewer are no harm */
    assert_int_equal(OPS->open_net(&m, &net, &how, &set, &e), YK_OK);
    OPS->close(m);
    yk_net_release(&net);
}

/* About as many are dropped as the rate says; masks differ by row, layer, epoch and seed. */
static void test_mask(void **state)
{
    (void)state;
    static uint8_t a[4001], b[4001];
    yk_dnn_mask(a, 4001, 0.3f, 1, 2, 3, 4);
    unsigned kept = 0;
    for (unsigned i = 0; i < 4001; i++)
        kept += a[i];
    assert_in_range(kept, 2650, 2950);
    for (unsigned k = 0; k < 5; k++) {
        yk_dnn_mask(b, 4001, 0.3f, 1 + (k == 1), 2 + (k == 2), 3 + (k == 3), 4 + (k == 4));
        assert_true((memcmp(a, b, sizeof a) == 0) == (k == 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
