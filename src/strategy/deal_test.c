/* deal_test.c - every part of an epoch is dealt and done exactly once, whatever comes back, and
 * never from too far ahead. */
#include "strategy/deal.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 103, BATCH = 10, PARTS = 11, MOST = 24 }; /* ten of 10 and one of 3 */

/* Nothing is out or back, and nothing new may be dealt. */
static bool is_over(const struct yk_deal *d)
{
    bool left = false;
    for (unsigned i = 0; i < d->shares; i++)
        left = left || d->share[i].next < d->end;
    return d->outs == 0 && d->backs == 0 && (!left || d->quota == 0);
}

static bool is_out(const struct yk_deal *d, uint64_t id)
{
    for (unsigned i = 0; i < d->outs; i++)
        if (d->out[i] == id)
            return true;
    return false;
}

static void deal_open(struct yk_deal *d, uint64_t rows, uint32_t batch, unsigned most)
{
    struct yk_error e;
    assert_int_equal(yk_deal_init(d, rows, batch, NULL, 0, most, &e), YK_OK);
}

/* One after the other: the ids are the positions, the last part is what is left. */
static void test_in_order(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, MOST);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        for (uint64_t k = 0; k < PARTS; k++) {
            uint64_t id = yk_deal_take(&d, 0);
            assert_int_equal(id, epoch * ROWS + k * BATCH);
            assert_int_equal(yk_deal_size(&d, id), k + 1 < PARTS ? BATCH : 3);
            assert_true(is_out(&d, id));
            assert_int_equal(yk_deal_left(&d), PARTS - k);
            yk_deal_done(&d, id);
            assert_false(is_out(&d, id));
            assert_false(is_over(&d));
        }
    yk_deal_release(&d);
    yk_deal_release(&d);

    deal_open(&d, ROWS, ROWS, MOST); /* one part an epoch, and parts of one example */
    assert_true(yk_deal_size(&d, 0) == ROWS && yk_deal_size(&d, ROWS) == ROWS);
    yk_deal_release(&d);
    deal_open(&d, 3, 1, MOST);
    for (uint64_t id = 0; id < 3; id++)
        assert_int_equal(yk_deal_take(&d, 0), id);
    yk_deal_release(&d);
}

/* What came back is dealt before anything new, oldest first, and belongs to the epoch it was of. */
static void test_returns(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, MOST);
    for (int i = 0; i < 5; i++)
        yk_deal_take(&d, 0); /* 0 .. 40 */
    yk_deal_return(&d, 30);
    yk_deal_return(&d, 10);
    assert_false(is_out(&d, 10));
    assert_int_equal(yk_deal_left(&d), PARTS);
    yk_deal_return(&d, 10); /* it is not out any more: not twice */
    yk_deal_return(&d, 50); /* nor is what was never dealt */
    assert_int_equal(d.backs, 2);
    assert_int_equal(yk_deal_take(&d, 0), 10);
    yk_deal_done(&d, 0);
    assert_int_equal(yk_deal_take(&d, 0), 30);
    assert_int_equal(yk_deal_take(&d, 0), 50);
    yk_deal_done(&d, 0); /* done already: harmless */
    assert_int_equal(yk_deal_left(&d), PARTS - 1);
    for (uint64_t id = 60; id < ROWS; id += BATCH)
        assert_int_equal(yk_deal_take(&d, 0), id);
    assert_int_equal(yk_deal_take(&d, 0), ROWS); /* the next epoch has begun, */
    yk_deal_return(&d, 100);
    assert_int_equal(yk_deal_take(&d, 0),
                     100); /* and the partial one of the last comes first still */
    assert_int_equal(yk_deal_size(&d, 100), 3);
    yk_deal_release(&d);
}

/* A part that an earlier start had not finished. */
static void test_restored(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, MOST);
    d.share[0].next = ROWS + 20;
    yk_deal_add(&d, ROWS + 10);
    yk_deal_add(&d, 100);
    yk_deal_add(&d, ROWS);
    assert_int_equal(yk_deal_left(&d), 1); /* of the oldest epoch that is not done */
    assert_int_equal(yk_deal_take(&d, 0), 100);
    assert_int_equal(yk_deal_take(&d, 0), ROWS);
    assert_int_equal(yk_deal_take(&d, 0), ROWS + 10);
    assert_int_equal(yk_deal_take(&d, 0), ROWS + 20);
    yk_deal_done(&d, 100);
    assert_int_equal(yk_deal_left(&d), PARTS);
    yk_deal_release(&d);
}

