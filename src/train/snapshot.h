/* snapshot.h - the state of a training run at one moment, as a copy.
 *
 * The evaluator and the writer of checkpoints work on copies while training goes on. A snapshot
 * also brings the run back to its moment when a target was reached there. */
#ifndef YK_TRAIN_SNAPSHOT_H
#define YK_TRAIN_SNAPSHOT_H

#include "train/crew.h"

/* Where a run stands. */
struct yk_moment {
    uint64_t step;          /* updates applied */
    uint64_t examples;      /* examples they were computed from */
    uint64_t position;      /* first example of the next batch, over all epochs */
    double seconds;         /* seconds of training, over all starts of this run */
    double loss;            /* training loss, summed since the last check */
    uint64_t loss_examples; /* examples in `loss`; saved, so a resumed run has the same curve */
    double total_loss;      /* loss of all examples, each before it was learnt */
};

/* The numbers that are trained. Of a dense model every process has all of them; of a sparse one
 * only those that its owners own. */
struct yk_state {
    struct yk_params params;
    float *slot[YK_SLOTS]; /* (owned) the optimizer's state */
    struct yk_span *span;  /* (recipe.spans) parameters that are not updated like weights */
    size_t owned_from;     /* flat index of the first parameter in params.flat and slot */
    size_t owned;          /* how many there are */
};

/* The parameters and the optimizer's state at one moment. */
struct yk_snapshot {
    struct yk_moment at;
    struct yk_params params; /* a copy, (owned); its views are those of the state */
    float *slot[YK_SLOTS];   /* (owned) or NULL */
    struct yk_owner *owner;  /* (servers) the owners at that moment; NULL if a copy says it all */
    uint64_t *pool;          /* (pooled) parts before `position` that were not trained on yet */
    unsigned pooled;
    uint64_t *next; /* (shares) where each host is in its data; NULL if there is one share */
};

yk_code yk_snapshot_init(struct yk_snapshot *n, const struct yk_crew *c, const struct yk_state *s,
                         bool with_slots, struct yk_error *e);
void yk_snapshot_release(struct yk_snapshot *n);
/* Copies the state as it is `now`. */
void yk_snapshot_take(struct yk_snapshot *n, const struct yk_crew *c, const struct yk_state *s,
                      const struct yk_moment *now);
/* Brings the crew and the state back to the moment of the snapshot. */
void yk_snapshot_restore(const struct yk_snapshot *n, struct yk_crew *c, struct yk_state *s);

#endif
