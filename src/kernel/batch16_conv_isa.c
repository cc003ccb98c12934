/* batch16_conv_isa.c - convolutions in the layout of batch16.h. Compiled once per instruction set.
 *
 * Weights meet lines of 16 images: each multiply-add takes one broadcast weight and one line, and
 * what counts is how often an operand is used once it is in a register. The three passes block
 * differently, each with its sums in registers from first to last:
 *
 *     forward   out[o][x]  += w[o][t] * in[t][x]     o channels x some outputs of a row,
 *                                                    over all taps t = (channel, ky, kx)
 *     gradient  dw[o][t]   += dout[o][p] * in[t][p]  o channels x some taps, over all places p;
 *                                                    lanes are added up once, at the end
 *     backward  din[x + k] += w[o][k] * dout[o][x]   a stretch of one input row, over (o, ky):
 *                                                    scattered from dout held in registers
 *
 * Flat weights are (o, t) already. Where tap t is in the input is a table of offsets, made per
 * call, so that one loop does for every kernel, stride and group: a load a tap, which hides behind
 * 20 multiply-adds. (A stride known to the compiler was no faster.) A border is made by a copy.
 *
 * With 32 registers the gradient of a 5 x 5 window is 25 sums that stay, or of a 3 x 3 one 2 x 9:
 * then dout is read once, not once per row of taps, and LeNet's first layer went from 0.6 of the
 * peak to 0.9.
 *
 * Backward is not written as a forward pass over a padded dout, which for 10 x 10 from 14 x 14 with
 * 5 x 5 taps would multiply zeros half of the time; scattering does no work that is not wanted, but
 * needs the kernel's width as a constant. Widths 3 and 5 have such code; other widths, and strides,
 * take a plain loop that keeps the sums in memory. With 16 registers a stretch is short: 25
 * multiply-adds, 5 of which go to the same sum one after the other, and AVX2 measures 0.6 of the
 * peak.
 *
 * Measured with bench/lanes.c on a Zen 4 that was busy otherwise (LeNet, one thread, AVX-512, 118
 * GFLOPS in registers): forward reaches 0.89 to 0.98 of the peak, gradients 0.9, backward 0.98; a
 * whole step with pools and dense layers 0.85.
 *
 * THREADS: see batch16.h. */
#include "kernel/batch16_vec.h"

/* What all inner loops of a call need. */
struct sweep {
    const size_t *tap;    /* (taps) where a window's taps are, in floats from its first corner */
    size_t taps;          /* of one group */
    size_t step;          /* floats from a window to the next in a row of the input */
    size_t row;           /* floats from a row of windows to the next */
    size_t out_row;       /* floats in a row of the output */
    size_t out_plane;     /* floats in a plane of the output */
    uint32_t rows, width; /* of the output */
    bool relu;
};

/* Fills `s` and returns the input with its border, which is `in` itself if there is none. */
static const float *prepare(const struct yk_batch16_window *g, const float *in, void *scratch,
                            struct sweep *s)
{
    size_t group_c = g->c / g->groups, *tap = scratch;
    size_t h = g->h + g->pad[0] + g->pad[2], w = g->w + g->pad[1] + g->pad[3];
    *s = (struct sweep){.tap = tap,
                        .taps = group_c * g->kernel[0] * g->kernel[1],
                        .step = (size_t)g->stride[1] * LANES,
                        .row = (size_t)g->stride[0] * w * LANES,
                        .out_row = (size_t)g->out_w * LANES,
                        .out_plane = (size_t)g->out_h * g->out_w * LANES,
                        .rows = g->out_h,
                        .width = g->out_w,
                        .relu = g->relu};
    for (size_t c = 0; c < group_c; c++)
        for (size_t ky = 0; ky < g->kernel[0]; ky++)
            for (size_t kx = 0; kx < g->kernel[1]; kx++)
                *tap++ = ((c * h + ky) * w + kx) * LANES;
    if (h == g->h && w == g->w)
        return in;
    float *padded = (float *)scratch + (s->taps * sizeof(size_t) + 63) / 64 * 64 / sizeof(float),
          *to = padded;
    const size_t line = sizeof(float) * LANES, top = g->pad[0] * w, left = g->pad[1],
                 right = g->pad[3], bottom = g->pad[2] * w;
    for (size_t c = 0; c < g->c; c++) {
        memset(to, 0, top * line);
        to += top * LANES;
        for (size_t y = 0; y < g->h; y++) {
            memset(to, 0, left * line);
            memcpy(to + left * LANES, in, g->w * line);
            memset(to + (left + g->w) * LANES, 0, right * line);
            to += w * LANES;
            in += g->w * LANES;
        }
        memset(to, 0, bottom * line);
        to += bottom * LANES;
    }
    return padded;
}

