/* members_test.c - losses, fences and replacement: training goes on when a worker is lost, with
 * no push lost or applied twice and, in whole batches, with the bits of the undisturbed run;
 * also stop and failure. Threads do not die, so the test reports losses in the engine's place. */
#include "tests/sim_cluster.h"

/* Worker w is lost, as the engine would tell owner 0. */
static void lose(struct cluster *r, unsigned w)
{
    r->comm->ops->lock(r->comm, 0);
    yk_server_handler.lost(&r->server[0], yk_worker_endpoint(r->comm, (int)w),
                           "its process is gone");
    r->comm->ops->unlock(r->comm, 0);
}

/* At any moment of any step: the survivors do the open step again, with the lost one's shards,
 * and every bit is as if nothing had been. What the lost one pushes afterwards is dropped, and
 * it is told to leave. */
static void test_whole_batches(void **state)
{
    (void)state;
    float expected[CLUSTER_ROWS];
    struct yk_rule rule = cluster_rule(YK_MODE_sync, 4, 1);
    struct cluster r;
    rule.shards = 12;
    rule.last_step = 25;
    cluster_open(&r, &rule, yk_optimizer_find("adam"), cluster_noise);
    cluster_start(&r, true);
    cluster_play(&r, 1, false);
    memcpy(expected, r.params.flat, sizeof expected);
    cluster_close(&r);
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct yk_rng rng;
        uint64_t events = 0, first, second;
        yk_rng_init(&rng, seed, 0, 0, 0);
        cluster_open(&r, &rule, yk_optimizer_find("adam"), cluster_noise);
        cluster_start(&r, true);
        first = yk_rng_below(&rng, 300);
        second = first +
                 yk_rng_below(&rng, 100); /* the second may be lost while the step is done again */
        for (; events < 100000 && r.steps < rule.last_step; events++) {
            if (events == first)
                lose(&r, 1);
            if (events == second)
                lose(&r, 3);
            cluster_event(
                &r,
                yk_rng_below(&rng, 4)); /* the lost ones, too, go on for a while: they only slept */
        }
        assert_int_equal(r.steps, rule.last_step);
        assert_memory_equal(r.params.flat, expected, sizeof expected);
        assert_int_equal(r.examples, 2 * CLUSTER_ROWS + 3 * CLUSTER_BATCH);
        assert_true(!r.clock.member[1].alive || first >= events);
        for (unsigned w = 0; w < 4 && events > second; w++) {
            assert_int_equal(r.worker[w].state == YK_WORKER_FENCED, w % 2 == 1);
            while (r.driver[w].busy)
                cluster_push_piece(&r, w);
            assert_false(cluster_pull(&r, w));
        }
        assert_true(r.server[0].state == YK_SERVER_ENDED || events <= second);
        assert_memory_equal(r.params.flat, expected, sizeof expected);
        cluster_close(&r);
    }
}

/* Parts are dealt again: with any worker lost at any moment, every example is applied exactly
 * once an epoch. */
static void test_parts(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 3; kind++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct yk_rule rule = kind == 0   ? cluster_rule(YK_MODE_async, 4, 1)
                                  : kind == 1 ? cluster_rule(YK_MODE_ssp, 4, 1)
                                              : cluster_backup_rule(4, 1, 1);
            struct cluster r;
            struct yk_rng rng;
            unsigned lost = (unsigned)seed % 4;
            rule.last_step = 3 * (uint64_t)((CLUSTER_PARTS + rule.need - 1) / rule.need);
            cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
            cluster_start(&r, true);
            yk_rng_init(&rng, seed, kind, 0, 0);
            uint64_t when = yk_rng_below(&rng, 100); /* half of the run */
            /* where a push is applied piece by piece, one that was under way leaves a part
             * behind: here none is */
            for (uint64_t i = 0;
                 i < when || (kind < 2 && r.driver[lost].busy && r.driver[lost].stage > 0); i++)
                cluster_event(&r, yk_rng_below(&rng, 4));
            lose(&r, lost);
            bool asleep = r.driver[lost].busy;
            for (unsigned i = 0; i < 100000 && r.steps < rule.last_step; i++) {
                unsigned w = yk_rng_below(&rng, 4);
                if (w != lost)
                    cluster_event(&r, w);
            }
            assert_int_equal(r.steps, rule.last_step);
            cluster_assert_counts(&r, 3);
            bool over = r.server[0].state == YK_SERVER_ENDED; /* then nobody counts any more */
            while (r.driver[lost].busy) /* it wakes up and pushes what it was at */
                cluster_push_piece(&r, lost);
            cluster_assert_counts(&r, 3);
            assert_true(r.steps == rule.last_step &&
                        (!asleep || over || r.clock.member[lost].ledger.dropped > 0));
            assert_false(cluster_pull(&r, lost));
            assert_true(r.worker[lost].state == YK_WORKER_FENCED);
            for (unsigned w = 0; w < 4; w++)
                while (!r.driver[w].stopped && w != lost)
                    cluster_event(&r, w);
            assert_true(r.server[0].state == YK_SERVER_ENDED && !r.clock.member[lost].alive &&
                        r.clock.alive == 3);
            cluster_close(&r);
        }
}

