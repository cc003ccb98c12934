/* netrun_choose.c - which engine computes which layers of a net.
 *
 * Our own kernels are faster where channels are few, oneDNN where they are many, so there may be a layer where it pays to change over, at the price
 * of a conversion in either direction. That is asked of the clock. Every engine runs as much of the net as it takes, and each layer is
 * timed on the way; from the layers' times follows the cut that would be best; that one is run as well, and the fastest of what was run is taken. The
 * answer has a name, "onednn", "lanes" or "lanes:4" (the first 4 layers, the others on the other engine), and who gives that name gets the same bits.
 *
 * Time is CPU time of the thread that has the first share of the images, as others may be busy with the machine. A few steps of a few milliseconds
 * each: see TRIAL_SECONDS. Where there is nothing to choose nothing is run.
 * LIMITS: a cut is offered only where threads have shares of the images, so not with batch norm; one cut. */
#include "base/clock.h"
#include "model/netrun.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 20, TRIAL_IMAGES = 256 }; /* steps of a measurement, at most, and images of one */
static const double TRIAL_SECONDS = 0.02; /* after which no further step of a measurement begins */
static const double WORTH =
    0.97; /* a cut has to save something, or the choice would be a matter of luck */

#define COLLECT(name) &yk_engine_##name,
static const struct yk_engine *const ENGINES[] = {YK_ENGINES(COLLECT)};
enum { ONEDNN, LANES, ENGINE_COUNT = sizeof ENGINES / sizeof ENGINES[0] };
_Static_assert((int)ENGINE_COUNT == (int)YK_NET_RUNS,
               "a cut names one engine, and means the other one behind it");

/* --- names --- */

static bool computes(const struct yk_layer *l)
{
    return l->kind != YK_LAYER_flatten && l->kind != YK_LAYER_softmax;
}

/* The engine on layers up to `cut`, the other one behind; all layers: no cut. */
static void make(struct yk_net_choice *c, const struct yk_net *net, unsigned engine, unsigned cut)
{
    *c = (struct yk_net_choice){.runs = 1, .run = {{.engine = ENGINES[engine], .to = cut}}};
    if (cut == net->layers) {
        snprintf(c->name, sizeof c->name, "%s", ENGINES[engine]->name);
        return;
    }
    c->run[c->runs++] =
        (struct yk_net_run){.engine = ENGINES[!engine], .from = cut, .to = net->layers};
    snprintf(c->name, sizeof c->name, "%s:%u", ENGINES[engine]->name, cut);
}

void yk_net_choice_init(struct yk_net_choice *c, const struct yk_net *net)
{
    make(c, net, ONEDNN, net->layers);
}

/* Both sides of a cut have something to compute. */
static bool cuts(const struct yk_net *net, unsigned cut)
{
    bool above = false, below = false;
    for (unsigned i = 0; i < net->layers; i++)
        *(i < cut ? &above : &below) |= computes(&net->layer[i]);
    return above && below;
}

static yk_code named(struct yk_net_choice *c, const struct yk_net *net, const char *name,
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
        yk_hint(e, "auto, onednn, lanes, or one of them up to a layer, as in 'lanes:4'");
        return YK_USAGE;
    }
    if (name[length] == ':' && !cuts(net, cut))
        return yk_fail(e, YK_USAGE, "'%s' leaves one engine without a layer of the net '%s'", name,
                       net->name);
    make(c, net, engine, cut);
    yk_code rc = YK_OK;
    for (unsigned i = 0; i < c->runs; i++)
        for (unsigned k = c->run[i].from; rc == YK_OK && k < c->run[i].to; k++)
            rc = c->run[i].engine->takes(net, k, e);
    return rc;
}

/* --- a measurement --- */

static void nobody(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s;
    (void)lo;
    (void)hi;
}

/* Made-up images, where their gradients go, and what was found out. */
struct trial {
    const struct yk_model *model;
    const struct yk_params *params;
    const struct yk_kernels *kernels;
    unsigned threads;
    struct yk_dataset set;
    struct yk_batch batch;
    struct yk_sink sink;
    uint32_t *row;
    const uint8_t **image;
    double *layer
        [ENGINE_COUNT]; /* (layers) least seconds of each on either engine; INFINITY: not known */
    double *once;       /* (layers) of one pass */
    double best;        /* seconds of the fastest so far, */
    struct yk_net_choice choice; /* which it is, */
    char *said;                  /* (256) and all of them in words */
    size_t used;
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
    const struct yk_model *m = t->model;
    const unsigned layers = m->net->layers;
    size_t features = (size_t)m->net->input.c * m->net->input.h * m->net->input.w;
    t->set.pixels = malloc(features + YK_ROW_SLACK);
    t->set.labels = calloc(n, sizeof *t->set.labels);
    t->row = calloc(n, sizeof *t->row);
    t->image = calloc(n, sizeof *t->image);
    t->layer[0] = calloc((size_t)layers * (ENGINE_COUNT + 1), sizeof(double));
    t->sink = (struct yk_sink){.grad = yk_floats(m->count), .ready = nobody};
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
        t->image[i] = t->set.pixels; /* one for all: time does not depend on what they show */
    }
    t->set.rows = n;
    t->set.features = (uint32_t)features;
    t->set.scale = 1.0f / 255;
    t->batch = (struct yk_batch){.set = &t->set, .n = n, .row = t->row, .image = t->image};
    t->best = INFINITY;
    return YK_OK;
}

