/* onednn_layers.c - every kind of layer in oneDNN's terms, forward and backward.
 *
 * Convolutions choose their own layouts ("any") and their own algorithm ("auto": Winograd's for 3x3
 * windows where it pays, which makes AlexNet's step a quarter faster); pooling and activations take
 * the layout that comes. An activation behind a convolution or a dense layer is computed with it,
 * and its derivative from its result. Dense layers have plain weights: they are large, and a copy
 * in another layout would cost more than it saves. Within a layer the gradient for the layers below
 * comes first, then those of the parameters, which are not read any more.
 *
 * Batch norm's running statistics are parameters like others, but they are not learned: their
 * "gradient" is
 *
 *     n (1 - momentum) (running - batch)        n: images of this batch
 *
 * so that an owner who adds shards, divides by their images and subtracts (rate 1, no optimizer)
 * gets running = momentum * running + (1 - momentum) * batch, the batch being the mean over shards.
 * The variance is the unbiased one, as in torch.
 *
 * Dropout multiplies the numbers that it keeps by 1 / (1 - rate). They depend on (seed, epoch, row,
 * layer) and their place in the image, so dropout needs the plain layout. */
#include "base/rng.h"
#include "kernel/onednn_plan.h"

#include <string.h>

#define USES(...)                                                                                  \
    (struct yk_dnn_use[])                                                                          \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0, YK_DNN_NONE                                                                         \
        }                                                                                          \
    }

bool yk_dnn_layer_learns(const struct yk_dnn_layer *l)
{
    return l->kind == YK_DNN_CONV || l->kind == YK_DNN_DENSE || l->kind == YK_DNN_BATCHNORM;
}

static bool is_activation(const struct yk_dnn_layer *l)
{
    return l->kind == YK_DNN_RELU || l->kind == YK_DNN_TANH || l->kind == YK_DNN_SIGMOID;
}

static dnnl_prop_kind_t prop(const struct yk_dnn *d)
{
    return d->train ? dnnl_forward_training : dnnl_forward_inference;
}

/* The activation behind `layer` that it computes too, which is then marked as fused. */
static const enum yk_dnn_kind *fuse(struct yk_dnn *d, unsigned layer)
{
    if (layer + 1 == d->layers || !is_activation(&d->layer[layer + 1]))
        return NULL;
    d->stage[layer + 1].fused = true;
    return &d->layer[layer + 1].kind;
}

static void mark_done(struct yk_dnn *d)
{
    if (d->rc == YK_OK)
        d->op[d->ops - 1].done = true;
}

/* Where a primitive writes the gradient that it makes in the layout `made`: the flat buffer if that
 * is its layout, else a tensor that grad_leaves copies there. */
static yk_tensor grad_tensor(struct yk_dnn *d, const dnnl_memory_desc_t *made,
                             const dnnl_memory_desc_t *plain, size_t at)
{
    return dnnl_memory_desc_equal(made, plain) ? yk_dnn_tensor(d, plain, YK_IN_GRAD, at)
                                               : yk_dnn_tensor(d, made, YK_IN_ARENA, 0);
}

static void grad_leaves(struct yk_dnn *d, unsigned layer, yk_tensor t,
                        const dnnl_memory_desc_t *plain, size_t at)
{
    if (d->rc == YK_OK && d->tensor[t].place != YK_IN_GRAD)
        yk_dnn_reorder(d, layer, t, yk_dnn_tensor(d, plain, YK_IN_GRAD, at));
}

/* --- convolution --- */

struct conv_shape {
    int wdims;
    dnnl_dims_t weight, stride, low, high, bias;
};

static void conv_shape(const struct yk_dnn_layer *l, struct conv_shape *c)
{
    dnnl_dim_t g = l->groups, o = l->out[0], i = l->in[0];
    const dnnl_dims_t grouped = {g, o / g, i / g, l->kernel[0], l->kernel[1]},
                      one = {o, i, l->kernel[0], l->kernel[1]};
    memset(c, 0, sizeof *c);
    c->wdims = g > 1 ? 5 : 4;
    memcpy(c->weight, g > 1 ? grouped : one, sizeof c->weight);
    for (int k = 0; k < 2; k++) {
        c->stride[k] = l->stride[k];
        c->low[k] = l->pad[k];
        c->high[k] = l->pad[2 + k];
    }
    c->bias[0] = o;
}

