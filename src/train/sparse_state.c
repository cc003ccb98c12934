/* sparse_state.c - streams the state of a sparse model to and from a checkpoint, a piece at a time;
 * no process ever holds all of it.
 *
 * Other processes may own parts. While the state is written, every owner keeps a copy of its part
 * (yk_server_keep), all of one step, and training goes on. Or values have to be made from raw
 * weights and optimizer state, and a copy of all values would cost as much memory as the model.
 * THREADS: the writer's, or before training the thread that opened the session; never both. */
#include "train/sparse_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 18 }; /* floats that are asked for at a time */

void yk_sparse_state_open(struct yk_sparse_state *f, struct yk_crew *c, const struct yk_state *s,
                          const struct yk_snapshot *snap)
{
    *f = (struct yk_sparse_state){.crew = c, .state = s, .snap = snap};
}

/* n floats from flat index lo on, from their owners: weights (0) or a state vector (1 and up). */
static yk_code fetch(struct yk_sparse_state *f, unsigned which, size_t lo, size_t n, float *to,
                     struct yk_error *e)
{
    struct yk_crew *c = f->crew;
    const float *here = which == 0 ? f->snap->params.flat : f->snap->slot[which - 1];
    yk_code rc = YK_OK;
    if (here != NULL) {
        memcpy(to, here + (lo - f->state->owned_from), n * sizeof *to);
        return YK_OK;
    }
    for (unsigned k = 0; k < c->rule.owners && rc == YK_OK; k++) {
        size_t first = yk_owner_at(k, c->rule.owners, f->state->params.count),
               last = yk_owner_at(k + 1, c->rule.owners, f->state->params.count);
        size_t a = lo > first ? lo : first, b = lo + n < last ? lo + n : last;
        if (a < b)
            rc = yk_server_fetch(&c->server[0], c->servers, k, which, a, b - a, to + (a - lo), e);
    }
    return rc;
}

/* Makes values from raw weights and state; all of one owner. */
static yk_code fetch_values(struct yk_sparse_state *f, const struct yk_owner *owner, size_t lo,
                            size_t n, float *to, struct yk_error *e)
{
    unsigned slots = yk_recipe_slots(&f->crew->recipe);
    struct yk_owner o = *owner;
    yk_code rc = YK_OK;
    if (slots == f->crew->recipe.optimizer->slots)
        return fetch(f, 0, lo, n, to, e);
    for (unsigned k = 0; k <= slots && rc == YK_OK; k++) {
        if (f->piece[k] == NULL && (f->piece[k] = yk_floats(PIECE)) == NULL)
            return yk_fail_memory(e, PIECE * sizeof(float));
        rc = fetch(f, k, lo, n, f->piece[k], e);
        if (k > 0)
            o.slot[k - 1] = f->piece[k];
    }
    o.weights = f->piece[0];
    o.origin = o.lo = lo;
    o.hi = lo + n;
    if (rc == YK_OK)
        yk_owner_read(&o, to, lo, lo + n);
    return rc;
}

static yk_code read_piece(void *arg, size_t at, size_t n, float *to, struct yk_error *e)
{
    const struct yk_sparse_vector *v = arg;
    struct yk_sparse_state *f = v->from;
    unsigned servers = f->crew->servers;
    yk_code rc = YK_OK;
    for (size_t done = 0; done < n && rc == YK_OK;) {
        size_t some = n - done < PIECE ? n - done : PIECE, lo = v->view->at + at + done;
        const struct yk_owner *owner = f->snap->owner;
        for (unsigned i = 0; i + 1 < servers && lo >= owner->hi; i++)
            owner++;
        if (servers > 1 && owner->hi - lo < some) /* owners of one process may differ in step */
            some = owner->hi - lo;
        rc = v->which == 0 ? fetch_values(f, owner, lo, some, to + done, e)
                           : fetch(f, v->which - 1, lo, some, to + done, e);
        done += some;
    }
    if (rc == YK_OK && v->which == 0 && f->hash != NULL)
        XXH3_64bits_update(f->hash, to, n * sizeof(float));
    return rc;
}

void yk_sparse_state_tensor(struct yk_sparse_state *f, struct yk_tensor *t, const struct yk_view *v,
                            const char *prefix, unsigned which)
{
    struct yk_sparse_vector *from = &f->vector[f->vectors++];
    if (f->hash == NULL && (f->hash = XXH3_createState()) != NULL)
        XXH3_64bits_reset(f->hash);
    *from = (struct yk_sparse_vector){.from = f, .view = v, .which = which};
    *t = (struct yk_tensor){.ndim = v->ndim, .count = v->count, .read = read_piece, .arg = from};
    memcpy(t->shape, v->shape, sizeof t->shape);
    snprintf(t->name, sizeof t->name, "%s%s", prefix, v->name);
}

void yk_sparse_state_close(struct yk_sparse_state *f, char hash[17])
{
    if (f->vectors == 0)
        return;
    if (f->snap->params.flat == NULL)
        yk_server_unkeep(&f->crew->server[0], f->crew->servers);
    if (f->hash != NULL)
        snprintf(hash, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(f->hash));
    XXH3_freeState(f->hash);
    for (unsigned k = 0; k <= YK_SLOTS; k++)
        yk_floats_free(f->piece[k]);
}

/* Sends one vector of the state, in pieces, to its owners. */
static yk_code put(struct yk_crew *c, size_t count, unsigned which, const struct yk_view *v,
                   const float *from, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (unsigned k = 0; k < c->rule.owners && rc == YK_OK; k++) {
        size_t lo = yk_owner_at(k, c->rule.owners, count),
               hi = yk_owner_at(k + 1, c->rule.owners, count);
        lo = lo > v->at ? lo : v->at;
        hi = hi < v->at + v->count ? hi : v->at + v->count;
        for (size_t n; lo < hi && rc == YK_OK; lo += n) {
            n = hi - lo < PIECE ? hi - lo : PIECE;
            rc = yk_server_put(&c->server[0], c->servers, k, which, lo, n, from + (lo - v->at), e);
        }
    }
    return rc;
}

yk_code yk_sparse_state_restore(struct yk_crew *c, const struct yk_state *s,
                                struct yk_tensors *from, struct yk_error *e)
{
    const struct yk_optimizer_ops *optimizer = c->recipe.optimizer;
    unsigned slots = yk_recipe_slots(&c->recipe);
    yk_code rc = YK_OK;
    for (unsigned which = 0; which <= slots && rc == YK_OK; which++)
        for (size_t i = 0; i < s->params.views && rc == YK_OK; i++) {
            char prefix[YK_NAME] = "", name[2 * YK_NAME];
            const struct yk_view *v = &s->params.view[i];
            if (which > 0)
                snprintf(prefix, sizeof prefix, "optimizer.%s.", optimizer->slot[which - 1]);
            else if (slots > optimizer->slots)
                snprintf(prefix, sizeof prefix, YK_RAW);
            snprintf(name, sizeof name, "%s%s", prefix, v->name);
            const struct yk_tensor *t = yk_tensors_find(from, name); /* save.c has checked it */
            rc = put(c, s->params.count, which, v, t->data, e);
        }
    if (rc == YK_OK)
        rc = yk_tensors_intact(from, "the checkpoint", e);
    yk_tensors_release(from);
    return rc;
}
