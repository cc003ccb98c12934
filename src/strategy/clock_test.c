/* clock_test.c - owner 0's decisions, asked one by one: who gets what next, who has to wait,
 * what a step takes, and what becomes of the parts of somebody who is late or lost. */
#include "strategy/clock.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 103, BATCH = 10, PARTS = 11 }; /* ten of 10 and one of 3 */

/* Nothing is out or back, and nothing new may be dealt. */
static bool is_over(const struct yk_deal *d)
{
    bool left = false;
    for (unsigned i = 0; i < d->shares; i++)
        left = left || d->share[i].next < d->end;
    return d->outs == 0 && d->backs == 0 && (!left || d->quota == 0);
}

static struct yk_rule rule_of(enum yk_mode mode, unsigned workers, unsigned backup)
{
    bool each = mode == YK_MODE_async || mode == YK_MODE_ssp;
    return (struct yk_rule){.mode = mode,
                            .workers = workers,
                            .owners = 1,
                            .shards = each || backup > 0 ? 1 : 12,
                            .batch = BATCH,
                            .rows = ROWS,
                            .pooled = each || backup > 0,
                            .fresh = !each,
                            .held = !each && workers > 1,
                            .need = backup > 0 ? workers - backup : 1,
                            .staleness = -1,
                            .last_step = UINT64_MAX};
}

static void clock_open(struct yk_clock *c, const struct yk_rule *r)
{
    struct yk_error e;
    assert_int_equal(yk_clock_init(c, r, 0, 0, &e), YK_OK);
}

/* The next task of w, which must get one. */
static struct yk_task next(struct yk_clock *c, unsigned w, uint64_t step)
{
    struct yk_task t;
    assert_true(yk_clock_next(c, w, step, &t));
    assert_int_equal(t.step, step);
    return t;
}

static void refused(struct yk_clock *c, unsigned w)
{
    struct yk_task t;
    assert_false(yk_clock_next(c, w, 0, &t));
}

/* Everybody has his shards of the same batch; nothing is known ahead across the end of an epoch. */
static void test_whole_batches(void **state)
{
    (void)state;
    const struct yk_rule r = rule_of(YK_MODE_sync, 5, 0);
    struct yk_clock c;
    clock_open(&c, &r);
    for (unsigned k = 0; k < 2 * PARTS; k++) {
        uint64_t at = k / PARTS * ROWS + (uint64_t)(k % PARTS) * BATCH;
        uint32_t shard = 0, examples = k % PARTS == PARTS - 1 ? 3 : BATCH;
        for (unsigned w = 0; w < 5; w++) {
            struct yk_task t = next(&c, w, k);
            assert_true(t.id == at && t.examples == examples && t.first == shard &&
                        t.last > t.first);
            assert_true(t.ahead == (k % PARTS == PARTS - 1 ? YK_NO_PART : at + BATCH));
            shard = t.last;
        }
        assert_int_equal(shard, 12);
        for (unsigned w = 0; w < 5; w++)
            yk_clock_applied(&c, w, at, 0, examples / 5, 1);
        c.position += examples;
    }
    for (unsigned w = 0; w < 5; w++)
        assert_int_equal(c.member[w].ledger.steps, 2 * PARTS);
    yk_clock_release(&c);
    yk_clock_release(&c);
}

