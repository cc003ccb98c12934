/* mpi_wire.c - parcels on the wire: how a message leaves and how it comes in.
 *
 * OUT: messages to a rank wait in a queue, the most urgent first. The note goes first, with the
 * data if they are few. Other data go in pieces from the sender's buffer. MPI has at most WINDOW
 * pieces at a time, and gets the next ones, then those of the next message, as pieces get through.
 * So an urgent message waits for a few MB at most.
 *
 * IN: a ring of receives waits for notes of any rank. MPI fills it in the order it was posted, so
 * only its head is looked at, and the notes of one sender keep their order. Pieces are received
 * straight into their place, WINDOW at a time; receives are posted in the order of the notes, so
 * that each piece meets its own.
 *
 * A fenced rank is *reaped* by the driver: messages to it are given up, and messages from it are
 * no longer awaited. MPI may go on reading and writing those buffers until the process ends.
 * THREADS: see mpi_engine.h. Nothing here waits, except for `wire`.
 * LIMITS:  with a transport whose eager limit is below SMALL, the death of a sender could block
 * the ring. */
#include <mpi.h>

#include "comm/mpi_engine.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

void yk_mpi_lose(struct engine *m, int rank, const char *why)
{
    struct peer *p = &m->peer[rank];
    if (atomic_load(&p->lost))
        return;
    snprintf(p->why, sizeof p->why, "%s", why);
    atomic_store(&m->deaths, true);
    atomic_store(&p->lost, true);
}

static void lose_to_mpi(struct engine *m, int rank, int rc)
{
    char text[sizeof m->peer->why];
    yk_mpi_error(rc, text, sizeof text);
    yk_mpi_lose(m, rank, text);
}

/* --- parcels and the list of requests; all of it under `wire` --- */

static struct parcel *take(struct engine *m)
{
    struct parcel *p = m->spare;
    if (p != NULL)
        m->spare = p->next;
    else
        p = aligned_alloc(64, sizeof *p); /* and used again later */
    if (p != NULL)
        memset(p, 0, offsetof(struct parcel, wire));
    return p;
}

void yk_mpi_give(struct engine *m, struct parcel *p)
{
    p->next = m->spare;
    m->spare = p;
}

/* Make room for one more request; false: there is no memory. All arrays of the list are in one
 * block, so there is one allocation to fail. */
static bool make_room(struct engine *m)
{
    if (m->listed < m->room)
        return true;
    size_t n = m->room > 0 ? 2 * (size_t)m->room : FIRST_ROOM;
    MPI_Request *request = malloc(n * (sizeof *m->request + sizeof *m->active + sizeof *m->done +
                                       sizeof *m->status + sizeof *m->index));
    if (request == NULL)
        return false;
    struct active *active = (struct active *)(request + n), *done = active + n;
    MPI_Status *status = (MPI_Status *)(done + n);
    for (int i = 0; i < m->room; i++) { /* done and status too: yk_mpi_collect may be at work */
        request[i] = m->request[i];
        active[i] = m->active[i];
        done[i] = m->done[i];
        status[i] = m->status[i];
    }
    free(m->request);
    m->request = request;
    m->active = active;
    m->done = done;
    m->status = status;
    m->index = (int *)(status + n); /* not copied: used only before a request can be added */
    m->room = (int)n;
    return true;
}

static void list(struct engine *m, MPI_Request r, enum active_kind kind, struct parcel *p)
{
    m->request[m->listed] = r;
    m->active[m->listed++] = (struct active){kind, p};
}

/* Count a piece of a parcel: it is given to MPI (`up`), or is through. */
static void fly(struct engine *m, const struct parcel *q, bool up)
{
    unsigned bulk = q->total >= PIECE;
    m->flight += up ? 1 : -1;
    m->bulk += up ? bulk : -bulk;
}

/* --- out --- */

/* A parcel has nothing under way any more: the sender may have its buffer back. */
static void finish(struct engine *m, struct parcel *q)
{
    if (q->left > 0 || q->posted < q->total)
        return;
    if (q->pending != NULL)
        atomic_fetch_sub_explicit(q->pending, 1, memory_order_release);
    if (!q->kept)
        yk_mpi_give(m, q);
}

