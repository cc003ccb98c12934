/* onednn.h - chains of layers on oneDNN, whose header only the onednn*.c files include.
 *
 * A *chain* is a list of layers for one number of images, planned once: every primitive is made,
 * every buffer has its place in one arena, and a pass through it allocates nothing. Layers keep the
 * layout that oneDNN's fastest implementation wants (blocks of channels, mostly); only the input
 * (images), the output (one number a class), the parameters and their gradients are plain: channels
 * first, convolution weights (out, in / groups, kh, kw), dense weights (out, in).
 *
 * Images beyond those that count are padding: their numbers go through the layers and out again
 * with gradient 0, so one chain serves every number of images up to its own; unless it has batch
 * norm, whose statistics are over all images of the chain.
 * THREADS: a chain belongs to one caller at a time; it computes with `threads` threads of OpenMP,
 * which the calling thread keeps. The bits of a pass depend on that number, on the number of images
 * of the chain and on the CPU. */
#ifndef YK_KERNEL_ONEDNN_H
#define YK_KERNEL_ONEDNN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum yk_dnn_kind {
    YK_DNN_CONV,
    YK_DNN_MAXPOOL,
    YK_DNN_AVGPOOL, /* zeros around count in the mean */
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

/* What a pass works on. */
struct yk_dnn_pass {
    const float *params;  /* flat */
    float *grad;          /* flat, overwritten where a layer's parameters are; backward only */
    uint32_t n;           /* images that count, at most those of the chain */
    const uint32_t *row;  /* (n) row numbers, for dropout's masks; training only */
    uint64_t seed, epoch; /* for dropout's masks; training only */
    double *seconds;      /* (layers) CPU time of the caller is added; NULL: not wanted */
    /* Before forward reads the parameters of `layer`, first layer first: false gives the pass up.
     * NULL: they are there. */
    bool (*need)(void *arg, unsigned layer);
    /* The gradients of `layer` are complete and its parameters read no more; last layer first. */
    void (*done)(void *arg, unsigned layer);
    void *arg;
};

struct yk_dnn;

/* Kernels of at most this instruction set ("avx2", by the names of kernel.h). For the process, and
 * only before its first chain: oneDNN decides once. */
void yk_dnn_limit(const char *isa);

/* `train`: with a backward pass, batch statistics and dropout. `inner`: the input comes from other
 * layers, not from images, and they need its gradient. */
yk_code yk_dnn_open(struct yk_dnn **out, const struct yk_dnn_layer *layer, unsigned layers,
                    uint32_t images, bool train, bool inner, unsigned threads, struct yk_error *e);
void yk_dnn_close(struct yk_dnn *d); /* NULL is fine */

/* The caller writes the images to the input, and the output's gradient; it reads the output and, if
 * `inner`, the input's gradient. All are (images, c, h, w); with *channels_last, never if `inner`,
 * the input is (images, h, w, c). Every pass overwrites them. Behind the images that count there
 * must be zeros in the output's gradient, and zeros or other finite numbers in the input. */
float *yk_dnn_input(const struct yk_dnn *d, bool *channels_last);
float *yk_dnn_output(const struct yk_dnn *d);
float *yk_dnn_output_grad(const struct yk_dnn *d);
float *yk_dnn_input_grad(const struct yk_dnn *d);

/* Backward after forward, with the same pass. False: oneDNN failed or the pass was given up, and
 * the numbers mean nothing. */
bool yk_dnn_forward(struct yk_dnn *d, const struct yk_dnn_pass *p);
bool yk_dnn_backward(struct yk_dnn *d, const struct yk_dnn_pass *p);

/* The size of a chain. */
struct yk_dnn_facts {
    size_t bytes;             /* of the arena */
    unsigned primitives;      /* a pass forward and back */
    unsigned reorders;        /* of activations and their gradients between layouts, a pass */
    unsigned weight_reorders; /* of weights and their gradients */
};
void yk_dnn_facts(const struct yk_dnn *d, struct yk_dnn_facts *out);

/* Calls job(arg, i) for i = 0 .. n-1 on the same threads, each of which has a contiguous range of
 * about n / threads. */
void yk_dnn_each(unsigned threads, uint32_t n, void (*job)(void *arg, uint32_t i), void *arg);

/* The dropout mask of one example: 1 or 0 for `count` numbers in the order channel, row, column. */
void yk_dnn_mask(uint8_t *mask, size_t count, float rate, uint64_t seed, uint64_t epoch,
                 uint64_t row, uint64_t key);

#endif
