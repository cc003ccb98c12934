/* net_model.c - the model behind every .net file. Plans (net_plan.c) compute, on the engines that
 * were chosen (engine_choose.c).
 *
 * A plan is for a number of images. A smaller batch is filled up with black ones, which have no
 * part in loss or gradients; only batch norm, whose statistics would see them, has a plan for every
 * size that comes up. A larger batch is scored in pieces.
 * THREADS: a work belongs to one caller at a time; engines have threads of their own. */
#include "model/net/net_model.h"
#include "model/net/layer.h"
#include "model/net/net_onnx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 8 }; /* the plans that a work keeps */
/* A large batch is scored in pieces: of at most SCORE_MOST images, whose activations in the widest
 * layer take at most SCORE_BYTES. */
static const size_t SCORE_BYTES = (size_t)48 << 20;
static const uint32_t SCORE_MOST = 256;

struct planned {
    struct yk_net_plan *plan;
    uint32_t images;
    bool train;
    uint64_t used; /* number of the pass that used it last */
};

struct net_work {
    const struct yk_net_model *model;
    const struct yk_kernels *kernels;
    unsigned threads;
    uint32_t score_images; /* of a plan for scores, at most */
    struct planned plan[PLANS];
    uint64_t passes;
};

/* --- the model --- */

static void model_close(struct yk_model *model)
{
    struct yk_net_model *m = (struct yk_net_model *)model;
    if (m == NULL)
        return;
    free(m->place);
    free(m);
}

static yk_code open_shape(struct yk_model **out, const struct yk_dataset *shape, struct yk_error *e)
{
    (void)out;
    return yk_fail(e, YK_USAGE, "a net for '%s' needs its file", shape->name);
}

static yk_code open_net(struct yk_model **out, const struct yk_net *net,
                        const struct yk_net_how *how, const struct yk_dataset *shape,
                        struct yk_error *e)
{
    const struct yk_shape in = net->input;
    if (shape->sparse != NULL || shape->shape[0] != in.h || shape->shape[1] != in.w ||
        shape->shape[2] != in.c || shape->classes > net->classes)
        return yk_fail(
            e, YK_USAGE,
            "'%s' (%ux%ux%u, %u classes) does not fit the net '%s' (%ux%ux%u, %u classes)",
            shape->name, shape->shape[0], shape->shape[1], shape->shape[2], shape->classes,
            net->name, in.h, in.w, in.c, net->classes);
    struct yk_net_model *m = calloc(1, sizeof *m);
    struct yk_net_place *place = calloc(net->layers + 1, sizeof *place);
    if (m == NULL || place == NULL) {
        free(m);
        free(place);
        return yk_fail_memory(e, net->layers * sizeof *place);
    }
    m->net = net;
    m->how = *how;
    yk_segments_init(&m->segments, net);
    m->place = place;
    for (unsigned i = 0; i < net->layers; i++)
        m->whole = m->whole || yk_layer_ops(net->layer[i].kind)->needs_whole_step;
    float scale = shape->scale > 0 ? shape->scale : 1.0f / 255;
    for (unsigned c = 0; c < YK_NET_CHANNELS; c++) {
        m->scale[c] = net->normalized ? scale / net->deviation[c] : scale;
        m->shift[c] = net->normalized ? -net->mean[c] / net->deviation[c] : 0;
    }
    *out = (struct yk_model *)m;
    return YK_OK;
}

bool yk_net_need(const struct yk_net_model *m, struct yk_sink *sink, unsigned layer)
{
    const struct yk_net_place *p = &m->place[layer];
    for (unsigned i = 0; i < p->ranges; i++)
        if (!yk_sink_need(sink, p->range[i].lo, p->range[i].hi))
            return false;
    return true;
}

void yk_net_ready(const struct yk_net_model *m, struct yk_sink *sink, unsigned layer)
{
    const struct yk_net_place *p = &m->place[layer];
    for (unsigned i = 0; i < p->ranges; i++)
        sink->ready(sink, p->range[i].lo, p->range[i].hi);
}

double yk_net_loss(float *z, uint32_t classes, uint32_t label, float smoothing, bool grad,
                   bool *correct)
{
    uint32_t best = 0;
    double sum = 0, all = 0, at = z[label];
    for (uint32_t k = 0; k < classes; k++) {
        best = z[k] > z[best] ? k : best;
        all += z[k];
    }
    float largest = z[best];
    for (uint32_t k = 0; k < classes; k++) {
        z[k] = expf(z[k] - largest);
        sum += z[k];
    }
    float part = (float)(1 / sum), even = smoothing / (float)classes;
    for (uint32_t k = 0; k < classes; k++)
        z[k] = z[k] * part - (grad ? even : 0);
    if (grad)
        z[label] -= 1 - smoothing;
    *correct = best == label;
    return largest + log(sum) - (1 - (double)smoothing) * at - (double)smoothing / classes * all;
}

/* --- a worker's work --- */

static void work_close(struct yk_work *work)
{
    struct net_work *w = (struct net_work *)work;
    if (w == NULL)
        return;
    for (unsigned i = 0; i < PLANS; i++)
        yk_net_plan_close(w->plan[i].plan);
    free(w);
}

