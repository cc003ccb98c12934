/* onednn_norm.c - the layers that treat numbers by what is around them, or by chance: LRN, batch norm, dropout.
 *
 * Batch norm's running statistics are parameters like others, but nobody learns them: what leaves as their "gradient" is
 *
 *     n (1 - momentum) (running - batch)        n: images of this batch
 *
 * so that an owner who adds shards, divides by their images and subtracts (rate 1, no optimizer) comes to running = momentum * running +
 * (1 - momentum) * batch, the batch being the mean over shards. The variance that is kept is the unbiased one, as torch's is.
 *
 * Dropout multiplies what it keeps by 1 / (1 - rate). Which numbers those are is told by (seed, epoch, row, layer) and their place in the image,
 * so it needs the plain layout. */
#include "base/rng.h"
#include "kernel/onednn_plan.h"

#include <string.h>

static struct yk_dnn_use last_use(void)
{
    return (struct yk_dnn_use){0, YK_DNN_NONE};
}

/* --- local response normalisation --- */

static void lrn_forward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_layer *l = &d->layer[layer];
    struct yk_dnn_stage *s = &d->stage[layer];
    dnnl_lrn_desc_t desc;
    const dnnl_memory_desc_t md = d->tensor[d->now].md;
    yk_dnn_check(d, layer, "normalisation",
                 dnnl_lrn_forward_desc_init(
                     &desc, d->train ? dnnl_forward_training : dnnl_forward_inference,
                     dnnl_lrn_across_channels, &md, l->size, l->alpha, l->beta, l->k));
    s->forward = yk_dnn_describe(d, layer, "normalisation", &desc, NULL, NULL);
    s->src = d->now;
    s->dst = yk_dnn_tensor(d, &md, YK_IN_ARENA, 0);
    dnnl_memory_desc_t work = yk_dnn_query(d, s->forward, dnnl_query_workspace_md, 0);
    if (d->train && work.ndims > 0)
        s->workspace = yk_dnn_tensor(d, &work, YK_IN_ARENA, 0);
    const struct yk_dnn_use use[] = {{DNNL_ARG_SRC, s->src},
                                     {DNNL_ARG_DST, s->dst},
                                     {DNNL_ARG_WORKSPACE, s->workspace},
                                     last_use()};
    yk_dnn_add(d, layer, s->forward, use);
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
    const struct yk_dnn_use use[] = {{DNNL_ARG_DIFF_DST, above},
                                     {DNNL_ARG_SRC, s->src},
                                     {DNNL_ARG_DIFF_SRC, below},
                                     {DNNL_ARG_WORKSPACE, s->workspace},
                                     last_use()};
    yk_dnn_add(d, layer, pd, use);
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
                     &desc, d->train ? dnnl_forward_training : dnnl_forward_inference, &md, l->eps,
                     dnnl_use_scaleshift | (d->train ? 0U : (unsigned)dnnl_use_global_stats)));
    s->forward = yk_dnn_describe(d, layer, "batch norm", &desc, NULL, NULL);
    s->src = d->now;
    s->dst = yk_dnn_tensor(d, &md, YK_IN_ARENA, 0);
    s->scale = yk_dnn_tensor(d, &two, YK_IN_ARENA, 0);
    s->mean = yk_dnn_tensor(d, &one, d->train ? YK_IN_ARENA : YK_IN_PARAMS, l->mean);
    s->var = yk_dnn_tensor(d, &one, d->train ? YK_IN_ARENA : YK_IN_PARAMS, l->var);
    const struct yk_dnn_use join[] = {{0, s->scale}, last_use()},
                            use[] = {{DNNL_ARG_SRC, s->src},      {DNNL_ARG_SCALE_SHIFT, s->scale},
                                     {DNNL_ARG_DST, s->dst},      {DNNL_ARG_MEAN, s->mean},
                                     {DNNL_ARG_VARIANCE, s->var}, last_use()};
    yk_dnn_add_call(d, layer, join_scale, join);
    yk_dnn_add(d, layer, s->forward, use);
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
    const struct yk_dnn_use use[] = {{DNNL_ARG_SRC, s->src},
                                     {DNNL_ARG_DIFF_DST, above},
                                     {DNNL_ARG_SCALE_SHIFT, s->scale},
                                     {DNNL_ARG_MEAN, s->mean},
                                     {DNNL_ARG_VARIANCE, s->var},
                                     {DNNL_ARG_DIFF_SRC, below},
                                     {DNNL_ARG_DIFF_SCALE_SHIFT, grad},
                                     last_use()},
                            leave[] = {{0, grad}, {0, s->mean}, {0, s->var}, last_use()};
    yk_dnn_add(d, layer, pd, use);
    dnnl_primitive_desc_destroy(pd);
    struct yk_dnn_op *op = yk_dnn_add_call(d, layer, leave_scale, leave);
    if (op != NULL)
        op->done = true;
    d->now = below;
}