/* ssp: nobody waits for the dead. */
static void test_ssp(void **state)
{
    (void)state;
    struct yk_rule rule = cluster_rule(YK_MODE_ssp, 2, 1);
    struct cluster r;
    rule.staleness = 1;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    cluster_start(&r, true);
    assert_true(cluster_pull(&r, 0) && cluster_pull(&r, 1));
    cluster_push(&r, 0);
    assert_true(cluster_pull(&r, 0));
    cluster_push(&r, 0);
    assert_false(cluster_answered(&r, 0));
    lose(&r, 1);
    assert_true(cluster_answered(&r, 0));
    cluster_close(&r);
}

/* All that is left of a step with backups are fewer workers than it takes: each does several of
 * its parts. */
static void test_fewer_than_needed(void **state)
{
    (void)state;
    struct yk_rule rule = cluster_backup_rule(3, 1, 1);
    struct cluster r;
    rule.last_step = 6; /* an epoch is 11 parts: five steps of two, one of one */
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    cluster_start(&r, true);
    for (unsigned w = 0; w < 3; w++)
        assert_true(cluster_pull(&r, w));
    lose(&r, 0);
    lose(&r, 1);
    cluster_push(&r, 2);
    assert_int_equal(r.steps, 0);
    assert_true(cluster_answered(&r, 2)); /* a further part of the same step */
    assert_true(cluster_pull(&r, 2));
    assert_true(r.driver[2].task.step == 0 && r.driver[2].task.id == 0 &&
                r.clock.member[2].ledger.dropped == 0);
    cluster_push(&r, 2);
    assert_true(r.steps == 1 && r.examples == 2 * CLUSTER_BATCH &&
                r.clock.member[2].ledger.steps == 2);
    assert_true(cluster_pull(&r, 2) && r.driver[2].task.step == 1 && r.driver[2].task.id == 10);
    cluster_close(&r);
}

/* When a lost worker is to be replaced, the step is finished, nobody begins another, and owner 0
 * calls; then all go on, with it or without. */
static void test_replace(void **state)
{
    (void)state;
    for (unsigned pooled = 0; pooled < 2; pooled++)
        for (unsigned done = 0; done < 2; done++) {
            struct yk_rule rule = cluster_rule(pooled ? YK_MODE_async : YK_MODE_sync, 3, 1);
            struct cluster r;
            rule.shards = pooled ? 1 : 12;
            rule.last_step = 3 * CLUSTER_PARTS;
            cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
            r.replaces = true;
            cluster_start(&r, true);
            for (unsigned w = 0; w < 3; w++)
                assert_true(cluster_pull(&r, w));
            lose(&r, 1);
            for (unsigned w = 0; w < 3; w += 2) {
                assert_false(r.server[0].replace.called);
                cluster_push(&r, w);
            }
            for (unsigned w = 0; !pooled && w < 3;
                 w += 2) { /* that was for the old incarnation; once more */
                assert_true(cluster_pull(&r, w));
                assert_true(r.driver[w].task.incarnation == 1 && r.driver[w].task.step == 0);
                assert_false(r.server[0].replace.called);
                cluster_push(&r, w);
            }
            assert_true(r.server[0].replace.called && r.steps == (pooled ? 2 : 1));
            assert_false(cluster_answered(&r, 0) || cluster_answered(&r, 2));
            r.comm->ops->lock(r.comm, 0);
            yk_server_replaced(&r.server[0], 1, done);
            r.comm->ops->unlock(r.comm, 0);
            assert_true(cluster_answered(&r, 0) && cluster_answered(&r, 2));
            assert_int_equal(r.clock.alive, done ? 3 : 2);
            if (done) { /* a new process has a new worker */
                struct yk_error e;
                struct yk_worker *w = &r.worker[1];
                yk_worker_release(w);
                assert_int_equal(yk_worker_init(w, r.comm, &r.rule, 1, &r.params, pooled, &e),
                                 YK_OK);
                r.driver[1] = (struct cluster_driver){0};
                yk_worker_start(w);
                assert_true(cluster_answered(&r, 1));
            } else {
                r.driver[1].busy = false;
                r.driver[1].stopped = true;
            }
            cluster_play(&r, done, false);
            assert_true(r.steps == rule.last_step && (r.driver[1].pushes > 0) == (done != 0));
            cluster_assert_counts(&r, 3);
            cluster_close(&r);
        }
}

