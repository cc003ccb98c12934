/* rank.c - how a rank takes part in a network check: it answers the other ranks, and carries out
 * the orders of rank 0. See rank.h.
 *
 * Handlers answer, as an owner does in training: no thread has to wake up. A rank that learns of a
 * loss, or gets STOP, leaves its order; handlers still receive all messages that are under way.
 * THREADS: see rank.h. */
#include "netcheck/rank.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK 0.05         /* seconds between looks for losses, limits and the user */
#define WARM_SECONDS 0.25 /* before a stream: if WARM bytes take longer, this is enough */
#define FOREVER 1e9       /* until rank 0 sends something, or is lost */

enum { WARM = 1 << 20, PINGS_LEAST = 20, PINGS_WARM = 20 };
enum { ACKS = 4 }; /* acknowledgements in a window */
enum kind { ORDER = 1, REPORT, STOP, PING, PONG, BLOCK, ACK, PUSH, BACK };

/* --- messages --- */

static void post(struct yk_netcheck *n, int from, int to, struct yk_note *note, const void *data,
                 size_t bytes)
{
    note->from = (uint16_t)from;
    note->to = (uint16_t)to;
    yk_comm_send(n->comm, note, data, bytes, &n->pending);
}

static int rank_of(const struct yk_netcheck *n, int endpoint)
{
    return endpoint % n->ranks;
}

static int worker_of(const struct yk_netcheck *n, int rank)
{
    return yk_worker_endpoint(n->comm, rank);
}

static void *place_at_owner(void *arg, const struct yk_note *note)
{
    const struct side *o = arg;
    struct yk_netcheck *n = o->n;
    uint64_t slot = 0, room = 0;
    unsigned char *base = NULL;
    if (note->kind == REPORT)
        return o->report != NULL && note->bytes == sizeof *o->report
                   ? &o->report[rank_of(n, note->from)]
                   : NULL;
    if (note->kind == BLOCK && note->probe.first > 0) {
        base = n->stream_in;
        room = (uint64_t)YK_ORDER_BLOCKS * YK_NETCHECK_MESSAGE;
        slot = note->probe.id % note->probe.first;
    } else if (note->kind == PUSH) {
        base = n->push_in;
        room = n->push_bytes;
        slot = note->probe.first;
    }
    if (note->step == 0)
        return NULL;
    bool fits = note->bytes <= note->step && note->step <= room && slot <= room / note->step - 1;
    return fits ? base + slot * note->step : NULL;
}

/* Counts a message of a stream. The stream before was received to its end, so that no message can
 * arrive before the clock starts. */
static void take_block(struct yk_netcheck *n, struct sink *s, const struct yk_note *note)
{
    double now = yk_now();
    struct yk_note ack = {.kind = ACK};
    if (note->probe.id == 0)
        *s = (struct sink){.begun = note->flags != 0 ? s->last : now};
    s->last = now;
    s->messages++;
    s->bytes += note->bytes;
    if (!s->done && (now - s->begun >= note->probe.seconds || s->messages == note->probe.last)) {
        s->done = true;
        ack.flags = 1;
        ack.probe.seconds = now - s->begun;
        ack.probe.lo = s->bytes;
    }
    uint32_t every = note->probe.first / ACKS > 0 ? note->probe.first / ACKS : 1;
    ack.probe.id = s->messages;
    if (s->done || s->messages % every == 0)
        post(n, n->owner.endpoint, note->from, &ack, NULL, 0);
}

/* When the last push of the round is here all ranks are answered, the neighbour first, so that not
 * all owners answer the same rank at once. */
static void take_push(struct yk_netcheck *n, struct side *o, const struct yk_note *note)
{
    if (++o->pushes < (unsigned)n->ranks - 1)
        return;
    o->pushes = 0;
    for (int k = 1; k < n->ranks; k++) {
        struct yk_note back = {.kind = BACK, .probe.lo = note->probe.lo};
        post(n, o->endpoint, worker_of(n, (n->rank + k) % n->ranks), &back, n->out + note->probe.lo,
             note->bytes);
    }
}

static void arrive_at_owner(void *arg, const struct yk_note *note, const void *data)
{
    struct side *o = arg;
    struct yk_netcheck *n = o->n;
    struct yk_note pong = {.kind = PONG, .probe.id = note->probe.id};
    int rank = rank_of(n, note->from);
    switch ((enum kind)note->kind) {
    case PING:
        post(n, o->endpoint, note->from, &pong, NULL, 0);
        break;
    case BLOCK:
        take_block(n, &o->sink, note);
        break;
    case PUSH:
        take_push(n, o, note);
        break;
    case REPORT:
        if (data == NULL || !o->owes[rank])
            break;
        if (data != &o->report[rank])
            o->report[rank] = *(const struct report *)data;
        o->owes[rank] = false;
        o->awaited--;
        break;
    default:
        break;
    }
}

