/* shard_test.c - shards tile any batch, spans tile the shards, a span falls into the largest
 * subtrees it holds, and however the tree is cut the sum has the bits of the whole tree added by
 * one. */
#include "strategy/shard.h"

#include "base/rng.h"
#include "strategy/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4096, N = 7 };

/* Shards of a batch: neighbours, all of it, and no two differ by more than one example; those of
 * a tiny batch may be empty. */
static void test_shards_tile(void **state)
{
    (void)state;
    static const uint32_t BATCH[] = {1,  2,   3,    7,     11,      12,        13,
                                     59, 100, 1000, 65537, 1000000, UINT32_MAX};
    static const uint32_t SHARDS[] = {1, 2, 3, 4, 5, 7, 12, 13, 31, 32, 33, 40, 1000, 4095, MOST};
    for (size_t k = 0; k < sizeof BATCH / sizeof BATCH[0]; k++)
        for (size_t i = 0; i < sizeof SHARDS / sizeof SHARDS[0]; i++) {
            uint32_t b = BATCH[k], v = SHARDS[i];
            assert_int_equal(yk_shard_at(0, v, b), 0);
            assert_int_equal(yk_shard_at(v, v, b), b);
            for (uint32_t s = 0; s < v; s++)
                assert_in_range(yk_shard_at(s + 1, v, b) - yk_shard_at(s, v, b), b / v,
                                b / v + (b % v != 0));
        }
}

/* Spans of workers: neighbours, all shards, nobody without one. */
static void test_spans_tile(void **state)
{
    (void)state;
    for (uint32_t v = 1; v <= 130; v++)
        for (uint32_t n = 1; n <= v; n++) {
            assert_int_equal(yk_shard_of(0, n, v), 0);
            assert_int_equal(yk_shard_of(n, n, v), v);
            for (uint32_t w = 0; w < n; w++)
                assert_in_range(yk_shard_of(w + 1, n, v) - yk_shard_of(w, n, v), v / n,
                                (v + n - 1) / n);
        }
    assert_int_equal(yk_shard_of(1024, 1024, MOST), MOST);
    assert_int_equal(yk_shard_of(1023, 1024, MOST), MOST - 4);
}

static bool is_node(uint32_t first, uint32_t end, uint32_t size, uint32_t v)
{
    return first % size == 0 && end == (first + size < v ? first + size : v);
}

/* Cut a span; every piece is a node of the tree, and no larger node that begins there fits.
 * Returns how many pieces there are. */
static unsigned cut(uint32_t first, uint32_t last, uint32_t v)
{
    unsigned pieces = 0;
    for (uint32_t at = first, end; at < last; at = end, pieces++) {
        bool node = false, larger = false;
        end = yk_subtree_end(at, last, v);
        assert_true(end > at && end <= last);
        for (uint32_t size = 1; size < 2 * v; size *= 2) {
            node = node || is_node(at, end, size, v);
            uint32_t reach = at + size < v ? at + size : v;
            larger = larger || (at % size == 0 && reach <= last && reach > end);
        }
        assert_true(node && !larger);
    }
    return pieces;
}

/* What workers, and owners for them, have room for: pieces of a span, and the sums of one task. */
static void test_subtrees(void **state)
{
    (void)state;
    unsigned most = 0;
    for (uint32_t v = 1; v <= 70; v++) /* any span at all */
        for (uint32_t first = 0; first < v; first++)
            for (uint32_t last = first + 1; last <= v; last++)
                cut(first, last, v);
    for (uint32_t v = MOST; v > 4000; v--)
        for (uint32_t n = 1; n <= 24; n++)
            for (uint32_t w = 0; w < n; w++) {
                unsigned pieces = cut(yk_shard_of(w, n, v), yk_shard_of(w + 1, n, v), v);
                most = pieces > most ? pieces : most;
            }
    for (uint32_t i = 1; i < MOST; i++) { /* the worst spans begin at 1 or end before the end */
        unsigned a = cut(1, i, MOST), b = cut(i, MOST - 1, MOST), c = cut(i, MOST, MOST);
        most = a > most ? a : most;
        most = b > most ? b : most;
        most = c > most ? c : most;
    }
    assert_int_equal(most, 22); /* 1, 2, 4 ... 1024, 1024, ... 2, 1 */
    assert_true(most + YK_SUM_DEPTH <= YK_SUMS && most <= 26);
}

/* The tree as shard.h draws it. */
static void slow_sum(float (*leaf)[N], uint32_t v, uint32_t first, uint32_t size, float *out)
{
    if (size == 1) {
        memcpy(out, leaf[first], sizeof leaf[first]);
        return;
    }
    slow_sum(leaf, v, first, size / 2, out);
    if (first + size / 2 < v) {
        float right[N];
        slow_sum(leaf, v, first + size / 2, size / 2, right);
        for (int i = 0; i < N; i++)
            out[i] += right[i];
    }
}

static uint32_t tree_size(uint32_t v)
{
    uint32_t size = 1;
    while (size < v)
        size *= 2;
    return size;
}

