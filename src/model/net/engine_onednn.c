/* engine_onednn.c - the engine "onednn": a segment as a chain of kernel/onednn.h. It computes layer
 * after layer, all images of the pass at a time, and the sink is told of each layer's gradients
 * when they are done. The chain's input and output are the borders. */
#include "base/clock.h"
#include "kernel/onednn.h"
#include "model/net/net_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct onednn_state {
    const struct yk_net_model *model;
    struct yk_segment segment;
    struct yk_dnn *dnn;
    uint32_t images;
    unsigned threads;
    bool first;               /* the first segment of the net, which reads images */
    bool *correct;            /* (images) */
    float *input;             /* of the chain, (images, c, h, w) */
    float *output;            /* (images, c, h, w) */
    float *grad;              /* of the output; NULL without training */
    bool channels_last;       /* the input is (images, h, w, c) */
    struct yk_net_pass *pass; /* the current one */
    struct yk_dnn_pass dnn_pass;
};

/* What a layer is to oneDNN; kinds that are not listed, conv apart, are 0 and refused by takes. */
static const enum yk_dnn_kind KIND[YK_LAYER_COUNT] = {
    [YK_LAYER_conv] = YK_DNN_CONV,       [YK_LAYER_maxpool] = YK_DNN_MAXPOOL,
    [YK_LAYER_avgpool] = YK_DNN_AVGPOOL, [YK_LAYER_dense] = YK_DNN_DENSE,
    [YK_LAYER_relu] = YK_DNN_RELU,       [YK_LAYER_tanh] = YK_DNN_TANH,
    [YK_LAYER_sigmoid] = YK_DNN_SIGMOID, [YK_LAYER_lrn] = YK_DNN_LRN,
    [YK_LAYER_dropout] = YK_DNN_DROPOUT, [YK_LAYER_flatten] = YK_DNN_FLATTEN,
    [YK_LAYER_softmax] = YK_DNN_FLATTEN, [YK_LAYER_batchnorm] = YK_DNN_BATCHNORM,
};

static void describe(const struct yk_layer *l, const struct yk_net_place *p,
                     const struct yk_net_how *how, uint64_t index, struct yk_dnn_layer *out)
{
    *out = (struct yk_dnn_layer){
        .kind = KIND[l->kind],
        .name = l->name,
        .in = {l->in.c, l->in.h, l->in.w},
        .out = {l->out.c, l->out.h, l->out.w},
        .groups = l->groups,
        .bias = l->bias,
        .rate = l->rate,
        .key = index,
        .size = l->size,
        .alpha = l->alpha,
        .beta = l->beta,
        .k = l->k,
        .momentum =
            1 - (1 - l->momentum) / (float)(how->async_workers > 0 ? how->async_workers : 1),
        .eps = l->eps,
        .weight = p->weight,
        .bias_at = p->bias,
        .mean = p->mean,
        .var = p->var};
    memcpy(out->kernel, l->kernel, sizeof out->kernel);
    memcpy(out->stride, l->stride, sizeof out->stride);
    memcpy(out->pad, l->pad, sizeof out->pad);
}

static void state_close(void *state)
{
    struct onednn_state *p = state;
    if (p == NULL)
        return;
    yk_dnn_close(p->dnn);
    free(p->correct);
    free(p);
}

static yk_code takes(const struct yk_net *net, unsigned layer, struct yk_error *e)
{
    const struct yk_layer *l = &net->layer[layer];
    if (KIND[l->kind] == YK_DNN_CONV && l->kind != YK_LAYER_conv)
        return yk_fail(e, YK_USAGE, "the engine 'onednn' cannot compute %s (layer '%s')",
                       yk_layer_name(l->kind), l->name);
    return YK_OK;
}

static yk_code state_open(void **out, const struct yk_net_model *m,
                          const struct yk_segment *segment, uint32_t images, bool train,
                          unsigned threads, const struct yk_kernels *kernels,
                          struct yk_net_border *before, struct yk_net_border *behind,
                          struct yk_error *e)
{
    yk_dnn_limit(kernels->name);
    unsigned layers = segment->to - segment->from;
    struct onednn_state *p = calloc(1, sizeof *p);
    struct yk_dnn_layer *layer = calloc(layers, sizeof *layer);
    yk_code rc = YK_OK;
    if (p == NULL || layer == NULL) {
        rc = yk_fail_memory(e, layers * sizeof *layer);
        goto out;
    }
    p->model = m;
    p->segment = *segment;
    p->images = images;
    p->threads = threads;
    p->first = before == NULL;
    p->correct = calloc(images, sizeof *p->correct);
    if (p->correct == NULL) {
        rc = yk_fail_memory(e, images * sizeof *p->correct);
        goto out;
    }
    for (unsigned i = 0; i < layers; i++)
        describe(&m->net->layer[segment->from + i], &m->place[segment->from + i], &m->how,
                 segment->from + i, &layer[i]);
    rc = yk_dnn_open(&p->dnn, layer, layers, images, train, !p->first, threads, e);
    if (rc != YK_OK)
        goto out;
    p->input = yk_dnn_input(p->dnn, &p->channels_last);
    p->output = yk_dnn_output(p->dnn);
    p->grad = train ? yk_dnn_output_grad(p->dnn) : NULL;
    if (before != NULL)
        *before = (struct yk_net_border){.value = p->input,
                                         .grad = train ? yk_dnn_input_grad(p->dnn) : NULL};
    if (behind != NULL)
        *behind = (struct yk_net_border){.value = p->output, .grad = p->grad};
out:
    free(layer);
    if (rc != YK_OK)
        state_close(p);
    else
        *out = p;
    return rc;
}