/* Two are lost before the first has been replaced: there is a meeting for each, and the new ones
 * are those that were met for. */
static void test_replace_two(void **state)
{
    (void)state;
    struct yk_rule rule = cluster_rule(YK_MODE_sync, 4, 1);
    struct cluster r;
    rule.shards = 12;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    r.replaces = true;
    cluster_start(&r, true);
    for (unsigned w = 0; w < 4; w++)
        assert_true(cluster_pull(&r, w));
    lose(&r, 3);
    lose(&r, 1);
    for (unsigned i = 0; i < 2; i++) /* once for the old incarnation */
        for (unsigned w = 0; w < 4; w += 2) {
            if (i > 0)
                assert_true(cluster_pull(&r, w));
            cluster_push(&r, w);
        }
    assert_true(r.server[0].replace.called && r.server[0].replace.worker == 1);
    r.comm->ops->lock(r.comm, 0);
    yk_server_replaced(&r.server[0], 1, true);
    bool second = r.server[0].replace.called;
    r.comm->ops->unlock(r.comm, 0);
    assert_false(second); /* the first has not come yet, so not everybody waits */
    struct yk_error e;
    yk_worker_release(&r.worker[1]);
    assert_int_equal(yk_worker_init(&r.worker[1], r.comm, &r.rule, 1, &r.params, false, &e), YK_OK);
    r.driver[1] = (struct cluster_driver){0};
    yk_worker_start(&r.worker[1]);
    assert_true(r.server[0].replace.called && r.server[0].replace.worker == 3);
    r.comm->ops->lock(r.comm, 0);
    yk_server_replaced(&r.server[0], 3, false);
    r.comm->ops->unlock(r.comm, 0);
    assert_true(r.clock.alive == 3 && r.clock.member[1].alive && !r.clock.member[3].alive);
    assert_true(cluster_answered(&r, 0) && cluster_answered(&r, 1) && cluster_answered(&r, 2));
    cluster_close(&r);
}

/* Stopped in the middle of a whole batch, and then somebody is lost: the batch is completed all
 * the same, and everybody hears of the end. */
static void test_stop_and_lose(void **state)
{
    (void)state;
    for (unsigned backup = 0; backup < 2; backup++)
        for (unsigned when = 0; when < 4; when++) {
            struct yk_rule rule =
                backup ? cluster_backup_rule(3, 1, 1) : cluster_rule(YK_MODE_sync, 3, 1);
            struct cluster r;
            rule.shards = backup ? 1 : 12;
            cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
            cluster_start(&r, true);
            for (unsigned w = 0; w < 3; w++)
                assert_true(cluster_pull(&r, w));
            for (unsigned w = 0; w < when && w < 2; w++)
                cluster_push(&r, w);
            r.comm->ops->lock(r.comm, 0);
            yk_server_stop(&r.server[0]);
            r.comm->ops->unlock(r.comm, 0);
            unsigned lost = when == 3 ? 0 : 2;
            lose(&r, lost);
            r.driver[lost].busy = false;
            r.driver[lost].stopped = true;
            cluster_play(&r, when, false);
            assert_true(r.server[0].state == YK_SERVER_ENDED);
            if (!backup)
                assert_true(r.steps == 1 && r.examples == CLUSTER_BATCH);
            cluster_close(&r);
        }
}

/* Stopped when a new worker has not asked for its part of the open batch yet: it gets it, or the
 * others would wait for ever. */