/* The living share the shards; a new incarnation tells old pushes from new ones. */
static void test_spans_after_a_loss(void **state)
{
    (void)state;
    const struct yk_rule r = rule_of(YK_MODE_sync, 4, 0);
    struct yk_clock c;
    uint32_t first, last;
    clock_open(&c, &r);
    for (unsigned w = 0; w < 4; w++)
        next(&c, w, 0);
    c.member[1].waiting = c.member[2].waiting = true;
    c.waiting = 2;
    yk_clock_lose(&c, 1);
    yk_clock_lose(&c, 1); /* nobody dies twice */
    assert_true(c.alive == 3 && c.waiting == 1 && c.incarnation == 1);
    static const uint32_t SPAN[] = {0, 4, 4, 8, 12}; /* where each begins; 1 has none */
    for (unsigned w = 0; w < 4; w++) {
        assert_int_equal(c.member[w].incarnation, 1);
        if (w == 1)
            continue;
        yk_clock_span(&c, w, &first, &last);
        assert_true(first == SPAN[w] && last == SPAN[w + 1]);
        assert_int_equal(next(&c, w, 0).incarnation, 1);
    }
    yk_clock_lose(&c, 0);
    yk_clock_lose(&c, 3);
    yk_clock_span(&c, 2, &first, &last);
    assert_true(first == 0 && last == 12 && c.alive == 1);
    yk_clock_join(&c, 3); /* a new one in its place */
    assert_true(c.alive == 2 && c.incarnation == 4 && c.member[3].alive);
    assert_true(c.member[2].incarnation == 4 && c.member[3].incarnation == 4);
    yk_clock_span(&c, 2, &first, &last);
    assert_true(first == 0 && last == 6);
    yk_clock_span(&c, 3, &first, &last);
    assert_true(first == 6 && last == 12);
    yk_clock_release(&c);
}

/* Two parts a worker, nobody waits, and the ledger says who did what. */
static void test_async(void **state)
{
    (void)state;
    const struct yk_rule r = rule_of(YK_MODE_async, 2, 0);
    struct yk_clock c;
    clock_open(&c, &r);
    struct yk_task a = next(&c, 0, 0), b = next(&c, 1, 0);
    assert_true(a.id == 0 && a.ahead == 10 && b.id == 20 && b.ahead == 30);
    assert_true(a.first == 0 && a.last == 1 && a.examples == BATCH);
    yk_clock_applied(&c, 0, a.id, 0, BATCH, 7);
    a = next(&c, 0, 1); /* what it was promised, and a further promise */
    assert_true(a.id == 10 && a.ahead == 40);
    yk_clock_applied(&c, 0, a.id, 0, BATCH, 5);
    yk_clock_applied(&c, 1, b.id, 2, BATCH, 3);
    const struct yk_ledger *l = &c.member[0].ledger;
    assert_true(l->steps == 2 && l->examples == 2 * BATCH && l->loss == 12 && l->stale[0] == 2);
    l = &c.member[1].ledger;
    assert_true(l->steps == 1 && l->examples == BATCH && l->loss == 3 && l->stale[2] == 1 &&
                l->most == 2);
    assert_memory_equal(&c.member[1].ledger, &c.member[1].since, sizeof *l);
    assert_true(c.member[0].done == 2 && c.member[1].done == 1);

    a = next(&c, 0, 3);
    yk_clock_lose(&c, 0); /* both of its parts are dealt again, first of all */
    assert_int_equal(a.id, 40);
    b = next(&c, 1, 3);
    assert_true(b.id == 30 && b.ahead == 40);
    yk_clock_applied(&c, 1, b.id, 0, BATCH, 0);
    b = next(&c, 1, 4);
    assert_true(b.id == 40 && b.ahead == 50);
    yk_clock_release(&c);
}

/* Exactly so many parts as steps are left, those of an earlier start included. */
static void test_limit(void **state)
{
    (void)state;
    struct yk_rule r = rule_of(YK_MODE_async, 3, 0);
    r.last_step = 20;
    for (unsigned left = 0; left <= 4; left += 2) {
        struct yk_clock c;
        struct yk_error e;
        struct yk_task t;
        uint64_t step = 8;
        assert_int_equal(yk_clock_init(&c, &r, 90, left, &e), YK_OK);
        for (unsigned i = 0; i < left; i++)
            yk_deal_add(&c.deal, 10 * (uint64_t)i);
        yk_clock_limit(&c, step);
        for (unsigned i = 0; i < 100 && !is_over(&c.deal); i++) {
            assert_true(yk_clock_next(&c, 0, step, &t));
            yk_clock_applied(&c, 0, t.id, 0, t.examples, 0);
            step++;
        }
        assert_int_equal(step, 20);
        assert_int_equal(c.member[0].ledger.steps, 12);
        refused(&c, 0);
        refused(&c, 1);
        yk_clock_release(&c);
    }
    struct yk_clock c; /* at its end already */
    clock_open(&c, &r);
    yk_clock_limit(&c, 20);
    assert_true(is_over(&c.deal));
    refused(&c, 0);
    yk_clock_release(&c);
    r = rule_of(YK_MODE_sync, 3, 1); /* steps of several parts end by the step */
    r.last_step = 1;
    clock_open(&c, &r);
    yk_clock_limit(&c, 0);
    assert_true(c.deal.end == UINT64_MAX);
    yk_clock_release(&c);
}

