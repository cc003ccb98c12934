/* net_model_test.c - nets against a slow reference in double precision: the loss of a step, and
 * every kind of gradient against finite differences of that reference; odd sizes, batches smaller
 * than planned, threads, dropout, batch norm's statistics, scores in inference mode. */
#include "base/rng.h"
#include "kernel/onednn.h"
#include "model/net/net_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 40, FEATURES_MOST = 32 * 32 * 3 };

/* Numbers are the plain build's business. Sanitizers look at memory and threads, for which one
 * number of a view will do, and some of the cuts: nets begin at different ones, so that all kinds
 * are met. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { PROBES = 1, EVERY = 7 };
#else
enum { PROBES = 8, EVERY = 1 };
#endif

static const struct yk_model_ops *const OPS = &yk_model_net;

static uint8_t pixels[ROWS * FEATURES_MOST + YK_ROW_SLACK];
static uint16_t labels[ROWS];
static uint32_t order[ROWS];

/* A net with random parameters, and a sink that remembers what it was told. */
struct rig {
    struct yk_sink sink; /* first */
    struct yk_net net;
    struct yk_dataset set;
    struct yk_model *model;
    struct yk_work *work;
    struct yk_params params;
    unsigned calls;
    size_t last_lo; /* of the last call */
    uint8_t *seen;  /* (count) floats that were declared ready */
};

static void ready(struct yk_sink *s, size_t lo, size_t hi)
{
    struct rig *r = (struct rig *)s;
    assert_true(lo < hi && hi <= r->params.count);
    for (size_t i = lo; i < hi; i++)
        assert_int_equal(r->seen[i]++, 0);
    r->calls++;
    r->last_lo = lo;
}

static void rig_open(struct rig *r, const char *text, const char *engine, unsigned threads,
                     float smoothing)
{
    struct yk_error e = {0};
    struct yk_rng rng;
    *r = (struct rig){.sink.ready = ready};
    if (yk_net_parse("test.net", text, strlen(text), &r->net, &e) != YK_OK)
        fail_msg("%s", e.text);
    const struct yk_shape in = r->net.input;
    uint32_t features = in.c * in.h * in.w;
    assert_true(features <= FEATURES_MOST);
    yk_rng_init(&rng, 1, 2, 3, 4);
    for (size_t i = 0; i < (size_t)ROWS * features; i++)
        pixels[i] = (uint8_t)yk_rng_below(&rng, 256);
    for (uint32_t i = 0; i < ROWS; i++) {
        labels[i] = (uint16_t)yk_rng_below(&rng, r->net.classes);
        order[i] = (i * 7 + 3) % ROWS;
    }
    r->set = (struct yk_dataset){.name = "random",
                                 .rows = ROWS,
                                 .features = features,
                                 .classes = r->net.classes,
                                 .shape = {in.h, in.w, in.c},
                                 .pixels = pixels,
                                 .labels = labels,
                                 .scale = 1.0f / 255};
    const struct yk_net_how how = {.seed = 11, .label_smoothing = smoothing};
    assert_int_equal(OPS->open_net(&r->model, &r->net, &how, &r->set, &e), YK_OK);
    assert_int_equal(OPS->layout(r->model, &r->params, 5, &e), YK_OK);
    for (size_t v = 0; v < r->params.views;
         v++) { /* biases and statistics too, so that nothing is zero by chance */
        const struct yk_view *view = &r->params.view[v];
        bool var = strstr(view->name, ".var") != NULL,
             weight = strstr(view->name, ".weight") != NULL;
        for (size_t i = 0; !(weight && view->ndim > 1) && i < view->count; i++)
            r->params.flat[view->at + i] =
                (float)(yk_rng_unit(&rng) - 0.5) + (var || weight ? 1 : 0);
    }
    const char *chosen;
    char said[256];
    if (OPS->engine(r->model, &r->params, engine, 13, threads, "auto", &chosen, said, &e) != YK_OK)
        fail_msg("%s", e.text);
    assert_string_equal(chosen, engine);
    if (OPS->work_open(&r->work, r->model, threads, "auto", &e) != YK_OK)
        fail_msg("%s", e.text);
    r->sink.grad = yk_floats(r->params.count);
    r->seen = calloc(r->params.count, 1);
    assert_non_null(r->sink.grad);
    assert_non_null(r->seen);
}

