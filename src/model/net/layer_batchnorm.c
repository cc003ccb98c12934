/* layer_batchnorm.c - batch normalization: batchnorm [momentum X] [eps X]
 *
 *     running = momentum * running + (1 - momentum) * batch
 *
 * NAME.weight and NAME.bias are learned; the running NAME.mean and NAME.var are not. All are
 * (channels). Weight and variance start at 1, bias and mean at 0. Operations: 2 a number. */
#include "model/net/layer.h"
#include "model/net/net_graph.h"
#include "model/net/net_model.h"
#include "model/net/net_onnx.h"

static const char *const PARAMETERS[] = {"weight", "bias", "mean", "var", NULL};

static yk_code read(struct yk_net_line *r, struct yk_layer *l)
{
    (void)r;
    l->momentum = 0.9f;
    l->eps = 1e-5f;
    return YK_OK;
}

static const struct yk_layer_option OPTIONS[] = {
    {"momentum", NULL, offsetof(struct yk_layer, momentum), 0, 0.999999},
    {"eps", NULL, offsetof(struct yk_layer, eps), 1e-12, 1},
    {0},
};

static yk_code shape(struct yk_layer *l, const char *file, struct yk_error *e)
{
    (void)file, (void)e;
    yk_shape_same(l, 2);
    l->weights = 2 * (uint64_t)l->in.c;
    return YK_OK;
}

static unsigned views(const struct yk_layer *l, struct yk_view *out)
{
    const uint64_t channels = l->out.c;
    unsigned n = 0;
    for (; PARAMETERS[n] != NULL; n++)
        yk_layer_view(l, PARAMETERS[n], 1, &channels, &out[n]);
    return n;
}

static void start(const struct yk_layer *l, const struct yk_layer_start *s)
{
    for (uint32_t i = 0; i < l->in.c; i++)
        s->flat[s->place->weight + i] = s->flat[s->place->var + i] = 1;
}

static void onnx(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    struct yk_buf attributes = {0};
    yk_onnx_float(&attributes, "epsilon", l->eps);
    yk_onnx_parameters(b, "BatchNormalization", l->name, PARAMETERS, &attributes);
}

static void graph(struct yk_drawing *d, const struct yk_layer *l)
{
    const int64_t channels[] = {l->out.c};
    struct yk_graph_node n = yk_draw_images("FusedBatchNormV3", l->out);
    n.inputs[0] = d->now;
    n.inputs[1] = yk_draw_variable(d, l->name, "weight", 1, channels);
    n.inputs[2] = yk_draw_variable(d, l->name, "bias", 1, channels);
    yk_draw_variable(d, l->name, "mean", 1, channels);
    yk_draw_variable(d, l->name, "var", 1, channels);
    d->now = yk_draw_node(d, l->name, "norm", n);
}

const struct yk_layer_ops yk_layer_batchnorm = {
    .name = "batchnorm",
    .read = read,
    .options = OPTIONS,
    .shape = shape,
    .views = views,
    .start = start,
    .onnx = onnx,
    .graph = graph,
    .passes_relu = true,
    .needs_whole_step = true,
};