static void enqueue(struct queue *out, struct parcel *q)
{
    struct parcel **at = &out->first;
    while (*at != NULL && ((*at)->noted || !yk_note_overtakes(&q->wire.note, &(*at)->wire.note)))
        at = &(*at)->next;
    if (*at == NULL)
        out->last = q;
    q->next = *at;
    *at = q;
}

static bool post_note(struct engine *m, struct peer *p, struct parcel *q)
{
    const struct yk_note *note = &q->wire.note;
    MPI_Request r;
    int rc = MPI_Isend(&q->wire, (int)(sizeof *note + (q->total == 0 ? note->bytes : 0)), MPI_BYTE,
                       p->at, TAG_NOTE, m->mpi, &r);
    if (rc != MPI_SUCCESS) {
        lose_to_mpi(m, q->rank, rc);
        return false;
    }
    int through = 0; /* nearly always set at once, because MPI copies an eager message */
    MPI_Test(&r, &through, MPI_STATUS_IGNORE);
    if (!through) {
        list(m, r, ACTIVE_NOTE, q);
        q->left++;
    }
    q->noted = true;
    return true;
}

static bool post_piece(struct engine *m, struct peer *p, struct parcel *q)
{
    size_t n = q->total - q->posted < PIECE ? q->total - q->posted : PIECE;
    MPI_Request r;
    int rc =
        MPI_Isend((const char *)q->data + q->posted, (int)n, MPI_BYTE, p->at, TAG_DATA, m->mpi, &r);
    if (rc != MPI_SUCCESS) {
        lose_to_mpi(m, q->rank, rc);
        return false;
    }
    list(m, r, ACTIVE_OUT, q);
    q->posted += n;
    q->left++;
    p->out_flight++;
    fly(m, q, true);
    return true;
}

/* Post notes and pieces, as many as the window allows. */
static void pump(struct engine *m, int rank)
{
    struct peer *p = &m->peer[rank];
    while (p->out.first != NULL && (p->out_flight < WINDOW || p->out.first->total == 0)) {
        struct parcel *q = p->out.first;
        if (!make_room(m)) {
            yk_mpi_lose(m, rank, "this rank is out of memory");
            return;
        }
        if (!(q->noted ? post_piece(m, p, q) : post_note(m, p, q)))
            return;
        p->told = yk_now();
        if (q->posted < q->total)
            continue;
        yk_queue_pop(&p->out);
        if (q->total == 0)
            finish(m, q);
    }
}

void yk_mpi_post(struct engine *m, int rank, const struct yk_note *note, const void *data,
                 size_t bytes, atomic_uint *pending)
{
    struct peer *p = &m->peer[rank];
    if (atomic_load(&m->stuck))
        return;
    pthread_mutex_lock(&m->wire);
    if (atomic_load(&p->fenced) || p->at < 0)
        goto out;
    struct parcel *q = take(m);
    if (q == NULL) {
        yk_mpi_lose(m, rank, "this rank is out of memory");
        goto out;
    }
    q->rank = rank;
    q->wire.note = *note;
    q->wire.note.bytes = bytes;
    if (bytes > SMALL) {
        if (pending != NULL)
            atomic_fetch_add_explicit(pending, 1, memory_order_relaxed);
        q->pending = pending;
        q->data = (void *)data; /* only read */
        q->total = bytes;
    } else if (bytes > 0) {
        memcpy(q->wire.small, data, bytes);
    }
    enqueue(&p->out, q);
    pump(m, rank);
out:
    pthread_mutex_unlock(&m->wire);
}

/* --- in --- */

bool yk_mpi_receive(struct engine *m, struct peer *p, struct parcel *q)
{
    /* Data that are thrown away all go to the same place, so one piece at a time. */
    if (q->data == NULL && p->scrap == NULL)
        p->scrap = malloc(PIECE);
    unsigned window = q->data != NULL ? WINDOW : 1;
    pthread_mutex_lock(&m->wire);
    while (q->posted < q->total && p->in_flight < window) {
        size_t n = q->total - q->posted < PIECE ? q->total - q->posted : PIECE;
        void *to = q->data != NULL ? (char *)q->data + q->posted : p->scrap;
        MPI_Request r;
        if (to == NULL || !make_room(m)) {
            yk_mpi_lose(m, q->rank, "this rank is out of memory");
            break;
        }
        int rc = MPI_Irecv(to, (int)n, MPI_BYTE, p->at, TAG_DATA, m->mpi, &r);
        if (rc != MPI_SUCCESS) {
            lose_to_mpi(m, q->rank, rc);
            break;
        }
        list(m, r, ACTIVE_IN, q);
        q->posted += n;
        q->left++;
        p->in_flight++;
        fly(m, q, true);
    }
    pthread_mutex_unlock(&m->wire);
    return q->posted == q->total;
}

