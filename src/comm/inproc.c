/* inproc.c - endpoints as threads of one process: a message is a call of the receiver's handler,
 * under its lock, on the sender's thread; see comm.h. Nothing is copied, and only sleeping threads
 * are woken.
 *
 * A lock is one word, 0 free, 1 held. Holders keep it for microseconds, so a thread that finds it
 * held yields (the holder may be waiting for this very core) before it sleeps. The count of
 * arrivals is a second word of the same kind; base/wait.h has the waiting.
 * THREADS: everything may be called from any thread, except open, attach and close. */
#include "comm/comm.h"

#include "base/wait.h"

#include <stdlib.h>

struct endpoint {
    _Alignas(64) struct yk_wait lock;    /* 0 free, 1 held */
    _Alignas(64) struct yk_wait arrived; /* messages delivered so far */
    const struct yk_handler *handler;
    void *arg;
    struct yk_traffic traffic; /* of the endpoint; under its lock, except `sent` */
    atomic_ullong sent, messages_sent;
};

struct inproc {
    struct yk_comm comm;
    struct endpoint end[]; /* owners, then workers */
};

static void take(struct endpoint *p)
{
    unsigned unlocked = 0;
    while (!atomic_compare_exchange_strong(&p->lock.value, &unlocked, 1)) {
        yk_wait_leave(&p->lock, 1);
        unlocked = 0;
    }
}

static void give(struct endpoint *p)
{
    atomic_store(&p->lock.value, 0);
    yk_wait_wake(&p->lock, 1);
}

static struct endpoint *at(struct yk_comm *c, int endpoint)
{
    return &((struct inproc *)c)->end[endpoint];
}

static void attach(struct yk_comm *c, int endpoint, const struct yk_handler *h, void *arg)
{
    at(c, endpoint)->handler = h;
    at(c, endpoint)->arg = arg;
}

static void send_note(struct yk_comm *c, struct yk_note *note, const void *data, size_t bytes,
                      atomic_uint *pending)
{
    struct endpoint *to = at(c, note->to), *from = at(c, note->from);
    (void)pending; /* the handler has returned before we do: nothing is ever under way */
    note->bytes = bytes;
    atomic_fetch_add_explicit(&from->sent, bytes + sizeof *note, memory_order_relaxed);
    atomic_fetch_add_explicit(&from->messages_sent, 1, memory_order_relaxed);
    take(to);
    to->traffic.received += bytes + sizeof *note;
    to->traffic.messages++;
    to->handler->arrive(to->arg, note, data);
    give(to);
    atomic_fetch_add(&to->arrived.value, 1);
    yk_wait_wake(&to->arrived, YK_WAKE_ALL);
}

static unsigned seen(struct yk_comm *c, int endpoint)
{
    return atomic_load_explicit(&at(c, endpoint)->arrived.value, memory_order_acquire);
}

static void wait_for(struct yk_comm *c, int endpoint, unsigned before, double seconds)
{
    struct yk_wait *arrived = &at(c, endpoint)->arrived;
    if (!yk_wait_yield(arrived, before))
        yk_wait_sleep(arrived, before, seconds);
}

static void settle(struct yk_comm *c, atomic_uint *pending)
{
    (void)c;
    (void)pending;
}

static void lock(struct yk_comm *c, int endpoint)
{
    take(at(c, endpoint));
}

static void unlock(struct yk_comm *c, int endpoint)
{
    give(at(c, endpoint));
}

static void fence(struct yk_comm *c, int endpoint) /* threads do not get lost */
{
    (void)c;
    (void)endpoint;
}

static void traffic(struct yk_comm *c, int endpoint, struct yk_traffic *out)
{
    struct endpoint *p = at(c, endpoint);
    take(p);
    *out = p->traffic;
    give(p);
    out->sent = atomic_load(&p->sent);
    out->messages_sent = atomic_load(&p->messages_sent);
}

static bool close_threads(struct yk_comm *c, bool clean)
{
    (void)clean;
    free(c);
    return true;
}

static const struct yk_comm_ops OPS = {
    .name = "threads",
    .attach = attach,
    .send = send_note,
    .seen = seen,
    .wait = wait_for,
    .settle = settle,
    .lock = lock,
    .unlock = unlock,
    .fence = fence,
    .traffic = traffic,
    .close = close_threads,
};

yk_code yk_comm_threads(struct yk_comm **out, int owners, int workers, struct yk_error *e)
{
    size_t bytes = sizeof(struct inproc) + (size_t)(owners + workers) * sizeof(struct endpoint);
    struct inproc *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (p == NULL)
        return yk_fail_memory(e, bytes);
    *p = (struct inproc){
        .comm = {.ops = &OPS, .owners = owners, .workers = workers, .shared = true}};
    for (int i = 0; i < owners + workers; i++)
        p->end[i] = (struct endpoint){0};
    *out = &p->comm;
    return YK_OK;
}
