/* server_job_test.c - what an owner does beside steps: go on when a worker is lost, with nothing lost or doubled and, in whole batches, with the
 * bits of the undisturbed run; replace it; stop; fail. In threads nobody dies, so the test says it for the engine. */
#include "tests/rig.h"

/* Worker w is lost, as the engine would tell owner 0. */
static void lose(struct rig *r, unsigned w)
{
    r->comm->ops->lock(r->comm, 0);
    yk_server_handler.lost(&r->server[0], yk_worker_endpoint(r->comm, (int)w), "its process is gone");
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
        second = first + yk_rng_below(&rng, 100); /* the second may be lost while the step is done again */
        for (; events < 100000 && r.steps < rule.last_step; events++) {
            if (events == first)
                lose(&r, 1);
            if (events == second)
                lose(&r, 3);
            rig_event(&r, yk_rng_below(&rng, 4)); /* the lost ones, too, go on for a while: they only slept */
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
            for (uint64_t i = 0; i < when || (kind < 2 && r.hand[lost].busy && r.hand[lost].stage > 0); i++)
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
            assert_true(r.steps == rule.last_step && (!asleep || over || r.clock.member[lost].ledger.dropped > 0));
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
    assert_true(r.hand[2].task.step == 0 && r.hand[2].task.id == 0 && r.clock.member[2].ledger.dropped == 0);
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
            for (unsigned w = 0; !pooled && w < 3; w += 2) { /* that was for the old incarnation; once more */
                assert_true(rig_pull(&r, w));
                assert_true(r.hand[w].task.incarnation == 1 && r.hand[w].task.step == 0);
                assert_false(r.server[0].replace.called);
                rig_push(&r, w);
            }
            assert_true(r.server[0].replace.called && r.steps == (pooled ? 2 : 1));
            assert_false(rig_answered(&r, 0) || rig_answered(&r, 2));
            r.comm->ops->lock(r.comm, 0);
            yk_server_replaced(&r.server[0], done);
            r.comm->ops->unlock(r.comm, 0);
            assert_true(rig_answered(&r, 0) && rig_answered(&r, 2));
            assert_int_equal(r.clock.alive, done ? 3 : 2);
            if (done) { /* a new process has a new worker */
                struct yk_error e;
                struct yk_worker *w = &r.worker[1];
                yk_worker_release(w);
                assert_int_equal(yk_worker_init(w, r.comm, &r.rule, 1, &r.params, pooled, &e), YK_OK);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