/* --- forward --- */

/* Outputs of a row that are computed together with `o` channels: o * x sums, x lines of input and
 * one weight are in registers. */
#define X_MOST(o) ((REGISTERS - 1) / ((o) + 1) < 6 ? (REGISTERS - 1) / ((o) + 1) : 6)

INLINE void forward_tile(const struct sweep *s, const float *in, const float *weight,
                         const float *bias, float *out, const uint32_t o_n, const uint32_t x_n)
{
    vec sum[6][6], line[6];
    const size_t *tap = s->tap;
    const size_t taps = s->taps, step = s->step;
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t x = 0; x < x_n; x++)
            sum[o][x] = all(bias == NULL ? 0 : bias[o]);
    for (size_t t = 0; t < taps; t++) {
        const float *from = in + tap[t];
#pragma GCC unroll UNROLL
        for (uint32_t x = 0; x < x_n; x++)
            line[x] = load(from + x * step);
#pragma GCC unroll UNROLL
        for (uint32_t o = 0; o < o_n; o++) {
            const vec w = all(weight[o * taps + t]);
#pragma GCC unroll UNROLL
            for (uint32_t x = 0; x < x_n; x++)
                sum[o][x] += w * line[x];
        }
    }
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t x = 0; x < x_n; x++)
            store(out + o * s->out_plane + (size_t)x * LANES,
                  s->relu ? relu(sum[o][x]) : sum[o][x]);
}

INLINE void forward_some(const struct sweep *s, const float *in, const float *weight,
                         const float *bias, float *out, const uint32_t o_n, uint32_t x_n)
{
    switch (x_n) {
    case 1:
        forward_tile(s, in, weight, bias, out, o_n, 1);
        break;
    case 2:
        forward_tile(s, in, weight, bias, out, o_n, 2);
        break;
    case 3:
        if (X_MOST(o_n) >= 3)
            forward_tile(s, in, weight, bias, out, o_n, 3);
        break;
    case 4:
        if (X_MOST(o_n) >= 4)
            forward_tile(s, in, weight, bias, out, o_n, 4);
        break;
    case 5:
        if (X_MOST(o_n) >= 5)
            forward_tile(s, in, weight, bias, out, o_n, 5);
        break;
    default:
        if (X_MOST(o_n) >= 6)
            forward_tile(s, in, weight, bias, out, o_n, 6);
    }
}

/* One row of `o_n` channels of the output. */
INLINE void forward_row(const struct sweep *s, const float *in, const float *weight,
                        const float *bias, float *out, const uint32_t o_n)
{
    for (uint32_t x = 0, n; x < s->width; x += n) {
        n = share(s->width - x, X_MOST(o_n));
        forward_some(s, in + x * s->step, weight, bias, out + (size_t)x * LANES, o_n, n);
    }
}

typedef void forward_fn(const struct sweep *s, const float *in, const float *weight,
                        const float *bias, float *out);

APART void forward_6(const struct sweep *s, const float *in, const float *weight, const float *bias,
                     float *out)
{
    forward_row(s, in, weight, bias, out, 6);
}

APART void forward_4(const struct sweep *s, const float *in, const float *weight, const float *bias,
                     float *out)
{
    forward_row(s, in, weight, bias, out, 4);
}

APART void forward_3(const struct sweep *s, const float *in, const float *weight, const float *bias,
                     float *out)
{
    forward_row(s, in, weight, bias, out, 3);
}

APART void forward_2(const struct sweep *s, const float *in, const float *weight, const float *bias,
                     float *out)
{
    forward_row(s, in, weight, bias, out, 2);
}

APART void forward_1(const struct sweep *s, const float *in, const float *weight, const float *bias,
                     float *out)
{
    forward_row(s, in, weight, bias, out, 1);
}

static forward_fn *const FORWARD[] = {
    [1] = forward_1, [2] = forward_2, [3] = forward_3, [4] = forward_4, [6] = forward_6};

/* The number of channels to take next: 6 if that divides all that are left, else at most 4. */
static uint32_t forward_share(uint32_t left)
{
    return left % 6 == 0 ? 6 : left > 4 ? 4 : left;
}

void JOIN(yk_batch16_conv_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                    const float *weight, const float *bias, float *out,
                                    void *scratch);
