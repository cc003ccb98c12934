/* source_test.c - every example once an epoch, in an order that depends on seed and epoch only, not
 * on the caller. */
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

/* Walks `epochs` epochs in batches, and stores the examples in order in `dealt` (epochs * rows).
 * Checks the properties of every batch. */
static void walk(struct yk_source *s, uint32_t batch, int epochs, uint32_t *dealt)
{
    uint64_t rows = s->set->rows, end = (uint64_t)epochs * rows;
    const uint32_t *expected = NULL; /* the rows that the batch before announced */
    uint32_t n_expected = 0;
    for (uint64_t at = 0; at < end;) {
        struct yk_batch b;
        uint64_t left = rows - at % rows;
        uint32_t n = batch < left ? batch : (uint32_t)left;
        yk_source_at(s, at, n, at + n, &b);
        assert_ptr_equal(b.set, s->set);
        assert_int_equal(b.epoch, at / rows);
        assert_int_equal(b.n, n);
        if (n_expected > 0) {
            assert_ptr_equal(b.row, expected);
            assert_true(n_expected == b.n || n_expected == left);
        }
        memcpy(dealt, b.row, b.n * sizeof *dealt);
        dealt += b.n;
        at += b.n;
        left -= b.n;
        assert_int_equal(b.n_ahead, left < b.n ? left : b.n); /* none across the end of an epoch */
        expected = b.ahead;
        n_expected = b.n_ahead;
    }
}

static void deal(uint32_t batch, uint64_t seed, uint32_t window, uint32_t *dealt)
{
    struct yk_source s;
    assert_int_equal(yk_source_init(&s, &set, seed, window, NULL), YK_OK);
    walk(&s, batch, EPOCHS, dealt);
    yk_source_release(&s);
    assert_null(s.set);
}

static void test_every_row_once(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS], b[EPOCHS * ROWS];
    static const uint32_t batches[] = {1, 2, 10, 59, 60, ROWS - 1, ROWS, ROWS + 1, UINT32_MAX};
    deal(7, 42, 0, a);
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
    for (size_t i = 0; i < sizeof batches / sizeof *batches;
         i++) { /* the order does not depend on the batch */
        deal(batches[i], 42, 0, b);
        assert_memory_equal(a, b, sizeof a);
    }
    deal(7, 43, 0, b);
    assert_memory_not_equal(a, b, ROWS * sizeof *a);
}

static void test_file_order(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS];
    deal(100, 1, 1, a);
    for (int i = 0; i < EPOCHS * ROWS; i++)
        assert_int_equal(a[i], i % ROWS);
}

/* Any position, in any order, in a fresh source: the examples that a walk finds there. */
static void test_any_position(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS];
    deal(60, 9, 0, a);
    for (uint64_t at = 0; at <= ROWS; at++) {
        struct yk_source s;
        struct yk_batch b;
        assert_int_equal(yk_source_init(&s, &set, 9, 0, NULL), YK_OK);
        yk_source_at(&s, 0, 60, UINT64_MAX, &b); /* whatever was asked for before */
        for (uint64_t got = ROWS + at; got < EPOCHS * ROWS; got += b.n) {
            uint64_t left = ROWS - got % ROWS;
            yk_source_at(&s, got, left < 60 ? (uint32_t)left : 60, UINT64_MAX, &b);
            assert_int_equal(b.epoch, got / ROWS);
            assert_int_equal(b.n_ahead, 0); /* unknown */
            assert_memory_equal(b.row, a + got, b.n * sizeof *a);
        }
        yk_source_release(&s);
    }
}

/* The rows ahead need not follow: parts are dealt to several workers. They are announced inside the
 * epoch only, at most to its end. */
