/* net_plan.c - a plan: what takes a number of images through a net.
 *
 * Every thread has images of its own and takes them through all layers, forward, loss and back, on
 * engine states of its own. Threads meet when all are done, and their gradients are added in the
 * order of threads. So there is one meeting a step, not one a layer: on a busy machine a thread
 * that waits for others at every layer waits most of the time. Two kinds of nets have one thread of
 * ours instead, and oneDNN's threads compute layer after layer: nets with batch norm, whose
 * statistics are over all images, and nets with so many weights that every thread would wait for
 * memory and adding its gradient would take too long.
 * THREADS: a plan belongs to one caller at a time. Which thread has which images depends on the
 * numbers of images and threads alone, and so do the bits. */
#include "base/team.h"
#include "model/net/net_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_FLOATS = 16 };
static const uint64_t SHARED_WEIGHTS = 2000000; /* nets of more are computed by oneDNN's threads */

struct plan_thread {
    void *state[YK_SEGMENTS]; /* of the engines */
    struct yk_net_border border;
    float *grad; /* (count) its own; NULL for the first thread, which has the sink's */
    struct yk_net_pass pass;
};

struct yk_net_plan {
    const struct yk_net_model *model;
    struct yk_segments segments;
    struct yk_team *team;
    uint32_t images; /* at most */
    uint32_t unit;   /* threads get multiples of so many images */
    unsigned threads;
    unsigned used; /* threads of this pass */
    bool train;
    double *loss; /* (images) */
    struct plan_thread thread[];
};

void yk_net_plan_close(struct yk_net_plan *p)
{
    if (p == NULL)
        return;
    for (unsigned t = 0; t < p->threads; t++) {
        for (unsigned i = 0; i < p->segments.n; i++)
            p->segments.at[i].engine->close(p->thread[t].state[i]);
        yk_floats_free(p->thread[t].grad);
    }
    free(p->loss);
    yk_team_close(p->team);
    free(p);
}

static yk_code open_thread(struct yk_net_plan *p, struct plan_thread *t, uint32_t images,
                           unsigned threads, const struct yk_kernels *kernels, struct yk_error *e)
{
    for (unsigned i = 0; i < p->segments.n; i++) {
        const struct yk_segment *s = &p->segments.at[i];
        struct yk_net_border *before = i > 0 ? &t->border : NULL,
                             *behind = i + 1 < p->segments.n ? &t->border : NULL;
        yk_code rc = s->engine->open(&t->state[i], p->model, s, images, p->train, threads, kernels,
                                     before, behind, e);
        if (rc != YK_OK)
            return rc;
    }
    if (p->train && t != p->thread && (t->grad = yk_floats(p->model->count)) == NULL)
        return yk_fail_memory(e, p->model->count * sizeof(float));
    return YK_OK;
}

yk_code yk_net_plan_open(struct yk_net_plan **out, const struct yk_net_model *m,
                         const struct yk_segments *segments, uint32_t images, bool train,
                         unsigned threads, const struct yk_kernels *kernels, struct yk_error *e)
{
    uint32_t unit = 1;
    for (unsigned i = 0; i < segments->n; i++)
        unit = segments->at[i].engine->unit > unit ? segments->at[i].engine->unit : unit;
    /* An engine without threads of its own needs ours. */
    bool alone = m->whole || (m->net->weights > SHARED_WEIGHTS && unit == 1);
    uint32_t units = (images + unit - 1) / unit;
    unsigned ours = alone ? 1 : threads < units ? threads : units;
    uint32_t images_each = (units + ours - 1) / ours * unit;
    struct yk_net_plan *p = calloc(1, sizeof *p + ours * sizeof *p->thread);
    if (p == NULL)
        return yk_fail_memory(e, sizeof *p + ours * sizeof *p->thread);
    p->model = m;
    p->segments = *segments;
    p->images = images;
    p->unit = unit;
    p->train = train;
    p->threads = ours;
    p->loss = calloc(images, sizeof *p->loss);
    yk_code rc = p->loss != NULL ? yk_team_open(&p->team, ours, e)
                                 : yk_fail_memory(e, images * sizeof *p->loss);
    for (unsigned t = 0; rc == YK_OK && t < ours; t++)
        rc = open_thread(p, &p->thread[t], images_each < images ? images_each : images,
                         alone ? threads : 1, kernels, e);
    if (rc != YK_OK)
        yk_net_plan_close(p);
    else
        *out = p;
    return rc;
}

