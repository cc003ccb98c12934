/* server_job_test.c - what an owner does beside steps: go on when a worker is lost, with nothing lost or doubled and, in whole batches, with the
 * bits of the undisturbed run; replace it; stop; fail. In threads nobody dies, so the test says it for the engine. */
#include "tests/rig.h"

/* Worker w is lost, as the engine would tell owner 0. */
static void lose(struct rig *r, unsigned w)
{
    r->comm->ops->lock(r->comm, 0);
    yk_server_handler.lost(&r->server[0], yk_worker_endpoint(r->comm, (int)w),
                           "its process is gone");
    r->comm->ops->unlock(r->comm, 0);
}

/* At any moment of any step: the survivors do the open step again, with the lost one's shards, and every bit is as if nothing had been. What
 * the lost one pushes afterwards is dropped, and it is told to leave. */
static void test_whole_batches(void **state)
{
    (void)state;
    float expected[RIG_ROWS];
    struct yk_rule rule = rig_rule(YK_MODE_sync, 4, 1);
    struct rig r;
    rule.shards = 12;
    rule.last_step = 25;
    rig_open(&r, &rule, yk_optimizer_find("adam"), rig_noise);
    rig_start(&r, true);
    rig_play(&r, 1, false);
    memcpy(expected, r.params.flat, sizeof expected);
    rig_close(&r);
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct yk_rng rng;
        uint64_t events = 0, first, second;
        yk_rng_init(&rng, seed, 0, 0, 0);
        rig_open(&r, &rule, yk_optimizer_find("adam"), rig_noise);
        rig_start(&r, true);
        first = yk_rng_below(&rng, 300);
        second = first +
                 yk_rng_below(&rng, 100); /* the second may be lost while the step is done again */
        for (; events < 100000 && r.steps < rule.last_step; events++) {
            if (events == first)
                lose(&r, 1);
            if (events == second)
                lose(&r, 3);
            rig_event(
                &r,
                yk_rng_below(&rng, 4)); /* the lost ones, too, go on for a while: they only slept */
        }
        assert_int_equal(r.steps, rule.last_step);
        assert_memory_equal(r.params.flat, expected, sizeof expected);
        assert_int_equal(r.examples, 2 * RIG_ROWS + 3 * RIG_BATCH);
        assert_true(!r.clock.member[1].alive || first >= events);
        for (unsigned w = 0; w < 4 && events > second; w++) {
            assert_int_equal(r.worker[w].fenced, w % 2 == 1);
            while (r.hand[w].busy)
                rig_push_piece(&r, w);
            assert_false(rig_pull(&r, w));
        }
        assert_true(r.server[0].ended || events <= second);
        assert_memory_equal(r.params.flat, expected, sizeof expected);
        rig_close(&r);
    }
}

/* Parts are dealt again: with any worker lost at any moment, every example is applied exactly once an epoch. */
static void test_parts(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 3; kind++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct yk_rule rule = kind == 0   ? rig_rule(YK_MODE_async, 4, 1)
                                  : kind == 1 ? rig_rule(YK_MODE_ssp, 4, 1)
                                              : rig_backup_rule(4, 1, 1);
            struct rig r;
            struct yk_rng rng;
            unsigned lost = (unsigned)seed % 4;
            rule.last_step = 3 * (uint64_t)((RIG_PARTS + rule.need - 1) / rule.need);
            rig_open(&r, &rule, &RIG_COUNT, rig_mark);
            rig_start(&r, true);
            yk_rng_init(&rng, seed, kind, 0, 0);
            uint64_t when = yk_rng_below(&rng, 100); /* half of the run */
            /* where a push is applied piece by piece, one that was under way leaves a part behind: here none is */
            for (uint64_t i = 0;
                 i < when || (kind < 2 && r.hand[lost].busy && r.hand[lost].stage > 0); i++)
                rig_event(&r, yk_rng_below(&rng, 4));
            lose(&r, lost);
            bool asleep = r.hand[lost].busy;
            for (unsigned i = 0; i < 100000 && r.steps < rule.last_step; i++) {
                unsigned w = yk_rng_below(&rng, 4);
                if (w != lost)
                    rig_event(&r, w);
            }
            assert_int_equal(r.steps, rule.last_step);
            rig_assert_counts(&r, 3);
            bool over = r.server[0].ended; /* then nobody counts any more */
            while (r.hand[lost].busy)      /* it wakes up and pushes what it was at */
                rig_push_piece(&r, lost);
            rig_assert_counts(&r, 3);
            assert_true(r.steps == rule.last_step &&
                        (!asleep || over || r.clock.member[lost].ledger.dropped > 0));
            assert_false(rig_pull(&r, lost));
            assert_true(r.worker[lost].fenced);
            for (unsigned w = 0; w < 4; w++)
                while (!r.hand[w].stopped && w != lost)
                    rig_event(&r, w);
            assert_true(r.server[0].ended && !r.clock.member[lost].alive && r.clock.alive == 3);
            rig_close(&r);
        }
}

