/* model.h - batch + parameters -> loss + gradients.
 *
 * A *model* is a description, fixed once its layout is made: any number of threads may share it. What a thread needs to
 * compute with it (buffers, helper threads) is a *work*, one per worker. Gradients leave through a *sink* as they are finished, so that
 * whoever owns the parameters can send or apply them while earlier layers still compute.
 *
 * All losses and gradients are *sums* over examples; whoever applies them divides once. */
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

/* How the scores z of examples with label 0 and 1 are spread: bin i of YK_BINS has those in [lowest + i width, lowest + (i + 1)
 * width), the first and the last also all that lie beyond. 1 MB, whatever the number of examples. */
enum { YK_BINS = 1 << 16, YK_BINS_LOWEST = -16, YK_BINS_PER_UNIT = 1 << 11 };
struct yk_bins {
    uint64_t n[2][YK_BINS]; /* by label */
};

struct yk_score { /* of an evaluation, summed over batches */
    double loss;
    uint64_t examples;
    uint64_t correct;
    /* Two classes with a threshold, else 0: predicted and labelled 1, predicted only, labelled only. */
    uint64_t true_positives, false_positives, false_negatives;
    struct yk_bins
        *bins; /* the caller's, zeroed at first; NULL: not wanted. Two-class models only */
};

/* The area under the ROC curve: the share of pairs (label 1, label 0) in which the first has the higher score, ties counting half. Pairs
 * within one bin count half too, so the answer is wrong by at most *error = half the share of such pairs. NAN if one label is missing. */
double yk_score_auc(const struct yk_score *s, double *error);
double yk_score_precision(const struct yk_score *s); /* NAN if nothing was predicted to be 1 */
double yk_score_recall(const struct yk_score *s);    /* NAN if nothing was labelled 1 */

struct yk_model;
struct yk_work;
struct yk_net;    /* net.h */
struct yk_update; /* optim/optim.h; a model only passes it on */

/* Slot space: a sparse model computes with a handful of keys, the flat indices of the parameters that some rows touch. Slot i
 * stands for key[i]. */
struct yk_keys {
    const uint32_t *key; /* (n) ascending, unique */
    uint32_t n;
};

enum { YK_SWEEP_SLOTS = 4 }; /* at least as many state vectors as an optimizer keeps */

/* Many steps at one go, by the only process there is, on its own parameters. */
struct yk_sweep {
    const struct yk_rows *rows;
    const uint32_t *order; /* (count) row numbers; NULL: first, first + 1, ... */
    uint64_t first;
    uint64_t count;              /* rows: steps of `batch`, the last one may have fewer */
    uint32_t batch;              /* >= 1 */
    float *w;                    /* all flat parameters, */
    float *slot[YK_SWEEP_SLOTS]; /* and the optimizer's state, as long */
    unsigned slots;

    /* The optimizer's functions (optim.h). `lazy`: regularisation or momentum is owed to keys that were not touched for a while,
     * so values are read by read_keys and updated by apply_keys; otherwise values are what they are, and apply does the same as
     * apply_keys. */
    bool lazy;
    void (*apply)(const struct yk_update *u, float *w, const float *g, float *const *slot,
                  size_t n);
    void (*apply_keys)(const struct yk_update *u, float *w, float *const *slot, uint32_t base,
                       const uint32_t *key, const float *g, size_t n);
    void (*read_keys)(const struct yk_update *u, const float *w, float *const *slot, uint32_t base,
                      const uint32_t *key, float *out, size_t n);
    /* The update number `step` of this sweep (0 for the first), of `rows` rows: rate, scale = 1/rows, steps before it. Called once
     * a step; several threads call it at a time, each with its own number, and use what it returns until they call again. */
    const struct yk_update *(*update)(void *arg, unsigned thread, uint64_t step, uint32_t rows);
    void *arg;

    double loss; /* out: of each row before the step that it is part of, summed */
};

/* What a net wants to know besides its file and the shape of the data. */
struct yk_net_how {
    uint64_t seed;         /* of dropout; that of the starting values is layout's */
    float label_smoothing; /* s: the target is 1 - s at the label, plus s / classes everywhere */
    unsigned
        crowd; /* workers of which each pushes when it likes, else 1; 0 is 1: running statistics move by 1 / crowd at a push */
};

struct yk_model_ops {
    const char *name;
    const char *help;
    bool packed; /* wants its data without background: see yk_dataset_pack */
    bool asks;   /* step asks its sink for the parameters of a layer before it reads them */
    const char *const
        *defaults; /* option, value, option, value, ..., NULL: used where the user says nothing */