static int post_ring(struct engine *m, int i)
{
    return MPI_Irecv(&m->ring.parcel[i]->wire, sizeof(struct wire), MPI_BYTE, MPI_ANY_SOURCE,
                     TAG_NOTE, m->mpi, &m->ring.request[i]);
}

static int post_beat(struct engine *m, int i)
{
    return MPI_Irecv(&m->beats.byte[i], 1, MPI_BYTE, MPI_ANY_SOURCE, TAG_BEAT, m->mpi,
                     &m->beats.request[i]);
}

/* The head of the ring is filled: take the parcel out and post another in its place. NULL: the
 * note is broken, or its sender is fenced. */
static struct parcel *take_note(struct engine *m, const MPI_Status *s, bool failed)
{
    int head = m->ring.head, length = 0;
    struct parcel *q = m->ring.parcel[head], *fresh = take(m);
    const struct yk_note *n = &q->wire.note;
    int rank = failed ? -1 : m->who[s->MPI_SOURCE];
    MPI_Get_count(s, MPI_BYTE, &length);
    size_t small = n->bytes <= SMALL ? n->bytes : 0;
    int ends = m->comm.owners + m->comm.workers;
    bool ours = n->to == ENGINE || (n->to < ends && m->end[n->to].rank == m->rank &&
                                    n->from < ends && m->end[n->from].rank == rank);
    bool good = rank >= 0 && (size_t)length == sizeof *n + small && ours &&
                !atomic_load(&m->peer[rank].fenced);
    if (good && fresh == NULL) {
        yk_mpi_lose(m, rank, "this rank is out of memory");
        good = false;
    }
    if (good) {
        m->peer[rank].silent = 0;
        q->rank = rank;
        q->total = n->bytes - small;
        m->ring.parcel[head] = fresh;
    } else if (fresh != NULL) {
        yk_mpi_give(m, fresh);
    }
    post_ring(m, head);
    m->ring.head = (head + 1) % RING;
    m->request[LIST_RING] = m->ring.request[m->ring.head];
    return good ? q : NULL;
}

static void take_beat(struct engine *m, const MPI_Status *s, bool failed)
{
    int head = m->beats.head, rank = failed ? -1 : m->who[s->MPI_SOURCE];
    if (rank >= 0)
        m->peer[rank].silent = 0;
    post_beat(m, head);
    m->beats.head = (head + 1) % BEATS;
    m->request[LIST_BEAT] = m->beats.request[m->beats.head];
}

int yk_mpi_collect(struct engine *m, struct parcel **note, bool *moved)
{
    int n = 0;
    int rc = MPI_Testsome(m->listed, m->request, &n, m->index, m->status);
    unsigned turns = atomic_load_explicit(&m->turns, memory_order_relaxed);
    atomic_store_explicit(&m->turns, turns + 1, memory_order_relaxed);
    if (n == MPI_UNDEFINED || n <= 0)
        return 0;
    for (int k = 0; k < n; k++) {
        m->done[k] = m->active[m->index[k]];
        m->active[m->index[k]].kind = ACTIVE_NONE;
    }
    int kept = LIST_REST;
    for (int i = LIST_REST; i < m->listed; i++)
        if (m->active[i].kind != ACTIVE_NONE) {
            m->request[kept] = m->request[i];
            m->active[kept++] = m->active[i];
        }
    m->listed = kept;
    m->active[LIST_RING].kind = ACTIVE_RING;
    m->active[LIST_BEAT].kind = ACTIVE_BEAT;
    for (int k = 0; k < n; k++) {
        struct parcel *q = m->done[k].parcel;
        int failed = rc == MPI_ERR_IN_STATUS ? m->status[k].MPI_ERROR : MPI_SUCCESS;
        if (failed != MPI_SUCCESS && m->done[k].kind >= ACTIVE_NOTE)
            lose_to_mpi(m, q->rank, failed);
        *moved = *moved || m->done[k].kind != ACTIVE_BEAT;
        switch (m->done[k].kind) {
        case ACTIVE_RING:
            *note = take_note(m, &m->status[k], failed != MPI_SUCCESS);
            break;
        case ACTIVE_BEAT:
            take_beat(m, &m->status[k], failed != MPI_SUCCESS);
            break;
        case ACTIVE_NOTE:
            q->left--;
            finish(m, q);
            break;
        case ACTIVE_OUT:
            q->left--;
            fly(m, q, false);
            m->peer[q->rank].out_flight--;
            pump(m, q->rank);
            finish(m, q);
            break;
        case ACTIVE_IN:
            q->left--;
            fly(m, q, false);
            m->peer[q->rank].in_flight--;
            m->peer[q->rank].silent = 0;
            break;
        case ACTIVE_NONE:
            break;
        }
    }
    return n;
}

