/* model.h - batch + parameters -> loss + gradients.
 *
 * A *model* is a description, fixed once its layout is made: any number of threads may share it.
 * What a thread needs to compute with it (buffers, helper threads) is a *work*, one per worker.
 * Gradients leave through a *sink* as they are finished, so that the owner of the parameters can
 * send or apply them while earlier layers still compute.
 *
 * All losses and gradients are *sums* over examples; the optimizer divides once. */
#ifndef YK_MODEL_MODEL_H
#define YK_MODEL_MODEL_H

#include "base/error.h"
#include "data/data.h"
#include "param/param.h"
#include "param/sink.h"
#include "record/events.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A histogram of the scores z of examples with label 0 and 1. Bin i of YK_BINS counts the scores in
 * [lowest + i width, lowest + (i + 1) width); the first and the last bin also count all beyond. It
 * takes 1 MB, for any number of examples. */
enum { YK_BINS = 1 << 16, YK_BINS_LOWEST = -16, YK_BINS_PER_UNIT = 1 << 11 };
struct yk_bins {
    uint64_t n[2][YK_BINS]; /* by label */
};

/* The result of an evaluation, summed over batches. */
struct yk_score {
    double loss;
    uint64_t examples;
    uint64_t correct;
    /* Models of two classes with a threshold, else 0. */
    uint64_t true_positives;  /* predicted and labelled 1 */
    uint64_t false_positives; /* predicted 1, labelled 0 */
    uint64_t false_negatives; /* predicted 0, labelled 1 */
    /* The caller's, zeroed at first; models of two classes only. NULL: not wanted. */
    struct yk_bins *bins;
};

/* The area under the ROC curve: the share of pairs (label 1, label 0) in which the first has the
 * higher score, ties counting half. Pairs within one bin count half too, so the answer is wrong by
 * at most *error, half the share of such pairs. NAN if one label is missing. */
double yk_score_auc(const struct yk_score *s, double *error);
double yk_score_precision(const struct yk_score *s); /* NAN if nothing was predicted to be 1 */
double yk_score_recall(const struct yk_score *s);    /* NAN if nothing was labelled 1 */

struct yk_model;  /* never defined: each model converts it to a struct of its own */
struct yk_work;   /* likewise */
struct yk_net;    /* net.h */
struct yk_update; /* optim/optim.h; a model only passes it on */

/* Slot space: a sparse model computes with a handful of keys, the flat indices of the parameters
 * that some rows touch. Slot i stands for key[i]. */
struct yk_keys {
    const uint32_t *key; /* (n) ascending, unique */
    uint32_t n;
};

enum { YK_SWEEP_SLOTS = 4 }; /* at least as many state vectors as an optimizer keeps */

/* Many steps in one call on the parameters themselves, for a run of one process. */
struct yk_sweep {
    const struct yk_rows *rows;
    const uint32_t *order; /* (count) row numbers; NULL: first, first + 1, ... */
    uint64_t first;
    uint64_t count;              /* rows of the sweep */
    uint32_t batch;              /* rows of a step, at least 1; the last step may have fewer */
    float *w;                    /* all flat parameters */
    float *slot[YK_SWEEP_SLOTS]; /* the optimizer's state vectors, as long as `w` */
    unsigned slots;              /* state vectors */

    /* The optimizer owes regularisation or momentum to keys that were not touched for a while:
     * values are read by read_keys and updated by apply_keys. Otherwise values are read as they
     * are, and apply does the same as apply_keys. */
    bool lazy;
    /* The optimizer's functions (optim.h). */
    void (*apply)(const struct yk_update *u, float *w, const float *g, float *const *slot,
                  size_t n);
    void (*apply_keys)(const struct yk_update *u, float *w, float *const *slot, uint32_t base,
                       const uint32_t *key, const float *g, size_t n);
    void (*read_keys)(const struct yk_update *u, const float *w, float *const *slot, uint32_t base,
                      const uint32_t *key, float *out, size_t n);
    /* The update number `step` of this sweep (from 0), of `rows` rows: rate, scale = 1/rows, steps
     * before it. Called once a step; several threads call it at a time, each with its own number,
     * and use the result until they call again. */
    const struct yk_update *(*update)(void *arg, unsigned thread, uint64_t step, uint32_t rows);
    void *arg;

    double loss; /* out: summed over rows, each before the step that it is part of */
};

/* Settings of a net besides its file and the shape of the data. */
struct yk_net_how {
    uint64_t seed;         /* of dropout; layout has that of the starting values */
    float label_smoothing; /* s: the target is 1 - s at the label, plus s / classes everywhere */
    /* Workers that push without waiting for each other, 1 in synchronous modes; 0 is 1. A push
     * moves running statistics by 1 / async_workers. */
    unsigned async_workers;
};