/* The number of images that are scored at a time. */
static uint32_t score_images(const struct yk_net *net)
{
    size_t most = yk_shape_numbers(net->input);
    for (unsigned i = 0; i < net->layers; i++) {
        size_t n = yk_shape_numbers(net->layer[i].out);
        most = n > most ? n : most;
    }
    size_t images = SCORE_BYTES / (most * sizeof(float));
    return images < 1 ? 1 : images < SCORE_MOST ? (uint32_t)images : SCORE_MOST;
}

static yk_code work_open(struct yk_work **out, const struct yk_model *model, unsigned threads,
                         const char *isa, struct yk_error *e)
{
    const struct yk_net_model *m = (const struct yk_net_model *)model;
    struct net_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return yk_fail_memory(e, sizeof *w);
    w->model = m;
    w->threads = threads;
    w->score_images = score_images(m->net);
    yk_code rc = yk_kernels_pick(isa, &w->kernels, e);
    if (rc != YK_OK)
        free(w);
    else
        *out = (struct yk_work *)w;
    return rc;
}

/* The plan for `images`. If there is none, a new one takes a free place or replaces the plan that
 * has not been used for the longest time. */
static yk_code plan_for(struct net_work *w, uint32_t images, bool train, struct yk_net_plan **out,
                        struct yk_error *e)
{
    struct planned *p = NULL, *oldest = &w->plan[0];
    for (unsigned i = 0; i < PLANS && p == NULL; i++) {
        struct planned *x = &w->plan[i];
        if (x->plan != NULL && x->train == train &&
            (w->model->whole && train ? x->images == images : x->images >= images))
            p = x;
        if (oldest->plan != NULL && (x->plan == NULL || x->used < oldest->used))
            oldest = x;
    }
    if (p == NULL) {
        yk_net_plan_close(oldest->plan);
        *oldest = (struct planned){.images = images, .train = train};
        yk_code rc = yk_net_plan_open(&oldest->plan, w->model, &w->model->segments, images, train,
                                      w->threads, w->kernels, e);
        if (rc != YK_OK)
            return rc;
        p = oldest;
    }
    p->used = ++w->passes;
    *out = p->plan;
    return YK_OK;
}

static yk_code prepare(struct yk_work *work, uint32_t batch, bool train, char message[256],
                       struct yk_error *e)
{
    struct net_work *w = (struct net_work *)work;
    struct yk_net_plan *p;
    char text[200];
    if (!train && batch > w->score_images)
        batch = w->score_images;
    yk_code rc = plan_for(w, batch, train, &p, e);
    if (rc != YK_OK)
        return rc;
    yk_net_plan_facts(p, text, sizeof text);
    snprintf(message, 256, "%.40s: %s", w->model->net->name, text);
    return YK_OK;
}

static unsigned busy(const struct yk_work *work, uint32_t batch)
{
    const struct net_work *w = (const struct net_work *)work;
    (void)batch;
    return w->threads;
}

/* --- steps and scores --- */

static double step(struct yk_work *work, const struct yk_params *params,
                   const struct yk_batch *batch, struct yk_sink *sink)
{
    struct net_work *w = (struct net_work *)work;
    struct yk_net_pass x = {.params = params, .batch = batch, .n = batch->n, .sink = sink};
    struct yk_net_plan *p;
    if (plan_for(w, batch->n, true, &p, NULL) == YK_OK)
        return yk_net_plan_pass(p, &x);
    if (!yk_sink_need(sink, 0, w->model->count))
        return NAN;
    /* There is no memory for a plan: gradients are zero and the loss is no number. */
    memset(sink->grad, 0, w->model->count * sizeof(float));
    sink->ready(sink, 0, w->model->count);
    return NAN;
}

static void score(struct yk_work *work, const struct yk_params *params,
                  const struct yk_batch *batch, struct yk_score *out, float *prob)
{
    struct net_work *w = (struct net_work *)work;
    uint32_t most = batch->n < w->score_images ? batch->n : w->score_images;
    for (uint32_t at = 0; at < batch->n; at += most) {
        struct yk_net_pass x = {.params = params,
                                .batch = batch,
                                .first = at,
                                .n = batch->n - at < most ? batch->n - at : most,
                                .prob = prob != NULL ? prob + (size_t)at * w->model->net->classes
                                                     : NULL};
        struct yk_net_plan *p;
        out->loss += plan_for(w, most, false, &p, NULL) == YK_OK ? yk_net_plan_pass(p, &x) : NAN;
        out->correct += x.correct;
    }
    out->examples += batch->n;
}

static const char *const DEFAULTS[] = {"batch",  "64", "optimizer", "sgd",
                                       "epochs", "10", NULL}; /* where its file says nothing */

static yk_code onnx(const struct yk_model *model, const struct yk_params *params, const char *path,
                    struct yk_error *e)
{
    const struct yk_net_model *m = (const struct yk_net_model *)model;
    return yk_onnx_net(path, m->net, params, e);
}

const struct yk_model_ops yk_model_net = {
    .name = "net",
    .help = "a net from a .net file, on images of its shape",
    .asks = true,
    .defaults = DEFAULTS,
    .open = open_shape,
    .open_net = open_net,
    .close = model_close,
    .layout = yk_net_layout,
    .work_open = work_open,
    .work_close = work_close,
    .engine = yk_engine_choose,
    .prepare = prepare,
    .busy = busy,
    .step = step,
    .score = score,
    .onnx = onnx,
    .graph = yk_net_graph,
};
