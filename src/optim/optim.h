/* optim.h - optimizers over ranges and over keys of the flat parameters; learning-rate schedules.
 *
 * An optimizer sees only floats: w and g of some range, its own state for the same range, the rate,
 * and the number of earlier updates. So the same code serves a local run, a server's shard and a
 * worker's slice. `g` is a *sum* over examples, and `scale` is 1 / their number.
 *
 * SPARSE: a step that touches a few of millions of keys names them (apply_keys) and must not visit
 * the others. The steps in between also change an untouched key: l1 and l2 pull it to zero,
 * momentum lets it glide on. It catches up when it is next read or touched. For this the slot
 * "seen" holds, as the bits of an integer, the number of updates that a key's value includes, 0 at
 * the start. A key that has caught up has the value of a dense run up to rounding, and exactly if
 * it is touched at every step. The keys of one call are distinct and in any order.
 *
 * FLOW: in sgd and adagrad, l1 and l2 act after the gradient, as the exact flow of
 * w' = -(l2 w + l1 sgn w) over the time x, which is the key's rate:
 *     |w| <- max(0, |w| e^(-l2 x) - l1 (1 - e^(-l2 x)) / l2)
 *     x = lr (sgd), lr / (sqrt n + eps) (adagrad; 0 while n is 0)
 * Flows over two times in turn are the flow over their sum, so k steps can be caught up in one.
 * Momentum and adam add l2 w to the gradient, as is usual for them; FTRL has l1 and l2 in its
 * formula. `decay` (--weight-decay) is for nets, in dense runs only: all but FTRL add decay w to
 * the gradient, as torch does.
 *
 * The loops compile for several vector widths with the same bits (base/wide.h).
 * LIMITS: a key that misses more than 2^31 updates catches up on too few of them. */
#ifndef YK_OPTIM_OPTIM_H
#define YK_OPTIM_OPTIM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_SLOTS = 2 }; /* the most state vectors of an optimizer, "seen" included */

struct yk_schedule;

/* The constants of an optimizer and the numbers of one update. */
struct yk_update {
    float lr;
    float scale;    /* 1 / examples; g is multiplied by it */
    uint64_t step;  /* updates applied before this one */
    float momentum; /* mu of momentum, beta1 of adam */
    float beta2;    /* adam */
    float eps;      /* adagrad, adam */
    float l1, l2;
    float decay; /* not together with l1 or l2 */
    float beta;  /* ftrl */
    bool lazy;   /* the state has the slot "seen" */
    /* gives, with base_lr, the rates of earlier steps for catching up; NULL if lr never changes */
    const struct yk_schedule *schedule;
    double base_lr;
};

/* When a sparse run needs the slot "seen". */
enum yk_laziness { YK_LAZY_NEVER, YK_LAZY_IF_REGULARIZED, YK_LAZY_ALWAYS };

struct yk_optimizer_ops {
    const char *name;
    const char *help; /* the formula, for --help and docs */
    double lr;        /* the rate if neither the user nor the model gives one */
    /* its constants, of momentum|beta2|eps|l1|l2|weight-decay|ftrl-beta; "" for none */
    const char *uses;
    unsigned slots;             /* state vectors of a dense run, each as long as the range */
    const char *slot[YK_SLOTS]; /* their names in a checkpoint, then "seen" if it may be needed */
    enum yk_laziness lazy;
    /* Updates w[0..n) in place. Never blocks or fails. Called by the thread that owns the range,
     * and not for a state with "seen". */
    void (*apply)(const struct yk_update *u, float *w, const float *g, float *const *slot,
                  size_t n);
    /* The same for the keys of a sparse step: g[i] belongs to w[key[i] - base] and to
     * slot[.][key[i] - base]. The bits of a key are those of `apply`. NULL if there is no sparse
     * use. */
    void (*apply_keys)(const struct yk_update *u, float *w, float *const *slot, uint32_t base,
                       const uint32_t *key, const float *g, size_t n);
    /* Sets out[i] to the value of key[i] at u->step, caught up; changes nothing else. If `key` is
     * NULL, it reads w[0..n), and `out` may be `w`. NULL where apply_keys is. */
    void (*read_keys)(const struct yk_update *u, const float *w, float *const *slot, uint32_t base,
                      const uint32_t *key, float *out, size_t n);
};

#define YK_OPTIMIZERS(X) X(sgd) X(momentum) X(adagrad) X(adam) X(ftrl)

const struct yk_optimizer_ops *yk_optimizer_find(const char *name); /* NULL if there is none */
const struct yk_optimizer_ops *yk_optimizer_at(unsigned i);         /* NULL past the end */

/* The number of state vectors of a run with these constants; their names are o->slot[]. */
unsigned yk_optimizer_slots(const struct yk_optimizer_ops *o, const struct yk_update *constants,
                            bool sparse);

/* The learning rate as a function of the global step. Its text is one of
 *     constant
 *     staircase:RATE:EVERY      lr * RATE^floor(step/EVERY)
 *     exponential:RATE:EVERY    lr * RATE^(step/EVERY), with a real quotient
 *     cosine:STEPS[:LAST]       falls from lr to LAST (0) over STEPS steps and stays there
 *     stairs:N:FALL:STEPS       N stairs from lr to lr/FALL; the last one starts at STEPS
 * alone or after "warmup:STEPS,", which multiplies the rate by 1/STEPS, 2/STEPS, ... 1 at first. */
struct yk_schedule {
    enum { YK_CONSTANT, YK_STAIRCASE, YK_EXPONENTIAL, YK_COSINE } shape;
    double rate;   /* staircase, exponential */
    double every;  /* staircase, exponential: EVERY; cosine: STEPS */
    double floor;  /* cosine: LAST */
    double warmup; /* steps; 0 for none */
};

yk_code yk_schedule_parse(const char *text, struct yk_schedule *out, struct yk_error *e);
double yk_schedule_at(const struct yk_schedule *s, double lr, uint64_t step);
/* The sum of yk_schedule_at over the steps [from, to), in closed form and exact up to rounding. One
 * exception: beyond 256 stairs, all stairs count as equally long, as they are if EVERY is whole. */
double yk_schedule_sum(const struct yk_schedule *s, double lr, uint64_t from, uint64_t to);

/* The same sum from step 0 on, for thousands of calls: the terms that do not depend on the step are
 * computed once. The difference of two such sums is the sum between them, up to rounding. */
struct yk_prefix {
    const struct yk_schedule *schedule;
    double lr;
    double c;      /* the constant in the exponent, or the angle of a step of the cosine */
    double factor; /* the factor before the closed form */
    double warm;   /* whole steps of the warm-up */
    double warmed; /* added to sums that end after the warm-up */
    bool slow;     /* no short form: the length of a stair is not whole, or all have one height */
};

void yk_prefix_init(struct yk_prefix *p, const struct yk_schedule *s, double lr);
double yk_prefix_at(const struct yk_prefix *p, uint64_t to);

#endif
