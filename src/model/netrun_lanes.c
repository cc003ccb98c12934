/* netrun_lanes.c - the engine "lanes": 16 images are the lanes of a vector (kernel/lanes.h), and a block of 16 goes through all layers of the run, forward,
 * loss and back, before the next: everything that it leaves behind stays in the caches.
 *
 * Layers become *stages*: a relu is part of the convolution or dense layer before it; between a convolution and a maximum pool it moves behind the
 * pool, which changes nothing but the number of numbers. Where another engine has the layers behind, all blocks go forward before the first goes
 * back, and what they leave is kept; at a border 16 rows of numbers become the lanes of a block, or the other way round, once in each direction.
 * THREADS: a segment computes on its caller's. LIMITS: no LRN, no batch norm: they need other images or channels than a lane has at hand. */
#include "base/clock.h"
#include "kernel/lanes.h"
#include "kernel/onednn.h"
#include "model/netrun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stage {
    enum yk_layer_kind kind;
    unsigned layer; /* of the net */
    struct yk_lanes_window window;
    uint32_t in_n, out_n; /* numbers of an image */
    bool relu;            /* done on the way */
    size_t out;           /* where in a block's floats its output is: (out_n, 16) */
    size_t bytes;         /* where in a block's bytes its pool's index or its mask is: (n, 16) */
};

struct yk_net_segment {
    const struct yk_model *model;
    const struct yk_lanes *lanes;
    struct yk_net_run run;
    uint32_t images, kept;   /* kept: blocks whose values are, all or one */
    struct stage *stage;     /* (stages) */
    unsigned stages, lowest; /* lowest: the first stage that the gradient goes back to */
    bool last;               /* with the loss */
    struct yk_net_border *before, *behind;
    size_t input;                          /* where a block's input is in its floats */
    size_t values, widest, bytes, scratch; /* values, bytes: of a block */
    float *value;   /* (kept, values) the outputs of all stages, and behind them the input */
    float *back[2]; /* gradients of one stage's output and of its input, in turns */
    uint8_t *byte;  /* (kept, bytes) */
    void *room;     /* (scratch) */
};

static void segment_close(struct yk_net_segment *p)
{
    if (p == NULL)
        return;
    yk_floats_free(p->value);
    yk_floats_free(p->back[0]);
    yk_floats_free(p->back[1]);
    free(p->byte);
    free(p->room);
    free(p->stage);
    free(p);
}

static uint32_t numbers(struct yk_shape s)
{
    return s.c * s.h * s.w; /* below 2^31, as net_shape.c sees to it */
}

static bool learns(const struct stage *s)
{
    return s->kind == YK_LAYER_conv || s->kind == YK_LAYER_dense;
}

static struct yk_lanes_window window_of(const struct yk_layer *l)
{
    struct yk_lanes_window g = {.c = l->in.c,
                                .h = l->in.h,
                                .w = l->in.w,
                                .out_c = l->out.c,
                                .out_h = l->out.h,
                                .out_w = l->out.w,
                                .groups = l->kind == YK_LAYER_conv ? l->groups : 1,
                                .include_pad = true};
    memcpy(g.kernel, l->kernel, sizeof g.kernel);
    memcpy(g.stride, l->stride, sizeof g.stride);
    memcpy(g.pad, l->pad, sizeof g.pad);
    return g;
}

static bool windowed(const struct yk_layer *l)
{
    return l->kind == YK_LAYER_conv || l->kind == YK_LAYER_maxpool || l->kind == YK_LAYER_avgpool;
}

static yk_code takes(const struct yk_net *net, unsigned layer, struct yk_error *e)
{
    const struct yk_layer *l = &net->layer[layer];
    if (l->kind == YK_LAYER_lrn || l->kind == YK_LAYER_batchnorm)
        return yk_fail(e, YK_USAGE, "the engine 'lanes' has no %s, which is layer '%s'",
                       yk_layer_name(l->kind), l->name);
    if (layer == 0 && net->input.c > YK_NET_CHANNELS)
        return yk_fail(e, YK_USAGE,
                       "the engine 'lanes' takes images of at most %d channels, not %u",
                       YK_NET_CHANNELS, net->input.c);
    if (windowed(l)) {
        struct yk_lanes_window w = window_of(l);
        if (!yk_lanes_window_fits(&w) || l->kernel[0] * l->kernel[1] > 256)
            return yk_fail(e, YK_USAGE,
                           "the engine 'lanes' has no such window as that of layer '%s'", l->name);
    }
    return YK_OK;
}

