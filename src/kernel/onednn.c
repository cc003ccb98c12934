/* onednn.c - plans chains of layers and runs them; see onednn.h, and onednn_plan.h for plans.
 *
 * Layers append their operations in onednn_layers.c. This file has the rest: tensors and their
 * lifetimes, reorders where two neighbours want different layouts, and the arena. There tensors are
 * placed largest first, each at the lowest place that is free during its lifetime. Scratchpads are
 * tensors that live for one operation. */
#include "kernel/onednn_plan.h"

#include "base/clock.h"
#include "base/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From OpenMP's run-time library, which oneDNN brings along. Declared here, as compilers that have
 * no header for it read this file too. */
extern void omp_set_num_threads(int n);

enum { LINE = 64 };
static const size_t HUGE_PAGE = (size_t)2 << 20;

static const char *status_text(dnnl_status_t s)
{
    switch (s) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented";
    default:
        return "it failed";
    }
}

void yk_dnn_limit(const char *isa)
{
#ifdef __x86_64__
    /* Fails after the first chain, and then the earlier limit stays. */
    dnnl_set_max_cpu_isa(strcmp(isa, "avx512") == 0 ? dnnl_cpu_isa_avx512_core
                         : strcmp(isa, "avx2") == 0 ? dnnl_cpu_isa_avx2
                                                    : dnnl_cpu_isa_sse41);
#else
    (void)isa;
#endif
}

bool yk_dnn_check(struct yk_dnn *d, unsigned layer, const char *what, dnnl_status_t status)
{
    if (d->rc == YK_OK && status != dnnl_success)
        d->rc = yk_fail(d->e, YK_FAILED, "oneDNN cannot do the %s of layer '%s' for %u images: %s",
                        what, layer < d->layers ? d->layer[layer].name : "all", d->images,
                        status_text(status));
    return d->rc == YK_OK;
}

/* --- tensors --- */

dnnl_memory_desc_t yk_dnn_md(int ndims, const dnnl_dim_t *dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    memset(&md, 0, sizeof md);
    /* Shapes were checked before; a wrong one fails where it is used. */
    dnnl_memory_desc_init_by_tag(&md, ndims, dims, dnnl_f32, tag);
    return md;
}

dnnl_memory_desc_t yk_dnn_image_md(const struct yk_dnn *d, const uint32_t shape[3],
                                   dnnl_format_tag_t tag)
{
    const dnnl_dims_t dims = {d->images, shape[0], shape[1], shape[2]};
    return yk_dnn_md(4, dims, tag);
}

yk_tensor yk_dnn_tensor(struct yk_dnn *d, const dnnl_memory_desc_t *like, enum yk_place place,
                        size_t at)
{
    const dnnl_memory_desc_t md = *like; /* a copy: `like` may be in the array that moves */
    if (d->rc != YK_OK)
        return YK_DNN_NONE;
    if (d->tensors == d->tensor_room) {
        int room = d->tensor_room * 2 + 64;
        struct yk_dnn_tensor *more = realloc(d->tensor, (size_t)room * sizeof *more);
        if (more == NULL) {
            d->rc = yk_fail_memory(d->e, (size_t)room * sizeof *more);
            return YK_DNN_NONE;
        }
        d->tensor = more;
        d->tensor_room = room;
    }
    d->tensor[d->tensors] =
        (struct yk_dnn_tensor){.md = md,
                               .place = place,
                               .at = at,
                               .bytes = place == YK_IN_ARENA ? dnnl_memory_desc_get_size(&md) : 0,
                               .base = d->tensors,
                               .first = UINT32_MAX};
    return d->tensors++;
}

yk_tensor yk_dnn_alias(struct yk_dnn *d, yk_tensor of, const dnnl_memory_desc_t *md)
{
    yk_tensor t = of == YK_DNN_NONE ? YK_DNN_NONE
                                    : yk_dnn_tensor(d, md, d->tensor[of].place, d->tensor[of].at);
    if (t != YK_DNN_NONE)
        d->tensor[t].base = d->tensor[of].base;
    return t;
}

/* Notes that operation `op` touches t. */
static void touch(struct yk_dnn *d, yk_tensor t, unsigned op)
{
    struct yk_dnn_tensor *b = &d->tensor[d->tensor[t].base];
    b->first = op < b->first ? op : b->first;
    b->last = op > b->last ? op : b->last;
}