static dnnl_memory_desc_t conv_plain(const struct conv_shape *c)
{
    return yk_dnn_md(c->wdims, c->weight, c->wdims == 5 ? dnnl_goihw : dnnl_oihw);
}

static void conv_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    struct yk_dnn_stage *s = &d->stage[layer];
    struct conv_shape c;
    conv_shape(l, &c);
    dnnl_memory_desc_t src = yk_dnn_image_md(d, l->in, dnnl_format_tag_any),
                       dst = yk_dnn_image_md(d, l->out, dnnl_format_tag_any),
                       weight = yk_dnn_md(c.wdims, c.weight, dnnl_format_tag_any),
                       bias = yk_dnn_md(1, c.bias, dnnl_x), plain = conv_plain(&c);
    dnnl_convolution_desc_t desc;
    yk_dnn_check(d, layer, "convolution",
                 dnnl_convolution_forward_desc_init(&desc, prop(d), dnnl_convolution_auto, &src,
                                                    &weight, l->bias ? &bias : NULL, &dst, c.stride,
                                                    c.low, c.high));
    s->forward = yk_dnn_describe(d, layer, "convolution", &desc, NULL, fuse(d, layer));
    src = yk_dnn_query(d, s->forward, dnnl_query_src_md, 0);
    dst = yk_dnn_query(d, s->forward, dnnl_query_dst_md, 0);
    weight = yk_dnn_query(d, s->forward, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t last = yk_dnn_image_md(d, l->in, dnnl_nhwc);
    if (layer == 0 && !d->inner && d->rc == YK_OK && dnnl_memory_desc_equal(&src, &last)) {
        d->tensor[d->input].md = last;
        d->channels_last = true;
    }
    s->src = yk_dnn_fit(d, layer, d->now, &src);
    s->weight = yk_dnn_tensor(d, &plain, YK_IN_PARAMS, l->weight);
    yk_tensor w = yk_dnn_fit(d, layer, s->weight, &weight),
              b = l->bias ? yk_dnn_tensor(d, &bias, YK_IN_PARAMS, l->bias_at) : YK_DNN_NONE;
    s->dst = yk_dnn_tensor(d, &dst, YK_IN_ARENA, 0);
    yk_dnn_add(d, layer, s->forward,
               USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, s->dst},
                    {DNNL_ARG_BIAS, b}));
    d->now = s->dst;
}

