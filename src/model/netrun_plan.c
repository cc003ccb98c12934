/* netrun_plan.c - a plan: what takes a number of images through a net.
 *
 * Threads have shares of the images, and each takes its own through all layers, forward, loss and back, on segments of its own; they meet when
 * everybody is done, and the gradients of the shares are added in their order. So there is one meeting a step, not one a layer: on a busy
 * machine a thread that has to wait for others at every layer waits most of the time. Two kinds of nets are computed in one share by oneDNN's
 * threads instead, layer after layer: those with batch norm, whose statistics are over all images, and those with so many weights that a thread
 * alone would wait for memory, and a gradient for every thread would not pay.
 * THREADS: a plan belongs to one caller at a time. Shares depend on the number of images and threads alone, and so do the bits. */
#include "base/team.h"
#include "model/netrun.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_FLOATS = 16 };
static const uint64_t SHARED_WEIGHTS = 2000000; /* nets of more are computed in one share */

struct share {
    struct yk_net_segment *segment[YK_NET_RUNS];
    struct yk_net_border border;
    float *own; /* (count) gradients; NULL for the first, which has the sink's */
    struct yk_netpass pass;
};

struct yk_netplan {
    const struct yk_model *model;
    struct yk_net_choice choice;
    struct yk_team *team;
    uint32_t images, unit;
    unsigned shares, used; /* used: in this pass */
    bool train;
    double *loss; /* (images) */
    struct share share[];
};

void yk_netplan_close(struct yk_netplan *p)
{
    if (p == NULL)
        return;
    for (unsigned t = 0; t < p->shares; t++) {
        for (unsigned i = 0; i < p->choice.runs; i++)
            p->choice.run[i].engine->close(p->share[t].segment[i]);
        yk_floats_free(p->share[t].own);
    }
    free(p->loss);
    yk_team_close(p->team);
    free(p);
}

static yk_code open_share(struct yk_netplan *p, struct share *s, uint32_t images, unsigned threads,
                          const struct yk_kernels *kernels, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (unsigned i = 0; rc == YK_OK && i < p->choice.runs; i++) {
        const struct yk_net_run *r = &p->choice.run[i];
        rc = r->engine->open(&s->segment[i], p->model, r, images, p->train, threads, kernels,
                             i > 0 ? &s->border : NULL, i + 1 < p->choice.runs ? &s->border : NULL,
                             e);
    }
    if (rc == YK_OK && p->train && s != p->share && (s->own = yk_floats(p->model->count)) == NULL)
        rc = yk_fail_memory(e, p->model->count * sizeof(float));
    return rc;
}

yk_code yk_netplan_open(struct yk_netplan **out, const struct yk_model *m,
                        const struct yk_net_choice *choice, uint32_t images, bool train,
                        unsigned threads, const struct yk_kernels *kernels, struct yk_error *e)
{
    uint32_t unit = 1;
    bool alone = m->whole || m->net->weights > SHARED_WEIGHTS;
    for (unsigned i = 0; i < choice->runs; i++)
        unit = choice->run[i].engine->unit > unit ? choice->run[i].engine->unit : unit;
    alone = alone && (m->whole || unit == 1); /* an engine without threads of its own needs ours */
    uint32_t units = (images + unit - 1) / unit;
    unsigned shares = alone ? 1 : threads < units ? threads : units;
    uint32_t each = (units + shares - 1) / shares * unit;
    struct yk_netplan *p = calloc(1, sizeof *p + shares * sizeof *p->share);
    if (p == NULL)
        return yk_fail_memory(e, sizeof *p + shares * sizeof *p->share);
    p->model = m;
    p->choice = *choice;
    p->images = images;
    p->unit = unit;
    p->train = train;
    p->shares = shares;
    p->loss = calloc(images, sizeof *p->loss);
    yk_code rc = p->loss != NULL ? yk_team_open(&p->team, shares, e)
                                 : yk_fail_memory(e, images * sizeof *p->loss);
    for (unsigned t = 0; rc == YK_OK && t < shares; t++)
        rc = open_share(p, &p->share[t], each < images ? each : images, alone ? threads : 1,
                        kernels, e);
    if (rc != YK_OK)
        yk_netplan_close(p);
    else
        *out = p;
    return rc;
}

