/* net_graph.h - the graph that TensorBoard draws, under construction: what layers append their
 * nodes with. */
#ifndef YK_MODEL_NET_NET_GRAPH_H
#define YK_MODEL_NET_NET_GRAPH_H

#include "model/net/net.h"
#include "record/events.h"

struct yk_drawing {
    struct yk_graph_node *node;
    size_t nodes;
    char (*name)[2 * YK_NAME]; /* (nodes) their names; nodes point here */
    const char *now;           /* the node whose output the next layer reads */
};

/* A node "LAYER/WHAT", or "LAYER" if `what` is NULL. Returns its name, for the nodes that read it.
 * A layer has at most 8. */
const char *yk_draw_node(struct yk_drawing *d, const char *layer, const char *what,
                         struct yk_graph_node node);
/* A node that puts out images of this shape, or lists of numbers; the caller adds its inputs. */
struct yk_graph_node yk_draw_images(const char *op, struct yk_shape s);
const char *yk_draw_variable(struct yk_drawing *d, const char *layer, const char *what,
                             unsigned ndim, const int64_t *shape);
/* The product of a layer with its weight of this shape, and the sum with its bias. */
void yk_draw_product(struct yk_drawing *d, const struct yk_layer *l, const char *op, unsigned ndim,
                     const int64_t *weight);

#endif