/* Image i of the pass as floats, in the layout that the first layer wants; images beyond the batch
 * are black. */
static void load(void *arg, uint32_t i)
{
    const struct onednn_state *p = arg;
    const struct yk_net_model *m = p->model;
    const struct yk_shape in = m->net->input;
    size_t pixels = (size_t)in.h * in.w, features = pixels * in.c;
    float *to = p->input + i * features;
    if (i >= p->pass->n) {
        memset(to, 0, features * sizeof *to);
        return;
    }
    const uint8_t *from = yk_batch_image(p->pass->batch, p->pass->first + i);
    if (!p->channels_last) {
        for (uint32_t c = 0; c < in.c; c++) {
            float scale = m->scale[c % YK_NET_CHANNELS], shift = m->shift[c % YK_NET_CHANNELS];
            for (size_t k = 0; k < pixels; k++)
                to[c * pixels + k] = (float)from[k * in.c + c] * scale + shift;
        }
        return;
    }
    for (size_t k = 0; k < pixels; k++)
        for (uint32_t c = 0; c < in.c; c++)
            to[k * in.c + c] = (float)from[k * in.c + c] * m->scale[c % YK_NET_CHANNELS] +
                               m->shift[c % YK_NET_CHANNELS];
}

static void compute_loss(void *arg, uint32_t i)
{
    const struct onednn_state *p = arg;
    const struct yk_net_model *m = p->model;
    const struct yk_net_pass *x = p->pass;
    uint32_t classes = m->net->classes;
    bool train = x->grad != NULL;
    float *z = p->output + (size_t)i * classes, *to = z; /* in place: z is not read again */
    if (train)
        to = p->grad + (size_t)i * classes;
    else if (x->prob != NULL)
        to = x->prob + (size_t)i * classes;
    if (i >= x->n) {
        memset(to, 0, classes * sizeof *to);
        return;
    }
    if (to != z)
        memcpy(to, z, classes * sizeof *to);
    x->per_image_loss[i] =
        yk_net_loss(to, classes, x->batch->set->labels[x->batch->row[x->first + i]],
                    train ? m->how.label_smoothing : 0, train, &p->correct[i]);
}

static bool layer_needs(void *arg, unsigned layer)
{
    struct onednn_state *p = arg;
    p->pass->given_up = !yk_net_need(p->model, p->pass->sink, p->segment.from + layer);
    return !p->pass->given_up;
}

static void layer_done(void *arg, unsigned layer)
{
    const struct onednn_state *p = arg;
    if (p->pass->sink != NULL)
        yk_net_ready(p->model, p->pass->sink, p->segment.from + layer);
}

/* Loading images is timed as part of the first layer, computing the loss as part of the last. */
static void run_timed(struct onednn_state *p, uint32_t n, void (*job)(void *arg, uint32_t i),
                      unsigned layer)
{
    const struct yk_net_pass *x = p->pass;
    double then = x->seconds != NULL ? yk_thread_seconds() : 0;
    yk_dnn_each(p->threads, n, job, p);
    if (x->seconds != NULL)
        x->seconds[layer] += yk_thread_seconds() - then;
}

static void forward(void *state, struct yk_net_pass *x)
{
    struct onednn_state *p = state;
    p->pass = x;
    p->dnn_pass =
        (struct yk_dnn_pass){.params = x->params->flat,
                             .grad = x->grad,
                             .n = x->n,
                             .row = x->batch->row + x->first,
                             .seed = p->model->how.seed,
                             .epoch = x->batch->epoch,
                             .seconds = x->seconds != NULL ? x->seconds + p->segment.from : NULL,
                             .need = x->sink != NULL ? layer_needs : NULL,
                             .done = layer_done,
                             .arg = p};
    if (p->first)
        run_timed(p, p->images, load, p->segment.from);
    x->failed = !yk_dnn_forward(p->dnn, &p->dnn_pass) || x->failed;
}

static void backward(void *state, struct yk_net_pass *x)
{
    struct onednn_state *p = state;
    x->failed = !yk_dnn_backward(p->dnn, &p->dnn_pass) || x->failed;
}

static void run(void *state, struct yk_net_pass *x)
{
    struct onednn_state *p = state;
    forward(p, x);
    if (x->given_up)
        return;
    run_timed(p, x->grad != NULL ? p->images : x->n, compute_loss, p->segment.to - 1);
    for (uint32_t i = 0; i < x->n; i++)
        x->correct += p->correct[i];
    if (x->grad != NULL)
        backward(p, x);
}

static size_t facts(const void *state, char *text, size_t room)
{
    const struct onednn_state *p = state;
    struct yk_dnn_facts f;
    yk_dnn_facts(p->dnn, &f);
    snprintf(text, room, "%u primitives, %u reorders of activations and %u of weights",
             f.primitives, f.reorders, f.weight_reorders);
    return f.bytes;
}

const struct yk_engine yk_engine_onednn = {.name = "onednn",
                                           .flops_most = INFINITY,
                                           .weights_most = INFINITY,
                                           .unit = 1,
                                           .takes = takes,
                                           .open = state_open,
                                           .close = state_close,
                                           .forward = forward,
                                           .backward = backward,
                                           .run = run,
                                           .facts = facts};
