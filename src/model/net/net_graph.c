/* net_graph.c - a net as the graph that TensorBoard draws: a group for each layer with its
 * variables and operations. */
#include "model/net/net_graph.h"

#include "model/net/layer.h"
#include "model/net/net_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MOST = 8 }; /* of a layer */

const char *yk_draw_node(struct yk_drawing *d, const char *layer, const char *what,
                         struct yk_graph_node node)
{
    char *name = d->name[d->nodes];
    snprintf(name, sizeof d->name[0], what != NULL ? "%s/%s" : "%s", layer, what);
    node.name = name;
    d->node[d->nodes++] = node;
    return name;
}

struct yk_graph_node yk_draw_images(const char *op, struct yk_shape s)
{
    struct yk_graph_node n = {.op = op, .ndim = 4, .shape = {-1, s.h, s.w, s.c}};
    if (s.h == 1 && s.w == 1) {
        n.ndim = 2;
        n.shape[1] = s.c;
    }
    return n;
}

const char *yk_draw_variable(struct yk_drawing *d, const char *layer, const char *what,
                             unsigned ndim, const int64_t *shape)
{
    struct yk_graph_node n = {.op = "VariableV2", .ndim = ndim};
    memcpy(n.shape, shape, ndim * sizeof *shape);
    return yk_draw_node(d, layer, what, n);
}

void yk_draw_product(struct yk_drawing *d, const struct yk_layer *l, const char *op, unsigned ndim,
                     const int64_t *weight)
{
    struct yk_graph_node product = yk_draw_images(op, l->out),
                         sum = yk_draw_images("BiasAdd", l->out);
    product.inputs[0] = d->now;
    product.inputs[1] = yk_draw_variable(d, l->name, "weight", ndim, weight);
    d->now = yk_draw_node(d, l->name, "product", product);
    if (!l->bias)
        return;
    sum.inputs[0] = d->now;
    sum.inputs[1] = yk_draw_variable(d, l->name, "bias", 1, weight);
    d->now = yk_draw_node(d, l->name, "sum", sum);
}

static void draw_layer(struct yk_drawing *d, const struct yk_layer *l)
{
    const struct yk_layer_ops *ops = yk_layer_ops(l->kind);
    if (ops->graph != NULL) {
        ops->graph(d, l);
    } else if (ops->graph_op != NULL) {
        struct yk_graph_node n = yk_draw_images(ops->graph_op, l->out);
        n.inputs[0] = d->now;
        d->now = yk_draw_node(d, l->name, NULL, n);
    }
}

void yk_net_graph(const struct yk_model *model, struct yk_events *events)
{
    const struct yk_net_model *m = (const struct yk_net_model *)model;
    const struct yk_net *net = m->net;
    size_t most = (size_t)net->layers * NODES_MOST + 4;
    struct yk_drawing d = {.node = calloc(most, sizeof *d.node),
                           .name = calloc(most, sizeof *d.name)};
    /* A run without memory for it goes on without a graph. */
    if (d.node != NULL && d.name != NULL) {
        struct yk_graph_node labels = {.op = "Placeholder", .ndim = 1, .shape = {-1}};
        struct yk_graph_node loss = {
            .op = "SparseSoftmaxCrossEntropyWithLogits", .ndim = 1, .shape = {-1}};
        struct yk_graph_node accuracy = {.op = "InTopKV2", .ndim = 1, .shape = {-1}};
        d.now = yk_draw_node(&d, "data", "pixels", yk_draw_images("Placeholder", net->input));
        loss.inputs[1] = accuracy.inputs[1] = yk_draw_node(&d, "data", "labels", labels);
        for (unsigned i = 0; i < net->layers; i++)
            draw_layer(&d, &net->layer[i]);
        loss.inputs[0] = accuracy.inputs[0] = d.now;
        yk_draw_node(&d, "score", "loss", loss);
        yk_draw_node(&d, "score", "accuracy", accuracy);
        yk_events_graph(events, d.node, d.nodes);
    }
    free(d.name);
    free(d.node);
}
