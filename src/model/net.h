/* net.h - a sequential net: what a .net file says, with every shape worked out.
 *
 * A net is a list of layers; the first reads images, the last is softmax, and cross-entropy is what it is trained with. net_read.c reads
 * the file, net_shape.c works out shapes, parameters and operations and refuses what does not fit; what computes with it is
 * elsewhere. The grammar is in docs/nets.md.
 *
 * Every mistake in a file is YK_USAGE, and its sentence begins with where it is: "lenet.net:7:12: ...".
 * THREADS: a net does not change once it is read; any number of threads may share it. */
#ifndef YK_MODEL_NET_H
#define YK_MODEL_NET_H

#include "base/error.h"
#include "param/param.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_LAYER_KINDS(X)                                                                          \
    X(conv)                                                                                        \
    X(maxpool) X(avgpool) X(dense) X(relu) X(tanh) X(sigmoid) X(lrn) X(dropout) X(batchnorm)       \
        X(flatten) X(softmax)
#define YK_LAYER_INDEX(name) YK_LAYER_##name,
enum yk_layer_kind { YK_LAYER_KINDS(YK_LAYER_INDEX) YK_LAYER_COUNT };

enum {
    YK_NET_LAYERS = 512,      /* at most; 4 views each */
    YK_NET_CLASSES = 1 << 16, /* at most */
    YK_NET_CHANNELS = 4,      /* of the input, at most, if it has a mean and a deviation */
};

struct yk_shape { /* of one example, between layers: channels first */
    uint32_t c, h, w;
};

struct yk_layer {
    enum yk_layer_kind kind;
    char name[YK_NAME -
              16]; /* "conv1", or as the file says; its parameters are NAME.weight and NAME.bias */
    uint32_t line, column; /* of the file */
    /* Everything takes the shape that the layer before it leaves; dense takes any, read channel by channel, row by row, as flatten and
     * torch do. dense, flatten and softmax leave n x 1 x 1. */
    struct yk_shape in, out;

    /* conv, pools: window, step, zeros around (top, left, bottom, right), each less than the window's side. A pool's windows lie inside:
     * what is left over at the bottom and right is dropped. Zeros count in an average, and never win a maximum. */
    uint32_t kernel[2], stride[2], pad[4];
    uint32_t groups; /* conv */
    bool bias;       /* conv, dense: has one */
    float rate;      /* dropout: share that is dropped; what stays is divided by 1 - rate */
    /* lrn across channels: y = x / (k + alpha / size * sum of x^2 over `size` channels)^beta, with `size` odd */
    uint32_t size;
    float alpha, beta, k;
    float momentum, eps; /* batchnorm: running = momentum * running + (1 - momentum) * batch */
    char init
        [12]; /* "he", "glorot", "zero" or "normal"; initial values of the weights, biases begin at `bias_start` */
    /* The file says so; else it is "he" before a relu (batchnorm, dropout, lrn and pools may stand between), "glorot" elsewhere. */
    bool init_said;
    float init_scale; /* normal: standard deviation */
    float bias_start;

    uint64_t
        weights; /* learned numbers, biases included; batchnorm's running mean and variance are not */
    uint64_t flops; /* forward, one example; a multiplication and an addition count 2 */
};

struct yk_net {
    char name[YK_NAME];
    struct yk_shape input;
    /* A pixel becomes (x * scale of the data - mean) / deviation; 0 and 1 if the file says nothing. (channels), if there are at most
     * YK_NET_CHANNELS */
    float mean[YK_NET_CHANNELS], deviation[YK_NET_CHANNELS];
    bool normalized; /* the file says something */
    uint32_t classes;
    struct yk_layer *layer;
    unsigned layers;
    /* Option, value, option, value, ..., NULL: what its `train` lines say, defaults of a run. "train biases lr 0.002" is the option
     * "bias-lr". Whether there are such options is for who knows them to say. */
    char **setting;
    uint32_t *setting_line; /* (pairs) where each stands */
    char *text;             /* the file, for who keeps it with what was trained; ends with NUL */
    size_t text_length;
    uint64_t weights, flops;
};

/* A file, or one of the names that come with yoke ("lenet", "alexnet"): those are in the binary. A word with a slash or ".net" in it is
 * a file. */
yk_code yk_net_read(const char *what, struct yk_net *out, struct yk_error *e);
/* `text` needs no end mark; `what` is how messages call it: "lenet.net:7:12: ...". */
yk_code yk_net_parse(const char *what, const char *text, size_t n, struct yk_net *out,
                     struct yk_error *e);
void yk_net_release(struct yk_net *n); /* a zeroed one is fine */
const char *yk_layer_name(enum yk_layer_kind kind);

/* YK_USAGE, with the place before the sentence. For whoever finds a fault in a net later: a setting, say. */
yk_code yk_net_fail(struct yk_error *e, const char *what, uint32_t line, uint32_t column,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* What yk_net_parse does last: in, out, weights and flops of every layer and of the net, starting values that the file leaves open. */
yk_code yk_net_shape(const char *what, struct yk_net *n, struct yk_error *e);

/* The parameters of a net as views: conv (out, in / groups, kh, kw), dense (out, in), both as torch keeps them; batchnorm NAME.weight,
 * NAME.bias, NAME.mean, NAME.var. At most 4 a layer; returns how many. */
unsigned yk_net_views(const struct yk_net *n, struct yk_view *out);

/* The nets that come with yoke: models/NAME.net, made part of the binary by the Makefile. The last one has no name. */
struct yk_net_file {
    const char *name, *text;
};
extern const struct yk_net_file yk_net_files[];

#endif