void JOIN(yk_batch16_conv_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                    const float *weight, const float *bias, float *out,
                                    void *scratch)
{
    struct sweep s;
    const float *from = prepare(g, in, scratch, &s);
    const size_t group_c = g->c / g->groups, group_out = g->out_c / g->groups;
    const size_t plane =
        (size_t)(g->h + g->pad[0] + g->pad[2]) * (g->w + g->pad[1] + g->pad[3]) * LANES;
    /* The loop over rows is outside, so that all channels use the lines of a row while they are in
     * the caches. */
    for (size_t k = 0; k < g->groups; k++)
        for (size_t y = 0; y < s.rows; y++)
            for (size_t part = 0; part < LANES; part += WIDTH)
                for (uint32_t o = 0, n; o < group_out; o += n) {
                    size_t channel = k * group_out + o;
                    n = forward_share((uint32_t)group_out - o);
                    FORWARD[n](&s, from + k * group_c * plane + y * s.row + part,
                               weight + channel * s.taps, bias == NULL ? NULL : bias + channel,
                               out + channel * s.out_plane + y * s.out_row + part);
                }
}

/* --- gradient of the weights --- */

/* The most channels and taps that are computed together: their sums, a line of dout for each
 * channel and a line of the input are in registers. */
enum { TAPS_MOST = 5, MANY = REGISTERS >= 32 ? 4 : 2, KERNEL_MOST = 5 };
INLINE void gradient_tile(const struct sweep *s, const float *in, const float *dout,
                          const size_t *tap, float *dweight, const uint32_t o_n, const uint32_t t_n)
{
    vec sum[MANY][TAPS_MOST], d[MANY];
    const float *from[TAPS_MOST];
    const size_t plane = s->out_plane, width = s->width, step = s->step;
#pragma GCC unroll UNROLL
    for (uint32_t t = 0; t < t_n; t++)
        from[t] = in + tap[t];
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t t = 0; t < t_n; t++)
            sum[o][t] = all(0);
    for (size_t y = 0; y < s->rows; y++) {
        for (size_t x = 0; x < width; x++, dout += LANES) {
#pragma GCC unroll UNROLL
            for (uint32_t o = 0; o < o_n; o++)
                d[o] = load(dout + o * plane);
#pragma GCC unroll UNROLL
            for (uint32_t t = 0; t < t_n; t++) {
                const vec line = load(from[t] + x * step);
#pragma GCC unroll UNROLL
                for (uint32_t o = 0; o < o_n; o++)
                    sum[o][t] += d[o] * line;
            }
        }
#pragma GCC unroll UNROLL
        for (uint32_t t = 0; t < t_n; t++)
            from[t] += s->row;
    }
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t t = 0; t < t_n; t++)
            dweight[o * s->taps + t] += lane_sum(sum[o][t]);
}

INLINE void gradient_taps(const struct sweep *s, const float *in, const float *dout,
                          const size_t *tap, float *dweight, uint32_t o_n, const uint32_t t_n)
{
    if (o_n == MANY)
        gradient_tile(s, in, dout, tap, dweight, MANY, t_n);
    else if (o_n == 2)
        gradient_tile(s, in, dout, tap, dweight, 2, t_n);
    else
        gradient_tile(s, in, dout, tap, dweight, 1, t_n);
}

typedef void gradient_fn(const struct sweep *s, const float *in, const float *dout,
                         const size_t *tap, float *dweight, uint32_t o_n);

APART void gradient_1(const struct sweep *s, const float *in, const float *dout, const size_t *tap,
                      float *dweight, uint32_t o_n)
{
    gradient_taps(s, in, dout, tap, dweight, o_n, 1);
}

APART void gradient_2(const struct sweep *s, const float *in, const float *dout, const size_t *tap,
                      float *dweight, uint32_t o_n)
{
    gradient_taps(s, in, dout, tap, dweight, o_n, 2);
}

APART void gradient_3(const struct sweep *s, const float *in, const float *dout, const size_t *tap,
                      float *dweight, uint32_t o_n)
{
    gradient_taps(s, in, dout, tap, dweight, o_n, 3);
}

APART void gradient_4(const struct sweep *s, const float *in, const float *dout, const size_t *tap,
                      float *dweight, uint32_t o_n)
{
    gradient_taps(s, in, dout, tap, dweight, o_n, 4);
}

