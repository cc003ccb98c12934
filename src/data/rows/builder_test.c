/* builder_test.c - the same rows give the same blocks wherever chunks end, in memory and in a
 * cache; doubles are found; a full disk is survived. */
#include "data/rows/builder.h"

#include "base/rng.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { ROWS = 2 * YK_BLOCK_ROWS + 777 };

/* Row r of the test set, a function of r alone. Block 0 has only ones; rows of block 1 have doubles
 * now and then. */
static uint32_t make_row(uint32_t r, uint32_t key[64], float value[64], uint8_t *label)
{
    struct yk_rng rng;
    yk_rng_init(&rng, 3, r, 0, 0);
    uint32_t n = yk_rng_below(&rng, 12);
    if (r % 1000 == 999)
        n = 60;
    *label = (uint8_t)yk_rng_below(&rng, 2);
    for (uint32_t i = 0, k = 0; i < n; i++) {
        k += 1 + yk_rng_below(&rng, 1000);
        key[i] = r % 3 == 0 ? 100000 - k : k;
        value[i] = r < YK_BLOCK_ROWS ? 1 : (float)yk_rng_unit(&rng);
    }
    if (r / YK_BLOCK_ROWS == 1 && r % 7 == 0 && n > 2)
        key[n - 1] = key[0];
    return n;
}

static void fill(struct yk_chunk *c, uint32_t from, uint32_t to)
{
    yk_chunk_clear(c);
    for (uint32_t r = from; r < to; r++) {
        assert_true(yk_chunk_room(c, 1, 64));
        c->entries += make_row(r, c->key + c->entries, c->value + c->entries, &c->label[c->rows]);
        c->end[c->rows++] = c->entries;
    }
}

/* All rows, in chunks of random lengths up to `most`. */
static struct yk_rows *build(const char *path, bool unnamed, uint32_t most,
                             const struct yk_cache_input *input)
{
    struct yk_builder *b;
    struct yk_error e = {0};
    struct yk_chunk c = {0};
    struct yk_facts f = {0};
    struct yk_rows *r = NULL;
    struct yk_rng rng;
    yk_rng_init(&rng, most, 0, 0, 0);
    assert_int_equal(yk_builder_open(&b, path, unnamed, &e), YK_OK);
    for (uint32_t from = 0, to; from < ROWS; from = to) {
        to = from + yk_rng_below(&rng, most + 1);
        to = to < ROWS ? to : ROWS;
        fill(&c, from, to);
        assert_true(yk_facts_find(&f, &c));
        assert_int_equal(yk_builder_add(b, &c, &f, &e), YK_OK);
    }
    assert_int_equal(yk_builder_finish(b, input, input ? 1 : 0, &r, &e), YK_OK);
    yk_builder_close(b);
    yk_chunk_release(&c);
    yk_facts_release(&f);
    return r;
}

static void check(const struct yk_rows *s)
{
    uint64_t entries = 0, positives = 0, top = 0;
    assert_int_equal(s->rows, ROWS);
    assert_int_equal(s->blocks, 3);
    assert_null(s->block[0].value);
    assert_non_null(s->block[1].value);
    assert_null(s->block[0].twice);
    assert_non_null(s->block[1].twice);
    assert_null(s->block[2].twice);
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t key[64];
        float value[64];
        uint8_t label;
        uint32_t n = make_row(r, key, value, &label);
        struct yk_row x = yk_row_at(s, r);
        assert_int_equal(x.n, n);
        assert_int_equal(x.label, label);
        bool twice = false;
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(x.key[i], key[i]);
            assert_true(value[i] == (x.value ? x.value[i] : 1));
            top = key[i] + (uint64_t)1 > top ? key[i] + (uint64_t)1 : top;
            for (uint32_t k = 0; k < i; k++)
                twice |= key[k] == key[i];
        }
        const uint64_t *bits = s->block[r / YK_BLOCK_ROWS].twice;
        uint32_t at = r % YK_BLOCK_ROWS;
        assert_int_equal(bits ? bits[at / 64] >> at % 64 & 1 : 0, twice);
        entries += n;
        positives += label;
    }
    assert_int_equal(s->entries, entries);
    assert_int_equal(s->positives, positives);
    assert_int_equal(s->features, top);
    volatile uint8_t sum = 0; /* 64 bytes behind keys and values can be read */
    for (uint32_t i = 0; i < s->blocks; i++) {
        uint32_t rows = i + 1 < s->blocks ? YK_BLOCK_ROWS : ROWS % YK_BLOCK_ROWS,
                 n = s->block[i].first[rows];
        for (int k = 0; k < 64; k++)
            sum = (uint8_t)(sum + ((const uint8_t *)(s->block[i].key + n))[k]);
        for (int k = 0; k < 64 && s->block[i].value; k++)
            sum = (uint8_t)(sum + ((const uint8_t *)(s->block[i].value + n))[k]);
    }
}