/* ssp: nobody waits for the dead. */
static void test_ssp(void **state)
{
    (void)state;
    struct yk_rule rule = rig_rule(YK_MODE_ssp, 2, 1);
    struct rig r;
    rule.staleness = 1;
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    rig_start(&r, true);
    assert_true(rig_pull(&r, 0) && rig_pull(&r, 1));
    rig_push(&r, 0);
    assert_true(rig_pull(&r, 0));
    rig_push(&r, 0);
    assert_false(rig_answered(&r, 0));
    lose(&r, 1);
    assert_true(rig_answered(&r, 0));
    rig_close(&r);
}

/* All that is left of a step with backups are fewer workers than it takes: each does several of its parts. */
static void test_fewer_than_needed(void **state)
{
    (void)state;
    struct yk_rule rule = rig_backup_rule(3, 1, 1);
    struct rig r;
    rule.last_step = 6; /* an epoch is 11 parts: five steps of two, one of one */
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    rig_start(&r, true);
    for (unsigned w = 0; w < 3; w++)
        assert_true(rig_pull(&r, w));
    lose(&r, 0);
    lose(&r, 1);
    rig_push(&r, 2);
    assert_int_equal(r.steps, 0);
    assert_true(rig_answered(&r, 2)); /* a further part of the same step */
    assert_true(rig_pull(&r, 2));
    assert_true(r.hand[2].task.step == 0 && r.hand[2].task.id == 0 &&
                r.clock.member[2].ledger.dropped == 0);
    rig_push(&r, 2);
    assert_true(r.steps == 1 && r.examples == 2 * RIG_BATCH && r.clock.member[2].ledger.steps == 2);
    assert_true(rig_pull(&r, 2) && r.hand[2].task.step == 1 && r.hand[2].task.id == 10);
    rig_close(&r);
}

/* When a lost worker is to be replaced, the step is finished, nobody begins another, and owner 0 calls; then all go on, with it or without. */
static void test_replace(void **state)
{
    (void)state;
    for (unsigned pooled = 0; pooled < 2; pooled++)
        for (unsigned done = 0; done < 2; done++) {
            struct yk_rule rule = rig_rule(pooled ? YK_MODE_async : YK_MODE_sync, 3, 1);
            struct rig r;
            rule.shards = pooled ? 1 : 12;
            rule.last_step = 3 * RIG_PARTS;
            rig_open(&r, &rule, &RIG_COUNT, rig_mark);
            r.replaces = true;
            rig_start(&r, true);
            for (unsigned w = 0; w < 3; w++)
                assert_true(rig_pull(&r, w));
            lose(&r, 1);
            for (unsigned w = 0; w < 3; w += 2) {
                assert_false(r.server[0].replace.called);
                rig_push(&r, w);
            }
            for (unsigned w = 0; !pooled && w < 3;
                 w += 2) { /* that was for the old incarnation; once more */
                assert_true(rig_pull(&r, w));
                assert_true(r.hand[w].task.incarnation == 1 && r.hand[w].task.step == 0);
                assert_false(r.server[0].replace.called);
                rig_push(&r, w);
            }
            assert_true(r.server[0].replace.called && r.steps == (pooled ? 2 : 1));
            assert_false(rig_answered(&r, 0) || rig_answered(&r, 2));
            r.comm->ops->lock(r.comm, 0);
            yk_server_replaced(&r.server[0], 1, done);
            r.comm->ops->unlock(r.comm, 0);
            assert_true(rig_answered(&r, 0) && rig_answered(&r, 2));
            assert_int_equal(r.clock.alive, done ? 3 : 2);
            if (done) { /* a new process has a new worker */
                struct yk_error e;
                struct yk_worker *w = &r.worker[1];
                yk_worker_release(w);
                assert_int_equal(yk_worker_init(w, r.comm, &r.rule, 1, &r.params, pooled, &e),
                                 YK_OK);
                r.hand[1] = (struct rig_hand){0};
                yk_worker_start(w);
                assert_true(rig_answered(&r, 1));
            } else {
                r.hand[1].busy = false;
                r.hand[1].stopped = true;
            }
            rig_play(&r, done, false);
            assert_true(r.steps == rule.last_step && (r.hand[1].pushes > 0) == (done != 0));
            rig_assert_counts(&r, 3);
            rig_close(&r);
        }
}