static void conv_backward(struct yk_dnn *d, unsigned layer, bool data)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    const struct yk_dnn_stage *s = &d->stage[layer];
    struct conv_shape c;
    conv_shape(l, &c);
    dnnl_memory_desc_t src = yk_dnn_image_md(d, l->in, dnnl_format_tag_any),
                       dst = yk_dnn_image_md(d, l->out, dnnl_format_tag_any),
                       weight = yk_dnn_md(c.wdims, c.weight, dnnl_format_tag_any),
                       bias = yk_dnn_md(1, c.bias, dnnl_x), plain = conv_plain(&c);
    dnnl_convolution_desc_t desc;
    yk_tensor above = d->now, below = YK_DNN_NONE;
    if (data) {
        yk_dnn_check(d, layer, "convolution backward",
                     dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_auto, &src,
                                                              &weight, &dst, c.stride, c.low,
                                                              c.high));
        dnnl_primitive_desc_t pd =
            yk_dnn_describe(d, layer, "convolution backward", &desc, s->forward, NULL);
        dnnl_memory_desc_t want = yk_dnn_query(d, pd, dnnl_query_diff_dst_md, 0),
                           w = yk_dnn_query(d, pd, dnnl_query_weights_md, 0),
                           made = yk_dnn_query(d, pd, dnnl_query_diff_src_md, 0);
        above = yk_dnn_fit(d, layer, above, &want);
        yk_tensor from = yk_dnn_fit(d, layer, s->weight, &w);
        below = yk_dnn_tensor(d, &made, YK_IN_ARENA, 0);
        yk_dnn_add(
            d, layer, pd,
            USES({DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_WEIGHTS, from}, {DNNL_ARG_DIFF_SRC, below}));
        dnnl_primitive_desc_destroy(pd);
    }
    yk_dnn_check(d, layer, "convolution's gradient",
                 dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_auto, &src,
                                                             &weight, l->bias ? &bias : NULL, &dst,
                                                             c.stride, c.low, c.high));
    dnnl_primitive_desc_t pd =
        yk_dnn_describe(d, layer, "convolution's gradient", &desc, s->forward, NULL);
    dnnl_memory_desc_t want = yk_dnn_query(d, pd, dnnl_query_diff_dst_md, 0),
                       x = yk_dnn_query(d, pd, dnnl_query_src_md, 0),
                       made = yk_dnn_query(d, pd, dnnl_query_diff_weights_md, 0);
    yk_tensor from = yk_dnn_fit(d, layer, s->src, &x);
    above = yk_dnn_fit(d, layer, above, &want);
    yk_tensor dw = grad_tensor(d, &made, &plain, l->weight),
              db = l->bias ? yk_dnn_tensor(d, &bias, YK_IN_GRAD, l->bias_at) : YK_DNN_NONE;
    yk_dnn_add(d, layer, pd,
               USES({DNNL_ARG_SRC, from}, {DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_DIFF_WEIGHTS, dw},
                    {DNNL_ARG_DIFF_BIAS, db}));
    dnnl_primitive_desc_destroy(pd);
    grad_leaves(d, layer, dw, &plain, l->weight);
    mark_done(d);
    d->now = below;
}

/* --- dense --- */

static dnnl_memory_desc_t matrix(dnnl_dim_t rows, dnnl_dim_t columns)
{
    const dnnl_dims_t dims = {rows, columns};
    return yk_dnn_md(2, dims, dnnl_nc);
}

struct dense_shape {
    dnnl_memory_desc_t src, dst, weight, bias;
    dnnl_memory_desc_t images, classes; /* src and dst as (images, c, h, w) */
};

static void dense_shape(const struct yk_dnn *d, const struct yk_dnn_layer *l, struct dense_shape *s)
{
    dnnl_dim_t in = (dnnl_dim_t)l->in[0] * l->in[1] * l->in[2], out = l->out[0];
    s->src = matrix(d->images, in);
    s->dst = matrix(d->images, out);
    s->weight = matrix(out, in);
    s->bias = yk_dnn_md(1, (const dnnl_dims_t){out}, dnnl_x);
    s->images = yk_dnn_image_md(d, l->in, dnnl_nchw);
    s->classes = yk_dnn_image_md(d, l->out, dnnl_nchw);
}

static void dense_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    struct yk_dnn_stage *s = &d->stage[layer];
    struct dense_shape m;
    dense_shape(d, l, &m);
    dnnl_inner_product_desc_t desc;
    yk_dnn_check(d, layer, "product",
                 dnnl_inner_product_forward_desc_init(&desc, prop(d), &m.src, &m.weight,
                                                      l->bias ? &m.bias : NULL, &m.dst));
    s->forward = yk_dnn_describe(d, layer, "product", &desc, NULL, fuse(d, layer));
    s->src = yk_dnn_alias(d, yk_dnn_fit(d, layer, d->now, &m.images), &m.src);
    s->weight = yk_dnn_tensor(d, &m.weight, YK_IN_PARAMS, l->weight);
    s->dst = yk_dnn_tensor(d, &m.dst, YK_IN_ARENA, 0);
    yk_tensor b = l->bias ? yk_dnn_tensor(d, &m.bias, YK_IN_PARAMS, l->bias_at) : YK_DNN_NONE;
    yk_dnn_add(d, layer, s->forward,
               USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_WEIGHTS, s->weight}, {DNNL_ARG_DST, s->dst},
                    {DNNL_ARG_BIAS, b}));
    d->now = yk_dnn_alias(d, s->dst, &m.classes);
}