APART void gradient_5(const struct sweep *s, const float *in, const float *dout, const size_t *tap,
                      float *dweight, uint32_t o_n)
{
    gradient_taps(s, in, dout, tap, dweight, o_n, 5);
}

static gradient_fn *const GRADIENT[] = {NULL,       gradient_1, gradient_2,
                                        gradient_3, gradient_4, gradient_5};

/* A whole window of k x k taps of `o_n` channels, if the registers hold that many sums: dout is
 * read once for all of them, and a line of the input is used by up to k taps of neighbouring
 * places. sum[o][ky][kx] += over x_n places of dout[o][x] * in[ky][x + kx]. */
INLINE void window_places(vec sum[][KERNEL_MOST][KERNEL_MOST], const float *in, size_t in_row,
                          const float *dout, size_t plane, const uint32_t o_n, const uint32_t k,
                          const uint32_t x_n)
{
    vec d[2][4];
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t x = 0; x < x_n; x++)
            d[o][x] = load(dout + o * plane + (size_t)x * LANES);
#pragma GCC unroll UNROLL
    for (uint32_t ky = 0; ky < k; ky++)
#pragma GCC unroll UNROLL
        for (uint32_t i = 0; i < x_n + k - 1; i++) {
            const vec line = load(in + ky * in_row + (size_t)i * LANES);
#pragma GCC unroll UNROLL
            for (uint32_t x = 0; x < x_n; x++)
                if (x <= i && i - x < k)
#pragma GCC unroll UNROLL
                    for (uint32_t o = 0; o < o_n; o++)
                        sum[o][ky][i - x] += d[o][x] * line;
        }
}

INLINE void window_tile(const struct sweep *s, const float *in, const float *dout, float *dweight,
                        const uint32_t o_n, const uint32_t k)
{
    vec sum[2][KERNEL_MOST][KERNEL_MOST];
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t t = 0; t < k * k; t++)
            sum[o][t / k][t % k] = all(0);
    for (size_t y = 0; y < s->rows; y++, in += s->row, dout += s->out_row) {
        size_t x = 0;
        for (; x + 4 <= s->width; x += 4)
            window_places(sum, in + x * LANES, s->row, dout + x * LANES, s->out_plane, o_n, k, 4);
        if (x + 2 <= s->width) {
            window_places(sum, in + x * LANES, s->row, dout + x * LANES, s->out_plane, o_n, k, 2);
            x += 2;
        }
        if (x < s->width)
            window_places(sum, in + x * LANES, s->row, dout + x * LANES, s->out_plane, o_n, k, 1);
    }
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t t = 0; t < k * k; t++)
            dweight[o * s->taps + t] += lane_sum(sum[o][t / k][t % k]);
}

APART void window_5(const struct sweep *s, const float *in, const float *dout, float *dweight)
{
    window_tile(s, in, dout, dweight, 1, 5);
}

APART void window_3(const struct sweep *s, const float *in, const float *dout, float *dweight)
{
    window_tile(s, in, dout, dweight, 2, 3);
}

/* `o_n` channels of one group, all their taps. */
static void gradient_channels(const struct sweep *s, const float *in, const float *dout,
                              float *dweight, uint32_t o_n)
{
    for (uint32_t t = 0, n; t < s->taps; t += n) {
        n = share((uint32_t)s->taps - t, TAPS_MOST);
        GRADIENT[n](s, in, dout, s->tap + t, dweight + t, o_n);
    }
}

void JOIN(yk_batch16_conv_grad_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                         const float *dout, float *dweight, float *dbias,
                                         void *scratch);
