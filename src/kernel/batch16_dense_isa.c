/* batch16_dense_isa.c - dense layers in the layout of batch16.h. Compiled once per instruction set.
 *
 * A line meets each of its weights once, so forward and backward need one broadcast for each
 * multiply-add. That is no loss as long as the CPU loads as fast as it multiplies; what matters is
 * that a line is loaded once for all sums that it is part of:
 *
 *     forward   out[o]   += w[o][i] * in[i]    10 outputs together, over i
 *     backward  din[i]   += w[o][i] * dout[o]  10 inputs together, over o: weights are neighbours
 *     gradient  dw[o][i] += dout[o] . in[i]    a matrix product whose inner side are the 16 images
 *
 * The gradient would need the sum of a vector's lanes for every weight. So the input is transposed
 * first, to 16 rows of floats: then a vector holds neighbouring weights, images are the loop, and
 * sums are added to the gradient as they are.
 * THREADS: see batch16.h. */
#include "kernel/batch16_vec.h"

enum { TOGETHER = 10 };

INLINE void forward_tile(uint32_t in_n, bool positive, const float *in, const float *weight,
                         const float *bias, float *out, const uint32_t o_n)
{
    vec sum[TOGETHER];
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
        sum[o] = all(bias == NULL ? 0 : bias[o]);
    for (size_t i = 0; i < in_n; i++) {
        const vec line = load(in + i * LANES);
#pragma GCC unroll UNROLL
        for (uint32_t o = 0; o < o_n; o++)
            sum[o] += all(weight[(size_t)o * in_n + i]) * line;
    }
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
        store(out + (size_t)o * LANES, positive ? relu(sum[o]) : sum[o]);
}

INLINE void backward_tile(uint32_t in_n, uint32_t out_n, const float *dout, const float *weight,
                          float *din, const uint32_t i_n)
{
    vec sum[TOGETHER];
#pragma GCC unroll UNROLL
    for (uint32_t i = 0; i < i_n; i++)
        sum[i] = all(0);
    for (size_t o = 0; o < out_n; o++, weight += in_n) {
        const vec line = load(dout + o * LANES);
#pragma GCC unroll UNROLL
        for (uint32_t i = 0; i < i_n; i++)
            sum[i] += all(weight[i]) * line;
    }
#pragma GCC unroll UNROLL
    for (uint32_t i = 0; i < i_n; i++)
        store(din + (size_t)i * LANES, sum[i]);
}

/* Each count has a function of its own, so that the sums are registers. */
typedef void forward_fn(uint32_t in_n, bool positive, const float *in, const float *weight,
                        const float *bias, float *out);
typedef void backward_fn(uint32_t in_n, uint32_t out_n, const float *dout, const float *weight,
                         float *din);
#define SIZED(n)                                                                                   \
    APART void forward_##n(uint32_t in_n, bool positive, const float *in, const float *weight,     \
                           const float *bias, float *out)                                          \
    {                                                                                              \
        forward_tile(in_n, positive, in, weight, bias, out, n);                                    \
    }                                                                                              \
    APART void backward_##n(uint32_t in_n, uint32_t out_n, const float *dout, const float *weight, \
                            float *din)                                                            \
    {                                                                                              \
        backward_tile(in_n, out_n, dout, weight, din, n);                                          \
    }
SIZED(1)
SIZED(2)
SIZED(3)
SIZED(4)
SIZED(6)
SIZED(8)
SIZED(10)

/* Counts with their functions, the largest first. */
static const struct {
    uint32_t n;
    forward_fn *forward;
    backward_fn *backward;
} SIZES[] = {{10, forward_10, backward_10}, {8, forward_8, backward_8}, {6, forward_6, backward_6},
             {4, forward_4, backward_4},    {3, forward_3, backward_3}, {2, forward_2, backward_2},
             {1, forward_1, backward_1}};

static size_t size_for(uint32_t left)
{
    size_t k = 0;
    while (SIZES[k].n > left)
        k++;
    return k;
}

void JOIN(yk_batch16_dense_, YK_ISA)(uint32_t in_n, uint32_t out_n, bool positive, const float *in,
                                     const float *weight, const float *bias, float *out);
void JOIN(yk_batch16_dense_, YK_ISA)(uint32_t in_n, uint32_t out_n, bool positive, const float *in,
                                     const float *weight, const float *bias, float *out)
{
    size_t k;
    for (size_t part = 0; part < LANES; part += WIDTH)
        for (uint32_t o = 0; o < out_n; o += SIZES[k].n) {
            k = size_for(out_n - o);
            SIZES[k].forward(in_n, positive, in + part, weight + (size_t)o * in_n,
                             bias == NULL ? NULL : bias + o, out + (size_t)o * LANES + part);
        }
}

void JOIN(yk_batch16_dense_back_, YK_ISA)(uint32_t in_n, uint32_t out_n, const float *dout,
                                          const float *weight, float *din);
void JOIN(yk_batch16_dense_back_, YK_ISA)(uint32_t in_n, uint32_t out_n, const float *dout,
                                          const float *weight, float *din)
{
    size_t k;
    for (size_t part = 0; part < LANES; part += WIDTH)
        for (uint32_t i = 0; i < in_n; i += SIZES[k].n) {
            k = size_for(in_n - i);
            SIZES[k].backward(in_n, out_n, dout + part, weight + i, din + (size_t)i * LANES + part);
        }
}

/* --- gradient of the weights --- */

