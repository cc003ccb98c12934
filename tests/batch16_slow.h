/* batch16_slow.h - the layers of kernel/batch16.h as a patient person would compute them: in
 * double, one number at a time, without a thought for speed. The layout is the same, [c][h][w][16].
 * What depends on sizes is written from the definition, so that it shares no trick with the
 * kernels. */
#ifndef YK_TESTS_BATCH16_SLOW_H
#define YK_TESTS_BATCH16_SLOW_H

#include "kernel/batch16.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline size_t slow_in_lines(const struct yk_batch16_window *g)
{
    return (size_t)g->c * g->h * g->w;
}

static inline size_t slow_out_lines(const struct yk_batch16_window *g)
{
    return (size_t)g->out_c * g->out_h * g->out_w;
}

static inline size_t slow_weights(const struct yk_batch16_window *g)
{
    return (size_t)g->out_c * (g->c / g->groups) * g->kernel[0] * g->kernel[1];
}

/* Where tap (ky, kx) of output (oy, ox) is: its place in a plane of the input, or -1 on the
 * border. */
static inline long slow_place(const struct yk_batch16_window *g, uint32_t oy, uint32_t ox,
                              uint32_t ky, uint32_t kx)
{
    long y = (long)oy * g->stride[0] + ky - g->pad[0], x = (long)ox * g->stride[1] + kx - g->pad[1];
    return y < 0 || x < 0 || y >= (long)g->h || x >= (long)g->w ? -1 : y * (long)g->w + x;
}

/* Every product of a convolution: calls `each` for output o, input i, weight w (numbers of lines,
 * lines and floats). */
typedef void slow_each(void *self, size_t o, size_t i, size_t w);

static inline void slow_conv_walk(const struct yk_batch16_window *g, slow_each *each, void *self)
{
    uint32_t group_c = g->c / g->groups, group_out = g->out_c / g->groups;
    for (uint32_t o = 0; o < g->out_c; o++)
        for (uint32_t oy = 0; oy < g->out_h; oy++)
            for (uint32_t ox = 0; ox < g->out_w; ox++)
                for (uint32_t c = 0; c < group_c; c++)
                    for (uint32_t ky = 0; ky < g->kernel[0]; ky++)
                        for (uint32_t kx = 0; kx < g->kernel[1]; kx++) {
                            long at = slow_place(g, oy, ox, ky, kx);
                            size_t w =
                                (((size_t)o * group_c + c) * g->kernel[0] + ky) * g->kernel[1] + kx;
                            size_t plane = (size_t)(o / group_out * group_c + c) * g->h * g->w;
                            if (at >= 0)
                                each(self, ((size_t)o * g->out_h + oy) * g->out_w + ox,
                                     plane + (size_t)at, w);
                        }
}

/* Forward adds to out what inputs and weights give, backward adds to din and dweight what dout
 * gives; any may be NULL. */
struct slow_conv {
    const double *in, *weight, *dout;
    double *out, *din, *dweight;
};

static inline void slow_conv_each(void *self, size_t o, size_t i, size_t w)
{
    struct slow_conv *s = self;
    for (size_t l = 0; l < YK_BATCH16; l++) {
        if (s->out != NULL)
            s->out[o * YK_BATCH16 + l] += s->in[i * YK_BATCH16 + l] * s->weight[w];
        if (s->din != NULL)
            s->din[i * YK_BATCH16 + l] += s->dout[o * YK_BATCH16 + l] * s->weight[w];
        if (s->dweight != NULL)
            s->dweight[w] += s->dout[o * YK_BATCH16 + l] * s->in[i * YK_BATCH16 + l];
    }
}

static inline void slow_fill_bias(const struct yk_batch16_window *g, const double *bias,
                                  double *out)
{
    size_t plane = (size_t)g->out_h * g->out_w * YK_BATCH16;
    for (size_t i = 0; i < g->out_c * plane; i++)
        out[i] = bias == NULL ? 0 : bias[i / plane];
}

