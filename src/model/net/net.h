/* net.h - a sequential net: a .net file, with every shape worked out.
 *
 * A net is a list of layers; the first reads images, the last is softmax, and the loss is
 * cross-entropy. net_read.c reads the file, the kinds of layers (layer.h) their lines, and
 * net_shape.c works out shapes, parameters and operations and refuses layers that do not fit.
 * docs/nets.md has the grammar.
 *
 * Every mistake in a file is YK_USAGE, and its message begins with its place: "lenet.net:7:12:
 * ...".
 * THREADS: a net does not change once it is read; any number of threads may share it. */
#ifndef YK_MODEL_NET_NET_H
#define YK_MODEL_NET_NET_H

#include "base/error.h"
#include "param/param.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every kind of layer, each with a `struct yk_layer_ops` (layer.h). The order is part of the names
 * of files in which measured engines are kept. */
#define YK_LAYER_KINDS(X)                                                                          \
    X(conv)                                                                                        \
    X(maxpool)                                                                                     \
    X(avgpool)                                                                                     \
    X(dense) X(relu) X(tanh) X(sigmoid) X(lrn) X(dropout) X(batchnorm) X(flatten) X(softmax)
#define YK_LAYER_INDEX(name) YK_LAYER_##name,
enum yk_layer_kind { YK_LAYER_KINDS(YK_LAYER_INDEX) YK_LAYER_COUNT };

#define YK_NET_WEIGHTS ((uint64_t)1 << 40) /* parameters of a net, at most */
enum {
    YK_NET_LAYERS = 512,      /* at most, with 4 views each */
    YK_NET_CLASSES = 1 << 16, /* at most */
    YK_NET_CHANNELS = 4,      /* of an input with a mean and a deviation, at most */
};

struct yk_shape { /* of one example between layers, channels first */
    uint32_t c, h, w;
};

struct yk_layer {
    enum yk_layer_kind kind;
    /* "conv1", or a name from the file; the parameters are NAME.weight, NAME.bias and so on */
    char name[YK_NAME - 16];
    uint32_t line, column; /* of the file */
    struct yk_shape in;    /* what the layer before it puts out */
    struct yk_shape out;   /* n x 1 x 1 for dense, flatten and softmax */

    uint32_t kernel[2]; /* conv, pools: height and width of the window */
    uint32_t stride[2]; /* conv, pools */
    /* conv, pools: zeros top, left, bottom, right; each less than the window's side */
    uint32_t pad[4];
    uint32_t groups;      /* conv */
    bool bias;            /* conv, dense: has one */
    float rate;           /* dropout: share that is dropped */
    uint32_t size;        /* lrn: channels of its window, odd */
    float alpha, beta, k; /* lrn: see layer_lrn.c */
    float momentum, eps;  /* batchnorm: see layer_batchnorm.c */
    /* conv, dense: starting values of the weights, "he", "glorot", "zero" or "normal". A file that
     * says nothing gets "he" before a relu, with layers that only pass numbers on between them, and
     * "glorot" elsewhere. */
    char init[12];
    bool init_given;  /* the file has `init` */
    float init_scale; /* normal: standard deviation */
    float bias_start; /* starting value of every bias */

    /* learned numbers with biases; batchnorm's running mean and variance are not learned */
    uint64_t weights;
    uint64_t flops; /* forward, one example; a multiplication and an addition count 2 */
};

struct yk_net {
    char name[YK_NAME];
    struct yk_shape input;
    /* A pixel becomes (x * scale of the data - mean) / deviation, by channel. */
    bool normalized; /* the file gives them; else they are 0 and 1 */
    float mean[YK_NET_CHANNELS], deviation[YK_NET_CHANNELS];
    uint32_t classes;
    struct yk_layer *layer;
    unsigned layers;
    /* Defaults of a run from the `train` lines: option, value, option, value, ..., NULL. "train
     * biases lr 0.002" is the option "bias-lr". Users of the net check that such options exist. */
    char **setting;
    uint32_t *setting_line; /* (pairs) their lines */
    char *text;             /* the file, which runs keep with what they train; ends with NUL */
    size_t text_length;
    uint64_t weights, flops; /* of all layers */
};

/* Reads a file or one of the nets in the binary ("lenet", "alexnet"). A word with a slash or ".net"
 * in it is a file. */
yk_code yk_net_read(const char *what, struct yk_net *out, struct yk_error *e);
/* `text` need not end with NUL; `what` is its name in messages: "lenet.net:7:12: ...". */
yk_code yk_net_parse(const char *what, const char *text, size_t n, struct yk_net *out,
                     struct yk_error *e);
void yk_net_release(struct yk_net *n); /* a zeroed one is fine */
const char *yk_layer_name(enum yk_layer_kind kind);

/* YK_USAGE, with the place before the message. Also for faults that are found later, in settings
 * for instance. */
yk_code yk_net_fail(struct yk_error *e, const char *what, uint32_t line, uint32_t column,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The last thing that yk_net_parse does: in, out, weights and flops of every layer and of the net,
 * and starting values that the file leaves open. */
yk_code yk_net_shape(const char *what, struct yk_net *n, struct yk_error *e);

/* The parameters of a net as views, at most 4 a layer; returns how many. The files of the layers
 * give their shapes. */
unsigned yk_net_views(const struct yk_net *n, struct yk_view *out);

/* The nets of models/, which the Makefile makes part of the binary. The last one has no name. */
struct yk_net_file {
    const char *name, *text;
};
extern const struct yk_net_file yk_net_files[];

#endif
