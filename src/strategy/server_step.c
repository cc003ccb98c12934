/* server_step.c - an owner's step is complete: add what is held for it, apply it, count it, and let everybody go on; see server.h. With
 * backups owner 0 names the pushes that form it.
 * THREADS: under the owner's lock. */
#include "strategy/server.h"

#include "strategy/server_parts.h"

#include <stdlib.h>

void yk_server_stepped(struct yk_server *s, uint32_t examples, double loss)
{
    const struct yk_stepped now = {.step = s->owner.step, .examples = examples, .loss = loss};
    if (!s->rule->pooled)
        s->clock->position += examples;
    yk_server_look(s, s->watcher.stepped(s->watcher.arg, &now));
}

/* All shards are here: add and apply what the buckets have not, count. */
void yk_server_close_batch(struct yk_server *s)
{
    uint32_t examples = 0;
    double loss = 0;
    for (unsigned i = 0; i < s->table.n; i++) {
        const struct yk_push *p = &s->table.push[i];
        if (!p->used)
            continue;
        if (s->rule->sparse)
            yk_server_add_rows(s, p, p->first, p->last, s->rule->shards);
        else
            s->has[p->worker] = s->owner.step + 1;
        examples += p->examples;
        loss += p->loss;
    }
    if (s->rule->sparse)
        yk_server_apply_rows(s, s->rule->shards, examples);
    yk_owner_finish(&s->owner);
    for (unsigned w = 0; s->clock != NULL && w < s->rule->workers;
         w++) { /* a worker's push may be several sums */
        uint32_t mine = 0;
        double lost = 0;
        for (unsigned i = 0; i < s->table.n; i++)
            if (s->table.push[i].used && s->table.push[i].worker == w) {
                mine += s->table.push[i].examples;
                lost += s->table.push[i].loss;
            }
        if (s->clock->member[w].alive)
            yk_clock_applied(s->clock, w, s->clock->position, 0, mine, lost);
    }
    yk_pushes_forget(&s->table);
    yk_server_open_buckets(s, false);
    if (s->clock != NULL) {
        yk_server_stepped(s, examples, loss);
        yk_server_go_on(s);
    } else {
        yk_server_reply_owed(s);
    }
}

static int by_id(const void *a, const void *b)
{
    const struct yk_set_entry *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* With backups: apply exactly these pushes, in the order of their parts, whatever else is here. */
void yk_server_close_set(struct yk_server *s, const struct yk_set_entry *set, unsigned n)
{
    uint32_t examples = 0;
    double loss = 0;
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = 0; i < s->table.n; i++) {
            const struct yk_push *p = &s->table.push[i];
            if (!p->used || !p->whole || p->worker != set[k].worker || p->id != set[k].id)
                continue;
            if (s->rule->sparse)
                yk_server_add_rows(s, p, k, k + 1, n);
            else
                s->block[k] = (struct yk_block){
                    .first = k, .last = k + 1, .sum = p->sum, .origin = p->origin};
            examples += p->examples;
            loss += p->loss;
            s->applied[p->worker]++;
            if (s->clock != NULL)
                yk_clock_applied(s->clock, p->worker, p->id, 0, p->examples, p->loss);
        }
    if (s->rule->sparse)
        yk_server_apply_rows(s, n, examples);
    else
        yk_owner_apply_blocks(&s->owner, s->block, n, s->owner.lo, s->owner.hi, examples);
    yk_owner_finish(&s->owner);
    if (s->clock == NULL) {
        yk_pushes_forget(&s->table);
        yk_server_reply_owed(s);
        return;
    }
    for (unsigned i = 0; i < s->table.n; i++) { /* whole, but one too many */
        const struct yk_push *p = &s->table.push[i];
        bool in = false;
        for (unsigned k = 0; k < n; k++)
            in = in || (p->worker == set[k].worker && p->id == set[k].id);
        if (p->used && p->whole && !in)
            yk_clock_dropped(s->clock, p->worker, p->id);
    }
    yk_pushes_forget(&s->table);
    yk_server_stepped(s, examples, loss);
    yk_server_go_on(s);
}

/* Owner 0: is the set complete? A push is in it when every owner has all of it, so that no set can be torn. The list stays where it is
 * until all owners have acted on it: nobody pushes for the next step before. */
void yk_server_try_set(struct yk_server *s)
{
    unsigned n = 0, need = yk_clock_need(s->clock),
             others = s->comm->shared ? 0 : (unsigned)s->comm->owners - 1;
    for (unsigned i = 0; i < s->table.n && n < need; i++) {
        const struct yk_push *p = &s->table.push[i];
        bool twice = false;
        for (unsigned k = 0; k < n; k++)
            twice = twice || s->set[k].id == p->id;
        if (p->used && p->whole && yk_pushes_have(&s->table, p->worker, p->id, 0) >= others &&
            !twice)
            s->set[n++] = (struct yk_set_entry){.worker = p->worker, .id = p->id};
    }
    if (n == 0 || n < need)
        return;
    qsort(s->set, n, sizeof *s->set, by_id);
    struct yk_note note = {.kind = YK_SET, .step = s->owner.step};
    yk_server_tell(s, &note, s->set, n * sizeof *s->set);
    yk_server_close_set(s, s->set, n);
}
