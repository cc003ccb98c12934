/* exchange_keys_test.c - sparse runs with real servers and workers: the bits are those of a
 * dense run of the same problem, for any number of workers and owners, whatever is late or lost;
 * every key crosses the wire once; messages that do not fit are refused. Each test would fail
 * under a usual mistake, which it names. */
#include "tests/sim_network.h"

/* The parameters after a dense run with one worker and one owner. */
static void dense(const struct yk_optimizer_ops *optimizer, uint64_t steps, float *w)
{
    struct yk_rule rule = cluster_batches(1, 1, steps);
    struct cluster r;
    cluster_open(&r, &rule, optimizer, NULL);
    r.touch = cluster_some;
    cluster_start(&r, true);
    cluster_play(&r, 1, false);
    memcpy(w, r.params.flat, CLUSTER_ROWS * sizeof *w);
    cluster_close(&r);
}

/* The same of a sparse one: where untouched keys move on by themselves the two differ in their
 * last bits. */
static void undisturbed(const struct yk_optimizer_ops *optimizer, uint64_t steps, float *w)
{
    const struct yk_rule rule = cluster_sparse(cluster_batches(1, 1, steps));
    struct cluster r;
    cluster_open(&r, &rule, optimizer, NULL);
    r.touch = cluster_some;
    cluster_start(&r, true);
    cluster_play(&r, 1, false);
    memcpy(w, r.params.flat, CLUSTER_ROWS * sizeof *w);
    cluster_close(&r);
}

/* Events of letters and workers until the run has ended. */
static void play(struct network *o, uint64_t seed)
{
    struct yk_rng rng;
    yk_rng_init(&rng, seed, 9, 0, 0);
    for (uint64_t i = 0; o->cluster->server[0].state < YK_SERVER_ENDED || o->under_way > 0; i++) {
        if (i > 3000000)
            fail_msg("nobody goes on at step %d", (int)o->cluster->steps);
        network_event(o, &rng);
    }
}

static int pushed_to[NETWORK_ENDS];

/* A batch counts when owner 0 has it, so all others must have been sent theirs before. */
static bool in_order(struct network *o, struct yk_note *n, char **data)
{
    int owners = o->cluster->comm->owners;
    (void)data;
    if (n->kind == YK_PUSH) {
        assert_int_equal(n->to, pushed_to[n->from] == 0 ? owners - 1 : pushed_to[n->from] - 1);
        pushed_to[n->from] = n->to;
    }
    return true;
}

/* Twelve shards, keys that only some of them touch: the same bits as a dense run. An absent key
 * that counted as anything but +0, a sum in the order of arrival, a value of another step or of
 * another key, a gradient at its neighbour's key: any of them changes the bits. */
static void test_bits(void **state)
{
    (void)state;
    static const char *const NAME[] = {"sgd", "adagrad"};
    for (size_t o = 0; o < 2; o++) {
        float expected[CLUSTER_ROWS];
        dense(yk_optimizer_find(NAME[o]), 25, expected);
        for (unsigned workers = 1; workers <= 5; workers++)
            for (unsigned owners = 1; owners <= 3; owners++)
                for (unsigned far = 0; far < 2; far++) {
                    const struct yk_rule rule =
                        cluster_sparse(cluster_batches(workers, owners, 25));
                    struct network network;
                    struct cluster r;
                    cluster_open(&r, &rule, yk_optimizer_find(NAME[o]), NULL);
                    r.touch = cluster_some;
                    if (far)
                        network_open(&network, &r);
                    network.intercept = in_order;
                    memset(pushed_to, 0, sizeof pushed_to);
                    cluster_start(&r, true);
                    if (far)
                        play(&network, workers * 10 + owners);
                    else
                        cluster_play(&r, workers * 10 + owners, owners == 2);
                    assert_memory_equal(r.params.flat, expected, sizeof expected);
                    assert_true(r.examples == 2 * CLUSTER_ROWS + 3 * CLUSTER_BATCH &&
                                r.loss == (double)r.examples);
                    for (unsigned k = 0; k < owners; k++)
                        assert_int_equal(r.server[k].owner.step, 25);
                    for (unsigned w = 0; w < workers;
                         w++) /* one round trip a step: only an epoch's first has to ask */
                        assert_int_equal(r.driver[w].asked_twice, 3);
                    if (far)
                        network_close(&network);
                    else
                        cluster_close(&r);
                }
    }
}