static void dense_backward(struct yk_dnn *d, unsigned layer, bool data)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    const struct yk_dnn_stage *s = &d->stage[layer];
    struct dense_shape m;
    dense_shape(d, l, &m);
    dnnl_inner_product_desc_t desc;
    yk_tensor above = yk_dnn_alias(d, yk_dnn_fit(d, layer, d->now, &m.classes), &m.dst),
              below = YK_DNN_NONE;
    if (data) {
        yk_dnn_check(d, layer, "product backward",
                     dnnl_inner_product_backward_data_desc_init(&desc, &m.src, &m.weight, &m.dst));
        dnnl_primitive_desc_t pd =
            yk_dnn_describe(d, layer, "product backward", &desc, s->forward, NULL);
        yk_tensor t = yk_dnn_tensor(d, &m.src, YK_IN_ARENA, 0);
        yk_dnn_add(d, layer, pd,
                   USES({DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_WEIGHTS, s->weight},
                        {DNNL_ARG_DIFF_SRC, t}));
        dnnl_primitive_desc_destroy(pd);
        below = yk_dnn_alias(d, t, &m.images);
    }
    yk_dnn_check(d, layer, "product's gradient",
                 dnnl_inner_product_backward_weights_desc_init(&desc, &m.src, &m.weight,
                                                               l->bias ? &m.bias : NULL, &m.dst));
    dnnl_primitive_desc_t pd =
        yk_dnn_describe(d, layer, "product's gradient", &desc, s->forward, NULL);
    yk_tensor dw = yk_dnn_tensor(d, &m.weight, YK_IN_GRAD, l->weight),
              db = l->bias ? yk_dnn_tensor(d, &m.bias, YK_IN_GRAD, l->bias_at) : YK_DNN_NONE;
    yk_dnn_add(d, layer, pd,
               USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_DIFF_WEIGHTS, dw},
                    {DNNL_ARG_DIFF_BIAS, db}));
    dnnl_primitive_desc_destroy(pd);
    mark_done(d);
    d->now = below;
}

/* --- pooling --- */

static dnnl_alg_kind_t pool_kind(const struct yk_dnn_layer *l)
{
    return l->kind == YK_DNN_MAXPOOL ? dnnl_pooling_max : dnnl_pooling_avg_include_padding;
}

static void pool_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    struct yk_dnn_stage *s = &d->stage[layer];
    const dnnl_dims_t kernel = {l->kernel[0], l->kernel[1]}, stride = {l->stride[0], l->stride[1]},
                      low = {l->pad[0], l->pad[1]}, high = {l->pad[2], l->pad[3]};
    if (d->rc != YK_OK)
        return;
    dnnl_memory_desc_t dst = yk_dnn_image_md(d, l->out, dnnl_format_tag_any);
    dnnl_pooling_desc_t desc;
    yk_dnn_check(d, layer, "pooling",
                 dnnl_pooling_forward_desc_init(&desc, prop(d), pool_kind(l), &d->tensor[d->now].md,
                                                &dst, stride, kernel, low, high));
    s->forward = yk_dnn_describe(d, layer, "pooling", &desc, NULL, NULL);
    dst = yk_dnn_query(d, s->forward, dnnl_query_dst_md, 0);
    s->src = d->now;
    s->dst = yk_dnn_tensor(d, &dst, YK_IN_ARENA, 0);
    if (d->train && l->kind == YK_DNN_MAXPOOL) {
        dnnl_memory_desc_t which = yk_dnn_query(d, s->forward, dnnl_query_workspace_md, 0);
        s->workspace = yk_dnn_tensor(d, &which, YK_IN_ARENA, 0);
    }
    yk_dnn_add(
        d, layer, s->forward,
        USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_DST, s->dst}, {DNNL_ARG_WORKSPACE, s->workspace}));
    d->now = s->dst;
}