static void rig_close(struct rig *r)
{
    OPS->work_close(r->work);
    OPS->close(r->model);
    yk_params_release(&r->params);
    yk_net_release(&r->net);
    yk_floats_free(r->sink.grad);
    free(r->seen);
}

static double rig_step(struct rig *r, const struct yk_batch *b)
{
    memset(r->seen, 0, r->params.count);
    r->calls = 0;
    double loss = OPS->step(r->work, &r->params, b, &r->sink);
    for (size_t i = 0; i < r->params.count; i++)
        assert_int_equal(r->seen[i], 1); /* all of it, once */
    return loss;
}

static struct yk_batch rows_of(const struct rig *r, uint32_t n)
{
    return (struct yk_batch){.set = &r->set, .n = n, .row = order, .epoch = 3};
}

/* --- the reference: one layer at a time, one number at a time --- */

static const float *view_of(const struct rig *r, const struct yk_layer *l, const char *what)
{
    char name[YK_NAME + 8];
    snprintf(name, sizeof name, "%s.%s", l->name, what);
    const struct yk_view *v = yk_params_find(&r->params, name);
    return v != NULL ? r->params.flat + v->at : NULL;
}

static size_t at(struct yk_shape s, uint32_t c, uint32_t y, uint32_t x)
{
    return ((size_t)c * s.h + y) * s.w + x;
}

static size_t numbers(struct yk_shape s)
{
    return (size_t)s.c * s.h * s.w;
}

/* One output of a convolution or a pool. */
static double window(const struct yk_layer *l, const float *w, const float *b, const double *in,
                     uint32_t c, uint32_t y, uint32_t x)
{
    uint32_t each = l->kind == YK_LAYER_conv ? l->in.c / l->groups : 1,
             from = l->kind == YK_LAYER_conv ? c / (l->out.c / l->groups) * each : c;
    double sum = l->kind == YK_LAYER_conv && b != NULL ? b[c] : 0, most = -HUGE_VAL;
    for (uint32_t i = 0; i < each; i++)
        for (uint32_t ky = 0; ky < l->kernel[0]; ky++)
            for (uint32_t kx = 0; kx < l->kernel[1]; kx++) {
                int64_t sy = (int64_t)y * l->stride[0] + ky - l->pad[0],
                        sx = (int64_t)x * l->stride[1] + kx - l->pad[1];
                if (sy < 0 || sx < 0 || sy >= l->in.h || sx >= l->in.w)
                    continue;
                double v = in[at(l->in, from + i, (uint32_t)sy, (uint32_t)sx)];
                most = v > most ? v : most;
                sum += l->kind == YK_LAYER_conv
                           ? v * w[((c * each + i) * l->kernel[0] + ky) * l->kernel[1] + kx]
                           : v;
            }
    return l->kind == YK_LAYER_maxpool   ? most
           : l->kind == YK_LAYER_avgpool ? sum / l->kernel[0] / l->kernel[1]
                                         : sum;
}

static void batchnorm(const struct rig *r, const struct yk_layer *l, double *const *in,
                      double *const *out, uint32_t n, bool train)
{
    size_t plane = (size_t)l->in.h * l->in.w;
    for (uint32_t c = 0; c < l->in.c; c++) {
        double mean = 0, var = 0;
        for (uint32_t i = 0; i < n; i++)
            for (size_t k = 0; k < plane; k++)
                mean += in[i][c * plane + k] / (double)(n * plane);
        for (uint32_t i = 0; i < n; i++)
            for (size_t k = 0; k < plane; k++)
                var += pow(in[i][c * plane + k] - mean, 2) / (double)(n * plane);
        if (!train) {
            mean = view_of(r, l, "mean")[c];
            var = view_of(r, l, "var")[c];
        }
        for (uint32_t i = 0; i < n; i++)
            for (size_t k = 0; k < plane; k++)
                out[i][c * plane + k] = (in[i][c * plane + k] - mean) / sqrt(var + l->eps) *
                                            view_of(r, l, "weight")[c] +
                                        view_of(r, l, "bias")[c];
    }
}