/* The same with a thread a worker. */
static void test_threads(void **state)
{
    (void)state;
    enum { EPOCHS = 6 };
    float expected[CLUSTER_ROWS];
    dense(yk_optimizer_find("adagrad"), EPOCHS * CLUSTER_PARTS, expected);
    for (unsigned owners = 1; owners <= 3; owners++)
        for (unsigned kind = 0; kind < 4; kind++) {
            struct yk_rule rule =
                cluster_sparse(kind == 0   ? cluster_batches(4, owners, EPOCHS * CLUSTER_PARTS)
                               : kind == 1 ? cluster_backup_rule(4, 1, owners)
                               : kind == 2 ? cluster_rule(YK_MODE_async, 4, owners)
                                           : cluster_rule(YK_MODE_ssp, 4, owners));
            struct cluster r;
            rule.last_step = EPOCHS * (uint64_t)((CLUSTER_PARTS + rule.need - 1) / rule.need);
            cluster_open(&r, &rule, kind == 0 ? yk_optimizer_find("adagrad") : &CLUSTER_COUNT,
                         NULL);
            r.touch = kind == 0 ? cluster_some : cluster_own;
            cluster_run(&r);
            assert_true(r.steps == rule.last_step && r.examples == EPOCHS * CLUSTER_ROWS);
            if (kind == 0)
                assert_memory_equal(r.params.flat, expected, sizeof expected);
            else
                cluster_assert_counts(&r, EPOCHS);
            cluster_close(&r);
        }
}

/* Parts: every example exactly once an epoch, whoever is slow; owners that no key of a part
 * belongs to count its step all the same. */
static void test_once(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++)
        for (unsigned kind = 0; kind < 4; kind++)
            for (uint64_t seed = 0; seed < 12; seed++) {
                struct yk_rule rule =
                    cluster_sparse(kind == 0   ? cluster_rule(YK_MODE_async, 4, owners)
                                   : kind == 1 ? cluster_rule(YK_MODE_ssp, 4, owners)
                                   : kind == 2 ? cluster_backup_rule(4, 1, owners)
                                               : cluster_backup_rule(5, 3, owners));
                unsigned epochs = 1 + (unsigned)seed % 4;
                struct network network;
                struct cluster r;
                rule.last_step = epochs * (uint64_t)((CLUSTER_PARTS + rule.need - 1) / rule.need);
                cluster_open(&r, &rule, &CLUSTER_COUNT, NULL);
                r.touch = cluster_own;
                network_open(&network, &r);
                cluster_start(&r, true);
                play(&network, seed);
                cluster_assert_counts(&r, epochs);
                assert_true(r.steps == rule.last_step &&
                            r.examples == (uint64_t)epochs * CLUSTER_ROWS);
                for (unsigned k = 0; k < owners; k++)
                    assert_int_equal(r.server[k].owner.step, rule.last_step);
                for (unsigned w = 0; kind < 2 && w < 4;
                     w++) /* the part after the first is known ahead: keys are asked for once */
                    assert_true(r.driver[w].asked_twice <= 1);
                network_close(&network);
            }
}

/* Staleness counts from the step of the values, which come with the answer to the push before;
 * values are those of that moment. */
static void test_staleness(void **state)
{
    (void)state;
    for (unsigned owners = 1; owners <= 3; owners++) {
        const struct yk_rule rule = cluster_sparse(cluster_rule(YK_MODE_async, 3, owners));
        struct cluster r;
        cluster_open(&r, &rule, &CLUSTER_COUNT, NULL);
        r.touch = cluster_some;
        cluster_start(&r, true);
        for (unsigned w = 0; w < 3; w++)
            assert_true(cluster_pull(&r, w) && cluster_values(&r, w));
        cluster_push(&r, 1); /* 0 stale */
        assert_true(cluster_pull(&r, 1) && cluster_values(&r, 1) && r.driver[1].task.step == 1);
        assert_true(r.worker[1].params.flat[0] == r.params.flat[0] && r.params.flat[0] != 0 &&
                    r.driver[1].key[0] == 0);
        float then = r.params.flat[0];
        cluster_push(&r, 1); /* 0 */
        cluster_push(&r, 0); /* pulled at 0, applied at 2 */
        assert_true(cluster_pull(&r, 1) && cluster_values(&r, 1) && r.driver[1].task.step == 2);
        assert_true(r.worker[1].params.flat[0] != r.params.flat[0] &&
                    r.worker[1].params.flat[0] != then);
        assert_true(cluster_pull(&r, 0) && cluster_values(&r, 0) && r.driver[0].task.step == 3);
        cluster_push(&r, 1); /* pulled at 2, applied at 3 */
        cluster_push(&r, 0); /* pulled at 3, applied at 4 */
        cluster_push(&r, 2); /* pulled at 0, applied at 5 */
        const struct yk_ledger *a = &r.clock.member[0].ledger, *b = &r.clock.member[1].ledger,
                               *c = &r.clock.member[2].ledger;
        assert_true(a->steps == 2 && a->stale[2] == 1 && a->stale[1] == 1 && a->most == 2);
        assert_true(b->steps == 3 && b->stale[0] == 2 && b->stale[1] == 1 && b->most == 1);
        assert_true(c->steps == 1 && c->stale[5] == 1 && c->most == 5);
        cluster_close(&r);
    }
}