/* Workers at random: at every pull the one that goes on is at most S ahead of the slowest that
 * has work. The bound is used, too. */
static void race(int64_t s, unsigned workers, uint64_t seed)
{
    struct yk_rule r = rule_of(YK_MODE_ssp, workers, 0);
    struct yk_clock c;
    struct yk_task task[4];
    struct yk_rng rng;
    uint64_t done[4] = {0}, most = 0, step = 0;
    bool busy[4] = {0}, idle[4] = {0};
    r.staleness = s;
    r.last_step = 200;
    clock_open(&c, &r);
    yk_clock_limit(&c, 0);
    yk_rng_init(&rng, seed, workers, (uint64_t)s, 0);
    for (int i = 0; i < 100000 && !is_over(&c.deal); i++) {
        unsigned w =
            yk_rng_below(&rng, 10) < 6 ? 0 : yk_rng_below(&rng, workers); /* one is faster */
        if (busy[w]) {
            yk_clock_applied(&c, w, task[w].id, 0, task[w].examples, 0);
            busy[w] = false;
            done[w]++;
            step++;
            continue;
        }
        uint64_t least = done[w];
        for (unsigned k = 0; k < workers; k++)
            least = !idle[k] && done[k] < least ? done[k] : least;
        busy[w] = yk_clock_next(&c, w, step, &task[w]);
        bool may = done[w] - least <= (uint64_t)s;
        if (busy[w]) {
            assert_true(may);
            idle[w] = false;
            most = done[w] - least > most ? done[w] - least : most;
        } else if (may) {
            idle[w] = true;
        }
    }
    assert_int_equal(step, 200);
    assert_int_equal(most, workers > 1 ? s : 0);
    assert_int_equal(c.most_lead, most);
    yk_clock_release(&c);
}

static void test_ssp(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++)
        for (unsigned workers = 1; workers <= 4; workers++)
            for (int64_t s = 0; s <= 5; s++)
                race(s, workers, seed);
}

/* S = 0 is lockstep: nobody begins his n-th batch before all have done n - 1. */
static void test_lockstep(void **state)
{
    (void)state;
    struct yk_rule r = rule_of(YK_MODE_ssp, 3, 0);
    struct yk_clock c;
    r.staleness = 0;
    clock_open(&c, &r);
    for (uint64_t round = 0; round < 7; round++) {
        struct yk_task t[3];
        for (unsigned w = 0; w < 3; w++)
            t[w] = next(&c, w, round * 3);
        for (unsigned w = 0; w < 3; w++) {
            yk_clock_applied(&c, w, t[w].id, w, BATCH, 0);
            for (unsigned k = 0; w < 2 && k <= w; k++)
                refused(&c, k);
        }
    }
    assert_int_equal(c.most_lead, 0);
    yk_clock_release(&c);
}

