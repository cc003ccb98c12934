/* sink.h - where gradients leave a model: range by range, as they are finished.
 * A model writes into `grad` and calls `ready`; a strategy implements it by applying the range at once or by sending it. */
#ifndef YK_PARAM_SINK_H
#define YK_PARAM_SINK_H

#include <stddef.h>

struct yk_sink {
    float *grad; /* (params->count) where the model writes its gradients, laid out as the parameters */
    /* grad[lo, hi) is complete, and the model reads params[lo, hi) no more in this step. May apply or send it; called from the
     * thread that called step. */
    void (*ready)(struct yk_sink *s, size_t lo, size_t hi);
};

#endif