static double point(enum yk_layer_kind kind, double x)
{
    return kind == YK_LAYER_relu   ? (x > 0 ? x : 0)
           : kind == YK_LAYER_tanh ? tanh(x)
                                   : 1 / (1 + exp(-x));
}

static void layer(const struct rig *r, const struct yk_layer *l, const double *in, double *out,
                  uint32_t row, bool train)
{
    size_t n_in = numbers(l->in), n_out = numbers(l->out);
    const float *w = view_of(r, l, "weight"), *b = view_of(r, l, "bias");
    uint8_t *keep = calloc(n_in + 8, 1);
    assert_non_null(keep);
    if (l->kind == YK_LAYER_dropout)
        yk_dnn_mask(keep, n_in, l->rate, 11, 3, row, (uint64_t)(l - r->net.layer));
    for (uint32_t c = 0; c < l->out.c; c++)
        for (uint32_t y = 0; y < l->out.h; y++)
            for (uint32_t x = 0; x < l->out.w; x++) {
                size_t o = at(l->out, c, y, x);
                double sum = 0;
                switch (l->kind) {
                case YK_LAYER_conv:
                case YK_LAYER_maxpool:
                case YK_LAYER_avgpool:
                    out[o] = window(l, w, b, in, c, y, x);
                    break;
                case YK_LAYER_dense:
                    for (size_t i = 0; i < n_in; i++)
                        sum += in[i] * w[c * n_in + i];
                    out[o] = sum + (l->bias ? b[c] : 0);
                    break;
                case YK_LAYER_lrn:
                    for (uint32_t k = 0; k < l->in.c; k++)
                        sum += 2 * (k > c ? k - c : c - k) < l->size
                                   ? pow(in[at(l->in, k, y, x)], 2)
                                   : 0;
                    out[o] = in[o] / pow(l->k + l->alpha / l->size * sum, l->beta);
                    break;
                case YK_LAYER_dropout:
                    out[o] = !train ? in[o] : keep[o] ? in[o] / (1 - l->rate) : 0;
                    break;
                case YK_LAYER_relu:
                case YK_LAYER_tanh:
                case YK_LAYER_sigmoid:
                    out[o] = point(l->kind, in[o]);
                    break;
                case YK_LAYER_flatten:
                case YK_LAYER_softmax: /* part of the loss */
                    out[o] = in[o];
                    break;
                default:
                    fail_msg("'%s' is new: its slow loop belongs here", yk_layer_name(l->kind));
                }
            }
    free(keep);
    assert_true(n_out > 0);
}

/* The summed loss of a batch, and the probabilities if they are wanted. */
static double reference(const struct rig *r, const struct yk_batch *b, bool train, float smoothing,
                        double *prob)
{
    double *now[ROWS], *next[ROWS], loss = 0;
    const struct yk_net *net = &r->net;
    size_t most = numbers(net->input);
    for (unsigned i = 0; i < net->layers; i++)
        most = numbers(net->layer[i].out) > most ? numbers(net->layer[i].out) : most;
    for (uint32_t i = 0; i < b->n; i++) {
        now[i] = calloc(most, sizeof **now);
        next[i] = calloc(most, sizeof **next);
        assert_true(now[i] != NULL && next[i] != NULL);
        const uint8_t *image = pixels + (size_t)b->row[i] * r->set.features;
        for (uint32_t y = 0; y < net->input.h; y++)
            for (uint32_t x = 0; x < net->input.w; x++)
                for (uint32_t c = 0; c < net->input.c; c++) {
                    double v = image[(y * net->input.w + x) * net->input.c + c] / 255.0;
                    now[i][at(net->input, c, y, x)] =
                        net->normalized ? (v - net->mean[c]) / net->deviation[c] : v;
                }
    }
    for (unsigned k = 0; k < net->layers; k++) {
        if (net->layer[k].kind == YK_LAYER_batchnorm)
            batchnorm(r, &net->layer[k], now, next, b->n, train);
        for (uint32_t i = 0; i < b->n; i++) {
            if (net->layer[k].kind != YK_LAYER_batchnorm)
                layer(r, &net->layer[k], now[i], next[i], b->row[i], train);
            double *swap = now[i];
            now[i] = next[i];
            next[i] = swap;
        }
    }
    for (uint32_t i = 0; i < b->n; i++) {
        double sum = exp(now[i][0]), target = 0;
        for (uint32_t c = 1; c < net->classes; c++)
            sum += exp(now[i][c]);
        for (uint32_t c = 0; c < net->classes; c++) {
            target += now[i][c] *
                      ((c == labels[b->row[i]] ? 1 - smoothing : 0) + smoothing / net->classes);
            if (prob != NULL)
                prob[i * net->classes + c] = exp(now[i][c]) / sum;
        }
        loss += log(sum) - target;
        free(now[i]);
        free(next[i]);
    }
    return loss;
}

