/* owner.h - owns one range of the parameters: keeps the optimizer's state for it and applies
 * gradients.
 *
 * Every parameter has exactly one owner. In a local run one owner has everything; on a cluster each
 * has a range. An owner knows ranges, keys and steps, never a model. A *key* is a flat position;
 * sparse steps name theirs.
 *
 * GROUPS: in a dense run some spans of the flat parameters may differ from the others. A net's
 * biases may have a rate, momentum and decay of their own. Statistics (batch norm's running mean
 * and variance) are not optimized: the pushed value is subtracted. Every update is element by
 * element, so the bits do not depend on how ranges and spans cut each other.
 *
 * CLIPPING limits each number of the mean gradient. A limit of the length of the whole gradient
 * would need all of it in one place: owners would have to wait for each other at every step, and
 * where each push is a step by itself, ranges are applied before the rest of their gradient
 * exists. A limit for each number acts where the number is, with the same bits for any number of
 * owners and workers. */
#ifndef YK_STRATEGY_OWNER_H
#define YK_STRATEGY_OWNER_H

#include "optim/optim.h"
#include "strategy/shard.h"

#include <stddef.h>
#include <stdint.h>

enum yk_group { YK_WEIGHTS, YK_BIASES, YK_STATISTICS };

struct yk_span { /* of the flat parameters */
    size_t lo, hi;
    enum yk_group group;
};

struct yk_owner {
    const struct yk_optimizer_ops *optimizer;
    struct yk_schedule schedule;
    double lr;               /* the base rate that the schedule shapes */
    struct yk_update update; /* the update in progress, with the optimizer's constants */
    struct {                 /* the same for biases that have their own */
        struct yk_schedule schedule;
        double lr;
        struct yk_update update;
    } bias;
    const struct yk_span *span; /* (spans) sorted, apart from each other: biases and statistics */
    size_t spans;
    float clip;            /* limit of each number of the mean gradient; 0: none */
    size_t lo, hi;         /* the range of the flat parameters */
    size_t origin;         /* flat position of weights[0] and slot[.][0]; 0, or set after init */
    float *weights;        /* the flat parameters, of which [lo, hi) are this owner's */
    float *slot[YK_SLOTS]; /* the optimizer's state, laid out as the parameters */
    unsigned slots;        /* vectors of state */
    uint64_t step;         /* updates applied: owner 0's is the global step */
};

/* How every owner of a run updates. */
struct yk_recipe {
    const struct yk_optimizer_ops *optimizer;
    struct yk_schedule schedule;
    double lr;
    struct yk_update constants; /* momentum, beta2, eps, l1, l2, decay, beta */
    bool sparse; /* steps name keys; an untouched key catches up when it is next touched or read */
    float clip;  /* dense only, as are the fields below; 0: none */
    const struct yk_span *span; /* (spans) sorted, apart from each other; the caller's */
    size_t spans;
    struct { /* of the biases among them */
        struct yk_schedule schedule;
        double lr;
        float momentum, decay;
    } bias;
};

/* State vectors that every owner of such a run has. */
static inline unsigned yk_recipe_slots(const struct yk_recipe *r)
{
    return yk_optimizer_slots(r->optimizer, &r->constants, r->sparse);
}

/* First float of owner k of n; its last is where k+1 begins. Ranges begin on lines of 64 bytes,
 * so that no two owners share one. */
size_t yk_owner_at(unsigned k, unsigned n, size_t count);

/* `weights` and the optimizer's `slot`s, both for all parameters, stay the caller's. */
void yk_owner_init(struct yk_owner *o, const struct yk_recipe *recipe, float *weights,
                   float *const *slot, size_t lo, size_t hi);

/* Apply grad[lo, hi) (a sum over `examples` examples) to w[lo, hi); ranges of one update must not
 * overlap. `grad` is indexed by flat position from `origin` on. */
void yk_owner_apply(struct yk_owner *o, const float *grad, size_t origin, size_t lo, size_t hi,
                    uint32_t examples);
/* Add the blocks, which cover the shards [0, v), over the tree, and apply the sum to w[lo, hi);
 * ranges as above. */
void yk_owner_apply_blocks(struct yk_owner *o, const struct yk_block *block, uint32_t v, size_t lo,
                           size_t hi, uint32_t examples);
/* The same for n keys of [lo, hi), each at most once, in any order: grad[i] belongs to key[i]. */
void yk_owner_apply_keys(struct yk_owner *o, const uint32_t *key, const float *grad, size_t n,
                         uint32_t examples);
/* out[i] = the value of key[i] as the next update would find it. */
void yk_owner_read_keys(struct yk_owner *o, const uint32_t *key, float *out, size_t n);
/* All values of [lo, hi) as the next update would find them. `out` may be the weights only if
 * these are a copy: the state does not change, so lazy updates would be applied twice. */
void yk_owner_read(struct yk_owner *o, float *out, size_t lo, size_t hi);
/* Set rate, scale and step of update number `step`, of so many examples, in the caller's `u`,
 * which stays the caller's from one call to the next. For code that updates the owner's
 * parameters itself. */
void yk_owner_update(const struct yk_owner *o, struct yk_update *u, uint64_t step,
                     uint32_t examples);
/* All ranges have been applied: the step counts. */
void yk_owner_finish(struct yk_owner *o);

#endif