/* What each layer took, if it was never less. */
static void keep_layers(struct trial *t, const struct yk_net_choice *c)
{
    for (unsigned i = 0; i < c->runs; i++) {
        double *least = t->layer[c->run[i].engine == ENGINES[ONEDNN] ? ONEDNN : LANES];
        for (unsigned k = c->run[i].from; k < c->run[i].to; k++)
            least[k] = t->once[k] < least[k] ? t->once[k] : least[k];
    }
}

/* Time a few steps; the least counts. A choice with a cut has to be better by something. */
static yk_code measure(struct trial *t, const struct yk_net_choice *c, struct yk_error *e)
{
    struct yk_netplan *plan;
    struct yk_netpass x = {.params = t->params,
                           .batch = &t->batch,
                           .n = t->batch.n,
                           .sink = &t->sink,
                           .seconds = t->once};
    yk_code rc = yk_netplan_open(&plan, t->model, c, t->batch.n, true, t->threads, t->kernels, e);
    if (rc != YK_OK)
        return rc;
    double least = INFINITY, until = 0;
    for (unsigned i = 0; i < TRIALS && (i < 2 || yk_thread_seconds() < until); i++) {
        memset(t->once, 0, t->model->net->layers * sizeof *t->once);
        if (isnan(yk_netplan_pass(plan, &x))) { /* an engine that fails is not fast */
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
        keep_layers(t, c);
    }
    yk_netplan_close(plan);
    if (least < t->best * (c->runs > 1 ? WORTH : 1)) {
        t->best = least;
        t->choice = *c;
    }
    if (t->used < 200)
        t->used += (size_t)snprintf(t->said + t->used, 256 - t->used, "%s%s takes %.3f ms",
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

/* A cut before an activation would tear it from what does it on the way. */
static bool good_cut(const struct yk_net *net, unsigned cut)
{
    enum yk_layer_kind k = cut < net->layers ? net->layer[cut].kind : YK_LAYER_softmax;
    return k != YK_LAYER_relu && k != YK_LAYER_tanh && k != YK_LAYER_sigmoid &&
           k != YK_LAYER_flatten && cuts(net, cut);
}

/* The best cut by the layers' times. False: none is good enough to be tried. */
static bool promising(const struct trial *t, struct yk_net_choice *out)
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

/* How far our own kernels come: layers 0 .. *to - 1 and *from .. . */
static void reach(const struct yk_net *net, unsigned *to, unsigned *from)
{
    double flops = 0;
    for (*to = 0; *to < net->layers && worth_trying(ENGINES[LANES], net, *to, &flops);)
        ++*to;
    flops = 0;
    for (*from = net->layers; *from > 0 && worth_trying(ENGINES[LANES], net, *from - 1, &flops);)
        --*from;
    if (*to == net->layers)
        return;
    while (*to > 0 && !good_cut(net, *to))
        --*to;
    while (*from < net->layers && !good_cut(net, *from))
        ++*from;
}

/* Run what there is to run, and then what that promises. */
static yk_code search(struct trial *t, unsigned to, unsigned from, struct yk_error *e)
{
    const struct yk_net *net = t->model->net;
    struct yk_net_choice c;
    make(&c, net, ONEDNN, net->layers);
    yk_code rc = measure(t, &c, e);
    if (rc == YK_OK && to > 0) {
        make(&c, net, LANES, to);
        rc = measure(t, &c, e);
    }
    if (rc == YK_OK && to < net->layers && from < net->layers) {
        make(&c, net, ONEDNN, from);
        rc = measure(t, &c, e);
    }
    if (rc == YK_OK && promising(t, &c) && strcmp(c.name, t->choice.name) != 0)
        rc = measure(t, &c, e);
    return rc;
}

yk_code yk_net_choose(struct yk_model *m, const struct yk_params *params, const char *name,
                      uint32_t batch, unsigned threads, const char *isa, const char **chosen,
                      char said[256], struct yk_error *e)
{
    struct trial t = {.model = m, .params = params, .threads = threads, .said = said};
    said[0] = '\0';
    *chosen = m->choice.name;
    if (strcmp(name, "auto") != 0) {
        yk_code rc = named(&t.choice, m->net, name, e);
        if (rc == YK_OK)
            m->choice = t.choice;
        return rc;
    }
    yk_net_choice_init(&m->choice, m->net);
    unsigned to, from;
    reach(m->net, &to, &from);
    if (m->whole || (to == 0 && from == m->net->layers))
        return YK_OK;
    yk_code rc = yk_kernels_pick(isa, &t.kernels, e);
    if (rc == YK_OK)
        rc = trial_init(&t, batch < TRIAL_IMAGES ? batch : TRIAL_IMAGES, e);
    if (rc == YK_OK)
        rc = search(&t, to, from, e);
    if (rc == YK_OK)
        m->choice = t.choice;
    trial_release(&t);
    return rc;
}