/* Where two shuffled orders are in memory: nothing of epoch e + 2 while anything of e is not
 * done, be it out or back. Elsewhere nobody waits for somebody who sleeps. */
static void test_two_epochs(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, 64);
    d.near = true;
    assert_int_equal(yk_deal_take(&d, 0), 0); /* somebody keeps this one */
    for (int k = 1; k < 2 * PARTS; k++) {
        uint64_t id = yk_deal_take(&d, 0);
        assert_int_not_equal(id, YK_NO_PART);
        yk_deal_done(&d, id);
    }
    assert_int_equal(d.share[0].next, 2 * ROWS);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    assert_int_equal(yk_deal_left(&d), 1);
    yk_deal_return(&d, 0);
    assert_int_equal(yk_deal_take(&d, 0), 0); /* what is back may always be dealt */
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    d.near = false;
    assert_int_equal(yk_deal_take(&d, 0), 2 * ROWS);
    d.near = true;
    yk_deal_done(&d, 0);
    assert_int_equal(yk_deal_take(&d, 0), 2 * ROWS + BATCH);
    yk_deal_release(&d);
}

/* No more parts than are wanted, new ones or not; one that comes back may be dealt again. */
static void test_quota(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, 64);
    yk_deal_add(&d, 0);
    yk_deal_add(&d, BATCH);
    d.share[0].next = 2 * BATCH;
    d.quota = 1;
    assert_int_equal(yk_deal_take(&d, 0), 0);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    yk_deal_return(&d, 0);
    assert_int_equal(yk_deal_take(&d, 0), 0);
    yk_deal_done(&d, 0);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    yk_deal_release(&d);
}

/* A synchronous step belongs to one epoch: none of the next before this one is done. */
static void test_one_epoch(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, MOST);
    d.one_epoch = true;
    for (int k = 0; k < PARTS; k++)
        assert_int_equal(yk_deal_take(&d, 0), k * BATCH);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    for (uint64_t id = 10; id < ROWS; id += BATCH)
        yk_deal_done(&d, id);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    yk_deal_done(&d, 0);
    assert_int_equal(yk_deal_left(&d), PARTS);
    assert_int_equal(yk_deal_take(&d, 0), ROWS);
    yk_deal_release(&d);

    deal_open(&d, ROWS, BATCH,
              MOST); /* an asynchronous start before this one may have left parts of two */
    d.one_epoch = true;
    d.share[0].next = ROWS + 30;
    yk_deal_add(&d, ROWS + 10);
    yk_deal_add(&d, 90);
    assert_int_equal(yk_deal_take(&d, 0), 90);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    yk_deal_done(&d, 90);
    assert_int_equal(yk_deal_take(&d, 0), ROWS + 10);
    assert_int_equal(yk_deal_take(&d, 0), ROWS + 30);
    yk_deal_release(&d);
}

static void test_most(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, 3);
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(yk_deal_take(&d, 0), YK_NO_PART);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    yk_deal_return(&d, 10);
    assert_int_equal(yk_deal_take(&d, 0), 10);
    yk_deal_done(&d, 20);
    assert_int_equal(yk_deal_take(&d, 0), 30);
    yk_deal_release(&d);
}

/* Over only when nothing is out and nothing is back. */
static void test_over(void **state)
{
    (void)state;
    struct yk_deal d;
    deal_open(&d, ROWS, BATCH, MOST);
    d.end = 20;
    assert_false(is_over(&d));
    assert_int_equal(yk_deal_take(&d, 0), 0);
    assert_int_equal(yk_deal_take(&d, 0), 10);
    assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
    assert_false(is_over(&d));
    yk_deal_done(&d, 0);
    yk_deal_return(&d, 10);
    assert_false(is_over(&d));
    assert_int_equal(yk_deal_take(&d, 0), 10); /* the limit is for new ones */
    yk_deal_done(&d, 10);
    assert_true(is_over(&d));
    yk_deal_release(&d);
}

/* Hosts with data of their own: each gets its own parts, one after the other, whatever is back
 * of another's. */
