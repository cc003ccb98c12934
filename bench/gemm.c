/* gemm.c - softmax regression as a plain C loop over the best GEMM at hand, as a careful programmer
 * writes it in an afternoon.
 *
 *     Z = X W,   p = softmax(Z + b),   dZ = p - onehot,   W += -lr/B X^T dZ,   b += ...
 *
 * The update of W is the second GEMM itself. The loop has every advantage: float pixels, converted
 * beforehand and in file order, which the hardware prefetches; sizes known to the compiler; -O3
 * -march=native -ffast-math, with which gcc calls the vector expf and logf of libmvec; and all four
 * layouts of weights and logits, of which the caller takes the fastest for each batch size. With
 * the logits in (C, B) order even the softmax runs over whole vectors of examples.
 * THREADS: one caller. dnnl_sgemm uses OpenMP, whose thread count belongs to the calling thread and
 * is set by yk_gemm_reset. */
#include "bench/gemm.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

enum { F = YK_GEMM_FEATURES, C = YK_GEMM_CLASSES };
enum { WEIGHTS_BY_CLASS = 1, LOGITS_BY_CLASS = 2 }; /* bits of a layout */

const char *const yk_gemm_layout[YK_GEMM_LAYOUTS] = {"W(F,C) Z(B,C)", "W(C,F) Z(B,C)",
                                                     "W(F,C) Z(C,B)", "W(C,F) Z(C,B)"};

static float *floats(size_t n)
{
    return aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
}

yk_code yk_gemm_init(struct yk_gemm *g, const float *pixels, const uint16_t *labels, uint32_t rows,
                     uint32_t batch, float lr, unsigned layout, unsigned threads,
                     struct yk_error *e)
{
    *g = (struct yk_gemm){.layout = layout,
                          .threads = threads,
                          .batch = batch,
                          .lr = lr,
                          .pixels = pixels,
                          .labels = labels};
    g->rows = rows;
    g->weight = floats((size_t)F * C);
    g->logits = floats((size_t)batch * C);
    g->row = floats((size_t)batch * 3);
    if (g->weight == NULL || g->logits == NULL || g->row == NULL) {
        yk_gemm_release(g);
        return yk_fail_memory(e, ((size_t)F + batch) * C * sizeof(float));
    }
    yk_gemm_reset(g);
    return YK_OK;
}

void yk_gemm_release(struct yk_gemm *g)
{
    free(g->weight);
    free(g->logits);
    free(g->row);
    *g = (struct yk_gemm){0};
}

void yk_gemm_reset(struct yk_gemm *g)
{
    omp_set_num_threads((int)g->threads);
    memset(g->weight, 0, (size_t)F * C * sizeof *g->weight);
    memset(g->bias, 0, sizeof g->bias);
    g->at = 0;
}

/* dnnl_sgemm is row-major: C(M,N) = alpha op(A)(M,K) op(B)(K,N) + beta C. A leading dimension is
 * the length of a stored row. */
static void forward(struct yk_gemm *g, const float *x)
{
    dnnl_dim_t b = g->batch;
    char w = g->layout & WEIGHTS_BY_CLASS ? 'T' : 'N';
    dnnl_dim_t w_row = g->layout & WEIGHTS_BY_CLASS ? F : C;
    if (g->layout & LOGITS_BY_CLASS) /* Z^T(C,B) = W^T X^T */
        dnnl_sgemm(w == 'T' ? 'N' : 'T', 'T', C, b, F, 1, g->weight, w_row, x, F, 0, g->logits, b);
    else /* Z(B,C) = X W */
        dnnl_sgemm('N', w, b, C, F, 1, x, F, g->weight, w_row, 0, g->logits, C);
}

static void backward(struct yk_gemm *g, const float *x)
{
    dnnl_dim_t b = g->batch;
    float rate = -g->lr / (float)g->batch;
    char z = g->layout & LOGITS_BY_CLASS ? 'T' : 'N';
    dnnl_dim_t z_row = g->layout & LOGITS_BY_CLASS ? b : C;
    if (g->layout & WEIGHTS_BY_CLASS) /* W(C,F) += rate dZ^T X */
        dnnl_sgemm(z == 'T' ? 'N' : 'T', 'N', C, F, b, rate, g->logits, z_row, x, F, 1, g->weight,
                   F);
    else /* W(F,C) += rate X^T dZ */
        dnnl_sgemm('T', z, F, C, b, rate, x, F, g->logits, z_row, 1, g->weight, C);
}

