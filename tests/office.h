/* office.h - a post office between the endpoints of a rig: nothing arrives before it is delivered, so a test can have messages come late,
 * in any order that the engine allows, or never.
 *
 * Between two endpoints messages keep their order, but the more urgent may overtake. As over MPI a message is *placed* (place() is asked
 * where its data go) some time before it is delivered, maybe before earlier ones are. The endpoints believe that they are in different
 * processes. One thread plays; another may wait in a blocking call, so sending takes the office's lock. */
#ifndef YK_TESTS_OFFICE_H
#define YK_TESTS_OFFICE_H

#include "tests/rig.h"

#include <stdlib.h>

enum { OFFICE_ENDS = RIG_OWNERS + RIG_WORKERS, OFFICE_BELL = 0xff };

struct office_letter {
    struct office_letter *next;
    struct yk_note note;
    bool placed;
    void *place; /* where its data went; NULL: nowhere */
    char *data;  /* what was sent */
};

struct office {
    struct rig *rig;
    struct office_end {
        struct office *office;
        const struct yk_handler *handler;
        void *arg;
        int endpoint;
        bool gone; /* nothing from it or to it any more */
    } end[OFFICE_ENDS];
    struct office_letter *first[OFFICE_ENDS][OFFICE_ENDS]; /* from, to */
    pthread_mutex_t lock;
    atomic_uint under_way;
    uint64_t undone; /* questions for the step before the owner's */
    bool (*intercept)(struct office *o, struct yk_note *n,
                      char **data); /* false: the letter is lost; may be NULL */
};

/* In place of an endpoint's own handler: take the letter in. */
static inline void office_arrive(void *arg, const struct yk_note *n, const void *data)
{
    struct office_end *to = arg;
    struct office *o = to->office;
    if (n->kind == OFFICE_BELL)
        return;
    struct office_letter *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->note = *n;
    l->data = n->bytes > 0 ? malloc(n->bytes) : NULL;
    assert_true(n->bytes == 0 || (l->data != NULL && data != NULL));
    if (n->bytes > 0)
        memcpy(l->data, data, n->bytes);
    pthread_mutex_lock(&o->lock);
    bool lost = o->end[n->from].gone || to->gone ||
                (o->intercept != NULL && !o->intercept(o, &l->note, &l->data));
    struct office_letter **at = &o->first[n->from][n->to];
    while (*at != NULL && ((*at)->placed || !yk_note_overtakes(n, &(*at)->note)))
        at = &(*at)->next;
    if (!lost) {
        l->next = *at;
        *at = l;
        o->under_way++;
    }
    pthread_mutex_unlock(&o->lock);
    if (lost) {
        free(l->data);
        free(l);
    }
}

static const struct yk_handler OFFICE = {.arrive = office_arrive};

/* After rig_open. */
static inline void office_open(struct office *o, struct rig *r)
{
    memset(o, 0, sizeof *o);
    o->rig = r;
    pthread_mutex_init(&o->lock, NULL);
    r->comm->shared = false;
    for (int i = 0; i < r->comm->owners + r->comm->workers; i++) {
        bool owner = i < r->comm->owners;
        o->end[i] = (struct office_end){.office = o,
                                        .handler = owner ? &yk_server_handler : &yk_worker_handler,
                                        .arg = owner ? (void *)&r->server[i]
                                                     : (void *)&r->worker[i - r->comm->owners],
                                        .endpoint = i};
        r->comm->ops->attach(r->comm, i, &OFFICE, &o->end[i]);
    }
    for (unsigned k = 1; k < r->rule.owners; k++)
        r->server[k].ready = false; /* it waits for its seed */
    for (unsigned w = 0; yk_rule_buckets(&r->rule) && w < r->rule.workers;
         w++) { /* with a copy of its own */
        struct yk_error e;
        yk_worker_release(&r->worker[w]);
        assert_int_equal(yk_worker_init(&r->worker[w], r->comm, &r->rule, w, &r->params, true, &e),
                         YK_OK);
    }
}