static void test_shares(void **state)
{
    (void)state;
    static const struct yk_share SHARE[] = {{0, 25, 0}, {25, 71, 25}, {96, 7, 96}};
    struct yk_deal d;
    struct yk_error e;
    assert_int_equal(yk_deal_init(&d, ROWS, BATCH, SHARE, 3, MOST, &e), YK_OK);
    d.one_epoch = true;
    d.end = 2 * ROWS;
    for (uint64_t epoch = 0; epoch < 2 * ROWS; epoch += ROWS) {
        assert_int_equal(yk_deal_left(&d), 3 + 8 + 1);
        assert_int_equal(yk_deal_take(&d, 2), epoch + 96);
        assert_int_equal(yk_deal_size(&d, epoch + 96), 7);
        assert_int_equal(yk_deal_take(&d, 2), YK_NO_PART); /* the next would be of the next epoch */
        for (uint64_t k = 0; k < 3; k++)
            assert_int_equal(yk_deal_take(&d, 0), epoch + k * BATCH);
        assert_int_equal(yk_deal_size(&d, epoch + 20), 5);
        assert_int_equal(yk_deal_take(&d, 0), YK_NO_PART);
        yk_deal_return(&d, epoch + 10);
        assert_int_equal(yk_deal_take(&d, 1), epoch + 25); /* what is back is not this host's */
        assert_int_equal(yk_deal_take(&d, 0), epoch + 10);
        for (uint64_t k = 1; k < 8; k++)
            assert_int_equal(yk_deal_take(&d, 1), epoch + 25 + k * BATCH);
        assert_int_equal(yk_deal_size(&d, epoch + 95), 1);
        assert_int_equal(yk_deal_left(&d), 12);
        while (d.outs > 0)
            yk_deal_done(&d, d.out[0]);
        assert_int_equal(yk_deal_position(&d), epoch + ROWS + 96);
    }
    assert_true(is_over(&d));
    yk_deal_release(&d);
}

/* Anything may happen to parts that are out; at the end of it each was done once in its epoch,
 * and no epoch began too early. */
static void test_at_random(void **state)
{
    (void)state;
    enum { EPOCHS = 30 };
    struct yk_rng r;
    yk_rng_init(&r, 21, 0, 0, 0);
    static const struct yk_share SHARE[] = {{0, 40, 0}, {40, 3, 40}, {43, 60, 43}};
    for (int i = 0; i < 4; i++) {
        bool one = i % 2 != 0;
        unsigned shares = i < 2 ? 1 : 3;
        struct yk_error e;
        static unsigned done[EPOCHS * ROWS];
        struct yk_deal d;
        uint64_t out[MOST], total = 0;
        unsigned outs = 0;
        memset(done, 0, sizeof done);
        assert_int_equal(yk_deal_init(&d, ROWS, BATCH, i < 2 ? NULL : SHARE, shares, MOST, &e),
                         YK_OK);
        d.one_epoch = one;
        d.near = true;
        d.end = EPOCHS * ROWS;
        for (int turn = 0; turn < 1000000 && !is_over(&d); turn++) {
            if (outs < MOST && yk_rng_below(&r, 2) == 0) {
                uint64_t id = yk_deal_take(&d, yk_rng_below(&r, shares)), oldest = UINT64_MAX;
                for (unsigned k = 0; k < outs; k++)
                    oldest = out[k] / ROWS < oldest ? out[k] / ROWS : oldest;
                if (id == YK_NO_PART)
                    continue;
                assert_true(outs == 0 || id / ROWS <= oldest + (one ? 0 : 1));
                out[outs++] = id;
            } else if (outs > 0) {
                unsigned k = yk_rng_below(&r, outs);
                uint64_t id = out[k];
                out[k] = out[--outs];
                if (yk_rng_below(&r, 3) == 0) {
                    yk_deal_return(&d, id);
                    continue;
                }
                yk_deal_done(&d, id);
                uint32_t size = yk_deal_size(&d, id);
                for (uint32_t at = 0; at < size; at++)
                    done[id + at]++;
                total += size;
            }
        }
        assert_true(is_over(&d));
        assert_int_equal(total, EPOCHS * ROWS);
        for (size_t k = 0; k < EPOCHS * ROWS; k++)
            assert_int_equal(done[k], 1);
        yk_deal_release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),   cmocka_unit_test(test_returns),
        cmocka_unit_test(test_restored),   cmocka_unit_test(test_quota),
        cmocka_unit_test(test_two_epochs), cmocka_unit_test(test_one_epoch),
        cmocka_unit_test(test_most),       cmocka_unit_test(test_shares),
        cmocka_unit_test(test_over),       cmocka_unit_test(test_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