struct tree {
    uint32_t v, n;
    float (*leaf)[N], (*sum)[N];
    struct yk_block *block; /* (n) */
};

static void tree_open(struct tree *t, uint32_t v, struct yk_rng *r)
{
    *t =
        (struct tree){.v = v, .leaf = calloc(v, sizeof *t->leaf), .sum = calloc(v, sizeof *t->sum)};
    t->block = calloc(v, sizeof *t->block);
    assert_true(t->leaf != NULL && t->sum != NULL && t->block != NULL);
    for (uint32_t s = 0; s < v; s++)
        for (int i = 0; i < N; i++)
            t->leaf[s][i] = ((float)yk_rng_unit(r) - 0.5f) * (float)(1u << yk_rng_below(r, 20));
}

static void tree_close(struct tree *t)
{
    free(t->leaf);
    free(t->sum);
    free(t->block);
}

/* The next block: the node of `size` shards at `first`. Some are stored from float 2 on, as an
 * owner's range is. */
static void add_block(struct tree *t, uint32_t first, uint32_t size)
{
    size_t origin = t->n % 3 == 0 ? 2 : 0;
    float *sum = t->sum[t->n], full[N];
    slow_sum(t->leaf, t->v, first, size, full);
    memcpy(sum, full + origin, (N - origin) * sizeof *sum);
    t->block[t->n++] = (struct yk_block){.first = first,
                                         .last = first + size < t->v ? first + size : t->v,
                                         .sum = sum,
                                         .origin = origin};
}

/* Any legal set of blocks: go down the tree and stop anywhere. */
static void cut_anywhere(struct tree *t, uint32_t first, uint32_t size, struct yk_rng *r)
{
    if (first >= t->v)
        return;
    if (size == 1 || yk_rng_below(r, 4) == 0) {
        add_block(t, first, size);
        return;
    }
    cut_anywhere(t, first, size / 2, r);
    cut_anywhere(t, first + size / 2, size / 2, r);
}

static void cut_by_workers(struct tree *t, uint32_t n)
{
    for (uint32_t w = 0; w < n; w++)
        for (uint32_t at = yk_shard_of(w, n, t->v), last = yk_shard_of(w + 1, n, t->v), end;
             at < last; at = end) {
            end = yk_subtree_end(at, last, t->v);
            add_block(t, at, tree_size(end - at));
        }
}

static void check_sum(struct tree *t)
{
    static float row[YK_SUM_DEPTH][YK_SUM_CHUNK];
    float expected[N];
    slow_sum(t->leaf, t->v, 0, tree_size(t->v), expected);
    for (size_t lo = 2; lo < N; lo++) {
        const float *got = yk_tree_sum(t->block, t->v, lo, N, row);
        assert_memory_equal(got, expected + lo, (N - lo) * sizeof *got);
    }
    t->n = 0;
}

static void check_tree(uint32_t v, unsigned rounds, uint32_t workers, struct yk_rng *r)
{
    struct tree t;
    tree_open(&t, v, r);
    for (uint32_t n = 1; n <= v && n <= workers; n++) {
        cut_by_workers(&t, n);
        check_sum(&t);
    }
    for (unsigned i = 0; i < rounds; i++) {
        cut_anywhere(&t, 0, tree_size(v), r);
        check_sum(&t);
    }
    for (uint32_t s = 0; s < v; s++)
        add_block(&t, s, 1);
    check_sum(&t);
    tree_close(&t);
}

static void test_sums(void **state)
{
    (void)state;
    struct yk_rng r;
    yk_rng_init(&r, 11, 0, 0, 0);
    for (uint32_t v = 1; v <= 40; v++)
        check_tree(v, 20, v, &r);
    check_tree(MOST - 1, 10, 9, &r);
    check_tree(MOST, 10, 9, &r);

    /* these are numbers for which the order matters: one after the other gives other bits */
    struct tree t;
    float in_order[N] = {0}, tree[N];
    tree_open(&t, 40, &r);
    for (uint32_t s = 0; s < 40; s++)
        for (int i = 0; i < N; i++)
            in_order[i] += t.leaf[s][i];
    slow_sum(t.leaf, 40, 0, 64, tree);
    assert_memory_not_equal(in_order, tree, sizeof tree);
    tree_close(&t);
}

static void test_add(void **state)
{
    (void)state;
    float a[37], b[37], sum[37];
    struct yk_rng r;
    yk_rng_init(&r, 12, 0, 0, 0);
    for (int i = 0; i < 37; i++) {
        a[i] = (float)yk_rng_unit(&r);
        b[i] = (float)yk_rng_unit(&r);
        sum[i] = i < 36 ? a[i] + b[i] : a[i];
    }
    yk_add(a, b, 36);
    assert_memory_equal(a, sum, sizeof sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_tile), cmocka_unit_test(test_spans_tile),
        cmocka_unit_test(test_subtrees),    cmocka_unit_test(test_sums),
        cmocka_unit_test(test_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
