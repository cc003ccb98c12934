/* layer.h - a kind of layer is one struct of functions in one file.
 *
 * It tells how a line of a .net file is read, which shape comes out, which parameters there are and
 * how they start, how much is computed, and what the layer is in an ONNX graph and in the graph of
 * TensorBoard. The files that read nets, work out shapes, lay out parameters and write graphs only
 * walk these structs; the engines alone tell the kinds apart, where they compute.
 *
 * A new kind is a file layer_NAME.c, its word in YK_LAYER_KINDS (net.h) and its computation in the
 * engines.
 * THREADS: nothing here has state. */
#ifndef YK_MODEL_NET_LAYER_H
#define YK_MODEL_NET_LAYER_H

#include "model/net/net_line.h"

struct yk_net_place;    /* net_model.h */
struct yk_onnx_builder; /* net_onnx.h */
struct yk_drawing;      /* net_graph.h */

/* A word that may follow in a layer's line, and the value behind it. */
struct yk_layer_option {
    const char *word;
    yk_code (*read)(struct yk_net_line *r, struct yk_layer *l); /* NULL: a number */
    size_t at;          /* offset of the number, a float of struct yk_layer */
    double least, most; /* of the number */
};

/* Where the starting values of a layer go. */
struct yk_layer_start {
    float *flat; /* all parameters, zeroed */
    const struct yk_net_place *place;
    uint64_t seed;
    uint64_t index; /* of the layer in its net; its random numbers depend on it */
};

struct yk_layer_ops {
    const char *name; /* its word in .net files */

    /* Reads what must follow the name, and sets defaults. NULL: nothing follows. */
    yk_code (*read)(struct yk_net_line *r, struct yk_layer *l);
    const struct yk_layer_option *options; /* the last one has no word; NULL: none but 'name' */

    /* Works out `out`, `weights` and `flops` from `in`. YK_USAGE, with the place in `file`, if the
     * layer does not fit. NULL: the shape stays, with `flops_each` operations for each number. */
    yk_code (*shape)(struct yk_layer *l, const char *file, struct yk_error *e);
    unsigned flops_each;

    /* Its parameters, at most 4; returns how many. NULL: it has none. */
    unsigned (*views)(const struct yk_layer *l, struct yk_view *out);
    void (*start)(const struct yk_layer *l, const struct yk_layer_start *s); /* NULL: all zero */

    /* Appends it to an ONNX graph. NULL: one node of the operation `onnx_op`, and none if that is
     * NULL too. */
    void (*onnx)(struct yk_onnx_builder *b, const struct yk_layer *l);
    const char *onnx_op;
    /* Draws it for TensorBoard. NULL: one node of the operation `graph_op`, and none if that is
     * NULL too. */
    void (*graph)(struct yk_drawing *d, const struct yk_layer *l);
    const char *graph_op;

    bool computes_nothing; /* the numbers pass as they are, or the loss does the work */
    bool joins_previous;   /* engines compute it together with the layer before it */
    bool passes_relu;      /* a relu behind it counts for the starting weights before it */
    bool needs_whole_step; /* depends on all images of a step, so threads cannot divide them */
};

#define YK_LAYER_DECLARE(name) extern const struct yk_layer_ops yk_layer_##name;
YK_LAYER_KINDS(YK_LAYER_DECLARE)

const struct yk_layer_ops *yk_layer_ops(enum yk_layer_kind kind);

/* --- layer.c: what several kinds have in common --- */

#define YK_LAYER_FAIL(l, file, e, ...) yk_net_fail(e, file, (l)->line, (l)->column, __VA_ARGS__)

uint64_t yk_shape_numbers(struct yk_shape s); /* of a shape that was checked */
/* "28x28x6" as files write it: height, width, channels; a list of numbers is "120". Returns
 * `out`. */
const char *yk_shape_text(struct yk_shape s, char out[40]);
/* A tensor between layers has at most 2^31 - 1 numbers. */
yk_code yk_shape_check(struct yk_shape s, const struct yk_layer *l, const char *file,
                       struct yk_error *e);
/* The shape stays, with `each` operations for each number. */
void yk_shape_same(struct yk_layer *l, uint64_t each);
void yk_layer_view(const struct yk_layer *l, const char *which, uint32_t ndim,
                   const uint64_t *shape, struct yk_view *out);

/* Layers with a window: conv and pools. */
yk_code yk_read_window(struct yk_net_line *r, struct yk_layer *l);
yk_code yk_read_stride(struct yk_net_line *r, struct yk_layer *l);
yk_code yk_read_pad(struct yk_net_line *r, struct yk_layer *l);
/* Height and width after the window has gone over the input; out.c is known. */
yk_code yk_slide_window(struct yk_layer *l, const char *file, struct yk_error *e);

/* Layers with a product: conv and dense. */
yk_code yk_read_bias(struct yk_net_line *r, struct yk_layer *l);
yk_code yk_read_init(struct yk_net_line *r, struct yk_layer *l);
/* A weight of this shape, and a bias if the layer has one. Returns the number of views. */
unsigned yk_product_views(const struct yk_layer *l, uint32_t ndim, const uint64_t *weight,
                          struct yk_view *out);
/* Parameters and operations of out.c x `depth` weights that are applied at `places`. */
yk_code yk_count_product(struct yk_layer *l, uint64_t depth, uint64_t places, const char *file,
                         struct yk_error *e);
/* Draws the weights as `init` says and sets the biases; defined in net_start.c. */
void yk_start_product(const struct yk_layer *l, const struct yk_layer_start *s, size_t fan_in,
                      size_t fan_out);

#endif