void JOIN(yk_batch16_conv_grad_, YK_ISA)(const struct yk_batch16_window *g, const float *in,
                                         const float *dout, float *dweight, float *dbias,
                                         void *scratch)
{
    struct sweep s;
    const float *from = prepare(g, in, scratch, &s);
    const uint32_t group_c = g->c / g->groups, group_out = g->out_c / g->groups;
    const size_t plane =
        (size_t)(g->h + g->pad[0] + g->pad[2]) * (g->w + g->pad[1] + g->pad[3]) * LANES;
    const bool square =
        REGISTERS >= 32 && g->kernel[0] == g->kernel[1] && g->stride[0] == 1 && g->stride[1] == 1;
    const uint32_t window = square ? g->kernel[0] : 0, many = window == 5   ? 1
                                                              : window == 3 ? 2
                                                                            : MANY;
    for (uint32_t k = 0; k < g->groups; k++)
        for (size_t part = 0; part < LANES; part += WIDTH)
            for (uint32_t o = 0, o_n; o < group_out; o += o_n) {
                const uint32_t left = group_out - o;
                const size_t channel = (size_t)k * group_out + o;
                const float *group_in = from + k * group_c * plane + part,
                            *channel_out = dout + channel * s.out_plane + part;
                float *to = dweight + channel * s.taps;
                o_n = left >= many ? many : left >= 2 ? 2 : 1;
                if (window == 5)
                    for (size_t c = 0; c < group_c; c++)
                        window_5(&s, group_in + c * plane, channel_out, to + c * 25);
                else if (window == 3 && o_n == 2)
                    for (size_t c = 0; c < group_c; c++)
                        window_3(&s, group_in + c * plane, channel_out, to + c * 9);
                else
                    gradient_channels(&s, group_in, channel_out, to, o_n);
            }
    for (size_t o = 0; dbias != NULL && o < g->out_c; o++)
        dbias[o] += sum_of_lines(dout + o * s.out_plane, (size_t)g->out_h * g->out_w);
}

/* --- backward to the input --- */

enum { STRETCH_MOST = 10 };
/* A stretch of x outputs of a row reaches x + kernel - 1 pixels of the input. In registers are the
 * sums of these pixels, x lines of dout and a weight. */
#define STRETCH(kernel)                                                                            \
    ((REGISTERS - (kernel)) / 2 < STRETCH_MOST ? (REGISTERS - (kernel)) / 2 : STRETCH_MOST)

/* The outputs and weights that reach one row of one channel of the input. */
struct reach {
    const float *dout;   /* the last row of outputs that reaches it, of the group's first channel */
    const float *weight; /* the row of taps by which it does */
    uint32_t tap_rows;   /* rows of taps; each next one belongs to the row of outputs above */
    size_t out_row;      /* floats in a row of the output */
    size_t out_plane;    /* floats in a plane of the output */
    size_t out_n;        /* output channels of the group */
    size_t weights;      /* floats from the weights of an output channel to those of the next */
    uint32_t kernel;     /* width of a row of taps */
    uint32_t w, left;    /* width of the input, and of its border on the left */
};

/* din[x0 - left + x + k] += sum over channels and rows of taps of weight[k] * dout[x0 + x] */
INLINE void backward_tile(const struct reach *r, uint32_t x0, size_t part, float *din,
                          const uint32_t kernel, const uint32_t x_n)
{
    vec sum[STRETCH_MOST + KERNEL_MOST - 1], d[STRETCH_MOST];
#pragma GCC unroll UNROLL
    for (uint32_t x = 0; x < x_n + kernel - 1; x++)
        sum[x] = all(0);
    for (uint32_t k = 0; k < r->tap_rows; k++) {
        const float *from = r->dout - k * r->out_row + (size_t)x0 * LANES + part,
                    *weight = r->weight + k * kernel;
        for (size_t o = 0; o < r->out_n; o++, from += r->out_plane, weight += r->weights) {
#pragma GCC unroll UNROLL
            for (uint32_t x = 0; x < x_n; x++)
                d[x] = load(from + (size_t)x * LANES);
#pragma GCC unroll UNROLL
            for (uint32_t i = 0; i < kernel; i++) {
                const vec w = all(weight[i]);
#pragma GCC unroll UNROLL
                for (uint32_t x = 0; x < x_n; x++)
                    sum[x + i] += w * d[x];
            }
        }
    }
#pragma GCC unroll UNROLL
    for (uint32_t x = 0; x < x_n + kernel - 1; x++) {
        /* numbers on the border are dropped; left of the first pixel, `at` is huge */
        const uint32_t at = x0 + x - r->left;
        if (at < r->w)
            store(din + (size_t)at * LANES + part, load(din + (size_t)at * LANES + part) + sum[x]);
    }
}

INLINE void backward_some(const struct reach *r, uint32_t x0, size_t part, float *din,
                          const uint32_t kernel, const uint32_t x_n)
{
    if (x_n <= STRETCH(kernel))
        backward_tile(r, x0, part, din, kernel, x_n);
}