/* Who asks for values later than he got his task: asynchronous ones are as old as their values;
 * with backups a part may have been done by somebody else in a step that has been closed since,
 * so it is as old as its task, and does not count. */
static void test_late_values(void **state)
{
    (void)state;
    struct yk_rule rule = cluster_sparse(cluster_rule(YK_MODE_async, 2, 2));
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, NULL);
    r.touch = cluster_some;
    cluster_start(&r, true);
    assert_true(cluster_pull(&r, 0) && cluster_pull(&r, 1) && cluster_values(&r, 1));
    cluster_push(&r, 1);
    assert_true(cluster_values(&r, 0) && r.driver[0].task.step == 1 &&
                r.worker[0].params.flat[0] == r.params.flat[0]);
    cluster_push(&r, 0);
    assert_true(r.steps == 2 && r.clock.member[0].ledger.stale[0] == 1);
    cluster_close(&r);
    rule = cluster_sparse(cluster_backup_rule(2, 1, 2));
    cluster_open(&r, &rule, &CLUSTER_COUNT, NULL);
    r.touch = cluster_some;
    cluster_start(&r, true);
    assert_true(cluster_pull(&r, 0) && cluster_pull(&r, 1) && cluster_values(&r, 1));
    cluster_push(&r, 1);
    assert_int_equal(r.steps, 1);
    assert_true(cluster_values(&r, 0) && r.driver[0].task.step == 0);
    cluster_push(&r, 0);
    assert_true(r.steps == 1 && cluster_dropped(&r) == 1);
    cluster_close(&r);
}

/* Two of four workers are lost at any moment, their last messages with some owners and not with
 * others: the survivors do the step again with other shards and keys, owners that have applied
 * it answer as of before, and every bit is as if nothing had been. */
static void test_losses(void **state)
{
    (void)state;
    static const char *const NAME[] = {"sgd", "adagrad", "momentum"};
    uint64_t undone = 0;
    for (size_t opt = 0; opt < 3; opt++) {
        float expected[CLUSTER_ROWS], other[CLUSTER_ROWS];
        undisturbed(yk_optimizer_find(NAME[opt]), 25, expected);
        dense(yk_optimizer_find(NAME[opt]), 25, other);
        assert_true(opt == 2 || memcmp(expected, other, sizeof other) == 0);
        for (uint64_t seed = 0; seed < 200; seed++) {
            const struct yk_rule rule =
                cluster_sparse(cluster_batches(4, 1 + (unsigned)seed % 3, 25));
            struct network o;
            struct cluster r;
            struct yk_rng rng;
            cluster_open(&r, &rule, yk_optimizer_find(NAME[opt]), NULL);
            r.touch = cluster_some;
            network_open(&o, &r);
            cluster_start(&r, true);
            yk_rng_init(&rng, seed, 3, 0, 0);
            uint64_t first = 100 + yk_rng_below(&rng, 4000),
                     second = first + yk_rng_below(&rng, 300);
            for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
                if (i > 3000000)
                    fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
                if ((i == first || i == second) && r.server[0].state < YK_SERVER_ENDED)
                    network_lose_worker(&o, i == first ? 1 : 3, &rng);
                network_event(&o, &rng);
            }
            assert_int_equal(r.server[0].failed, YK_OK);
            assert_int_equal(r.steps, 25);
            if (memcmp(r.params.flat, expected, sizeof expected) != 0)
                fail_msg("seed %d: the bits of a run with losses are others", (int)seed);
            undone += o.undone;
            network_close(&o);
        }
    }
    assert_true(undone > 20); /* or the test has not met the case that it is for */
}

