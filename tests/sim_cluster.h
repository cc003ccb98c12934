/* sim_cluster.h - real servers and workers over threads' comm, with a model that is a formula: one
 * thread can drive them all, event by event, in any order, or each worker gets a thread. For tests
 * only.
 *
 * The parameters are CLUSTER_ROWS floats. A push leaves in pieces, the end of the parameters first,
 * as a net's last layer would, and cut where no owner's range is; so several owners have parts of
 * it while it is under way. With the optimizer CLUSTER_COUNT and the gradient cluster_mark, float i
 * of the weights says how often example i has been applied.
 *
 * Sparse runs (rule.sparse, and a `touch` that says which keys an example has) compute in slots,
 * with gradients that follow the values: one wrong value, and the bits are others. A dense run
 * of the same problem is the same cluster with rule.sparse off. */
#ifndef YK_TESTS_SIM_CLUSTER_H
#define YK_TESTS_SIM_CLUSTER_H

#include "base/rng.h"
#include "strategy/deal.h"
#include "strategy/exchange.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    CLUSTER_ROWS = 103,
    CLUSTER_BATCH = 10,
    CLUSTER_PARTS = 11,
    CLUSTER_OWNERS = 3,
    CLUSTER_WORKERS = 5,
    CLUSTER_PIECES = 5
};

/* The sum of the gradients of the examples from position `from` to `to`. */
typedef void (*cluster_gradient)(uint64_t from, uint64_t to, float *g, size_t n);

/* Does example e have key i? Of sparse problems. */
typedef bool (*cluster_touch)(uint64_t e, size_t i);

struct cluster_driver {          /* what a worker is at */
    uint32_t key[CLUSTER_ROWS];  /* sparse: (keys) of its task, */
    uint32_t next[CLUSTER_ROWS]; /* and of the one after it */
    size_t keys;
    bool asking;
    bool valued;          /* it has the values of its keys */
    uint64_t asked_twice; /* how often it had to ask for them */
    struct yk_task task;
    bool busy, stopped;
    unsigned stage; /* pieces of its push that are out */
    uint64_t pushes;
};

struct cluster {
    struct yk_rule rule;
    struct yk_recipe recipe;
    cluster_gradient gradient;
    cluster_touch touch;
    struct yk_params params;
    float *slot[YK_SLOTS];
    struct yk_comm *comm;
    struct yk_clock clock;
    struct yk_server server[CLUSTER_OWNERS];
    struct yk_worker worker[CLUSTER_WORKERS];
    struct cluster_driver driver[CLUSTER_WORKERS];

    uint64_t steps, examples; /* what the watcher was told */
    double loss;
    uint64_t verdict_at; /* from this step on the watcher says */
    enum yk_verdict verdict;
    float left[CLUSTER_ROWS]; /* the weights when it said that it leaves */
    void (*stepped)(struct cluster *r,
                    const struct yk_stepped *st);  /* a test's own look at a step; may be NULL */
    void (*pulled)(struct cluster *r, unsigned w); /* and at a worker that has got a task */
    bool replaces;                                 /* a lost worker is to be replaced */
    bool threads;                                  /* each worker has one */
    unsigned accounts;
    struct yk_phases account[CLUSTER_WORKERS];
};

static inline void cluster_count(const struct yk_update *u, float *w, const float *g,
                                 float *const *slot, size_t n)
{
    (void)u, (void)slot;
    for (size_t i = 0; i < n; i++)
        w[i] += g[i];
}

static inline void cluster_count_keys(const struct yk_update *u, float *w, float *const *slot,
                                      uint32_t base, const uint32_t *key, const float *g, size_t n)
{
    (void)u, (void)slot;
    for (size_t i = 0; i < n; i++)
        w[key[i] - base] += g[i];
}

static inline void cluster_read_keys(const struct yk_update *u, const float *w, float *const *slot,
                                     uint32_t base, const uint32_t *key, float *out, size_t n)
{
    (void)u, (void)slot;
    for (size_t i = 0; i < n; i++)
        out[i] = w[key[i] - base];
}

