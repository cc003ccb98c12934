/* softmax.c - softmax regression: p = softmax(x W^T + b), cross-entropy, any dense labelled set.
 * Starts at zero.
 *
 *     softmax.bias    (classes)
 *     softmax.weight  (classes, features)   as torch.nn.Linear keeps it
 *
 * The arithmetic is kernel/softmax_isa.c. A batch of at least 2 * ROWS_EACH rows is cut into one
 * contiguous part per thread; each part has gradients of its own, which are added in the order of
 * the parts, so the bits depend on --threads but never on timing.
 * THREADS: a work belongs to one caller; its team computes inside step and score only. */
#include "base/team.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "model/net/net_onnx.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)YK_KERNEL_BLOCK == (int)YK_PACK_BLOCK,
               "the kernels walk the blocks that packing leaves");

enum { ROWS_EACH = 128 }; /* for fewer rows another thread costs more than it saves */

struct softmax_model {
    uint32_t features, classes;
    uint32_t shape[3];
    size_t weight, bias; /* offsets in the flat parameters */
    size_t count;        /* floats of a gradient buffer */
};

struct softmax_part {
    struct yk_softmax_pass pass;
    float *grad; /* (count) this part's gradients; the first part writes into the sink's instead */
};

struct softmax_work {
    const struct softmax_model *model;
    const struct yk_kernels *kernels;
    struct yk_team *team;
    struct softmax_part *part; /* (threads) */
    unsigned threads;
};

static yk_code model_open(struct yk_model **out, const struct yk_dataset *shape, struct yk_error *e)
{
    if (shape->classes < 2 || shape->classes > 256)
        return yk_fail(e, YK_USAGE, "softmax needs 2 to 256 classes, '%s' has %u", shape->name,
                       shape->classes);
    struct softmax_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return yk_fail_memory(e, sizeof *m);
    m->features = shape->features;
    m->classes = shape->classes;
    memcpy(m->shape, shape->shape, sizeof m->shape);
    *out = (struct yk_model *)m;
    return YK_OK;
}

static void model_close(struct yk_model *model)
{
    free(model);
}

static yk_code layout(struct yk_model *model, struct yk_params *params, uint64_t seed,
                      struct yk_error *e)
{
    struct softmax_model *m = (struct softmax_model *)model;
    (void)seed; /* a convex problem: zero is as good a start as any */
    const struct yk_view spec[] = {
        {.name = "softmax.weight", .ndim = 2, .shape = {m->classes, m->features}},
        {.name = "softmax.bias", .ndim = 1, .shape = {m->classes}},
    };
    yk_code rc = yk_params_init(params, spec, 2, e);
    if (rc != YK_OK)
        return rc;
    m->weight = yk_params_find(params, "softmax.weight")->at;
    m->bias = yk_params_find(params, "softmax.bias")->at;
    m->count = params->count;
    return YK_OK;
}

static void work_close(struct yk_work *work)
{
    struct softmax_work *w = (struct softmax_work *)work;
    if (w == NULL)
        return;
    if (w->part != NULL)
        for (unsigned i = 0; i < w->threads; i++) {
            free(w->part[i].pass.scratch);
            yk_floats_free(w->part[i].grad);
        }
    free(w->part);
    yk_team_close(w->team);
    free(w);
}

static yk_code work_open(struct yk_work **out, const struct yk_model *model, unsigned threads,
                         const char *isa, struct yk_error *e)
{
    const struct softmax_model *m = (const struct softmax_model *)model;
    struct softmax_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return yk_fail_memory(e, sizeof *w);
    w->model = m;
    w->threads = threads;
    yk_code rc = yk_kernels_pick(isa, &w->kernels, e);
    if (rc == YK_OK)
        rc = yk_team_open(&w->team, threads, e);
    if (rc != YK_OK)
        goto out_work;
    size_t scratch = yk_softmax_scratch(m->features, m->classes);
    w->part = calloc(threads, sizeof *w->part);
    if (w->part == NULL) {
        rc = yk_fail_memory(e, threads * sizeof *w->part);
        goto out_work;
    }
    for (unsigned i = 0; i < threads; i++) {
        w->part[i].pass.scratch = aligned_alloc(64, scratch);
        w->part[i].grad = i == 0 ? NULL : yk_floats(m->count);
        if (w->part[i].pass.scratch == NULL || (i > 0 && w->part[i].grad == NULL))
            rc = yk_fail_memory(e, scratch);
    }
    if (rc != YK_OK)
        goto out_work;
    *out = (struct yk_work *)w;
    return YK_OK;
out_work:
    work_close((struct yk_work *)w);
    return rc;
}

static unsigned parts_of(const struct softmax_work *w, uint32_t rows)
{
    unsigned parts = rows / ROWS_EACH;
    return parts < 1 ? 1 : parts < w->threads ? parts : w->threads;
}

static void compute(void *arg, unsigned i)
{
    struct softmax_work *w = arg;
    w->kernels->softmax(&w->part[i].pass);
}