/* Parts of the lost are dealt again. Owner 0 applies each exactly once; another owner may have a
 * part of a push that owner 0 never got: it is counted as torn, and is the only thing that
 * anybody has too much of. */
static void test_torn(void **state)
{
    (void)state;
    uint64_t torn = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct yk_rule rule = cluster_sparse(seed % 3 == 2 ? cluster_backup_rule(4, 1, 3)
                                                           : cluster_rule(YK_MODE_async, 4, 3));
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        rule.last_step = 3 * (uint64_t)((CLUSTER_PARTS + rule.need - 1) / rule.need);
        cluster_open(&r, &rule, &CLUSTER_COUNT, NULL);
        r.touch = cluster_own;
        network_open(&o, &r);
        cluster_start(&r, true);
        yk_rng_init(&rng, seed, 4, 0, 0);
        uint64_t when = 100 + yk_rng_below(&rng, 3000);
        for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
            if (i > 3000000)
                fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
            if (i == when && r.server[0].state < YK_SERVER_ENDED)
                network_lose_worker(&o, 2, &rng);
            network_event(&o, &rng);
        }
        uint64_t here = r.clock.member[2].ledger.torn, lost = 0;
        for (size_t i = 0; i < CLUSTER_ROWS; i++) {
            float over = r.params.flat[i] - 3;
            bool first = i < yk_owner_at(1, 3, r.params.count);
            if (first ? over != 0 : over < -1 || over > 1)
                fail_msg("seed %d: example %d has been applied %g times", (int)seed, (int)i,
                         (double)r.params.flat[i]);
            lost += over != 0;
        }
        assert_true(lost == 0 || rule.held == false);
        assert_true(r.steps == rule.last_step && r.examples == 3 * CLUSTER_ROWS);
        torn += here;
        network_close(&o);
    }
    assert_true(torn > 0);
}

/* A new worker in the place of a lost one begins with nothing, and everybody has new shards, and
 * so new keys. */
static void test_replace(void **state)
{
    (void)state;
    float expected[CLUSTER_ROWS];
    dense(yk_optimizer_find("adagrad"), 25, expected);
    for (uint64_t seed = 0; seed < 60; seed++) {
        const struct yk_rule rule = cluster_sparse(cluster_batches(3, 1 + (unsigned)seed % 3, 25));
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        struct yk_error e;
        bool replaced = false;
        cluster_open(&r, &rule, yk_optimizer_find("adagrad"), NULL);
        r.touch = cluster_some;
        r.replaces = true;
        network_open(&o, &r);
        cluster_start(&r, true);
        yk_rng_init(&rng, seed, 5, 0, 0);
        uint64_t when = 100 + yk_rng_below(&rng, 1500);
        for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
            if (i > 3000000)
                fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
            if (i == when && r.server[0].state < YK_SERVER_ENDED)
                network_lose_worker(&o, 1, &rng);
            if (r.server[0].replace.called && o.under_way == 0) {
                yk_worker_release(&r.worker[1]);
                assert_int_equal(
                    yk_worker_init(&r.worker[1], r.comm, &r.rule, 1, &r.params, true, &e), YK_OK);
                r.driver[1] = (struct cluster_driver){0};
                o.end[yk_worker_endpoint(r.comm, 1)].gone = false;
                for (unsigned k = 0; k < rule.owners; k++)
                    yk_server_replaced(&r.server[k], 1, true);
                yk_worker_start(&r.worker[1]);
                replaced = true;
            }
            network_event(&o, &rng);
        }
        assert_true(!replaced || r.driver[1].pushes > 0 || r.clock.member[1].ledger.steps > 0);
        assert_memory_equal(r.params.flat, expected, sizeof expected);
        network_close(&o);
    }
}

/* Bytes of a message, at a size where they count: twelve for a key, and two notes of 64. With
 * gradients that carried their keys, or values that did, it would be sixteen or more. */