static void make_stages(struct yk_net_segment *p)
{
    const struct yk_net *net = p->model->net;
    for (unsigned i = p->run.from; i < p->run.to; i++) {
        const struct yk_layer *l = &net->layer[i];
        struct stage *s = &p->stage[p->stages], *before = p->stages > 0 ? s - 1 : NULL;
        if (l->kind == YK_LAYER_flatten ||
            l->kind == YK_LAYER_softmax) /* nothing moves; softmax is part of the loss */
            continue;
        if (l->kind == YK_LAYER_relu && before != NULL && !before->relu &&
            (learns(before) || before->kind == YK_LAYER_maxpool)) {
            before->relu = before->window.relu = true;
            continue;
        }
        *s = (struct stage){
            .kind = l->kind, .layer = i, .in_n = numbers(l->in), .out_n = numbers(l->out)};
        if (windowed(l))
            s->window = window_of(l);
        if (l->kind == YK_LAYER_maxpool && before != NULL && before->kind == YK_LAYER_conv &&
            before->relu) {
            before->relu = before->window.relu = false;
            s->relu = s->window.relu = true;
        }
        p->stages++;
    }
    while (p->before == NULL && p->lowest < p->stages && !learns(&p->stage[p->lowest]))
        p->lowest++;
}

/* Where everything lies in a block's memory. */
static void place_stages(struct yk_net_segment *p)
{
    for (unsigned i = 0; i < p->stages; i++) {
        struct stage *s = &p->stage[i];
        s->out = p->values;
        p->values += (size_t)s->out_n * YK_LANES;
        size_t need = s->kind == YK_LAYER_conv    ? yk_lanes_conv_scratch(&s->window)
                      : s->kind == YK_LAYER_dense ? yk_lanes_dense_scratch(s->in_n)
                                                  : s->out_n; /* a mask of dropout */
        p->scratch = need > p->scratch ? need : p->scratch;
        size_t widest = s->out_n > s->in_n ? s->out_n : s->in_n;
        p->widest = widest > p->widest ? widest : p->widest;
        if (s->kind == YK_LAYER_maxpool || s->kind == YK_LAYER_dropout) {
            s->bytes = p->bytes;
            p->bytes += (size_t)s->out_n * YK_LANES;
        }
    }
    p->input = p->values;
    p->values += (size_t)p->stage[0].in_n * YK_LANES;
}

static size_t up(size_t bytes)
{
    return (bytes + 64) / 64 * 64; /* aligned_alloc wants a multiple, and something */
}

static yk_code segment_open(struct yk_net_segment **out, const struct yk_model *m,
                            const struct yk_net_run *run, uint32_t images, bool train,
                            unsigned threads, const struct yk_kernels *kernels,
                            struct yk_net_border *before, struct yk_net_border *behind,
                            struct yk_error *e)
{
    (void)threads;
    uint32_t blocks = (images + YK_LANES - 1) / YK_LANES;
    struct yk_net_segment *p = calloc(1, sizeof *p);
    struct stage *stage = calloc(run->to - run->from, sizeof *stage);
    if (p == NULL || stage == NULL) {
        free(p);
        free(stage);
        return yk_fail_memory(e, (run->to - run->from) * sizeof *stage);
    }
    p->model = m;
    p->lanes = kernels->lanes;
    p->run = *run;
    p->images = images;
    p->before = before;
    p->behind = behind;
    p->last = behind == NULL;
    p->kept = train && !p->last ? blocks : 1;
    p->stage = stage;
    yk_code rc = YK_OK;
    for (unsigned i = run->from; rc == YK_OK && i < run->to; i++)
        rc = takes(m->net, i, e);
    if (rc == YK_OK) {
        make_stages(p);
        rc = p->stages > 0
                 ? YK_OK
                 : yk_fail(e, YK_USAGE, "the net '%s' has nothing to compute", m->net->name);
    }
    if (rc == YK_OK) {
        place_stages(p);
        p->value = yk_floats(p->values * p->kept);
        p->byte = aligned_alloc(64, up(p->bytes * p->kept));
        p->room = aligned_alloc(64, up(p->scratch));
        bool got = p->value != NULL && p->byte != NULL && p->room != NULL;
        for (unsigned k = 0; got && train && k < 2; k++)
            got = (p->back[k] = yk_floats(p->widest * YK_LANES)) != NULL;
        if (!got)
            rc =
                yk_fail_memory(e, (p->values * p->kept + 2 * p->widest * YK_LANES) * sizeof(float));
    }
    if (rc != YK_OK)
        segment_close(p);
    else
        *out = p;
    return rc;
}

