/* sink.h - takes gradients from a model range by range, as they are finished.
 *
 * A model writes into `grad` and calls `ready`; the strategy behind the sink applies the range at
 * once or sends it. Some models (see model.h) also call `need` before they read a range of the
 * parameters, because parameters that are needed later may still be on their way. */
#ifndef YK_PARAM_SINK_H
#define YK_PARAM_SINK_H

#include <stdbool.h>
#include <stddef.h>

struct yk_sink {
    /* (params->count) gradients, laid out as the parameters */
    float *grad;
    /* Tells that grad[lo, hi) is complete and that the model does not read params[lo, hi) again in
     * this step. May apply or send the range. Called from the thread that called step. */
    void (*ready)(struct yk_sink *s, size_t lo, size_t hi);
    /* Waits until params[lo, hi) have arrived. False: the step is cancelled, so the model returns
     * as soon as it can, with any numbers. NULL: all parameters are here. Called from the thread
     * that called step, before any gradient is written. */
    bool (*need)(struct yk_sink *s, size_t lo, size_t hi);
};

static inline bool yk_sink_need(struct yk_sink *s, size_t lo, size_t hi)
{
    return s->need == NULL || s->need(s, lo, hi);
}

#endif