static void pool_backward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    const struct yk_dnn_stage *s = &d->stage[layer];
    const dnnl_dims_t kernel = {l->kernel[0], l->kernel[1]}, stride = {l->stride[0], l->stride[1]},
                      low = {l->pad[0], l->pad[1]}, high = {l->pad[2], l->pad[3]};
    if (d->rc != YK_OK)
        return;
    dnnl_pooling_desc_t desc;
    yk_tensor above = yk_dnn_fit(d, layer, d->now, &d->tensor[s->dst].md);
    yk_tensor below = yk_dnn_tensor(d, &d->tensor[s->src].md, YK_IN_ARENA, 0);
    if (d->rc != YK_OK)
        return;
    yk_dnn_check(d, layer, "pooling backward",
                 dnnl_pooling_backward_desc_init(&desc, pool_kind(l), &d->tensor[below].md,
                                                 &d->tensor[above].md, stride, kernel, low, high));
    dnnl_primitive_desc_t pd =
        yk_dnn_describe(d, layer, "pooling backward", &desc, s->forward, NULL);
    yk_dnn_add(d, layer, pd,
               USES({DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_DIFF_SRC, below},
                    {DNNL_ARG_WORKSPACE, s->workspace}));
    dnnl_primitive_desc_destroy(pd);
    d->now = below;
}

/* --- activations --- */

static dnnl_alg_kind_t activation_kind(const struct yk_dnn_layer *l)
{
    return l->kind == YK_DNN_RELU   ? dnnl_eltwise_relu_use_dst_for_bwd
           : l->kind == YK_DNN_TANH ? dnnl_eltwise_tanh_use_dst_for_bwd
                                    : dnnl_eltwise_logistic_use_dst_for_bwd;
}

static void activation_forward(struct yk_dnn *d, unsigned layer)
{
    struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_eltwise_desc_t desc;
    if (d->rc != YK_OK)
        return;
    const dnnl_memory_desc_t md = d->tensor[d->now].md;
    yk_dnn_check(d, layer, "activation",
                 dnnl_eltwise_forward_desc_init(&desc, prop(d), activation_kind(&d->layer[layer]),
                                                &md, 0, 0));
    /* The backward pass needs the description even if the layer before computes the activation. */
    s->forward = yk_dnn_describe(d, layer, "activation", &desc, NULL, NULL);
    s->src = s->dst = d->now;
    if (s->fused)
        return;
    s->dst = yk_dnn_tensor(d, &md, YK_IN_ARENA, 0);
    yk_dnn_add(d, layer, s->forward, USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_DST, s->dst}));
    d->now = s->dst;
}

static void activation_backward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_eltwise_desc_t desc;
    if (d->rc != YK_OK)
        return;
    const dnnl_memory_desc_t md = d->tensor[s->dst].md;
    yk_tensor grad = yk_dnn_fit(d, layer, d->now, &md);
    yk_dnn_check(
        d, layer, "activation backward",
        dnnl_eltwise_backward_desc_init(&desc, activation_kind(&d->layer[layer]), &md, &md, 0, 0));
    dnnl_primitive_desc_t pd =
        yk_dnn_describe(d, layer, "activation backward", &desc, s->forward, NULL);
    yk_dnn_add(d, layer, pd,
               USES({DNNL_ARG_DIFF_DST, grad}, {DNNL_ARG_DST, s->dst}, {DNNL_ARG_DIFF_SRC, grad}));
    dnnl_primitive_desc_destroy(pd);
    d->now = grad;
}

/* --- local response normalisation --- */

static void lrn_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_lrn_desc_t desc;
    const dnnl_memory_desc_t md = d->tensor[d->now].md;
    yk_dnn_check(d, layer, "normalisation",
                 dnnl_lrn_forward_desc_init(&desc, prop(d), dnnl_lrn_across_channels, &md, l->size,
                                            l->alpha, l->beta, l->k));
    s->forward = yk_dnn_describe(d, layer, "normalisation", &desc, NULL, NULL);
    s->src = d->now;
    s->dst = yk_dnn_tensor(d, &md, YK_IN_ARENA, 0);
    dnnl_memory_desc_t work = yk_dnn_query(d, s->forward, dnnl_query_workspace_md, 0);
    if (d->train && work.ndims > 0)
        s->workspace = yk_dnn_tensor(d, &work, YK_IN_ARENA, 0);
    yk_dnn_add(
        d, layer, s->forward,
        USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_DST, s->dst}, {DNNL_ARG_WORKSPACE, s->workspace}));
    d->now = s->dst;
}

