/* netcheck.c - rank 0 leads: which orders are given, how long each may take, and what the reports
 * say. See netcheck.h.
 *
 * One order at a time is carried out and reported, so each measurement has the network to itself.
 * Earlier results decide how much is measured: the rate of small messages decides how many big ones
 * fit into their time, the pairs decide how much the patterns may move, and one round of a pattern
 * how many more there will be. So a fast network is measured long enough, and a slow one does not
 * take for ever.
 * THREADS: all on the calling thread.
 * LIMITS: if the network changes its speed meanwhile, a measurement takes longer, but no order
 * takes longer than YK_ORDER_LIMIT. */
#include "netcheck/rank.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_TIME 2.0   /* seconds for all pairs, if the network is fast enough */
#define PAIRS_LIMIT 20.0 /* seconds after which no new pairs are begun */
#define SHARE_LEAST 0.01 /* shortest time of one measurement of a pair */
#define SHARE_MOST 0.1   /* longest time of one measurement of a pair */
#define TRIPS 20         /* a stream takes at least so many round trips ... */
#define TRIPS_LIMIT 1.0  /* ... unless that is longer than this */
#define BETTER 1.1       /* a rate that is so many times another is really higher */
#define MESSAGE_TIME 1.0 /* longest time of a big message */
#define SMALL_TIME 0.25  /* for the rounds of a pattern with few bytes */
#define LARGE_TIME 0.6   /* for those with many bytes, without the trial */
#define ROUND_TIME 1.2   /* for one round with many bytes; if it is longer there are fewer bytes */
#define SLOW_TRIAL 2.5   /* a trial that takes longer is the measurement */
#define PARTING_TIME 0.1 /* for the last messages to leave */
#define MEMORY (256 << 20) /* bytes that one host, or rank 0, may receive in a round */

enum {
    WINDOW_SMALL = 32,
    MESSAGES_SMALL = 1000000,
    MESSAGES_LARGE = 256,
    MESSAGE_LEAST = 256 << 10,
    LARGE_LEAST = 1 << 20
};
enum { CONFIRM = 4 }; /* times that a slow link is measured again */
enum { TRIAL = 20, ROUNDS_WARM = 5, ROUNDS_SMALL = 20000, ROUNDS_LARGE = 16 };

static bool has_reports(const struct side *s, uint64_t want)
{
    return s->awaited == want;
}

static const char *host_of(const struct yk_netcheck *n, int rank)
{
    return n->ask->rank[rank].host;
}

/* The first rank that has not reported yet; 0 if all have. */
static int debtor(struct yk_netcheck *n)
{
    int r = 1;
    n->comm->ops->lock(n->comm, n->owner.endpoint);
    while (r < n->ranks && !n->owner.owes[r])
        r++;
    n->comm->ops->unlock(n->comm, n->owner.endpoint);
    return r % n->ranks;
}

/* The error for rank 0, which waited in vain at `s`. */
static yk_code fail_outcome(struct yk_netcheck *n, enum outcome out, const struct side *s,
                            struct yk_error *e)
{
    if (out == ASKED) {
        n->halted = true;
        return YK_OK;
    }
    if (out == LOST) {
        n->lost = s->lost;
        return yk_fail(e, YK_LOST, "rank %d on '%s' is lost: %s", s->lost, host_of(n, s->lost),
                       s->why);
    }
    int r = debtor(n);
    return yk_fail(e, YK_LOST, "rank %d on '%s' did not finish within %.0f s", r, host_of(n, r),
                   YK_ORDER_LIMIT);
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
            return yk_fail(e, YK_LOST, "rank %d on '%s' did not finish within %.0f s", r,
                           host_of(n, r), YK_ORDER_LIMIT);
        yk_fail(e, YK_LOST, "rank %d on '%s' got no answer from rank %u on '%s' within %.0f s", r,
                host_of(n, r), o->peer, host_of(n, (int)o->peer), YK_ORDER_LIMIT);
        yk_hint(e, "both are alive: can these two hosts reach each other on every network that "
                   "they share?");
        return YK_LOST;
    }
    return YK_OK;
}

