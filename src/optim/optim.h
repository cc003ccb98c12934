/* optim.h - optimizers over ranges of the flat parameters, and the learning rate over steps.
 *
 * An optimizer sees nothing but floats: w and g of some range, its own state for the same range, the rate, and how many
 * updates came before. So one file serves a local run, a server's shard and a worker's slice. `g` holds a *sum* over examples;
 * `scale` is 1/their number.
 *
 * The loops use no fused operations (see the Makefile), so their bits do not depend on the vector width the CPU allows;
 * YK_WIDE lets the compiler make a copy for each width. */
#ifndef YK_OPTIM_OPTIM_H
#define YK_OPTIM_OPTIM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define YK_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define YK_WIDE /* sanitizers run before the resolver's tables exist; other architectures have one width */
#endif

enum { YK_SLOTS = 2 }; /* state vectors an optimizer may keep */

struct yk_update {
    float lr;
    float scale;    /* of g: 1 / examples */
    uint64_t step;  /* updates applied before this one */
    float momentum; /* mu of momentum, beta1 of adam */
    float beta2;
    float eps;
};

struct yk_optimizer_ops {
    const char *name;
    const char *help;           /* the formula, for --help and docs */
    double lr;                  /* the rate if the user and the model give none */
    const char *uses;           /* which of momentum|beta2|eps it has; "" for none */
    unsigned slots;             /* state vectors, each as long as the range */
    const char *slot[YK_SLOTS]; /* their names in a checkpoint */
    /* Update w[0..n) in place. Never blocks, never fails; called by the thread that owns the range. */
    void (*apply)(const struct yk_update *u, float *w, const float *g, float *const *slot, size_t n);
};

#define YK_OPTIMIZERS(X) X(sgd) X(momentum) X(adagrad) X(adam)

const struct yk_optimizer_ops *yk_optimizer_find(const char *name); /* NULL if there is none */
const struct yk_optimizer_ops *yk_optimizer_at(unsigned i);         /* NULL past the end */

/* The learning rate as a function of the global step, from a text such as
 *     constant   staircase:0.5:1000   exponential:0.96:1000   cosine:10000   cosine:10000:0.0001   warmup:500,cosine:10000
 * staircase is lr * rate^floor(step/every), exponential lr * rate^(step/every) (real division); cosine falls from lr to its
 * last number (0) over so many steps and stays there; warmup rises in equal parts over the first N steps and multiplies the shape that follows. */
struct yk_schedule {
    enum { YK_CONSTANT, YK_STAIRCASE, YK_EXPONENTIAL, YK_COSINE } shape;
    double rate;   /* staircase, exponential */
    double every;  /* staircase, exponential: steps; cosine: total */
    double floor;  /* cosine: the last rate */
    double warmup; /* steps; 0 for none */
};

yk_code yk_schedule_parse(const char *text, struct yk_schedule *out, struct yk_error *e);
double yk_schedule_at(const struct yk_schedule *s, double lr, uint64_t step);

#endif