static void *place_at_worker(void *arg, const struct yk_note *note)
{
    struct side *w = arg;
    struct yk_netcheck *n = w->n;
    if (note->kind == ORDER && note->bytes == sizeof w->order)
        return &w->order;
    bool fits = note->kind == BACK && note->probe.lo <= n->back_bytes &&
                note->bytes <= n->back_bytes - note->probe.lo;
    return fits ? n->back_in + note->probe.lo : NULL;
}

static void arrive_at_worker(void *arg, const struct yk_note *note, const void *data)
{
    struct side *w = arg;
    switch ((enum kind)note->kind) {
    case ORDER:
        if (data != NULL && data != &w->order)
            w->order = *(const struct order *)data;
        w->orders++;
        break;
    case STOP:
        w->has_stop = true;
        w->clean = note->flags != 0;
        w->stop_lost = (int)note->probe.first - 1;
        break;
    case PONG:
        w->pongs = note->probe.id;
        break;
    case ACK:
        w->acked = note->probe.id;
        if (note->flags != 0) {
            w->done = true;
            w->seconds = note->probe.seconds;
            w->bytes = (double)note->probe.lo;
        }
        break;
    case BACK:
        w->backs++;
        break;
    default:
        break;
    }
}

static void lost(void *arg, int endpoint, const char *why)
{
    struct side *s = arg;
    if (s->lost >= 0)
        return;
    s->lost = rank_of(s->n, endpoint);
    snprintf(s->why, sizeof s->why, "%s", why);
}

static const struct yk_handler OWNER = {
    .place = place_at_owner, .arrive = arrive_at_owner, .lost = lost};
static const struct yk_handler WORKER = {
    .place = place_at_worker, .arrive = arrive_at_worker, .lost = lost};

/* --- waiting --- */

enum outcome yk_order_await(struct yk_netcheck *n, struct side *s,
                            bool (*ready)(const struct side *s, uint64_t want), uint64_t want,
                            double seconds)
{
    const struct yk_comm_ops *ops = n->comm->ops;
    double end = yk_now() + seconds;
    for (;;) {
        unsigned before = ops->seen(n->comm, s->endpoint);
        ops->lock(n->comm, s->endpoint);
        enum outcome o = s->lost >= 0     ? LOST
                         : ready(s, want) ? READY
                         : s->has_stop    ? STOPPED
                                          : WAITING;
        ops->unlock(n->comm, s->endpoint);
        if (o == WAITING && n->rank == 0 && n->ask->stopped != NULL && n->ask->stopped(n->ask->arg))
            o = ASKED;
        if (o == WAITING && yk_now() >= end)
            o = LATE;
        if (o != WAITING)
            return o;
        ops->wait(n->comm, s->endpoint, before, LOOK);
    }
}

static bool has_order(const struct side *s, uint64_t want)
{
    return s->orders >= want;
}

static bool has_pong(const struct side *s, uint64_t want)
{
    return s->pongs >= want;
}

static bool has_backs(const struct side *s, uint64_t want)
{
    return s->backs >= want;
}

static bool has_acks(const struct side *s, uint64_t want) /* or the receiver has enough */
{
    return s->done || s->acked >= want;
}

static bool has_all_acks(const struct side *s, uint64_t want)
{
    return s->done && s->acked >= want;
}

/* --- carrying out orders --- */

static bool take_memory(unsigned char **p, uint64_t *size, uint64_t bytes)
{
    *p = malloc(bytes);
    if (*p == NULL)
        return false;
    memset(*p, 1, bytes); /* no page fault while the clock runs */
    *size = bytes;
    return true;
}

/* Slice k of X bytes. */
static uint64_t slice_at(const struct yk_netcheck *n, uint64_t bytes, int k)
{
    return bytes * (uint64_t)k / (uint64_t)n->ranks;
}