/* --- dropout --- */

void yk_dnn_mask(uint8_t *keep, size_t count, float rate, uint64_t seed, uint64_t epoch,
                 uint64_t row, uint64_t key)
{
    struct yk_rng r;
    uint32_t below = (uint32_t)(rate * 65536.0f + 0.5f); /* 16 random bits a number */
    yk_rng_init(&r, seed, epoch, row, key);
    for (size_t i = 0; i < count; i += 4) {
        uint64_t bits = yk_rng_next(&r);
        for (size_t k = i; k < i + 4 && k < count; k++, bits >>= 16)
            keep[k] = (bits & 0xffff) >= below;
    }
}

struct dropping {
    const struct yk_dnn_pass *pass;
    const struct yk_dnn_layer *layer;
    size_t count; /* numbers an image */
    const float *from;
    float *to;
    uint8_t *keep;
    bool draw; /* forward: make the mask */
};

static void drop(void *arg, uint32_t i)
{
    const struct dropping *x = arg;
    const struct yk_dnn_layer *l = x->layer;
    uint8_t *keep = x->keep + i * x->count;
    const float *from = x->from + i * x->count, scale = 1 / (1 - l->rate);
    float *to = x->to + i * x->count;
    if (x->draw && i < x->pass->n)
        yk_dnn_mask(keep, x->count, l->rate, x->pass->seed, x->pass->epoch, x->pass->row[i],
                    l->key);
    else if (x->draw)
        memset(keep, 0, x->count);
    for (size_t k = 0; k < x->count; k++)
        to[k] = keep[k] ? from[k] * scale : 0;
}

static void drop_forward(const struct yk_dnn *d, const struct yk_dnn_op *op,
                         const struct yk_dnn_pass *p)
{
    const struct yk_dnn_layer *l = &d->layer[op->layer];
    struct dropping x = {.pass = p,
                         .layer = l,
                         .count = (size_t)l->in[0] * l->in[1] * l->in[2],
                         .from = yk_dnn_floats(d, op->tensor[0]),
                         .to = yk_dnn_floats(d, op->tensor[1]),
                         .keep = (uint8_t *)yk_dnn_floats(d, op->tensor[2]),
                         .draw = true};
    yk_dnn_each(d->threads, d->images, drop, &x);
}

static void drop_backward(const struct yk_dnn *d, const struct yk_dnn_op *op,
                          const struct yk_dnn_pass *p)
{
    const struct yk_dnn_layer *l = &d->layer[op->layer];
    float *grad = yk_dnn_floats(d, op->tensor[0]);
    struct dropping x = {.pass = p,
                         .layer = l,
                         .count = (size_t)l->in[0] * l->in[1] * l->in[2],
                         .from = grad,
                         .to = grad,
                         .keep = (uint8_t *)yk_dnn_floats(d, op->tensor[1])};
    yk_dnn_each(d->threads, d->images, drop, &x);
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
    const struct yk_dnn_use use[] = {{0, s->src}, {0, s->dst}, {0, s->workspace}, last_use()};
    yk_dnn_add_call(d, layer, drop_forward, use);
    d->now = s->dst;
}

static void dropout_backward(struct yk_dnn *d, unsigned layer)
{
    const struct yk_dnn_stage *s = &d->stage[layer];
    const dnnl_memory_desc_t plain = yk_dnn_image_md(d, d->layer[layer].in, dnnl_nchw);
    yk_tensor grad = yk_dnn_fit(d, layer, d->now, &plain);
    const struct yk_dnn_use use[] = {{0, grad}, {0, s->workspace}, last_use()};
    yk_dnn_add_call(d, layer, drop_backward, use);
    d->now = grad;
}

/* --- all --- */

void yk_dnn_norm_forward(struct yk_dnn *d, unsigned layer)
{
    if (d->rc != YK_OK)
        return;
    if (d->layer[layer].kind == YK_DNN_LRN)
        lrn_forward(d, layer);
    else if (d->layer[layer].kind == YK_DNN_BATCHNORM)
        batchnorm_forward(d, layer);
    else
        dropout_forward(d, layer);
}

void yk_dnn_norm_backward(struct yk_dnn *d, unsigned layer)
{
    if (d->rc != YK_OK)
        return;
    if (d->layer[layer].kind == YK_DNN_LRN)
        lrn_backward(d, layer);
    else if (d->layer[layer].kind == YK_DNN_BATCHNORM)
        batchnorm_backward(d, layer);
    else
        dropout_backward(d, layer);
}