static void test_stop_and_join(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_sync, 3, 1);
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    cluster_start(&r, false);
    for (unsigned w = 0; w < 2; w++) {
        yk_worker_start(&r.worker[w]);
        assert_true(cluster_pull(&r, w));
        cluster_push(&r, w);
    }
    r.comm->ops->lock(r.comm, 0);
    yk_server_stop(&r.server[0]);
    r.comm->ops->unlock(r.comm, 0);
    yk_worker_start(&r.worker[2]);
    cluster_play(&r, 1, false);
    assert_true(r.steps == 1 && r.examples == CLUSTER_BATCH);
    cluster_close(&r);
}

/* Async, several owners: the state that owner 0 asks for has everything that it has counted
 * itself. */
static void test_gather(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_async, 2, 2);
    struct cluster r;
    uint64_t counted[2] = {3, 1};
    struct yk_note ask = {.from = 0, .to = 1, .kind = YK_STILL, .step = 4, .bytes = sizeof counted};
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    struct yk_server *s = &r.server[1];
    s->applied[0] = 3;
    r.comm->ops->lock(r.comm, 1);
    void *place = yk_server_handler.place(s, &ask);
    assert_non_null(place);
    memcpy(place, counted, sizeof counted);
    yk_server_handler.arrive(s, &ask, place);
    assert_true(s->still.wanted); /* a push of worker 1 is still on its way */
    struct yk_note fence = {
        .from = 0, .to = 1, .kind = YK_FENCE, .member.worker = 1, .incarnation = UINT32_MAX};
    yk_server_handler.arrive(s, &fence, NULL);
    assert_false(s->still.wanted); /* and will not come any more */
    r.comm->ops->unlock(r.comm, 1);
    cluster_close(&r);
}

/* What comes over the wire is looked at before it is believed. */
static void test_unsound(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_async, 2, 2);
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    struct yk_server *s = &r.server[1];
    const struct yk_note BAD[] = {
        {.kind = YK_STATE, .state.lo = r.params.count - 1, .bytes = 8},
        {.kind = YK_STATE, .state.lo = UINT64_MAX, .bytes = 8},
        {.kind = YK_STATE, .state.which = 99, .bytes = 8},
        {.kind = YK_PUSH, .from = 0, .push.lo = s->owner.lo, .bytes = 8},
        {.kind = YK_PUSH, .from = 4, .push.lo = s->owner.lo, .bytes = 8},
        {.kind = YK_FENCE, .member.worker = 2},
        {.kind = YK_REPLACE, .member.worker = 2},
        {.kind = YK_SET, .bytes = 1 << 20},
        {.kind = YK_STILL, .bytes = 8},
    };
    r.comm->ops->lock(r.comm, 1);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_null(yk_server_handler.place(s, &BAD[i]));
        if (BAD[i].kind != YK_STATE && BAD[i].kind != YK_STILL)
            yk_server_handler.arrive(s, &BAD[i], NULL);
    }
    assert_true(s->owner.step == 0 && !s->replace.called);
    r.comm->ops->unlock(r.comm, 1);
    cluster_close(&r);
}

/* A dense push of a worker that may send one, to the whole range of owner 1 and no further. */
static void test_oversized_push(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_async, 2, 2);
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    struct yk_server *s = &r.server[1];
    const uint64_t lo = s->owner.lo, hi = s->owner.hi, whole = (hi - lo) * sizeof(float);
    const struct {
        uint64_t lo, bytes;
    } BAD[] = {
        {lo, whole + 4},
        {hi - 1, 8},
        {hi, 4},
        {hi + 1, 4},
        {lo - 1, 4},
        {UINT64_MAX, 4},
        {UINT64_MAX, 8},
        {0, whole},
        {lo, UINT64_MAX},
        {hi, UINT64_MAX},
        {hi - 1, UINT64_MAX - 3},
        {UINT64_MAX / 4, 8},
        {lo, UINT64_MAX / 4 + 1},
        {(UINT64_MAX >> 2) + 1, 4},
    };
    r.comm->ops->lock(r.comm, 1);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct yk_note n = {.kind = YK_PUSH,
                            .from = 2,
                            .to = 1,
                            .push = {.id = i, .lo = BAD[i].lo},
                            .bytes = BAD[i].bytes,
                            .examples = 1};
        assert_null(yk_server_handler.place(s, &n));
        yk_server_handler.arrive(s, &n, NULL);
    }
    assert_int_equal(s->owner.step, 0);
    for (size_t i = 0; i < CLUSTER_ROWS; i++)
        assert_true(r.params.flat[i] == 0);
    struct yk_note right = {.kind = YK_PUSH,
                            .from = 2,
                            .to = 1,
                            .push = {.id = 99, .lo = lo},
                            .bytes = whole,
                            .examples = 1};
    assert_non_null(yk_server_handler.place(s, &right));
    right.push.lo = hi - 1;
    right.bytes = 4;
    assert_non_null(yk_server_handler.place(s, &right));
    r.comm->ops->unlock(r.comm, 1);
    cluster_close(&r);
}