static const struct yk_optimizer_ops CLUSTER_COUNT = {.name = "count",
                                                      .apply = cluster_count,
                                                      .apply_keys = cluster_count_keys,
                                                      .read_keys = cluster_read_keys};

static inline void cluster_mark(uint64_t from, uint64_t to, float *g, size_t n)
{
    memset(g, 0, n * sizeof *g);
    for (uint64_t e = from; e < to; e++)
        g[e % CLUSTER_ROWS] += 1;
}

/* Small whole numbers: sums of them are exact in any order. */
static inline void cluster_whole(uint64_t from, uint64_t to, float *g, size_t n)
{
    memset(g, 0, n * sizeof *g);
    for (uint64_t e = from; e < to; e++)
        for (size_t i = 0; i < CLUSTER_ROWS; i++)
            g[i] += (float)((e * 2654435761u + i * 40503u) % 17) - 8;
}

/* Numbers of all sizes: sums of them have other bits in another order. */
static inline void cluster_noise(uint64_t from, uint64_t to, float *g, size_t n)
{
    memset(g, 0, n * sizeof *g);
    for (uint64_t e = from; e < to; e++) {
        struct yk_rng r;
        yk_rng_init(&r, 77, e, 0, 0);
        for (size_t i = 0; i < CLUSTER_ROWS; i++)
            g[i] += ((float)yk_rng_unit(&r) - 0.5f) * (float)(1u << yk_rng_below(&r, 12));
    }
}

static inline uint32_t cluster_hash(uint64_t e, size_t i)
{
    uint64_t h = (e * 0x9e3779b97f4a7c15u) ^ ((i + 1) * 0xd6e8feb86659fd93u);
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32);
}

/* A bias, a few keys that many examples have, and some of the many that few have. */
static inline bool cluster_some(uint64_t e, size_t i)
{
    e %= CLUSTER_ROWS;
    return i == 0 || (i < 12 && cluster_hash(e, i) % 3 == 0) || cluster_hash(e, i) % 29 == 0;
}

/* As cluster_mark: each example has a key of its own. */
static inline bool cluster_own(uint64_t e, size_t i)
{
    return e % CLUSTER_ROWS == i;
}

/* The sum of the gradients of a sparse problem at w, example by example; leaves are never -0.0.
 * Those of cluster_own are 1. */
static inline void cluster_follow(cluster_touch touch, uint64_t from, uint64_t to, const float *w,
                                  float *g)
{
    memset(g, 0, CLUSTER_ROWS * sizeof *g);
    for (uint64_t e = from; e < to; e++) {
        float z = 0; /* every gradient of an example depends on all its values */
        for (size_t i = 0; i < CLUSTER_ROWS; i++)
            z += touch(e, i) ? w[i] : 0;
        for (size_t i = 0; i < CLUSTER_ROWS; i++) {
            float leaf = ((float)(cluster_hash(e, i + 1000) % 2001) - 1000) *
                         (float)(1u << cluster_hash(e, i + 2000) % 8) * 0.001f;
            if (touch(e, i))
                g[i] += (touch == cluster_own ? 1.0f : leaf + 0.25f * z) + 0.0f;
        }
    }
}

/* The keys of the examples [from, to), sorted. */
static inline size_t cluster_keys(cluster_touch touch, uint64_t from, uint64_t to, uint32_t *key)
{
    size_t n = 0;
    for (uint32_t i = 0; i < CLUSTER_ROWS; i++) {
        bool any = false;
        for (uint64_t e = from; e < to; e++)
            any = any || touch(e, i);
        if (any)
            key[n++] = i;
    }
    return n;
}