static void lrn_backward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    const struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_lrn_desc_t desc;
    const dnnl_memory_desc_t md = d->tensor[s->src].md;
    yk_tensor above = yk_dnn_fit(d, layer, d->now, &md),
              below = yk_dnn_tensor(d, &md, YK_IN_ARENA, 0);
    yk_dnn_check(d, layer, "normalisation backward",
                 dnnl_lrn_backward_desc_init(&desc, dnnl_lrn_across_channels, &md, &md, l->size,
                                             l->alpha, l->beta, l->k));
    dnnl_primitive_desc_t pd =
        yk_dnn_describe(d, layer, "normalisation backward", &desc, s->forward, NULL);
    yk_dnn_add(d, layer, pd,
               USES({DNNL_ARG_DIFF_DST, above}, {DNNL_ARG_SRC, s->src}, {DNNL_ARG_DIFF_SRC, below},
                    {DNNL_ARG_WORKSPACE, s->workspace}));
    dnnl_primitive_desc_destroy(pd);
    d->now = below;
}

/* --- batch norm --- */

static dnnl_memory_desc_t channels(const struct yk_dnn_layer *l)
{
    return yk_dnn_md(1, (const dnnl_dims_t){l->in[0]}, dnnl_x);
}

/* oneDNN wants scale and shift in one matrix (2, channels). */
static void join_scale(const struct yk_dnn *d, const struct yk_dnn_op *op,
                       const struct yk_dnn_pass *p)
{
    const struct yk_dnn_layer *l = &d->layer[op->layer];
    float *to = yk_dnn_floats(d, op->tensor[0]);
    memcpy(to, p->params + l->weight, l->in[0] * sizeof *to);
    memcpy(to + l->in[0], p->params + l->bias_at, l->in[0] * sizeof *to);
}

static void leave_scale(const struct yk_dnn *d, const struct yk_dnn_op *op,
                        const struct yk_dnn_pass *p)
{
    const struct yk_dnn_layer *l = &d->layer[op->layer];
    uint32_t c = l->in[0];
    const float *grad = yk_dnn_floats(d, op->tensor[0]), *mean = yk_dnn_floats(d, op->tensor[1]),
                *var = yk_dnn_floats(d, op->tensor[2]);
    double count = (double)p->n * l->in[1] * l->in[2];
    float unbiased = count > 1 ? (float)(count / (count - 1)) : 1,
          part = (float)p->n * (1 - l->momentum);
    memcpy(p->grad + l->weight, grad, c * sizeof *grad);
    memcpy(p->grad + l->bias_at, grad + c, c * sizeof *grad);
    for (uint32_t i = 0; i < c; i++) {
        p->grad[l->mean + i] = part * (p->params[l->mean + i] - mean[i]);
        p->grad[l->var + i] = part * (p->params[l->var + i] - unbiased * var[i]);
    }
}

static void batchnorm_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_batch_normalization_desc_t desc;
    const dnnl_memory_desc_t md = d->tensor[d->now].md, one = channels(l),
                             two = yk_dnn_md(2, (const dnnl_dims_t){2, l->in[0]}, dnnl_nc);
    yk_dnn_check(d, layer, "batch norm",
                 dnnl_batch_normalization_forward_desc_init(
                     &desc, prop(d), &md, l->eps,
                     dnnl_use_scaleshift | (d->train ? 0U : (unsigned)dnnl_use_global_stats)));
    s->forward = yk_dnn_describe(d, layer, "batch norm", &desc, NULL, NULL);
    s->src = d->now;
    s->dst = yk_dnn_tensor(d, &md, YK_IN_ARENA, 0);
    s->scale = yk_dnn_tensor(d, &two, YK_IN_ARENA, 0);
    s->mean = yk_dnn_tensor(d, &one, d->train ? YK_IN_ARENA : YK_IN_PARAMS, l->mean);
    s->var = yk_dnn_tensor(d, &one, d->train ? YK_IN_ARENA : YK_IN_PARAMS, l->var);
    yk_dnn_add_call(d, layer, join_scale, USES({0, s->scale}));
    yk_dnn_add(d, layer, s->forward,
               USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_SCALE_SHIFT, s->scale},
                    {DNNL_ARG_DST, s->dst}, {DNNL_ARG_MEAN, s->mean}, {DNNL_ARG_VARIANCE, s->var}));
    d->now = s->dst;
}