/* The requests are left to MPI, because a send cannot be taken back. */
void yk_mpi_reap(struct engine *m, int rank)
{
    struct peer *p = &m->peer[rank];
    pthread_mutex_lock(&m->wire);
    p->reaped = true;
    while (p->out.first != NULL) {
        struct parcel *q = yk_queue_pop(&p->out);
        q->posted = q->total;
        finish(m, q);
    }
    int kept = LIST_REST;
    for (int i = LIST_REST; i < m->listed; i++) {
        struct parcel *q = m->active[i].parcel;
        if (q->rank != rank) {
            m->request[kept] = m->request[i];
            m->active[kept++] = m->active[i];
            continue;
        }
        q->left--;
        /* A receive that no piece has met can be cancelled: a late piece then does not land in a
         * buffer that is used again. */
        if (m->active[i].kind == ACTIVE_IN)
            MPI_Cancel(&m->request[i]);
        MPI_Request_free(&m->request[i]);
        if (m->active[i].kind == ACTIVE_NOTE)
            q->kept = true; /* MPI still reads it */
        else
            fly(m, q, false);
        if (m->active[i].kind != ACTIVE_IN)
            finish(m, q);
    }
    m->listed = kept;
    p->out_flight = p->in_flight = 0;
    while (p->in.first != NULL)
        yk_mpi_give(m, yk_queue_pop(&p->in));
    p->filing = NULL;
    pthread_mutex_unlock(&m->wire);
}

/* --- beginning and end --- */

yk_code yk_mpi_ring(struct engine *m, struct yk_error *e)
{
    if (m->room == 0 && !make_room(m))
        return yk_fail_memory(e, FIRST_ROOM * sizeof *m->status);
    for (int i = 0; i < RING; i++)
        if (m->ring.parcel[i] == NULL && (m->ring.parcel[i] = take(m)) == NULL)
            return yk_fail_memory(e, sizeof(struct parcel));
    int rc = MPI_SUCCESS;
    for (int i = 0; i < RING && rc == MPI_SUCCESS; i++)
        rc = post_ring(m, i);
    for (int i = 0; i < BEATS && rc == MPI_SUCCESS; i++)
        rc = post_beat(m, i);
    if (rc != MPI_SUCCESS) {
        char text[160];
        yk_mpi_error(rc, text, sizeof text);
        return yk_fail(e, YK_FAILED, "MPI cannot receive: %s", text);
    }
    m->ring.head = m->beats.head = 0;
    m->request[LIST_RING] = m->ring.request[0];
    m->request[LIST_BEAT] = m->beats.request[0];
    m->active[LIST_RING] = (struct active){.kind = ACTIVE_RING};
    m->active[LIST_BEAT] = (struct active){.kind = ACTIVE_BEAT};
    m->listed = m->listed > LIST_REST ? m->listed : LIST_REST;
    return YK_OK;
}

void yk_mpi_unring(struct engine *m)
{
    for (int i = 0; i < RING; i++) {
        MPI_Cancel(&m->ring.request[i]);
        MPI_Request_free(&m->ring.request[i]);
    }
    for (int i = 0; i < BEATS; i++) {
        MPI_Cancel(&m->beats.request[i]);
        MPI_Request_free(&m->beats.request[i]);
    }
}

void yk_mpi_release_wire(struct engine *m)
{
    for (int i = 0; i < RING; i++)
        free(m->ring.parcel[i]);
    for (struct parcel *p = m->spare, *next; p != NULL; p = next) {
        next = p->next;
        free(p);
    }
    for (int r = 0; r < m->size; r++)
        free(m->peer[r].scrap);
    free(m->request);
}