/* Two are lost before the first has been replaced: there is a meeting for each, and the new ones are those that were met for. */
static void test_replace_two(void **state)
{
    (void)state;
    struct yk_rule rule = rig_rule(YK_MODE_sync, 4, 1);
    struct rig r;
    rule.shards = 12;
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    r.replaces = true;
    rig_start(&r, true);
    for (unsigned w = 0; w < 4; w++)
        assert_true(rig_pull(&r, w));
    lose(&r, 3);
    lose(&r, 1);
    for (unsigned i = 0; i < 2; i++) /* once for the old incarnation */
        for (unsigned w = 0; w < 4; w += 2) {
            if (i > 0)
                assert_true(rig_pull(&r, w));
            rig_push(&r, w);
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
    r.hand[1] = (struct rig_hand){0};
    yk_worker_start(&r.worker[1]);
    assert_true(r.server[0].replace.called && r.server[0].replace.worker == 3);
    r.comm->ops->lock(r.comm, 0);
    yk_server_replaced(&r.server[0], 3, false);
    r.comm->ops->unlock(r.comm, 0);
    assert_true(r.clock.alive == 3 && r.clock.member[1].alive && !r.clock.member[3].alive);
    assert_true(rig_answered(&r, 0) && rig_answered(&r, 1) && rig_answered(&r, 2));
    rig_close(&r);
}

/* Stopped in the middle of a whole batch, and then somebody is lost: the batch is completed all the same, and everybody hears of the end. */
static void test_stop_and_lose(void **state)
{
    (void)state;
    for (unsigned backup = 0; backup < 2; backup++)
        for (unsigned when = 0; when < 4; when++) {
            struct yk_rule rule = backup ? rig_backup_rule(3, 1, 1) : rig_rule(YK_MODE_sync, 3, 1);
            struct rig r;
            rule.shards = backup ? 1 : 12;
            rig_open(&r, &rule, &RIG_COUNT, rig_mark);
            rig_start(&r, true);
            for (unsigned w = 0; w < 3; w++)
                assert_true(rig_pull(&r, w));
            for (unsigned w = 0; w < when && w < 2; w++)
                rig_push(&r, w);
            r.comm->ops->lock(r.comm, 0);
            yk_server_stop(&r.server[0]);
            r.comm->ops->unlock(r.comm, 0);
            unsigned lost = when == 3 ? 0 : 2;
            lose(&r, lost);
            r.hand[lost].busy = false;
            r.hand[lost].stopped = true;
            rig_play(&r, when, false);
            assert_true(r.server[0].ended);
            if (!backup)
                assert_true(r.steps == 1 && r.examples == RIG_BATCH);
            rig_close(&r);
        }
}

/* Stopped when a new worker has not asked for its part of the open batch yet: it gets it, or the others would wait for ever. */
static void test_stop_and_join(void **state)
{
    (void)state;
    const struct yk_rule rule = rig_rule(YK_MODE_sync, 3, 1);
    struct rig r;
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    rig_start(&r, false);
    for (unsigned w = 0; w < 2; w++) {
        yk_worker_start(&r.worker[w]);
        assert_true(rig_pull(&r, w));
        rig_push(&r, w);
    }
    r.comm->ops->lock(r.comm, 0);
    yk_server_stop(&r.server[0]);
    r.comm->ops->unlock(r.comm, 0);
    yk_worker_start(&r.worker[2]);
    rig_play(&r, 1, false);
    assert_true(r.steps == 1 && r.examples == RIG_BATCH);
    rig_close(&r);
}

/* Async, several owners: the state that owner 0 asks for has everything that it has counted itself. */
static void test_gather(void **state)
{
    (void)state;
    const struct yk_rule rule = rig_rule(YK_MODE_async, 2, 2);
    struct rig r;
    uint64_t counted[2] = {3, 1};
    struct yk_note ask = {
        .from = 0, .to = 1, .kind = YK_GATHER, .step = 4, .bytes = sizeof counted};
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    struct yk_server *s = &r.server[1];
    s->applied[0] = 3;
    r.comm->ops->lock(r.comm, 1);
    assert_ptr_equal(yk_server_handler.place(s, &ask), s->counted);
    memcpy(s->counted, counted, sizeof counted);
    yk_server_handler.arrive(s, &ask, s->counted);
    assert_int_equal(s->gather_at, 4); /* a push of worker 1 is still on its way */
    struct yk_note fence = {
        .from = 0, .to = 1, .kind = YK_FENCE, .first = 1, .incarnation = UINT32_MAX};
    yk_server_handler.arrive(s, &fence, NULL);
    assert_true(s->gather_at == UINT64_MAX); /* and will not come any more */
    r.comm->ops->unlock(r.comm, 1);
    rig_close(&r);
}

/* What comes over the wire is looked at before it is believed. */
static void test_unsound(void **state)
{
    (void)state;
    const struct yk_rule rule = rig_rule(YK_MODE_async, 2, 2);
    struct rig r;
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    struct yk_server *s = &r.server[1];
    const struct yk_note BAD[] = {
        {.kind = YK_STATE, .lo = r.params.count - 1, .bytes = 8},
        {.kind = YK_STATE, .lo = UINT64_MAX, .bytes = 8},
        {.kind = YK_STATE, .first = 99, .bytes = 8},
        {.kind = YK_PUSH, .from = 0, .lo = s->owner.lo, .bytes = 8},
        {.kind = YK_PUSH, .from = 4, .lo = s->owner.lo, .bytes = 8},
        {.kind = YK_FENCE, .first = 2},
        {.kind = YK_REPLACE, .first = 2},
        {.kind = YK_SET, .bytes = 1 << 20},
        {.kind = YK_GATHER, .bytes = 8},
    };
    r.comm->ops->lock(r.comm, 1);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_null(yk_server_handler.place(s, &BAD[i]));
        if (BAD[i].kind != YK_STATE && BAD[i].kind != YK_GATHER)
            yk_server_handler.arrive(s, &BAD[i], NULL);
    }
    assert_true(s->owner.step == 0 && !s->replace.called);
    r.comm->ops->unlock(r.comm, 1);
    rig_close(&r);
}

