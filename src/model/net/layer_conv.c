/* layer_conv.c - convolution:
 *
 *     conv CHANNELS HxW [stride N] [pad N] [groups N] [bias none | X] [init ...]
 *
 * NAME.weight is (out, in / groups, kh, kw) and NAME.bias is (out), as torch keeps them.
 * Operations: 2 a weight and 1 a bias at every place of the output. */
#include "model/net/layer.h"
#include "model/net/net_graph.h"
#include "model/net/net_onnx.h"

static yk_code read(struct yk_net_line *r, struct yk_layer *l)
{
    l->bias = true;
    yk_code rc = yk_take_size(r, "the number of channels", 1, &l->out.c);
    return rc == YK_OK ? yk_read_window(r, l) : rc;
}

static yk_code read_groups(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_size(r, "groups", 1, &l->groups);
}

static const struct yk_layer_option OPTIONS[] = {
    {.word = "stride", .read = yk_read_stride}, {.word = "pad", .read = yk_read_pad},
    {.word = "groups", .read = read_groups},    {.word = "bias", .read = yk_read_bias},
    {.word = "init", .read = yk_read_init},     {0},
};

static yk_code shape(struct yk_layer *l, const char *file, struct yk_error *e)
{
    char text[40];
    uint64_t depth;
    if (l->in.c % l->groups != 0 || l->out.c % l->groups != 0)
        return YK_LAYER_FAIL(
            l, file, e, "conv cannot divide its channels into %u groups: it gets %s and makes %u",
            l->groups, yk_shape_text(l->in, text), l->out.c);
    yk_code rc = yk_slide_window(l, file, e);
    if (rc != YK_OK)
        return rc;
    if (__builtin_mul_overflow((uint64_t)l->kernel[0] * l->kernel[1],
                               (uint64_t)(l->in.c / l->groups), &depth))
        return YK_LAYER_FAIL(l, file, e, "conv has more than 2^40 parameters");
    return yk_count_product(l, depth, (uint64_t)l->out.h * l->out.w, file, e);
}

static unsigned views(const struct yk_layer *l, struct yk_view *out)
{
    const uint64_t weight[] = {l->out.c, l->in.c / l->groups, l->kernel[0], l->kernel[1]};
    return yk_product_views(l, 4, weight, out);
}

static void start(const struct yk_layer *l, const struct yk_layer_start *s)
{
    size_t window = (size_t)l->kernel[0] * l->kernel[1];
    yk_start_product(l, s, l->in.c / l->groups * window, l->out.c * window);
}

static void onnx(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    struct yk_buf attributes = {0};
    yk_onnx_window(b, l, &attributes);
    yk_onnx_int(&attributes, "group", l->groups);
    yk_onnx_product(b, "Conv", l, &attributes);
}

static void graph(struct yk_drawing *d, const struct yk_layer *l)
{
    const int64_t weight[] = {l->out.c, l->in.c / l->groups, l->kernel[0], l->kernel[1]};
    yk_draw_product(d, l, "Conv2D", 4, weight);
}

const struct yk_layer_ops yk_layer_conv = {
    .name = "conv",
    .read = read,
    .options = OPTIONS,
    .shape = shape,
    .views = views,
    .start = start,
    .onnx = onnx,
    .graph = graph,
};