static void test_ahead(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS];
    struct yk_source s;
    struct yk_batch b;
    deal(60, 9, 0, a);
    assert_int_equal(yk_source_init(&s, &set, 9, 0, NULL), YK_OK);
    yk_source_at(&s, ROWS + 120, 60, ROWS + 300, &b);
    assert_int_equal(b.n_ahead, 60);
    assert_memory_equal(b.ahead, a + ROWS + 300, 60 * sizeof *a);
    yk_source_at(&s, ROWS + 300, 60, ROWS + 60, &b); /* one that came back */
    assert_int_equal(b.n_ahead, 60);
    assert_memory_equal(b.ahead, a + ROWS + 60, 60 * sizeof *a);
    yk_source_at(&s, ROWS + 120, 60, 2 * ROWS - 7, &b);
    assert_int_equal(b.n_ahead, 7);
    assert_memory_equal(b.ahead, a + 2 * ROWS - 7, 7 * sizeof *a);
    yk_source_at(&s, ROWS + 120, 60, 2 * ROWS, &b);
    assert_int_equal(b.n_ahead, 0);
    yk_source_at(&s, ROWS + 120, 60, 60, &b); /* an epoch that is over */
    assert_int_equal(b.n_ahead, 0);
    yk_source_release(&s);
}

/* A batch of the epoch before stays as it is while those of the next are asked for. */
static void test_two_epochs(void **state)
{
    (void)state;
    static uint32_t a[EPOCHS * ROWS];
    struct yk_source s;
    struct yk_batch late, b;
    deal(60, 9, 0, a);
    assert_int_equal(yk_source_init(&s, &set, 9, 0, NULL), YK_OK);
    for (uint64_t epoch = 0; epoch + 1 < EPOCHS; epoch++) {
        yk_source_at(&s, epoch * ROWS + 900, 100, UINT64_MAX, &late);
        yk_source_at(&s, (epoch + 1) * ROWS, 100, UINT64_MAX, &b);
        assert_memory_equal(b.row, a + (epoch + 1) * ROWS, 100 * sizeof *a);
        assert_memory_equal(late.row, a + epoch * ROWS + 900, 100 * sizeof *a);
        yk_source_at(&s, epoch * ROWS + 30, 5, UINT64_MAX, &b); /* and can still be asked for */
        assert_memory_equal(b.row, a + epoch * ROWS + 30, 5 * sizeof *a);
    }
    yk_source_release(&s);
}

enum { THREADS = 4, MANY = 40 };
static struct crowd {
    struct yk_source source;
    uint32_t dealt[MANY * ROWS];
    pthread_barrier_t epoch;
} crowd;

/* This worker has every fourth part. No worker is more than an epoch ahead of another. */
static void *take_part(void *arg)
{
    uint64_t me = (uint64_t)(uintptr_t)arg;
    for (uint64_t epoch = 0; epoch < MANY; epoch++) {
        for (uint64_t at = me * 10; at < ROWS; at += THREADS * 10) {
            struct yk_batch b;
            uint64_t position = epoch * ROWS + at;
            yk_source_at(&crowd.source, position, ROWS - at < 10 ? (uint32_t)(ROWS - at) : 10,
                         position + THREADS * 10, &b);
            memcpy(crowd.dealt + position, b.row, b.n * sizeof *b.row);
        }
        pthread_barrier_wait(&crowd.epoch);
    }
    return NULL;
}

