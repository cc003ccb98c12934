/* net_onnx_test.c - what is written nests as protobuf does, reads nothing before it is there, and
 * holds the parameters bit for bit. Whether other programs agree, and compute the same, is
 * tests/cli/onnx.sh's question. */
#include "model/net/net_onnx.h"

#include "base/file.h"
#include "param/onnx.h"
#include "tests/testdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct field { /* of a message */
    unsigned number, type;
    uint64_t v; /* the number, or the length of */
    const uint8_t *bytes;
};

static uint64_t varint(const uint8_t **p, const uint8_t *end)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        assert_true(*p < end);
        v |= (uint64_t)(**p & 127) << shift;
        if (*(*p)++ < 128)
            return v;
    }
    fail_msg("a number of more than ten bytes");
    return 0;
}

/* The field at *p, which moves behind it. */
static struct field take(const uint8_t **p, const uint8_t *end)
{
    uint64_t key = varint(p, end);
    struct field f = {.number = (unsigned)(key >> 3), .type = key & 7};
    if (f.type == 0) {
        f.v = varint(p, end);
        return f;
    }
    f.v = f.type == 5 ? 4 : varint(p, end);
    assert_true((f.type == 2 || f.type == 5) && f.v <= (uint64_t)(end - *p));
    f.bytes = *p;
    *p += f.v;
    return f;
}

/* The nth field of this number, or one with number 0. */
static struct field find(const uint8_t *bytes, uint64_t n, unsigned number, unsigned nth)
{
    const uint8_t *p = bytes, *end = bytes + n;
    while (p < end) {
        struct field f = take(&p, end);
        if (f.number == number && nth-- == 0)
            return f;
    }
    return (struct field){0};
}

static bool is_text(struct field f, const char *text)
{
    return f.type == 2 && f.v == strlen(text) && memcmp(f.bytes, text, f.v) == 0;
}

static bool same(struct field a, struct field b)
{
    return a.v == b.v && memcmp(a.bytes, b.bytes, a.v) == 0;
}

/* Is `name` an input, a tensor, or written by one of the nodes before? */
static bool is_there(struct field graph, struct field name, unsigned nodes)
{
    struct field f = find(graph.bytes, graph.v, 11, 0);
    if (same(find(f.bytes, f.v, 1, 0), name))
        return true;
    for (unsigned i = 0; (f = find(graph.bytes, graph.v, 5, i)).number != 0; i++)
        if (same(find(f.bytes, f.v, 8, 0), name))
            return true;
    for (unsigned i = 0; i < nodes; i++) {
        f = find(graph.bytes, graph.v, 1, i);
        if (same(find(f.bytes, f.v, 2, 0), name))
            return true;
    }
    return false;
}

static unsigned check_nodes(struct field graph)
{
    struct field node, name;
    unsigned nodes = 0;
    for (; (node = find(graph.bytes, graph.v, 1, nodes)).number != 0; nodes++) {
        for (unsigned i = 0; (name = find(node.bytes, node.v, 1, i)).number != 0; i++)
            assert_true(is_there(graph, name, nodes));
        /* nothing is written twice */
        assert_false(is_there(graph, find(node.bytes, node.v, 2, 0), nodes));
        assert_true(find(node.bytes, node.v, 4, 0).v > 0);
    }
    return nodes;
}

static char *text; /* of the file that was read last */

static struct field read_graph(const char *path)
{
    struct yk_error e;
    size_t n;
    free(text);
    assert_int_equal(yk_file_read(path, 1 << 26, &text, &n, &e), YK_OK);
    const uint8_t *bytes = (const uint8_t *)text;
    struct field opset = find(bytes, n, 8, 0);
    assert_true(find(bytes, n, 1, 0).v == 7 && is_text(find(bytes, n, 2, 0), "yoke"));
    assert_int_equal(find(opset.bytes, opset.v, 2, 0).v, YK_ONNX_OPSET);
    return find(bytes, n, 7, 0);
}

/* Every parameter is there under its name, with its shape and its bits. */
static void check_parameters(struct field graph, const struct yk_params *p)
{
    for (size_t i = 0; i < p->views; i++) {
        const struct yk_view *v = &p->view[i];
        struct field t;
        unsigned at = 0;
        do
            t = find(graph.bytes, graph.v, 5, at++);
        while (t.number != 0 && !is_text(find(t.bytes, t.v, 8, 0), v->name));
        assert_int_equal(t.number, 5);
        for (uint32_t d = 0; d < v->ndim; d++)
            assert_int_equal(find(t.bytes, t.v, 1, d).v, v->shape[d]);
        struct field raw = find(t.bytes, t.v, 9, 0);
        assert_int_equal(raw.v, v->count * sizeof(float));
        assert_memory_equal(raw.bytes, p->flat + v->at, raw.v);
    }
}

