/* layer_flatten.c - flatten: the same numbers as one list, channel by channel, row by row. No
 * operations. */
#include "model/net/layer.h"
#include "model/net/net_onnx.h"

static yk_code shape(struct yk_layer *l, const char *file, struct yk_error *e)
{
    (void)file, (void)e;
    l->out = (struct yk_shape){(uint32_t)yk_shape_numbers(l->in), 1, 1};
    return YK_OK;
}

static void onnx(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    yk_onnx_flatten(b, l->name);
}

const struct yk_layer_ops yk_layer_flatten = {
    .name = "flatten",
    .shape = shape,
    .onnx = onnx,
    .graph_op = "Reshape",
    .computes_nothing = true,
    .joins_previous = true,
    .passes_relu = true,
};