static void run_thread(void *arg, unsigned t)
{
    struct yk_net_plan *p = arg;
    struct plan_thread *own = &p->thread[t];
    const unsigned last = p->segments.n - 1;
    for (unsigned i = 0; i < last; i++) {
        p->segments.at[i].engine->forward(own->state[i], &own->pass);
        if (own->pass.given_up)
            return;
    }
    p->segments.at[last].engine->run(own->state[last], &own->pass);
    if (own->pass.given_up || own->pass.grad == NULL)
        return;
    for (unsigned i = last; i-- > 0;)
        p->segments.at[i].engine->backward(own->state[i], &own->pass);
}

/* Slice t of the gradients: add those of the other threads to the first one's, in their order. */
static void add_gradients(void *arg, unsigned t)
{
    const struct yk_net_plan *p = arg;
    size_t count = p->model->count, lines = (count + LINE_FLOATS - 1) / LINE_FLOATS,
           lo = lines * t / p->used * LINE_FLOATS, hi = lines * (t + 1) / p->used * LINE_FLOATS;
    hi = hi < count ? hi : count;
    float *restrict to = p->thread[0].pass.grad;
    for (unsigned k = 1; k < p->used; k++) {
        const float *restrict from = p->thread[k].grad;
        for (size_t i = lo; i < hi; i++)
            to[i] += from[i];
    }
}

double yk_net_plan_pass(struct yk_net_plan *p, struct yk_net_pass *x)
{
    uint32_t units = (x->n + p->unit - 1) / p->unit, classes = p->model->net->classes;
    double loss = 0;
    bool failed = false;
    p->used = p->threads < units ? p->threads : units;
    for (unsigned t = 0; t < p->used; t++) {
        uint32_t lo = (uint32_t)((uint64_t)units * t / p->used) * p->unit,
                 hi = (uint32_t)((uint64_t)units * (t + 1) / p->used) * p->unit;
        hi = hi < x->n ? hi : x->n;
        struct plan_thread *own = &p->thread[t];
        own->pass = *x;
        own->pass.first = x->first + lo;
        own->pass.n = hi - lo;
        own->pass.grad = x->sink == NULL ? NULL : t > 0 ? own->grad : x->sink->grad;
        own->pass.sink = p->used == 1 ? x->sink : NULL;
        own->pass.prob = x->prob != NULL ? x->prob + (size_t)lo * classes : NULL;
        own->pass.seconds = t == 0 ? x->seconds : NULL;
        own->pass.per_image_loss = p->loss + lo;
        own->pass.correct = 0;
        own->pass.failed = own->pass.given_up = false;
    }
    /* Only this thread may ask the sink. */
    if (x->sink != NULL && p->used > 1 && !yk_sink_need(x->sink, 0, p->model->count))
        return NAN;
    yk_team_run(p->team, p->used, run_thread, p);
    if (p->thread[0].pass.given_up)
        return NAN;
    x->correct = 0;
    for (unsigned t = 0; t < p->used; t++) {
        x->correct += p->thread[t].pass.correct;
        failed = failed || p->thread[t].pass.failed;
    }
    for (uint32_t i = 0; i < x->n; i++)
        loss += p->loss[i];
    if (x->sink != NULL && p->used > 1) {
        yk_team_run(p->team, p->used, add_gradients, p);
        for (unsigned i = p->model->net->layers; i-- > 0;)
            yk_net_ready(p->model, x->sink, i);
    }
    return failed ? NAN : loss;
}

void yk_net_plan_facts(const struct yk_net_plan *p, char *text, size_t room)
{
    size_t used = 0;
    for (unsigned i = 0; i < p->segments.n && used < room; i++) {
        const struct yk_segment *s = &p->segments.at[i];
        char facts[96];
        size_t bytes = s->engine->facts(p->thread[0].state[i], facts, sizeof facts);
        used += (size_t)snprintf(text + used, room - used, "%s%s on layers %u to %u, %.1f MB, %s",
                                 i > 0 ? "; " : "", s->engine->name, s->from + 1, s->to,
                                 (double)bytes / 1e6, facts);
    }
    if (used < room && p->threads > 1)
        snprintf(text + used, room - used, "; %u threads, each its own images", p->threads);
}