/* --- a block --- */

/* A block on its way. */
struct block {
    struct yk_netpass *pass;
    uint32_t from, n; /* its images, of the pass */
    float *value;
    uint8_t *byte;
};

static struct block block_of(const struct yk_net_segment *p, struct yk_netpass *x, uint32_t b)
{
    uint32_t from = b * YK_LANES, place = p->kept > 1 ? b : 0;
    return (struct block){.pass = x,
                          .from = from,
                          .n = x->n - from < YK_LANES ? x->n - from : YK_LANES,
                          .value = p->value + place * p->values,
                          .byte = p->byte + place * p->bytes};
}

/* Draw the masks of a block's images and apply them. */
static void drop(const struct yk_net_segment *p, const struct stage *s, const struct block *b,
                 const float *in, float *out)
{
    const struct yk_layer *l = &p->model->net->layer[s->layer];
    const struct yk_batch *batch = b->pass->batch;
    uint8_t *mask = b->byte + s->bytes, *row = p->room;
    const float scale = 1 / (1 - l->rate);
    for (uint32_t i = 0; i < YK_LANES; i++) {
        if (i < b->n)
            yk_dnn_mask(row, s->out_n, l->rate, p->model->how.seed, batch->epoch,
                        batch->row[b->pass->first + b->from + i], s->layer);
        for (size_t k = 0; k < s->out_n; k++)
            mask[k * YK_LANES + i] = i < b->n && row[k];
    }
    for (size_t k = 0; k < (size_t)s->out_n * YK_LANES; k++)
        out[k] = mask[k] ? in[k] * scale : 0;
}

static enum yk_lanes_point point_of(enum yk_layer_kind kind)
{
    return kind == YK_LAYER_relu   ? YK_LANES_RELU
           : kind == YK_LAYER_tanh ? YK_LANES_TANH
                                   : YK_LANES_SIGMOID;
}

static void stage_forward(const struct yk_net_segment *p, const struct stage *s,
                          const struct block *b, const float *in)
{
    const struct yk_net_place *at = &p->model->place[s->layer];
    const float *flat = b->pass->params->flat, *weight = flat + at->weight,
                *bias = p->model->net->layer[s->layer].bias ? flat + at->bias : NULL;
    bool train = b->pass->grad != NULL;
    float *out = b->value + s->out;
    switch (s->kind) {
    case YK_LAYER_conv:
        p->lanes->conv(&s->window, in, weight, bias, out, p->room);
        break;
    case YK_LAYER_dense:
        p->lanes->dense(s->in_n, s->out_n, s->relu, in, weight, bias, out);
        break;
    case YK_LAYER_maxpool:
        p->lanes->maxpool(&s->window, in, out, train ? b->byte + s->bytes : NULL);
        break;
    case YK_LAYER_avgpool:
        p->lanes->avgpool(&s->window, in, out);
        break;
    case YK_LAYER_dropout:
        if (train)
            drop(p, s, b, in, out);
        else
            memcpy(out, in, (size_t)s->out_n * YK_LANES * sizeof *out);
        break;
    default:
        p->lanes->point(point_of(s->kind), s->out_n, in, out);
        break;
    }
}

