/* trained.h - a model that has been trained: from a run folder or a checkpoint file back to
 * a model that predicts. */
#ifndef YK_TRAIN_TRAINED_H
#define YK_TRAIN_TRAINED_H

#include "base/file.h"
#include "data/data.h"
#include "model/model.h"
#include "model/net/net.h"
#include "param/safetensors.h"

struct yk_trained {
    const struct yk_model_ops *ops;
    struct yk_net net; /* zero unless the model is a net */
    struct yk_model *model;
    struct yk_params params;
    struct yk_work *work;
    char engine[16];             /* the engine that trained a net */
    char name[YK_NAME];          /* name of the model */
    char data[YK_PATH_MAX];      /* --data of the training */
    char test_data[YK_PATH_MAX]; /* --test-data of the training, or the same as data */
    char path[YK_PATH_MAX];      /* the checkpoint */
    double holdout;        /* part of the rows of `data` that was held out for tests; 0: none */
    struct yk_reading how; /* how sparse rows were read */
    char reading[4][64];   /* the strings in `how` */
    uint64_t step;
    struct yk_dataset shape; /* a set without rows: shape and class names of the training data */
};

/* Opens a run folder (its newest whole checkpoint) or a .safetensors file. `damaged`, which may be
 * NULL, is called for each damaged checkpoint that is skipped. */
yk_code yk_trained_open(struct yk_trained *t, const char *what, unsigned threads, const char *isa,
                        void (*damaged)(void *arg, const struct yk_error *why), void *arg,
                        struct yk_error *e);
void yk_trained_close(struct yk_trained *t);

/* YK_USAGE, with both shapes, if the set does not fit the model. */
yk_code yk_trained_fits(const struct yk_trained *t, const struct yk_dataset *set,
                        struct yk_error *e);

/* Scores a whole set, `batch` rows at a time, and packs it first if the model wants that. Class
 * probabilities (rows, classes) go to `prob` unless it is NULL. score->bins belongs to the
 * caller. */
yk_code yk_trained_score(struct yk_trained *t, struct yk_dataset *set, uint32_t batch,
                         struct yk_score *score, float *prob, struct yk_error *e);

#endif
