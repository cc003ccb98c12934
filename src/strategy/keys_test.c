/* keys_test.c - sorted lists of keys against a plain loop, and boxes that are never used twice
 * at a time. */
#include "strategy/keys.h"

#include "base/rng.h"
#include "strategy/owner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 300 };

static size_t random_list(struct yk_rng *r, uint32_t count, uint32_t *key)
{
    size_t n = 0;
    uint32_t one_in = 1 + yk_rng_below(r, 9);
    for (uint32_t i = 0; i < count; i++)
        if (yk_rng_below(r, one_in) == 0)
            key[n++] = i;
    return n;
}

/* Each owner's part is what a plain comparison says, empty parts too. */
static void test_split(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct yk_rng r;
        uint32_t key[MOST];
        size_t at[9];
        yk_rng_init(&r, seed, 0, 0, 0);
        uint32_t count = 1 + yk_rng_below(&r, MOST);
        unsigned owners = 1 + yk_rng_below(&r, 8);
        size_t n = random_list(&r, count, key);
        yk_keys_split(key, n, owners, count, at);
        assert_true(at[0] == 0 && at[owners] == n);
        for (unsigned k = 0; k < owners; k++)
            for (size_t i = 0; i < n; i++) {
                bool mine = key[i] >= yk_owner_at(k, owners, count) &&
                            key[i] < yk_owner_at(k + 1, owners, count);
                assert_int_equal(mine, i >= at[k] && i < at[k + 1]);
            }
        for (uint32_t i = 0; i <= count; i++) {
            size_t below = 0;
            while (below < n && key[below] < i)
                below++;
            assert_int_equal(yk_keys_below(key, n, i), below);
        }
    }
}

/* One mistake anywhere is found. */
static void test_ok(void **state)
{
    (void)state;
    uint32_t key[] = {16, 17, 20, 30, 31};
    assert_true(yk_keys_ok(key, 5, 16, 32) && yk_keys_ok(NULL, 0, 16, 32) &&
                yk_keys_ok(key, 1, 16, 17));
    assert_false(yk_keys_ok(key, 5, 17, 32) || yk_keys_ok(key, 5, 16, 31));
    for (size_t i = 0; i + 1 < 5; i++) {
        uint32_t kept = key[i];
        key[i] = key[i + 1];
        assert_false(yk_keys_ok(key, 5, 0, 100));
        key[i] = key[i + 1] + 1;
        assert_false(yk_keys_ok(key, 5, 0, 100));
        key[i] = kept;
    }
    key[2] = UINT32_MAX; /* out of the range, and in the middle */
    assert_false(yk_keys_ok(key, 5, 16, 32));
}

static void test_grow(void **state)
{
    (void)state;
    void *p = NULL;
    size_t room = 0, grown = 0;
    for (size_t n = 1; n < 100000; n += 1 + n / 50) {
        size_t before = room;
        assert_true(yk_grow(&p, &room, n, sizeof(float)) && room >= n && (uintptr_t)p % 64 == 0);
        memset(p, 1, room * sizeof(float));
        grown += room != before;
    }
    assert_true(grown < 40);
    void *same = p;
    assert_false(yk_grow(&p, &room, SIZE_MAX / 2, sizeof(float)) ||
                 yk_grow(&p, &room, SIZE_MAX, 1));
    assert_true(p == same && room >= 90000);
    free(p);
}

/* A box is given to one user at a time, and found by its data; one that nothing uses is used
 * again. */
static void test_boxes(void **state)
{
    (void)state;
    struct yk_boxes b = {0};
    const void *data = yk_boxes_place(&b, 1000);
    const struct yk_box *one = b.box[0];
    assert_true(data != NULL && data == one->data && one->busy);
    struct yk_box *two = yk_boxes_take(&b, 10);
    assert_true(two != NULL && two != one && two->data != one->data);
    atomic_store(&two->sending, 1);
    struct yk_box *three = yk_boxes_take(&b, 10);
    assert_true(three != one && three != two && b.n == 3);
    yk_boxes_free(&b, NULL);
    yk_boxes_free(&b, (const char *)data + 1);
    yk_boxes_free(&b, two->data); /* nothing is received there */
    assert_true(one->busy);
    yk_boxes_free(&b, data);
    assert_false(one->busy);
    atomic_store(&two->sending, 0);
    assert_true(yk_boxes_take(&b, 900) == one); /* the one that has the room */
    assert_true(yk_boxes_take(&b, 5000) != NULL && b.n == 3);
    yk_boxes_release(&b);
    yk_boxes_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_ok),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_boxes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
