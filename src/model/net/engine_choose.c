/* engine_choose.c - which engine computes which layers of a net.
 *
 * Our own kernels are faster where channels are few, oneDNN where they are many. So there may be a
 * layer where it pays to change the engine, at the price of a conversion in either direction. A
 * measurement decides: every engine runs as many layers of the net as it can, and each layer is
 * timed. These times tell which cut should be best; that cut is run as well, and the fastest of all
 * runs wins. The answer has a name, "onednn", "lanes" or "lanes:4" (the first 4 layers, the others
 * on the other engine), and a user who gives that name gets the same bits.
 *
 * Time is CPU time of the first thread, as others may use the machine. A measurement takes a few
 * steps of a few milliseconds each: see TRIAL_SECONDS. Where there is nothing to choose nothing is
 * run.
 * LIMITS: one cut, and only where threads have images of their own, so not with batch norm. */
#include "base/clock.h"
#include "model/net/layer.h"
#include "model/net/net_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIALS = 20,       /* steps of a measurement, at most */
    TRIAL_IMAGES = 256 /* of a step, at most */
};
static const double TRIAL_SECONDS = 0.02; /* after which no further step of a measurement begins */
/* A cut must take at most this share of the time without it, or luck would decide. */
static const double WORTH = 0.97;

#define COLLECT(name) &yk_engine_##name,
static const struct yk_engine *const ENGINES[] = {YK_ENGINES(COLLECT)};
enum { ONEDNN, BATCH16, ENGINE_COUNT = sizeof ENGINES / sizeof ENGINES[0] };
_Static_assert((int)ENGINE_COUNT == (int)YK_SEGMENTS,
               "a cut names one engine, and means the other one behind it");

/* --- names --- */

/* The engine on the first `cut` layers and the other one on the rest; no cut if these are all. */
static void make(struct yk_segments *c, const struct yk_net *net, unsigned engine, unsigned cut)
{
    *c = (struct yk_segments){.n = 1, .at = {{.engine = ENGINES[engine], .to = cut}}};
    if (cut == net->layers) {
        snprintf(c->name, sizeof c->name, "%s", ENGINES[engine]->name);
        return;
    }
    c->at[c->n++] = (struct yk_segment){.engine = ENGINES[!engine], .from = cut, .to = net->layers};
    snprintf(c->name, sizeof c->name, "%s:%u", ENGINES[engine]->name, cut);
}

void yk_segments_init(struct yk_segments *c, const struct yk_net *net)
{
    make(c, net, ONEDNN, net->layers);
}

/* True if both sides of a cut have something to compute. */
static bool cuts(const struct yk_net *net, unsigned cut)
{
    bool above = false, below = false;
    for (unsigned i = 0; i < net->layers; i++)
        *(i < cut ? &above : &below) |= !yk_layer_ops(net->layer[i].kind)->computes_nothing;
    return above && below;
}

static yk_code named(struct yk_segments *c, const struct yk_net *net, const char *name,
                     struct yk_error *e)
{
    size_t length = strcspn(name, ":");
    unsigned cut = net->layers, engine = 0;
    char more;
    while (engine < ENGINE_COUNT && (strlen(ENGINES[engine]->name) != length ||
                                     strncmp(ENGINES[engine]->name, name, length) != 0))
        engine++;
    if (engine == ENGINE_COUNT ||
        (name[length] == ':' && sscanf(name + length + 1, "%4u%c", &cut, &more) != 1)) {
        yk_fail(e, YK_USAGE, "there is no engine '%.40s'", name);
        yk_hint(e, "use auto, onednn or lanes, or one engine for the first layers: 'lanes:4'");
        return YK_USAGE;
    }
    if (name[length] == ':' && !cuts(net, cut))
        return yk_fail(e, YK_USAGE, "'%s' leaves one engine without a layer of the net '%s'", name,
                       net->name);
    make(c, net, engine, cut);
    yk_code rc = YK_OK;
    for (unsigned i = 0; i < c->n; i++)
        for (unsigned k = c->at[i].from; k < c->at[i].to; k++)
            if ((rc = c->at[i].engine->takes(net, k, e)) != YK_OK)
                return rc;
    return rc;
}

/* --- a measurement --- */

static void ignore(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s;
    (void)lo;
    (void)hi;
}