static void batchnorm_backward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    const struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_batch_normalization_desc_t desc;
    const dnnl_memory_desc_t md = d->tensor[s->src].md, two = d->tensor[s->scale].md;
    yk_tensor above = yk_dnn_fit(d, layer, d->now, &md),
              below = yk_dnn_tensor(d, &md, YK_IN_ARENA, 0),
              grad = yk_dnn_tensor(d, &two, YK_IN_ARENA, 0);
    yk_dnn_check(d, layer, "batch norm backward",
                 dnnl_batch_normalization_backward_desc_init(&desc, dnnl_backward, &md, &md, l->eps,
                                                             dnnl_use_scaleshift));
    dnnl_primitive_desc_t pd =
        yk_dnn_describe(d, layer, "batch norm backward", &desc, s->forward, NULL);
    yk_dnn_add(d, layer, pd,
               USES({DNNL_ARG_SRC, s->src}, {DNNL_ARG_DIFF_DST, above},
                    {DNNL_ARG_SCALE_SHIFT, s->scale}, {DNNL_ARG_MEAN, s->mean},
                    {DNNL_ARG_VARIANCE, s->var}, {DNNL_ARG_DIFF_SRC, below},
                    {DNNL_ARG_DIFF_SCALE_SHIFT, grad}));
    dnnl_primitive_desc_destroy(pd);
    yk_dnn_add_call(d, layer, leave_scale, USES({0, grad}, {0, s->mean}, {0, s->var}));
    mark_done(d);
    d->now = below;
}

/* --- dropout --- */

void yk_dnn_mask(uint8_t *mask, size_t count, float rate, uint64_t seed, uint64_t epoch,
                 uint64_t row, uint64_t key)
{
    struct yk_rng r;
    uint32_t below = (uint32_t)(rate * 65536.0f + 0.5f); /* 16 random bits a number */
    yk_rng_init(&r, seed, epoch, row, key);
    for (size_t i = 0; i < count; i += 4) {
        uint64_t bits = yk_rng_next(&r);
        for (size_t k = i; k < i + 4 && k < count; k++, bits >>= 16)
            mask[k] = (bits & 0xffff) >= below;
    }
}

struct dropping {
    const struct yk_dnn_pass *pass;
    const struct yk_dnn_layer *layer;
    size_t count; /* numbers of an image */
    const float *from;
    float *to;
    uint8_t *mask;
    bool draw; /* make the mask: in the forward pass */
};

static void drop(void *arg, uint32_t i)
{
    const struct dropping *x = arg;
    const struct yk_dnn_layer *l = x->layer;
    uint8_t *mask = x->mask + i * x->count;
    const float *from = x->from + i * x->count, scale = 1 / (1 - l->rate);
    float *to = x->to + i * x->count;
    if (x->draw && i < x->pass->n)
        yk_dnn_mask(mask, x->count, l->rate, x->pass->seed, x->pass->epoch, x->pass->row[i],
                    l->key);
    else if (x->draw)
        memset(mask, 0, x->count);
    for (size_t k = 0; k < x->count; k++)
        to[k] = mask[k] ? from[k] * scale : 0;
}

/* The tensors of the operation: the numbers before and after, and the mask. */
static void drop_all(const struct yk_dnn *d, const struct yk_dnn_op *op,
                     const struct yk_dnn_pass *p, bool draw)
{
    const struct yk_dnn_layer *l = &d->layer[op->layer];
    struct dropping x = {.pass = p,
                         .layer = l,
                         .count = (size_t)l->in[0] * l->in[1] * l->in[2],
                         .from = yk_dnn_floats(d, op->tensor[0]),
                         .to = yk_dnn_floats(d, op->tensor[1]),
                         .mask = (uint8_t *)yk_dnn_floats(d, op->tensor[2]),
                         .draw = draw};
    yk_dnn_each(d->threads, d->images, drop, &x);
}