/* --- tests --- */

static void expect_near(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %.9g, should be %.9g +- %.2g", what, got, want, tolerance);
}

/* A few numbers of every view against the reference's finite differences. */
static void check_gradients(struct rig *r, const struct yk_batch *b, float smoothing,
                            unsigned probes)
{
    struct yk_rng rng;
    yk_rng_init(&rng, 9, 9, 9, 9);
    for (size_t v = 0; v < r->params.views; v++) {
        const struct yk_view *view = &r->params.view[v];
        if (strstr(view->name, ".mean") != NULL || strstr(view->name, ".var") != NULL)
            continue;
        double largest = 0, want[PROBES];
        size_t where[PROBES];
        for (unsigned k = 0; k < probes; k++) {
            where[k] = view->at + yk_rng_below(&rng, (uint32_t)view->count);
            float *w = r->params.flat + where[k], kept = *w;
            *w = kept + 0x1p-16f;
            float above = *w;
            double up = reference(r, b, true, smoothing, NULL);
            *w = kept - 0x1p-16f;
            float below = *w;
            double down = reference(r, b, true, smoothing, NULL);
            *w = kept;
            want[k] = (up - down) / ((double)above - below);
            largest = fmax(largest, fabs(want[k]));
        }
        for (unsigned k = 0; k < probes; k++)
            expect_near(view->name, r->sink.grad[where[k]], want[k], 2e-3 * largest + 2e-5);
    }
}

/* n images of `planned`. */
static void check_threads(const char *text, const char *engine, float smoothing, unsigned threads,
                          uint32_t planned, uint32_t n, unsigned probes)
{
    struct rig r;
    rig_open(&r, text, engine, threads, smoothing);
    char said[256];
    assert_int_equal(OPS->prepare(r.work, planned, true, said, NULL), YK_OK);
    const struct yk_batch b = rows_of(&r, n), full = rows_of(&r, planned);
    rig_step(&r, &full); /* leaves numbers where the step that counts has no images */
    double loss = rig_step(&r, &b), want = reference(&r, &b, true, smoothing, NULL);
    expect_near("loss", loss, want, 1e-4 * fabs(want));
    check_gradients(&r, &b, smoothing, probes);
    struct yk_score s = {0};
    float *prob = calloc((size_t)n * r.net.classes, sizeof *prob);
    double *p = calloc((size_t)n * r.net.classes, sizeof *p);
    assert_true(prob != NULL && p != NULL);
    OPS->score(r.work, &r.params, &b, &s, prob);
    expect_near("score", s.loss, reference(&r, &b, false, 0, p), 1e-4 * fabs(s.loss) + 1e-5);
    assert_int_equal(s.examples, n);
    uint64_t correct = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = 0;
        for (uint32_t k = 0; k < r.net.classes; k++) {
            expect_near("probability", prob[i * r.net.classes + k], p[i * r.net.classes + k], 1e-4);
            best = p[i * r.net.classes + k] > p[i * r.net.classes + best] ? k : best;
        }
        correct += best == labels[b.row[i]];
    }
    assert_int_equal(s.correct, correct);
    free(prob);
    free(p);
    rig_close(&r);
}