/* All ranks carry out their orders of n->plan; their reports are then in n->owner.report. */
static yk_code give(struct yk_netcheck *n, const char *what, struct yk_error *e)
{
    const struct yk_comm_ops *ops = n->comm->ops;
    struct side *o = &n->owner;
    n->halted = n->ask->stopped != NULL && n->ask->stopped(n->ask->arg);
    if (n->halted)
        return YK_OK;
    if (n->ask->say != NULL)
        n->ask->say(n->ask->arg, n->part, what);
    ops->lock(n->comm, o->endpoint);
    for (int r = 1; r < n->ranks; r++) {
        o->owes[r] = n->plan[r].what != NOTHING;
        o->awaited += o->owes[r];
    }
    ops->unlock(n->comm, o->endpoint);
    for (int r = 1; r < n->ranks; r++)
        if (n->plan[r].what != NOTHING)
            yk_order_send(n, r, &n->plan[r]);
    struct side *busy = &n->worker;
    enum outcome out = yk_order_carry_out(n, &n->plan[0], &o->report[0]);
    if (out == LATE) {
        o->report[0].status = NO_ANSWER;
        return look_at_reports(n, e);
    }
    if (out == READY) {
        busy = o;
        out = yk_order_await(n, o, has_reports, 0, YK_ORDER_LIMIT + 2);
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

/* How long a stream is measured: long enough that its first round trip does not matter. */
static double watch_time(const struct yk_netcheck_pair *p, double share)
{
    return fmin(fmax(share, TRIPS * p->latency), TRIPS_LIMIT);
}

/* The order for big messages; their number and size follow from the rate of small ones. */
static void plan_large(struct yk_netcheck *n, struct yk_netcheck_pair *p, double share)
{
    double rate = p->bandwidth_31k;
    p->message = YK_NETCHECK_MESSAGE;
    while (p->message > MESSAGE_LEAST && (double)p->message > rate * MESSAGE_TIME)
        p->message /= 2;
    n->plan[p->from] = (struct order){
        .what = STREAM,
        .peer = (uint32_t)p->to,
        .count =
            (uint32_t)clamp(rate * watch_time(p, share) / (double)p->message, 1, MESSAGES_LARGE),
        .window = YK_ORDER_BLOCKS,
        .bytes = p->message,
        .seconds = YK_ORDER_LIMIT, /* the count ends it, so that no message is under way then */
    };
}

static double reported_rate(const struct yk_netcheck *n, const struct yk_netcheck_pair *p)
{
    const struct report *r = &n->owner.report[p->from];
    return r->other / r->seconds;
}

/* One round: `count` pairs at once, by three orders. */
static yk_code measure_pairs(struct yk_netcheck *n, struct yk_netcheck_pair *pair, size_t count,
                             double share, struct yk_error *e)
{
    char what[96];
    snprintf(what, sizeof what,
             count > 1 ? "rank %d to rank %d and %zu other pairs" : "rank %d to rank %d",
             pair[0].from, pair[0].to, count - 1);
    plan_nothing(n);
    for (size_t i = 0; i < count; i++)
        n->plan[pair[i].from] = (struct order){.what = LATENCY,
                                               .peer = (uint32_t)pair[i].to,
                                               .count = YK_ORDER_PINGS,
                                               .seconds = share};
    yk_code rc = give(n, what, e);
    if (rc != YK_OK || n->halted)
        return rc;
    for (size_t i = 0; i < count; i++) {
        struct yk_netcheck_pair *p = &pair[i];
        p->latency = n->owner.report[p->from].seconds;
        p->latency_p99 = n->owner.report[p->from].other;
        n->plan[p->from] = (struct order){.what = STREAM,
                                          .peer = (uint32_t)p->to,
                                          .count = MESSAGES_SMALL,
                                          .window = WINDOW_SMALL,
                                          .bytes = YK_NETCHECK_SMALL,
                                          .seconds = watch_time(p, share)};
    }
    rc = give(n, what, e);
    if (rc != YK_OK || n->halted)
        return rc;
    for (size_t i = 0; i < count; i++) {
        pair[i].bandwidth_31k = reported_rate(n, &pair[i]);
        plan_large(n, &pair[i], share);
    }
    rc = give(n, what, e);
    if (rc == YK_OK && !n->halted)
        for (size_t i = 0; i < count; i++)
            pair[i].bandwidth = reported_rate(n, &pair[i]);
    return rc;
}

/* Measures a pair again before it is called slow: a machine that was busy for a moment is no slow
 * link. *better becomes true if the pair did better. */
static yk_code measure_again(struct yk_netcheck *n, const struct yk_netcheck_pair *suspect,
                             struct yk_netcheck_result *result, double share, bool *better,
                             struct yk_error *e)
{
    struct yk_netcheck_pair *p = &result->pair[suspect - result->pair];
    plan_nothing(n);
    plan_large(n, p, share);
    yk_code rc = give(n, "the slowest link once more", e);
    if (rc != YK_OK || n->halted)
        return rc;
    double rate = reported_rate(n, p);
    *better = *better || rate > BETTER * p->bandwidth;
    p->bandwidth = fmax(rate, p->bandwidth);
    return YK_OK;
}

/* Measures slow links again until the verdict no longer changes, or often enough. */
static yk_code confirm(struct yk_netcheck *n, struct yk_netcheck_result *result, double share,
                       struct yk_error *e)
{
    yk_code rc = YK_OK;
    bool better = true;
    for (int i = 0; i < CONFIRM && better && rc == YK_OK && !n->halted; i++) {
        struct yk_netcheck_verdict v;
        yk_netcheck_judge(result, &v);
        better = false;
        if (v.slow)
            rc = measure_again(n, v.slowest, result, share, &better, e);
        if (v.uneven != NULL && !(v.slow && v.uneven == v.slowest) && rc == YK_OK && !n->halted)
            rc = measure_again(n, v.uneven, result, share, &better, e);
    }
    return rc;
}

static yk_code measure_all_pairs(struct yk_netcheck *n, struct yk_netcheck_result *result,
                                 struct yk_error *e)
{
    struct yk_netcheck_pair *pair;
    size_t pairs;
    yk_code rc = yk_netcheck_plan(&pair, &pairs, n->ask->rank, n->ranks, e);
    if (rc != YK_OK)
        return rc;
    result->pair = pair;
    double share =
        clamp(PAIRS_TIME / (3 * pair[pairs - 1].round), SHARE_LEAST, SHARE_MOST) * n->ask->pace;
    double limit = yk_now() + PAIRS_LIMIT;
    for (size_t i = 0, end; i < pairs && rc == YK_OK && !n->halted && yk_now() < limit; i = end) {
        for (end = i + 1; end < pairs && pair[end].round == pair[i].round; end++)
            ;
        n->part = 0.7 * (double)i / (double)pairs;
        rc = measure_pairs(n, pair + i, end - i, share, e);
        result->pairs = end;
        result->parallel = end - i > result->parallel ? end - i : result->parallel;
    }
    return rc == YK_OK && !n->halted ? confirm(n, result, share, e) : rc;
}

/* One order for all ranks that take part; the slowest decides the time. */
static yk_code run_pattern(struct yk_netcheck *n, const struct order *o, const char *what,
                           double *seconds, struct yk_error *e)
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

static yk_code measure_pattern(struct yk_netcheck *n, enum what kind, uint64_t bytes,
                               struct yk_netcheck_pattern *p, struct yk_error *e)
{
    bool small = bytes == YK_NETCHECK_SMALL;
    double trial, ranks = n->ranks, time = (small ? SMALL_TIME : LARGE_TIME) * n->ask->pace;
    struct order o = {
        .what = kind, .bytes = bytes, .count = small ? TRIAL : 1, .warm = small ? ROUNDS_WARM : 0};
    char what[64];
    snprintf(what, sizeof what, "all to %s, %.0f %s", kind == TO_ONE ? "one" : "all",
             (double)bytes / (small ? 1e3 : 1 << 20), small ? "KB" : "MB");
    *p = (struct yk_netcheck_pattern){.bytes = bytes, .rounds = o.count};
    yk_code rc = run_pattern(n, &o, what, &trial, e);
    p->seconds = trial;
    if (rc == YK_OK && !n->halted && trial < SLOW_TRIAL) {
        o.count = p->rounds = (uint32_t)(small ? clamp(time / trial, TRIAL, ROUNDS_SMALL)
                                               : clamp(time / trial, 1, ROUNDS_LARGE));
        rc = run_pattern(n, &o, what, &p->seconds, e);
    }
    double moved = 2 * (ranks - 1) * (double)bytes / (kind == TO_ONE ? 1 : ranks);
    p->bandwidth = p->seconds > 0 ? moved / p->seconds : 0;
    return rc;
}

/* X for a round that takes no longer than its time, as the pairs suggest, and no more memory than
 * it should. */
static uint64_t choose_large(const struct yk_netcheck *n, enum what kind,
                             const struct yk_netcheck_result *result)
{
    int fullest = 1; /* ranks of the fullest host, which share its link and its memory */
    for (int a = 0; a < n->ranks; a++) {
        int here = 0;
        for (int b = 0; b < n->ranks; b++)
            here += strcmp(host_of(n, a), host_of(n, b)) == 0;
        fullest = here > fullest ? here : fullest;
    }
    double slowest = INFINITY, best = 0;
    for (size_t i = 0; i < result->pairs; i++) {
        const struct yk_netcheck_pair *p = &result->pair[i];
        bool inside = fullest < n->ranks && strcmp(host_of(n, p->from), host_of(n, p->to)) == 0;
        if (inside || (kind == TO_ONE && p->from != 0 && p->to != 0))
            continue;
        slowest = fmin(slowest, p->bandwidth);
        best = fmax(best, p->bandwidth);
    }
    double rate = kind == TO_ONE ? fmin(slowest, best / (n->ranks - 1)) : slowest / fullest;
    uint64_t bytes = n->ask->large > 0 ? n->ask->large : YK_NETCHECK_LARGE;
    uint64_t receivers =
        (uint64_t)(kind == TO_ONE && n->ranks - 1 > fullest ? n->ranks - 1 : fullest);
    while (bytes > LARGE_LEAST &&
           (2 * (double)bytes > rate * ROUND_TIME || bytes * receivers > MEMORY))
        bytes /= 2;
    return bytes;
}

static yk_code measure_patterns(struct yk_netcheck *n, struct yk_netcheck_result *result,
                                struct yk_error *e)
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

/* The last message to all ranks, and time for it to leave. */
static void dismiss(struct yk_netcheck *n, yk_code rc)
{
    for (int r = 1; r < n->ranks; r++)
        if (r != n->lost)
            yk_order_stop(n, r, rc != YK_LOST, n->lost);
    const struct yk_comm_ops *ops = n->comm->ops;
    int here = n->owner.endpoint;
    double end =
        rc == YK_LOST ? yk_now() + PARTING_TIME : 0; /* otherwise closing the comm delivers it */
    while (yk_now() < end)
        ops->wait(n->comm, here, ops->seen(n->comm, here), end - yk_now());
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

yk_code yk_netcheck_run(struct yk_netcheck *n, struct yk_netcheck_result *result,
                        struct yk_error *e)
{
    *result = (struct yk_netcheck_result){0};
    return n->rank == 0 ? lead(n, result, e) : yk_order_serve(n, e);
}

void yk_netcheck_result_release(struct yk_netcheck_result *r)
{
    free(r->pair);
    *r = (struct yk_netcheck_result){0};
}
