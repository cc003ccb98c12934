/* sink.h - where gradients leave a model: range by range, as they are finished.
 * A model writes into `grad` and calls `ready`; a strategy implements it by applying the range at once or by sending it. One that says so
 * (model.h) also asks for parameters, range by range, before it reads them: those that it needs later may still be on their way. */
#ifndef YK_PARAM_SINK_H
#define YK_PARAM_SINK_H

#include <stdbool.h>
#include <stddef.h>

struct yk_sink {
    float *
        grad; /* (params->count) where the model writes its gradients, laid out as the parameters */
    /* grad[lo, hi) is complete, and the model reads params[lo, hi) no more in this step. May apply or send it; called from the
     * thread that called step. */
    void (*ready)(struct yk_sink *s, size_t lo, size_t hi);
    /* Wait until params[lo, hi) are here. False: this step is not to be done after all, so return as soon as you can, whatever the numbers
     * are. NULL: they are all here. From the thread that called step, and before any gradient is written. */
    bool (*need)(struct yk_sink *s, size_t lo, size_t hi);
};

static inline bool yk_sink_need(struct yk_sink *s, size_t lo, size_t hi)
{
    return s->need == NULL || s->need(s, lo, hi);
}

#endif