static void check_net(const char *text, const char *engine, float smoothing)
{
    check_threads(text, engine, smoothing, 1, 40, 13, PROBES);
    check_threads(text, engine, smoothing, 2, 23, 18, PROBES); /* the second share is not full */
}

struct sample {
    const char *name, *text;
};

static const struct sample SAMPLES[] = {
    {"dense", "net t\ninput 3x5x2\ndense 7\nrelu\ndense 5\nsoftmax\n"},
    {"dense without bias", "net t\ninput 1x9x1\ndense 3 bias none\nsoftmax\n"},
    {"lenet in small", "net t\ninput 12x10x1\nconv 6 5x5 pad 2\nrelu\nmaxpool 2x2\nconv 16 "
                       "3x3\nrelu\nmaxpool 2x2\ndense 11\nrelu\ndense 10\n"
                       "softmax\n"},
    {"odd windows", "net t\ninput 13x11x3\nconv 5 3x5 stride 2x1 pad 1\nrelu\nmaxpool 3x2 stride "
                    "2x3 pad 1\nconv 17 2x2\ndense 4\nsoftmax\n"},
    {"groups", "net t\ninput 9x9x4\nconv 6 3x3 groups 2 pad 1\nrelu\nconv 8 3x3 groups "
               "2\nrelu\ndense 3\nsoftmax\n"},
    {"wide", "net t\ninput 8x8x3\nconv 32 3x3 pad 1\nrelu\nconv 48 3x3 pad 1 stride "
             "2\nrelu\nmaxpool 2x2\ndense 33\nrelu\ndense "
             "6\nsoftmax\n"},
    {"average", "net t\ninput 10x10x2\nconv 6 3x3\ntanh\navgpool 2x2\nconv 7 3x3 pad "
                "1\nsigmoid\navgpool 3x3 stride 1 pad "
                "1\ndense 5\nsoftmax\n"},
    {"activations alone", "net t\ninput 6x6x2\nconv 4 3x3\nmaxpool 2x2\nrelu\ndense "
                          "9\ntanh\nsigmoid\ndense 3\nsoftmax\n"},
    {"activation first", "net t\ninput 6x6x2 mean 0.5 0.4 std 0.2 0.3\nrelu\nmaxpool 2x2\nconv 3 "
                         "2x2\nflatten\nsigmoid\ndense 3\nsoftmax\n"},
    {"response", "net t\ninput 7x7x3\nconv 16 3x3\nrelu\nlrn 5 alpha 0.5 beta 0.75 k 2\nmaxpool "
                 "2x2\nconv 5 2x2\nlrn 3\ndense 4\nsoftmax\n"},
    {"dropout", "net t\ninput 7x7x3\nconv 16 3x3\nrelu\ndropout 0.4\nconv 5 2x2\nrelu\ndropout "
                "0.5\ndense 9\nrelu\ndropout "
                "0.25\ndense 4\nsoftmax\n"},
    {"batch norm", "net t\ninput 8x6x3\nconv 16 3x3 bias none\nbatchnorm\nrelu\nconv 5 "
                   "2x2\nbatchnorm momentum 0.8\nrelu\nmaxpool 2x2\ndense "
                   "9\nbatchnorm\nrelu\ndense 4\nsoftmax\n"},
};

/* No kind of the list goes untested. */
static void test_kinds(void **state)
{
    (void)state;
    bool tried[YK_LAYER_COUNT] = {0};
    for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; i++) {
        struct yk_net n;
        const char *text = SAMPLES[i].text;
        assert_int_equal(yk_net_parse("t.net", text, strlen(text), &n, NULL), YK_OK);
        for (unsigned k = 0; k < n.layers; k++)
            tried[n.layer[k].kind] = true;
        yk_net_release(&n);
    }
    for (unsigned i = 0; i < YK_LAYER_COUNT; i++)
        if (!tried[i])
            fail_msg("'%s' is new: a net with it belongs into SAMPLES",
                     yk_layer_name((enum yk_layer_kind)i));
}

