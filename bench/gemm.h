/* gemm.h - the baseline of the softmax benchmark: the same training as a plain C loop over oneDNN's dnnl_sgemm. See gemm.c. */
#ifndef YK_BENCH_GEMM_H
#define YK_BENCH_GEMM_H

#include "base/error.h"

#include <stdint.h>

enum {
    YK_GEMM_FEATURES = 784,
    YK_GEMM_CLASSES = 10
}; /* constants, so that the compiler can unroll */
enum { YK_GEMM_LAYOUTS = 4 };

/* Which way the weights (bit 0) and the logits (bit 1) lie in memory; F features, C classes, B examples of a batch. */
extern const char *const yk_gemm_layout[YK_GEMM_LAYOUTS];

struct yk_gemm {
    unsigned layout;
    unsigned threads;
    uint32_t batch;
    float lr;
    const float *pixels;    /* (rows, F) */
    const uint16_t *labels; /* (rows) */
    uint32_t rows;
    uint32_t at;   /* the next row; batches come in file order */
    float *weight; /* (F, C) or (C, F) */
    float *logits; /* (B, C) or (C, B); then the gradients of the loss with respect to them */
    float *row;    /* (3, B) largest logit, sum and label's logit of an example */
    float bias[YK_GEMM_CLASSES]; /* (C) */
};

/* `pixels` and `labels` stay the caller's. */
yk_code yk_gemm_init(struct yk_gemm *g, const float *pixels, const uint16_t *labels, uint32_t rows,
                     uint32_t batch, float lr, unsigned layout, unsigned threads,
                     struct yk_error *e);
void yk_gemm_release(struct yk_gemm *g);

void yk_gemm_reset(
    struct yk_gemm *g); /* weights to zero, data to the start, and OpenMP to `threads` */
double
yk_gemm_step(struct yk_gemm *g); /* the summed loss of the next batch; the weights are updated */
float yk_gemm_weight(const struct yk_gemm *g, uint32_t class, uint32_t feature);

#endif
