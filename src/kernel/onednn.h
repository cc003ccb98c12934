/* onednn.h - chains of layers on oneDNN, whose header only the onednn*.c files include.
 *
 * A *chain* is a list of layers for one number of images, planned once: every primitive is made,
 * every buffer has its place in one arena, and a pass through it allocates nothing. Layers keep the
 * layout that oneDNN's fastest implementation wants (blocks of channels, mostly); only the input
 * (images), the output (one number a class), the parameters and their gradients are plain: channels
 * first, convolution weights (out, in / groups, kh, kw), dense weights (out, in).
 *
 * A pass may have fewer images than its chain. The others are padding: they go through the layers,
 * and their gradient is 0. Only a chain with batch norm needs all its images, because the
 * statistics are over all of them.
 * THREADS: a chain belongs to one caller at a time. It computes with `threads` threads of OpenMP,
 * which belong to the calling thread. The bits of a pass depend on that number, on the number of
 * images of the chain and on the CPU. */
#ifndef YK_KERNEL_ONEDNN_H
#define YK_KERNEL_ONEDNN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum yk_dnn_kind {
    YK_DNN_CONV,
    YK_DNN_MAXPOOL,
    YK_DNN_AVGPOOL, /* the padding counts in the mean */
    YK_DNN_DENSE,
    YK_DNN_RELU,
    YK_DNN_TANH,
    YK_DNN_SIGMOID,
    YK_DNN_LRN,
    YK_DNN_DROPOUT,
    YK_DNN_BATCHNORM,
    YK_DNN_FLATTEN,
};

struct yk_dnn_layer {
    enum yk_dnn_kind kind;
    const char *name;       /* for messages; lives as long as the chain */
    uint32_t in[3], out[3]; /* channels, height, width */
    uint32_t kernel[2], stride[2], pad[4], groups;
    bool bias;
    float rate;           /* dropout: share that is dropped */
    uint64_t key;         /* dropout: its masks depend on it */
    uint32_t size;        /* lrn: y = x / (k + alpha / size * sum of x^2 over size channels)^beta */
    float alpha, beta, k; /* lrn */
    float momentum, eps;  /* batchnorm */
    size_t weight, bias_at; /* conv, dense, batchnorm: places in the flat parameters */
    size_t mean, var;       /* batchnorm: places in the flat parameters */
};

/* The arguments of a pass. */
struct yk_dnn_pass {
    const float *params;  /* flat */
    float *grad;          /* flat, overwritten where a layer's parameters are; backward only */
    uint32_t n;           /* images of this pass, at most those of the chain */
    const uint32_t *row;  /* (n) row numbers, for dropout's masks; training only */
    uint64_t seed, epoch; /* for dropout's masks; training only */
    double *seconds;      /* (layers) CPU time of the caller is added; NULL: not wanted */
    /* Called before forward reads the parameters of `layer`, first layer first; false gives the
     * pass up. NULL: all parameters are here. */
    bool (*need)(void *arg, unsigned layer);
    /* Called when the gradients of `layer` are complete and its parameters are not read any more,
     * last layer first. */
    void (*done)(void *arg, unsigned layer);
    void *arg;
};

struct yk_dnn;

/* Limits oneDNN to an instruction set, by the names of kernel.h. It holds for the process, and only
 * a call before the first chain has an effect. */
void yk_dnn_limit(const char *isa);

/* Plans a chain. `train`: it has a backward pass, batch statistics and dropout. `inner`: its input
 * comes from other layers, which need the gradient of it, and not from images. */
yk_code yk_dnn_open(struct yk_dnn **out, const struct yk_dnn_layer *layer, unsigned layers,
                    uint32_t images, bool train, bool inner, unsigned threads, struct yk_error *e);
void yk_dnn_close(struct yk_dnn *d); /* NULL is fine */

/* The caller writes the images to the input, and the output's gradient; it reads the output and, if
 * `inner`, the input's gradient. All are (images, c, h, w); with *channels_last, never if `inner`,
 * the input is (images, h, w, c). Every pass overwrites them. For images beyond those of the pass
 * the output's gradient must be zero, and the input must be finite. */
float *yk_dnn_input(const struct yk_dnn *d, bool *channels_last);
float *yk_dnn_output(const struct yk_dnn *d);
float *yk_dnn_output_grad(const struct yk_dnn *d);
float *yk_dnn_input_grad(const struct yk_dnn *d);

/* Backward follows forward, with the same pass. False means that oneDNN failed or that the pass was
 * given up; the numbers then mean nothing. */
bool yk_dnn_forward(struct yk_dnn *d, const struct yk_dnn_pass *p);
bool yk_dnn_backward(struct yk_dnn *d, const struct yk_dnn_pass *p);

/* The size of a chain. */
struct yk_dnn_facts {
    size_t bytes;             /* of the arena */
    unsigned primitives;      /* of a pass forward and back */
    unsigned reorders;        /* those that change the layout of activations or their gradients */
    unsigned weight_reorders; /* those that change the layout of weights or their gradients */
};
void yk_dnn_facts(const struct yk_dnn *d, struct yk_dnn_facts *out);

/* Calls job(arg, i) for i = 0 .. n-1 on threads of OpenMP, each of which gets a contiguous range of
 * about n / threads. */
void yk_dnn_each(unsigned threads, uint32_t n, void (*job)(void *arg, uint32_t i), void *arg);

/* The dropout mask of one example: 1 or 0 for `count` numbers in the order channel, row, column. */
void yk_dnn_mask(uint8_t *mask, size_t count, float rate, uint64_t seed, uint64_t epoch,
                 uint64_t row, uint64_t key);

#endif