static void test_bytes(void **state)
{
    (void)state;
    enum { COUNT = 60000, KEYS = 6000, STEPS = 10, OWNERS = 3, WORKERS = 2 };
    for (unsigned async = 0; async < 2; async++) {
        struct yk_rule rule =
            cluster_sparse(cluster_rule(async ? YK_MODE_async : YK_MODE_sync, WORKERS, OWNERS));
        const struct yk_view view = {.name = "w", .ndim = 1, .shape = {COUNT}};
        const struct yk_recipe recipe = {.optimizer = &CLUSTER_COUNT, .lr = 1, .sparse = true};
        struct cluster r = {.verdict_at = UINT64_MAX};
        const struct yk_watcher watcher = {.stepped = cluster_stepped,
                                           .lost = cluster_lost,
                                           .account = cluster_account,
                                           .arg = &r};
        static uint32_t key[2][KEYS];
        struct yk_error e;
        rule.rows = 1000; /* one epoch is enough */
        r.rule = rule;
        r.rule.last_step = UINT64_MAX;
        assert_int_equal(yk_params_init(&r.params, &view, 1, &e), YK_OK);
        assert_int_equal(yk_comm_threads(&r.comm, OWNERS, WORKERS, &e), YK_OK);
        assert_int_equal(yk_clock_init(&r.clock, &r.rule, 0, 0, &e), YK_OK);
        for (unsigned k = 0; k < OWNERS; k++) {
            assert_int_equal(yk_server_init(&r.server[k], r.comm, &r.rule, k, &recipe,
                                            r.params.flat + yk_owner_at(k, OWNERS, COUNT), NULL,
                                            COUNT, k == 0 ? &r.clock : NULL, &watcher, &e),
                             YK_OK);
            r.comm->ops->attach(r.comm, (int)k, &yk_server_handler, &r.server[k]);
        }
        for (unsigned w = 0; w < WORKERS; w++) {
            assert_int_equal(yk_worker_init(&r.worker[w], r.comm, &r.rule, w, &r.params, true, &e),
                             YK_OK);
            r.comm->ops->attach(r.comm, yk_worker_endpoint(r.comm, (int)w), &yk_worker_handler,
                                &r.worker[w]);
        }
        cluster_start(&r, true);
        struct yk_traffic before[WORKERS], after;
        for (unsigned step = 0; step < STEPS; step++)
            for (unsigned w = 0; w < WORKERS; w++) {
                struct yk_task task;
                assert_true(yk_worker_pull(&r.worker[w], &task));
                for (uint32_t i = 0; i < KEYS; i++) {
                    key[0][i] = 10 * i + (uint32_t)task.id % 10;
                    key[1][i] = 10 * i + (uint32_t)task.ahead % 10;
                }
                assert_true(yk_worker_values(&r.worker[w], key[0], KEYS));
                for (uint32_t i = task.first; i < task.last; i++) {
                    struct yk_sink *sink = yk_worker_sink(&r.worker[w], i);
                    for (size_t k = 0; k < KEYS; k++)
                        sink->grad[k] = 1;
                    sink->ready(sink, 0, KEYS);
                }
                if (step == 1)
                    r.comm->ops->traffic(r.comm, yk_worker_endpoint(r.comm, (int)w), &before[w]);
                yk_worker_commit_keys(&r.worker[w], 0, task.ahead, key[1], KEYS);
            }
        for (unsigned w = 0; w < WORKERS; w++) {
            r.comm->ops->traffic(r.comm, yk_worker_endpoint(r.comm, (int)w), &after);
            double each =
                (double)(after.sent - before[w].sent + after.received - before[w].received) /
                ((STEPS - 1.0) * KEYS);
            assert_true(each > 11.9 && each <= 12.5);
            assert_int_equal(after.messages_sent - before[w].messages_sent, (STEPS - 1) * OWNERS);
            /* whatever the model, a worker has a few times its batch */
            assert_true(r.worker[w].keys.value_room <= 2 * KEYS &&
                        r.worker[w].sum_floats <= 2 * KEYS);
        }
        for (size_t i = 0; i < COUNT; i++)
            assert_true(r.params.flat[i] == (float)(i % 10 == 0 ? WORKERS * STEPS : 0));
        for (unsigned i = 0; i < YK_SLOTS; i++)
            r.slot[i] = NULL;
        cluster_close(&r);
    }
}