/* Made-up images, memory for their gradients, and the results of measurements. */
struct trial {
    const struct yk_net_model *model;
    const struct yk_params *params;
    const struct yk_kernels *kernels;
    unsigned threads;
    struct yk_dataset set;
    struct yk_batch batch;
    struct yk_sink sink;
    uint32_t *row;
    const uint8_t **image;
    double *layer[ENGINE_COUNT]; /* (layers) least seconds on each engine; INFINITY: not known */
    double *once;                /* (layers) seconds of one pass */
    double best;                 /* seconds of the fastest so far */
    struct yk_segments segments; /* the fastest so far */
    char *message;               /* (256) all measurements in words */
    size_t used;                 /* characters of the message */
};

static void trial_release(struct trial *t)
{
    free(t->set.pixels);
    free(t->set.labels);
    free(t->row);
    free(t->image);
    free(t->layer[0]);
    yk_floats_free(t->sink.grad);
}

static yk_code trial_init(struct trial *t, uint32_t n, struct yk_error *e)
{
    const struct yk_net_model *m = t->model;
    const unsigned layers = m->net->layers;
    size_t features = yk_shape_numbers(m->net->input);
    t->set.pixels = malloc(features + YK_ROW_SLACK);
    t->set.labels = calloc(n, sizeof *t->set.labels);
    t->row = calloc(n, sizeof *t->row);
    t->image = calloc(n, sizeof *t->image);
    t->layer[0] = calloc((size_t)layers * (ENGINE_COUNT + 1), sizeof(double));
    t->sink = (struct yk_sink){.grad = yk_floats(m->count), .ready = ignore};
    if (t->set.pixels == NULL || t->set.labels == NULL || t->row == NULL || t->image == NULL ||
        t->layer[0] == NULL || t->sink.grad == NULL)
        return yk_fail_memory(e, features + m->count * sizeof(float));
    for (unsigned i = 1; i < ENGINE_COUNT; i++)
        t->layer[i] = t->layer[0] + (size_t)i * layers;
    t->once = t->layer[0] + (size_t)ENGINE_COUNT * layers;
    for (size_t i = 0; i < (size_t)layers * ENGINE_COUNT; i++)
        t->layer[0][i] = INFINITY;
    for (size_t i = 0; i < features + YK_ROW_SLACK; i++)
        t->set.pixels[i] = (uint8_t)(i * 37);
    for (uint32_t i = 0; i < n; i++) {
        t->row[i] = i;
        t->image[i] = t->set.pixels; /* one for all: time does not depend on pixels */
    }
    t->set.rows = n;
    t->set.features = (uint32_t)features;
    t->set.scale = 1.0f / 255;
    t->batch = (struct yk_batch){.set = &t->set, .n = n, .row = t->row, .image = t->image};
    t->best = INFINITY;
    return YK_OK;
}

/* The least time of each layer. */
static void note_layers(struct trial *t, const struct yk_segments *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        double *least = t->layer[c->at[i].engine == ENGINES[ONEDNN] ? ONEDNN : BATCH16];
        for (unsigned k = c->at[i].from; k < c->at[i].to; k++)
            least[k] = t->once[k] < least[k] ? t->once[k] : least[k];
    }
}

/* Time a few steps; the least counts. Segments with a cut have to be better by WORTH. */
static yk_code measure(struct trial *t, const struct yk_segments *c, struct yk_error *e)
{
    struct yk_net_plan *plan;
    struct yk_net_pass x = {.params = t->params,
                            .batch = &t->batch,
                            .n = t->batch.n,
                            .sink = &t->sink,
                            .seconds = t->once};
    yk_code rc = yk_net_plan_open(&plan, t->model, c, t->batch.n, true, t->threads, t->kernels, e);
    if (rc != YK_OK)
        return rc;
    double least = INFINITY, until = 0;
    for (unsigned i = 0; i < TRIALS && (i < 2 || yk_thread_seconds() < until); i++) {
        memset(t->once, 0, t->model->net->layers * sizeof *t->once);
        if (isnan(yk_net_plan_pass(plan, &x))) { /* an engine that fails is not fast */
            least = INFINITY;
            break;
        }
        if (i == 0) { /* it warms up */
            until = yk_thread_seconds() + TRIAL_SECONDS;
            continue;
        }
        double took = 0;
        for (unsigned k = 0; k < t->model->net->layers; k++)
            took += t->once[k];
        least = took < least ? took : least;
        note_layers(t, c);
    }
    yk_net_plan_close(plan);
    if (least < t->best * (c->n > 1 ? WORTH : 1)) {
        t->best = least;
        t->segments = *c;
    }
    if (t->used < 200)
        t->used += (size_t)snprintf(t->message + t->used, 256 - t->used, "%s%s takes %.3f ms",
                                    t->used > 0 ? ", " : "", c->name, least * 1e3);
    return YK_OK;
}

