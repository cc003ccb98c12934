/* layer_dropout.c - dropout RATE: in training a share of the numbers becomes 0 and the others are
 * divided by 1 - RATE. In use nothing happens, so ONNX graphs do not have it. Operations: none are
 * counted. */
#include "model/net/layer.h"

static yk_code read(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_number(r, "the share to drop", 0, 0.999, &l->rate);
}

const struct yk_layer_ops yk_layer_dropout = {
    .name = "dropout",
    .read = read,
    .graph_op = "Dropout",
    .passes_relu = true,
};
