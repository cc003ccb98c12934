/* pending.c - see pending.h. A step has a few pushes for each worker, so plain arrays are
 * searched. */
#include "strategy/pending.h"

#include "param/param.h"

#include <stdlib.h>

yk_code yk_pending_init(struct yk_pending *t, unsigned n, size_t lo, size_t hi, struct yk_error *e)
{
    *t = (struct yk_pending){.n = n, .lo = lo, .hi = hi};
    t->push = calloc(n, sizeof *t->push);
    t->have = calloc(n, sizeof *t->have);
    if (t->push == NULL || t->have == NULL) {
        yk_pending_release(t);
        return yk_fail_memory(e, n * (sizeof *t->push + sizeof *t->have));
    }
    return YK_OK;
}

void yk_pending_release(struct yk_pending *t)
{
    for (unsigned i = 0; i < (t->push != NULL ? t->n : 0); i++) {
        if (t->push[i].room > 0) /* sparse */
            free(t->push[i].buffer);
        else
            yk_floats_free(t->push[i].buffer);
        free(t->push[i].key);
    }
    for (unsigned i = 0; i < t->abandons; i++)
        yk_floats_free(t->abandoned[i]);
    free(t->abandoned);
    free(t->push);
    free(t->have);
    *t = (struct yk_pending){0};
}

struct yk_push *yk_pending_find(struct yk_pending *t, unsigned w, const struct yk_note *n)
{
    struct yk_push *unused = NULL;
    for (unsigned i = 0; i < t->n; i++) {
        struct yk_push *p = &t->push[i];
        if (p->used && p->worker == w && p->first == n->push.first && p->last == n->push.last &&
            p->id == n->push.id && p->step == n->step && p->incarnation == n->incarnation)
            return p;
        if (unused == NULL && !p->used && p->receiving == 0)
            unused = p;
    }
    if (unused != NULL)
        *unused = (struct yk_push){.used = true,
                                   .worker = w,
                                   .first = n->push.first,
                                   .last = n->push.last,
                                   .incarnation = n->incarnation,
                                   .step = n->step,
                                   .id = n->push.id,
                                   .buffer = unused->buffer,
                                   .key = unused->key,
                                   .key_room = unused->key_room,
                                   .room = unused->room};
    return unused;
}

float *yk_pending_place(struct yk_pending *t, unsigned w, const struct yk_note *n)
{
    if (n->push.lo < t->lo || n->push.lo > t->hi || n->bytes > (t->hi - n->push.lo) * sizeof(float))
        return NULL;
    struct yk_push *p = yk_pending_find(t, w, n);
    if (p == NULL)
        return NULL;
    if (p->buffer == NULL)
        p->buffer = yk_floats(t->hi - t->lo);
    if (p->buffer == NULL)
        return NULL;
    p->receiving++;
    return p->buffer + (n->push.lo - t->lo);
}

struct yk_push *yk_pending_around(struct yk_pending *t, const float *data)
{
    for (unsigned i = 0; i < t->n; i++) {
        const float *b = t->push[i].buffer;
        if (b != NULL && data >= b && data < b + (t->hi - t->lo))
            return &t->push[i];
    }
    return NULL;
}

void yk_pending_forget(struct yk_pending *t)
{
    for (unsigned i = 0; i < t->n; i++)
        t->push[i].used = false;
    t->covered = 0;
    t->haves = 0;
}

void yk_pending_lose(struct yk_pending *t, unsigned w)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < t->n; i++)
        t->push[i].used = t->push[i].used && t->push[i].worker != w;
    for (unsigned i = 0; i < t->haves; i++)
        if (t->have[i].worker != w)
            t->have[kept++] = t->have[i];
    t->haves = kept;
}

void yk_pending_abandon(struct yk_pending *t, unsigned w)
{
    for (unsigned i = 0; i < t->n; i++) {
        struct yk_push *p = &t->push[i];
        if (p->worker != w || p->receiving == 0)
            continue;
        float **more = realloc(t->abandoned, (t->abandons + 1) * sizeof *more);
        if (more == NULL)
            continue; /* the slot stays as it is: one push fewer at a time */
        t->abandoned = more;
        t->abandoned[t->abandons++] = p->buffer;
        *p = (struct yk_push){0};
    }
}

uint64_t yk_pending_have(struct yk_pending *t, unsigned w, uint64_t id, unsigned more)
{
    unsigned i = 0;
    while (i < t->haves && (t->have[i].worker != w || t->have[i].id != id))
        i++;
    if (i == t->haves) {
        if (more == 0 || i == t->n)
            return 0;
        t->have[t->haves++] = (struct yk_set_entry){.worker = w, .id = id};
    }
    return t->have[i].owners += more;
}