/* Divides the batch into parts and runs them; part i has rows [i n / parts, (i+1) n / parts). */
static unsigned run(struct softmax_work *w, const struct yk_params *params,
                    const struct yk_batch *b, float *grad, float *prob)
{
    const struct softmax_model *m = w->model;
    unsigned parts = parts_of(w, b->n);
    for (unsigned i = 0; i < parts; i++) {
        uint32_t lo = (uint32_t)((uint64_t)b->n * i / parts),
                 hi = (uint32_t)((uint64_t)b->n * (i + 1) / parts);
        uint32_t from = lo < b->n_ahead ? lo : b->n_ahead, to = hi < b->n_ahead ? hi : b->n_ahead;
        float *g = grad == NULL ? NULL : i == 0 ? grad : w->part[i].grad;
        w->part[i].pass = (struct yk_softmax_pass){
            .features = m->features,
            .classes = m->classes,
            .blocks = b->set->packed.blocks,
            .first = b->set->packed.first,
            .nonzero = b->set->packed.nonzero,
            .words = b->set->packed.words,
            .labels = b->set->labels,
            .scale = b->set->scale,
            .row = b->row + lo,
            .n = hi - lo,
            .ahead = b->ahead + from,
            .n_ahead = to - from,
            .weight = params->flat + m->weight,
            .bias = params->flat + m->bias,
            .grad_weight = g == NULL ? NULL : g + m->weight,
            .grad_bias = g == NULL ? NULL : g + m->bias,
            .prob = prob == NULL ? NULL : prob + (size_t)lo * m->classes,
            .scratch = w->part[i].pass.scratch,
        };
    }
    yk_team_run(w->team, parts, compute, w);
    return parts;
}

static unsigned busy(const struct yk_work *work, uint32_t batch)
{
    const struct softmax_work *w = (const struct softmax_work *)work;
    return parts_of(w, batch);
}

static double step(struct yk_work *work, const struct yk_params *params,
                   const struct yk_batch *batch, struct yk_sink *sink)
{
    struct softmax_work *w = (struct softmax_work *)work;
    unsigned parts = run(w, params, batch, sink->grad, NULL);
    double loss = w->part[0].pass.loss;
    for (unsigned i = 1; i < parts; i++) {
        const float *g = w->part[i].grad;
        loss += w->part[i].pass.loss;
        for (size_t k = 0; k < w->model->count; k++)
            sink->grad[k] += g[k];
    }
    sink->ready(sink, 0, w->model->count);
    return loss;
}

static void score(struct yk_work *work, const struct yk_params *params,
                  const struct yk_batch *batch, struct yk_score *out, float *prob)
{
    struct softmax_work *w = (struct softmax_work *)work;
    unsigned parts = run(w, params, batch, NULL, prob);
    for (unsigned i = 0; i < parts; i++) {
        out->loss += w->part[i].pass.loss;
        out->correct += w->part[i].pass.correct;
    }
    out->examples += batch->n;
}

static yk_code onnx(const struct yk_model *model, const struct yk_params *params, const char *path,
                    struct yk_error *e)
{
    const struct softmax_model *m = (const struct softmax_model *)model;
    return yk_onnx_softmax(path, m->shape, m->classes, params, e);
}

static void graph(const struct yk_model *model, struct yk_events *events)
{
    const struct softmax_model *m = (const struct softmax_model *)model;
    const struct yk_graph_node node[] = {
        {.name = "pixels",
         .op = "Placeholder",
         .ndim = 4,
         .shape = {-1, m->shape[0], m->shape[1], m->shape[2]}},
        {.name = "labels", .op = "Placeholder", .ndim = 1, .shape = {-1}},
        {.name = "flatten",
         .op = "Reshape",
         .inputs = {"pixels"},
         .ndim = 2,
         .shape = {-1, m->features}},
        {.name = "softmax/weight",
         .op = "VariableV2",
         .ndim = 2,
         .shape = {m->classes, m->features}},
        {.name = "softmax/bias", .op = "VariableV2", .ndim = 1, .shape = {m->classes}},
        {.name = "softmax/product",
         .op = "MatMul",
         .inputs = {"flatten", "softmax/weight"},
         .ndim = 2,
         .shape = {-1, m->classes}},
        {.name = "softmax/logits",
         .op = "BiasAdd",
         .inputs = {"softmax/product", "softmax/bias"},
         .ndim = 2,
         .shape = {-1, m->classes}},
        {.name = "loss",
         .op = "SparseSoftmaxCrossEntropyWithLogits",
         .inputs = {"softmax/logits", "labels"},
         .ndim = 1,
         .shape = {-1}},
        {.name = "accuracy",
         .op = "InTopKV2",
         .inputs = {"softmax/logits", "labels"},
         .ndim = 1,
         .shape = {-1}},
    };
    yk_events_graph(events, node, sizeof node / sizeof node[0]);
}

static const char *const DEFAULTS[] = {"data", "mnist", "batch",  "100", "optimizer", "sgd",
                                       "lr",   "0.01",  "epochs", "10",  NULL};

const struct yk_model_ops yk_model_softmax = {
    .name = "softmax",
    .help = "softmax regression on any dense labelled set",
    .defaults = DEFAULTS,
    .packed = true,
    .open = model_open,
    .close = model_close,
    .layout = layout,
    .work_open = work_open,
    .work_close = work_close,
    .busy = busy,
    .step = step,
    .score = score,
    .onnx = onnx,
    .graph = graph,
};
