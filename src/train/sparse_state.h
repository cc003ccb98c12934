/* sparse_state.h - streams the state of a sparse model to and from a checkpoint; no process ever
 * holds all of it. */
#ifndef YK_TRAIN_SPARSE_STATE_H
#define YK_TRAIN_SPARSE_STATE_H

#include "param/safetensors.h"
#include "train/snapshot.h"

#include <xxhash.h>

/* Prefix of the raw weights in a checkpoint, for optimizers that make the values from them. */
#define YK_RAW "optimizer.raw."

/* One checkpoint that is being written. */
struct yk_sparse_state {
    struct yk_crew *crew;
    const struct yk_state *state;
    const struct yk_snapshot *snap;
    struct yk_sparse_vector {
        struct yk_sparse_state *from;
        const struct yk_view *view;
        unsigned which; /* 0: values, 1: raw weights, 2 and up: state vectors */
    } vector[2 * (2 + YK_SLOTS)];
    unsigned vectors;
    float *piece[1 + YK_SLOTS]; /* raw weights and state that values are being made from */
    XXH3_state_t *hash; /* hash of the values written so far; NULL before the first vector */
};
void yk_sparse_state_open(struct yk_sparse_state *f, struct yk_crew *c, const struct yk_state *s,
                          const struct yk_snapshot *snap);
/* Makes `t` a tensor that is fetched from its owners while it is written. */
void yk_sparse_state_tensor(struct yk_sparse_state *f, struct yk_tensor *t, const struct yk_view *v,
                            const char *prefix, unsigned which);
/* Frees the owners' copies and stores the hash of the parameters. */
void yk_sparse_state_close(struct yk_sparse_state *f, char hash[17]);

/* Before the first step: sends the tensors of a checkpoint to their owners, and releases them. */
yk_code yk_sparse_state_restore(struct yk_crew *c, const struct yk_state *s,
                                struct yk_tensors *from, struct yk_error *e);

#endif
