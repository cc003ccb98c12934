/* sim_network.h - a post network between the endpoints of a cluster: nothing arrives before it is
 * delivered, so a test can have messages come late, in any order that the engine allows, or never.
 *
 * Between two endpoints messages keep their order, but the more urgent may overtake. As over MPI
 * a message is *placed* (place() is asked where its data go) some time before it is delivered,
 * maybe before earlier ones are. The endpoints believe that they are in different processes. One
 * thread plays; another may wait in a blocking call, so sending takes the network's lock. */
#ifndef YK_TESTS_SIM_NETWORK_H
#define YK_TESTS_SIM_NETWORK_H

#include "tests/sim_cluster.h"

#include <stdlib.h>

enum { NETWORK_ENDS = CLUSTER_OWNERS + CLUSTER_WORKERS, NETWORK_BELL = 0xff };

struct network_letter {
    struct network_letter *next;
    struct yk_note note;
    bool placed;
    void *place; /* where its data went; NULL: nowhere */
    char *data;  /* what was sent */
};

struct network {
    struct cluster *cluster;
    struct network_end {
        struct network *network;
        const struct yk_handler *handler;
        void *arg;
        int endpoint;
        bool gone; /* nothing from it or to it any more */
    } end[NETWORK_ENDS];
    struct network_letter *first[NETWORK_ENDS][NETWORK_ENDS]; /* from, to */
    pthread_mutex_t lock;
    atomic_uint under_way;
    uint64_t undone; /* questions for the step before the owner's */
    bool (*intercept)(struct network *o, struct yk_note *n,
                      char **data); /* false: the letter is lost; may be NULL */
};

/* In place of an endpoint's own handler: take the letter in. */
static inline void network_arrive(void *arg, const struct yk_note *n, const void *data)
{
    struct network_end *to = arg;
    struct network *o = to->network;
    if (n->kind == NETWORK_BELL)
        return;
    struct network_letter *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->note = *n;
    l->data = n->bytes > 0 ? malloc(n->bytes) : NULL;
    assert_true(n->bytes == 0 || (l->data != NULL && data != NULL));
    if (n->bytes > 0)
        memcpy(l->data, data, n->bytes);
    pthread_mutex_lock(&o->lock);
    bool lost = o->end[n->from].gone || to->gone ||
                (o->intercept != NULL && !o->intercept(o, &l->note, &l->data));
    struct network_letter **at = &o->first[n->from][n->to];
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

static const struct yk_handler NETWORK = {.arrive = network_arrive};

/* After cluster_open. */
static inline void network_open(struct network *o, struct cluster *r)
{
    memset(o, 0, sizeof *o);
    o->cluster = r;
    pthread_mutex_init(&o->lock, NULL);
    r->comm->shared = false;
    const struct yk_watcher watcher = r->server[0].watcher; /* a test may have its own */
    cluster_release_ends(r);
    cluster_make_ends(r);
    r->server[0].watcher = watcher;
    for (int i = 0; i < r->comm->owners + r->comm->workers; i++) {
        bool owner = i < r->comm->owners;
        o->end[i] = (struct network_end){.network = o,
                                         .handler = owner ? &yk_server_handler : &yk_worker_handler,
                                         .arg = owner ? (void *)&r->server[i]
                                                      : (void *)&r->worker[i - r->comm->owners],
                                         .endpoint = i};
        r->comm->ops->attach(r->comm, i, &NETWORK, &o->end[i]);
    }
}

/* Ask where the data of a letter go. */
static inline void network_place(struct network *o, struct network_letter *l)
{
    struct network_end *to = &o->end[l->note.to];
    if (l->placed)
        return;
    l->placed = true;
    if (l->note.bytes > 0)
        l->place = to->handler->place(to->arg, &l->note);
    if (l->place != NULL)
        memcpy(l->place, l->data, l->note.bytes);
}

/* Something about the letters from `from` to `to`: place one, or deliver the first. False: there
 * are none. */
static inline bool network_move(struct network *o, int from, int to, struct yk_rng *rng)
{
    struct yk_comm *c = o->cluster->comm;
    pthread_mutex_lock(&o->lock);
    struct network_letter *l = o->first[from][to];
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
    network_place(o, l);
    if (deliver) {
        if (to < c->owners && l->note.kind == YK_ASK)
            o->undone += l->note.step + 1 == o->cluster->server[to].owner.step;
        o->end[to].handler->arrive(o->end[to].arg, &l->note, l->place);
    }
    c->ops->unlock(c, to);
    if (deliver) {
        struct yk_note bell = {.kind = NETWORK_BELL,
                               .from = (uint16_t)from,
                               .to = (uint16_t)to}; /* wakes who waits there */
        yk_comm_send(c, &bell, NULL, 0, NULL);
        free(l->data);
        free(l);
    }
    return true;
}

/* One event: a letter, or a worker that can do something. Workers never wait inside a call:
 * values that are not here are asked for, and looked for again later. */
static inline void network_event(struct network *o, struct yk_rng *rng)
{
    struct cluster *r = o->cluster;
    int ends = r->comm->owners + r->comm->workers;
    if (yk_rng_below(rng, 4) > 0) {
        int from = (int)yk_rng_below(rng, (uint32_t)ends),
            to = (int)yk_rng_below(rng, (uint32_t)ends);
        network_move(o, from, to, rng);
        return;
    }
    unsigned w = yk_rng_below(rng, r->rule.workers);
    if (!o->end[yk_worker_endpoint(r->comm, (int)w)].gone)
        cluster_event(r, w);
}

/* Worker w dies: of what it has sent to each owner some is still delivered, and owner 0 is told. */
static inline void network_lose_worker(struct network *o, unsigned w, struct yk_rng *rng)
{
    struct yk_comm *c = o->cluster->comm;
    int me = yk_worker_endpoint(c, (int)w), ends = c->owners + c->workers;
    for (unsigned i = yk_rng_below(rng, 12); i > 0; i--)
        network_move(o, me, (int)yk_rng_below(rng, (uint32_t)c->owners), rng);
    o->end[me].gone = true;
    o->cluster->driver[w].stopped = true;
    o->cluster->driver[w].busy = false;
    for (int i = 0; i < ends; i++)
        for (int k = 0; k < 2; k++) {
            struct network_letter **at = k == 0 ? &o->first[me][i] : &o->first[i][me];
            while (*at != NULL) {
                struct network_letter *l = *at;
                *at = l->next;
                o->under_way--;
                free(l->data);
                free(l);
            }
        }
    c->ops->lock(c, 0);
    yk_server_handler.lost(&o->cluster->server[0], me, "its process is gone");
    c->ops->unlock(c, 0);
}

static inline void network_close(struct network *o)
{
    for (int i = 0; i < NETWORK_ENDS; i++)
        for (int k = 0; k < NETWORK_ENDS; k++)
            while (o->first[i][k] != NULL) {
                struct network_letter *l = o->first[i][k];
                o->first[i][k] = l->next;
                free(l->data);
                free(l);
            }
    pthread_mutex_destroy(&o->lock);
    cluster_close(o->cluster);
}

#endif