struct yk_model_ops {
    const char *name;
    const char *help;
    bool packed; /* wants its data without background: see yk_dataset_pack */
    bool asks;   /* step asks its sink for the parameters of a layer before it reads them */
    /* defaults of a run: option, value, option, value, ..., NULL */
    const char *const *defaults;

    /* A model for data of this shape. YK_USAGE names both shapes if they do not fit. */
    yk_code (*open)(struct yk_model **out, const struct yk_dataset *shape, struct yk_error *e);
    void (*close)(struct yk_model *m);
    /* Nets have this instead of open, and the settings of their file before `defaults`. `net` is
     * the caller's, and lives as long as the model. */
    yk_code (*open_net)(struct yk_model **out, const struct yk_net *net,
                        const struct yk_net_how *how, const struct yk_dataset *shape,
                        struct yk_error *e);

    /* Lay out the parameters and give them their starting values by `seed`. Called once, before
     * any step. */
    yk_code (*layout)(struct yk_model *m, struct yk_params *params, uint64_t seed,
                      struct yk_error *e);

    /* A worker's buffers and helper threads, on kernels of instruction set `isa` ("auto"). */
    yk_code (*work_open)(struct yk_work **out, const struct yk_model *m, unsigned threads,
                         const char *isa, struct yk_error *e);
    void (*work_close)(struct yk_work *w);
    /* Chooses what computes a net; NULL for other models. `name` is that of an engine, or "lanes:4"
     * for one engine on the first 4 layers and the other one on the rest, or "auto" for the fastest
     * on steps of `batch` examples, which takes a tenth of a second to measure. Called between
     * layout and the first work_open; without it works take the first engine. `chosen` belongs to
     * the model; `message` gets the reasons in a sentence. */
    yk_code (*engine)(struct yk_model *m, const struct yk_params *params, const char *name,
                      uint32_t batch, unsigned threads, const char *isa, const char **chosen,
                      char message[256], struct yk_error *e);
    /* Plans steps (`train`) or scores of up to `batch` examples of a net, so that the first one
     * takes no longer than the others; NULL for other models. `message` gets a sentence on the
     * plan. */
    yk_code (*prepare)(struct yk_work *w, uint32_t batch, bool train, char message[256],
                       struct yk_error *e);

    /* The number of threads that a step over `batch` examples keeps busy. */
    unsigned (*busy)(const struct yk_work *w, uint32_t batch);

    /* The summed loss of a batch; all gradients have passed through the sink when it returns.
     * Allocates nothing. */
    double (*step)(struct yk_work *w, const struct yk_params *params, const struct yk_batch *batch,
                   struct yk_sink *sink);

    /* Add a batch to `score`; class probabilities (n, classes) to `prob` unless it is NULL.
     * Allocates nothing. */
    void (*score)(struct yk_work *w, const struct yk_params *params, const struct yk_batch *batch,
                  struct yk_score *score, float *prob);

    /* The next three are for sparse models, NULL for the others. Layout of a sparse model leaves
     * params->flat NULL, all starting values being 0, and step and score compute in slot space:
     * params->flat[i], sink->grad[i] and ready(0, n) mean the slots of the map chosen last. */

    /* Make map `which` (0 or 1: one may be made while the other is in use) for the shards of a
     * task. out->key is valid until the map is made again. Memory grows with the largest task, and
     * stays. */
    yk_code (*keys)(struct yk_work *w, unsigned which, const struct yk_batch *shard,
                    uint32_t shards, struct yk_keys *out, struct yk_error *e);
    /* The next step or score is that of shard `shard` (from 0) of map `which`. */
    void (*choose)(struct yk_work *w, unsigned which, uint32_t shard);
    /* Trains. With one thread the bits are those of the same steps in slot space, one shard each.
     * Several threads take rows in turns and update the parameters without waiting for each other,
     * which pays from some 10,000 rows a sweep on. A lazy sweep takes one thread. */
    yk_code (*sweep)(struct yk_work *w, struct yk_sweep *s, struct yk_error *e);

    /* Write the trained model as an ONNX graph (see net/net_onnx.h). NULL: it has none. */
    yk_code (*onnx)(const struct yk_model *m, const struct yk_params *params, const char *path,
                    struct yk_error *e);

    /* The graph that TensorBoard draws, for a batch of any size. */
    void (*graph)(const struct yk_model *m, struct yk_events *events);
};

#define YK_MODELS(X) X(softmax) X(logreg)

extern const struct yk_model_ops yk_model_net; /* of every net, under any name */

const struct yk_model_ops *yk_model_find(const char *name); /* NULL if there is none */
const struct yk_model_ops *yk_model_at(unsigned i);         /* NULL past the end */

#endif
