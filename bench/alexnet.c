/* alexnet.c - AlexNet's training step in yoke against oneDNN's bare primitives, in one program and
 * by turns.
 *
 * The baseline runs every primitive of the step alone, forward and backward, each with its
 * preferred layouts and its own buffers. It does not reorder data between layers, load images,
 * compute a loss, apply dropout or place gradients. yoke's figure is a whole step of the model.
 *
 *     alexnet [BATCH [THREADS [ROUNDS [ISA [each]]]]]   64, 2, 5, auto; "each": ms per primitive
 *
 * The bare primitives use the same instruction set, because yoke limits oneDNN for the process.
 * Prints "batch threads bare_ms yoke_ms ratio", with the best round of each. */
#include "base/clock.h"
#include "model/model.h"
#include "model/net/net.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void omp_set_num_threads(int n);

enum { PRIMITIVES = 64, ARGS = 8 };

struct bare {
    char name[32];
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[ARGS];
    int args;
    double best;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static struct bare list[PRIMITIVES];
static unsigned count;

static void need(bool well, const char *what)
{
    if (well)
        return;
    fprintf(stderr, "alexnet: %s failed\n", what);
    exit(1);
}

#define TRY(call) need((call) == dnnl_success, #call)

static dnnl_memory_desc_t any(int n, const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t md;
    TRY(dnnl_memory_desc_init_by_tag(&md, n, dims, dnnl_f32, dnnl_format_tag_any));
    return md;
}

/* Adds a buffer of the description `md` as argument `arg` of the current primitive. */
static void give(int arg, const dnnl_memory_desc_t *md)
{
    struct bare *b = &list[count];
    size_t bytes = md != NULL ? dnnl_memory_desc_get_size(md) : 0;
    if (bytes == 0)
        return;
    float *at = aligned_alloc(64, (bytes + 63) / 64 * 64);
    need(at != NULL, "memory");
    if (arg == DNNL_ARG_WORKSPACE || arg == DNNL_ARG_SCRATCHPAD)
        memset(at, 0, bytes);
    else
        for (size_t i = 0; i < bytes / sizeof *at; i++)
            at[i] = (float)(i % 7) * 0.01f - 0.02f;
    b->arg[b->args].arg = arg;
    TRY(dnnl_memory_create(&b->arg[b->args++].memory, md, engine, at));
}

struct wanted {
    int arg;
    dnnl_query_t query;
    int index;
};

static void finish(const char *name, dnnl_primitive_desc_t pd, const struct wanted *w, unsigned n)
{
    need(count < PRIMITIVES, "a longer list");
    struct bare *b = &list[count];
    snprintf(b->name, sizeof b->name, "%s", name);
    b->best = 1e9;
    for (unsigned i = 0; i < n; i++)
        give(w[i].arg, dnnl_primitive_desc_query_md(pd, w[i].query, w[i].index));
    give(DNNL_ARG_SCRATCHPAD, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    TRY(dnnl_primitive_create(&b->primitive, pd));
    count++;
}

static dnnl_primitive_desc_t describe(const_dnnl_op_desc_t desc, const_dnnl_primitive_desc_t hint,
                                      bool relu)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_primitive_desc_t pd;
    TRY(dnnl_primitive_attr_create(&attr));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    TRY(dnnl_post_ops_create(&post));
    if (relu)
        TRY(dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_relu, 0, 0));
    TRY(dnnl_primitive_attr_set_post_ops(attr, post));
    TRY(dnnl_primitive_desc_create(&pd, desc, attr, engine, hint));
    TRY(dnnl_post_ops_destroy(post));
    TRY(dnnl_primitive_attr_destroy(attr));
    return pd;
}

static void relu_back(const char *name, const dnnl_memory_desc_t *md)
{
    dnnl_eltwise_desc_t desc;
    TRY(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training,
                                       dnnl_eltwise_relu_use_dst_for_bwd, md, 0, 0));
    dnnl_primitive_desc_t forward = describe(&desc, NULL, false);
    TRY(dnnl_eltwise_backward_desc_init(&desc, dnnl_eltwise_relu_use_dst_for_bwd, md, md, 0, 0));
    dnnl_primitive_desc_t pd = describe(&desc, forward, false);
    const struct wanted w[] = {{DNNL_ARG_DST, dnnl_query_dst_md, 0},
                               {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                               {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0}};
    finish(name, pd, w, 3);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_desc_destroy(forward);
}

