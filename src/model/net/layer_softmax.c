/* layer_softmax.c - softmax, the last layer of every net: numbers become probabilities of classes.
 * Engines compute it with the loss, and TensorBoard's graph has it there. Operations: 3 a class. */
#include "model/net/layer.h"
#include "model/net/net_onnx.h"

static yk_code shape(struct yk_layer *l, const char *file, struct yk_error *e)
{
    char text[40];
    if (l->in.h != 1 || l->in.w != 1 || l->in.c < 2 || l->in.c > YK_NET_CLASSES) {
        YK_LAYER_FAIL(l, file, e,
                      "softmax needs one number for each of 2 to %d classes, but gets %s",
                      YK_NET_CLASSES, yk_shape_text(l->in, text));
        yk_hint(e, "put 'dense N' before it, for N classes");
        return YK_USAGE;
    }
    yk_shape_same(l, 3);
    return YK_OK;
}

static void onnx(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    yk_onnx_flatten_before(b, l);
    yk_onnx_probabilities(b, l->name);
}

const struct yk_layer_ops yk_layer_softmax = {
    .name = "softmax",
    .shape = shape,
    .onnx = onnx,
    .computes_nothing = true,
};
