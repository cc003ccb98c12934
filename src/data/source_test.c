/* source_test.c - every example once an epoch, in an order that depends on seed and epoch only. */
#include "data/data.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 1003, EPOCHS = 3 };

static const struct yk_dataset set = {.name = "numbers", .split = "train", .rows = ROWS};

/* Walk `epochs` epochs; what was dealt, in order, goes to `dealt` (epochs * rows). Checks what holds for every batch. */
static void walk(struct yk_source *s, int epochs, uint32_t *dealt)
{
    uint64_t first = s->cursor.epoch;
    const uint32_t *expected = NULL; /* what the batch before announced */
    uint32_t n_expected = 0, rows = s->set->rows;
    for (int epoch = 0; epoch < epochs; epoch++)
        for (uint32_t at = 0; at < rows;) {
            struct yk_batch b;
            yk_source_next(s, &b);
            assert_ptr_equal(b.set, s->set);
            assert_int_equal(b.epoch, first + (uint64_t)epoch);
            assert_int_equal(b.n, s->batch < rows - at ? s->batch : rows - at);
            if (n_expected > 0)
                assert_memory_equal(b.row, expected, n_expected * sizeof *expected);
            memcpy(dealt, b.row, b.n * sizeof *dealt);
            dealt += b.n;
            at += b.n;
            assert_int_equal(b.n_ahead, rows - at < b.n ? rows - at : b.n);
            expected = b.ahead;
            n_expected = b.n_ahead;
            assert_true(s->cursor.at == at || (at == rows && s->cursor.at == 0 && s->cursor.epoch == b.epoch + 1));
        }
}

static void deal(uint32_t batch, uint64_t seed, bool shuffle, uint32_t *dealt)
{
    struct yk_source s;
    assert_int_equal(yk_source_init(&s, &set, batch, seed, shuffle, NULL), YK_OK);
    walk(&s, EPOCHS, dealt);
    yk_source_release(&s);
    assert_null(s.order);
}

static void test_every_row_once(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS], b[EPOCHS * ROWS];
    static const uint32_t batches[] = {1, 2, 10, 59, 60, ROWS - 1, ROWS, ROWS + 1, UINT32_MAX};
    deal(7, 42, true, a);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        int seen[ROWS] = {0}, in_place = 0;
        for (int i = 0; i < ROWS; i++) {
            seen[a[epoch * ROWS + i]]++;
            in_place += a[epoch * ROWS + i] == (uint32_t)i;
        }
        for (int i = 0; i < ROWS; i++)
            assert_int_equal(seen[i], 1);
        assert_true(in_place < 10); /* one is expected */
    }
    assert_memory_not_equal(a, a + ROWS, ROWS * sizeof *a);
    assert_memory_not_equal(a + ROWS, a + 2 * ROWS, ROWS * sizeof *a);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) { /* the order does not depend on the batch */
        deal(batches[i], 42, true, b);
        assert_memory_equal(a, b, sizeof a);
    }
    deal(7, 43, true, b);
    assert_memory_not_equal(a, b, ROWS * sizeof *a);
}

static void test_file_order(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS];
    deal(100, 1, false, a);
    for (int i = 0; i < EPOCHS * ROWS; i++)
        assert_int_equal(a[i], i % ROWS);
}

/* Stop anywhere, go on in a fresh source from the cursor: the same examples follow. */
static void test_seek_is_walking(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS];
    struct yk_error e;
    deal(60, 9, true, a);
    for (uint64_t at = 0; at <= ROWS; at++) {
        struct yk_source s;
        struct yk_batch b;
        assert_int_equal(yk_source_init(&s, &set, 60, 9, true, NULL), YK_OK);
        yk_source_next(&s, &b); /* a seek starts anywhere */
        assert_int_equal(yk_source_seek(&s, (struct yk_cursor){1, at}, &e), YK_OK);
        for (size_t got = ROWS + at; got < EPOCHS * ROWS; got += b.n) {
            yk_source_next(&s, &b);
            assert_int_equal(b.epoch, got / ROWS);
            assert_memory_equal(b.row, a + got, b.n * sizeof *a);
        }
        yk_source_release(&s);
    }
    struct yk_source s;
    assert_int_equal(yk_source_init(&s, &set, 60, 9, true, NULL), YK_OK);
    assert_int_equal(yk_source_seek(&s, (struct yk_cursor){0, ROWS + 1}, &e), YK_DATA);
    assert_non_null(strstr(e.text, "1004"));
    yk_source_release(&s);
}

/* All 24 orders of 4 rows come equally often: chi-square with 23 degrees of freedom stays under its 99.99 % point. */
static void test_unbiased(void **state)
{
    (void)state;
    const struct yk_dataset four = {.name = "four", .split = "train", .rows = 4};
    const int rounds = 24000;
    int seen[256] = {0}, orders = 0;
    double chi2 = 0;
    struct yk_source s;
    assert_int_equal(yk_source_init(&s, &four, 4, 5, true, NULL), YK_OK);
    for (int i = 0; i < rounds; i++) {
        struct yk_batch b;
        yk_source_next(&s, &b);
        seen[b.row[0] << 6 | b.row[1] << 4 | b.row[2] << 2 | b.row[3]]++;
    }
    yk_source_release(&s);
    for (int i = 0; i < 256; i++)
        if (seen[i] > 0) {
            chi2 += (seen[i] - rounds / 24.0) * (seen[i] - rounds / 24.0) / (rounds / 24.0);
            orders++;
        }
    assert_int_equal(orders, 24);
    assert_true(chi2 < 56);
}

static void test_refuses(void **state)
{
    (void)state;
    struct yk_source s;
    struct yk_error e;
    const struct yk_dataset none = {.name = "none", .split = "test"};
    assert_int_equal(yk_source_init(&s, &none, 10, 0, true, &e), YK_DATA);
    assert_non_null(strstr(e.text, "'none' has no test examples"));
    assert_int_equal(yk_source_init(&s, &set, 0, 0, true, &e), YK_USAGE);
    yk_source_release(&s);
    yk_source_release(NULL);
}

/* A bound that only a mistake passes; the aim is 0.2 ms. */
static void test_is_quick(void **state)
{
    (void)state;
    const struct yk_dataset mnist = {.name = "mnist", .split = "train", .rows = 60000};
    double best = 1;
    struct yk_source s;
    assert_int_equal(yk_source_init(&s, &mnist, 60000, 1, true, NULL), YK_OK);
    for (int i = 0; i < 20; i++) {
        struct yk_batch b;
        double start = yk_now();
        yk_source_next(&s, &b);
        double took = yk_now() - start;
        best = took < best ? took : best;
    }
    yk_source_release(&s);
    print_message("an epoch of 60000 rows is shuffled in %.3f ms\n", best * 1e3);
    assert_true(best < 0.010);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_once), cmocka_unit_test(test_file_order), cmocka_unit_test(test_seek_is_walking),
        cmocka_unit_test(test_unbiased),       cmocka_unit_test(test_refuses),    cmocka_unit_test(test_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