/* A worker dies while the engine receives from it: the buffer is given up, and its slot serves others. */
static void test_abandoned(void **state)
{
    (void)state;
    struct yk_pushes t;
    struct yk_note n = {.kind = YK_PUSH, .bytes = 8};
    assert_int_equal(yk_pushes_init(&t, 2, 0, 16, NULL), YK_OK);
    for (unsigned i = 0; i < 100; i++) {
        n.id = i;
        float *a = yk_pushes_place(&t, 1, &n);
        assert_non_null(a);
        assert_non_null(yk_pushes_place(&t, 0, &n));
        yk_pushes_around(&t, a)->used = false;
        yk_pushes_abandon(&t, 1);
        assert_null(yk_pushes_around(&t, a));
        yk_pushes_find(&t, 0, &n)->receiving = 0;
        yk_pushes_forget(&t);
    }
    yk_pushes_release(&t);
}

/* Nobody is left: the job has failed, and says so. */
static void test_all_lost(void **state)
{
    (void)state;
    const struct yk_rule rule = rig_rule(YK_MODE_async, 2, 1);
    struct rig r;
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    rig_start(&r, true);
    lose(&r, 0);
    assert_int_equal(r.server[0].failed, YK_OK);
    lose(&r, 1);
    assert_int_equal(r.server[0].failed, YK_LOST);
    assert_non_null(strstr(r.server[0].why, "all workers are lost"));
    assert_true(r.server[0].ended);
    rig_close(&r);
}