void yk_dnn_reorder(struct yk_dnn *d, unsigned layer, yk_tensor from, yk_tensor to)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    if (d->rc != YK_OK)
        return;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&pd, &d->tensor[from].md, d->engine,
                                                    &d->tensor[to].md, d->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    if (!yk_dnn_check(d, layer, "change of layout", status))
        return;
    yk_dnn_add(d, layer, pd,
               (struct yk_dnn_use[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {0, YK_DNN_NONE}});
    dnnl_primitive_desc_destroy(pd);
    if (d->tensor[from].place == YK_IN_ARENA && d->tensor[to].place == YK_IN_ARENA)
        d->facts.reorders++;
    else
        d->facts.weight_reorders++;
}

yk_tensor yk_dnn_fit(struct yk_dnn *d, unsigned layer, yk_tensor t, const dnnl_memory_desc_t *want)
{
    if (d->rc != YK_OK || dnnl_memory_desc_equal(&d->tensor[t].md, want))
        return t;
    yk_tensor to = yk_dnn_tensor(d, want, YK_IN_ARENA, 0);
    yk_dnn_reorder(d, layer, t, to);
    return to;
}

float *yk_dnn_floats(const struct yk_dnn *d, yk_tensor t)
{
    const struct yk_dnn_tensor *b = &d->tensor[d->tensor[t].base];
    switch (b->place) {
    case YK_IN_PARAMS:
        return (float *)d->params + b->at; /* no operation writes there */
    case YK_IN_GRAD:
        return d->grad + b->at;
    default:
        return (float *)(void *)(d->arena + b->at);
    }
}

/* --- operations --- */

dnnl_primitive_desc_t yk_dnn_describe(struct yk_dnn *d, unsigned layer, const char *what,
                                      const_dnnl_op_desc_t desc, const_dnnl_primitive_desc_t hint,
                                      const enum yk_dnn_kind *activation)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_primitive_desc_t pd = NULL;
    if (d->rc != YK_OK)
        return NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && activation != NULL) {
        dnnl_alg_kind_t alg = *activation == YK_DNN_RELU   ? dnnl_eltwise_relu
                              : *activation == YK_DNN_TANH ? dnnl_eltwise_tanh
                                                           : dnnl_eltwise_logistic;
        status = dnnl_post_ops_create(&post);
        if (status == dnnl_success)
            status = dnnl_post_ops_append_eltwise(post, 1, alg, 0, 0);
        if (status == dnnl_success)
            status = dnnl_primitive_attr_set_post_ops(attr, post);
    }
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&pd, desc, attr, d->engine, hint);
    dnnl_post_ops_destroy(post);
    dnnl_primitive_attr_destroy(attr);
    return yk_dnn_check(d, layer, what, status) ? pd : NULL;
}

dnnl_memory_desc_t yk_dnn_query(const struct yk_dnn *d, const_dnnl_primitive_desc_t pd,
                                dnnl_query_t what, int i)
{
    const dnnl_memory_desc_t *md =
        d->rc == YK_OK ? dnnl_primitive_desc_query_md(pd, what, i) : NULL;
    dnnl_memory_desc_t none;
    memset(&none, 0, sizeof none);
    return md != NULL ? *md : none;
}

static struct yk_dnn_op *op_new(struct yk_dnn *d, unsigned layer, const struct yk_dnn_use *use)
{
    if (d->rc != YK_OK)
        return NULL;
    if (d->ops == d->op_room) {
        unsigned room = d->op_room * 2 + 64;
        struct yk_dnn_op *more = realloc(d->op, room * sizeof *more);
        if (more == NULL) {
            d->rc = yk_fail_memory(d->e, room * sizeof *more);
            return NULL;
        }
        d->op = more;
        d->op_room = room;
    }
    struct yk_dnn_op *op = &d->op[d->ops];
    *op = (struct yk_dnn_op){.layer = layer};
    for (; use->tensor != YK_DNN_NONE; use++) {
        op->arg[op->args].arg = use->arg;
        op->tensor[op->args++] = use->tensor;
        touch(d, use->tensor, d->ops);
    }
    d->ops++;
    return op;
}