static const struct wanted FORWARD[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                        {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
                                        {DNNL_ARG_DST, dnnl_query_dst_md, 0}},
                           DATA[] = {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                                     {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                     {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0}},
                           WEIGHTS[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                                        {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0},
                                        {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, 1}};

/* Returns the layout of its output for the pooling that follows. */
static dnnl_memory_desc_t conv(const struct yk_layer *l, dnnl_dim_t n, bool first)
{
    const dnnl_dims_t in = {n, l->in.c, l->in.h, l->in.w}, out = {n, l->out.c, l->out.h, l->out.w},
                      k = {l->out.c, l->in.c, l->kernel[0], l->kernel[1]}, o = {l->out.c},
                      s = {l->stride[0], l->stride[1]}, p = {l->pad[0], l->pad[1]},
                      q = {l->pad[2], l->pad[3]};
    dnnl_memory_desc_t x = any(4, in), y = any(4, out), w = any(4, k), b = any(1, o);
    dnnl_convolution_desc_t desc;
    char name[64];
    TRY(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_auto, &x,
                                           &w, &b, &y, s, p, q));
    dnnl_primitive_desc_t forward = describe(&desc, NULL, true);
    snprintf(name, sizeof name, "%s forward", l->name);
    finish(name, forward, FORWARD, 4);
    dnnl_memory_desc_t leaves = *dnnl_primitive_desc_query_md(forward, dnnl_query_dst_md, 0);
    snprintf(name, sizeof name, "%s relu back", l->name);
    relu_back(name, &leaves);
    if (!first) {
        TRY(dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_auto, &x, &w, &y, s, p,
                                                     q));
        dnnl_primitive_desc_t pd = describe(&desc, forward, false);
        snprintf(name, sizeof name, "%s data", l->name);
        finish(name, pd, DATA, 3);
        dnnl_primitive_desc_destroy(pd);
    }
    TRY(dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_auto, &x, &w, &b, &y, s,
                                                    p, q));
    dnnl_primitive_desc_t pd = describe(&desc, forward, false);
    snprintf(name, sizeof name, "%s weights", l->name);
    finish(name, pd, WEIGHTS, 4);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_desc_destroy(forward);
    return leaves;
}

static dnnl_memory_desc_t pool(const struct yk_layer *l, dnnl_dim_t n, const dnnl_memory_desc_t *x)
{
    const dnnl_dims_t out = {n, l->out.c, l->out.h, l->out.w}, k = {l->kernel[0], l->kernel[1]},
                      s = {l->stride[0], l->stride[1]}, p = {l->pad[0], l->pad[1]},
                      q = {l->pad[2], l->pad[3]};
    dnnl_memory_desc_t y = any(4, out);
    dnnl_pooling_desc_t desc;
    char name[64];
    const struct wanted there[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                   {DNNL_ARG_DST, dnnl_query_dst_md, 0},
                                   {DNNL_ARG_WORKSPACE, dnnl_query_workspace_md, 0}},
                        back[] = {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                                  {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0},
                                  {DNNL_ARG_WORKSPACE, dnnl_query_workspace_md, 0}};
    TRY(dnnl_pooling_forward_desc_init(&desc, dnnl_forward_training, dnnl_pooling_max, x, &y, s, k,
                                       p, q));
    dnnl_primitive_desc_t forward = describe(&desc, NULL, false);
    snprintf(name, sizeof name, "%s forward", l->name);
    finish(name, forward, there, 3);
    y = *dnnl_primitive_desc_query_md(forward, dnnl_query_dst_md, 0);
    TRY(dnnl_pooling_backward_desc_init(&desc, dnnl_pooling_max, x, &y, s, k, p, q));
    dnnl_primitive_desc_t pd = describe(&desc, forward, false);
    snprintf(name, sizeof name, "%s back", l->name);
    finish(name, pd, back, 3);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_desc_destroy(forward);
    return y;
}

static void dense(const struct yk_layer *l, dnnl_dim_t n, bool relu)
{
    dnnl_dim_t columns = (dnnl_dim_t)l->in.c * l->in.h * l->in.w;
    const dnnl_dims_t in = {n, columns}, out = {n, l->out.c}, k = {l->out.c, columns},
                      o = {l->out.c};
    dnnl_memory_desc_t x = any(2, in), y = any(2, out), w = any(2, k), b = any(1, o);
    dnnl_inner_product_desc_t desc;
    char name[64];
    TRY(dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_training, &x, &w, &b, &y));
    dnnl_primitive_desc_t forward = describe(&desc, NULL, relu);
    snprintf(name, sizeof name, "%s forward", l->name);
    finish(name, forward, FORWARD, 4);
    dnnl_memory_desc_t leaves = *dnnl_primitive_desc_query_md(forward, dnnl_query_dst_md, 0);
    snprintf(name, sizeof name, "%s relu back", l->name);
    if (relu)
        relu_back(name, &leaves);
    TRY(dnnl_inner_product_backward_data_desc_init(&desc, &x, &w, &y));
    dnnl_primitive_desc_t pd = describe(&desc, forward, false);
    snprintf(name, sizeof name, "%s data", l->name);
    finish(name, pd, DATA, 3);
    dnnl_primitive_desc_destroy(pd);
    TRY(dnnl_inner_product_backward_weights_desc_init(&desc, &x, &w, &b, &y));
    pd = describe(&desc, forward, false);
    snprintf(name, sizeof name, "%s weights", l->name);
    finish(name, pd, WEIGHTS, 4);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_desc_destroy(forward);
}