/* Dense parameters of an owner: its range of the worker's parameters and no further. */
static void test_oversized_reply(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_async, 2, 2);
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    struct yk_worker *w = &r.worker[0];
    const uint64_t lo = r.server[1].owner.lo, hi = r.server[1].owner.hi,
                   whole = (hi - lo) * sizeof(float);
    const struct {
        uint16_t from;
        uint64_t lo, bytes;
    } BAD[] = {
        {1, lo, whole + 4},
        {1, hi - 1, 8},
        {1, hi, 4},
        {1, hi + 1, 4},
        {1, lo - 1, 4},
        {1, UINT64_MAX, 8},
        {1, lo, UINT64_MAX},
        {1, hi, UINT64_MAX},
        {0, 0, hi * 4},
        {0, lo, 4},
        {0, lo - 1, 8},
        {2, lo, 4},
        {3, 0, 4},
        {UINT16_MAX, 0, 4},
        {1, UINT64_MAX / 4, 8},
        {1, lo, UINT64_MAX / 4 + 1},
        {0, 0, UINT64_MAX - 3},
    };
    r.comm->ops->lock(r.comm, yk_worker_endpoint(r.comm, 0));
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
            struct yk_note n = {.kind = kind ? YK_PIECE : YK_REPLY,
                                .from = BAD[i].from,
                                .to = 2,
                                .task.lo = BAD[i].lo,
                                .bytes = BAD[i].bytes};
            assert_null(yk_worker_handler.place(w, &n));
        }
        struct yk_note right = {
            .kind = kind ? YK_PIECE : YK_REPLY, .from = 1, .to = 2, .task.lo = lo, .bytes = whole};
        assert_ptr_equal(yk_worker_handler.place(w, &right), w->fresh + lo);
        right =
            (struct yk_note){.kind = right.kind, .from = 0, .to = 2, .task.lo = lo - 1, .bytes = 4};
        assert_ptr_equal(yk_worker_handler.place(w, &right), w->fresh + lo - 1);
    }
    r.comm->ops->unlock(r.comm, yk_worker_endpoint(r.comm, 0));
    cluster_close(&r);
}

/* A worker dies while the engine receives from it: the buffer is given up, and its slot serves
 * others. */
static void test_abandoned(void **state)
{
    (void)state;
    struct yk_pending t;
    struct yk_note n = {.kind = YK_PUSH, .bytes = 8};
    assert_int_equal(yk_pending_init(&t, 2, 0, 16, NULL), YK_OK);
    for (unsigned i = 0; i < 100; i++) {
        n.push.id = i;
        float *a = yk_pending_place(&t, 1, &n);
        assert_non_null(a);
        assert_non_null(yk_pending_place(&t, 0, &n));
        yk_pending_around(&t, a)->used = false;
        yk_pending_abandon(&t, 1);
        assert_null(yk_pending_around(&t, a));
        yk_pending_find(&t, 0, &n)->receiving = 0;
        yk_pending_forget(&t);
    }
    yk_pending_release(&t);
}

/* Nobody is left: the job has failed, and says so. */
static void test_all_lost(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_async, 2, 1);
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    cluster_start(&r, true);
    lose(&r, 0);
    assert_int_equal(r.server[0].failed, YK_OK);
    lose(&r, 1);
    assert_int_equal(r.server[0].failed, YK_LOST);
    assert_non_null(strstr(r.server[0].why, "all workers are lost"));
    assert_true(r.server[0].state == YK_SERVER_ENDED);
    cluster_close(&r);
}

/* A job that fails ends for everybody: workers come back from their pull, nothing is applied any
 * more, and the first reason stands. */
