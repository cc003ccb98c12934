/* gemm.h - the baseline of the softmax benchmark: the same training as a plain C loop over oneDNN's
 * dnnl_sgemm; see gemm.c. */
#ifndef YK_BENCH_GEMM_H
#define YK_BENCH_GEMM_H

#include "base/error.h"

#include <stdint.h>

/* These are constants so that the compiler can unroll loops. */
enum { YK_GEMM_FEATURES = 784, YK_GEMM_CLASSES = 10 };
enum { YK_GEMM_LAYOUTS = 4 };

/* The names of the memory layouts of the weights (bit 0) and the logits (bit 1). F: features, C:
 * classes, B: examples of a batch. */
extern const char *const yk_gemm_layout[YK_GEMM_LAYOUTS];

struct yk_gemm {
    unsigned layout;
    unsigned threads;
    uint32_t batch;
    float lr;
    const float *pixels;    /* (rows, F) */
    const uint16_t *labels; /* (rows) */
    uint32_t rows;
    uint32_t at;   /* the next row; batches are in file order */
    float *weight; /* (F, C) or (C, F) */
    float *logits; /* (B, C) or (C, B); later the gradients with respect to them */
    float *row;    /* (3, B) largest logit, sum and logit of the label of each example */
    float bias[YK_GEMM_CLASSES]; /* (C) */
};

/* The caller still owns `pixels` and `labels`. */
yk_code yk_gemm_init(struct yk_gemm *g, const float *pixels, const uint16_t *labels, uint32_t rows,
                     uint32_t batch, float lr, unsigned layout, unsigned threads,
                     struct yk_error *e);
void yk_gemm_release(struct yk_gemm *g);

/* Sets the weights to zero, the data to their start and OpenMP to `threads`. */
void yk_gemm_reset(struct yk_gemm *g);
/* Trains on the next batch and returns its summed loss. */
double yk_gemm_step(struct yk_gemm *g);
float yk_gemm_weight(const struct yk_gemm *g, uint32_t class, uint32_t feature);

#endif
