/* net_onnx.h - trained models as ONNX graphs, for programs that run those.
 *
 * Images go in as the data has them: "pixels", float (N, height, width, channels), 0 to 255;
 * scaling, mean, deviation and the order of channels are part of the graph. Sparse models take
 * "features", float (N, features), dense. "probabilities", float (N, classes), come out. Parameters
 * keep their names. Files are atomic (see base/file.h). */
#ifndef YK_MODEL_NET_NET_ONNX_H
#define YK_MODEL_NET_NET_ONNX_H

#include "model/net/net.h"
#include "param/onnx.h"

/* The most features of a sparse model: a row of the input is dense, and takes 4 MB then. */
enum { YK_ONNX_FEATURES = 1 << 20 };

yk_code yk_onnx_net(const char *path, const struct yk_net *n, const struct yk_params *p,
                    struct yk_error *e);
/* Softmax regression on images of shape height, width, channels. */
yk_code yk_onnx_softmax(const char *path, const uint32_t shape[3], uint32_t classes,
                        const struct yk_params *p, struct yk_error *e);
/* YK_USAGE if there are more than YK_ONNX_FEATURES. */
yk_code yk_onnx_logreg(const char *path, uint64_t features, const struct yk_params *p,
                       struct yk_error *e);

/* --- for the layers: each appends its nodes --- */

enum { YK_ONNX_NAME = 2 * YK_NAME };

/* A graph under construction. A new node reads the tensor `now`, and its output becomes `now`. */
struct yk_onnx_builder {
    struct yk_onnx graph;
    const struct yk_params *params;
    char now[YK_ONNX_NAME];
    bool flat;                  /* `now` has two dimensions, not four */
    char missing[YK_ONNX_NAME]; /* a parameter that the graph needs and `params` lacks */
};

/* A node with no other input. The attributes are released; NULL: none. */
void yk_onnx_op(struct yk_onnx_builder *b, const char *op, const char *label,
                struct yk_buf *attributes);
/* A node with the parameters LABEL.weight, ... of a list that NULL ends. */
void yk_onnx_parameters(struct yk_onnx_builder *b, const char *op, const char *label,
                        const char *const *which, struct yk_buf *attributes);
/* A node with the weight of a layer and its bias, if it has one. */
void yk_onnx_product(struct yk_onnx_builder *b, const char *op, const struct yk_layer *l,
                     struct yk_buf *attributes);
/* Give `now` four dimensions, the layer's input, unless it has them. */
void yk_onnx_images(struct yk_onnx_builder *b, const struct yk_layer *l);
/* The same, and the attributes of the layer's window. */
void yk_onnx_window(struct yk_onnx_builder *b, const struct yk_layer *l, struct yk_buf *attributes);
/* Give `now` two dimensions unless it has them; the second form names the node after a layer. */
void yk_onnx_flatten(struct yk_onnx_builder *b, const char *label);
void yk_onnx_flatten_before(struct yk_onnx_builder *b, const struct yk_layer *l);
void yk_onnx_probabilities(struct yk_onnx_builder *b, const char *label);

#endif
