/* trained.h - a model that has been trained: from a run folder or a checkpoint file back to something that can be asked. */
#ifndef YK_TRAIN_TRAINED_H
#define YK_TRAIN_TRAINED_H

#include "base/file.h"
#include "data/data.h"
#include "model/model.h"
#include "model/net.h"
#include "param/safetensors.h"

struct yk_trained {
    const struct yk_model_ops *ops;
    struct yk_net net; /* of a net */
    struct yk_model *model;
    struct yk_params params;
    struct yk_work *work;
    char engine[16];             /* of a net: what computed it */
    char name[YK_NAME];          /* of the model */
    char data[YK_PATH_MAX];      /* what it was trained on, as --data took it */
    char test_data[YK_PATH_MAX]; /* what it was evaluated on: --test-data, or the same as data */
    char path[YK_PATH_MAX];      /* the checkpoint */
    double
        holdout; /* share of the rows of `data` that it was evaluated on; 0: none were held out */
    struct yk_reading how; /* sparse rows: how they were read */
    char reading[4][64];   /* its words */
    uint64_t step;
    struct yk_dataset
        shape; /* no rows: the shape it was made for, and the names of its classes if it was trained on class folders */
};

/* `what`: a run folder (newest whole checkpoint; damaged ones are told to `damaged`, which may be NULL) or a .safetensors file. */
yk_code yk_trained_open(struct yk_trained *t, const char *what, unsigned threads, const char *isa,
                        void (*damaged)(void *arg, const struct yk_error *why), void *arg,
                        struct yk_error *e);
void yk_trained_close(struct yk_trained *t);

/* Does a set fit the model? YK_USAGE names both shapes if not. */
yk_code yk_trained_fits(const struct yk_trained *t, const struct yk_dataset *set,
                        struct yk_error *e);

/* Score a whole set, `batch` rows at a time, packing it first if the model wants that; class probabilities (rows, classes) to `prob` unless it is
 * NULL. score->bins is the caller's. */
yk_code yk_trained_score(struct yk_trained *t, struct yk_dataset *set, uint32_t batch,
                         struct yk_score *score, float *prob, struct yk_error *e);

#endif
