/* netrun_graph.c - a net as the graph that TensorBoard draws: a group for each layer, its variables and operations in it. */
#include "model/netrun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_EACH = 8 }; /* of a layer, at most */

struct drawing {
    struct yk_graph_node *node;
    size_t nodes;
    char (*name)[2 * YK_NAME]; /* (nodes) what they are called; nodes point here */
    const char *now;           /* whose output the next layer reads */
};

/* "layer/what", or "layer" alone. Returns its name, for those who read it. */
static const char *add(struct drawing *d, const char *layer, const char *what,
                       struct yk_graph_node node)
{
    char *name = d->name[d->nodes];
    snprintf(name, sizeof d->name[0], what != NULL ? "%s/%s" : "%s", layer, what);
    node.name = name;
    d->node[d->nodes++] = node;
    return name;
}

static struct yk_graph_node images(const char *op, struct yk_shape s)
{
    struct yk_graph_node n = {.op = op, .ndim = 4, .shape = {-1, s.h, s.w, s.c}};
    if (s.h == 1 && s.w == 1) {
        n.ndim = 2;
        n.shape[1] = s.c;
    }
    return n;
}

static const char *variable(struct drawing *d, const char *layer, const char *what, unsigned ndim,
                            const int64_t *shape)
{
    struct yk_graph_node n = {.op = "VariableV2", .ndim = ndim};
    memcpy(n.shape, shape, ndim * sizeof *shape);
    return add(d, layer, what, n);
}

static void draw_product(struct drawing *d, const struct yk_layer *l)
{
    bool conv = l->kind == YK_LAYER_conv;
    int64_t in = conv ? l->in.c / l->groups : (int64_t)l->in.c * l->in.h * l->in.w;
    const int64_t shape[] = {l->out.c, in, l->kernel[0], l->kernel[1]}, channels[] = {l->out.c};
    if (!conv && (l->in.h > 1 || l->in.w > 1)) {
        struct yk_graph_node flat = {
            .op = "Reshape", .inputs = {d->now}, .ndim = 2, .shape = {-1, in}};
        d->now = add(d, l->name, "flatten", flat);
    }
    struct yk_graph_node product = images(conv ? "Conv2D" : "MatMul", l->out),
                         sum = images("BiasAdd", l->out);
    product.inputs[0] = d->now;
    product.inputs[1] = variable(d, l->name, "weight", conv ? 4 : 2, shape);
    d->now = add(d, l->name, "product", product);
    if (!l->bias)
        return;
    sum.inputs[0] = d->now;
    sum.inputs[1] = variable(d, l->name, "bias", 1, channels);
    d->now = add(d, l->name, "sum", sum);
}

static void draw_batchnorm(struct drawing *d, const struct yk_layer *l)
{
    const int64_t channels[] = {l->out.c};
    struct yk_graph_node n = images("FusedBatchNormV3", l->out);
    n.inputs[0] = d->now;
    n.inputs[1] = variable(d, l->name, "weight", 1, channels);
    n.inputs[2] = variable(d, l->name, "bias", 1, channels);
    variable(d, l->name, "mean", 1, channels);
    variable(d, l->name, "var", 1, channels);
    d->now = add(d, l->name, "norm", n);
}

static void draw_layer(struct drawing *d, const struct yk_layer *l)
{
    static const char *const OP[YK_LAYER_COUNT] = {
        [YK_LAYER_maxpool] = "MaxPool", [YK_LAYER_avgpool] = "AvgPool", [YK_LAYER_relu] = "Relu",
        [YK_LAYER_tanh] = "Tanh",       [YK_LAYER_sigmoid] = "Sigmoid", [YK_LAYER_lrn] = "LRN",
        [YK_LAYER_dropout] = "Dropout", [YK_LAYER_flatten] = "Reshape",
    };
    if (l->kind == YK_LAYER_conv || l->kind == YK_LAYER_dense) {
        draw_product(d, l);
    } else if (l->kind == YK_LAYER_batchnorm) {
        draw_batchnorm(d, l);
    } else if (OP[l->kind] != NULL) { /* softmax is part of the loss */
        struct yk_graph_node n = images(OP[l->kind], l->out);
        n.inputs[0] = d->now;
        d->now = add(d, l->name, NULL, n);
    }
}

void yk_net_graph(const struct yk_model *m, struct yk_events *events)
{
    const struct yk_net *net = m->net;
    size_t most = (size_t)net->layers * NODES_EACH + 4;
    struct drawing d = {.node = calloc(most, sizeof *d.node), .name = calloc(most, sizeof *d.name)};
    if (d.node != NULL &&
        d.name != NULL) { /* without memory for it the run goes on without a drawing */
        struct yk_graph_node labels = {.op = "Placeholder", .ndim = 1, .shape = {-1}};
        struct yk_graph_node loss = {
            .op = "SparseSoftmaxCrossEntropyWithLogits", .ndim = 1, .shape = {-1}};
        struct yk_graph_node accuracy = {.op = "InTopKV2", .ndim = 1, .shape = {-1}};
        d.now = add(&d, "data", "pixels", images("Placeholder", net->input));
        loss.inputs[1] = accuracy.inputs[1] = add(&d, "data", "labels", labels);
        for (unsigned i = 0; i < net->layers; i++)
            draw_layer(&d, &net->layer[i]);
        loss.inputs[0] = accuracy.inputs[0] = d.now;
        add(&d, "score", "loss", loss);
        add(&d, "score", "accuracy", accuracy);
        yk_events_graph(events, d.node, d.nodes);
    }
    free(d.name);
    free(d.node);
}
