/* kernel.h - the hot loops, one set per instruction set, chosen when a model is opened.
 *
 * Each *_isa.c file is compiled once per instruction set (plain C, AVX2 + FMA, AVX-512) from one
 * source written with the compiler's vector types; kernel.c asks the CPU and hands out the best
 * table. The plain set needs nothing beyond the base architecture, so the same file runs on
 * aarch64. Results are equal bit for bit on one instruction set, and agree to rounding between
 * sets. */
#ifndef YK_KERNEL_KERNEL_H
#define YK_KERNEL_KERNEL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { YK_KERNEL_BLOCK = 8 }; /* pixels that are dropped or kept together */
enum { YK_TILE = 128 }; /* examples that a softmax kernel carries through its phases together */

/* One pass of softmax regression over rows of 8-bit pixels, packed as data/images/pack.c does:
 *     z = scale * x W^T + b,   p = softmax(z),   loss = sum_i -log p[i][label_i]
 * and, if `grad_weight` is set, the gradients of that *sum*: dz = p - onehot, dW = scale * dz^T x,
 * db = sum dz. */
struct yk_softmax_pass {
    uint32_t features; /* any; multiples of 8 are fastest */
    uint32_t classes;  /* 2 .. 256 */
    /* blocks of 8 pixels that are not all zero, row after row, readable 8 bytes past the end */
    const uint8_t *blocks;
    const uint32_t *first;   /* (rows + 1) the number of a row's first block */
    const uint64_t *nonzero; /* (rows, words) bit k of word w: the row has block 64 w + k */
    uint32_t words;
    const uint16_t *labels; /* (rows) */
    float scale;
    const uint32_t *row; /* (n) which rows */
    uint32_t n;
    const uint32_t *ahead; /* (n_ahead) rows to prefetch for the next pass */
    uint32_t n_ahead;
    const float *weight; /* (classes, features) */
    const float *bias;   /* (classes) */
    float *grad_weight;  /* (classes, features) overwritten; NULL: forward only */
    float *grad_bias;    /* (classes) overwritten */
    float *prob;         /* (n, classes) overwritten; NULL: not wanted */
    /* yk_softmax_scratch(features, classes) bytes, 64-byte aligned, private to the thread */
    void *scratch;
    double loss;      /* out: summed over the n rows */
    uint32_t correct; /* out, forward only: rows whose first largest z is the label's */
};

size_t yk_softmax_scratch(uint32_t features, uint32_t classes);

/* Every instruction set with a build, worst first; kernel.c asks the CPU which of them it has. */
#define YK_ISAS(X) X(plain) X(avx2) X(avx512)

/* Where the n weights of a sparse row are: weight i is *from[i] if `from` is not NULL, else
 * w[at[i]] if `at` is not NULL, else w[i]. The bias follows them. Floats that other threads may
 * write at the same time are read through `from` only, with relaxed atomic loads. */
struct yk_picks {
    const float *w;
    const uint32_t *at; /* (n) or NULL */
    float *const *from; /* (n) or NULL */
    uint32_t n;
    float bias;
};

/* One row of logistic regression with a label 0 or 1, y = 2 label - 1:
 *     z = bias + sum_i x[i] w[i],   loss = log(1 + exp(-y z)),
 *     g = d loss / d z = sigmoid(z) - label
 * `copy` and `grad` are filled up with zeros to YK_PADDED(n) floats. */
struct yk_logreg_row {
    struct yk_picks weights;
    const float *x; /* (n) NULL: all are 1 */
    unsigned label;
    float *copy; /* out: the weights side by side, then the bias; NULL: not wanted */
    float *grad; /* out: x[i] g + 0.0f, then g; NULL: not wanted */
};
#define YK_PADDED(n) (((size_t)(n) + 1 + 15) / 16 * 16)

/* The sum is taken in an order that depends on n alone, so its bits do not depend on where the
 * weights come from. */
struct yk_logit {
    float z; /* a sum of floats; NAN stays NAN */
    /* Relative error below 1e-6, also where sigmoid(z) is close to the label; never -0.0. */
    float g;
    float loss; /* with the same relative error */
};

struct yk_kernels {
    const char *name;
    void (*softmax)(struct yk_softmax_pass *p);
    struct yk_logit (*logreg)(const struct yk_logreg_row *r);
    /* Copies the weights side by side, the bias last; `copy` is (YK_PADDED(n)). */
    void (*pick)(const struct yk_picks *p, float *copy);
    const struct yk_batch16 *batch16; /* layers of nets with few channels: batch16.h */
};

/* "auto" or the name of a set. YK_USAGE if there is none of that name or this CPU cannot run it. */
yk_code yk_kernels_pick(const char *name, const struct yk_kernels **out, struct yk_error *e);

/* The place of a set in YK_ISAS, whatever this CPU can run: machines compare these numbers to find
 * the best set that all of them can run. An unknown name is 0, plain. */
unsigned yk_kernels_rank(const char *name);
const char *yk_kernels_name(unsigned rank);

/* The i-th set that this CPU can run, best last; NULL past the end. Tests and benchmarks go through
 * them all. */
const struct yk_kernels *yk_kernels_at(unsigned i);

#endif
