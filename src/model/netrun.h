/* netrun.h - what the files that run nets share.
 *
 *     netrun.c         the model: steps and scores
 *     netrun_start.c   where the parameters lie, and their starting values
 *     netrun_choose.c  which engine computes which layers
 *     netrun_plan.c    a plan: the threads and their shares of the images, the engines one after the other
 *     netrun_dnn.c     the engine "onednn": layer after layer, all images of a share at a time
 *     netrun_lanes.c   the engine "lanes": 16 images after 16 images, all layers at a time
 *     netrun_graph.c   the graph that TensorBoard draws
 *
 * The layers of a net are cut into *runs*, each computed by one engine; most nets have one run, some a cut where another engine becomes the faster
 * one. An engine makes a *segment* of a run: all that it needs to take a number of images through those layers, forward and back. */
#ifndef YK_MODEL_NETRUN_H
#define YK_MODEL_NETRUN_H

#include "kernel/kernel.h"
#include "model/model.h"
#include "model/net.h"

/* Where a layer's parameters lie in the flat buffer. */
struct yk_net_place {
    size_t weight, bias, mean, var; /* those that its kind has */
    unsigned
        ranges; /* what is ready when its gradients are: mostly one, the gaps behind views included */
    struct {
        size_t lo, hi;
    } range[4];
};

struct yk_engine;

/* Layers from .. to - 1 of a net. */
struct yk_net_run {
    const struct yk_engine *engine;
    unsigned from, to;
};

/* What computes a net: runs in their order, the first from layer 0 and the last to the loss; neighbours have different engines. */
enum { YK_NET_RUNS = 2 };
struct yk_net_choice {
    char name[16]; /* "lanes"; "lanes:4": the first 4 layers, the others on the other engine */
    unsigned runs;
    struct yk_net_run run[YK_NET_RUNS];
};

struct yk_model {
    const struct yk_net *net;
    struct yk_net_how how;
    struct yk_net_choice choice;
    struct yk_net_place *place; /* (layers) */
    size_t count;               /* floats of a gradient buffer */
    bool
        whole; /* has batch norm: a plan is for exactly as many images as it computes, in one share */
    float scale[YK_NET_CHANNELS],
        shift[YK_NET_CHANNELS]; /* x = pixel * scale + shift, by channel */
};

/* A pass of some images through a segment, or through all of a plan. */
struct yk_netpass {
    const struct yk_params *params;
    const struct yk_batch *batch;
    uint32_t first,
        n;       /* examples first .. first + n - 1 of the batch; n is at most the plan's images */
    float *grad; /* (count) flat; NULL: forward only, in inference mode */
    struct yk_sink *
        sink; /* is told which gradients are complete; NULL: they are not yet, there are other shares */
    float *prob;     /* (n, classes) unless NULL; forward only */
    double *seconds; /* (layers) CPU time of the first share's thread is added; NULL: nobody asks */
    double *each;    /* (n) out: the loss of each image */
    uint32_t correct; /* out: images are added */
    bool failed;      /* out: nothing can be said of the numbers, */
    bool given_up;    /* because the sink does not want them any more */
};

/* Between two runs: activations and their gradients, (images, c, h, w). It is the memory of the engine that has it in this layout anyway. */
struct yk_net_border {
    float *value, *grad;
};

struct yk_net_segment;

struct yk_engine {
    const char *name;
    /* Runs of more than so many operations an image, forward, or layers of more weights are not worth measuring. */
    double flops_most, weights_most;
    uint32_t unit; /* images that it computes at a time at least; shares are multiples of it */
    /* YK_USAGE if it cannot compute the layer. */
    yk_code (*takes)(const struct yk_net *net, unsigned layer, struct yk_error *e);
    /* A segment for shares of up to `images`, on `threads` threads if the engine has threads. `in` and `out` are the borders, NULL at the ends of the net: an
     * engine that has memory there says so now, the others read in a pass where that is. */
    yk_code (*open)(struct yk_net_segment **out, const struct yk_model *m,
                    const struct yk_net_run *run, uint32_t images, bool train, unsigned threads,
                    const struct yk_kernels *kernels, struct yk_net_border *before,
                    struct yk_net_border *behind, struct yk_error *e);
    void (*close)(struct yk_net_segment *s); /* NULL is fine */
    /* To the border, or with the last run to the loss and its gradient. */
    void (*forward)(struct yk_net_segment *s, struct yk_netpass *x);
    /* From there back; the sink is told of every layer. */
    void (*backward)(struct yk_net_segment *s, struct yk_netpass *x);
    size_t (*facts)(const struct yk_net_segment *s, char *text,
                    size_t room); /* "4 reorders"; returns bytes */
};
#define YK_ENGINES(X) X(onednn) X(lanes)
#define YK_ENGINE_DECLARE(name) extern const struct yk_engine yk_engine_##name;
YK_ENGINES(YK_ENGINE_DECLARE)

/* netrun.c: the parameters of a layer are about to be read (false: give the step up); its gradients are complete. */
bool yk_net_need(const struct yk_model *m, struct yk_sink *sink, unsigned layer);
void yk_net_ready(const struct yk_model *m, struct yk_sink *sink, unsigned layer);
/* One example: z becomes softmax(z) - target, or with `grad` false softmax(z). Returns the loss; *correct: the first largest z is the label's. */
double yk_net_loss(float *z, uint32_t classes, uint32_t label, float smoothing, bool grad,
                   bool *correct);

/* netrun_plan.c: plans for steps (`train`) or scores of at most so many images. */
struct yk_netplan;
yk_code yk_netplan_open(struct yk_netplan **out, const struct yk_model *m,
                        const struct yk_net_choice *choice, uint32_t images, bool train,
                        unsigned threads, const struct yk_kernels *kernels, struct yk_error *e);
void yk_netplan_close(struct yk_netplan *p); /* NULL is fine */
/* The summed loss; NAN if an engine failed. `x` needs no grad and no each: the sink's and the plan's are taken. */
double yk_netplan_pass(struct yk_netplan *p, struct yk_netpass *x);
void yk_netplan_facts(const struct yk_netplan *p, char *text, size_t room);

/* netrun_choose.c: yk_model_ops.engine */
yk_code yk_net_choose(struct yk_model *m, const struct yk_params *params, const char *name,
                      uint32_t batch, unsigned threads, const char *isa, const char **chosen,
                      char said[256], struct yk_error *e);
void yk_net_choice_init(struct yk_net_choice *c,
                        const struct yk_net *net); /* the first engine, all layers */

/* netrun_start.c */
yk_code yk_net_layout(struct yk_model *m, struct yk_params *params, uint64_t seed,
                      struct yk_error *e);
/* netrun_graph.c */
void yk_net_graph(const struct yk_model *m, struct yk_events *events);

#endif
