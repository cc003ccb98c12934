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

struct yk_score { /* of an evaluation, summed over batches */
    double loss;
    uint64_t examples;
    uint64_t correct;
};

struct yk_model;
struct yk_work;

struct yk_model_ops {
    const char *name;
    const char *help;
    bool packed;                 /* wants its data without background: see yk_dataset_pack */
    const char *const *defaults; /* option, value, option, value, ..., NULL: used where the user says nothing */

    /* A model for data of this shape. YK_USAGE names both shapes if they do not fit. */
    yk_code (*open)(struct yk_model **out, const struct yk_dataset *shape, struct yk_error *e);
    void (*close)(struct yk_model *m);

    /* Lay out the parameters and give them their starting values by `seed`. Called once, before any step. */
    yk_code (*layout)(struct yk_model *m, struct yk_params *params, uint64_t seed, struct yk_error *e);

    /* A worker's buffers and helper threads, on kernels of instruction set `isa` ("auto"). */
    yk_code (*work_open)(struct yk_work **out, const struct yk_model *m, unsigned threads, const char *isa, struct yk_error *e);
    void (*work_close)(struct yk_work *w);

    /* Threads that a step over `batch` examples keeps busy: the rest of the machine is free for other things. */
    unsigned (*busy)(const struct yk_work *w, uint32_t batch);

    /* The summed loss of a batch; all gradients have passed through the sink when it returns. Allocates nothing. */
    double (*step)(struct yk_work *w, const struct yk_params *params, const struct yk_batch *batch, struct yk_sink *sink);

    /* Add a batch to `score`; class probabilities (n, classes) to `prob` unless it is NULL. Allocates nothing. */
    void (*score)(struct yk_work *w, const struct yk_params *params, const struct yk_batch *batch, struct yk_score *score,
                  float *prob);

    /* The graph that TensorBoard draws, for a batch of any size. */
    void (*graph)(const struct yk_model *m, struct yk_events *events);
};

#define YK_MODELS(X) X(softmax)

const struct yk_model_ops *yk_model_find(const char *name); /* NULL if there is none */
const struct yk_model_ops *yk_model_at(unsigned i);         /* NULL past the end */

#endif