/* A job that fails ends for everybody: workers come back from their pull, nothing is applied any more, and the first reason stands. */
static void test_fail(void **state)
{
    (void)state;
    const struct yk_rule rule = rig_rule(YK_MODE_async, 3, 3);
    struct rig r;
    rig_open(&r, &rule, &RIG_COUNT, rig_mark);
    rig_start(&r, true);
    for (unsigned w = 0; w < 3; w++)
        assert_true(rig_pull(&r, w));
    rig_push(&r, 0);
    r.comm->ops->lock(r.comm, 0);
    yk_server_fail(&r.server[0], YK_LOST, "owner 2 is lost");
    yk_server_fail(&r.server[0], YK_FAILED, "something else");
    r.comm->ops->unlock(r.comm, 0);
    assert_int_equal(r.server[0].failed, YK_LOST);
    assert_string_equal(r.server[0].why, "owner 2 is lost");
    for (unsigned k = 1; k < 3; k++)
        assert_true(r.server[k].failed == YK_LOST && r.server[k].closed);
    rig_push(&r, 1);
    assert_int_equal(r.steps, 1);
    for (unsigned w = 0; w < 2; w++) {
        assert_false(rig_pull(&r, w));
        assert_int_equal(r.worker[w].failed, YK_LOST);
    }
    rig_close(&r);

    rig_open(&r, &rule, &RIG_COUNT, rig_mark); /* an owner that is lost ends the job */
    rig_start(&r, true);
    r.comm->ops->lock(r.comm, 0);
    yk_server_handler.lost(&r.server[0], 2, "its process is gone");
    r.comm->ops->unlock(r.comm, 0);
    assert_int_equal(r.server[0].failed, YK_LOST);
    assert_string_equal(r.server[0].why, "owner 2 is lost: its process is gone");
    rig_close(&r);
    rig_open(&r, &rule, &RIG_COUNT, rig_mark); /* and so does the clock, for the others */
    r.comm->ops->lock(r.comm, 1);
    yk_server_handler.lost(&r.server[1], 0, "it was silent for 10 s");
    r.comm->ops->unlock(r.comm, 1);
    assert_true(r.server[1].failed == YK_LOST && r.server[1].closed);
    yk_worker_handler.lost(&r.worker[0], 0, "it was silent for 10 s");
    assert_false(rig_pull(&r, 0));
    assert_string_equal(r.worker[0].why, "owner 0 is lost: it was silent for 10 s");
    rig_close(&r);
}

/* A stop from outside, before the first step and in the middle; and the last word. */
static void test_stop(void **state)
{
    (void)state;
    for (unsigned pooled = 0; pooled < 2; pooled++)
        for (uint64_t seed = 0; seed < 30; seed++) {
            const struct yk_rule rule = rig_rule(pooled ? YK_MODE_async : YK_MODE_sync, 3, 2);
            struct rig r;
            struct yk_rng rng;
            rig_open(&r, &rule, &RIG_COUNT, rig_mark);
            rig_start(&r, true);
            yk_rng_init(&rng, seed, 0, 0, 0);
            for (uint64_t i = 0; i < seed * seed; i++)
                rig_event(&r, yk_rng_below(&rng, 3));
            r.comm->ops->lock(r.comm, 0);
            yk_server_stop(&r.server[0]);
            r.comm->ops->unlock(r.comm, 0);
            rig_play(&r, seed, false);
            double applied = 0;
            for (size_t k = 0; k < RIG_ROWS; k++)
                applied += (double)r.params.flat[k];
            assert_int_equal(r.examples, applied);
            for (unsigned k = 0; k < 2; k++)
                assert_int_equal(r.server[k].owner.step, r.steps);
            r.comm->ops->lock(r.comm, 0);
            yk_server_close(&r.server[0], seed % 2 == 0);
            r.comm->ops->unlock(r.comm, 0);
            assert_true(r.server[1].closed && r.server[1].clean == (seed % 2 == 0));
            for (unsigned w = 0; w < 3; w++)
                assert_true(r.worker[w].closed && r.worker[w].clean == (seed % 2 == 0));
            rig_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_batches), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_ssp),           cmocka_unit_test(test_fewer_than_needed),
        cmocka_unit_test(test_replace),       cmocka_unit_test(test_all_lost),
        cmocka_unit_test(test_fail),          cmocka_unit_test(test_stop),
        cmocka_unit_test(test_replace_two),   cmocka_unit_test(test_stop_and_lose),
        cmocka_unit_test(test_gather),        cmocka_unit_test(test_unsound),
        cmocka_unit_test(test_abandoned),     cmocka_unit_test(test_stop_and_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
