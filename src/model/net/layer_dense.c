/* layer_dense.c - dense layer: dense OUTPUTS [bias none | X] [init ...]
 *
 * The input may have any shape; it is read channel by channel, row by row. NAME.weight is (out, in)
 * and NAME.bias is (out), as torch keeps them. Operations: 2 a weight and 1 a bias. */
#include "model/net/layer.h"
#include "model/net/net_graph.h"
#include "model/net/net_onnx.h"

static yk_code read(struct yk_net_line *r, struct yk_layer *l)
{
    l->bias = true;
    return yk_take_size(r, "the number of outputs", 1, &l->out.c);
}

static const struct yk_layer_option OPTIONS[] = {
    {.word = "bias", .read = yk_read_bias},
    {.word = "init", .read = yk_read_init},
    {0},
};

static yk_code shape(struct yk_layer *l, const char *file, struct yk_error *e)
{
    l->out.h = l->out.w = 1;
    return yk_count_product(l, yk_shape_numbers(l->in), 1, file, e);
}

static unsigned views(const struct yk_layer *l, struct yk_view *out)
{
    const uint64_t weight[] = {l->out.c, yk_shape_numbers(l->in)};
    return yk_product_views(l, 2, weight, out);
}

static void start(const struct yk_layer *l, const struct yk_layer_start *s)
{
    yk_start_product(l, s, yk_shape_numbers(l->in), l->out.c);
}

static void onnx(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    struct yk_buf attributes = {0};
    yk_onnx_flatten_before(b, l);
    yk_onnx_int(&attributes, "transB", 1);
    yk_onnx_product(b, "Gemm", l, &attributes);
}

static void graph(struct yk_drawing *d, const struct yk_layer *l)
{
    const int64_t weight[] = {l->out.c, (int64_t)yk_shape_numbers(l->in)};
    if (l->in.h > 1 || l->in.w > 1) {
        struct yk_graph_node flat = {
            .op = "Reshape", .inputs = {d->now}, .ndim = 2, .shape = {-1, weight[1]}};
        d->now = yk_draw_node(d, l->name, "flatten", flat);
    }
    yk_draw_product(d, l, "MatMul", 2, weight);
}

const struct yk_layer_ops yk_layer_dense = {
    .name = "dense",
    .read = read,
    .options = OPTIONS,
    .shape = shape,
    .views = views,
    .start = start,
    .onnx = onnx,
    .graph = graph,
};
