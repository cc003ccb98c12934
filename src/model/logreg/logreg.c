/* logreg.c - logistic regression on sparse rows with labels 0 and 1: p = sigmoid(x w + b), log
 * loss. Starts at zero.
 *
 *     logreg.bias    (1)          flat key 0: every row has it, with value 1
 *     logreg.weight  (features)   flat key of feature f: 16 + f
 *
 * The model may be far larger than what a worker holds, so steps and scores happen in *slot space*:
 * `keys` lists the parameters that a task touches and notes for every entry of its rows its place
 * in the list; `step` then computes with one float a slot, and its gradients are one float
 * a slot (key_map.c). A process that owns everything sweeps over the parameters themselves instead
 * (logreg_sweep.c).
 *
 * A gradient is a sum in the order of the rows. Each term is x g + 0.0f and so never -0.0: a key
 * that a shard does not have changes no bit of any sum. The caller's thread computes alone, because
 * a batch is only a few thousand multiplications.
 * THREADS: a work belongs to one caller. */
#include "model/logreg/logreg.h"

#include "model/net/net_onnx.h"

#include <math.h>

#define MOST_FEATURES (YK_KEY_MAX + 1) /* as many as keys of rows: --features has the same limit */

static yk_code model_open(struct yk_model **out, const struct yk_dataset *shape, struct yk_error *e)
{
    /* A host without rows of its own cannot tell. */
    bool dense = shape->sparse == NULL && shape->rows > 0;
    if (dense || shape->classes != 2) {
        yk_fail(e, YK_USAGE,
                "logreg needs sparse rows of 2 classes, '%s' has %s rows of %u classes",
                shape->name, dense ? "dense" : "sparse", shape->classes);
        yk_hint(e, "'yoke train softmax' takes dense sets");
        return YK_USAGE;
    }
    if (shape->features == 0) {
        yk_fail(e, YK_DATA, "no row of '%s' has any entry: there is nothing to learn from",
                shape->name);
        yk_hint(e, "to train on such rows all the same, give the number of weights: --features N");
        return YK_DATA;
    }
    if (shape->features > MOST_FEATURES)
        return yk_fail(e, YK_USAGE, "logreg takes at most %u features, '%s' has %u", MOST_FEATURES,
                       shape->name, shape->features);
    struct yk_logreg_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return yk_fail_memory(e, sizeof *m);
    m->features = shape->features;
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
    struct yk_logreg_model *m = (struct yk_logreg_model *)model;
    (void)seed; /* a convex problem: zero is as good a start as any */
    const struct yk_view spec[] = {
        {.name = "logreg.bias", .ndim = 1, .shape = {1}},
        {.name = "logreg.weight", .ndim = 1, .shape = {m->features}},
    };
    yk_code rc = yk_params_layout(params, spec, 2, e);
    if (rc != YK_OK)
        return rc;
    m->bias = (uint32_t)yk_params_find(params, "logreg.bias")->at;
    m->weight = (uint32_t)yk_params_find(params, "logreg.weight")->at;
    return YK_OK;
}

static void work_close(struct yk_work *work)
{
    struct yk_logreg_work *w = (struct yk_logreg_work *)work;
    if (w == NULL)
        return;
    yk_logreg_sweep_release(w);
    yk_key_map_release(&w->map[0]);
    yk_key_map_release(&w->map[1]);
    yk_team_close(w->team);
    free(w);
}

static yk_code work_open(struct yk_work **out, const struct yk_model *model, unsigned threads,
                         const char *isa, struct yk_error *e)
{
    const struct yk_logreg_model *m = (const struct yk_logreg_model *)model;
    struct yk_logreg_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return yk_fail_memory(e, sizeof *w);
    w->model = m;
    w->threads = threads;
    yk_code rc = yk_kernels_pick(isa, &w->kernels, e);
    if (rc == YK_OK)
        rc = yk_team_open(&w->team, threads, e);
    if (rc != YK_OK) {
        work_close((struct yk_work *)w);
        return rc;
    }
    *out = (struct yk_work *)w;
    return YK_OK;
}

static unsigned busy(const struct yk_work *work, uint32_t batch)
{
    const struct yk_logreg_work *w = (const struct yk_logreg_work *)work;
    (void)batch;
    return w->threads; /* in a sweep; a step in slot space takes one */
}

static yk_code keys(struct yk_work *work, unsigned which, const struct yk_batch *shard,
                    uint32_t shards, struct yk_keys *out, struct yk_error *e)
{
    struct yk_logreg_work *w = (struct yk_logreg_work *)work;
    struct yk_key_map *p = &w->map[which];
    yk_code rc = yk_key_map_make(p, w->model, shard, shards, e);
    *out = (struct yk_keys){.key = p->key, .n = p->n};
    return rc;
}

static void choose(struct yk_work *work, unsigned which, uint32_t shard)
{
    struct yk_logreg_work *w = (struct yk_logreg_work *)work;
    w->chosen = &w->map[which];
    w->shard = shard;
}

/* Row i of the chosen shard, whose entries begin at `at` of the map. The map has its values if the
 * model lacks some keys. */
static struct yk_row row_of(const struct yk_key_map *p, const struct yk_batch *batch, uint32_t i,
                            uint32_t at)
{
    struct yk_row row = yk_row_at(batch->set->sparse, batch->row[i]);
    if (p->value != NULL)
        row.value = p->value + at;
    return row;
}

