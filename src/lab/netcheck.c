/* netcheck.c - the measuring; see netcheck.h.
 *
 * Rank 0 gives orders, the ranks carry them out and report, and only then comes the next one, so what is measured has the network to itself. A
 * message says all that its receiver must know; a rank can be pushed to before its own order has come.
 *
 *     LATENCY  PING, 64 bytes, from a worker; the owner's handler answers with PONG. Again and again
 *     STREAM   BLOCKs with data, `window` of them under way, ACK by the owner. The receiver has the clock: it starts when 1 MB has arrived, so
 *              that neither buffers nor a link's credit for bursts count, and stops after so many seconds or messages
 *     TO_ONE   every rank but 0 PUSHes X to owner 0, which answers BACK with X when all are there: a step with one parameter server
 *     TO_ALL   every rank PUSHes slice k of X to owner k, which answers all BACK when all are there: a step of all-reduce
 *
 * Whoever is told of a loss, or hears STOP, leaves what he is doing. Every order is over within LIMIT seconds, one way or the other.
 * THREADS: struct side is for its endpoint's handlers and under that endpoint's lock; all else is the caller's. Buffers are written to by
 * the engine alone, and never freed before the comm is closed.
 * LIMITS: the first round of a pattern finds how many fit into its time; a network that changes its speed meanwhile breaks the time, not more. */
#include "lab/netcheck.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT 20.0         /* seconds of an order */
#define LOOK 0.05          /* between looks at things that no message tells */
#define PAIRS_TIME 2.0     /* for all pairs, if the network lets us ... */
#define PAIRS_LIMIT 20.0   /* ... and if not, then no new ones are begun */
#define SHARE_LEAST 0.01   /* of one measurement of a pair */
#define SHARE_MOST 0.1     /**/
#define WARM_SECONDS 0.25  /* of a stream: if WARM bytes take longer, this is enough */
#define MESSAGE_TIME 1.0   /* a big message takes no longer */
#define SMALL_TIME 0.25    /* for the rounds of a pattern with few bytes */
#define LARGE_TIME 1.2     /* ... and with many, the trial apart */
#define SLOW_TRIAL 2.5     /* a trial that takes longer is the measurement */
#define PARTING_TIME 0.1   /* for last words to leave */
#define FOREVER 1e9        /* until rank 0 has something to say, or is lost */
#define MEMORY (256 << 20) /* for what one host, or rank 0, receives in a round */

enum { WARM = 1 << 20, PINGS = 1000, PINGS_LEAST = 20, PINGS_WARM = 20 };
enum { WINDOW_SMALL = 32, WINDOW_LARGE = 2, ACKS = 4 }; /* messages under way; acknowledgements in a window */
enum { MESSAGE_LEAST = 256 << 10, LARGE_LEAST = 1 << 20, MESSAGES = 256 };
enum { TRIAL = 20, ROUNDS_WARM = 5, ROUNDS_SMALL = 20000, ROUNDS_LARGE = 16 };

enum kind { ORDER = 1, REPORT, STOP, PING, PONG, BLOCK, ACK, PUSH, BACK };
enum what { NOTHING, PREPARE, LATENCY, STREAM, TO_ONE, TO_ALL };
enum status { GOOD, NO_ANSWER, NO_MEMORY };
enum outcome { WAITING, READY, LATE, LOST, TOLD, ASKED };

struct order {
    uint32_t what;
    uint32_t peer;          /* LATENCY, STREAM: to whom */
    uint64_t bytes;         /* of a message; X of a pattern. PREPARE: the largest X of TO_ONE */
    uint64_t bytes_all;     /* PREPARE: the largest X of TO_ALL */
    uint32_t count;         /* LATENCY: at most. STREAM: messages after the first, 0 for any number. Patterns: rounds */
    uint32_t warm;          /* rounds before those */
    uint32_t window;        /* STREAM */
    uint32_t unused_so_far; /* keeps the bytes that travel defined */
    double seconds;         /* LATENCY, STREAM: enough, whatever `count` says */
};

struct report {
    uint32_t status, count;
    double seconds; /* median; of all that was counted; of all rounds */
    double other;   /* LATENCY: p99. STREAM: bytes */
};

struct sink { /* what an owner knows about the stream that it receives */
    uint64_t messages, bytes, warm_bytes;
    double begun, warm_at; /* warm_at 0: not yet */
    bool done;
};