static enum outcome prepare(struct yk_netcheck *n, const struct order *o, struct report *r)
{
    uint64_t others = (uint64_t)n->ranks - 1, slice = o->bytes_all / (uint64_t)n->ranks + 1;
    uint64_t most = o->bytes > o->bytes_all ? o->bytes : o->bytes_all;
    uint64_t pushes = n->rank == 0 && o->bytes > slice ? others * o->bytes : others * slice;
    if (!take_memory(&n->out, &n->out_bytes, most) ||
        !take_memory(&n->push_in, &n->push_bytes, pushes) ||
        !take_memory(&n->back_in, &n->back_bytes, most))
        r->status = NO_MEMORY;
    return READY;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum outcome latency(struct yk_netcheck *n, const struct order *o, struct report *r)
{
    uint32_t most = o->count < YK_ORDER_PINGS ? o->count : YK_ORDER_PINGS, k = 0;
    double begun = yk_now();
    for (int warm = PINGS_WARM; k < most && (k < PINGS_LEAST || yk_now() - begun < o->seconds);
         warm--) {
        struct yk_note ping = {.kind = PING, .probe.id = ++n->pings};
        double start = yk_now();
        post(n, n->worker.endpoint, yk_owner_endpoint((int)o->peer), &ping, NULL, 0);
        enum outcome out = yk_order_await(n, &n->worker, has_pong, n->pings, YK_ORDER_LIMIT);
        if (out != READY)
            return out;
        if (warm <= 0)
            n->sample[k++] = yk_now() - start;
    }
    qsort(n->sample, k, sizeof *n->sample, by_value);
    r->seconds = n->sample[k / 2];
    r->other = n->sample[((k > 0 ? k - 1 : 0) * 99 + 99) / 100];
    return READY;
}

/* Sends messages until the receiver has enough, and waits until it has them all. `on`: its clock
 * has been running since the stream before. */
static enum outcome flow(struct yk_netcheck *n, const struct order *o, bool on)
{
    const struct yk_comm_ops *ops = n->comm->ops;
    struct side *w = &n->worker;
    double end = yk_now() + YK_ORDER_LIMIT / 2;
    struct yk_note block = {
        .kind = BLOCK,
        .flags = on,
        .step = o->bytes,
        .probe = {.seconds = o->seconds, .first = (uint32_t)o->window, .last = o->count}};
    ops->lock(n->comm, w->endpoint);
    w->acked = 0;
    w->done = false;
    ops->unlock(n->comm, w->endpoint);
    uint64_t sent = 0;
    enum outcome out = READY;
    for (bool done = false; out == READY && !done && sent < o->count;) {
        block.probe.id = sent++;
        post(n, w->endpoint, yk_owner_endpoint((int)o->peer), &block, n->stream_out, o->bytes);
        out = yk_order_await(n, w, has_acks, sent < o->window ? 0 : sent - o->window + 1,
                             end - yk_now());
        ops->lock(n->comm, w->endpoint);
        done = w->done;
        ops->unlock(n->comm, w->endpoint);
    }
    return out == READY ? yk_order_await(n, w, has_all_acks, sent, end - yk_now()) : out;
}

static enum outcome stream(struct yk_netcheck *n, const struct order *o, struct report *r)
{
    struct side *w = &n->worker;
    struct order warm = *o;
    warm.bytes = o->bytes < WARM ? o->bytes : WARM;
    warm.count = (uint32_t)((WARM + warm.bytes - 1) / warm.bytes);
    warm.seconds = WARM_SECONDS;
    enum outcome out = flow(n, &warm, false);
    if (out == READY)
        out = flow(n, o, true);
    n->comm->ops->lock(n->comm, w->endpoint);
    r->seconds = w->seconds > 0 ? w->seconds : 1e-9;
    r->other = w->bytes;
    n->comm->ops->unlock(n->comm, w->endpoint);
    return out;
}

static void push(struct yk_netcheck *n, int to, uint64_t lo, uint64_t end, uint64_t slot)
{
    int me = n->rank < to ? n->rank : n->rank - 1; /* index among the ranks that push to it */
    struct yk_note note = {.kind = PUSH, .step = slot, .probe = {.lo = lo, .first = (uint32_t)me}};
    post(n, n->worker.endpoint, yk_owner_endpoint(to), &note, n->out + lo, end - lo);
}

static enum outcome pattern(struct yk_netcheck *n, const struct order *o, struct report *r)
{
    uint64_t largest = o->bytes / (uint64_t)n->ranks + 1; /* slice */
    double limit = yk_now() + YK_ORDER_LIMIT, start = yk_now();
    for (uint32_t k = 0; k < o->warm + o->count; k++) {
        if (k == o->warm)
            start = yk_now();
        if (o->what == TO_ONE) {
            push(n, 0, 0, o->bytes, o->bytes);
            n->backs++;
        } else {
            for (int i = 1; i < n->ranks; i++) {
                int to = (n->rank + i) % n->ranks;
                push(n, to, slice_at(n, o->bytes, to), slice_at(n, o->bytes, to + 1), largest);
            }
            n->backs += (uint64_t)n->ranks - 1;
        }
        enum outcome out = yk_order_await(n, &n->worker, has_backs, n->backs, limit - yk_now());
        if (out != READY)
            return out;
    }
    r->seconds = yk_now() - start;
    return READY;
}

enum outcome yk_order_carry_out(struct yk_netcheck *n, const struct order *o, struct report *r)
{
    *r = (struct report){.status = GOOD};
    switch ((enum what)o->what) {
    case PREPARE:
        return prepare(n, o, r);
    case LATENCY:
        return latency(n, o, r);
    case STREAM:
        return stream(n, o, r);
    case TO_ONE:
    case TO_ALL:
        return pattern(n, o, r);
    case NOTHING:
        break;
    }
    return READY;
}

/* --- orders --- */

void yk_order_send(struct yk_netcheck *n, int to, const struct order *o)
{
    struct yk_note note = {.kind = ORDER};
    post(n, n->owner.endpoint, worker_of(n, to), &note, o, sizeof *o);
}

void yk_order_stop(struct yk_netcheck *n, int to, bool clean, int lost_rank)
{
    struct yk_note note = {.kind = STOP, .flags = clean, .probe.first = (uint32_t)(lost_rank + 1)};
    post(n, n->owner.endpoint, worker_of(n, to), &note, NULL, 0);
}

yk_code yk_order_serve(struct yk_netcheck *n, struct yk_error *e)
{
    struct side *w = &n->worker;
    for (;;) {
        struct report r;
        enum outcome out = yk_order_await(n, w, has_order, n->orders + 1, FOREVER);
        if (out == LOST)
            return yk_fail(e, YK_LOST, "rank 0 on '%s' is lost: %s", n->ask->rank[0].host, w->why);
        if (out == STOPPED && w->clean)
            return YK_OK;
        if (out == STOPPED && w->stop_lost >= 0)
            return yk_fail(e, YK_LOST, "rank %d on '%s' is lost", w->stop_lost,
                           n->ask->rank[w->stop_lost].host);
        if (out != READY)
            return yk_fail(e, YK_LOST, "rank 0 on '%s' has given up", n->ask->rank[0].host);
        n->orders++;
        n->comm->ops->lock(n->comm, w->endpoint);
        struct order o = w->order;
        n->comm->ops->unlock(n->comm, w->endpoint);
        out = yk_order_carry_out(n, &o, &r);
        if (out == LATE)
            r.status = NO_ANSWER;
        struct yk_note note = {.kind = REPORT};
        if (out == READY || out == LATE) /* else the next wait ends the same way */
            post(n, w->endpoint, yk_owner_endpoint(0), &note, &r, sizeof r);
    }
}

void yk_netcheck_attach(struct yk_netcheck *n, const struct yk_netcheck_ask *ask)
{
    n->ask = ask;
    n->comm = ask->comm;
    n->owner.endpoint = yk_owner_endpoint(n->rank);
    n->worker.endpoint = worker_of(n, n->rank);
    n->comm->ops->attach(n->comm, n->owner.endpoint, &OWNER, &n->owner);
    n->comm->ops->attach(n->comm, n->worker.endpoint, &WORKER, &n->worker);
}

/* --- open and close --- */

yk_code yk_netcheck_open(struct yk_netcheck **out, int rank, int ranks, struct yk_error *e)
{
    if (ranks < 2) {
        yk_fail(e, YK_USAGE, "a network check needs two ranks at least, and this job has %d",
                ranks);
        yk_hint(e, "'yoke netcheck --workers 3' tries it on this machine, --hosts a,b,c on others");
        return YK_USAGE;
    }
    uint64_t size, in = (uint64_t)YK_ORDER_BLOCKS * YK_NETCHECK_MESSAGE;
    struct yk_netcheck *n = calloc(1, sizeof *n);
    if (n == NULL)
        return yk_fail_memory(e, sizeof *n);
    n->rank = rank;
    n->ranks = ranks;
    n->owner.n = n->worker.n = n;
    n->lost = n->owner.lost = n->worker.lost = -1;
    n->plan = calloc((size_t)ranks, sizeof *n->plan);
    n->owner.report = calloc((size_t)ranks, sizeof *n->owner.report);
    n->owner.owes = calloc((size_t)ranks, sizeof *n->owner.owes);
    if (n->plan == NULL || n->owner.report == NULL || n->owner.owes == NULL ||
        !take_memory(&n->stream_out, &size, YK_NETCHECK_MESSAGE) ||
        !take_memory(&n->stream_in, &size, in)) {
        yk_netcheck_close(n);
        return yk_fail_memory(e, in);
    }
    *out = n;
    return YK_OK;
}

void yk_netcheck_close(struct yk_netcheck *n)
{
    if (n == NULL)
        return;
    free(n->stream_out);
    free(n->stream_in);
    free(n->out);
    free(n->push_in);
    free(n->back_in);
    free(n->plan);
    free(n->owner.report);
    free(n->owner.owes);
    free(n);
}
