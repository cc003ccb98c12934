/* worker_keys_test.c - a worker's end of a sparse run: values are taken for what they were asked for and for nothing else, however they come. */
#include "strategy/worker_parts.h"
#include "tests/office.h"

/* Values for another list, from nobody, or too many of them are not taken. */
static void test_wrong_values(void **state)
{
    (void)state;
    const struct yk_rule rule = rig_sparse(rig_batches(2, 2, 25));
    struct rig r;
    rig_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
    r.touch = rig_some;
    rig_start(&r, true);
    assert_true(rig_pull(&r, 0) && rig_values(&r, 0));
    rig_push(&r, 0);
    const struct yk_worker_keys *k = &r.worker[0].keys;
    float data[RIG_ROWS] = {0};
    size_t bytes = (k->at[2] - k->at[1]) * sizeof(float);
    const struct yk_note right = {.kind = YK_VALUES, .from = 1, .lo = k->ask, .bytes = bytes};
    for (unsigned i = 0; i < 5; i++) {
        struct yk_note n = right;
        n.lo += i == 0;
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
    rig_close(&r);
}

/* Examples of a batch of twelve share keys in groups, so that lists of other shards are as long and have other keys in them: the second
 * of three workers has groups 1 and 2, the first of two that are left has 0 and 1. */
static bool in_groups(uint64_t e, size_t i)
{
    static const uint8_t GROUP[12] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3};
    e %= RIG_ROWS;
    return i == 1 + (e / 12) * 4 + GROUP[e % 12];
}

/* A worker is lost while the next values of the others are under way: those that come for its old shards are not taken for the new
 * ones', though there are as many. */
static void test_equal_lengths(void **state)
{
    (void)state;
    float expected[RIG_ROWS];
    uint64_t again = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct yk_rule rule =
            rig_sparse(rig_batches(seed == 0 ? 1 : 3, seed == 0 ? 1 : 1 + (unsigned)seed % 3, 25));
        struct office o;
        struct rig r;
        struct yk_rng rng;
        rule.batch = 12;
        rig_open(&r, &rule, yk_optimizer_find("adagrad"), NULL);
        r.touch = in_groups;
        office_open(&o, &r);
        rig_start(&r, true);
        yk_rng_init(&rng, seed, 7, 0, 0);
        uint64_t when = 100 + yk_rng_below(&rng, 1500);
        for (uint64_t i = 0; !r.server[0].ended || o.under_way > 0; i++) {
            if (i > 3000000)
                fail_msg("seed %d: nobody goes on at step %d", (int)seed, (int)r.steps);
            if (seed > 0 && i == when && !r.server[0].ended)
                office_lose(&o, 0, &rng);
            office_event(&o, &rng);
        }
        assert_true(r.server[0].failed == YK_OK && r.steps == 25);
        if (seed == 0)
            memcpy(expected, r.params.flat, sizeof expected);
        else if (memcmp(r.params.flat, expected, sizeof expected) != 0)
            fail_msg("seed %d: the bits of a run with a loss are others", (int)seed);
        again += seed > 0 && r.hand[1].asked_twice > 3; /* an epoch's first, and once more */
        office_close(&o);
    }
    assert_true(again > 20); /* or the test has not met the case that it is for */
}

/* Values are those of the task and the shards that they were asked for, not just as many. */
static void test_whose_values(void **state)
{
    (void)state;
    const struct yk_rule rule = rig_sparse(rig_batches(2, 2, 25));
    struct rig r;
    bool over;
    rig_open(&r, &rule, yk_optimizer_find("sgd"), NULL);
    r.touch = rig_own;
    rig_start(&r, true);
    for (unsigned w = 0; w < 2; w++) {
        assert_true(rig_pull(&r, w) && rig_values(&r, w));
        rig_push(&r, w);
    }
    assert_true(rig_pull(&r, 0));
    struct yk_worker *w = &r.worker[0];
    const struct yk_task task = w->task;
    size_t keys = rig_at(&r, &task, task.id, task.last) - rig_at(&r, &task, task.id, task.first);
    assert_true(keys > 0 && w->keys.missing == 0 && w->keys.n == keys);
    for (unsigned i = 0; i < 4; i++) {
        w->task.id = task.id + (i == 0 ? RIG_BATCH : 0);
        w->task.first = task.first + (i == 1);
        w->task.last = task.last - (i == 2);
        assert_false(yk_worker_have_values(w, keys + (i == 3), &over) || over);
        w->task = task;
    }
    assert_true(yk_worker_have_values(w, keys, &over));
    assert_false(yk_worker_have_values(w, keys, &over)); /* once */
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_equal_lengths),
        cmocka_unit_test(test_whose_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