struct yk_dnn_op *yk_dnn_add(struct yk_dnn *d, unsigned layer, const_dnnl_primitive_desc_t pd,
                             const struct yk_dnn_use *use)
{
    struct yk_dnn_op *op = op_new(d, layer, use);
    if (op == NULL)
        return NULL;
    dnnl_memory_desc_t pad = yk_dnn_query(d, pd, dnnl_query_scratchpad_md, 0);
    if (pad.ndims > 0 && dnnl_memory_desc_get_size(&pad) > 0) {
        yk_tensor t = yk_dnn_tensor(d, &pad, YK_IN_ARENA, 0);
        if (t == YK_DNN_NONE)
            return NULL;
        op->arg[op->args].arg = DNNL_ARG_SCRATCHPAD;
        op->tensor[op->args++] = t;
        touch(d, t, d->ops - 1);
    }
    d->facts.primitives++;
    return yk_dnn_check(d, layer, "primitive", dnnl_primitive_create(&op->primitive, pd)) ? op
                                                                                          : NULL;
}

struct yk_dnn_op *yk_dnn_add_call(struct yk_dnn *d, unsigned layer,
                                  void (*call)(const struct yk_dnn *, const struct yk_dnn_op *,
                                               const struct yk_dnn_pass *),
                                  const struct yk_dnn_use *use)
{
    struct yk_dnn_op *op = op_new(d, layer, use);
    if (op != NULL)
        op->call = call;
    return op;
}

/* --- the arena --- */

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

struct placed {
    unsigned first, last;
    size_t bytes, at;
    yk_tensor t;
};

static int larger_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : (x->t > y->t) - (x->t < y->t);
}

/* The lowest place for p that overlaps none of the first n tensors that live at the same time. */
static size_t lowest(const struct placed *all, size_t n, const struct placed *p)
{
    size_t at = 0;
    for (bool moved = true; moved;) { /* moves up only, past one tensor at a time */
        moved = false;
        for (size_t i = 0; i < n; i++) {
            const struct placed *o = &all[i];
            if (o->last < p->first || p->last < o->first || o->at + o->bytes <= at ||
                at + p->bytes <= o->at)
                continue;
            at = o->at + o->bytes;
            moved = true;
        }
    }
    return at;
}

static void place_all(struct yk_dnn *d)
{
    if (d->rc != YK_OK)
        return;
    struct placed *p = calloc((size_t)d->tensors + 1, sizeof *p);
    size_t n = 0;
    if (p == NULL) {
        d->rc = yk_fail_memory(d->e, (size_t)d->tensors * sizeof *p);
        return;
    }
    for (yk_tensor t = 0; t < d->tensors; t++) {
        const struct yk_dnn_tensor *x = &d->tensor[t];
        if (x->place == YK_IN_ARENA && x->base == t)
            p[n++] = (struct placed){
                .first = x->first, .last = x->last, .bytes = lines(x->bytes), .t = t};
    }
    qsort(p, n, sizeof *p, larger_first);
    for (size_t i = 0; i < n; i++) {
        p[i].at = lowest(p, i, &p[i]);
        d->tensor[p[i].t].at = p[i].at;
        if (p[i].at + p[i].bytes > d->arena_bytes)
            d->arena_bytes = p[i].at + p[i].bytes;
    }
    free(p);
    size_t size = (d->arena_bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    d->arena = aligned_alloc(HUGE_PAGE, size);
    if (d->arena == NULL) {
        d->rc = yk_fail_memory(d->e, size);
        return;
    }
    madvise(d->arena, size, MADV_HUGEPAGE);
    memset(d->arena, 0, size); /* takes the pages now, not in the first step */
    d->facts.bytes = size;
}

/* Makes the memory objects and gives them to the operations. */
static void bind_all(struct yk_dnn *d)
{
    for (yk_tensor t = 0; d->rc == YK_OK && t < d->tensors; t++) {
        struct yk_dnn_tensor *x = &d->tensor[t];
        void *at = x->place == YK_IN_ARENA ? d->arena + d->tensor[x->base].at : NULL;
        yk_dnn_check(d, d->layers, "memory", dnnl_memory_create(&x->memory, &x->md, d->engine, at));
    }
    if (d->rc != YK_OK)
        return;
    for (unsigned i = 0; i < d->ops; i++)
        for (int k = 0; k < d->op[i].args; k++)
            d->op[i].arg[k].memory = d->tensor[d->op[i].tensor[k]].memory;
}

/* --- waiting --- */

static pthread_once_t parked = PTHREAD_ONCE_INIT;

static void *park(void *arg)
{
    const int cpus = (int)yk_cpus();
    (void)cpus; /* where a compiler knows no OpenMP */
#pragma omp parallel num_threads(cpus)
    atomic_signal_fence(memory_order_seq_cst); /* an empty region would start no threads */
    while (pause() != 0) {
    }
    return arg;
}

static void park_once(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, (size_t)256 << 10);
    if (pthread_create(&thread, &attr, park, NULL) == 0) /* if not, waiting costs more */
        pthread_setname_np(thread, "yoke-parked");
    pthread_attr_destroy(&attr);
}