/* The gradient of stage s's output, `dout`, to its parameters and, unless `din` is NULL, to its input. */
static void stage_backward(const struct yk_net_segment *p, const struct stage *s,
                           const struct block *b, const float *in, float *dout, float *din)
{
    const struct yk_net_place *at = &p->model->place[s->layer];
    const struct yk_layer *l = &p->model->net->layer[s->layer];
    const float *weight = b->pass->params->flat + at->weight, *out = b->value + s->out;
    float *dweight = b->pass->grad + at->weight, *dbias = l->bias ? b->pass->grad + at->bias : NULL;
    const uint8_t *byte = b->byte + s->bytes;
    if (s->relu && learns(s))
        p->lanes->point_back(YK_LANES_RELU, s->out_n, out, dout, dout);
    switch (s->kind) {
    case YK_LAYER_conv:
        p->lanes->conv_grad(&s->window, in, dout, dweight, dbias, p->room);
        if (din != NULL)
            p->lanes->conv_back(&s->window, dout, weight, din);
        break;
    case YK_LAYER_dense:
        p->lanes->dense_grad(s->in_n, s->out_n, in, dout, dweight, dbias, p->room);
        if (din != NULL)
            p->lanes->dense_back(s->in_n, s->out_n, dout, weight, din);
        break;
    case YK_LAYER_maxpool:
        p->lanes->maxpool_back(&s->window, dout, byte, out, din);
        break;
    case YK_LAYER_avgpool:
        p->lanes->avgpool_back(&s->window, dout, out, din);
        break;
    case YK_LAYER_dropout:
        for (size_t k = 0; din != NULL && k < (size_t)s->out_n * YK_LANES; k++)
            din[k] = byte[k] ? dout[k] * (1 / (1 - l->rate)) : 0;
        break;
    default:
        p->lanes->point_back(point_of(s->kind), s->out_n, out, dout, din);
        break;
    }
}

/* The loss of a block: its gradient to `grad` in training, else probabilities to where the caller wants them. */
static void lose(const struct yk_net_segment *p, const struct block *b, float *grad)
{
    const struct yk_batch *batch = b->pass->batch;
    uint32_t classes = p->model->net->classes;
    uint16_t label[YK_LANES] = {0};
    float *z = b->value + p->stage[p->stages - 1].out;
    for (uint32_t i = 0; i < b->n; i++)
        label[i] = batch->set->labels[batch->row[b->pass->first + b->from + i]];
    struct yk_lanes_loss l = {.classes = classes,
                              .n = b->n,
                              .label = label,
                              .z = z,
                              .smoothing = grad != NULL ? p->model->how.label_smoothing : 0,
                              .grad = grad,
                              .prob = grad == NULL && b->pass->prob != NULL ? z : NULL};
    p->lanes->loss(&l);
    for (uint32_t i = 0; i < b->n; i++)
        b->pass->each[b->from + i] = l.loss[i];
    b->pass->correct += l.correct;
    if (l.prob != NULL) {
        float *row[YK_LANES] = {0};
        for (uint32_t i = 0; i < b->n; i++)
            row[i] = b->pass->prob + (size_t)(b->from + i) * classes;
        p->lanes->to_rows(classes, z, row);
    }
}

/* The rows of a block at a border. Those of its empty lanes are among them: they have numbers, and no gradient. */
static void rows_of(const struct yk_net_segment *p, const struct block *b, float *at,
                    size_t numbers_each, float *row[YK_LANES])
{
    for (uint32_t i = 0; i < YK_LANES; i++)
        row[i] = b->from + i < p->images ? at + (b->from + i) * numbers_each : NULL;
}

/* A border has room for the images of the segment; behind the blocks of a pass nothing may be left. */
static void clear_rest(const struct yk_net_segment *p, const struct yk_netpass *x, float *at,
                       size_t numbers_each)
{
    size_t from = ((size_t)x->n + YK_LANES - 1) / YK_LANES * YK_LANES;
    if (from < p->images)
        memset(at + from * numbers_each, 0, (p->images - from) * numbers_each * sizeof *at);
}

static void load(const struct yk_net_segment *p, const struct block *b)
{
    const struct yk_model *m = p->model;
    const struct yk_shape in = m->net->input;
    float *to = b->value + p->input;
    if (p->before != NULL) {
        float *row[YK_LANES];
        rows_of(p, b, p->before->value, p->stage[0].in_n, row);
        p->lanes->from_rows(p->stage[0].in_n, (const float *const *)row, to);
        return;
    }
    const uint8_t *image[YK_LANES] = {0};
    for (uint32_t i = 0; i < b->n; i++)
        image[i] = yk_batch_image(b->pass->batch, b->pass->first + b->from + i);
    p->lanes->from_u8(in.c, (size_t)in.h * in.w, image, m->scale, m->shift, to);
}

/* To a layer, what it took since *then, which becomes now. */
static void count(const struct block *b, unsigned layer, double *then)
{
    if (b->pass->seconds == NULL)
        return;
    double now = yk_thread_seconds();
    b->pass->seconds[layer] += now - *then;
    *then = now;
}