static void take_share(void *arg, unsigned t)
{
    struct yk_netplan *p = arg;
    struct share *s = &p->share[t];
    for (unsigned i = 0; i < p->choice.runs && !s->pass.given_up; i++)
        p->choice.run[i].engine->forward(s->segment[i], &s->pass);
    for (unsigned i = p->choice.runs; s->pass.grad != NULL && !s->pass.given_up && i-- > 0;)
        p->choice.run[i].engine->backward(s->segment[i], &s->pass);
}

/* Slice t of the gradients: add the others' to the first share's, in their order. */
static void add_shares(void *arg, unsigned t)
{
    const struct yk_netplan *p = arg;
    size_t count = p->model->count, lines = (count + LINE_FLOATS - 1) / LINE_FLOATS,
           lo = lines * t / p->used * LINE_FLOATS, hi = lines * (t + 1) / p->used * LINE_FLOATS;
    hi = hi < count ? hi : count;
    float *restrict to = p->share[0].pass.grad;
    for (unsigned k = 1; k < p->used; k++) {
        const float *restrict from = p->share[k].own;
        for (size_t i = lo; i < hi; i++)
            to[i] += from[i];
    }
}

double yk_netplan_pass(struct yk_netplan *p, struct yk_netpass *x)
{
    uint32_t units = (x->n + p->unit - 1) / p->unit, classes = p->model->net->classes;
    double loss = 0;
    bool failed = false;
    p->used = p->shares < units ? p->shares : units;
    for (unsigned t = 0; t < p->used; t++) {
        uint32_t lo = (uint32_t)((uint64_t)units * t / p->used) * p->unit,
                 hi = (uint32_t)((uint64_t)units * (t + 1) / p->used) * p->unit;
        hi = hi < x->n ? hi : x->n;
        struct share *s = &p->share[t];
        s->pass = *x;
        s->pass.first = x->first + lo;
        s->pass.n = hi - lo;
        s->pass.grad = x->sink == NULL ? NULL : t > 0 ? s->own : x->sink->grad;
        s->pass.sink = p->used == 1 ? x->sink : NULL;
        s->pass.prob = x->prob != NULL ? x->prob + (size_t)lo * classes : NULL;
        s->pass.seconds = t == 0 ? x->seconds : NULL;
        s->pass.each = p->loss + lo;
        s->pass.correct = 0;
        s->pass.failed = s->pass.given_up = false;
    }
    if (x->sink != NULL && p->used > 1 &&
        !yk_sink_need(x->sink, 0, p->model->count)) /* only this thread may ask */
        return NAN;
    yk_team_run(p->team, p->used, take_share, p);
    if (p->share[0].pass.given_up)
        return NAN;
    x->correct = 0;
    for (unsigned t = 0; t < p->used; t++) {
        x->correct += p->share[t].pass.correct;
        failed = failed || p->share[t].pass.failed;
    }
    for (uint32_t i = 0; i < x->n; i++)
        loss += p->loss[i];
    if (x->sink != NULL && p->used > 1) {
        yk_team_run(p->team, p->used, add_shares, p);
        for (unsigned i = p->model->net->layers; i-- > 0;)
            yk_net_ready(p->model, x->sink, i);
    }
    return failed ? NAN : loss;
}

void yk_netplan_facts(const struct yk_netplan *p, char *text, size_t room)
{
    size_t used = 0;
    for (unsigned i = 0; i < p->choice.runs && used < room; i++) {
        const struct yk_net_run *r = &p->choice.run[i];
        char facts[96];
        size_t bytes = r->engine->facts(p->share[0].segment[i], facts, sizeof facts);
        used += (size_t)snprintf(text + used, room - used, "%s%s on layers %u to %u, %.1f MB, %s",
                                 i > 0 ? "; " : "", r->engine->name, r->from + 1, r->to,
                                 (double)bytes / 1e6, facts);
    }
    if (used < room && p->shares > 1)
        snprintf(text + used, room - used, "; %u threads, each its own images", p->shares);
}