static inline struct yk_rule cluster_rule(enum yk_mode mode, unsigned workers,
                                          unsigned owners) /* as train/plan.c makes it */
{
    bool each = mode == YK_MODE_async || mode == YK_MODE_ssp;
    return (struct yk_rule){.mode = mode,
                            .workers = workers,
                            .owners = owners,
                            .shards = each ? 1 : workers,
                            .batch = CLUSTER_BATCH,
                            .rows = CLUSTER_ROWS,
                            .pooled = each,
                            .fresh = !each,
                            .held = !each && workers > 1,
                            .need = 1,
                            .staleness = mode == YK_MODE_ssp ? 3 : -1,
                            .last_step = UINT64_MAX};
}

static inline struct yk_rule cluster_backup_rule(unsigned workers, unsigned backup, unsigned owners)
{
    struct yk_rule r = cluster_rule(YK_MODE_sync, workers, owners);
    r.pooled = true;
    r.shards = 1;
    r.need = workers - backup;
    return r;
}

static inline struct yk_rule cluster_sparse(struct yk_rule rule)
{
    rule.sparse = true;
    return rule;
}

static inline struct yk_rule cluster_batches(unsigned workers, unsigned owners, uint64_t steps)
{
    struct yk_rule rule =
        cluster_rule(workers == 1 && owners == 1 ? YK_MODE_local : YK_MODE_sync, workers, owners);
    rule.shards = 12;
    rule.last_step = steps;
    return rule;
}

static inline enum yk_verdict cluster_stepped(void *arg, const struct yk_stepped *st)
{
    struct cluster *r = arg;
    assert_int_equal(st->step, r->steps + 1); /* once an update, whoever pushed */
    r->steps = st->step;
    r->examples += st->examples;
    r->loss += st->loss;
    if (r->stepped != NULL)
        r->stepped(r, st);
    if (r->steps >= r->verdict_at && r->verdict == YK_LEAVE)
        memcpy(r->left, r->params.flat, sizeof r->left);
    return r->steps >= r->rule.last_step ? YK_HALT : r->steps >= r->verdict_at ? r->verdict : YK_GO;
}

static inline bool cluster_lost(void *arg, int worker, const char *why)
{
    struct cluster *r = arg;
    (void)why;
    if (r->replaces)
        yk_server_want(&r->server[0], (unsigned)worker);
    return worker >= 0;
}

static inline void cluster_account(void *arg, unsigned worker, const void *data, size_t bytes)
{
    struct cluster *r = arg;
    assert_int_equal(bytes, sizeof r->account[worker]);
    memcpy(&r->account[worker], data, bytes);
    r->accounts++;
}

/* The servers and workers; they believe what comm->shared says. */
static inline void cluster_make_ends(struct cluster *r)
{
    const struct yk_rule *rule = &r->rule;
    const struct yk_watcher watcher = {
        .stepped = cluster_stepped, .lost = cluster_lost, .account = cluster_account, .arg = r};
    bool own = !r->comm->shared || rule->pooled;
    struct yk_error e;
    for (unsigned k = 0; k < rule->owners; k++) {
        float *slot[YK_SLOTS];
        size_t at = rule->sparse ? yk_owner_at(k, rule->owners, r->params.count) : 0;
        for (unsigned i = 0; i < YK_SLOTS; i++)
            slot[i] = r->slot[i] != NULL ? r->slot[i] + at : NULL;
        assert_int_equal(yk_server_init(&r->server[k], r->comm, rule, k, &r->recipe,
                                        r->params.flat + at, slot, r->params.count,
                                        k == 0 ? &r->clock : NULL, &watcher, &e),
                         YK_OK);
        r->comm->ops->attach(r->comm, (int)k, &yk_server_handler, &r->server[k]);
    }
    for (unsigned w = 0; w < rule->workers; w++) {
        assert_int_equal(yk_worker_init(&r->worker[w], r->comm, rule, w, &r->params, own, &e),
                         YK_OK);
        r->comm->ops->attach(r->comm, yk_worker_endpoint(r->comm, (int)w), &yk_worker_handler,
                             &r->worker[w]);
    }
}