/* Threads of OpenMP wait for each other at every layer, and spin for milliseconds before they
 * sleep. On a machine that others use as well, a spinning thread takes the CPU from the thread that
 * it waits for, and steps take several times as long. No function changes that. But libgomp spins a
 * thousandth as long if it counts more threads than CPUs, so we start as many threads as there are
 * CPUs, which only sleep and are counted. */
static void wait_politely(unsigned threads)
{
    if (threads > 1)
        pthread_once(&parked, park_once);
}

/* --- opening --- */

static void build(struct yk_dnn *d)
{
    dnnl_memory_desc_t plain = yk_dnn_image_md(d, d->layer[0].in, dnnl_nchw),
                       logits = yk_dnn_image_md(d, d->layer[d->layers - 1].out, dnnl_nchw);
    d->now = d->input = yk_dnn_tensor(d, &plain, YK_IN_ARENA, 0);
    for (unsigned i = 0; i < d->layers; i++)
        yk_dnn_layer_forward(d, i);
    d->output = d->rc == YK_OK ? yk_dnn_fit(d, d->layers - 1, d->now, &logits) : YK_DNN_NONE;
    d->backward = d->ops;
    if (d->rc != YK_OK)
        return;
    touch(d, d->input, 0);
    touch(d, d->output, d->ops); /* the caller reads it when the pass is over */
    if (!d->train)
        return;
    unsigned lowest = 0; /* the layer at which the gradient ends */
    while (!d->inner && lowest < d->layers && !yk_dnn_layer_learns(&d->layer[lowest]))
        lowest++;
    d->now = d->output_grad = yk_dnn_tensor(d, &logits, YK_IN_ARENA, 0);
    if (d->now != YK_DNN_NONE)
        touch(d, d->now, d->ops > 0 ? d->ops - 1 : 0); /* written while the output is still read */
    for (unsigned i = d->layers; i-- > lowest;)
        yk_dnn_layer_backward(d, i, i > lowest || d->inner);
    if (d->inner && d->rc == YK_OK) {
        d->input_grad = yk_dnn_fit(d, 0, d->now, &plain);
        if (d->rc == YK_OK)
            touch(d, d->input_grad, d->ops);
    }
}

yk_code yk_dnn_open(struct yk_dnn **out, const struct yk_dnn_layer *layer, unsigned layers,
                    uint32_t images, bool train, bool inner, unsigned threads, struct yk_error *e)
{
    struct yk_dnn *d = calloc(1, sizeof *d);
    if (d == NULL)
        return yk_fail_memory(e, sizeof *d);
    *d = (struct yk_dnn){.threads = threads,
                         .images = images,
                         .train = train,
                         .inner = inner,
                         .layers = layers,
                         .e = e};
    d->input = d->output = d->output_grad = d->input_grad = YK_DNN_NONE;
    d->layer = calloc(layers + 1, sizeof *d->layer);
    d->stage = calloc(layers + 1, sizeof *d->stage);
    if (d->layer == NULL || d->stage == NULL) {
        d->rc = yk_fail_memory(e, (layers + 1) * sizeof *d->layer);
    } else {
        memcpy(d->layer, layer, layers * sizeof *layer);
        for (unsigned i = 0; i < layers; i++) {
            struct yk_dnn_stage *s = &d->stage[i];
            s->src = s->dst = s->weight = s->workspace = s->mean = s->var = s->scale = YK_DNN_NONE;
        }
        wait_politely(threads);
        omp_set_num_threads((int)threads); /* primitives are made for this number */
        yk_dnn_check(d, layers, "engine", dnnl_engine_create(&d->engine, dnnl_cpu, 0));
        if (d->rc == YK_OK)
            yk_dnn_check(d, layers, "stream",
                         dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags));
        if (d->rc == YK_OK)
            build(d);
        place_all(d);
        bind_all(d);
    }
    if (d->stage != NULL)
        for (unsigned i = 0; i < layers; i++) { /* only planning the backward pass needs them */
            dnnl_primitive_desc_destroy(d->stage[i].forward);
            d->stage[i].forward = NULL;
        }
    yk_code rc = d->rc;
    d->e = NULL;
    if (rc != YK_OK)
        yk_dnn_close(d);
    else
        *out = d;
    return rc;
}