/* Replaces the logits by the gradients with respect to them, example by example, and adds these to
 * grad_bias. Returns the summed loss. */
static double softmax_by_example(struct yk_gemm *g, const uint16_t *y, float *grad_bias)
{
    uint32_t b = g->batch;
    float *restrict z = g->logits, *restrict sum = g->row, bias[C];
    float loss = 0;
    memcpy(bias, g->bias, sizeof bias);
    for (uint32_t i = 0; i < b; i++) {
        float *zi = z + (size_t)i * C, largest = -FLT_MAX;
        for (int c = 0; c < C; c++)
            zi[c] += bias[c];
        for (int c = 0; c < C; c++)
            largest = zi[c] > largest ? zi[c] : largest;
        for (int c = 0; c < C; c++)
            zi[c] -= largest;
        loss -= zi[y[i]];
    }
    for (uint32_t k = 0; k < b * C; k++)
        z[k] = expf(z[k]);
    for (uint32_t i = 0; i < b; i++) {
        float *zi = z + (size_t)i * C, s = 0;
        for (int c = 0; c < C; c++)
            s += zi[c];
        sum[i] = s;
        s = 1 / s;
        for (int c = 0; c < C; c++)
            zi[c] *= s;
        zi[y[i]] -= 1;
        for (int c = 0; c < C; c++)
            grad_bias[c] += zi[c];
    }
    for (uint32_t i = 0; i < b; i++)
        loss += logf(sum[i]);
    return loss;
}

/* The same with the logits in (C, B) order: every loop runs over examples. */
static double softmax_by_class(struct yk_gemm *g, const uint16_t *y, float *grad_bias)
{
    uint32_t b = g->batch;
    float *restrict z = g->logits, *restrict largest = g->row, *restrict sum = g->row + b,
                    *restrict label = g->row + 2 * b;
    float loss = 0;
    for (uint32_t i = 0; i < b; i++) {
        label[i] = z[y[i] * b + i] + g->bias[y[i]];
        largest[i] = -FLT_MAX;
        sum[i] = 0;
    }
    for (uint32_t c = 0; c < C; c++) {
        float *zc = z + (size_t)c * b, bias = g->bias[c];
        for (uint32_t i = 0; i < b; i++) {
            zc[i] += bias;
            largest[i] = zc[i] > largest[i] ? zc[i] : largest[i];
        }
    }
    for (uint32_t c = 0; c < C; c++) {
        float *zc = z + (size_t)c * b;
        for (uint32_t i = 0; i < b; i++) {
            zc[i] = expf(zc[i] - largest[i]);
            sum[i] += zc[i];
        }
    }
    for (uint32_t i = 0; i < b; i++) {
        loss += logf(sum[i]) + largest[i] - label[i];
        sum[i] = 1 / sum[i];
    }
    for (uint32_t c = 0; c < C; c++) {
        float *zc = z + (size_t)c * b, s = 0;
        for (uint32_t i = 0; i < b; i++) {
            zc[i] *= sum[i];
            s += zc[i];
        }
        grad_bias[c] = s;
    }
    for (uint32_t i = 0; i < b; i++) {
        z[y[i] * b + i] -= 1;
        grad_bias[y[i]] -= 1;
    }
    return loss;
}

double yk_gemm_step(struct yk_gemm *g)
{
    if (g->rows - g->at < g->batch) /* the baseline skips partial batches, unlike yoke */
        g->at = 0;
    const float *x = g->pixels + (size_t)g->at * F;
    const uint16_t *y = g->labels + g->at;
    float grad_bias[C] = {0}, rate = g->lr / (float)g->batch;
    forward(g, x);
    double loss = g->layout & LOGITS_BY_CLASS ? softmax_by_class(g, y, grad_bias)
                                              : softmax_by_example(g, y, grad_bias);
    backward(g, x);
    for (int c = 0; c < C; c++)
        g->bias[c] -= rate * grad_bias[c];
    g->at += g->batch;
    return loss;
}

float yk_gemm_weight(const struct yk_gemm *g, uint32_t class, uint32_t feature)
{
    return g->weight[g->layout & WEIGHTS_BY_CLASS ? class * F + feature : feature * C + class];
}