static inline void cluster_release_ends(struct cluster *r)
{
    for (unsigned k = 0; k < r->rule.owners; k++)
        yk_server_release(&r->server[k]);
    for (unsigned w = 0; w < r->rule.workers; w++)
        yk_worker_release(&r->worker[w]);
}

static inline void cluster_open(struct cluster *r, const struct yk_rule *rule,
                                const struct yk_optimizer_ops *optimizer, cluster_gradient g)
{
    const struct yk_view view = {.name = "w", .ndim = 1, .shape = {CLUSTER_ROWS}};
    struct yk_error e;
    memset(r, 0, sizeof *r);
    r->rule = *rule;
    r->gradient = g;
    r->verdict_at = UINT64_MAX;
    r->recipe = (struct yk_recipe){.optimizer = optimizer,
                                   .lr = 0.01,
                                   .constants = {.momentum = 0.9f, .beta2 = 0.999f, .eps = 1e-8f}};
    assert_int_equal(yk_schedule_parse("exponential:0.9:5", &r->recipe.schedule, &e), YK_OK);
    assert_int_equal(yk_params_init(&r->params, &view, 1, &e), YK_OK);
    r->recipe.sparse = rule->sparse;
    for (unsigned i = 0; i < yk_recipe_slots(&r->recipe); i++)
        assert_non_null(r->slot[i] = yk_floats(r->params.count));
    assert_int_equal(yk_comm_threads(&r->comm, (int)rule->owners, (int)rule->workers, &e), YK_OK);
    assert_int_equal(yk_clock_init(&r->clock, &r->rule, 0, 0, &e), YK_OK);
    yk_clock_limit(&r->clock, 0);
    cluster_make_ends(r);
}

/* Begin: with everybody, or to let workers come one by one, with nobody. */
static inline void cluster_start(struct cluster *r, bool all)
{
    r->comm->ops->lock(r->comm, 0);
    yk_server_seed(&r->server[0], 0, r->params.count);
    r->comm->ops->unlock(r->comm, 0);
    for (unsigned w = 0; all && w < r->rule.workers; w++)
        yk_worker_start(&r->worker[w]);
}

static inline void cluster_close(struct cluster *r)
{
    r->comm->ops->close(r->comm, true);
    cluster_release_ends(r);
    yk_clock_release(&r->clock);
    for (unsigned i = 0; i < YK_SLOTS; i++)
        yk_floats_free(r->slot[i]);
    yk_params_release(&r->params);
}

/* Would a pull return at once? */
static inline bool cluster_answered(struct cluster *r, unsigned w)
{
    struct yk_worker *p = &r->worker[w];
    int me = yk_worker_endpoint(r->comm, (int)w);
    r->comm->ops->lock(r->comm, me);
    bool yes = yk_worker_is_over(p) || p->again || p->exchange->answered(p);
    r->comm->ops->unlock(r->comm, me);
    return yes;
}

/* True: it has a task. */
static inline bool cluster_pull(struct cluster *r, unsigned w)
{
    struct cluster_driver *h = &r->driver[w];
    assert_false(h->busy);
    assert_true(r->threads || cluster_answered(r, w)); /* or it would wait for ever */
    h->busy = yk_worker_pull(&r->worker[w], &h->task);
    h->stopped = !h->busy;
    h->stage = 0;
    h->valued = h->asking = false;
    if (h->busy && r->pulled != NULL && !r->rule.sparse)
        r->pulled(r, w);
    return h->busy;
}

/* Where the shards of a task begin or end, among all examples. */
static inline uint64_t cluster_at(const struct cluster *r, const struct yk_task *t, uint64_t id,
                                  uint32_t shard)
{
    uint64_t left = CLUSTER_ROWS - id % CLUSTER_ROWS;
    return id + yk_shard_at(shard, r->rule.shards,
                            id == t->id ? t->examples
                                        : (uint32_t)(left < r->rule.batch ? left : r->rule.batch));
}