    /* A model for data of this shape. YK_USAGE names both shapes if they do not fit. */
    yk_code (*open)(struct yk_model **out, const struct yk_dataset *shape, struct yk_error *e);
    void (*close)(struct yk_model *m);
    /* Nets have this instead of open, and what their file says before defaults. `net` is the caller's, and lives as long as the model. */
    yk_code (*open_net)(struct yk_model **out, const struct yk_net *net,
                        const struct yk_net_how *how, const struct yk_dataset *shape,
                        struct yk_error *e);

    /* Lay out the parameters and give them their starting values by `seed`. Called once, before any step. */
    yk_code (*layout)(struct yk_model *m, struct yk_params *params, uint64_t seed,
                      struct yk_error *e);

    /* A worker's buffers and helper threads, on kernels of instruction set `isa` ("auto"). */
    yk_code (*work_open)(struct yk_work **out, const struct yk_model *m, unsigned threads,
                         const char *isa, struct yk_error *e);
    void (*work_close)(struct yk_work *w);
    /* Nets, NULL for others. Choose what computes: an engine's name, "lanes:4" for one on the first layers and the other behind, or "auto" for what makes
     * a step of `batch` examples fastest, which takes a tenth of a second to find out. Between layout and the first work_open; without it works
     * take the first engine. `chosen` is the model's; `said` gets a sentence on why. */
    yk_code (*engine)(struct yk_model *m, const struct yk_params *params, const char *name,
                      uint32_t batch, unsigned threads, const char *isa, const char **chosen,
                      char said[256], struct yk_error *e);
    /* Nets, NULL for others. Plan for steps (`train`) or scores of up to `batch` examples, so that the first takes no longer than the others; without
     * it the first one plans. `said` gets a sentence on the plan. */
    yk_code (*prepare)(struct yk_work *w, uint32_t batch, bool train, char said[256],
                       struct yk_error *e);

    /* Threads that a step over `batch` examples keeps busy: the rest of the machine is free for other things. */
    unsigned (*busy)(const struct yk_work *w, uint32_t batch);

    /* The summed loss of a batch; all gradients have passed through the sink when it returns. Allocates nothing. */
    double (*step)(struct yk_work *w, const struct yk_params *params, const struct yk_batch *batch,
                   struct yk_sink *sink);

    /* Add a batch to `score`; class probabilities (n, classes) to `prob` unless it is NULL. Allocates nothing. */
    void (*score)(struct yk_work *w, const struct yk_params *params, const struct yk_batch *batch,
                  struct yk_score *score, float *prob);

    /* For sparse models, NULL for the others; then layout leaves params->flat NULL, all starting values being 0, and step and
     * score compute in slot space: params->flat[i], sink->grad[i] and ready(0, n) mean the slots of the plan that was last chosen. */

    /* Prepare plan `which` (0 or 1: one may be prepared while the other is in use) for the shards of a task: out->key is valid until the
     * plan is made again. Memory grows with the largest task, and stays. */
    yk_code (*keys)(struct yk_work *w, unsigned which, const struct yk_batch *shard,
                    uint32_t shards, struct yk_keys *out, struct yk_error *e);
    /* The next step or score is that of shard `shard` (from 0) of plan `which`. */
    void (*choose)(struct yk_work *w, unsigned which, uint32_t shard);
    /* Train. With one thread the bits are those of the same steps in slot space, one shard each; with several, rows are dealt to
     * them and they update the parameters without waiting for each other, which is worth it from some 10,000 rows a sweep on. A
     * lazy sweep takes one thread. */
    yk_code (*sweep)(struct yk_work *w, struct yk_sweep *s, struct yk_error *e);

    /* Write it, trained, as an ONNX graph (see onnx_net.h). NULL: it has none. */
    yk_code (*onnx)(const struct yk_model *m, const struct yk_params *params, const char *path,
                    struct yk_error *e);

    /* The graph that TensorBoard draws, for a batch of any size. */
    void (*graph)(const struct yk_model *m, struct yk_events *events);
};

#define YK_MODELS(X) X(softmax) X(logreg)

extern const struct yk_model_ops yk_model_net; /* netrun.c: of every net, whatever its name */

const struct yk_model_ops *yk_model_find(const char *name); /* NULL if there is none */
const struct yk_model_ops *yk_model_at(unsigned i);         /* NULL past the end */

#endif
