/* far.c - the state of a sparse model where nobody has it as it is to be written, so that it is written and restored a piece at a time.
 * Other processes may own parts: while it is written every owner holds a copy of its part (yk_server_keep), of one step, and training
 * goes on. Or values have to be made from raw weights and state, which would be another copy of millions.
 * THREADS: the writer's lane, or before training the thread that opened the session; one at a time, as server.h wants it. */
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 18 }; /* floats that are asked for at a time */

void yk_far_open(struct yk_far *f, struct yk_session *s)
{
    *f = (struct yk_far){.s = s};
}

/* n floats from flat index lo on, whoever owns them: weights (0) or a state vector (1..). */
static yk_code fetch(struct yk_session *s, unsigned which, size_t lo, size_t n, float *to,
                     struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    const float *here = which == 0 ? s->saving.params.flat : s->saving.slot[which - 1];
    yk_code rc = YK_OK;
    if (here != NULL)
        memcpy(to, here + (lo - s->owned_from), n * sizeof *to);
    for (unsigned k = 0; here == NULL && k < c->rule.owners && rc == YK_OK; k++) {
        size_t first = yk_owner_at(k, c->rule.owners, s->params.count),
               last = yk_owner_at(k + 1, c->rule.owners, s->params.count);
        size_t a = lo > first ? lo : first, b = lo + n < last ? lo + n : last;
        if (a < b)
            rc = yk_server_fetch(&c->server[0], c->servers, k, which, a, b - a, to + (a - lo), e);
    }
    return rc;
}

/* Values that raw weights and state stand for; all of one owner. */
static yk_code fetch_values(struct yk_far *f, const struct yk_owner *owner, size_t lo, size_t n,
                            float *to, struct yk_error *e)
{
    unsigned slots = yk_recipe_slots(&f->s->crew.recipe);
    struct yk_owner o = *owner;
    yk_code rc = YK_OK;
    if (slots == f->s->crew.recipe.optimizer->slots)
        return fetch(f->s, 0, lo, n, to, e);
    for (unsigned k = 0; k <= slots && rc == YK_OK; k++) {
        if (f->piece[k] == NULL && (f->piece[k] = yk_floats(PIECE)) == NULL)
            return yk_fail_memory(e, PIECE * sizeof(float));
        rc = fetch(f->s, k, lo, n, f->piece[k], e);
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
    const struct yk_far_vector *v = arg;
    struct yk_far *f = v->far;
    yk_code rc = YK_OK;
    for (size_t done = 0; done < n && rc == YK_OK;) {
        size_t some = n - done < PIECE ? n - done : PIECE, lo = v->view->at + at + done;
        const struct yk_owner *owner = f->s->saving.owner;
        for (unsigned i = 0; i + 1 < f->s->crew.servers && lo >= owner->hi; i++)
            owner++;
        if (f->s->crew.servers > 1 &&
            owner->hi - lo < some) /* several in this process may be at different steps */
            some = owner->hi - lo;
        rc = v->which == 0 ? fetch_values(f, owner, lo, some, to + done, e)
                           : fetch(f->s, v->which - 1, lo, some, to + done, e);
        done += some;
    }
    if (rc == YK_OK && v->which == 0 && f->hash != NULL)
        XXH3_64bits_update(f->hash, to, n * sizeof(float));
    return rc;
}

void yk_far_tensor(struct yk_far *f, struct yk_tensor *t, const struct yk_view *v,
                   const char *prefix, unsigned which)
{
    struct yk_far_vector *from = &f->vector[f->vectors++];
    if (f->hash == NULL && (f->hash = XXH3_createState()) != NULL)
        XXH3_64bits_reset(f->hash);
    *from = (struct yk_far_vector){.far = f, .view = v, .which = which};
    *t = (struct yk_tensor){.ndim = v->ndim, .count = v->count, .read = read_piece, .arg = from};
    memcpy(t->shape, v->shape, sizeof t->shape);
    snprintf(t->name, sizeof t->name, "%s%s", prefix, v->name);
}

void yk_far_close(struct yk_far *f, char hash[17])
{
    if (f->vectors == 0)
        return;
    if (f->s->saving.params.flat == NULL)
        yk_server_unkeep(&f->s->crew.server[0], f->s->crew.servers);
    if (f->hash != NULL)
        snprintf(hash, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(f->hash));
    XXH3_freeState(f->hash);
    for (unsigned k = 0; k <= YK_SLOTS; k++)
        yk_floats_free(f->piece[k]);
}

/* One vector of the state, in pieces, to whoever owns them. */
static yk_code put(struct yk_session *s, unsigned which, const struct yk_view *v, const float *from,
                   struct yk_error *e)
{
    struct yk_crew *c = &s->crew;
    yk_code rc = YK_OK;
    for (unsigned k = 0; k < c->rule.owners && rc == YK_OK; k++) {
        size_t lo = yk_owner_at(k, c->rule.owners, s->params.count),
               hi = yk_owner_at(k + 1, c->rule.owners, s->params.count);
        lo = lo > v->at ? lo : v->at;
        hi = hi < v->at + v->count ? hi : v->at + v->count;
        for (size_t n; lo < hi && rc == YK_OK; lo += n) {
            n = hi - lo < PIECE ? hi - lo : PIECE;
            rc = yk_server_put(&c->server[0], c->servers, k, which, lo, n, from + (lo - v->at), e);
        }
    }
    return rc;
}

yk_code yk_far_restore(struct yk_session *s, struct yk_error *e)
{
    const struct yk_optimizer_ops *optimizer = s->crew.recipe.optimizer;
    unsigned slots = yk_recipe_slots(&s->crew.recipe);
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
            const struct yk_tensor *t =
                yk_tensors_find(&s->restored_state, name); /* it was there when it was accepted */
            rc = put(s, which, v, t->data, e);
        }
    yk_tensors_release(&s->restored_state);
    return rc;
}