static inline void slow_relu(size_t n, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] < 0 ? 0 : x[i];
}

/* d where the relu let y through, else 0. */
static inline void slow_relu_back(size_t n, const double *y, double *d)
{
    for (size_t i = 0; i < n; i++)
        d[i] = y[i] > 0 ? d[i] : 0;
}

/* One output of a pool and one lane: forward if dout is NULL, else adds to din. */
static inline double slow_pool_one(const struct yk_batch16_window *g, bool max, uint32_t oy,
                                   uint32_t ox, const double *in, double *din, double dout)
{
    double best = -INFINITY, sum = 0;
    long winner = -1, n = 0;
    for (uint32_t ky = 0; ky < g->kernel[0]; ky++)
        for (uint32_t kx = 0; kx < g->kernel[1]; kx++) {
            long at = slow_place(g, oy, ox, ky, kx);
            if (at < 0)
                continue;
            double x = in[at * YK_BATCH16];
            n++;
            sum += x;
            if (x > best) {
                best = x;
                winner = at;
            }
        }
    double count = g->include_pad ? (double)g->kernel[0] * g->kernel[1] : (double)n;
    for (uint32_t ky = 0; ky < g->kernel[0] && din != NULL; ky++)
        for (uint32_t kx = 0; kx < g->kernel[1]; kx++) {
            long at = slow_place(g, oy, ox, ky, kx);
            if (at >= 0)
                din[at * YK_BATCH16] += max ? (at == winner ? dout : 0) : dout / count;
        }
    return max ? best : sum / count;
}

/* out from in, and, if din is given (zeros), din from dout. */
static inline void slow_pool(const struct yk_batch16_window *g, bool max, const double *in,
                             double *out, const double *dout, double *din)
{
    for (size_t c = 0; c < g->c; c++)
        for (uint32_t oy = 0; oy < g->out_h; oy++)
            for (uint32_t ox = 0; ox < g->out_w; ox++)
                for (size_t l = 0; l < YK_BATCH16; l++) {
                    size_t o = ((c * g->out_h + oy) * g->out_w + ox) * YK_BATCH16 + l,
                           plane = c * g->h * g->w * YK_BATCH16 + l;
                    double y = slow_pool_one(g, max, oy, ox, in + plane, NULL, 0);
                    if (din != NULL)
                        slow_pool_one(g, max, oy, ox, in + plane, din + plane,
                                      g->relu && y <= 0 ? 0 : dout[o]);
                    out[o] = g->relu && y < 0 ? 0 : y;
                }
}

/* A dense layer is a convolution of one place. */
static inline struct yk_batch16_window slow_dense(uint32_t in, uint32_t out)
{
    return (struct yk_batch16_window){.c = in,
                                      .h = 1,
                                      .w = 1,
                                      .out_c = out,
                                      .out_h = 1,
                                      .out_w = 1,
                                      .kernel = {1, 1},
                                      .stride = {1, 1},
                                      .groups = 1};
}

/* Loss of one lane, and its gradient (stride YK_BATCH16) unless NULL. */
static inline double slow_loss(uint32_t classes, const double *z, uint32_t label, double smoothing,
                               double *grad)
{
    double top = -INFINITY, sum = 0, loss = 0;
    for (uint32_t k = 0; k < classes; k++)
        top = fmax(top, z[(size_t)k * YK_BATCH16]);
    for (uint32_t k = 0; k < classes; k++)
        sum += exp(z[(size_t)k * YK_BATCH16] - top);
    for (uint32_t k = 0; k < classes; k++) {
        double target = smoothing / classes + (k == label ? 1 - smoothing : 0);
        double log_p = z[(size_t)k * YK_BATCH16] - top - log(sum);
        loss -= target * log_p;
        if (grad != NULL)
            grad[(size_t)k * YK_BATCH16] = exp(log_p) - target;
    }
    return loss;
}

#endif
