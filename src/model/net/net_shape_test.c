/* net_shape_test.c - shapes against a count of windows one by one, parameters against the published
 * numbers, and what does not fit. */
#include "model/net/layer.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static yk_code parse(const char *text, struct yk_net *n, struct yk_error *e)
{
    *e = (struct yk_error){0};
    return yk_net_parse("x.net", text, strlen(text), n, e);
}

/* Every kind of the list has its own word, and one way into each graph. */
static void test_kinds(void **state)
{
    (void)state;
#define QUOTE(name) #name,
    static const char *const WORDS[] = {YK_LAYER_KINDS(QUOTE)};
#undef QUOTE
    for (unsigned i = 0; i < YK_LAYER_COUNT; i++) {
        const struct yk_layer_ops *ops = yk_layer_ops((enum yk_layer_kind)i);
        assert_string_equal(ops->name, WORDS[i]);
        assert_true(ops->onnx == NULL || ops->onnx_op == NULL);
        assert_true(ops->graph == NULL || ops->graph_op == NULL);
        assert_true((ops->start == NULL) == (ops->views == NULL));
    }
}

/* The nets that come with yoke are those that their files promise. */
static void test_shipped(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t weights;
        unsigned products; /* conv and dense layers */
    } NETS[] = {
        {"lenet", 61706, 5},          {"lenet-report", 60074, 5}, {"alexnet", 61100840, 8},
        {"alexnet-lrn", 60965224, 8}, {"cifar", 288746, 7},       {"mlp", 235146, 3},
    };
    unsigned known = 0;
    while (yk_net_files[known].name != NULL)
        known++;
    assert_int_equal(known, sizeof NETS / sizeof *NETS);
    for (size_t i = 0; i < sizeof NETS / sizeof *NETS; i++) {
        struct yk_net n;
        struct yk_error e = {0};
        if (yk_net_read(NETS[i].name, &n, &e) != YK_OK)
            fail_msg("%s", e.text);
        unsigned products = 0;
        for (unsigned k = 0; k < n.layers; k++)
            products += n.layer[k].kind == YK_LAYER_conv || n.layer[k].kind == YK_LAYER_dense;
        assert_string_equal(n.name, NETS[i].name);
        assert_true(n.weights == NETS[i].weights && products == NETS[i].products);
        yk_net_release(&n);
    }
}

/* AlexNet, layer by layer, as torchvision and the paper have it. */
static void test_alexnet(void **state)
{
    (void)state;
    struct yk_net n;
    struct yk_error e;
    static const struct yk_shape OUT[] = {
        {64, 55, 55},  {64, 27, 27}, {192, 27, 27}, {192, 13, 13}, {384, 13, 13}, {256, 13, 13},
        {256, 13, 13}, {256, 6, 6},  {4096, 1, 1},  {4096, 1, 1},  {1000, 1, 1}};
    unsigned at = 0;
    assert_int_equal(yk_net_read("alexnet", &n, &e), YK_OK);
    for (unsigned i = 0; i < n.layers; i++) {
        const struct yk_layer *l = &n.layer[i];
        if (l->kind == YK_LAYER_conv || l->kind == YK_LAYER_maxpool || l->kind == YK_LAYER_dense) {
            assert_memory_equal(&l->out, &OUT[at], sizeof l->out);
            at++;
        }
        if (i > 0)
            assert_memory_equal(&l->in, &n.layer[i - 1].out, sizeof l->in);
    }
    assert_int_equal(at, 11);
    /* 714,188,480 multiplications with additions, and what the other layers do */
    assert_true(n.flops > 2 * 714188480ull && n.flops < 2 * 714188480ull * 101 / 100);
    yk_net_release(&n);
}

/* Windows of random sizes, counted where they begin: a window counts if it ends inside the padded
 * input. */