/* Ask where the data of a letter go. */
static inline void office_place(struct office *o, struct office_letter *l)
{
    struct office_end *to = &o->end[l->note.to];
    if (l->placed)
        return;
    l->placed = true;
    if (l->note.bytes > 0)
        l->place = to->handler->place(to->arg, &l->note);
    if (l->place != NULL)
        memcpy(l->place, l->data, l->note.bytes);
}

/* Something about the letters from `from` to `to`: place one, or deliver the first. False: there are none. */
static inline bool office_move(struct office *o, int from, int to, struct yk_rng *rng)
{
    struct yk_comm *c = o->rig->comm;
    pthread_mutex_lock(&o->lock);
    struct office_letter *l = o->first[from][to];
    for (unsigned i = yk_rng_below(rng, 3); l != NULL && l->next != NULL && i > 0; i--)
        l = l->next;
    bool first = l != NULL && l == o->first[from][to], deliver = first && yk_rng_below(rng, 3) > 0;
    if (deliver) {
        o->first[from][to] = l->next;
        o->under_way--;
    }
    pthread_mutex_unlock(&o->lock);
    if (l == NULL)
        return false;
    c->ops->lock(c, to);
    office_place(o, l);
    if (deliver) {
        if (to < c->owners && l->note.kind == YK_PULL && l->note.lo != 0)
            o->undone += l->note.step + 1 == o->rig->server[to].owner.step;
        o->end[to].handler->arrive(o->end[to].arg, &l->note, l->place);
    }
    c->ops->unlock(c, to);
    if (deliver) {
        struct yk_note bell = {.kind = OFFICE_BELL,
                               .from = (uint16_t)from,
                               .to = (uint16_t)to}; /* wakes who waits there */
        yk_comm_send(c, &bell, NULL, 0, NULL);
        free(l->data);
        free(l);
    }
    return true;
}

/* One event: a letter, or a worker that can do something. Workers never wait inside a call: values that are not here are asked for, and
 * looked for again later. */
static inline void office_event(struct office *o, struct yk_rng *rng)
{
    struct rig *r = o->rig;
    int ends = r->comm->owners + r->comm->workers;
    if (yk_rng_below(rng, 4) > 0) {
        int from = (int)yk_rng_below(rng, (uint32_t)ends),
            to = (int)yk_rng_below(rng, (uint32_t)ends);
        office_move(o, from, to, rng);
        return;
    }
    unsigned w = yk_rng_below(rng, r->rule.workers);
    if (!o->end[yk_worker_endpoint(r->comm, (int)w)].gone)
        rig_event(r, w);
}

/* Worker w dies: of what it has sent to each owner some is still delivered, and owner 0 is told. */
static inline void office_lose(struct office *o, unsigned w, struct yk_rng *rng)
{
    struct yk_comm *c = o->rig->comm;
    int me = yk_worker_endpoint(c, (int)w), ends = c->owners + c->workers;
    for (unsigned i = yk_rng_below(rng, 12); i > 0; i--)
        office_move(o, me, (int)yk_rng_below(rng, (uint32_t)c->owners), rng);
    o->end[me].gone = true;
    o->rig->hand[w].stopped = true;
    o->rig->hand[w].busy = false;
    for (int i = 0; i < ends; i++)
        for (int k = 0; k < 2; k++) {
            struct office_letter **at = k == 0 ? &o->first[me][i] : &o->first[i][me];
            while (*at != NULL) {
                struct office_letter *l = *at;
                *at = l->next;
                o->under_way--;
                free(l->data);
                free(l);
            }
        }
    c->ops->lock(c, 0);
    yk_server_handler.lost(&o->rig->server[0], me, "its process is gone");
    c->ops->unlock(c, 0);
}

static inline void office_close(struct office *o)
{
    for (int i = 0; i < OFFICE_ENDS; i++)
        for (int k = 0; k < OFFICE_ENDS; k++)
            while (o->first[i][k] != NULL) {
                struct office_letter *l = o->first[i][k];
                o->first[i][k] = l->next;
                free(l->data);
                free(l);
            }
    pthread_mutex_destroy(&o->lock);
    rig_close(o->rig);
}

#endif
