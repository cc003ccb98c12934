/* batch16.c - what callers of batch16.h need to know: which windows fit, and the size of
 * scratch. */
#include "kernel/batch16.h"

bool yk_batch16_window_fits(const struct yk_batch16_window *g)
{
    if (g->c == 0 || g->out_c == 0 || g->groups == 0 || g->c % g->groups != 0 ||
        g->out_c % g->groups != 0)
        return false;
    const uint64_t in[2] = {g->h, g->w}, out[2] = {g->out_h, g->out_w};
    for (int k = 0; k < 2; k++) {
        uint64_t kernel = g->kernel[k], padded = in[k] + g->pad[k] + g->pad[k + 2];
        if (kernel == 0 || g->stride[k] == 0 || out[k] == 0 || g->pad[k] >= kernel ||
            g->pad[k + 2] >= kernel)
            return false;
        if (in[k] == 0 || kernel + (out[k] - 1) * g->stride[k] > padded ||
            (out[k] - 1) * g->stride[k] >= in[k] + g->pad[k])
            return false;
    }
    return true;
}

/* A table of the places of a window's taps, then the input with its border, if there is one. */
size_t yk_batch16_conv_scratch(const struct yk_batch16_window *g)
{
    size_t taps = (size_t)(g->c / g->groups) * g->kernel[0] * g->kernel[1];
    size_t plane = (size_t)(g->h + g->pad[0] + g->pad[2]) * (g->w + g->pad[1] + g->pad[3]);
    bool border = (g->pad[0] | g->pad[1] | g->pad[2] | g->pad[3]) != 0;
    return (taps * sizeof(size_t) + 63) / 64 * 64 +
           (border ? g->c * plane * YK_BATCH16 * sizeof(float) : 0);
}

/* The input with its lanes as rows. */
size_t yk_batch16_dense_scratch(uint32_t in)
{
    return ((size_t)in + YK_BATCH16 - 1) / YK_BATCH16 * YK_BATCH16 * YK_BATCH16 * sizeof(float);
}