/* Sparse: the values of its task's keys. False: it has to pull again. */
static inline bool cluster_values(struct cluster *r, unsigned w)
{
    struct cluster_driver *h = &r->driver[w];
    const struct yk_task *t = &h->task;
    uint32_t ask = r->worker[w].keys.ask;
    h->keys = cluster_keys(r->touch, cluster_at(r, t, t->id, t->first),
                           cluster_at(r, t, t->id, t->last), h->key);
    if (r->comm->shared) {
        h->busy = h->valued = yk_worker_values(&r->worker[w], h->key, h->keys);
    } else { /* what it asks for comes when the test delivers it */
        bool over;
        h->valued = yk_worker_have_values(&r->worker[w], h->keys, &over);
        if (!h->valued && !over && !h->asking)
            yk_worker_ask(&r->worker[w], h->key, h->keys);
        h->asking = h->busy = !over;
    }
    h->asked_twice += r->worker[w].keys.ask != ask;
    h->task = r->worker[w].task; /* with parts the step is that of the values */
    if (h->valued && r->pulled != NULL)
        r->pulled(r, w);
    return h->valued;
}

/* Sparse: all of its push, which is one message an owner. */
static inline void cluster_push_keys(struct cluster *r, unsigned w)
{
    struct cluster_driver *h = &r->driver[w];
    const struct yk_task *t = &h->task;
    float value[CLUSTER_ROWS], g[CLUSTER_ROWS];
    size_t n = 0;
    for (size_t i = 0; i < CLUSTER_ROWS; i++)
        value[i] = 1e30f; /* of a key that is not in the list: it would be seen */
    for (size_t i = 0; i < h->keys; i++)
        value[h->key[i]] = r->worker[w].params.flat[i];
    for (uint32_t i = t->first; i < t->last; i++) {
        struct yk_sink *sink = yk_worker_sink(&r->worker[w], i);
        assert_non_null(sink);
        cluster_follow(r->touch, cluster_at(r, t, t->id, i), cluster_at(r, t, t->id, i + 1), value,
                       g);
        for (size_t k = 0; k < h->keys; k++)
            sink->grad[k] = g[h->key[k]];
        sink->ready(sink, 0, h->keys);
    }
    if (t->ahead != YK_NO_PART)
        n = cluster_keys(r->touch, cluster_at(r, t, t->ahead, t->first),
                         cluster_at(r, t, t->ahead, t->last), h->next);
    yk_worker_commit_keys(
        &r->worker[w],
        (double)(cluster_at(r, t, t->id, t->last) - cluster_at(r, t, t->id, t->first)), t->ahead,
        h->next, n);
    h->busy = false;
    h->pushes++;
}

/* The next piece of its push; true: that was the last, and all of it is out. Tasks of several
 * shards send nothing before their last one. */
static inline bool cluster_push_piece(struct cluster *r, unsigned w)
{
    static const size_t CUT[CLUSTER_PIECES + 1] = {0, 20, 37, 64, 90, SIZE_MAX};
    struct cluster_driver *h = &r->driver[w];
    const struct yk_task *t = &h->task;
    size_t count = r->params.count;
    assert_true(h->busy);
    if (r->rule.sparse) {
        if (h->valued || cluster_values(r, w))
            cluster_push_keys(r, w);
        return true;
    }
    struct yk_sink *sink = &r->worker[w].sink;
    for (uint32_t i = t->first; h->stage == 0 && i < t->last; i++) {
        uint32_t v = r->rule.shards;
        sink = yk_worker_sink(&r->worker[w], i);
        assert_non_null(sink);
        uint64_t from = t->id + yk_shard_at(i, v, t->examples),
                 to = t->id + yk_shard_at(i + 1, v, t->examples);
        if (r->touch != NULL) /* a sparse problem, solved densely */
            cluster_follow(r->touch, from, to, r->worker[w].params.flat, sink->grad);
        else
            r->gradient(from, to, sink->grad, count);
        if (i + 1 < t->last)
            sink->ready(sink, 0, count);
    }
    unsigned k = CLUSTER_PIECES - ++h->stage;
    sink->ready(sink, CUT[k], CUT[k + 1] < count ? CUT[k + 1] : count);
    if (k > 0)
        return false;
    yk_worker_commit(&r->worker[w], yk_shard_at(t->last, r->rule.shards, t->examples) -
                                        yk_shard_at(t->first, r->rule.shards,
                                                    t->examples)); /* a loss of 1 an example */
    h->busy = false;
    h->pushes++;
    return true;
}