static void test_onednn(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; i++) {
        print_message("  %s\n", SAMPLES[i].name);
        check_net(SAMPLES[i].text, "onednn", i % 2 == 0 ? 0 : 0.1f);
    }
}

/* The other engine, on the nets that it takes. */
static void test_lanes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; i++) {
        if (strstr(SAMPLES[i].text, "lrn") != NULL || strstr(SAMPLES[i].text, "batchnorm") != NULL)
            continue;
        print_message("  %s\n", SAMPLES[i].name);
        check_net(SAMPLES[i].text, "lanes", i % 2 == 0 ? 0 : 0.1f);
    }
}

/* Every cut that both engines take, in both orders; some with two threads. */
static void test_mixed(void **state)
{
    (void)state;
    unsigned tried = 0;
    for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; i++) {
        struct rig r;
        rig_open(&r, SAMPLES[i].text, "onednn", 1, 0);
        unsigned layers = r.net.layers;
        for (unsigned cut = 1 + (unsigned)i % EVERY; cut < 2 * layers; cut += EVERY) {
            struct yk_error e;
            const char *chosen;
            char said[256], name[24];
            snprintf(name, sizeof name, "%s:%u", cut < layers ? "lanes" : "onednn", cut % layers);
            if (OPS->engine(r.model, &r.params, name, 13, 1, "auto", &chosen, said, &e) != YK_OK)
                continue;
            print_message("  %s, %s\n", SAMPLES[i].name, name);
            bool two = (cut + i) % 4 == 0;
            check_threads(SAMPLES[i].text, name, i % 2 == 0 ? 0 : 0.1f, two ? 2 : 1, two ? 23 : 20,
                          two ? 18 : 3, PROBES > 1 ? 2 : 1);
            tried++;
        }
        rig_close(&r);
    }
    assert_true(tried > 80 / EVERY);
}

/* Gradients leave last layer first. */
static void test_order(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, SAMPLES[2].text, "onednn", 1, 0);
    const struct yk_batch b = rows_of(&r, 8);
    rig_step(&r, &b);
    assert_int_equal(r.calls, 4);
    assert_int_equal(r.last_lo, yk_params_find(&r.params, "conv1.bias")->at);
    rig_close(&r);
}

/* Running statistics leave as what is to be subtracted. */
static void test_statistics(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, "net t\ninput 2x3x2\nbatchnorm momentum 0.75\ndense 3\nsoftmax\n", "onednn", 1, 0);
    const struct yk_batch b = rows_of(&r, 10);
    rig_step(&r, &b);
    const struct yk_view *mean = yk_params_find(&r.params, "batchnorm1.mean"),
                         *var = yk_params_find(&r.params, "batchnorm1.var");
    for (uint32_t c = 0; c < 2; c++) {
        double m = 0, v = 0;
        for (unsigned i = 0; i < 60; i++)
            m += pixels[order[i / 6] * 12 + i % 6 * 2 + c] / 255.0 / 60;
        for (unsigned i = 0; i < 60; i++)
            v += pow(pixels[order[i / 6] * 12 + i % 6 * 2 + c] / 255.0 - m, 2) / 59;
        double new_mean = r.params.flat[mean->at + c] - r.sink.grad[mean->at + c] / 10,
               new_var = r.params.flat[var->at + c] - r.sink.grad[var->at + c] / 10;
        expect_near("running mean", new_mean, 0.75 * r.params.flat[mean->at + c] + 0.25 * m, 1e-5);
        expect_near("running variance", new_var, 0.75 * r.params.flat[var->at + c] + 0.25 * v,
                    1e-5);
    }
    rig_close(&r);
}