static void same_blocks_for_any_chunks(void **state)
{
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s/x.rows", (char *)*state), YK_OK);
    struct yk_rows *one = build(NULL, false, ROWS, NULL);
    check(one);
    static const uint32_t most[] = {1, 50, 1000, 20000, ROWS};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        struct yk_cache_input input = {.path = 1, .size = 2, .changed = 3};
        struct yk_rows *r = build(i % 2 ? path : NULL, false, most[i], i % 2 ? &input : NULL);
        check(r);
        assert_int_equal(r->xxh3, one->xxh3);
        assert_string_equal(r->note, "");
        yk_rows_close(r);
    }
    struct yk_rows *again;
    struct yk_cache_input input = {.path = 1, .size = 2, .changed = 3};
    assert_int_equal(yk_cache_open(&again, path, YK_CACHE_OURS, &input, 1, 2, NULL), YK_OK);
    check(again);
    yk_rows_close(again);
    input.changed = 4;
    assert_int_equal(yk_cache_open(&again, path, YK_CACHE_OURS, &input, 1, 2, NULL), YK_DATA);
    yk_rows_close(one);
}

static int files_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

static void unnamed_leaves_nothing(void **state)
{
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s/x.rows", (char *)*state), YK_OK);
    struct yk_rows *r = build(path, true, 5000, NULL);
    check(r);
    assert_non_null(r->backing->map);
    assert_int_equal(files_in(*state), 0);
    yk_rows_close(r);
}

/* A limit on the length of files is as good as a full disk. Whatever of the set fits first, all of
 * it comes out. */
static void survives_a_full_disk(void **state)
{
    char path[YK_PATH_MAX];
    assert_int_equal(yk_path(path, NULL, "%s/x.rows", (char *)*state), YK_OK);
    struct yk_rows *whole = build(NULL, false, 5000, NULL);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    static const rlim_t limits[] = {0, 100, 100000, 1200000, 2400000, 2600000, 2650000};
    int failures = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        small = (struct rlimit){.rlim_cur = limits[i], .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        struct yk_rows *r = build(path, false, 5000, NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        check(r);
        assert_int_equal(r->xxh3, whole->xxh3);
        if (r->note[0] != '\0') {
            failures++;
            assert_non_null(strstr(r->note, "cannot write"));
            assert_int_equal(files_in(*state), 0);
        }
        yk_rows_close(r);
        unlink(path);
    }
    assert_in_range(failures, 4, 7);
    struct yk_rows *r = build("/nonexistent/x.rows", false, 5000, NULL);
    check(r);
    assert_non_null(strstr(r->note, "cannot create"));
    yk_rows_close(r);
    yk_rows_close(whole);
}

static void no_rows_is_an_error(void **state)
{
    (void)state;
    struct yk_builder *b;
    struct yk_error e = {0};
    struct yk_rows *r;
    assert_int_equal(yk_builder_open(&b, NULL, false, &e), YK_OK);
    assert_int_equal(yk_builder_finish(b, NULL, 0, &r, &e), YK_DATA);
    assert_non_null(strstr(e.text, "no rows"));
    yk_builder_close(b);
}

static void chunks_grow_and_know_their_limit(void **state)
{
    (void)state;
    struct yk_chunk c = {0};
    assert_true(yk_chunk_room(&c, 3, 5));
    c.rows = 3;
    c.entries = 5;
    c.key[4] = 77;
    assert_true(yk_chunk_room(&c, 100000, 100000));
    assert_int_equal(c.key[4], 77);
    assert_false(yk_chunk_room(&c, 1, UINT32_MAX - 4));
    assert_false(yk_chunk_room(&c, UINT32_MAX - 2, 1));
    assert_int_equal(c.key[4], 77);
    yk_chunk_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_blocks_for_any_chunks, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(unnamed_leaves_nothing, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(survives_a_full_disk, testdir_setup, testdir_teardown),
        cmocka_unit_test(no_rows_is_an_error),
        cmocka_unit_test(chunks_grow_and_know_their_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
