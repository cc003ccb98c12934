/* lanes.h - layers of nets with few channels: 16 images are the 16 lanes of a vector.
 *
 * A tensor of a *block* of 16 images is float [c][h][w][16], 64-byte aligned: one pixel of one channel is one cache line. In
 * this layout a convolution is "weight, broadcast, times line", whatever the number of channels; pooling, relu and dense layers
 * need no shuffle; and nothing is reordered between layers. A block goes through all layers on one thread. A block of fewer
 * images has empty lanes: they are loaded as zeros, run along, and the loss gives them no gradient, so they add nothing to the
 * weights' gradients.
 *
 *     from_u8 -> conv -> pool -> conv -> pool -> dense -> dense -> dense -> loss
 *                grad <- pool <- grad <- pool <- grad  <- grad  <- grad  <-
 *                                back            back     back     back
 *
 * Weights and their gradients are as in the flat parameters: conv (out, in / groups, kh, kw), dense (out, in). Gradients of
 * weights are *added* to what is there, gradients of activations are overwritten. Everything is a sum over the images.
 *
 * THREADS: no state; a call needs scratch of its own. LIMITS: nothing is checked here, yk_lanes_window_fits() says what must
 * hold.
 * Bits: the same for the same input, lane by lane whatever is in the other lanes; sums over lanes are always taken over all 16. */
#ifndef YK_KERNEL_LANES_H
#define YK_KERNEL_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_LANES = 16 };

/* A window that slides over planes: convolutions and pools. */
struct yk_lanes_window {
    uint32_t c, h, w;             /* in */
    uint32_t out_c, out_h, out_w; /* pools: out_c = c */
    uint32_t kernel[2], stride[2];
    uint32_t pad[4]; /* top, left, bottom, right */
    uint32_t groups; /* conv; 1 or more */
    bool
        relu; /* out = max(0, ...); pools too: relu and max pooling may change places, and there are fewer numbers after it */
    bool
        include_pad; /* average pooling: divide by the window's size at the border too, not by the pixels under it */
};

/* Every window has its first corner inside the padded plane and at least one real pixel (pad < kernel), out_h and out_w are no more than
 * that allows, groups divide both channels. */
bool yk_lanes_window_fits(const struct yk_lanes_window *g);

/* Bytes, 64-byte aligned, that the conv or dense calls need. */
size_t yk_lanes_conv_scratch(const struct yk_lanes_window *g);
size_t yk_lanes_dense_scratch(uint32_t in);

struct yk_lanes_loss {
    uint32_t classes;
    uint32_t n;            /* images in the block; lanes n .. 15 are empty */
    const uint16_t *label; /* (n) */
    const float *z;        /* [classes][16] */
    float smoothing;       /* s: the target is 1 - s at the label, plus s / classes everywhere */
    float *
        grad; /* [classes][16] softmax(z) - target, zero in empty lanes; may be z; NULL: not wanted */
    float *prob; /* [classes][16] softmax(z); may be z; NULL: not wanted */
    float loss
        [YK_LANES]; /* out: of each image, log sum exp z - sum_k target_k z_k; zero in empty lanes */
    uint32_t correct; /* out: images whose first largest z is the label's */
};

enum yk_lanes_point { YK_LANES_RELU, YK_LANES_TANH, YK_LANES_SIGMOID };

/* One table per instruction set; see kernel.h for how to get it. d* is the gradient of *. */
struct yk_lanes {
    /* out = bias + in (*) weight, relu'd if the window says so; bias may be NULL. */
    void (*conv)(const struct yk_lanes_window *g, const float *in, const float *weight,
                 const float *bias, float *out, void *scratch);
    /* din from dout. A fused relu is undone first, by point_back(YK_LANES_RELU, ..). */
    void (*conv_back)(const struct yk_lanes_window *g, const float *dout, const float *weight,
                      float *din);
    /* dweight += ..., dbias += ...; dbias may be NULL. */
    void (*conv_grad)(const struct yk_lanes_window *g, const float *in, const float *dout,
                      float *dweight, float *dbias, void *scratch);

    /* `index` (NULL: not wanted) gets what backward needs: which pixel of each window was the first largest, [c][out_h][out_w][16]. Windows
     * have at most 256 pixels; what the padding has never wins. A pixel that is not a number wins only if it is the first. */
    void (*maxpool)(const struct yk_lanes_window *g, const float *in, float *out, uint8_t *index);
    /* `out`: what maxpool left, read only if g->relu. */
    void (*maxpool_back)(const struct yk_lanes_window *g, const float *dout, const uint8_t *index,
                         const float *out, float *din);
    void (*avgpool)(const struct yk_lanes_window *g, const float *in, float *out);
    void (*avgpool_back)(const struct yk_lanes_window *g, const float *dout, const float *out,
                         float *din);

    /* out[o] = bias[o] + sum_i weight[o][i] in[i] */
    void (*dense)(uint32_t in_n, uint32_t out_n, bool relu, const float *in, const float *weight,
                  const float *bias, float *out);
    void (*dense_back)(uint32_t in_n, uint32_t out_n, const float *dout, const float *weight,
                       float *din);
    void (*dense_grad)(uint32_t in_n, uint32_t out_n, const float *in, const float *dout,
                       float *dweight, float *dbias, void *scratch);

    /* n numbers of 16 images each; out may be in, din may be dout. Backward needs only what forward left. */
    void (*point)(enum yk_lanes_point f, size_t n, const float *in, float *out);
    void (*point_back)(enum yk_lanes_point f, size_t n, const float *out, const float *dout,
                       float *din);

    void (*loss)(struct yk_lanes_loss *l);

    /* Images of (h, w, c) bytes, interleaved, to [c][h][w][16]: x * scale[channel] + shift[channel]. image[i] NULL: an empty lane. */
    void (*from_u8)(uint32_t c, size_t pixels, const uint8_t *const image[YK_LANES],
                    const float *scale, const float *shift, float *out);
    /* Rows of n floats, in the order of the layout without its lanes (c, h, w), to [n][16] and back. NULL rows: zeros, or not written. */
    void (*from_rows)(size_t n, const float *const row[YK_LANES], float *out);
    void (*to_rows)(size_t n, const float *in, float *const row[YK_LANES]);
};

#endif