/* The same step twice, and from a second work: the same bits. */
static void test_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; i++) {
        struct rig a, c;
        const char *engine =
            (const char *const[]){"lanes", "onednn", "lanes:3", "onednn:4"}[i < 9 ? i % 4 : 1];
        rig_open(&a, SAMPLES[i].text, engine, 2, 0.1f);
        rig_open(&c, SAMPLES[i].text, engine, 2, 0.1f);
        const struct yk_batch b = rows_of(&a, 13);
        double first = rig_step(&a, &b);
        float *grad = yk_floats(a.params.count);
        assert_non_null(grad);
        memcpy(grad, a.sink.grad, a.params.count * sizeof *grad);
        memset(a.sink.grad, 0x7f, a.params.count * sizeof *grad); /* whatever was there */
        for (size_t v = 0; v < a.params.views;
             v++) /* ... but for the gaps, which are not written */
            for (size_t k = a.params.view[v].at + a.params.view[v].count;
                 k < (v + 1 < a.params.views ? a.params.view[v + 1].at : a.params.count); k++)
                a.sink.grad[k] = 0;
        const struct yk_batch other = {.set = &a.set, .n = 4, .row = order + 20};
        rig_step(&a, &other); /* whatever came in between */
        assert_true(rig_step(&a, &b) == first);
        assert_memory_equal(grad, a.sink.grad, a.params.count * sizeof *grad);
        assert_true(rig_step(&c, &b) == first);
        assert_memory_equal(grad, c.sink.grad, a.params.count * sizeof *grad);
        yk_floats_free(grad);
        rig_close(&a);
        rig_close(&c);
    }
}

static void choose(const struct rig *r, const char *name, const char *want)
{
    struct yk_error e = {0};
    const char *chosen = NULL;
    char said[256];
    yk_code rc = OPS->engine(r->model, &r->params, name, 16, 2, "auto", &chosen, said, &e);
    if (want != NULL && strchr(want, ' ') != NULL) {
        assert_int_equal(rc, YK_USAGE);
        assert_string_equal(e.text, want);
        return;
    }
    assert_int_equal(rc, YK_OK);
    if (want != NULL)
        assert_string_equal(chosen, want);
    if (strcmp(name, "auto") == 0 &&
        said[0] != '\0') { /* what the clock chose is among what it ran, and has a name */
        assert_non_null(strstr(said, "onednn takes "));
        assert_non_null(strstr(said, chosen));
        char again[16];
        snprintf(again, sizeof again, "%s", chosen);
        choose(r, again, again);
    }
}

/* The clock chooses one that can; a name is taken, or refused and what was stays. */
static void test_engine(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, SAMPLES[2].text, "onednn", 1, 0);
    choose(&r, "auto", NULL);
    choose(&r, "lanes:3", "lanes:3");
    choose(&r, "abacus", "there is no engine 'abacus'");
    choose(&r, "", "there is no engine ''");
    choose(&r, "lan", "there is no engine 'lan'");
    choose(&r, "lanes:", "there is no engine 'lanes:'");
    choose(&r, "lanes:3x", "there is no engine 'lanes:3x'");
    choose(&r, "lanes:0", "'lanes:0' leaves one engine without a layer of the net 't'");
    choose(&r, "onednn:9", "'onednn:9' leaves one engine without a layer of the net 't'");
    choose(&r, "onednn:8", "onednn:8");
    choose(&r, "lanes:-1", "'lanes:-1' leaves one engine without a layer of the net 't'");
    rig_close(&r);
    rig_open(&r, "net t\ninput 5x5x2\nconv 3 3x3\nlrn 3\ndense 3\nsoftmax\n", "onednn", 1, 0);
    choose(&r, "auto", NULL);
    choose(&r, "lanes:1", "lanes:1");
    choose(&r, "onednn:2", "onednn:2");
    choose(&r, "lanes", "the engine 'lanes' cannot compute lrn (layer 'lrn1')");
    choose(&r, "lanes:2", "the engine 'lanes' cannot compute lrn (layer 'lrn1')");
    choose(&r, "onednn:1", "the engine 'lanes' cannot compute lrn (layer 'lrn1')");
    rig_close(&r);
    rig_open(&r, SAMPLES[11].text, "onednn", 1, 0);
    choose(&r, "auto", "onednn"); /* batch norm: nothing to choose */
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_onednn),
        cmocka_unit_test(test_lanes), cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_order), cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_bits),  cmocka_unit_test(test_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