enum {
    ROWS = 4,
    /* registers hold ROWS * VECTORS sums, VECTORS of the input and a number of dout */
    VECTORS = (REGISTERS - 1) / (ROWS + 1)
};

/* sum[o][v] (+)= over the images of dout[o][image] * turned[image][v]: into `to`, whose rows are
 * `apart` floats from each other. */
INLINE void gradient_tile(const float *dout, const float *turned, size_t stride, float *to,
                          size_t apart, bool fresh, const uint32_t o_n, const uint32_t v_n)
{
    vec sum[ROWS][VECTORS], line[VECTORS];
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t v = 0; v < v_n; v++) {
            sum[o][v] = fresh ? all(0) : load_any(to + o * apart + (size_t)v * WIDTH);
            __builtin_prefetch(to + o * apart + (size_t)(v + v_n) * WIDTH, 1); /* the next tile's */
        }
    for (size_t l = 0; l < LANES; l++, turned += stride) {
#pragma GCC unroll UNROLL
        for (uint32_t v = 0; v < v_n; v++)
            line[v] = load(turned + (size_t)v * WIDTH);
#pragma GCC unroll UNROLL
        for (uint32_t o = 0; o < o_n; o++) {
            const vec d = all(dout[o * LANES + l]);
#pragma GCC unroll UNROLL
            for (uint32_t v = 0; v < v_n; v++)
                sum[o][v] += d * line[v];
        }
    }
#pragma GCC unroll UNROLL
    for (uint32_t o = 0; o < o_n; o++)
#pragma GCC unroll UNROLL
        for (uint32_t v = 0; v < v_n; v++)
            store_any(to + o * apart + (size_t)v * WIDTH, sum[o][v]);
}

/* All of `o_n` rows of the gradient. The end of a row that does not fill a vector goes through a
 * buffer. */
INLINE void gradient_rows(uint32_t in_n, const float *dout, const float *turned, size_t stride,
                          float *dweight, const uint32_t o_n)
{
    const uint32_t whole = in_n / WIDTH, rest = in_n % WIDTH;
    for (uint32_t v = 0, n; v < whole; v += n) {
        const float *from = turned + (size_t)v * WIDTH;
        float *to = dweight + (size_t)v * WIDTH;
        n = share(whole - v, VECTORS);
        switch (n) {
        case 1:
            gradient_tile(dout, from, stride, to, in_n, false, o_n, 1);
            break;
        case 2:
            gradient_tile(dout, from, stride, to, in_n, false, o_n, 2);
            break;
        case 3:
            gradient_tile(dout, from, stride, to, in_n, false, o_n, VECTORS < 3 ? VECTORS : 3);
            break;
        case 4:
            gradient_tile(dout, from, stride, to, in_n, false, o_n, VECTORS < 4 ? VECTORS : 4);
            break;
        case 5:
            gradient_tile(dout, from, stride, to, in_n, false, o_n, VECTORS < 5 ? VECTORS : 5);
            break;
        default:
            gradient_tile(dout, from, stride, to, in_n, false, o_n, VECTORS);
        }
    }
    if (rest != 0) {
        float part[ROWS * WIDTH];
        gradient_tile(dout, turned + (size_t)whole * WIDTH, stride, part, WIDTH, true, o_n, 1);
        for (size_t o = 0; o < o_n; o++)
            for (size_t i = 0; i < rest; i++)
                dweight[o * in_n + (size_t)whole * WIDTH + i] += part[o * WIDTH + i];
    }
}

APART void gradient_four(uint32_t in_n, const float *dout, const float *turned, size_t stride,
                         float *dweight)
{
    gradient_rows(in_n, dout, turned, stride, dweight, ROWS);
}

APART void gradient_one(uint32_t in_n, const float *dout, const float *turned, size_t stride,
                        float *dweight)
{
    gradient_rows(in_n, dout, turned, stride, dweight, 1);
}

void JOIN(yk_batch16_dense_grad_, YK_ISA)(uint32_t in_n, uint32_t out_n, const float *in,
                                          const float *dout, float *dweight, float *dbias,
                                          void *scratch);
void JOIN(yk_batch16_dense_grad_, YK_ISA)(uint32_t in_n, uint32_t out_n, const float *in,
                                          const float *dout, float *dweight, float *dbias,
                                          void *scratch)
{
    /* floats from a row of the transposed input to the next */
    const size_t stride = ((size_t)in_n + LANES - 1) / LANES * LANES;
    float *turned = scratch;
    for (size_t i = 0; i + 4 <= in_n; i += 4)
        for (size_t l = 0; l < LANES; l += 4) {
            const struct quads q = transpose(load_lines(in + i * LANES + l));
            for (size_t k = 0; k < 4; k++)
                *(quad *)(turned + (l + k) * stride + i) = q.row[k];
        }
    for (size_t i = in_n / 4 * 4; i < stride; i++)
        for (size_t l = 0; l < LANES; l++)
            turned[l * stride + i] = i < in_n ? in[i * LANES + l] : 0;
    uint32_t o = 0;
    for (; o + ROWS <= out_n; o += ROWS)
        gradient_four(in_n, dout + (size_t)o * LANES, turned, stride, dweight + (size_t)o * in_n);
    for (; o < out_n; o++)
        gradient_one(in_n, dout + (size_t)o * LANES, turned, stride, dweight + (size_t)o * in_n);
    for (size_t k = 0; dbias != NULL && k < out_n; k++)
        dbias[k] += sum_of_lines(dout + k * LANES, 1);
}