static inline void cluster_push(struct cluster *r, unsigned w)
{
    while (!cluster_push_piece(r, w))
        ;
}

/* One event of a worker, whatever comes next for it; false if it has to wait. */
static inline bool cluster_event(struct cluster *r, unsigned w)
{
    if (r->driver[w].stopped || (!r->driver[w].busy && !cluster_answered(r, w)))
        return false;
    if (r->driver[w].busy && r->rule.sparse && !r->driver[w].valued)
        cluster_values(r, w);
    else if (r->driver[w].busy)
        cluster_push_piece(r, w);
    else
        cluster_pull(r, w);
    return true;
}

/* Events at random until everybody has stopped. `fast`: worker 0 gets most of them. */
static inline void cluster_play(struct cluster *r, uint64_t seed, bool fast)
{
    struct yk_rng rng;
    unsigned stopped = 0;
    yk_rng_init(&rng, seed, 0, 0, 0);
    for (uint64_t i = 0; stopped < r->rule.workers; i++) {
        if (i > 3000000)
            fail_msg("nobody goes on at step %d", (int)r->steps);
        cluster_event(r,
                      fast && yk_rng_below(&rng, 3) > 0 ? 0 : yk_rng_below(&rng, r->rule.workers));
        stopped = 0;
        for (unsigned w = 0; w < r->rule.workers; w++)
            stopped += r->driver[w].stopped;
    }
    assert_true(r->server[0].state == YK_SERVER_ENDED);
}

struct cluster_thread {
    struct cluster *cluster;
    unsigned worker;
    pthread_t thread;
};

static inline void *cluster_thread(void *arg)
{
    struct cluster_thread *t = arg;
    struct yk_rng rng;
    yk_rng_init(&rng, 5, t->worker, 0, 0);
    yk_worker_start(&t->cluster->worker[t->worker]);
    while (cluster_pull(t->cluster, t->worker))
        while (!cluster_push_piece(t->cluster, t->worker))
            if (yk_rng_below(&rng, 8) == 0)
                sched_yield();
    yk_worker_account(&t->cluster->worker[t->worker]);
    return NULL;
}

/* The same with a thread a worker. */
static inline void cluster_run(struct cluster *r)
{
    struct cluster_thread t[CLUSTER_WORKERS];
    r->threads = true;
    cluster_start(r, false);
    for (unsigned w = 0; w < r->rule.workers; w++) {
        t[w] = (struct cluster_thread){.cluster = r, .worker = w};
        assert_int_equal(pthread_create(&t[w].thread, NULL, cluster_thread, &t[w]), 0);
    }
    for (unsigned w = 0; w < r->rule.workers; w++)
        pthread_join(t[w].thread, NULL);
    assert_true(r->server[0].state == YK_SERVER_ENDED);
    assert_int_equal(r->accounts, r->rule.workers);
}

/* Every example has been applied so many times (CLUSTER_COUNT and cluster_mark). */
static inline void cluster_assert_counts(const struct cluster *r, unsigned times)
{
    for (size_t i = 0; i < CLUSTER_ROWS; i++)
        if (r->params.flat[i] != (float)times)
            fail_msg("example %d has been applied %g times", (int)i, (double)r->params.flat[i]);
}

static inline uint64_t cluster_dropped(const struct cluster *r)
{
    uint64_t n = 0;
    for (unsigned w = 0; w < r->rule.workers; w++)
        n += r->clock.member[w].ledger.dropped;
    return n;
}

#endif