static struct yk_logit compute(const struct yk_logreg_work *w, const float *value,
                               const uint32_t *slot, const struct yk_row *row)
{
    const struct yk_logreg_row r = {
        .weights = {.w = value, .at = slot, .n = row->n, .bias = value[0]},
        .x = row->value,
        .label = row->label};
    /* cppcheck-suppress returnDanglingLifetime ; three floats, no pointer among them */
    return w->kernels->logreg(&r);
}

static double step(struct yk_work *work, const struct yk_params *params,
                   const struct yk_batch *batch, struct yk_sink *sink)
{
    struct yk_logreg_work *w = (struct yk_logreg_work *)work;
    const struct yk_key_map *p = w->chosen;
    const uint32_t *slot = p->slot + p->shard[w->shard];
    const float *value = params->flat;
    float *grad = sink->grad, bias = 0;
    double loss = 0;
    memset(grad, 0, (size_t)p->n * sizeof *grad);
    for (uint32_t i = 0; i < batch->n; i++) {
        struct yk_row row = row_of(p, batch, i, (uint32_t)(slot - p->slot));
        struct yk_logit at = compute(w, value, slot, &row);
        loss += (double)at.loss;
        bias += at.g;
        yk_row_add_grad(&row, at.g, slot, grad);
        slot += row.n;
    }
    grad[0] += bias;
    sink->ready(sink, 0, p->n);
    return loss;
}

static void count(struct yk_score *out, struct yk_logit at, unsigned label)
{
    bool one = at.z > 0;
    out->loss += (double)at.loss;
    out->correct += one == (label != 0);
    out->true_positives += one && label;
    out->false_positives += one && !label;
    out->false_negatives += !one && label;
    if (out->bins != NULL) {
        float place = (at.z - (float)YK_BINS_LOWEST) * (float)YK_BINS_PER_UNIT;
        unsigned bin = !(place > 0)                   ? 0
                       : place < (float)(YK_BINS - 1) ? (unsigned)place
                                                      : YK_BINS - 1;
        out->bins->n[label != 0][bin]++;
    }
}

static void score(struct yk_work *work, const struct yk_params *params,
                  const struct yk_batch *batch, struct yk_score *out, float *prob)
{
    struct yk_logreg_work *w = (struct yk_logreg_work *)work;
    const struct yk_key_map *p = w->chosen;
    const uint32_t *slot = p->slot + p->shard[w->shard];
    for (uint32_t i = 0; i < batch->n; i++) {
        struct yk_row row = row_of(p, batch, i, (uint32_t)(slot - p->slot));
        struct yk_logit at = compute(w, params->flat, slot, &row);
        count(out, at, row.label);
        if (prob != NULL) {
            prob[(size_t)2 * i] = (float)(1 / (1 + exp((double)at.z)));
            prob[(size_t)2 * i + 1] = (float)(1 / (1 + exp(-(double)at.z)));
        }
        slot += row.n;
    }
    out->examples += batch->n;
}

static yk_code onnx(const struct yk_model *model, const struct yk_params *params, const char *path,
                    struct yk_error *e)
{
    const struct yk_logreg_model *m = (const struct yk_logreg_model *)model;
    return yk_onnx_logreg(path, m->features, params, e);
}

static void graph(const struct yk_model *model, struct yk_events *events)
{
    const struct yk_logreg_model *m = (const struct yk_logreg_model *)model;
    int64_t features = (int64_t)m->features;
    const struct yk_graph_node node[] = {
        {.name = "keys", .op = "Placeholder", .ndim = 2, .shape = {-1, -1}},
        {.name = "values", .op = "Placeholder", .ndim = 2, .shape = {-1, -1}},
        {.name = "labels", .op = "Placeholder", .ndim = 1, .shape = {-1}},
        {.name = "logreg/weight", .op = "VariableV2", .ndim = 1, .shape = {features}},
        {.name = "logreg/bias", .op = "VariableV2", .ndim = 1, .shape = {1}},
        {.name = "logreg/gather",
         .op = "GatherV2",
         .inputs = {"logreg/weight", "keys"},
         .ndim = 2,
         .shape = {-1, -1}},
        {.name = "logreg/product",
         .op = "Mul",
         .inputs = {"logreg/gather", "values"},
         .ndim = 2,
         .shape = {-1, -1}},
        {.name = "logreg/sum", .op = "Sum", .inputs = {"logreg/product"}, .ndim = 1, .shape = {-1}},
        {.name = "logreg/logits",
         .op = "BiasAdd",
         .inputs = {"logreg/sum", "logreg/bias"},
         .ndim = 1,
         .shape = {-1}},
        {.name = "loss",
         .op = "SigmoidCrossEntropyWithLogits",
         .inputs = {"logreg/logits", "labels"},
         .ndim = 1,
         .shape = {-1}},
    };
    yk_events_graph(events, node, sizeof node / sizeof node[0]);
}

static const char *const DEFAULTS[] = {"batch",   "100", "optimizer",  "adagrad",  "epochs", "1",
                                       "threads", "1",   "eval-every", "100000ex", NULL};

const struct yk_model_ops yk_model_logreg = {
    .name = "logreg",
    .help = "logistic regression on sparse rows of two classes",
    .defaults = DEFAULTS,
    .open = model_open,
    .close = model_close,
    .layout = layout,
    .work_open = work_open,
    .work_close = work_close,
    .busy = busy,
    .step = step,
    .score = score,
    .keys = keys,
    .choose = choose,
    .sweep = yk_logreg_sweep,
    .onnx = onnx,
    .graph = graph,
};
