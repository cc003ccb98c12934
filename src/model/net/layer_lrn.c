/* layer_lrn.c - local response normalization across channels: lrn CHANNELS [alpha X] [beta X] [k X]
 *
 *     y = x / (k + alpha / size * sum of x^2 over `size` channels)^beta, with `size` odd
 *
 * Operations: 2 an element of the window and 3 more, for each number. */
#include "model/net/layer.h"
#include "model/net/net_onnx.h"

static yk_code read(struct yk_net_line *r, struct yk_layer *l)
{
    l->alpha = 1e-4f;
    l->beta = 0.75f;
    l->k = 1;
    yk_code rc = yk_take_size(r, "the number of channels", 1, &l->size);
    if (rc == YK_OK && l->size % 2 == 0) {
        r->at--;
        return YK_LINE_FAIL(
            r,
            "the number of channels is %u: lrn needs an odd one, so that its window has a middle",
            l->size);
    }
    return rc;
}

static const struct yk_layer_option OPTIONS[] = {
    {"alpha", NULL, offsetof(struct yk_layer, alpha), 0, 1e6},
    {"beta", NULL, offsetof(struct yk_layer, beta), 0, 100},
    {"k", NULL, offsetof(struct yk_layer, k), 1e-6, 1e6},
    {0},
};

static yk_code shape(struct yk_layer *l, const char *file, struct yk_error *e)
{
    (void)file, (void)e;
    yk_shape_same(l, 2 * (uint64_t)l->size + 3);
    return YK_OK;
}

static void onnx(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    struct yk_buf attributes = {0};
    yk_onnx_images(b, l);
    yk_onnx_float(&attributes, "alpha", l->alpha);
    yk_onnx_float(&attributes, "beta", l->beta);
    yk_onnx_float(&attributes, "bias", l->k);
    yk_onnx_int(&attributes, "size", l->size);
    yk_onnx_op(b, "LRN", l->name, &attributes);
}

const struct yk_layer_ops yk_layer_lrn = {
    .name = "lrn",
    .read = read,
    .options = OPTIONS,
    .shape = shape,
    .onnx = onnx,
    .graph_op = "LRN",
    .passes_relu = true,
};