/* --- the choice --- */

static bool worth_trying(const struct yk_engine *g, const struct yk_net *net, unsigned layer,
                         double *flops)
{
    *flops += (double)net->layer[layer].flops;
    return *flops <= g->flops_most && (double)net->layer[layer].weights <= g->weights_most &&
           g->takes(net, layer, NULL) == YK_OK;
}

/* A cut before an activation would separate it from the layer that also computes it. */
static bool good_cut(const struct yk_net *net, unsigned cut)
{
    return cuts(net, cut) && !yk_layer_ops(net->layer[cut].kind)->joins_previous;
}

/* Finds the best cut by the layers' times. False: none is worth a trial. */
static bool promising(const struct trial *t, struct yk_segments *out)
{
    const struct yk_net *net = t->model->net;
    double best = t->best * WORTH;
    bool found = false;
    for (unsigned engine = 0; engine < ENGINE_COUNT; engine++)
        for (unsigned cut = 1; cut < net->layers; cut++) {
            double sum = 0;
            for (unsigned i = 0; i < net->layers; i++)
                sum += t->layer[i < cut ? engine : !engine][i];
            if (sum < best && good_cut(net, cut)) {
                best = sum;
                make(out, net, engine, cut);
                found = true;
            }
        }
    return found;
}

/* Finds the layers that are worth a trial on our own kernels: those before *to, and from *from
 * on. */
static void reach(const struct yk_net *net, unsigned *to, unsigned *from)
{
    double flops = 0;
    for (*to = 0; *to < net->layers && worth_trying(ENGINES[BATCH16], net, *to, &flops);)
        ++*to;
    flops = 0;
    for (*from = net->layers; *from > 0 && worth_trying(ENGINES[BATCH16], net, *from - 1, &flops);)
        --*from;
    if (*to == net->layers)
        return;
    while (*to > 0 && !good_cut(net, *to))
        --*to;
    while (*from < net->layers && !good_cut(net, *from))
        ++*from;
}

/* Measures both engines on as many layers as they can compute, then the most promising cut. */
static yk_code search(struct trial *t, unsigned to, unsigned from, struct yk_error *e)
{
    const struct yk_net *net = t->model->net;
    struct yk_segments c;
    make(&c, net, ONEDNN, net->layers);
    yk_code rc = measure(t, &c, e);
    if (rc == YK_OK && to > 0) {
        make(&c, net, BATCH16, to);
        rc = measure(t, &c, e);
    }
    if (rc == YK_OK && to < net->layers && from < net->layers) {
        make(&c, net, ONEDNN, from);
        rc = measure(t, &c, e);
    }
    if (rc == YK_OK && promising(t, &c) && strcmp(c.name, t->segments.name) != 0)
        rc = measure(t, &c, e);
    return rc;
}

yk_code yk_engine_choose(struct yk_model *model, const struct yk_params *params, const char *name,
                         uint32_t batch, unsigned threads, const char *isa, const char **chosen,
                         char message[256], struct yk_error *e)
{
    struct yk_net_model *m = (struct yk_net_model *)model;
    struct trial t = {.model = m, .params = params, .threads = threads, .message = message};
    message[0] = '\0';
    *chosen = m->segments.name;
    if (strcmp(name, "auto") != 0) {
        yk_code rc = named(&t.segments, m->net, name, e);
        if (rc == YK_OK)
            m->segments = t.segments;
        return rc;
    }
    yk_code rc = named(&t.segments, m->net, ENGINES[ONEDNN]->name, e); /* it takes every layer */
    if (rc != YK_OK)
        return rc;
    yk_segments_init(&m->segments, m->net);
    unsigned to, from;
    reach(m->net, &to, &from);
    if (m->whole || (to == 0 && from == m->net->layers))
        return YK_OK;
    rc = yk_kernels_pick(isa, &t.kernels, e);
    if (rc == YK_OK)
        rc = trial_init(&t, batch < TRIAL_IMAGES ? batch : TRIAL_IMAGES, e);
    if (rc == YK_OK)
        rc = search(&t, to, from, e);
    if (rc == YK_OK)
        m->segments = t.segments;
    trial_release(&t);
    return rc;
}