/* Threads that ask for parts of the same epochs see one order, whichever thread makes it. */
static void test_threads(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    struct yk_source s;
    static uint32_t alone[MANY * ROWS];
    assert_int_equal(yk_source_init(&s, &set, 9, 0, NULL), YK_OK);
    walk(&s, 100, MANY, alone);
    yk_source_release(&s);
    assert_int_equal(yk_source_init(&crowd.source, &set, 9, 0, NULL), YK_OK);
    assert_int_equal(pthread_barrier_init(&crowd.epoch, NULL, THREADS), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_part, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_memory_equal(crowd.dealt, alone, sizeof alone);
    pthread_barrier_destroy(&crowd.epoch);
    yk_source_release(&crowd.source);
}

/* All 24 orders of 4 rows come equally often: chi-square with 23 degrees of freedom stays under its
 * 99.99 % point. */
static void test_unbiased(void **state)
{
    (void)state;
    const struct yk_dataset four = {.name = "four", .split = "train", .rows = 4};
    const int rounds = 24000;
    int seen[256] = {0}, orders = 0;
    double chi2 = 0;
    struct yk_source s;
    assert_int_equal(yk_source_init(&s, &four, 5, 0, NULL), YK_OK);
    for (int i = 0; i < rounds; i++) {
        struct yk_batch b;
        yk_source_at(&s, (uint64_t)i * 4, 4, UINT64_MAX, &b);
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
    assert_int_equal(yk_source_init(&s, &none, 0, 0, &e), YK_DATA);
    assert_non_null(strstr(e.text, "'none' has no test examples"));
    yk_source_release(&s);
    yk_source_release(NULL);
}

/* A bound that only a mistake exceeds; the aim is 0.2 ms. */
static void test_is_quick(void **state)
{
    (void)state;
    const struct yk_dataset mnist = {.name = "mnist", .split = "train", .rows = 60000};
    double best = 1;
    struct yk_source s;
    assert_int_equal(yk_source_init(&s, &mnist, 1, 0, NULL), YK_OK);
    for (int i = 0; i < 20; i++) {
        struct yk_batch b;
        double start = yk_now();
        yk_source_at(&s, (uint64_t)i * 60000, 60, UINT64_MAX, &b);
        double took = yk_now() - start;
        best = took < best ? took : best;
    }
    yk_source_release(&s);
    print_message("an epoch of 60000 rows is shuffled in %.3f ms\n", best * 1e3);
#if defined(__SANITIZE_THREAD__)
    assert_true(best < 0.2); /* a sanitizer looks at every access */
#else
    assert_true(best < 0.010);
#endif
}

/* Rows stay in their window, every one once, and another way each epoch. */
static void test_windows(void **state)
{
    (void)state;
    enum { WINDOW = 30 };
    static uint32_t a[EPOCHS * ROWS];
    deal(7, 42, WINDOW, a);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        int seen[ROWS] = {0}, in_place = 0;
        for (int i = 0; i < ROWS; i++) {
            uint32_t row = a[epoch * ROWS + i];
            assert_int_equal(row / WINDOW, i / WINDOW);
            seen[row]++;
            in_place += row == (uint32_t)i;
        }
        for (int i = 0; i < ROWS; i++)
            assert_int_equal(seen[i], 1);
        assert_true(in_place < ROWS / 4);
    }
    assert_memory_not_equal(a, a + ROWS, ROWS * sizeof *a);
}

/* Held-out rows are spread evenly, and the two parts are the whole set. */
static void test_held_out(void **state)
{
    (void)state;
    static const double SHARE[] = {0.1, 0.25, 0.5, 1.0 / 3, 0.9, 0.001};
    for (size_t k = 0; k < sizeof SHARE / sizeof *SHARE; k++) {
        struct yk_dataset part[2] = {{.holdout = SHARE[k], .is_test = false},
                                     {.holdout = SHARE[k], .is_test = true}};
        uint32_t row[1000], last = 0;
        int seen[1000] = {0};
        part[1].rows = (uint32_t)(1000 * SHARE[k]);
        part[0].rows = 1000 - part[1].rows;
        for (int i = 0; i < 2; i++) {
            yk_dataset_rows(&part[i], row);
            for (uint32_t r = 0; r < part[i].rows; r++) {
                assert_true(row[r] < 1000 && (r == 0 || row[r] > last));
                if (i == 1 && r > 0)
                    assert_true(row[r] - last <= 1 / SHARE[k] + 1);
                last = row[r];
                seen[row[r]]++;
            }
        }
        for (int i = 0; i < 1000; i++)
            assert_int_equal(seen[i], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_once), cmocka_unit_test(test_windows),
        cmocka_unit_test(test_held_out),       cmocka_unit_test(test_file_order),
        cmocka_unit_test(test_any_position),   cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_two_epochs),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_unbiased),       cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
