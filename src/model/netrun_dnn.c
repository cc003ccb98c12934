/* netrun_dnn.c - the engine "onednn": a run of layers as a chain of kernel/onednn.h. Layer after layer, all images of the share at a time; every layer's
 * gradients leave when they are done. Its chain's input and output are the memory at the borders. */
#include "base/clock.h"
#include "kernel/onednn.h"
#include "model/netrun.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct yk_net_segment {
    const struct yk_model *model;
    struct yk_net_run run;
    struct yk_dnn *dnn;
    uint32_t images;
    unsigned threads;
    bool first, last; /* of the net: reads images, has the loss */
    bool *correct;    /* (images) */
    /* of the pass under way */
    struct yk_netpass *pass;
    struct yk_dnn_pass dnn_pass;
    float *input, *output, *grad;
    bool channels_last;
};

static void describe(const struct yk_layer *l, const struct yk_net_place *p,
                     const struct yk_net_how *how, uint64_t index, struct yk_dnn_layer *out)
{
    static const enum yk_dnn_kind KIND[YK_LAYER_COUNT] = {
        [YK_LAYER_conv] = YK_DNN_CONV,       [YK_LAYER_maxpool] = YK_DNN_MAXPOOL,
        [YK_LAYER_avgpool] = YK_DNN_AVGPOOL, [YK_LAYER_dense] = YK_DNN_DENSE,
        [YK_LAYER_relu] = YK_DNN_RELU,       [YK_LAYER_tanh] = YK_DNN_TANH,
        [YK_LAYER_sigmoid] = YK_DNN_SIGMOID, [YK_LAYER_lrn] = YK_DNN_LRN,
        [YK_LAYER_dropout] = YK_DNN_DROPOUT, [YK_LAYER_flatten] = YK_DNN_FLATTEN,
        [YK_LAYER_softmax] = YK_DNN_FLATTEN, [YK_LAYER_batchnorm] = YK_DNN_BATCHNORM,
    };
    *out = (struct yk_dnn_layer){.kind = KIND[l->kind],
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
                                 .momentum = 1 - (1 - l->momentum) /
                                                     (float)(how->crowd > 0 ? how->crowd : 1),
                                 .eps = l->eps,
                                 .weight = p->weight,
                                 .bias_at = p->bias,
                                 .mean = p->mean,
                                 .var = p->var};
    memcpy(out->kernel, l->kernel, sizeof out->kernel);
    memcpy(out->stride, l->stride, sizeof out->stride);
    memcpy(out->pad, l->pad, sizeof out->pad);
}

static void segment_close(struct yk_net_segment *p)
{
    if (p == NULL)
        return;
    yk_dnn_close(p->dnn);
    free(p->correct);
    free(p);
}

static yk_code takes(const struct yk_net *net, unsigned layer, struct yk_error *e)
{
    (void)net;
    (void)layer;
    (void)e;
    return YK_OK;
}

static yk_code segment_open(struct yk_net_segment **out, const struct yk_model *m,
                            const struct yk_net_run *run, uint32_t images, bool train,
                            unsigned threads, const struct yk_kernels *kernels,
                            struct yk_net_border *before, struct yk_net_border *behind,
                            struct yk_error *e)
{
    yk_dnn_limit(kernels->name);
    unsigned layers = run->to - run->from;
    struct yk_net_segment *p = calloc(1, sizeof *p);
    struct yk_dnn_layer *layer = calloc(layers, sizeof *layer);
    yk_code rc = YK_OK;
    if (p == NULL || layer == NULL) {
        rc = yk_fail_memory(e, layers * sizeof *layer);
        goto out;
    }
    p->model = m;
    p->run = *run;
    p->images = images;
    p->threads = threads;
    p->first = before == NULL;
    p->last = behind == NULL;
    p->correct = calloc(images, sizeof *p->correct);
    if (p->correct == NULL) {
        rc = yk_fail_memory(e, images * sizeof *p->correct);
        goto out;
    }
    for (unsigned i = 0; i < layers; i++)
        describe(&m->net->layer[run->from + i], &m->place[run->from + i], &m->how, run->from + i,
                 &layer[i]);
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
        segment_close(p);
    else
        *out = p;
    return rc;
}

/* Image i of the pass as floats, in the layout that the first layer wants; what is beyond the batch is black. */
static void load(void *arg, uint32_t i)
{
    const struct yk_net_segment *p = arg;
    const struct yk_model *m = p->model;
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

static void lose(void *arg, uint32_t i)
{
    const struct yk_net_segment *p = arg;
    const struct yk_model *m = p->model;
    const struct yk_netpass *x = p->pass;
    uint32_t classes = m->net->classes;
    bool train = x->grad != NULL;
    float *z = p->output + (size_t)i * classes,
          *to = train             ? p->grad + (size_t)i * classes
                : x->prob != NULL ? x->prob + (size_t)i * classes
                                  : z; /* in place: nobody wants it afterwards */
    if (i >= x->n) {
        memset(to, 0, classes * sizeof *to);
        return;
    }
    if (to != z)
        memcpy(to, z, classes * sizeof *to);
    x->each[i] = yk_net_loss(to, classes, x->batch->set->labels[x->batch->row[x->first + i]],
                             train ? m->how.label_smoothing : 0, train, &p->correct[i]);
}

static bool layer_needs(void *arg, unsigned layer)
{
    struct yk_net_segment *p = arg;
    p->pass->given_up = !yk_net_need(p->model, p->pass->sink, p->run.from + layer);
    return !p->pass->given_up;
}

static void layer_done(void *arg, unsigned layer)
{
    const struct yk_net_segment *p = arg;
    if (p->pass->sink != NULL)
        yk_net_ready(p->model, p->pass->sink, p->run.from + layer);
}

/* The images, and what of the loss is not a layer's, count with a layer all the same. */
static void each(struct yk_net_segment *p, uint32_t n, void (*job)(void *arg, uint32_t i),
                 unsigned layer)
{
    const struct yk_netpass *x = p->pass;
    double then = x->seconds != NULL ? yk_thread_seconds() : 0;
    yk_dnn_each(p->threads, n, job, p);
    if (x->seconds != NULL)
        x->seconds[layer] += yk_thread_seconds() - then;
}

static void forward(struct yk_net_segment *p, struct yk_netpass *x)
{
    p->pass = x;
    p->dnn_pass =
        (struct yk_dnn_pass){.params = x->params->flat,
                             .grad = x->grad,
                             .n = x->n,
                             .row = x->batch->row + x->first,
                             .seed = p->model->how.seed,
                             .epoch = x->batch->epoch,
                             .seconds = x->seconds != NULL ? x->seconds + p->run.from : NULL,
                             .need = x->sink != NULL ? layer_needs : NULL,
                             .done = layer_done,
                             .arg = p};
    if (p->first)
        each(p, p->images, load, p->run.from);
    x->failed = !yk_dnn_forward(p->dnn, &p->dnn_pass) || x->failed;
    if (!p->last || x->given_up)
        return;
    each(p, x->grad != NULL ? p->images : x->n, lose, p->run.to - 1);
    for (uint32_t i = 0; i < x->n; i++)
        x->correct += p->correct[i];
}

static void backward(struct yk_net_segment *p, struct yk_netpass *x)
{
    x->failed = !yk_dnn_backward(p->dnn, &p->dnn_pass) || x->failed;
}

static size_t facts(const struct yk_net_segment *p, char *text, size_t room)
{
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
                                           .open = segment_open,
                                           .close = segment_close,
                                           .forward = forward,
                                           .backward = backward,
                                           .facts = facts};