struct side { /* an endpoint's */
    struct yk_netcheck *n;
    int endpoint;
    int lost; /* a rank; -1: none */
    char why[160];
    /* the owner's */
    struct sink sink;
    unsigned pushes;       /* of the round */
    struct report *report; /* (ranks) at rank 0 */
    unsigned awaited;      /* reports that are still to come */
    bool *owes;            /* (ranks) one of them */
    /* the worker's */
    struct order order;
    uint64_t orders, pongs, acked, backs;
    bool done; /* the stream: */
    double seconds, bytes;
    bool told, clean; /* STOP has come; all are well */
    int told_of;      /* or this rank is lost */
};

struct yk_netcheck {
    const struct yk_netcheck_ask *ask;
    struct yk_comm *comm;
    int rank, ranks;
    struct side owner, worker;
    unsigned char *stream_out, *stream_in;        /* YK_NETCHECK_MESSAGE; WINDOW_LARGE of them */
    unsigned char *out, *push_in, *back_in;       /* patterns; */
    uint64_t out_bytes, push_bytes, back_bytes;   /* their sizes */
    atomic_uint pending;                          /* sends of ours that the engine still reads; nobody waits for them */
    double sample[PINGS];
    uint64_t orders, pings, backs; /* taken, sent, expected so far */
    struct order *plan;            /* (ranks) rank 0's next orders */
    bool halted;                   /* the user has had enough */
    double began;
    double part; /* of all, so far */
};

/* --- messages --- */

static void post(struct yk_netcheck *n, int from, int to, struct yk_note *note, const void *data, size_t bytes)
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
        return o->report != NULL && note->bytes == sizeof *o->report ? &o->report[rank_of(n, note->from)] : NULL;
    if (note->kind == BLOCK && note->first > 0) {
        base = n->stream_in;
        room = (uint64_t)WINDOW_LARGE * YK_NETCHECK_MESSAGE;
        slot = note->id % note->first;
    } else if (note->kind == PUSH) {
        base = n->push_in;
        room = n->push_bytes;
        slot = note->first;
    }
    bool fits = note->bytes <= note->step && note->step <= room && slot <= room / note->step - 1;
    return fits ? base + slot * note->step : NULL;
}

/* A piece of the stream is here. */
static void take_block(struct yk_netcheck *n, struct sink *s, const struct yk_note *note)
{
    double now = yk_now();
    struct yk_note ack = {.kind = ACK};
    if (note->id == 0)
        *s = (struct sink){.begun = now};
    s->messages++;
    s->bytes += note->bytes;
    if (s->warm_at == 0) {
        if (s->bytes >= WARM || now - s->begun >= WARM_SECONDS) {
            s->warm_at = now;
            s->warm_bytes = s->bytes;
        }
    } else if (!s->done && (now - s->warm_at >= note->loss || s->messages == note->last)) {
        s->done = true;
        ack.flags = 1;
        ack.loss = now - s->warm_at;
        ack.lo = s->bytes - s->warm_bytes;
    }
    uint32_t every = note->first / ACKS > 0 ? note->first / ACKS : 1;
    ack.id = s->messages;
    if (s->done || s->messages % every == 0)
        post(n, n->owner.endpoint, note->from, &ack, NULL, 0);
}

/* When the last of the round is here everybody is answered; the neighbour first, so that not all answer the same one at once. */
static void take_push(struct yk_netcheck *n, struct side *o, const struct yk_note *note)
{
    if (++o->pushes < (unsigned)n->ranks - 1)
        return;
    o->pushes = 0;
    for (int k = 1; k < n->ranks; k++) {
        struct yk_note back = {.kind = BACK, .lo = note->lo};
        post(n, o->endpoint, worker_of(n, (n->rank + k) % n->ranks), &back, n->out + note->lo, note->bytes);
    }
}