static void drop_forward(const struct yk_dnn *d, const struct yk_dnn_op *op,
                         const struct yk_dnn_pass *p)
{
    drop_all(d, op, p, true);
}

static void drop_backward(const struct yk_dnn *d, const struct yk_dnn_op *op,
                          const struct yk_dnn_pass *p)
{
    drop_all(d, op, p, false);
}

static void dropout_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_memory_desc_t plain = yk_dnn_image_md(d, l->in, dnnl_nchw), bytes;
    if (!d->train)
        return;
    const dnnl_dims_t dims = {d->images, l->in[0], l->in[1], l->in[2]};
    yk_dnn_check(d, layer, "dropout",
                 dnnl_memory_desc_init_by_tag(&bytes, 4, dims, dnnl_u8, dnnl_nchw));
    s->src = yk_dnn_fit(d, layer, d->now, &plain);
    s->dst = yk_dnn_tensor(d, &plain, YK_IN_ARENA, 0);
    s->workspace = yk_dnn_tensor(d, &bytes, YK_IN_ARENA, 0);
    yk_dnn_add_call(d, layer, drop_forward, USES({0, s->src}, {0, s->dst}, {0, s->workspace}));
    d->now = s->dst;
}

static void dropout_backward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_stage *s = &d->stage[layer];
    const dnnl_memory_desc_t plain = yk_dnn_image_md(d, d->layer[layer].in, dnnl_nchw);
    yk_tensor grad = yk_dnn_fit(d, layer, d->now, &plain);
    yk_dnn_add_call(d, layer, drop_backward, USES({0, grad}, {0, grad}, {0, s->workspace}));
    d->now = grad;
}

/* --- all --- */

static void flatten(struct yk_dnn *d, unsigned layer, const uint32_t from[3], const uint32_t to[3])
{
    dnnl_memory_desc_t plain = yk_dnn_image_md(d, from, dnnl_nchw),
                       flat = yk_dnn_image_md(d, to, dnnl_nchw);
    d->now = yk_dnn_alias(d, yk_dnn_fit(d, layer, d->now, &plain), &flat);
}

void yk_dnn_layer_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    if (d->rc != YK_OK)
        return;
    switch (l->kind) {
    case YK_DNN_CONV:
        conv_forward(d, layer);
        break;
    case YK_DNN_DENSE:
        dense_forward(d, layer);
        break;
    case YK_DNN_MAXPOOL:
    case YK_DNN_AVGPOOL:
        pool_forward(d, layer);
        break;
    case YK_DNN_RELU:
    case YK_DNN_TANH:
    case YK_DNN_SIGMOID:
        activation_forward(d, layer);
        break;
    case YK_DNN_FLATTEN:
        flatten(d, layer, l->in, l->out);
        break;
    case YK_DNN_LRN:
        lrn_forward(d, layer);
        break;
    case YK_DNN_BATCHNORM:
        batchnorm_forward(d, layer);
        break;
    case YK_DNN_DROPOUT:
        dropout_forward(d, layer);
        break;
    }
}

void yk_dnn_layer_backward(struct yk_dnn *d, unsigned layer, bool data)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    if (d->rc != YK_OK)
        return;
    switch (l->kind) {
    case YK_DNN_CONV:
        conv_backward(d, layer, data);
        break;
    case YK_DNN_DENSE:
        dense_backward(d, layer, data);
        break;
    case YK_DNN_MAXPOOL:
    case YK_DNN_AVGPOOL:
        pool_backward(d, layer);
        break;
    case YK_DNN_RELU:
    case YK_DNN_TANH:
    case YK_DNN_SIGMOID:
        activation_backward(d, layer);
        break;
    case YK_DNN_FLATTEN:
        flatten(d, layer, l->out, l->in);
        break;
    case YK_DNN_LRN:
        lrn_backward(d, layer);
        break;
    case YK_DNN_BATCHNORM:
        batchnorm_backward(d, layer);
        break;
    case YK_DNN_DROPOUT:
        dropout_backward(d, layer);
        break;
    }
}