static void block_forward(const struct yk_net_segment *p, const struct block *b)
{
    const struct stage *top = &p->stage[p->stages - 1];
    double then = b->pass->seconds != NULL ? yk_thread_seconds() : 0;
    const float *now = b->value + p->input;
    load(p, b);
    for (unsigned i = 0; i < p->stages; i++) {
        stage_forward(p, &p->stage[i], b, now);
        now = b->value + p->stage[i].out;
        count(b, p->stage[i].layer, &then);
    }
    if (p->behind != NULL) {
        float *row[YK_LANES];
        rows_of(p, b, p->behind->value, top->out_n, row);
        p->lanes->to_rows(top->out_n, now, row);
        count(b, top->layer, &then);
    }
}

/* Back from the gradient in back[0]. With the `last` block the gradients of a layer are complete, and leave. */
static void block_backward(const struct yk_net_segment *p, const struct block *b, bool last)
{
    double then = b->pass->seconds != NULL ? yk_thread_seconds() : 0;
    unsigned turn = 0;
    for (unsigned i = p->stages; i-- > p->lowest; turn = !turn) {
        const float *in = b->value + (i > 0 ? p->stage[i - 1].out : p->input);
        bool further = i > p->lowest || p->before != NULL;
        stage_backward(p, &p->stage[i], b, in, p->back[turn], further ? p->back[!turn] : NULL);
        count(b, p->stage[i].layer, &then);
        if (last && b->pass->sink != NULL)
            yk_net_ready(p->model, b->pass->sink, p->stage[i].layer);
    }
    if (p->before != NULL) {
        float *row[YK_LANES];
        rows_of(p, b, p->before->grad, p->stage[0].in_n, row);
        p->lanes->to_rows(p->stage[0].in_n, p->back[turn], row);
        count(b, p->stage[0].layer, &then);
    }
}

/* --- a pass --- */

static void forward(struct yk_net_segment *p, struct yk_netpass *x)
{
    uint32_t blocks = (x->n + YK_LANES - 1) / YK_LANES;
    bool train = x->grad != NULL;
    x->given_up =
        x->sink != NULL &&
        !yk_sink_need(x->sink, 0, p->model->count); /* all: gradients are written from here on */
    if (x->given_up)
        return;
    for (unsigned i = p->run.from; train && i < p->run.to; i++) {
        const struct yk_net_place *at = &p->model->place[i];
        for (unsigned k = 0; k < at->ranges; k++)
            memset(x->grad + at->range[k].lo, 0,
                   (at->range[k].hi - at->range[k].lo) * sizeof *x->grad);
    }
    for (uint32_t i = 0; i < blocks; i++) {
        struct block b = block_of(p, x, i);
        block_forward(p, &b);
        if (!p->last)
            continue;
        double then = x->seconds != NULL ? yk_thread_seconds() : 0;
        lose(p, &b, train ? p->back[0] : NULL);
        count(&b, p->run.to - 1, &then);
        if (train)
            block_backward(p, &b, i + 1 == blocks);
    }
    if (p->behind != NULL)
        clear_rest(p, x, p->behind->value, p->stage[p->stages - 1].out_n);
    if (p->before != NULL && train)
        clear_rest(p, x, p->before->grad, p->stage[0].in_n);
}

static void backward(struct yk_net_segment *p, struct yk_netpass *x)
{
    uint32_t blocks = (x->n + YK_LANES - 1) / YK_LANES, out_n = p->stage[p->stages - 1].out_n;
    for (uint32_t i = 0; !p->last && i < blocks;
         i++) { /* else each went back as soon as it had a loss */
        struct block b = block_of(p, x, i);
        float *row[YK_LANES];
        rows_of(p, &b, p->behind->grad, out_n, row);
        p->lanes->from_rows(out_n, (const float *const *)row, p->back[0]);
        block_backward(p, &b, i + 1 == blocks);
    }
}

static size_t facts(const struct yk_net_segment *p, char *text, size_t room)
{
    snprintf(text, room, "%u stages", p->stages);
    return (p->values * p->kept + (p->back[0] != NULL ? 2 * p->widest * YK_LANES : 0)) *
               sizeof(float) +
           p->bytes * p->kept + p->scratch;
}

const struct yk_engine yk_engine_lanes = {.name = "lanes",
                                          .flops_most = 1e8,
                                          .weights_most = 4e6,
                                          .unit = YK_LANES,
                                          .takes = takes,
                                          .open = segment_open,
                                          .close = segment_close,
                                          .forward = forward,
                                          .backward = backward,
                                          .facts = facts};