enum wrong {
    SHORT,    /* fewer gradients than keys */
    ODD,      /* not a whole number of floats */
    UNSORTED, /* next keys */
    TWICE,    /* the same key once more */
    FOREIGN,  /* another owner's key */
    HUGE,     /* more keys than the owner has */
    OTHER,    /* gradients of a list that was never asked for */
    SPAN,     /* shards that do not exist */
    WRONGS
};
static enum wrong wrong;
static unsigned spoilt;

/* The first push to owner 1 is not as it should be. */
static bool spoil(struct network *o, struct yk_note *n, char **data)
{
    if (n->kind != YK_PUSH || n->to != 1 || spoilt++ > 0)
        return true;
    const struct yk_worker *w = &o->cluster->worker[n->from - 2];
    size_t sums = (w->base + 1) * (w->keys.used_at[2] - w->keys.used_at[1]) * sizeof(float);
    uint32_t *next = (uint32_t *)(void *)(*data + sums);
    assert_true(n->bytes >= sums + 12);
    switch (wrong) {
    case SHORT:
        n->bytes = sums - 4;
        break;
    case ODD:
        n->bytes -= 1;
        break;
    case UNSORTED:
        next[0] = next[1] + 1;
        break;
    case TWICE:
        next[1] = next[0];
        break;
    case FOREIGN:
        next[0] = 1;
        break;
    case HUGE:
        *data = realloc(*data, n->bytes + 100 * sizeof(uint32_t));
        assert_non_null(*data);
        memset(*data + n->bytes, 1, 100 * sizeof(uint32_t));
        n->bytes += 100 * sizeof(uint32_t);
        break;
    case OTHER:
        n->push.ask += 1;
        break;
    case SPAN:
        n->push.last = 13;
        break;
    case WRONGS:
        break;
    }
    return true;
}

/* A push that does not fit what was agreed is not believed: nothing is read or written where it
 * should not be (the sanitizers look), nothing of it is applied, and the job ends with a reason. */
static void test_wrong(void **state)
{
    (void)state;
    for (wrong = 0; wrong < WRONGS; wrong++) {
        const struct yk_rule rule = cluster_sparse(cluster_batches(2, 2, 25));
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        cluster_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
        r.touch = cluster_some;
        network_open(&o, &r);
        spoilt = 0;
        o.intercept = spoil;
        cluster_start(&r, true);
        yk_rng_init(&rng, wrong, 6, 0, 0);
        for (uint64_t i = 0; i < 100000 && r.server[0].failed == YK_OK; i++)
            network_event(&o, &rng);
        assert_true(r.server[0].failed == YK_FAILED && r.server[0].state == YK_SERVER_ENDED &&
                    strstr(r.server[0].why, "owner 1 cannot go on") != NULL);
        assert_true(r.steps <= 1); /* owner 0 may have had its part of the first step */
        for (size_t i = yk_owner_at(1, 2, CLUSTER_ROWS); i < CLUSTER_ROWS; i++)
            assert_true(r.params.flat[i] == 0);
        for (uint64_t i = 0; i < 100000 && o.under_way > 0; i++)
            network_event(&o, &rng);
        for (unsigned w = 0; w < 2; w++)
            assert_int_equal(r.worker[w].failed, YK_LOST);
        network_close(&o);
    }
}

/* --- a worker's end: values are taken for the keys that were asked for, and for no others --- */

/* Values for another list, from nobody, or too many of them are not taken. */
static void test_wrong_values(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_sparse(cluster_batches(2, 2, 25));
    struct cluster r;
    cluster_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
    r.touch = cluster_some;
    cluster_start(&r, true);
    assert_true(cluster_pull(&r, 0) && cluster_values(&r, 0));
    cluster_push(&r, 0);
    const struct yk_worker_keys *k = &r.worker[0].keys;
    float data[CLUSTER_ROWS] = {0};
    size_t bytes = (k->at[2] - k->at[1]) * sizeof(float);
    const struct yk_note right = {.kind = YK_VALUES, .from = 1, .task.ask = k->ask, .bytes = bytes};
    for (unsigned i = 0; i < 5; i++) {
        struct yk_note n = right;
        n.task.ask += i == 0;
        n.from = i == 1 ? 2 : n.from;
        n.bytes += i == 2 ? 4 : i == 3 ? 400 : 0;
        n.bytes -= i == 4 ? 4 : 0;
        assert_null(yk_worker_handler.place(&r.worker[0], &n));
        yk_worker_handler.arrive(&r.worker[0], &n, data);
        assert_int_equal(k->missing, 2);
    }
    assert_non_null(yk_worker_handler.place(&r.worker[0], &right));
    yk_worker_handler.arrive(&r.worker[0], &right, data);
    yk_worker_handler.arrive(&r.worker[0], &right, data); /* once */
    assert_int_equal(k->missing, 1);
    cluster_close(&r);
}