/* Whoever finds no work holds nobody up. */
static void test_idle(void **state)
{
    (void)state;
    struct yk_rule r = rule_of(YK_MODE_ssp, 2, 0);
    struct yk_clock c;
    r.staleness = 0;
    r.last_step = 3;
    clock_open(&c, &r);
    yk_clock_limit(&c, 0);
    struct yk_task a = next(&c, 0, 0), b = next(&c, 1, 0);
    assert_true(a.id == 0 && a.ahead == 10 && b.id == 20 && b.ahead == YK_NO_PART);
    yk_clock_applied(&c, 0, a.id, 0, BATCH, 0);
    refused(&c, 0);
    yk_clock_applied(&c, 1, b.id, 0, BATCH, 0);
    refused(&c, 1); /* nothing is left for it */
    assert_true(c.member[1].idle && !is_over(&c.deal));
    a = next(&c, 0, 2);
    yk_clock_applied(&c, 0, a.id, 0, BATCH, 0);
    assert_true(is_over(&c.deal));
    c.deal.quota = 9;
    c.deal.end = 30;
    yk_deal_add(&c.deal,
                50); /* as if somebody had been lost: work again, and 1 has not asked yet */
    a = next(&c, 0, 3);
    assert_int_equal(a.id, 50);
    assert_int_equal(c.member[0].done - c.member[1].done, 1);
    yk_deal_add(&c.deal, 60);
    assert_int_equal(next(&c, 1, 3).id, 60); /* it counts again, and holds the other up */
    yk_clock_applied(&c, 0, a.id, 0, BATCH, 0);
    yk_deal_add(&c.deal, 70);
    refused(&c, 0);
    yk_clock_lose(&c, 1); /* the lost do not count */
    assert_int_equal(next(&c, 0, 4).id, 60);
    yk_clock_release(&c);
}

/* A newcomer begins as far as the slowest: it is neither behind everybody nor ahead. */
static void test_join(void **state)
{
    (void)state;
    struct yk_rule r = rule_of(YK_MODE_ssp, 3, 0);
    struct yk_clock c;
    r.staleness = 1;
    clock_open(&c, &r);
    for (unsigned w = 0; w < 3; w++)
        yk_clock_applied(&c, w, next(&c, w, 0).id, 0, BATCH, 1);
    yk_clock_applied(&c, 0, next(&c, 0, 3).id, 0, BATCH, 1);
    yk_clock_lose(&c, 2);
    yk_clock_join(&c, 2);
    const struct yk_member *m = &c.member[2];
    assert_true(m->alive && m->done == 1 && m->incarnation == 2 && m->task == YK_NO_PART &&
                m->ahead == YK_NO_PART);
    assert_true(m->ledger.steps == 1 &&
                c.alive == 3); /* what was done in its place stays on record */
    assert_true(c.member[0].incarnation == 0 &&
                c.member[1].incarnation == 0); /* parts of others are not touched */
    next(&c, 2, 4);
    yk_clock_release(&c);
}

/* A step with backups takes `need` parts, the last of an epoch what is left; the next epoch
 * waits for it. */
static void test_need(void **state)
{
    (void)state;
    const struct yk_rule r = rule_of(YK_MODE_sync, 4, 1); /* 3, 3, 3, 2 parts */
    static const unsigned NEED[] = {3, 3, 3, 2, 3, 3, 3, 2, 3};
    struct yk_clock c;
    clock_open(&c, &r);
    for (uint64_t step = 0; step < 9; step++) {
        struct yk_task t[4];
        unsigned need = yk_clock_need(&c);
        assert_int_equal(need, NEED[step]);
        for (unsigned w = 0; w < 4; w++) { /* three push, the fourth is late */
            t[w] = next(&c, w, step);
            assert_int_equal(t[w].ahead, YK_NO_PART);
            assert_int_equal(t[w].id / ROWS, step / 4);
        }
        assert_int_equal(yk_clock_need(&c), need); /* being out changes nothing */
        for (unsigned w = 0; w < need; w++)
            yk_clock_applied(&c, w, t[w].id, 0, t[w].examples, 0);
        for (unsigned w = need; w < 4; w++)
            yk_clock_dropped(&c, w, t[w].id);
    }
    uint64_t dropped = 0;
    for (unsigned w = 0; w < 4; w++)
        dropped += c.member[w].ledger.dropped;
    assert_int_equal(dropped, 7 + 2 * 2);
    yk_clock_release(&c);
}