INLINE void backward_row(const struct reach *r, uint32_t out_w, size_t part, float *din,
                         const uint32_t kernel)
{
    for (uint32_t x = 0, n; x < out_w; x += n) {
        n = share(out_w - x, STRETCH(kernel));
        switch (n) {
        case 1:
            backward_some(r, x, part, din, kernel, 1);
            break;
        case 2:
            backward_some(r, x, part, din, kernel, 2);
            break;
        case 3:
            backward_some(r, x, part, din, kernel, 3);
            break;
        case 4:
            backward_some(r, x, part, din, kernel, 4);
            break;
        case 5:
            backward_some(r, x, part, din, kernel, 5);
            break;
        case 6:
            backward_some(r, x, part, din, kernel, 6);
            break;
        case 7:
            backward_some(r, x, part, din, kernel, 7);
            break;
        case 8:
            backward_some(r, x, part, din, kernel, 8);
            break;
        case 9:
            backward_some(r, x, part, din, kernel, 9);
            break;
        default:
            backward_some(r, x, part, din, kernel, STRETCH_MOST);
        }
    }
}

APART void backward_3(const struct reach *r, uint32_t out_w, size_t part, float *din)
{
    backward_row(r, out_w, part, din, 3);
}

APART void backward_5(const struct reach *r, uint32_t out_w, size_t part, float *din)
{
    backward_row(r, out_w, part, din, 5);
}

/* Any width and stride, sums in memory. Rows of taps are `skip` apart, because with a stride only
 * every stride-th reaches this row. */
static void backward_any(const struct reach *r, uint32_t out_w, uint32_t stride, uint32_t skip,
                         float *din)
{
    for (uint32_t k = 0; k < r->tap_rows; k++)
        for (size_t o = 0; o < r->out_n; o++) {
            const float *from = r->dout + o * r->out_plane - k * r->out_row,
                        *weight = r->weight + o * r->weights + k * skip;
            for (uint32_t i = 0; i < r->kernel; i++) {
                const vec w = all(weight[i]);
                /* outputs whose tap i is no border */
                uint32_t begin = i >= r->left ? 0 : (r->left - i + stride - 1) / stride;
                for (uint32_t x = begin; x < out_w && x * stride + i - r->left < r->w; x++) {
                    float *to = din + (size_t)(x * stride + i - r->left) * LANES;
                    for (size_t part = 0; part < LANES; part += WIDTH)
                        store(to + part,
                              load(to + part) + w * load(from + (size_t)x * LANES + part));
                }
            }
        }
}

void JOIN(yk_batch16_conv_back_, YK_ISA)(const struct yk_batch16_window *g, const float *dout,
                                         const float *weight, float *din);
void JOIN(yk_batch16_conv_back_, YK_ISA)(const struct yk_batch16_window *g, const float *dout,
                                         const float *weight, float *din)
{
    const uint32_t group_c = g->c / g->groups, group_out = g->out_c / g->groups, kh = g->kernel[0],
                   kw = g->kernel[1];
    const bool scatter = g->stride[0] == 1 && g->stride[1] == 1 && (kw == 3 || kw == 5);
    struct reach r = {.out_row = (size_t)g->out_w * LANES,
                      .out_plane = (size_t)g->out_h * g->out_w * LANES,
                      .out_n = group_out,
                      .weights = (size_t)group_c * kh * kw,
                      .kernel = kw,
                      .w = g->w,
                      .left = g->pad[1]};
    memset(din, 0, sizeof(float) * LANES * g->c * g->h * g->w);
    for (uint32_t y = 0; y < g->h; y++) {
        /* Output row oy reaches input row y by the row of taps ky = y + top - stride * oy. `last`
         * is the last such oy, ky its row of taps, and tap_rows counts the rows that reach here. */
        uint32_t at = y + g->pad[0],
                 last = at / g->stride[0] < g->out_h ? at / g->stride[0] : g->out_h - 1;
        uint32_t ky = at - last * g->stride[0];
        r.tap_rows = ky < kh ? (kh - 1 - ky) / g->stride[0] + 1 : 0;
        r.tap_rows = r.tap_rows > last + 1 ? last + 1 : r.tap_rows;
        for (uint32_t c = 0; c < g->c; c++) {
            uint32_t group = c / group_c;
            float *row = din + ((size_t)c * g->h + y) * g->w * LANES;
            r.dout = dout + (size_t)group * group_out * r.out_plane + last * r.out_row;
            r.weight = weight + (size_t)group * group_out * r.weights +
                       ((size_t)(c % group_c) * kh + ky) * kw;
            if (!scatter)
                backward_any(&r, g->out_w, g->stride[1], g->stride[0] * kw, row);
            for (size_t part = 0; part < LANES && scatter; part += WIDTH)
                if (kw == 5)
                    backward_5(&r, g->out_w, part, row);
                else
                    backward_3(&r, g->out_w, part, row);
        }
    }
}
