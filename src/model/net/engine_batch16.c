/* engine_batch16.c - the engine "lanes": 16 images are the lanes of a vector (kernel/batch16.h),
 * and a batch of 16 goes through all layers of the segment, forward, loss and back, before the next
 * one: all that it leaves behind stays in the caches.
 *
 * Layers become *stages*: a relu is part of the convolution or dense layer before it; between a
 * convolution and a maximum pool it moves behind the pool, where it gives the same result and has
 * fewer numbers to do. If another engine has the next layers, all batches of 16 go forward before
 * the first one goes back, and their values are kept. At a border 16 rows of numbers become the
 * lanes of a batch, or the other way round, once in each direction.
 * THREADS: a state computes on its caller's thread.
 * LIMITS: no LRN and no batch norm, which need other channels or images than a lane has. */
#include "base/clock.h"
#include "kernel/batch16.h"
#include "kernel/onednn.h"
#include "model/net/layer.h"
#include "model/net/net_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stage {
    enum yk_layer_kind kind;
    unsigned layer; /* of the net */
    struct yk_batch16_window window;
    uint32_t in_n, out_n; /* numbers of an image */
    bool relu;            /* the stage also computes the relu behind it */
    size_t out;           /* place of its output in a batch's floats: (out_n, 16) */
    size_t bytes;         /* place of a pool's index or a dropout's mask in its bytes: (n, 16) */
};

struct batch16_state {
    const struct yk_net_model *model;
    const struct yk_batch16 *kernels;
    struct yk_segment segment;
    uint32_t images;
    uint32_t kept;       /* batches of 16 that have memory of their own: all or one */
    struct stage *stage; /* (stages) */
    unsigned stages;
    unsigned lowest;                       /* the first stage that the gradient goes back to */
    struct yk_net_border *before, *behind; /* NULL at the ends of the net */
    size_t input;                          /* place of a batch's input in its floats */
    size_t values;                         /* floats of a batch */
    size_t widest;                         /* floats of an image at the widest stage */
    size_t bytes;                          /* bytes of a batch */
    size_t scratch;                        /* bytes of `room` */
    float *value;   /* (kept, values) the outputs of all stages, then the input */
    float *back[2]; /* gradients of a stage's output and of its input, in turns */
    uint8_t *byte;  /* (kept, bytes) */
    void *room;     /* (scratch) */
};

