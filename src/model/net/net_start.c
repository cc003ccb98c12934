/* net_start.c - lays out the parameters of a net and gives them their starting values.
 *
 * Weights are drawn by seed, layer and place: every piece of 4,096 has a stream of random numbers
 * of its own, so several threads can draw them, and any number of threads draws the same.
 *
 *     he      normal, variance 2 / fan-in         glorot  uniform in +-sqrt(6 / (fan-in + fan-out))
 *     normal  normal, deviation from the file     zero
 *
 * Fan-in is the number of weights behind one output, in / groups * kh * kw; fan-out is out * kh *
 * kw, as in torch. */
#include "base/rng.h"
#include "base/team.h"
#include "kernel/onednn.h"
#include "model/net/layer.h"
#include "model/net/net_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096 };

struct stream {
    float *to;
    size_t count;
    uint64_t seed, layer;
    double deviation; /* normal */
    double reach;     /* uniform in +-reach; 0: normal */
};

static float fraction(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f; /* [0, 1) */
}

static void draw(void *arg, uint32_t piece)
{
    const struct stream *d = arg;
    size_t from = (size_t)piece * PIECE, to = from + PIECE < d->count ? from + PIECE : d->count;
    const float deviation = (float)d->deviation, reach = (float)d->reach;
    struct yk_rng r;
    yk_rng_init(&r, d->seed, 0x696e6974 /* "init" */, d->layer, piece);
    for (size_t i = from; i < to; i += 2) {
        uint64_t bits = yk_rng_next(&r);
        float a = fraction((uint32_t)bits), b = fraction((uint32_t)(bits >> 32)), x, y;
        if (reach > 0) {
            x = (2 * a - 1) * reach;
            y = (2 * b - 1) * reach;
        } else { /* Box and Muller's two at a time */
            float radius = sqrtf(-2 * logf(1 - a)) * deviation;
            sincosf(6.28318531f * b, &x, &y);
            x *= radius;
            y *= radius;
        }
        d->to[i] = x;
        if (i + 1 < to)
            d->to[i + 1] = y;
    }
}

void yk_start_product(const struct yk_layer *l, const struct yk_layer_start *s, size_t fan_in,
                      size_t fan_out)
{
    struct stream d = {.to = s->flat + s->place->weight,
                       .count = fan_in * l->out.c,
                       .seed = s->seed,
                       .layer = s->index};
    if (strcmp(l->init, "he") == 0)
        d.deviation = sqrt(2.0 / (double)fan_in);
    else if (strcmp(l->init, "glorot") == 0)
        d.reach = sqrt(6.0 / (double)(fan_in + fan_out));
    else if (strcmp(l->init, "normal") == 0)
        d.deviation = l->init_scale;
    if (d.deviation > 0 || d.reach > 0)
        yk_dnn_each(yk_cpus(), (uint32_t)((d.count + PIECE - 1) / PIECE), draw, &d);
    if (l->bias)
        for (uint32_t i = 0; i < l->out.c; i++)
            s->flat[s->place->bias + i] = l->bias_start;
}

/* The view NAME.what of a layer: where it lies, and up to where the next one begins. */
static void find(const struct yk_params *params, const struct yk_layer *l, const char *what,
                 struct yk_net_place *p, size_t *at)
{
    char name[YK_NAME];
    snprintf(name, sizeof name, "%s.%s", l->name, what);
    const struct yk_view *v = yk_params_find(params, name);
    if (v == NULL)
        return;
    size_t hi = v + 1 < params->view + params->views ? v[1].at : params->count;
    *at = v->at;
    if (p->ranges > 0 && p->range[p->ranges - 1].hi == v->at) {
        p->range[p->ranges - 1].hi = hi;
    } else {
        p->range[p->ranges].lo = v->at;
        p->range[p->ranges++].hi = hi;
    }
}

yk_code yk_net_layout(struct yk_model *model, struct yk_params *params, uint64_t seed,
                      struct yk_error *e)
{
    struct yk_net_model *m = (struct yk_net_model *)model;
    const struct yk_net *net = m->net;
    struct yk_view *view = calloc((size_t)net->layers * 4 + 1, sizeof *view);
    if (view == NULL)
        return yk_fail_memory(e, (size_t)net->layers * 4 * sizeof *view);
    yk_code rc = yk_params_init(params, view, yk_net_views(net, view), e);
    free(view);
    if (rc != YK_OK)
        return rc;
    m->count = params->count;
    for (unsigned i = 0; i < net->layers; i++) {
        struct yk_net_place *p = &m->place[i];
        *p = (struct yk_net_place){0};
        /* In the order of names, which is that of the buffer. */
        find(params, &net->layer[i], "bias", p, &p->bias);
        find(params, &net->layer[i], "mean", p, &p->mean);
        find(params, &net->layer[i], "var", p, &p->var);
        find(params, &net->layer[i], "weight", p, &p->weight);
        if (yk_layer_ops(net->layer[i].kind)->start != NULL) {
            const struct yk_layer_start to = {params->flat, p, seed, i};
            yk_layer_ops(net->layer[i].kind)->start(&net->layer[i], &to);
        }
    }
    return YK_OK;
}
