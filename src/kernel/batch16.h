/* batch16.h - layers of nets with few channels: 16 images are the 16 lanes of a vector.
 *
 * A tensor of a *batch* of 16 images is float [c][h][w][16], 64-byte aligned: one pixel of one
 * channel is one cache line. In this layout a convolution is "weight, broadcast, times line",
 * whatever the number of channels; pooling, relu and dense layers need no shuffle; and nothing is
 * reordered between layers. A batch goes through all layers on one thread. A batch of fewer images
 * has empty lanes: they are loaded as zeros, run along, and the loss gives them no gradient, so
 * they add nothing to the weights' gradients.
 *
 *     from_u8 -> conv -> pool -> conv -> pool -> dense -> dense -> dense -> loss
 *                grad <- pool <- grad <- pool <- grad  <- grad  <- grad  <-
 *                                back            back     back     back
 *
 * Weights and their gradients are as in the flat parameters: conv (out, in / groups, kh, kw), dense
 * (out, in). Gradients of weights are *added* up, gradients of activations are overwritten.
 * Everything is a sum over the images.
 *
 * THREADS: no state; a call needs scratch of its own.
 * LIMITS: nothing is checked here; yk_batch16_window_fits() tells which windows are possible.
 * BITS: the bits of a lane depend on that lane alone; sums over lanes always take all 16. */
#ifndef YK_KERNEL_BATCH16_H
#define YK_KERNEL_BATCH16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_BATCH16 = 16 }; /* images in a batch, lanes of a line */

/* A window that slides over planes: convolutions and pools. */
struct yk_batch16_window {
    uint32_t c, h, w;             /* in */
    uint32_t out_c, out_h, out_w; /* pools: out_c = c */
    uint32_t kernel[2], stride[2];
    uint32_t pad[4]; /* top, left, bottom, right */
    uint32_t groups; /* conv; 1 or more */
    /* out = max(0, ...). Pools have it too: relu after max pooling gives the same numbers as before
     * it, and has fewer to do. */
    bool relu;
    /* avgpool: always divides by the size of the window. Otherwise a window over the border divides
     * by the number of its real pixels. */
    bool include_pad;
};

/* True if every window lies in the padded plane and has a real pixel (pad < kernel), and `groups`
 * divides both numbers of channels. */
bool yk_batch16_window_fits(const struct yk_batch16_window *g);

/* Bytes, 64-byte aligned, that the conv or dense calls need. */
size_t yk_batch16_conv_scratch(const struct yk_batch16_window *g);
size_t yk_batch16_dense_scratch(uint32_t in);

struct yk_batch16_loss {
    uint32_t classes;
    uint32_t n;            /* images in the batch; lanes n .. 15 are empty */
    const uint16_t *label; /* (n) */
    const float *z;        /* [classes][16] */
    float smoothing;       /* s: the target is 1 - s at the label, plus s / classes everywhere */
    /* [classes][16] softmax(z) - target, zero in empty lanes; may be z; NULL: not wanted */
    float *grad;
    float *prob; /* [classes][16] softmax(z); may be z; NULL: not wanted */
    /* out: of each image, log sum exp z - sum_k target_k z_k; zero in empty lanes */
    float loss[YK_BATCH16];
    uint32_t correct; /* out: images whose first largest z is the label's */
};

enum yk_batch16_point { YK_BATCH16_RELU, YK_BATCH16_TANH, YK_BATCH16_SIGMOID };

/* One table per instruction set; see kernel.h for how to get it. d* is the gradient of *. */
struct yk_batch16 {
    /* out = bias + in (*) weight, with a relu if the window has one; bias may be NULL. */
    void (*conv)(const struct yk_batch16_window *g, const float *in, const float *weight,
                 const float *bias, float *out, void *scratch);
    /* din from dout. A fused relu is undone first, by point_back(YK_BATCH16_RELU, ..). */
    void (*conv_back)(const struct yk_batch16_window *g, const float *dout, const float *weight,
                      float *din);
    /* dweight += ..., dbias += ...; dbias may be NULL. */
    void (*conv_grad)(const struct yk_batch16_window *g, const float *in, const float *dout,
                      float *dweight, float *dbias, void *scratch);

    /* `index` (NULL: not wanted) is for backward: the number of the first largest pixel of each
     * window, [c][out_h][out_w][16]. Windows have at most 256 pixels. Padding never wins; a pixel
     * that is not a number wins only if it is the first. */
    void (*maxpool)(const struct yk_batch16_window *g, const float *in, float *out, uint8_t *index);
    /* `out`: from maxpool, read only if g->relu. */
    void (*maxpool_back)(const struct yk_batch16_window *g, const float *dout, const uint8_t *index,
                         const float *out, float *din);
    void (*avgpool)(const struct yk_batch16_window *g, const float *in, float *out);
    void (*avgpool_back)(const struct yk_batch16_window *g, const float *dout, const float *out,
                         float *din);

    /* out[o] = bias[o] + sum_i weight[o][i] in[i] */
    void (*dense)(uint32_t in_n, uint32_t out_n, bool relu, const float *in, const float *weight,
                  const float *bias, float *out);
    void (*dense_back)(uint32_t in_n, uint32_t out_n, const float *dout, const float *weight,
                       float *din);
    void (*dense_grad)(uint32_t in_n, uint32_t out_n, const float *in, const float *dout,
                       float *dweight, float *dbias, void *scratch);

    /* n numbers of 16 images each; out may be in, din may be dout. Backward needs only the
     * output of forward. */
    void (*point)(enum yk_batch16_point f, size_t n, const float *in, float *out);
    void (*point_back)(enum yk_batch16_point f, size_t n, const float *out, const float *dout,
                       float *din);

    void (*loss)(struct yk_batch16_loss *l);

    /* Images of (h, w, c) bytes, interleaved, to [c][h][w][16]: x * scale[channel] +
     * shift[channel]. image[i] NULL: an empty lane. */
    void (*from_u8)(uint32_t c, size_t pixels, const uint8_t *const image[YK_BATCH16],
                    const float *scale, const float *shift, float *out);
    /* 16 rows of n floats, (c, h, w) each, to [n][16] and back. A NULL row is read as zeros, and is
     * not written. */
    void (*from_rows)(size_t n, const float *const row[YK_BATCH16], float *out);
    void (*to_rows)(size_t n, const float *in, float *const row[YK_BATCH16]);
};

#endif