static void test_fail(void **state)
{
    (void)state;
    const struct yk_rule rule = cluster_rule(YK_MODE_async, 3, 3);
    struct cluster r;
    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
    cluster_start(&r, true);
    for (unsigned w = 0; w < 3; w++)
        assert_true(cluster_pull(&r, w));
    cluster_push(&r, 0);
    r.comm->ops->lock(r.comm, 0);
    yk_server_fail(&r.server[0], YK_LOST, "owner 2 is lost");
    yk_server_fail(&r.server[0], YK_FAILED, "something else");
    r.comm->ops->unlock(r.comm, 0);
    assert_int_equal(r.server[0].failed, YK_LOST);
    assert_string_equal(r.server[0].why, "owner 2 is lost");
    for (unsigned k = 1; k < 3; k++)
        assert_true(r.server[k].failed == YK_LOST && r.server[k].state == YK_SERVER_CLOSED);
    cluster_push(&r, 1);
    assert_int_equal(r.steps, 1);
    for (unsigned w = 0; w < 2; w++) {
        assert_false(cluster_pull(&r, w));
        assert_int_equal(r.worker[w].failed, YK_LOST);
    }
    cluster_close(&r);

    cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark); /* an owner that is lost ends the job */
    cluster_start(&r, true);
    r.comm->ops->lock(r.comm, 0);
    yk_server_handler.lost(&r.server[0], 2, "its process is gone");
    r.comm->ops->unlock(r.comm, 0);
    assert_int_equal(r.server[0].failed, YK_LOST);
    assert_string_equal(r.server[0].why, "owner 2 is lost: its process is gone");
    cluster_close(&r);
    cluster_open(&r, &rule, &CLUSTER_COUNT,
                 cluster_mark); /* and so does the clock, for the others */
    r.comm->ops->lock(r.comm, 1);
    yk_server_handler.lost(&r.server[1], 0, "it was silent for 10 s");
    r.comm->ops->unlock(r.comm, 1);
    assert_true(r.server[1].failed == YK_LOST && r.server[1].state == YK_SERVER_CLOSED);
    yk_worker_handler.lost(&r.worker[0], 0, "it was silent for 10 s");
    assert_false(cluster_pull(&r, 0));
    assert_string_equal(r.worker[0].why, "owner 0 is lost: it was silent for 10 s");
    cluster_close(&r);
}

/* A stop from outside, before the first step and in the middle; and the last word. */
static void test_stop(void **state)
{
    (void)state;
    for (unsigned pooled = 0; pooled < 2; pooled++)
        for (uint64_t seed = 0; seed < 30; seed++) {
            const struct yk_rule rule = cluster_rule(pooled ? YK_MODE_async : YK_MODE_sync, 3, 2);
            struct cluster r;
            struct yk_rng rng;
            cluster_open(&r, &rule, &CLUSTER_COUNT, cluster_mark);
            cluster_start(&r, true);
            yk_rng_init(&rng, seed, 0, 0, 0);
            for (uint64_t i = 0; i < seed * seed; i++)
                cluster_event(&r, yk_rng_below(&rng, 3));
            r.comm->ops->lock(r.comm, 0);
            yk_server_stop(&r.server[0]);
            r.comm->ops->unlock(r.comm, 0);
            cluster_play(&r, seed, false);
            double applied = 0;
            for (size_t k = 0; k < CLUSTER_ROWS; k++)
                applied += (double)r.params.flat[k];
            assert_int_equal(r.examples, applied);
            for (unsigned k = 0; k < 2; k++)
                assert_int_equal(r.server[k].owner.step, r.steps);
            r.comm->ops->lock(r.comm, 0);
            yk_server_close(&r.server[0], seed % 2 == 0);
            r.comm->ops->unlock(r.comm, 0);
            assert_true(r.server[1].state == YK_SERVER_CLOSED &&
                        r.server[1].clean == (seed % 2 == 0));
            for (unsigned w = 0; w < 3; w++)
                assert_true(r.worker[w].state == YK_WORKER_CLOSED &&
                            r.worker[w].clean == (seed % 2 == 0));
            cluster_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_batches),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_ssp),
        cmocka_unit_test(test_fewer_than_needed),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_all_lost),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_replace_two),
        cmocka_unit_test(test_stop_and_lose),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_unsound),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_stop_and_join),
        cmocka_unit_test(test_oversized_push),
        cmocka_unit_test(test_oversized_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