void yk_dnn_close(struct yk_dnn *d)
{
    if (d == NULL)
        return;
    for (unsigned i = 0; i < d->ops; i++)
        dnnl_primitive_destroy(d->op[i].primitive);
    for (yk_tensor t = 0; t < d->tensors; t++)
        dnnl_memory_destroy(d->tensor[t].memory);
    dnnl_stream_destroy(d->stream);
    dnnl_engine_destroy(d->engine);
    free(d->arena);
    free(d->op);
    free(d->tensor);
    free(d->stage);
    free(d->layer);
    free(d);
}

float *yk_dnn_input(const struct yk_dnn *d, bool *channels_last)
{
    *channels_last = d->channels_last;
    return yk_dnn_floats(d, d->input);
}

float *yk_dnn_output(const struct yk_dnn *d)
{
    return yk_dnn_floats(d, d->output);
}

float *yk_dnn_output_grad(const struct yk_dnn *d)
{
    return yk_dnn_floats(d, d->output_grad);
}

float *yk_dnn_input_grad(const struct yk_dnn *d)
{
    return yk_dnn_floats(d, d->input_grad);
}

void yk_dnn_facts(const struct yk_dnn *d, struct yk_dnn_facts *out)
{
    *out = d->facts;
}

/* --- running --- */

/* Points the memory objects to the caller's parameters and gradients, which may have moved. */
static bool point(struct yk_dnn *d, const struct yk_dnn_pass *p)
{
    dnnl_status_t status = dnnl_success;
    if (d->params == p->params && d->grad == p->grad)
        return true;
    d->params = p->params;
    d->grad = p->grad;
    for (yk_tensor t = 0; t < d->tensors && status == dnnl_success; t++)
        if (d->tensor[t].place != YK_IN_ARENA)
            status = dnnl_memory_set_data_handle(d->tensor[t].memory, yk_dnn_floats(d, t));
    return status == dnnl_success;
}

static bool run(struct yk_dnn *d, const struct yk_dnn_pass *p, unsigned from, unsigned to)
{
    omp_set_num_threads((int)d->threads); /* a setting of the calling thread */
    if (!point(d, p))
        return false;
    double then = p->seconds != NULL ? yk_thread_seconds() : 0;
    for (unsigned i = from; i < to; i++) {
        const struct yk_dnn_op *op = &d->op[i];
        bool begins = i < d->backward && (i == from || op->layer != op[-1].layer) &&
                      yk_dnn_layer_learns(&d->layer[op->layer]);
        if (begins && p->need != NULL && !p->need(p->arg, op->layer))
            return false;
        if (op->primitive == NULL)
            op->call(d, op, p);
        else if (dnnl_primitive_execute(op->primitive, d->stream, op->args, op->arg) !=
                 dnnl_success)
            return false;
        if (op->done && p->done != NULL)
            p->done(p->arg, op->layer);
        if (p->seconds != NULL) {
            double now = yk_thread_seconds();
            p->seconds[op->layer] += now - then;
            then = now;
        }
    }
    return dnnl_stream_wait(d->stream) == dnnl_success;
}

bool yk_dnn_forward(struct yk_dnn *d, const struct yk_dnn_pass *p)
{
    return run(d, p, 0, d->backward);
}

bool yk_dnn_backward(struct yk_dnn *d, const struct yk_dnn_pass *p)
{
    return run(d, p, d->backward, d->ops);
}

void yk_dnn_each(unsigned threads, uint32_t n, void (*job)(void *arg, uint32_t i), void *arg)
{
    (void)threads; /* where a compiler knows no OpenMP */
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (uint32_t i = 0; i < n; i++)
        job(arg, i);
}