/* Where the epoch has no part left for somebody, he repeats what may never come: not what is
 * here, nor what another repeats. */
static void test_copies(void **state)
{
    (void)state;
    struct yk_rule r = rule_of(YK_MODE_sync, 5, 2);
    struct yk_clock c;
    r.rows = 30;
    clock_open(&c, &r);
    assert_int_equal(next(&c, 0, 0).id, 0);
    assert_int_equal(next(&c, 1, 0).id, 10);
    assert_int_equal(next(&c, 2, 0).id, 20);
    c.member[0].waiting = true; /* its push is here */
    c.waiting = 1;
    assert_int_equal(next(&c, 3, 0).id, 10);
    assert_int_equal(next(&c, 4, 0).id, 20);
    c.member[3].waiting = c.member[4].waiting = true;
    c.waiting = 3;
    yk_clock_applied(&c, 0, 0, 0, BATCH, 0);
    yk_clock_applied(&c, 3, 10, 0, BATCH, 0);
    yk_clock_applied(&c, 4, 20, 0, BATCH, 0);
    assert_int_equal(yk_clock_need(&c), 3); /* of the next epoch */
    assert_int_equal(next(&c, 0, 1).id, 30);
    yk_clock_dropped(&c, 1, 10); /* the stuck ones wake up: their parts are done, and stay so */
    yk_clock_dropped(&c, 2, 20);
    assert_int_equal(c.deal.backs, 0);
    assert_int_equal(next(&c, 1, 1).id, 40);

    yk_clock_lose(&c, 0); /* a lost part comes back; one that another holds too need not */
    assert_int_equal(next(&c, 2, 1).id, 30);
    assert_int_equal(next(&c, 3, 1).id, 50);
    assert_int_equal(next(&c, 4, 1).id, 30);
    yk_clock_lose(&c, 2);
    assert_int_equal(c.deal.backs, 0);
    yk_clock_dropped(&c, 4, 30);
    assert_int_equal(c.deal.backs, 1);
    yk_clock_release(&c);
}

/* Threads share two shuffled orders: while one is still at a part of an epoch, nobody begins the
 * one after the next. A process has its own. */
static void test_two_orders(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads < 2; threads++) {
        struct yk_rule r = rule_of(YK_MODE_sync, 3, 2);
        struct yk_clock c;
        r.rows = 20;
        r.threads = threads != 0;
        clock_open(&c, &r);
        assert_int_equal(next(&c, 2, 0).id, 0); /* and does not come back */
        for (uint64_t step = 0; step < 4; step++) {
            static const uint64_t ID[] = {10, 0, 20, 30}; /* the second is a copy */
            assert_int_equal(next(&c, 0, step).id, ID[step]);
            yk_clock_applied(&c, 0, c.member[0].task, 0, BATCH, 0);
        }
        if (threads) {
            refused(&c, 0);
            yk_clock_dropped(&c, 2, 0);
        }
        assert_int_equal(next(&c, 0, 4).id, 40);
        yk_clock_release(&c);
    }
}

static void test_modes(void **state)
{
    (void)state;
    enum yk_mode mode;
    for (unsigned i = 0; i < YK_MODE_COUNT; i++) {
        assert_true(yk_mode_find(yk_mode_name((enum yk_mode)i), &mode));
        assert_int_equal(mode, i);
    }
    assert_string_equal(yk_mode_name(YK_MODE_allreduce), "allreduce");
    assert_false(yk_mode_find("syn", &mode) || yk_mode_find("", &mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_batches), cmocka_unit_test(test_spans_after_a_loss),
        cmocka_unit_test(test_async),         cmocka_unit_test(test_limit),
        cmocka_unit_test(test_ssp),           cmocka_unit_test(test_lockstep),
        cmocka_unit_test(test_idle),          cmocka_unit_test(test_join),
        cmocka_unit_test(test_need),          cmocka_unit_test(test_copies),
        cmocka_unit_test(test_two_orders),    cmocka_unit_test(test_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
