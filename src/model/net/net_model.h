/* net_model.h - what the files that compute nets share.
 *
 *     net_model.c       the model: steps and scores
 *     net_start.c       where the parameters lie, and their starting values
 *     net_plan.c        a plan: threads with images of their own, and engines in turn
 *     engine_choose.c   which engine computes which layers
 *     engine_onednn.c   the engine "onednn": layer after layer, all images of a thread at a time
 *     engine_batch16.c  the engine "lanes": 16 images after 16 images, all layers at a time
 *     net_graph.c       the graph that TensorBoard draws
 *
 * The layers of a net are cut into *segments*, each computed by one engine; most nets have one
 * segment, some a cut where another engine becomes the faster one. A *plan* is what it takes to
 * compute a number of images: threads, and the state that engines keep for their segments. A *pass*
 * takes images through a plan, forward only or forward and back. */
#ifndef YK_MODEL_NET_NET_MODEL_H
#define YK_MODEL_NET_NET_MODEL_H

#include "kernel/kernel.h"
#include "model/model.h"
#include "model/net/net.h"

/* Where a layer's parameters lie in the flat buffer. */
struct yk_net_place {
    size_t weight, bias, mean, var; /* those that its kind has */
    unsigned ranges;                /* mostly one, since its views are neighbours */
    struct {
        size_t lo, hi;
    } range[4]; /* its parameters, and the gaps behind them */
};

struct yk_engine;

/* Layers from .. to - 1 of a net, and the engine that computes them. */
struct yk_segment {
    const struct yk_engine *engine;
    unsigned from, to;
};

/* All layers of a net in their order; neighbours have different engines. */
enum { YK_SEGMENTS = 2 };
struct yk_segments {
    char name[16]; /* "lanes"; "lanes:4": the first 4 layers, the others on the other engine */
    unsigned n;
    struct yk_segment at[YK_SEGMENTS];
};

struct yk_net_model {
    const struct yk_net *net;
    struct yk_net_how how;
    struct yk_segments segments; /* of plans for steps and scores */
    struct yk_net_place *place;  /* (layers) */
    size_t count;                /* floats of a gradient buffer */
    /* has batch norm: a plan for steps is for an exact number of images, on oneDNN's threads */
    bool whole;
    /* x = pixel * scale + shift, by channel */
    float scale[YK_NET_CHANNELS], shift[YK_NET_CHANNELS];
};

/* A pass of some images through a segment, or through all of a plan. */
struct yk_net_pass {
    const struct yk_params *params;
    const struct yk_batch *batch;
    uint32_t first, n; /* examples first .. first + n - 1 of the batch; at most the plan's images */
    float *grad;       /* (count) flat; NULL: forward only, in inference mode */
    /* is told which gradients are complete; NULL if other threads have parts of them */
    struct yk_sink *sink;
    float *prob;            /* (n, classes) unless NULL; forward only */
    double *seconds;        /* (layers) CPU time of the first thread is added; NULL: not wanted */
    double *per_image_loss; /* (n) out */
    uint32_t correct;       /* out: the number of right answers is added */
    bool failed;            /* out: the numbers mean nothing */
    bool given_up;          /* out: the sink ended the step, and the numbers mean nothing */
};

/* Between two segments: activations and their gradients, (images, c, h, w). The memory belongs to
 * the engine on either side that uses this layout anyway. */
struct yk_net_border {
    float *value, *grad;
};

/* An engine computes segments. Its state is for one segment and one thread, which calls all
 * functions; a pass allocates nothing. */
struct yk_engine {
    const char *name;
    double flops_most;   /* segments with more operations per image, forward, are not measured */
    double weights_most; /* segments that have a layer with more weights are not measured */
    uint32_t unit;       /* images that it computes together; threads get multiples of it */
    /* YK_USAGE if it cannot compute the layer. */
    yk_code (*takes)(const struct yk_net *net, unsigned layer, struct yk_error *e);
    /* A state for passes of up to `images`, on `threads` threads if the engine has threads. A
     * border is NULL at an end of the net. An engine whose memory a border is fills it in now; the
     * other engine reads it in a pass. */
    yk_code (*open)(void **state, const struct yk_net_model *m, const struct yk_segment *segment,
                    uint32_t images, bool train, unsigned threads, const struct yk_kernels *kernels,
                    struct yk_net_border *before, struct yk_net_border *behind, struct yk_error *e);
    void (*close)(void *state); /* NULL is fine */
    /* A segment before the border: forward to it, and later back from the gradient there. The sink
     * is told of every layer. */
    void (*forward)(void *state, struct yk_net_pass *x);
    void (*backward)(void *state, struct yk_net_pass *x);
    /* The last segment: forward, loss and, in training, back. */
    void (*run)(void *state, struct yk_net_pass *x);
    size_t (*facts)(const void *state, char *text, size_t room); /* "4 reorders"; returns bytes */
};
#define YK_ENGINES(X) X(onednn) X(batch16)
#define YK_ENGINE_DECLARE(name) extern const struct yk_engine yk_engine_##name;
YK_ENGINES(YK_ENGINE_DECLARE)

/* net_model.c: the parameters of a layer are about to be read (false: give the step up). */
bool yk_net_need(const struct yk_net_model *m, struct yk_sink *sink, unsigned layer);
/* The gradients of a layer are complete. */
void yk_net_ready(const struct yk_net_model *m, struct yk_sink *sink, unsigned layer);
/* One example: z becomes softmax(z) - target, or with `grad` false softmax(z). Returns the loss;
 * *correct: the first largest z is the label's. */
double yk_net_loss(float *z, uint32_t classes, uint32_t label, float smoothing, bool grad,
                   bool *correct);

/* net_plan.c: plans for steps (`train`) or scores of at most so many images. */
struct yk_net_plan;
yk_code yk_net_plan_open(struct yk_net_plan **out, const struct yk_net_model *m,
                         const struct yk_segments *segments, uint32_t images, bool train,
                         unsigned threads, const struct yk_kernels *kernels, struct yk_error *e);
void yk_net_plan_close(struct yk_net_plan *p); /* NULL is fine */
/* The summed loss; NAN if an engine failed. The caller leaves x->grad and x->per_image_loss NULL:
 * gradients go to the sink's buffer, losses of images to the plan's. */
double yk_net_plan_pass(struct yk_net_plan *p, struct yk_net_pass *x);
void yk_net_plan_facts(const struct yk_net_plan *p, char *text, size_t room);

/* engine_choose.c: yk_model_ops.engine. yk_segments_init puts all layers on the first engine. */
yk_code yk_engine_choose(struct yk_model *model, const struct yk_params *params, const char *name,
                         uint32_t batch, unsigned threads, const char *isa, const char **chosen,
                         char message[256], struct yk_error *e);
void yk_segments_init(struct yk_segments *s, const struct yk_net *net);

/* net_start.c */
yk_code yk_net_layout(struct yk_model *model, struct yk_params *params, uint64_t seed,
                      struct yk_error *e);
/* net_graph.c */
void yk_net_graph(const struct yk_model *model, struct yk_events *events);

#endif