static void test_windows(void **state)
{
    (void)state;
    struct yk_rng rng;
    yk_rng_init(&rng, 7, 0, 0, 0);
    for (int round = 0; round < 500; round++) {
        unsigned v[10], count[2] = {0, 0};
        for (int i = 0; i < 10; i++)
            v[i] = 1 + (unsigned)(yk_rng_next(&rng) % 9);
        unsigned kernel[2] = {v[0], v[1]}, stride[2] = {v[2], v[3]}, size[2] = {v[4], v[5]};
        unsigned pad[4] = {v[6] % kernel[0], v[7] % kernel[1], v[8] % kernel[0], v[9] % kernel[1]};
        for (int d = 0; d < 2; d++)
            for (unsigned at = 0; at + kernel[d] <= size[d] + pad[d] + pad[d + 2]; at += stride[d])
                count[d]++;
        for (int kind = 0; kind < 2; kind++) {
            char text[256];
            struct yk_net n;
            struct yk_error e;
            snprintf(
                text, sizeof text,
                "net x\ninput %ux%ux2\n%s %ux%u stride %ux%u pad %ux%ux%ux%u\ndense 2\nsoftmax",
                size[0], size[1], kind == 0 ? "conv 3" : "avgpool", kernel[0], kernel[1], stride[0],
                stride[1], pad[0], pad[1], pad[2], pad[3]);
            yk_code rc = parse(text, &n, &e);
            assert_int_equal(rc, count[0] > 0 && count[1] > 0 ? YK_OK : YK_USAGE);
            if (rc != YK_OK) {
                assert_non_null(strstr(e.text, "x.net:3:1: "));
                continue;
            }
            assert_true(n.layer[0].out.h == count[0] && n.layer[0].out.w == count[1] &&
                        n.layer[0].out.c == (kind == 0 ? 3 : 2));
            assert_true(n.layer[0].weights == (kind == 0 ? 3 * 2 * kernel[0] * kernel[1] + 3 : 0));
            yk_net_release(&n);
        }
    }
}

static void test_numbers(void **state)
{
    (void)state;
    struct yk_net n;
    struct yk_error e;
    assert_int_equal(parse("net x\ninput 4x5x4\nconv 6 3x3 groups 2\nbatchnorm\nlrn "
                           "3\nrelu\nmaxpool 2x3 stride 1\nflatten\ndropout 0.5\n"
                           "dense 10 bias none\nsoftmax",
                           &n, &e),
                     YK_OK);
    static const uint64_t WEIGHTS[] = {6 * 2 * 9 + 6, 12, 0, 0, 0, 0, 0, 60, 0};
    static const uint64_t FLOPS[] = {
        6 * 6 * (2 * 2 * 9 + 1), 2 * 36, 9 * 36, 36, 6 * 6, 0, 0, 120, 30};
    for (unsigned i = 0; i < n.layers; i++)
        assert_true(n.layer[i].weights == WEIGHTS[i] && n.layer[i].flops == FLOPS[i]);
    assert_true(n.weights == 114 + 12 + 60 && n.flops == 36 * 37 + 72 + 324 + 36 + 36 + 120 + 30);

    static const struct {
        const char *name;
        uint32_t ndim;
        uint64_t shape[4];
    } WANT[] = {{"conv1.weight", 4, {6, 2, 3, 3}}, {"conv1.bias", 1, {6}},
                {"batchnorm1.weight", 1, {6}},     {"batchnorm1.bias", 1, {6}},
                {"batchnorm1.mean", 1, {6}},       {"batchnorm1.var", 1, {6}},
                {"dense1.weight", 2, {10, 6}}};
    struct yk_view view[4 * YK_NET_LAYERS];
    assert_int_equal(yk_net_views(&n, view), sizeof WANT / sizeof *WANT);
    for (size_t i = 0; i < sizeof WANT / sizeof *WANT; i++) {
        assert_string_equal(view[i].name, WANT[i].name);
        assert_int_equal(view[i].ndim, WANT[i].ndim);
        assert_memory_equal(view[i].shape, WANT[i].shape, sizeof WANT[i].shape);
    }
    yk_net_release(&n);
}

/* The views of a net hold its parameters, no more and no less. */
static void test_views(void **state)
{
    (void)state;
    for (const struct yk_net_file *f = yk_net_files; f->name != NULL; f++) {
        struct yk_net n;
        struct yk_error e;
        struct yk_params p;
        struct yk_view view[4 * YK_NET_LAYERS];
        uint64_t statistics = 0;
        assert_int_equal(yk_net_read(f->name, &n, &e), YK_OK);
        unsigned views = yk_net_views(&n, view);
        assert_int_equal(yk_params_layout(&p, view, views, &e), YK_OK);
        for (unsigned i = 0; i < n.layers; i++)
            statistics +=
                n.layer[i].kind == YK_LAYER_batchnorm ? 2 * (uint64_t)n.layer[i].out.c : 0;
        assert_true(p.weights == n.weights + statistics);
        yk_params_release(&p);
        yk_net_release(&n);
    }
}