/* Examples of a batch of twelve share keys in groups, so that lists of other shards are as long
 * and have other keys in them: the second of three workers has groups 1 and 2, the first of two
 * that are left has 0 and 1. */
static bool in_groups(uint64_t e, size_t i)
{
    static const uint8_t GROUP[12] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3};
    e %= CLUSTER_ROWS;
    return i == 1 + (e / 12) * 4 + GROUP[e % 12];
}

/* A worker is lost while the next values of the others are under way: those that come for its
 * old shards are not taken for the new ones', though there are as many. */
static void test_equal_lengths(void **state)
{
    (void)state;
    float expected[CLUSTER_ROWS];
    uint64_t again = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct yk_rule rule = cluster_sparse(
            cluster_batches(seed == 0 ? 1 : 3, seed == 0 ? 1 : 1 + (unsigned)seed % 3, 25));
        struct network o;
        struct cluster r;
        struct yk_rng rng;
        rule.batch = 12;
        cluster_open(&r, &rule, yk_optimizer_find("adagrad"), NULL);
        r.touch = in_groups;
        network_open(&o, &r);
        cluster_start(&r, true);
        yk_rng_init(&rng, seed, 7, 0, 0);
        uint64_t when = 100 + yk_rng_below(&rng, 1500);
        for (uint64_t i = 0; r.server[0].state < YK_SERVER_ENDED || o.under_way > 0; i++) {
            if (i > 3000000)
                fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
            if (seed > 0 && i == when && r.server[0].state < YK_SERVER_ENDED)
                network_lose_worker(&o, 0, &rng);
            network_event(&o, &rng);
        }
        assert_true(r.server[0].failed == YK_OK && r.steps == 25);
        if (seed == 0)
            memcpy(expected, r.params.flat, sizeof expected);
        else if (memcmp(r.params.flat, expected, sizeof expected) != 0)
            fail_msg("seed %d: the bits of a run with a loss are others", (int)seed);
        again += seed > 0 && r.driver[1].asked_twice > 3; /* an epoch's first, and once more */
        network_close(&o);
    }
    assert_true(again > 20); /* or the test has not met the case that it is for */
}

/* Values are those of the task and the shards that they were asked for, not just as many. */
static void test_whose_values(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_sparse(cluster_batches(2, 2, 25));
    struct cluster r;
    bool over;
    cluster_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
    r.touch = cluster_own;
    cluster_start(&r, true);
    for (unsigned w = 0; w < 2; w++) {
        assert_true(cluster_pull(&r, w) && cluster_values(&r, w));
        cluster_push(&r, w);
    }
    assert_true(cluster_pull(&r, 0));
    struct yk_worker *w = &r.worker[0];
    const struct yk_task task = w->task;
    size_t keys =
        cluster_at(&r, &task, task.id, task.last) - cluster_at(&r, &task, task.id, task.first);
    assert_true(keys > 0 && w->keys.missing == 0 && w->keys.n == keys);
    for (unsigned i = 0; i < 4; i++) {
        w->task.id = task.id + (i == 0 ? CLUSTER_BATCH : 0);
        w->task.first = task.first + (i == 1);
        w->task.last = task.last - (i == 2);
        assert_false(yk_worker_have_values(w, keys + (i == 3), &over) || over);
        w->task = task;
    }
    assert_true(yk_worker_have_values(w, keys, &over));
    assert_false(yk_worker_have_values(w, keys, &over)); /* once */
    cluster_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),         cmocka_unit_test(test_threads),
        cmocka_unit_test(test_once),         cmocka_unit_test(test_staleness),
        cmocka_unit_test(test_late_values),  cmocka_unit_test(test_losses),
        cmocka_unit_test(test_torn),         cmocka_unit_test(test_replace),
        cmocka_unit_test(test_bytes),        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_wrong_values), cmocka_unit_test(test_equal_lengths),
        cmocka_unit_test(test_whose_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