static void state_close(void *state)
{
    struct batch16_state *p = state;
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

static bool learns(const struct stage *s)
{
    return s->kind == YK_LAYER_conv || s->kind == YK_LAYER_dense;
}

static struct yk_batch16_window window_of(const struct yk_layer *l)
{
    struct yk_batch16_window g = {.c = l->in.c,
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

/* The kinds that this engine computes, and those that leave it nothing to compute. */
static bool knows(enum yk_layer_kind kind)
{
    switch (kind) {
    case YK_LAYER_conv:
    case YK_LAYER_maxpool:
    case YK_LAYER_avgpool:
    case YK_LAYER_dense:
    case YK_LAYER_relu:
    case YK_LAYER_tanh:
    case YK_LAYER_sigmoid:
    case YK_LAYER_dropout:
    case YK_LAYER_flatten:
    case YK_LAYER_softmax:
        return true;
    default:
        return false;
    }
}

static yk_code takes(const struct yk_net *net, unsigned layer, struct yk_error *e)
{
    const struct yk_layer *l = &net->layer[layer];
    if (!knows(l->kind))
        return yk_fail(e, YK_USAGE, "the engine 'lanes' cannot compute %s (layer '%s')",
                       yk_layer_name(l->kind), l->name);
    if (layer == 0 && net->input.c > YK_NET_CHANNELS)
        return yk_fail(e, YK_USAGE,
                       "the engine 'lanes' takes images of at most %d channels, not %u",
                       YK_NET_CHANNELS, net->input.c);
    if (windowed(l)) {
        struct yk_batch16_window w = window_of(l);
        if (!yk_batch16_window_fits(&w) || l->kernel[0] * l->kernel[1] > 256)
            return yk_fail(e, YK_USAGE,
                           "the engine 'lanes' cannot compute the window of layer '%s'", l->name);
    }
    return YK_OK;
}

static void make_stages(struct batch16_state *p)
{
    const struct yk_net *net = p->model->net;
    for (unsigned i = p->segment.from; i < p->segment.to; i++) {
        const struct yk_layer *l = &net->layer[i];
        struct stage *s = &p->stage[p->stages], *before = p->stages > 0 ? s - 1 : NULL;
        if (yk_layer_ops(l->kind)->computes_nothing)
            continue;
        if (l->kind == YK_LAYER_relu && before != NULL && !before->relu &&
            (learns(before) || before->kind == YK_LAYER_maxpool)) {
            before->relu = before->window.relu = true;
            continue;
        }
        /* below 2^31, as net_shape.c checks */
        *s = (struct stage){.kind = l->kind,
                            .layer = i,
                            .in_n = (uint32_t)yk_shape_numbers(l->in),
                            .out_n = (uint32_t)yk_shape_numbers(l->out)};
        if (windowed(l))
            s->window = window_of(l);
        if (l->kind == YK_LAYER_maxpool && before != NULL && before->kind == YK_LAYER_conv &&
            before->relu) {
            before->relu = before->window.relu = false;
            s->relu = s->window.relu = true;
        }
        p->stages++;
    }
    if (p->before == NULL)
        while (p->lowest < p->stages && !learns(&p->stage[p->lowest]))
            p->lowest++;
}

/* Gives everything its place in a batch's memory. */
static void place_stages(struct batch16_state *p)
{
    for (unsigned i = 0; i < p->stages; i++) {
        struct stage *s = &p->stage[i];
        s->out = p->values;
        p->values += (size_t)s->out_n * YK_BATCH16;
        size_t need = s->kind == YK_LAYER_conv    ? yk_batch16_conv_scratch(&s->window)
                      : s->kind == YK_LAYER_dense ? yk_batch16_dense_scratch(s->in_n)
                                                  : s->out_n; /* a mask of dropout */
        p->scratch = need > p->scratch ? need : p->scratch;
        size_t widest = s->out_n > s->in_n ? s->out_n : s->in_n;
        p->widest = widest > p->widest ? widest : p->widest;
        if (s->kind == YK_LAYER_maxpool || s->kind == YK_LAYER_dropout) {
            s->bytes = p->bytes;
            p->bytes += (size_t)s->out_n * YK_BATCH16;
        }
    }
    p->input = p->values;
    p->values += (size_t)p->stage[0].in_n * YK_BATCH16;
}

static size_t up(size_t bytes)
{
    return (bytes + 64) / 64 * 64; /* aligned_alloc needs a multiple, and more than 0 */
}

static yk_code state_open(void **out, const struct yk_net_model *m,
                          const struct yk_segment *segment, uint32_t images, bool train,
                          unsigned threads, const struct yk_kernels *kernels,
                          struct yk_net_border *before, struct yk_net_border *behind,
                          struct yk_error *e)
{
    (void)threads;
    uint32_t batches = (images + YK_BATCH16 - 1) / YK_BATCH16;
    struct batch16_state *p = calloc(1, sizeof *p);
    struct stage *stage = calloc(segment->to - segment->from, sizeof *stage);
    if (p == NULL || stage == NULL) {
        free(p);
        free(stage);
        return yk_fail_memory(e, (segment->to - segment->from) * sizeof *stage);
    }
    p->model = m;
    p->kernels = kernels->batch16;
    p->segment = *segment;
    p->images = images;
    p->before = before;
    p->behind = behind;
    p->kept = train && behind != NULL ? batches : 1;
    p->stage = stage;
    yk_code rc = YK_OK;
    for (unsigned i = segment->from; rc == YK_OK && i < segment->to; i++)
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
        if (train) {
            p->back[0] = yk_floats(p->widest * YK_BATCH16);
            p->back[1] = yk_floats(p->widest * YK_BATCH16);
            got = got && p->back[0] != NULL && p->back[1] != NULL;
        }
        if (!got)
            rc = yk_fail_memory(e,
                                (p->values * p->kept + 2 * p->widest * YK_BATCH16) * sizeof(float));
    }
    if (rc != YK_OK)
        state_close(p);
    else
        *out = p;
    return rc;
}

/* --- a batch of 16 --- */

/* Up to 16 images of a pass. */
struct batch16 {
    struct yk_net_pass *pass;
    uint32_t from, n; /* images from .. from + n - 1 of the pass */
    float *value;
    uint8_t *byte;
};

static struct batch16 batch_of(const struct batch16_state *p, struct yk_net_pass *x, uint32_t b)
{
    uint32_t from = b * YK_BATCH16, place = p->kept > 1 ? b : 0;
    return (struct batch16){.pass = x,
                            .from = from,
                            .n = x->n - from < YK_BATCH16 ? x->n - from : YK_BATCH16,
                            .value = p->value + place * p->values,
                            .byte = p->byte + place * p->bytes};
}

/* Draw the masks of the images and apply them. */
static void drop(const struct batch16_state *p, const struct stage *s, const struct batch16 *b,
                 const float *in, float *out)
{
    const struct yk_layer *l = &p->model->net->layer[s->layer];
    const struct yk_batch *batch = b->pass->batch;
    uint8_t *mask = b->byte + s->bytes, *row = p->room;
    const float scale = 1 / (1 - l->rate);
    for (uint32_t i = 0; i < YK_BATCH16; i++) {
        if (i < b->n)
            yk_dnn_mask(row, s->out_n, l->rate, p->model->how.seed, batch->epoch,
                        batch->row[b->pass->first + b->from + i], s->layer);
        for (size_t k = 0; k < s->out_n; k++)
            mask[k * YK_BATCH16 + i] = i < b->n && row[k];
    }
    for (size_t k = 0; k < (size_t)s->out_n * YK_BATCH16; k++)
        out[k] = mask[k] ? in[k] * scale : 0;
}

static enum yk_batch16_point point_of(enum yk_layer_kind kind)
{
    return kind == YK_LAYER_relu   ? YK_BATCH16_RELU
           : kind == YK_LAYER_tanh ? YK_BATCH16_TANH
                                   : YK_BATCH16_SIGMOID;
}

static void stage_forward(const struct batch16_state *p, const struct stage *s,
                          const struct batch16 *b, const float *in)
{
    const struct yk_net_place *at = &p->model->place[s->layer];
    const float *flat = b->pass->params->flat, *weight = flat + at->weight,
                *bias = p->model->net->layer[s->layer].bias ? flat + at->bias : NULL;
    bool train = b->pass->grad != NULL;
    float *out = b->value + s->out;
    switch (s->kind) {
    case YK_LAYER_conv:
        p->kernels->conv(&s->window, in, weight, bias, out, p->room);
        break;
    case YK_LAYER_dense:
        p->kernels->dense(s->in_n, s->out_n, s->relu, in, weight, bias, out);
        break;
    case YK_LAYER_maxpool:
        p->kernels->maxpool(&s->window, in, out, train ? b->byte + s->bytes : NULL);
        break;
    case YK_LAYER_avgpool:
        p->kernels->avgpool(&s->window, in, out);
        break;
    case YK_LAYER_dropout:
        if (train)
            drop(p, s, b, in, out);
        else
            memcpy(out, in, (size_t)s->out_n * YK_BATCH16 * sizeof *out);
        break;
    default:
        p->kernels->point(point_of(s->kind), s->out_n, in, out);
        break;
    }
}

/* From the gradient of stage s's output, `dout`, computes those of its parameters and, unless `din`
 * is NULL, of its input. */
static void stage_backward(const struct batch16_state *p, const struct stage *s,
                           const struct batch16 *b, const float *in, float *dout, float *din)
{
    const struct yk_net_place *at = &p->model->place[s->layer];
    const struct yk_layer *l = &p->model->net->layer[s->layer];
    const float *weight = b->pass->params->flat + at->weight, *out = b->value + s->out;
    float *dweight = b->pass->grad + at->weight, *dbias = l->bias ? b->pass->grad + at->bias : NULL;
    const uint8_t *byte = b->byte + s->bytes;
    if (s->relu && learns(s))
        p->kernels->point_back(YK_BATCH16_RELU, s->out_n, out, dout, dout);
    switch (s->kind) {
    case YK_LAYER_conv:
        p->kernels->conv_grad(&s->window, in, dout, dweight, dbias, p->room);
        if (din != NULL)
            p->kernels->conv_back(&s->window, dout, weight, din);
        break;
    case YK_LAYER_dense:
        p->kernels->dense_grad(s->in_n, s->out_n, in, dout, dweight, dbias, p->room);
        if (din != NULL)
            p->kernels->dense_back(s->in_n, s->out_n, dout, weight, din);
        break;
    case YK_LAYER_maxpool:
        p->kernels->maxpool_back(&s->window, dout, byte, out, din);
        break;
    case YK_LAYER_avgpool:
        p->kernels->avgpool_back(&s->window, dout, out, din);
        break;
    case YK_LAYER_dropout:
        if (din != NULL)
            for (size_t k = 0; k < (size_t)s->out_n * YK_BATCH16; k++)
                din[k] = byte[k] ? dout[k] * (1 / (1 - l->rate)) : 0;
        break;
    default:
        p->kernels->point_back(point_of(s->kind), s->out_n, out, dout, din);
        break;
    }
}

/* Computes the loss, in training also its gradient `grad`, else probabilities for the caller. */
static void compute_loss(const struct batch16_state *p, const struct batch16 *b, float *grad)
{
    const struct yk_batch *batch = b->pass->batch;
    uint32_t classes = p->model->net->classes;
    uint16_t label[YK_BATCH16] = {0};
    float *z = b->value + p->stage[p->stages - 1].out;
    for (uint32_t i = 0; i < b->n; i++)
        label[i] = batch->set->labels[batch->row[b->pass->first + b->from + i]];
    struct yk_batch16_loss l = {.classes = classes,
                                .n = b->n,
                                .label = label,
                                .z = z,
                                .smoothing = grad != NULL ? p->model->how.label_smoothing : 0,
                                .grad = grad,
                                .prob = grad == NULL && b->pass->prob != NULL ? z : NULL};
    p->kernels->loss(&l);
    for (uint32_t i = 0; i < b->n; i++)
        b->pass->per_image_loss[b->from + i] = l.loss[i];
    b->pass->correct += l.correct;
    if (l.prob != NULL) {
        float *row[YK_BATCH16] = {0};
        for (uint32_t i = 0; i < b->n; i++)
            row[i] = b->pass->prob + (size_t)(b->from + i) * classes;
        p->kernels->to_rows(classes, z, row);
    }
}

/* The rows of a batch at a border. Empty lanes have rows too; their gradient is zero. */
static void rows_of(const struct batch16_state *p, const struct batch16 *b, float *at,
                    size_t numbers_each, float *row[YK_BATCH16])
{
    for (uint32_t i = 0; i < YK_BATCH16; i++)
        row[i] = b->from + i < p->images ? at + (b->from + i) * numbers_each : NULL;
}

/* Clears the rows of a border behind the batches of a pass: nothing of an earlier pass may
 * remain. */
static void clear_rest(const struct batch16_state *p, const struct yk_net_pass *x, float *at,
                       size_t numbers_each)
{
    size_t from = ((size_t)x->n + YK_BATCH16 - 1) / YK_BATCH16 * YK_BATCH16;
    if (from < p->images)
        memset(at + from * numbers_each, 0, (p->images - from) * numbers_each * sizeof *at);
}

static void load(const struct batch16_state *p, const struct batch16 *b)
{
    const struct yk_net_model *m = p->model;
    const struct yk_shape in = m->net->input;
    float *to = b->value + p->input;
    if (p->before != NULL) {
        float *row[YK_BATCH16];
        rows_of(p, b, p->before->value, p->stage[0].in_n, row);
        p->kernels->from_rows(p->stage[0].in_n, (const float *const *)row, to);
        return;
    }
    const uint8_t *image[YK_BATCH16] = {0};
    for (uint32_t i = 0; i < b->n; i++)
        image[i] = yk_batch_image(b->pass->batch, b->pass->first + b->from + i);
    p->kernels->from_u8(in.c, (size_t)in.h * in.w, image, m->scale, m->shift, to);
}

/* Add the time since *then to a layer's, and set *then to now. */
static void add_seconds(const struct batch16 *b, unsigned layer, double *then)
{
    if (b->pass->seconds == NULL)
        return;
    double now = yk_thread_seconds();
    b->pass->seconds[layer] += now - *then;
    *then = now;
}

static void batch_forward(const struct batch16_state *p, const struct batch16 *b)
{
    const struct stage *top = &p->stage[p->stages - 1];
    double then = b->pass->seconds != NULL ? yk_thread_seconds() : 0;
    const float *now = b->value + p->input;
    load(p, b);
    for (unsigned i = 0; i < p->stages; i++) {
        stage_forward(p, &p->stage[i], b, now);
        now = b->value + p->stage[i].out;
        add_seconds(b, p->stage[i].layer, &then);
    }
    if (p->behind != NULL) {
        float *row[YK_BATCH16];
        rows_of(p, b, p->behind->value, top->out_n, row);
        p->kernels->to_rows(top->out_n, now, row);
        add_seconds(b, top->layer, &then);
    }
}

/* Goes back from the gradient in back[0]. With the `last` batch the gradients of each layer are
 * complete, and the sink is told. */
static void batch_backward(const struct batch16_state *p, const struct batch16 *b, bool last)
{
    double then = b->pass->seconds != NULL ? yk_thread_seconds() : 0;
    unsigned turn = 0;
    for (unsigned i = p->stages; i-- > p->lowest; turn = !turn) {
        const float *in = b->value + (i > 0 ? p->stage[i - 1].out : p->input);
        bool further = i > p->lowest || p->before != NULL;
        stage_backward(p, &p->stage[i], b, in, p->back[turn], further ? p->back[!turn] : NULL);
        add_seconds(b, p->stage[i].layer, &then);
        if (last && b->pass->sink != NULL)
            yk_net_ready(p->model, b->pass->sink, p->stage[i].layer);
    }
    if (p->before != NULL) {
        float *row[YK_BATCH16];
        rows_of(p, b, p->before->grad, p->stage[0].in_n, row);
        p->kernels->to_rows(p->stage[0].in_n, p->back[turn], row);
        add_seconds(b, p->stage[0].layer, &then);
    }
}

/* --- a pass --- */

/* Asks for the parameters and clears the gradients. False: the step is given up. */
static bool begin(const struct batch16_state *p, struct yk_net_pass *x)
{
    /* All parameters at once, because none may be asked for after the first gradient is written. */
    x->given_up = x->sink != NULL && !yk_sink_need(x->sink, 0, p->model->count);
    if (x->given_up)
        return false;
    if (x->grad == NULL)
        return true;
    for (unsigned i = p->segment.from; i < p->segment.to; i++) {
        const struct yk_net_place *at = &p->model->place[i];
        for (unsigned k = 0; k < at->ranges; k++)
            memset(x->grad + at->range[k].lo, 0,
                   (at->range[k].hi - at->range[k].lo) * sizeof *x->grad);
    }
    return true;
}

static uint32_t batches_of(const struct yk_net_pass *x)
{
    return (x->n + YK_BATCH16 - 1) / YK_BATCH16;
}

static void forward(void *state, struct yk_net_pass *x)
{
    const struct batch16_state *p = state;
    if (!begin(p, x))
        return;
    for (uint32_t i = 0; i < batches_of(x); i++) {
        struct batch16 b = batch_of(p, x, i);
        batch_forward(p, &b);
    }
    clear_rest(p, x, p->behind->value, p->stage[p->stages - 1].out_n);
}

static void backward(void *state, struct yk_net_pass *x)
{
    const struct batch16_state *p = state;
    uint32_t batches = batches_of(x), out_n = p->stage[p->stages - 1].out_n;
    for (uint32_t i = 0; i < batches; i++) {
        struct batch16 b = batch_of(p, x, i);
        float *row[YK_BATCH16];
        rows_of(p, &b, p->behind->grad, out_n, row);
        p->kernels->from_rows(out_n, (const float *const *)row, p->back[0]);
        batch_backward(p, &b, i + 1 == batches);
    }
}

static void run(void *state, struct yk_net_pass *x)
{
    const struct batch16_state *p = state;
    uint32_t batches = batches_of(x);
    bool train = x->grad != NULL;
    if (!begin(p, x))
        return;
    for (uint32_t i = 0; i < batches; i++) {
        struct batch16 b = batch_of(p, x, i);
        batch_forward(p, &b);
        double then = x->seconds != NULL ? yk_thread_seconds() : 0;
        compute_loss(p, &b, train ? p->back[0] : NULL);
        add_seconds(&b, p->segment.to - 1, &then);
        if (train)
            batch_backward(p, &b, i + 1 == batches);
    }
    if (p->before != NULL && train)
        clear_rest(p, x, p->before->grad, p->stage[0].in_n);
}

static size_t facts(const void *state, char *text, size_t room)
{
    const struct batch16_state *p = state;
    snprintf(text, room, "%u stages", p->stages);
    return (p->values * p->kept + (p->back[0] != NULL ? 2 * p->widest * YK_BATCH16 : 0)) *
               sizeof(float) +
           p->bytes * p->kept + p->scratch;
}

const struct yk_engine yk_engine_batch16 = {.name = "lanes",
                                            .flops_most = 1e8,
                                            .weights_most = 4e6,
                                            .unit = YK_BATCH16,
                                            .takes = takes,
                                            .open = state_open,
                                            .close = state_close,
                                            .forward = forward,
                                            .backward = backward,
                                            .run = run,
                                            .facts = facts};