static void test_misfits(void **state)
{
    (void)state;
    static const struct {
        const char *layers, *want;
    } CASES[] = {
        {"conv 6 9x9\ndense 2\nsoftmax",
         "x.net:3:1: the window of conv, 9x9, is larger than its input, 8x6x4"},
        {"conv 6 8x7\ndense 2\nsoftmax",
         "x.net:3:1: the window of conv, 8x7, is larger than its input, 8x6x4"},
        {"conv 6 9x11 pad 1x2\ndense 2\nsoftmax",
         "x.net:3:1: the window of conv, 9x11, is larger than its input, 8x6x4, with the padding"},
        {"conv 6 2x2 pad 2\n",
         "x.net:3:1: conv has a pad of 2, which must be less than its window of 2x2"},
        {"maxpool 2x2 pad 0x0x0x3\n",
         "x.net:3:1: maxpool has a pad of 3, which must be less than its window of 2x2"},
        {"conv 6 2x2 groups 3\n",
         "x.net:3:1: conv cannot divide its channels into 3 groups: it gets 8x6x4 and makes 6"},
        {"conv 6 2x2 groups 4\n",
         "x.net:3:1: conv cannot divide its channels into 4 groups: it gets 8x6x4 and makes 6"},
        {"dense 7\n  maxpool 2\n",
         "x.net:4:3: the window of maxpool, 2x2, is larger than its input, 7"},
        {"softmax\n",
         "x.net:3:1: softmax needs one number for each of 2 to 65536 classes, but gets 8x6x4"},
        {"dense 1\nsoftmax\n",
         "x.net:4:1: softmax needs one number for each of 2 to 65536 classes, but gets 1"},
        {"dense 100000\nsoftmax\n",
         "x.net:4:1: softmax needs one number for each of 2 to 65536 classes, but gets 100000"},
        {"dense 2\nsoftmax\nrelu\n",
         "x.net:5:1: 'relu' stands behind softmax, which is the last layer"},
        {"conv 1048576 1x1\nconv 1048576 8x6\n", "x.net:4:1: conv has more than 2^40 parameters"},
        {"avgpool 65536x65536 pad 65535 stride 65536\n",
         "x.net:3:1: avgpool has a window of 65536x65536: more than 2^31 - 1 places"},
        {"avgpool 1048576x1048576 pad 1048575 stride 1\n",
         "x.net:3:1: 1048583x1048581x4 are more than 2^31 - 1 numbers"},
        {"conv 1048576 999999x999999 pad 999998\n",
         "x.net:3:1: 1000006x1000004x1048576 are more than 2^31 - 1 numbers"},
        {"conv 1048576 40000x40000 pad 39999 stride 40000\n",
         "x.net:3:1: conv has more than 2^40 parameters"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[256];
        struct yk_net n;
        struct yk_error e;
        snprintf(text, sizeof text, "net x\ninput 8x6x4\n%s", CASES[i].layers);
        if (parse(text, &n, &e) != YK_USAGE ||
            strncmp(e.text, CASES[i].want, strlen(CASES[i].want)) != 0)
            fail_msg("%s\n    says '%s'\n    not  '%s'", CASES[i].layers, e.text, CASES[i].want);
        assert_null(n.layer);
    }
}

/* Sums over layers are checked too, not only layers. */
static void test_sums(void **state)
{
    (void)state;
    struct yk_net n;
    struct yk_error e;
    assert_int_equal(
        parse("net x\ninput 1x1x1048576\ndense 1048576 bias none\ndense 2\nsoftmax", &n, &e),
        YK_USAGE);
    assert_string_equal(e.text, "x.net:4:1: the layers up to here have more than 2^40 parameters");
    assert_int_equal(
        parse("net x\ninput 40000x50000x1\nconv 1 30000x40000 pad 29999x39999\ndense 2\nsoftmax",
              &n, &e),
        YK_USAGE);
    assert_non_null(strstr(e.text, "numbers"));
    assert_int_equal(
        parse("net x\ninput 40000x50000x1\navgpool 30001x40001 pad 15000x20000 stride 1\n"
              "avgpool 30001x40001 pad 15000x20000 stride 1\navgpool 30001x40001 pad 15000x20000 "
              "stride 1\n"
              "avgpool 30001x40001 pad 15000x20000 stride 1\navgpool 30001x40001 pad 15000x20000 "
              "stride 1\n"
              "avgpool 30001x40001 pad 15000x20000 stride 1\navgpool 30001x40001 pad 15000x20000 "
              "stride 1\n"
              "avgpool 30001x40001 pad 15000x20000 stride 1\ndense 2\nsoftmax",
              &n, &e),
        YK_USAGE);
    assert_string_equal(e.text, "x.net:10:1: the layers up to here take more than 2^64 operations");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),   cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_alexnet), cmocka_unit_test(test_windows),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_views),
        cmocka_unit_test(test_misfits), cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
