/* optim.h - optimizers over ranges and over keys of the flat parameters, and the learning rate over steps.
 *
 * An optimizer sees nothing but floats: w and g of some range, its own state for the same range, the rate, and how many
 * updates came before. So one file serves a local run, a server's shard and a worker's slice. `g` holds a *sum* over examples;
 * `scale` is 1/their number.
 *
 * SPARSE: a step that touches a few keys of millions names them (apply_keys) and must not look at the others. What the steps
 * between did to an untouched key (--l1 and --l2 pull it to zero, momentum lets it glide on) is caught up when it is next read or touched:
 * a further slot "seen" holds, as the bits of an integer, how many updates a key's value includes, 0 at the start. Caught up, a value
 * is what a dense run has, up to rounding; touched at every step, up to the last bit. Keys of one call are in any order, no two alike.
 *
 * l1 and l2 of sgd and adagrad act after the gradient, as the exact *flow* of w' = -(l2 w + l1 sgn w) over the time x, the key's rate:
 *     |w| <- max(0, |w| e^(-l2 x) - l1 (1 - e^(-l2 x))/l2)             x = lr (sgd), lr/(sqrt n + eps) (adagrad; 0 while n is 0)
 * Flows of one after the other are the flow of the sum, which is why k steps can be caught up in one. Momentum and adam add l2 w to
 * the gradient, as is usual there; FTRL has both in its formula. `decay` (--weight-decay) is for nets: all but FTRL add decay w to the gradient,
 * as torch does; dense runs only.
 *
 * The loops use no fused operations (see the Makefile), so their bits do not depend on the vector width the CPU allows;
 * YK_WIDE lets the compiler make a copy for each width.
 * LIMITS: a key that has not been touched for 2^31 updates is caught up by too little. */
#ifndef YK_OPTIM_OPTIM_H
#define YK_OPTIM_OPTIM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__clang__)
#define YK_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define YK_WIDE /* sanitizers run before the resolver's tables exist; other architectures have one width */
#endif

enum { YK_SLOTS = 2 }; /* state vectors an optimizer may keep, "seen" included */

struct yk_schedule;

struct yk_update {
    float lr;
    float scale;    /* of g: 1 / examples */
    uint64_t step;  /* updates applied before this one */
    float momentum; /* mu of momentum, beta1 of adam */
    float beta2;
    float eps;
    float l1, l2;
    float decay; /* not together with l1 or l2 */
    float beta;  /* of ftrl */
    bool lazy;   /* the state has the slot "seen" */
    /* Rates of steps before, for catching up: base_lr shaped by the schedule; NULL: lr has always been the rate. */
    const struct yk_schedule *schedule;
    double base_lr;
};

/* When a sparse run needs the slot "seen". */
enum yk_laziness { YK_LAZY_NEVER, YK_LAZY_IF_REGULARIZED, YK_LAZY_ALWAYS };

struct yk_optimizer_ops {
    const char *name;
    const char *help; /* the formula, for --help and docs */
    double lr;        /* the rate if the user and the model give none */
    const char
        *uses; /* which of momentum|beta2|eps|l1|l2|weight-decay|ftrl-beta it has; "" for none */
    unsigned slots; /* state vectors of a dense run, each as long as the range */
    const char *slot
        [YK_SLOTS]; /* their names in a checkpoint, and behind them "seen", if there is a use for it */
    enum yk_laziness lazy;
    /* Update w[0..n) in place. Never blocks, never fails; called by the thread that owns the range. Not for a state with "seen". */
    void (*apply)(const struct yk_update *u, float *w, const float *g, float *const *slot,
                  size_t n);
    /* The same for the keys of a sparse step: g[i] belongs to w[key[i] - base] and to slot[.][key[i] - base]. For a key the bits are
     * those of `apply`. NULL: no sparse use. */
    void (*apply_keys)(const struct yk_update *u, float *w, float *const *slot, uint32_t base,
                       const uint32_t *key, const float *g, size_t n);
    /* out[i] = the value of key[i] as u->step would find it, untouched steps included; changes nothing else. If key is
     * NULL: of w[0..n), and then out may be w. NULL where apply_keys is. */
    void (*read_keys)(const struct yk_update *u, const float *w, float *const *slot, uint32_t base,
                      const uint32_t *key, float *out, size_t n);
};

#define YK_OPTIMIZERS(X) X(sgd) X(momentum) X(adagrad) X(adam) X(ftrl)

const struct yk_optimizer_ops *yk_optimizer_find(const char *name); /* NULL if there is none */
const struct yk_optimizer_ops *yk_optimizer_at(unsigned i);         /* NULL past the end */

/* State vectors of a run with these constants; their names are o->slot[]. */
unsigned yk_optimizer_slots(const struct yk_optimizer_ops *o, const struct yk_update *constants,
                            bool sparse);

/* The learning rate as a function of the global step, from a text such as
 *     constant   staircase:0.5:1000   stairs:4:250:90000   exponential:0.96:1000   cosine:10000   cosine:10000:0.0001
 *     warmup:500,cosine:10000
 * stairs:N:FALL:STEPS is the staircase that begins with lr, has fallen to lr/FALL on its N-th stair, and gets there after STEPS: a stair every
 * STEPS/(N-1), each FALL^(1/(N-1)) times lower. staircase is lr * rate^floor(step/every), exponential lr * rate^(step/every) (real division); cosine falls from lr to its
 * last number (0) over so many steps and stays there; warmup rises in equal parts over the first N steps and multiplies the shape that
 * follows. */
struct yk_schedule {
    enum { YK_CONSTANT, YK_STAIRCASE, YK_EXPONENTIAL, YK_COSINE } shape;
    double rate;   /* staircase, exponential */
    double every;  /* staircase, exponential: steps; cosine: total */
    double floor;  /* cosine: the last rate */
    double warmup; /* steps; 0 for none */
};

yk_code yk_schedule_parse(const char *text, struct yk_schedule *out, struct yk_error *e);
double yk_schedule_at(const struct yk_schedule *s, double lr, uint64_t step);
/* The sum of yk_schedule_at over the steps [from, to), in closed form: exact but for rounding, save that of more than 256 stairs the
 * later ones count as if they were evenly long (they are, if their length is a whole number). */
double yk_schedule_sum(const struct yk_schedule *s, double lr, uint64_t from, uint64_t to);

/* The same from step 0 on, for whoever needs thousands: what does not depend on the step is computed once. The difference of two is the
 * sum between them, but for rounding of the longer one. */
struct yk_prefix {
    const struct yk_schedule *schedule;
    double lr, c, factor;
    double warm, warmed; /* whole steps of the warm-up; what is to be added behind it */
    bool slow;           /* no short form: stairs of odd length, or all of one height */
};

void yk_prefix_init(struct yk_prefix *p, const struct yk_schedule *s, double lr);
double yk_prefix_at(const struct yk_prefix *p, uint64_t to);

#endif
