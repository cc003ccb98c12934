/* inproc.c - endpoints as threads of one process: a message is a call of the receiver's handler, under its lock, on the sender's
 * thread; see comm.h. Nothing is copied and nobody is woken unless he sleeps.
 *
 * A lock is one word, 0 free, 1 held, 2 held and somebody sleeps. Holders keep it for microseconds, so a thread that finds it held tries a few
 * hundred times, yielding in between (the holder may be waiting for this very core), before it sleeps on a futex. The count of
 * arrivals is a second word of the same kind: waiters yield, then sleep, and say so first, so that an arrival that nobody
 * sleeps for costs no system call.
 * THREADS: everything may be called from any thread, except open, attach and close. */
#include "comm/comm.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { YIELDS = 300 }; /* waking a sleeping core costs about 57 us; so many yields cost less */

struct endpoint {
    _Alignas(64) atomic_uint lock;
    _Alignas(64) atomic_uint arrived;
    atomic_uint sleepers;
    const struct yk_handler *handler;
    void *arg;
    struct yk_traffic
        traffic; /* of the endpoint: what it sent and received; under its lock, except `sent` */
    atomic_ullong sent, messages_sent;
};

struct inproc {
    struct yk_comm comm;
    struct endpoint end[]; /* owners, then workers */
};

static void futex_wait(atomic_uint *word, unsigned value, const struct timespec *limit)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit, NULL, 0);
}

static void futex_wake(atomic_uint *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void take(struct endpoint *p)
{
    for (int i = 0; i < YIELDS; i++) {
        unsigned unlocked = 0;
        if (atomic_load_explicit(&p->lock, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&p->lock, &unlocked, 1, memory_order_acquire,
                                                    memory_order_relaxed))
            return;
        sched_yield();
    }
    while (atomic_exchange_explicit(&p->lock, 2, memory_order_acquire) != 0)
        futex_wait(&p->lock, 2, NULL);
}

static void give(struct endpoint *p)
{
    if (atomic_exchange_explicit(&p->lock, 0, memory_order_release) == 2)
        futex_wake(&p->lock, 1);
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
    atomic_fetch_add_explicit(&to->arrived, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&to->sleepers, memory_order_seq_cst) != 0)
        futex_wake(&to->arrived, 1 << 20);
}

static unsigned seen(struct yk_comm *c, int endpoint)
{
    return atomic_load_explicit(&at(c, endpoint)->arrived, memory_order_acquire);
}

static void wait_for(struct yk_comm *c, int endpoint, unsigned before, double seconds)
{
    struct endpoint *p = at(c, endpoint);
    for (int i = 0; i < YIELDS; i++) {
        if (seen(c, endpoint) != before)
            return;
        sched_yield();
    }
    const struct timespec limit = {(time_t)seconds,
                                   (long)((seconds - (double)(time_t)seconds) * 1e9)};
    atomic_fetch_add_explicit(&p->sleepers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->arrived, memory_order_seq_cst) == before)
        futex_wait(&p->arrived, before, &limit);
    atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_relaxed);
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