static void make_bare(const struct yk_net *net, uint32_t n)
{
    dnnl_memory_desc_t now = {0};
    for (unsigned i = 0; i < net->layers; i++) {
        const struct yk_layer *l = &net->layer[i];
        if (l->kind == YK_LAYER_conv)
            now = conv(l, n, i == 0);
        else if (l->kind == YK_LAYER_maxpool)
            now = pool(l, n, &now);
        else if (l->kind == YK_LAYER_dense)
            dense(l, n, i + 1 < net->layers && net->layer[i + 1].kind == YK_LAYER_relu);
    }
}

static double run_bare(void)
{
    double start = yk_now();
    for (unsigned i = 0; i < count; i++) {
        double t = yk_now();
        TRY(dnnl_primitive_execute(list[i].primitive, stream, list[i].args, list[i].arg));
        TRY(dnnl_stream_wait(stream));
        t = yk_now() - t;
        list[i].best = t < list[i].best ? t : list[i].best;
    }
    return yk_now() - start;
}

static void ready(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s;
    (void)lo;
    (void)hi;
}

int main(int argc, char **argv)
{
    uint32_t batch = argc > 1 ? (uint32_t)atoi(argv[1]) : 64;
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 2,
             rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 5;
    const struct yk_model_ops *ops = &yk_model_net;
    struct yk_net net;
    struct yk_model *model;
    struct yk_params params;
    struct yk_work *work;
    struct yk_error e;
    char said[256];
    const char *chosen, *isa = argc > 4 ? argv[4] : "auto";
    need(batch > 0 && threads > 0 && rounds > 0, "reading the numbers");
    need(yk_net_read("alexnet", &net, &e) == YK_OK, "reading the net");
    struct yk_dataset set = {.name = "made up",
                             .rows = batch,
                             .classes = 1000,
                             .shape = {224, 224, 3},
                             .features = 224 * 224 * 3};
    set.pixels = calloc(batch, set.features);
    set.labels = calloc(batch, sizeof *set.labels);
    set.scale = 1.0f / 255;
    uint32_t *row = calloc(batch, sizeof *row);
    need(set.pixels != NULL && set.labels != NULL && row != NULL, "memory");
    for (size_t i = 0; i < (size_t)batch * set.features; i++)
        set.pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    for (uint32_t i = 0; i < batch; i++) {
        row[i] = i;
        set.labels[i] = (uint16_t)(i * 17 % 1000);
    }
    const struct yk_net_how how = {.seed = 1};
    need(ops->open_net(&model, &net, &how, &set, &e) == YK_OK, "the model");
    need(ops->layout(model, &params, 1, &e) == YK_OK, "the layout");
    need(ops->engine(model, &params, "onednn", batch, threads, isa, &chosen, said, &e) == YK_OK,
         "the engine");
    need(ops->work_open(&work, model, threads, isa, &e) == YK_OK, "the work");
    need(ops->prepare(work, batch, true, said, &e) == YK_OK, "the plan");
    fprintf(stderr, "%s\n", said);
    struct yk_sink sink = {.grad = yk_floats(params.count), .ready = ready};
    need(sink.grad != NULL, "memory");
    const struct yk_batch b = {.set = &set, .n = batch, .row = row};

    omp_set_num_threads((int)threads);
    TRY(dnnl_engine_create(&engine, dnnl_cpu, 0));
    TRY(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    make_bare(&net, batch);
    double bare = 1e9, yoke = 1e9;
    for (unsigned i = 0; i < rounds + 1; i++) { /* the first round warms up and does not count */
        double t = run_bare(), start = yk_now();
        ops->step(work, &params, &b, &sink);
        double u = yk_now() - start;
        bare = i > 0 && t < bare ? t : bare;
        yoke = i > 0 && u < yoke ? u : yoke;
    }
    if (argc > 5)
        for (unsigned i = 0; i < count; i++)
            fprintf(stderr, "%-20s %8.2f ms\n", list[i].name, list[i].best * 1e3);
    printf("%u %u %.1f %.1f %.3f\n", batch, threads, bare * 1e3, yoke * 1e3, bare / yoke);
    ops->work_close(work);
    ops->close(model);
    yk_params_release(&params);
    yk_net_release(&net);
    yk_floats_free(sink.grad);
    free(set.pixels);
    free(set.labels);
    free(row);
    return 0;
}
