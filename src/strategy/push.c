/* push.c - see push.h. A step has a few pushes for each worker, so plain arrays are searched. */
#include "strategy/push.h"

#include "param/param.h"

#include <stdlib.h>

yk_code yk_pushes_init(struct yk_pushes *t, unsigned n, size_t lo, size_t hi, struct yk_error *e)
{
    *t = (struct yk_pushes){.n = n, .lo = lo, .hi = hi};
    t->push = calloc(n, sizeof *t->push);
    t->have = calloc(n, sizeof *t->have);
    if (t->push == NULL || t->have == NULL) {
        yk_pushes_release(t);
        return yk_fail_memory(e, n * (sizeof *t->push + sizeof *t->have));
    }
    return YK_OK;
}

void yk_pushes_release(struct yk_pushes *t)
{
    for (unsigned i = 0; t->push != NULL && i < t->n; i++) {
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
    *t = (struct yk_pushes){0};
}

struct yk_push *yk_pushes_find(struct yk_pushes *t, unsigned w, const struct yk_note *n)
{
    struct yk_push *unused = NULL;
    for (unsigned i = 0; i < t->n; i++) {
        struct yk_push *p = &t->push[i];
        if (p->used && p->worker == w && p->first == n->first && p->last == n->last &&
            p->id == n->id && p->step == n->step && p->incarnation == n->incarnation)
            return p;
        if (unused == NULL && !p->used && p->receiving == 0)
            unused = p;
    }
    if (unused != NULL)
        *unused = (struct yk_push){.used = true,
                                   .worker = w,
                                   .first = n->first,
                                   .last = n->last,
                                   .incarnation = n->incarnation,
                                   .step = n->step,
                                   .id = n->id,
                                   .buffer = unused->buffer,
                                   .key = unused->key,
                                   .key_room = unused->key_room,
                                   .room = unused->room};
    return unused;
}

float *yk_pushes_place(struct yk_pushes *t, unsigned w, const struct yk_note *n)
{
    if (n->lo < t->lo || n->lo > t->hi || n->bytes > (t->hi - n->lo) * sizeof(float))
        return NULL;
    struct yk_push *p = yk_pushes_find(t, w, n);
    if (p == NULL)
        return NULL;
    if (p->buffer == NULL)
        p->buffer = yk_floats(t->hi - t->lo);
    if (p->buffer == NULL)
        return NULL;
    p->receiving++;
    return p->buffer + (n->lo - t->lo);
}

struct yk_push *yk_pushes_around(struct yk_pushes *t, const float *data)
{
    for (unsigned i = 0; i < t->n; i++) {
        const float *b = t->push[i].buffer;
        if (b != NULL && data >= b && data < b + (t->hi - t->lo))
            return &t->push[i];
    }
    return NULL;
}

void yk_pushes_forget(struct yk_pushes *t)
{
    for (unsigned i = 0; i < t->n; i++)
        t->push[i].used = false;
    t->covered = 0;
    t->haves = 0;
}

void yk_pushes_lose(struct yk_pushes *t, unsigned w)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < t->n; i++)
        t->push[i].used = t->push[i].used && t->push[i].worker != w;
    for (unsigned i = 0; i < t->haves; i++)
        if (t->have[i].worker != w)
            t->have[kept++] = t->have[i];
    t->haves = kept;
}

void yk_pushes_abandon(struct yk_pushes *t, unsigned w)
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

uint64_t yk_pushes_have(struct yk_pushes *t, unsigned w, uint64_t id, unsigned more)
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