static void make_params(const struct yk_net *n, struct yk_params *p)
{
    static struct yk_view view[4 * YK_NET_LAYERS];
    struct yk_error e;
    assert_int_equal(yk_params_init(p, view, yk_net_views(n, view), &e), YK_OK);
    for (size_t i = 0; i < p->count; i++)
        p->flat[i] = (float)i / 1000 - 1;
}

static void test_nets(void **state)
{
    static const char *const NETS[] = {"lenet", "lenet-report", "cifar", "mlp"};
    static const unsigned NODES[] = {
        15, 15, 28, 9}; /* layers, less dropout, and scale, channels, flatten, mean, deviation */
    char path[YK_PATH_MAX];
    struct yk_error e;
    assert_int_equal(yk_path(path, &e, "%s/x.onnx", (const char *)*state), YK_OK);
    for (int i = 0; i < 4; i++) {
        struct yk_net n;
        struct yk_params p;
        assert_int_equal(yk_net_read(NETS[i], &n, &e), YK_OK);
        make_params(&n, &p);
        assert_int_equal(yk_onnx_net(path, &n, &p, &e), YK_OK);
        struct field graph = read_graph(path);
        assert_true(is_text(find(graph.bytes, graph.v, 2, 0), NETS[i]));
        assert_int_equal(check_nodes(graph), NODES[i]);
        struct field last = find(graph.bytes, graph.v, 1, NODES[i] - 1),
                     out = find(graph.bytes, graph.v, 12, 0);
        assert_true(is_text(find(last.bytes, last.v, 2, 0), "probabilities") &&
                    is_text(find(out.bytes, out.v, 1, 0), "probabilities"));
        check_parameters(graph, &p);
        p.views--; /* the last one is lost */
        assert_int_equal(yk_onnx_net(path, &n, &p, &e), YK_DATA);
        assert_non_null(strstr(e.text, "the parameters lack 'dense"));
        yk_params_release(&p);
        yk_net_release(&n);
    }
    free(text);
    text = NULL;
}

static void test_softmax_and_logreg(void **state)
{
    const struct yk_view softmax[] = {{.name = "softmax.weight", .ndim = 2, .shape = {3, 8}},
                                      {.name = "softmax.bias", .ndim = 1, .shape = {3}}};
    const struct yk_view logreg[] = {{.name = "logreg.weight", .ndim = 1, .shape = {9}},
                                     {.name = "logreg.bias", .ndim = 1, .shape = {1}}};
    const uint32_t shape[3] = {2, 4, 1};
    char path[YK_PATH_MAX];
    struct yk_params p;
    struct yk_error e;
    assert_int_equal(yk_path(path, &e, "%s/x.onnx", (const char *)*state), YK_OK);
    assert_int_equal(yk_params_init(&p, softmax, 2, &e), YK_OK);
    p.flat[0] = 7;
    assert_int_equal(yk_onnx_softmax(path, shape, 3, &p, &e), YK_OK);
    struct field graph = read_graph(path);
    assert_int_equal(check_nodes(graph), 4);
    check_parameters(graph, &p);
    assert_int_equal(yk_onnx_softmax("none/here/x.onnx", shape, 3, &p, &e), YK_FAILED);
    yk_params_release(&p);

    assert_int_equal(yk_params_init(&p, logreg, 2, &e), YK_OK);
    p.flat[16] = -3;
    assert_int_equal(yk_onnx_logreg(path, 9, &p, &e), YK_OK);
    graph = read_graph(path);
    assert_int_equal(check_nodes(graph), 5);
    check_parameters(graph, &p);
    assert_int_equal(yk_onnx_logreg(path, 33762578, &p, &e), YK_USAGE);
    assert_non_null(
        strstr(e.text, "33762578 features are too many for a dense input, at most 1048576"));
    yk_params_release(&p);
    free(text);
    text = NULL;
}

/* Lengths are added up before anything is written, or touched. */
static void test_too_long(void **state)
{
    const uint64_t shape[] = {1 << 15, 1 << 14};
    char path[YK_PATH_MAX];
    struct yk_onnx g = {0};
    struct yk_error e;
    float few[2] = {0};
    assert_int_equal(yk_path(path, &e, "%s/x.onnx", (const char *)*state), YK_OK);
    yk_onnx_floats(&g, "large", 2, shape, few);
    assert_int_equal(yk_onnx_write(&g, path, "x", &e), YK_USAGE);
    assert_non_null(strstr(e.text, "an ONNX file has at most 2 GB, this one would have 2.1 GB"));
    assert_false(yk_exists(path));
    yk_onnx_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nets, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_softmax_and_logreg, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_too_long, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
