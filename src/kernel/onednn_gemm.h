/* onednn_gemm.h - the product of two float matrices, by oneDNN's sgemm, which reaches nine tenths
 * of the peak of every CPU that it knows.
 * THREADS: a call computes with the number of OpenMP threads that its caller has asked for; callers
 * of one process do not disturb each other's number. Do not call it from several threads at once
 * unless each has asked for one thread. */
#ifndef YK_KERNEL_ONEDNN_GEMM_H
#define YK_KERNEL_ONEDNN_GEMM_H

#include "base/error.h"

#include <stdint.h>

/* Sets how many threads compute the later products of the calling thread, itself included. */
void yk_gemm_threads(unsigned threads);

struct yk_gemm_job { /* c = a b + beta c, all of them row after row */
    uint64_t m, n, k;
    const float *a;         /* (m, k) */
    const float *b;         /* (k, n) */
    float *c;               /* (m, n) */
    uint64_t lda, ldb, ldc; /* from row to row, in floats; at least k, n, n */
    float beta;             /* 0: c is not read, so it may hold anything */
};

/* An element is a sum of k products in float, so its error is at most k 2^-24 |a| |b|. */
yk_code yk_gemm(const struct yk_gemm_job *j, struct yk_error *e);

#endif