static void arrive_at_owner(void *arg, const struct yk_note *note, const void *data)
{
    struct side *o = arg;
    struct yk_netcheck *n = o->n;
    struct yk_note pong = {.kind = PONG, .id = note->id};
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
    bool fits = note->kind == BACK && note->lo <= n->back_bytes && note->bytes <= n->back_bytes - note->lo;
    return fits ? n->back_in + note->lo : NULL;
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
        w->told = true;
        w->clean = note->flags != 0;
        w->told_of = (int)note->first;
        break;
    case PONG:
        w->pongs = note->id;
        break;
    case ACK:
        w->acked = note->id;
        if (note->flags != 0) {
            w->done = true;
            w->seconds = note->loss;
            w->bytes = (double)note->lo;
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

static const struct yk_handler OWNER = {place_at_owner, arrive_at_owner, lost};
static const struct yk_handler WORKER = {place_at_worker, arrive_at_worker, lost};

/* --- waiting --- */

/* Until `ready` says so of this side (under its lock), or something gets in the way. */
static enum outcome await(struct yk_netcheck *n, struct side *s, bool (*ready)(const struct side *s, uint64_t want),
                          uint64_t want, double seconds)
{
    const struct yk_comm_ops *ops = n->comm->ops;
    double end = yk_now() + seconds;
    for (;;) {
        unsigned before = ops->seen(n->comm, s->endpoint);
        ops->lock(n->comm, s->endpoint);
        enum outcome o = s->lost >= 0 ? LOST : ready(s, want) ? READY : s->told ? TOLD : WAITING;
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

static bool never(const struct side *s, uint64_t want)
{
    (void)s;
    (void)want;
    return false;
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

static bool has_acks(const struct side *s, uint64_t want) /* enough, or more than enough */
{
    return s->done || s->acked >= want;
}

static bool has_all_acks(const struct side *s, uint64_t want)
{
    return s->done && s->acked >= want;
}

static bool has_reports(const struct side *s, uint64_t want)
{
    return s->awaited == want;
}

/* --- carrying out orders --- */

static bool take_memory(unsigned char **p, uint64_t *size, uint64_t bytes)
{
    *p = malloc(bytes);
    if (*p == NULL)
        return false;
    memset(*p, 1, bytes); /* no page is to be found while the clock runs */
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
    if (!take_memory(&n->out, &n->out_bytes, most) || !take_memory(&n->push_in, &n->push_bytes, pushes) ||
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
    uint32_t most = o->count < PINGS ? o->count : PINGS, k = 0;
    double begun = yk_now();
    for (int warm = PINGS_WARM; k < most && (k < PINGS_LEAST || yk_now() - begun < o->seconds); warm--) {
        struct yk_note ping = {.kind = PING, .id = ++n->pings};
        double start = yk_now();
        post(n, n->worker.endpoint, yk_owner_endpoint((int)o->peer), &ping, NULL, 0);
        enum outcome out = await(n, &n->worker, has_pong, n->pings, LIMIT);
        if (out != READY)
            return out;
        if (warm <= 0)
            n->sample[k++] = yk_now() - start;
    }
    qsort(n->sample, k, sizeof *n->sample, by_value);
    r->count = k;
    r->seconds = n->sample[k / 2];
    r->other = n->sample[(k - 1) * 99 / 100];
    return READY;
}

static enum outcome stream(struct yk_netcheck *n, const struct order *o, struct report *r)
{
    const struct yk_comm_ops *ops = n->comm->ops;
    struct side *w = &n->worker;
    double end = yk_now() + LIMIT;
    uint64_t sent = 0;
    ops->lock(n->comm, w->endpoint);
    w->acked = 0;
    w->done = false;
    ops->unlock(n->comm, w->endpoint);
    enum outcome out = READY;
    for (bool done = false; out == READY && !done && (o->count == 0 || sent <= o->count);) {
        struct yk_note block = {.kind = BLOCK, .id = sent, .step = o->bytes, .first = o->window, .loss = o->seconds};
        block.last = o->count > 0 ? o->count + 1 : 0;
        /* A stream of big messages begins with a smaller one: it has to be through before the clock starts. */
        post(n, w->endpoint, yk_owner_endpoint((int)o->peer), &block, n->stream_out,
             sent == 0 && o->bytes > WARM ? WARM : o->bytes);
        sent++;
        out = await(n, w, has_acks, sent < o->window ? 0 : sent - o->window + 1, end - yk_now());
        ops->lock(n->comm, w->endpoint);
        done = w->done;
        ops->unlock(n->comm, w->endpoint);
    }
    if (out == READY)
        out = await(n, w, has_all_acks, sent, end - yk_now());
    ops->lock(n->comm, w->endpoint);
    r->seconds = w->seconds > 0 ? w->seconds : 1e-9;
    r->other = w->bytes;
    ops->unlock(n->comm, w->endpoint);
    r->count = (uint32_t)sent;
    return out;
}

static void push(struct yk_netcheck *n, int to, uint64_t lo, uint64_t end, uint64_t slot)
{
    int me = n->rank < to ? n->rank : n->rank - 1; /* the how manieth of its pushers */
    struct yk_note note = {.kind = PUSH, .lo = lo, .step = slot, .first = (uint32_t)me};
    post(n, n->worker.endpoint, yk_owner_endpoint(to), &note, n->out + lo, end - lo);
}

static enum outcome pattern(struct yk_netcheck *n, const struct order *o, struct report *r)
{
    uint64_t largest = o->bytes / (uint64_t)n->ranks + 1; /* slice */
    double limit = yk_now() + LIMIT, start = yk_now();
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
        enum outcome out = await(n, &n->worker, has_backs, n->backs, limit - yk_now());
        if (out != READY)
            return out;
    }
    r->seconds = yk_now() - start;
    r->count = o->count;
    return READY;
}

static enum outcome carry_out(struct yk_netcheck *n, const struct order *o, struct report *r)
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

/* Every rank but 0, until it is told to stop. */
static yk_code serve(struct yk_netcheck *n, struct yk_error *e)
{
    struct side *w = &n->worker;
    for (;;) {
        struct report r;
        enum outcome out = await(n, w, has_order, n->orders + 1, FOREVER);
        if (out == LOST)
            return yk_fail(e, YK_LOST, "rank 0 on '%s' is lost: %s", n->ask->rank[0].host, w->why);
        if (out == TOLD && w->clean)
            return YK_OK;
        if (out != READY)
            return yk_fail(e, YK_LOST, "rank %d is lost", w->told_of);
        n->orders++;
        n->comm->ops->lock(n->comm, w->endpoint);
        struct order o = w->order;
        n->comm->ops->unlock(n->comm, w->endpoint);
        out = carry_out(n, &o, &r);
        if (out == LATE)
            r.status = NO_ANSWER;
        struct yk_note note = {.kind = REPORT};
        if (out == READY || out == LATE)
            post(n, w->endpoint, yk_owner_endpoint(0), &note, &r, sizeof r);
    }
}

/* --- giving orders: rank 0 --- */

static const char *host_of(const struct yk_netcheck *n, int rank)
{
    return n->ask->rank[rank].host;
}

static yk_code fail_outcome(struct yk_netcheck *n, enum outcome out, const struct side *s, struct yk_error *e)
{
    if (out == ASKED) {
        n->halted = true;
        return YK_OK;
    }
    if (out == LOST)
        return yk_fail(e, YK_LOST, "rank %d on '%s' is lost: %s", s->lost, host_of(n, s->lost), s->why);
    for (int r = 1; r < n->ranks; r++)
        if (n->owner.owes[r])
            return yk_fail(e, YK_LOST, "rank %d on '%s' did not finish within %.0f s", r, host_of(n, r), LIMIT);
    return yk_fail(e, YK_LOST, "rank 0 did not finish within %.0f s", LIMIT);
}

static yk_code look_at_reports(struct yk_netcheck *n, struct yk_error *e)
{
    for (int r = 0; r < n->ranks; r++) {
        const struct order *o = &n->plan[r];
        if (o->what == NOTHING || n->owner.report[r].status == GOOD)
            continue;
        if (n->owner.report[r].status == NO_MEMORY)
            return yk_fail(e, YK_FAILED, "rank %d on '%s' is out of memory", r, host_of(n, r));
        if (o->what != LATENCY && o->what != STREAM)
            return yk_fail(e, YK_LOST, "rank %d on '%s' did not finish within %.0f s", r, host_of(n, r), LIMIT);
        yk_fail(e, YK_LOST, "rank %d on '%s' got no answer from rank %u on '%s' within %.0f s", r, host_of(n, r), o->peer,
                host_of(n, (int)o->peer), LIMIT);
        yk_hint(e, "both are alive: can these two hosts reach each other on every network that they share?");
        return YK_LOST;
    }
    return YK_OK;
}

/* What stands in n->plan, done by all that have something to do; their reports are in n->owner.report. */
static yk_code give(struct yk_netcheck *n, const char *what, struct yk_error *e)
{
    const struct yk_comm_ops *ops = n->comm->ops;
    struct side *o = &n->owner;
    if (n->ask->say != NULL)
        n->ask->say(n->ask->arg, n->part, what);
    ops->lock(n->comm, o->endpoint);
    for (int r = 1; r < n->ranks; r++) {
        o->owes[r] = n->plan[r].what != NOTHING;
        o->awaited += o->owes[r];
    }
    ops->unlock(n->comm, o->endpoint);
    for (int r = 1; r < n->ranks; r++) {
        struct yk_note note = {.kind = ORDER};
        if (n->plan[r].what != NOTHING)
            post(n, o->endpoint, worker_of(n, r), &note, &n->plan[r], sizeof n->plan[r]);
    }
    struct side *busy = &n->worker;
    enum outcome out = carry_out(n, &n->plan[0], &o->report[0]);
    if (out == LATE) {
        o->report[0].status = NO_ANSWER;
        return look_at_reports(n, e);
    }
    if (out == READY) {
        busy = o;
        out = await(n, o, has_reports, 0, LIMIT + 2);
    }
    return out == READY ? look_at_reports(n, e) : fail_outcome(n, out, busy, e);
}

static void plan_nothing(struct yk_netcheck *n)
{
    memset(n->plan, 0, (size_t)n->ranks * sizeof *n->plan);
}

static double clamp(double v, double least, double most)
{
    return v < least ? least : v > most ? most : v;
}

/* One round: `count` pairs at once, by three orders. */
static yk_code measure_pairs(struct yk_netcheck *n, struct yk_netcheck_pair *pair, size_t count, double share, struct yk_error *e)
{
    const struct report *report = n->owner.report;
    char what[96];
    plan_nothing(n);
    for (size_t i = 0; i < count; i++)
        n->plan[pair[i].from] =
            (struct order){.what = LATENCY, .peer = (uint32_t)pair[i].to, .count = PINGS, .seconds = share};
    snprintf(what, sizeof what, count > 1 ? "rank %d to rank %d and %zu other pairs" : "rank %d to rank %d", pair[0].from,
             pair[0].to, count - 1);
    yk_code rc = give(n, what, e);
    for (size_t i = 0; i < count && rc == YK_OK && !n->halted; i++) {
        pair[i].latency = report[pair[i].from].seconds;
        pair[i].latency_p99 = report[pair[i].from].other;
        struct order *o = &n->plan[pair[i].from];
        *o = (struct order){.what = STREAM, .peer = o->peer, .bytes = YK_NETCHECK_SMALL, .window = WINDOW_SMALL, .seconds = share};
    }
    if (rc == YK_OK && !n->halted)
        rc = give(n, what, e);
    for (size_t i = 0; i < count && rc == YK_OK && !n->halted; i++) {
        double rate = report[pair[i].from].other / report[pair[i].from].seconds;
        pair[i].bandwidth_31k = rate;
        pair[i].message = YK_NETCHECK_MESSAGE;
        while (pair[i].message > MESSAGE_LEAST && (double)pair[i].message > rate * MESSAGE_TIME)
            pair[i].message /= 2;
        struct order *o = &n->plan[pair[i].from];
        o->bytes = pair[i].message;
        o->window = WINDOW_LARGE;
        o->count = (uint32_t)clamp(rate * share / (double)pair[i].message, 1, MESSAGES);
        o->seconds = LIMIT;
    }
    if (rc == YK_OK && !n->halted)
        rc = give(n, what, e);
    for (size_t i = 0; i < count && rc == YK_OK && !n->halted; i++)
        pair[i].bandwidth = report[pair[i].from].other / report[pair[i].from].seconds;
    return rc;
}

static yk_code measure_all_pairs(struct yk_netcheck *n, struct yk_netcheck_result *result, struct yk_error *e)
{
    struct yk_netcheck_pair *pair;
    size_t pairs;
    yk_code rc = yk_netcheck_plan(&pair, &pairs, n->ask->rank, n->ranks, e);
    if (rc != YK_OK)
        return rc;
    result->pair = pair;
    double share = clamp(PAIRS_TIME / (3 * pair[pairs - 1].round), SHARE_LEAST, SHARE_MOST) * n->ask->pace;
    double limit = yk_now() + PAIRS_LIMIT;
    for (size_t i = 0, end; i < pairs && rc == YK_OK && !n->halted && yk_now() < limit; i = end) {
        for (end = i + 1; end < pairs && pair[end].round == pair[i].round; end++)
            ;
        n->part = 0.7 * (double)i / (double)pairs;
        rc = measure_pairs(n, pair + i, end - i, share, e);
        result->pairs = end;
        result->parallel = end - i > result->parallel ? end - i : result->parallel;
    }
    return rc;
}

/* One order for all that take part; the time of the slowest is what it took. */
static yk_code run_pattern(struct yk_netcheck *n, const struct order *o, const char *what, double *seconds, struct yk_error *e)
{
    plan_nothing(n);
    int first = o->what == TO_ONE ? 1 : 0;
    for (int r = first; r < n->ranks; r++)
        n->plan[r] = *o;
    yk_code rc = give(n, what, e);
    *seconds = 0;
    for (int r = first; r < n->ranks; r++)
        *seconds = fmax(*seconds, n->owner.report[r].seconds / o->count);
    return rc;
}

static yk_code measure_pattern(struct yk_netcheck *n, enum what kind, uint64_t bytes, struct yk_netcheck_pattern *p,
                               struct yk_error *e)
{
    bool small = bytes == YK_NETCHECK_SMALL;
    double trial, ranks = n->ranks, time = (small ? SMALL_TIME : LARGE_TIME) * n->ask->pace;
    struct order o = {.what = kind, .bytes = bytes, .count = small ? TRIAL : 1, .warm = small ? ROUNDS_WARM : 0};
    char what[64];
    snprintf(what, sizeof what, "all to %s, %.6g MB", kind == TO_ONE ? "one" : "all", (double)bytes / 1e6);
    *p = (struct yk_netcheck_pattern){.bytes = bytes, .rounds = o.count};
    yk_code rc = run_pattern(n, &o, what, &trial, e);
    p->seconds = trial;
    if (rc == YK_OK && !n->halted && trial < SLOW_TRIAL) {
        o.count = p->rounds =
            (uint32_t)(small ? clamp(time / trial, TRIAL, ROUNDS_SMALL) : clamp(time / trial, 1, ROUNDS_LARGE));
        rc = run_pattern(n, &o, what, &p->seconds, e);
    }
    double moved = 2 * (ranks - 1) * (double)bytes / (kind == TO_ONE ? 1 : ranks);
    p->bandwidth = p->seconds > 0 ? moved / p->seconds : 0;
    return rc;
}

/* X for a round that takes no longer than its time, by what the pairs have told, and no more memory than there should be. */
static uint64_t choose_large(const struct yk_netcheck *n, enum what kind, const struct yk_netcheck_result *result)
{
    int crowd = 1; /* ranks of the fullest host: they share its link and its memory */
    for (int a = 0; a < n->ranks; a++) {
        int here = 0;
        for (int b = 0; b < n->ranks; b++)
            here += strcmp(host_of(n, a), host_of(n, b)) == 0;
        crowd = here > crowd ? here : crowd;
    }
    double slowest = INFINITY, best = 0;
    for (size_t i = 0; i < result->pairs; i++) {
        const struct yk_netcheck_pair *p = &result->pair[i];
        if (kind == TO_ONE && p->from != 0 && p->to != 0)
            continue;
        slowest = fmin(slowest, p->bandwidth);
        best = fmax(best, p->bandwidth);
    }
    double rate = kind == TO_ONE ? fmin(slowest, best / (n->ranks - 1)) : slowest / crowd;
    uint64_t bytes = n->ask->large > 0 ? n->ask->large : YK_NETCHECK_LARGE;
    uint64_t receivers = (uint64_t)(kind == TO_ONE && n->ranks - 1 > crowd ? n->ranks - 1 : crowd);
    while (bytes > LARGE_LEAST && (2 * (double)bytes > rate * LARGE_TIME || bytes * receivers > MEMORY))
        bytes /= 2;
    return bytes;
}

static yk_code measure_patterns(struct yk_netcheck *n, struct yk_netcheck_result *result, struct yk_error *e)
{
    uint64_t one = choose_large(n, TO_ONE, result), all = choose_large(n, TO_ALL, result);
    struct {
        enum what kind;
        uint64_t bytes;
        struct yk_netcheck_pattern *to;
    } list[] = {{TO_ONE, YK_NETCHECK_SMALL, &result->to_one[YK_NETCHECK_31K]},
                {TO_ALL, YK_NETCHECK_SMALL, &result->to_all[YK_NETCHECK_31K]},
                {TO_ONE, one, &result->to_one[YK_NETCHECK_BIG]},
                {TO_ALL, all, &result->to_all[YK_NETCHECK_BIG]}};
    n->part = 0.7;
    for (int r = 0; r < n->ranks; r++)
        n->plan[r] = (struct order){.what = PREPARE, .bytes = one, .bytes_all = all};
    yk_code rc = give(n, "memory for the patterns", e);
    for (size_t i = 0; i < sizeof list / sizeof *list && rc == YK_OK && !n->halted; i++) {
        n->part = 0.7 + (i < 2 ? 0.05 * (double)i : 0.1 * (double)i - 0.1);
        rc = measure_pattern(n, list[i].kind, list[i].bytes, list[i].to, e);
    }
    return rc;
}

/* The last word to everybody, and time for it to leave. */
static void dismiss(struct yk_netcheck *n, yk_code rc)
{
    for (int r = 1; r < n->ranks; r++) {
        struct yk_note note = {.kind = STOP, .flags = rc != YK_LOST, .first = 0};
        note.first = (uint32_t)(n->owner.lost >= 0 ? n->owner.lost : n->worker.lost >= 0 ? n->worker.lost : 0);
        if ((int)note.first != r || rc != YK_LOST)
            post(n, n->owner.endpoint, worker_of(n, r), &note, NULL, 0);
    }
    if (rc == YK_LOST) /* otherwise closing the comm sees to it */
        await(n, &n->owner, never, 0, PARTING_TIME);
}

static yk_code lead(struct yk_netcheck *n, struct yk_netcheck_result *result, struct yk_error *e)
{
    double began = yk_now();
    *result = (struct yk_netcheck_result){.rank = n->ask->rank, .ranks = n->ranks};
    yk_code rc = measure_all_pairs(n, result, e);
    if (rc == YK_OK && !n->halted)
        rc = measure_patterns(n, result, e);
    dismiss(n, rc);
    result->seconds = yk_now() - began;
    result->stopped = n->halted;
    if (rc != YK_OK)
        yk_netcheck_result_release(result);
    return rc;
}

/* --- the calls --- */

yk_code yk_netcheck_run(struct yk_netcheck *n, const struct yk_netcheck_ask *ask, struct yk_netcheck_result *result,
                        struct yk_error *e)
{
    n->ask = ask;
    n->comm = ask->comm;
    n->owner.endpoint = yk_owner_endpoint(n->rank);
    n->worker.endpoint = worker_of(n, n->rank);
    n->comm->ops->attach(n->comm, n->owner.endpoint, &OWNER, &n->owner);
    n->comm->ops->attach(n->comm, n->worker.endpoint, &WORKER, &n->worker);
    *result = (struct yk_netcheck_result){0};
    return n->rank == 0 ? lead(n, result, e) : serve(n, e);
}

yk_code yk_netcheck_open(struct yk_netcheck **out, int rank, int ranks, struct yk_error *e)
{
    if (ranks < 2)
        return yk_fail(e, YK_USAGE, "a network needs two ranks, and this job has %d", ranks);
    struct yk_netcheck *n = calloc(1, sizeof *n);
    if (n == NULL)
        return yk_fail_memory(e, sizeof *n);
    n->rank = rank;
    n->ranks = ranks;
    n->owner.n = n->worker.n = n;
    n->owner.lost = n->worker.lost = -1;
    uint64_t size, in = (uint64_t)WINDOW_LARGE * YK_NETCHECK_MESSAGE;
    n->plan = calloc((size_t)ranks, sizeof *n->plan);
    n->owner.report = calloc((size_t)ranks, sizeof *n->owner.report);
    n->owner.owes = calloc((size_t)ranks, sizeof *n->owner.owes);
    if (n->plan == NULL || n->owner.report == NULL || n->owner.owes == NULL ||
        !take_memory(&n->stream_out, &size, YK_NETCHECK_MESSAGE) || !take_memory(&n->stream_in, &size, in)) {
        yk_netcheck_close(n);
        return yk_fail_memory(e, in);
    }
    *out = n;
    return YK_OK;
}

void yk_netcheck_result_release(struct yk_netcheck_result *r)
{
    free(r->pair);
    *r = (struct yk_netcheck_result){0};
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
