/* mpi_deliver.c - from the wire to the handlers, in order.
 *
 * A note that has come joins its sender's queue. A parcel there is *filed* when place() has said
 * where its data go and receives for all of them are posted, and delivered when it is the first in
 * the queue and its data are in. Filing runs ahead of delivery, so that the data of several
 * messages are under way at once. Nothing is copied but the data of small messages. If an
 * endpoint's lock is taken, or no handler is attached yet, its parcels stay where they are until
 * the next look.
 * THREADS: the driver, except for hand and wake. Handlers are called under their endpoint's lock
 * and never under `wire`. */
#include <mpi.h>

#include "comm/mpi_engine.h"

#include "base/clock.h"

#include <string.h>

enum { ROUNDS = 64 }; /* of one look at most, because other threads may want to drive */

void yk_mpi_wake(struct endpoint *end)
{
    atomic_fetch_add(&end->arrived.value, 1);
    yk_wait_wake(&end->arrived, YK_WAKE_ALL);
}

static void count_in(struct engine *m, const struct yk_note *note)
{
    atomic_fetch_add_explicit(&m->end[note->from].received, note->bytes + sizeof *note,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&m->end[note->from].messages, 1, memory_order_relaxed);
}

void yk_mpi_hand(struct engine *m, const struct yk_note *note, const void *data)
{
    struct endpoint *end = &m->end[note->to];
    pthread_mutex_lock(&end->lock);
    const struct yk_handler *h = atomic_load(&end->handler);
    bool near = h->near != NULL && h->near(end->arg, note);
    void *to = note->bytes > 0 && !near ? h->place(end->arg, note) : NULL;
    if (to != NULL && to != data)
        memcpy(to, data, note->bytes);
    h->arrive(end->arg, note, near ? data : to);
    pthread_mutex_unlock(&end->lock);
    yk_mpi_wake(end);
}

/* Take the lock of the parcel's endpoint and return its handler. NULL, without the lock: no handler
 * is attached yet, another thread holds the lock, or the sender is fenced. The fence is looked at
 * under the lock: a handler that fences a rank sees nothing more of it. */
static const struct yk_handler *enter(struct engine *m, const struct parcel *q)
{
    struct endpoint *end = &m->end[q->wire.note.to];
    const struct yk_handler *h = atomic_load(&end->handler);
    if (h == NULL || pthread_mutex_trylock(&end->lock) != 0)
        return NULL;
    if (!atomic_load(&m->peer[q->rank].fenced))
        return h;
    pthread_mutex_unlock(&end->lock);
    return NULL;
}

/* A note between engines (mpi_spawn.c). All messages that its sender sent before it have been
 * delivered. */
static void heed(struct engine *m, const struct parcel *q)
{
    const struct yk_note *n = &q->wire.note;
    struct peer *p = &m->peer[q->rank];
    switch ((enum engine_kind)n->kind) {
    case GONE:
        if (n->word[0] < (uint64_t)m->size && n->word[0] != (uint64_t)m->rank)
            yk_mpi_fence(m, (int)n->word[0]);
        break;
    case MARK:
        p->marked = n->incarnation;
        break;
    case READY:
        p->ready_as = n->word[0];
        p->ready_quiet = n->flags != 0;
        p->ready = n->incarnation;
        break;
    case VERDICT:
        m->verdict = (enum verdict)n->flags;
        m->verdict_round = n->incarnation;
        break;
    }
}

static bool deliver(struct engine *m, struct parcel *q)
{
    const struct yk_note *note = &q->wire.note;
    if (note->to == ENGINE) {
        heed(m, q);
        return true;
    }
    const struct yk_handler *h = enter(m, q);
    if (h == NULL)
        return false;
    struct endpoint *end = &m->end[note->to];
    h->arrive(end->arg, note, q->data);
    pthread_mutex_unlock(&end->lock);
    count_in(m, note);
    yk_mpi_wake(end);
    return true;
}

/* Ask where the data go, and post receives for them as far as the window allows. True: the parcel
 * is filed. */
static bool file(struct engine *m, struct peer *p, struct parcel *q)
{
    const struct yk_note *note = &q->wire.note;
    if (!q->placed && note->bytes > 0 && note->to != ENGINE) {
        const struct yk_handler *h = enter(m, q);
        if (h == NULL)
            return false;
        q->data = h->place(m->end[note->to].arg, note);
        pthread_mutex_unlock(&m->end[note->to].lock);
        if (q->data != NULL && q->total == 0)
            memcpy(q->data, q->wire.small, note->bytes);
    }
    q->placed = true;
    if (q->posted == q->total)
        return true;
    return yk_mpi_receive(m, p, q);
}

static void serve(struct engine *m, struct peer *p)
{
    while (p->filing != NULL && file(m, p, p->filing))
        p->filing = p->filing->next;
    while (p->in.first != NULL && p->in.first != p->filing && p->in.first->left == 0) {
        if (!deliver(m, p->in.first))
            return;
        struct parcel *q = yk_queue_pop(&p->in);
        pthread_mutex_lock(&m->wire);
        yk_mpi_give(m, q);
        pthread_mutex_unlock(&m->wire);
    }
}

bool yk_mpi_pass(struct engine *m)
{
    bool moved = false;
    for (int round = 0; round < ROUNDS; round++) {
        struct parcel *note = NULL;
        pthread_mutex_lock(&m->wire);
        int n = yk_mpi_collect(m, &note, &moved);
        pthread_mutex_unlock(&m->wire);
        if (note != NULL) {
            struct peer *p = &m->peer[note->rank];
            yk_queue_push(&p->in, note);
            if (p->filing == NULL)
                p->filing = note;
            if (!p->busy) {
                p->busy = true;
                p->next_busy = m->busy;
                m->busy = p;
            }
        }
        for (struct peer **at = &m->busy; *at != NULL;) {
            struct peer *p = *at;
            serve(m, p);
            if (p->in.first == NULL) {
                p->busy = false;
                *at = p->next_busy;
            } else {
                at = &p->next_busy;
            }
        }
        if (n == 0)
            break;
    }
    if (atomic_load_explicit(&m->fences, memory_order_relaxed) != 0 &&
        atomic_exchange(&m->fences, 0) != 0)
        for (int r = 0; r < m->size; r++)
            if (atomic_load(&m->peer[r].fenced) && !m->peer[r].reaped)
                yk_mpi_reap(m, r);
    double now = yk_now();
    yk_mpi_watch(m, now);
    yk_mpi_beat(m, now);
    return moved;
}
