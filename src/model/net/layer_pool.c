/* layer_pool.c - pools: maxpool HxW [stride N] [pad N], avgpool likewise. The stride is the
 * window's size unless the line gives it.
 *
 * Windows lie inside the padded input; a rest at the bottom and right is dropped. Zeros around the
 * input count in an average and never win a maximum. Operations: 1 an element of each window. */
#include "model/net/layer.h"
#include "model/net/net_onnx.h"

#include <string.h>

static yk_code read(struct yk_net_line *r, struct yk_layer *l)
{
    yk_code rc = yk_read_window(r, l);
    memcpy(l->stride, l->kernel, sizeof l->stride);
    return rc;
}

static const struct yk_layer_option OPTIONS[] = {
    {.word = "stride", .read = yk_read_stride},
    {.word = "pad", .read = yk_read_pad},
    {0},
};

static yk_code shape(struct yk_layer *l, const char *file, struct yk_error *e)
{
    l->out.c = l->in.c;
    yk_code rc = yk_slide_window(l, file, e);
    if (rc == YK_OK && __builtin_mul_overflow((uint64_t)l->kernel[0] * l->kernel[1],
                                              yk_shape_numbers(l->out), &l->flops))
        rc =
            YK_LAYER_FAIL(l, file, e, "%s takes more than 2^64 operations", yk_layer_name(l->kind));
    return rc;
}

static void onnx_max(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    struct yk_buf attributes = {0};
    yk_onnx_window(b, l, &attributes);
    yk_onnx_op(b, "MaxPool", l->name, &attributes);
}

static void onnx_average(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    struct yk_buf attributes = {0};
    yk_onnx_window(b, l, &attributes);
    yk_onnx_int(&attributes, "count_include_pad", 1);
    yk_onnx_op(b, "AveragePool", l->name, &attributes);
}

const struct yk_layer_ops yk_layer_maxpool = {
    .name = "maxpool",
    .read = read,
    .options = OPTIONS,
    .shape = shape,
    .onnx = onnx_max,
    .graph_op = "MaxPool",
    .passes_relu = true,
};

const struct yk_layer_ops yk_layer_avgpool = {
    .name = "avgpool",
    .read = read,
    .options = OPTIONS,
    .shape = shape,
    .onnx = onnx_average,
    .graph_op = "AvgPool",
    .passes_relu = true,
};
