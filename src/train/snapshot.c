/* snapshot.c - copies the state of a run; see snapshot.h. Buffers are made once and used for every
 * snapshot. A snapshot is taken under the locks of all owners of this process.
 * LIMITS: where other processes own parts of a sparse model, a snapshot has no copy of the state;
 * every owner keeps one of its part (yk_server_keep). */
#include "train/snapshot.h"

#include <stdlib.h>
#include <string.h>

static yk_code make_copies(struct yk_snapshot *n, const struct yk_state *s, unsigned slots,
                           struct yk_error *e)
{
    if ((n->params.flat = yk_floats(s->owned)) == NULL)
        return yk_fail_memory(e, s->owned * sizeof(float));
    for (unsigned i = 0; i < slots; i++)
        if ((n->slot[i] = yk_floats(s->owned)) == NULL)
            return yk_fail_memory(e, s->owned * sizeof(float));
    return YK_OK;
}

yk_code yk_snapshot_init(struct yk_snapshot *n, const struct yk_crew *c, const struct yk_state *s,
                         bool with_slots, struct yk_error *e)
{
    unsigned slots = yk_recipe_slots(&c->recipe);
    bool copies = !c->recipe.sparse || !yk_crew_elsewhere(c);
    bool lazy = slots > c->recipe.optimizer->slots; /* untouched keys are updated later */
    yk_code rc = yk_params_layout(&n->params, s->params.view, s->params.views, e);
    if (rc == YK_OK && copies)
        rc = make_copies(n, s, with_slots ? slots : 0, e);
    if (rc == YK_OK && (lazy || !copies) &&
        (n->owner = calloc(c->servers, sizeof *n->owner)) == NULL)
        rc = yk_fail_memory(e, c->servers * sizeof *n->owner);
    if (rc == YK_OK && c->rule.shares > 1 &&
        (n->next = calloc(c->rule.shares, sizeof *n->next)) == NULL)
        rc = yk_fail_memory(e, c->rule.shares * sizeof *n->next);
    size_t parts = 2 * (size_t)c->clock.deal.most;
    if (rc == YK_OK && c->rule.pooled && (n->pool = calloc(parts, sizeof *n->pool)) == NULL)
        rc = yk_fail_memory(e, parts * sizeof *n->pool);
    return rc;
}

void yk_snapshot_release(struct yk_snapshot *n)
{
    yk_params_release(&n->params);
    for (unsigned i = 0; i < YK_SLOTS; i++)
        yk_floats_free(n->slot[i]);
    free(n->owner);
    free(n->pool);
    free(n->next);
    *n = (struct yk_snapshot){0};
}

static void copy_state(float *flat, float *const *slot, const float *from, float *const *from_slot,
                       size_t count)
{
    if (flat != NULL && from != NULL) /* a sparse model is evaluated without a copy */
        memcpy(flat, from, count * sizeof(float));
    for (unsigned i = 0; i < YK_SLOTS; i++)
        if (slot[i] != NULL && from_slot[i] != NULL)
            memcpy(slot[i], from_slot[i], count * sizeof(float));
}

/* A run that goes on from the snapshot deals the unfinished parts again: those that came back from
 * lost workers, and those that workers are computing. */
static void copy_pool(struct yk_snapshot *n, const struct yk_deal *d)
{
    memcpy(n->pool, d->back, d->backs * sizeof *n->pool);
    memcpy(n->pool + d->backs, d->out, d->outs * sizeof *n->pool);
    n->pooled = d->backs + d->outs;
}

void yk_snapshot_take(struct yk_snapshot *n, const struct yk_crew *c, const struct yk_state *s,
                      const struct yk_moment *now)
{
    n->at = *now;
    copy_state(n->params.flat, n->slot, s->params.flat, s->slot, s->owned);
    if (n->pool != NULL) {
        n->at.position = yk_deal_position(&c->clock.deal); /* it may be past the last step's */
        copy_pool(n, &c->clock.deal);
    }
    if (n->next != NULL)
        for (unsigned i = 0; i < c->rule.shares; i++)
            n->next[i] = c->clock.deal.share[i].next;
    if (n->owner != NULL)
        for (unsigned i = 0; i < c->servers; i++)
            n->owner[i] = c->server[i].owner;
}

/* The last checkpoint must name the parts that this state has not seen. */
static void restore_pool(const struct yk_snapshot *n, struct yk_deal *d)
{
    d->backs = 0;
    for (unsigned i = 0; i < d->shares; i++)
        d->share[i].next = n->next != NULL ? n->next[i] : n->at.position;
    memcpy(d->out, n->pool, n->pooled * sizeof *d->out);
    d->outs = n->pooled;
}

void yk_snapshot_restore(const struct yk_snapshot *n, struct yk_crew *c, struct yk_state *s)
{
    for (unsigned i = 0; i < c->servers; i++)
        c->server[i].owner.step = n->at.step;
    copy_state(s->params.flat, s->slot, n->params.flat, n->slot, s->owned);
    if (n->pool != NULL)
        restore_pool(n, &c->clock.deal);
}
