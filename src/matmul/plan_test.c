/* plan_test.c - plans: that they cover the product once, fit into memory, keep partners together;
 * and how they are told. */
#include "matmul/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 64 };

static struct yk_matmul_card card[MANY];

/* `each` ranks a host; (m, k) (k, n) in files that all see. */
static void deal_cards(int ranks, int each, uint64_t m, uint64_t k, uint64_t n)
{
    for (int r = 0; r < ranks; r++) {
        card[r] = (struct yk_matmul_card){
            .memory = (uint64_t)4 << 30, .threads = 1, .gflops = 50, .loads = 1e9};
        snprintf(card[r].host, sizeof card[r].host, "n%d", r / each);
        card[r].input[0].seen = card[r].input[1].seen = true;
        card[r].input[0].rows = m;
        card[r].input[0].cols = card[r].input[1].rows = k;
        card[r].input[1].cols = n;
    }
}

static const struct yk_matmul_ask FILES = {.path = {"a.npy", "b.npy"}};

/* Every element of C once, every panel of it, blocks that fit each other and the buffers. */
static void check_walks(const struct yk_matmul_plan *p)
{
    unsigned char *seen = calloc(p->m * p->n, 1);
    assert_non_null(seen);
    uint64_t panels = yk_matmul_panels(p);
    for (int r = 0; r < p->ranks; r++) {
        struct yk_rect b[2], tile;
        uint64_t panel, k = 0, i = 0;
        for (; yk_matmul_step(p, r, i, b, &tile, &panel); i++) {
            assert_true(i < 100000);
            assert_int_equal(panel, i % panels);
            k = panel == 0 ? 0 : k;
            assert_true(b[0].row == tile.row && b[0].rows == tile.rows && b[1].col == tile.col &&
                        b[1].cols == tile.cols);
            assert_true(b[0].col == k && b[1].row == k && b[0].cols == b[1].rows && b[0].cols > 0 &&
                        b[0].cols <= p->panel);
            assert_true(tile.rows > 0 && tile.rows <= p->tile_rows && tile.cols > 0 &&
                        tile.cols <= p->tile_cols);
            k += b[0].cols;
            if (panel + 1 < panels)
                continue;
            assert_int_equal(k, p->k);
            for (uint64_t y = 0; y < tile.rows; y++)
                for (uint64_t x = 0; x < tile.cols; x++)
                    assert_int_equal(seen[(tile.row + y) * p->n + tile.col + x]++, 0);
        }
        assert_int_equal(i % panels, 0);
    }
    assert_null(memchr(seen, 0, p->m * p->n));
    free(seen);
}

static void plans_cover_everything_once(void **state)
{
    (void)state;
    static const uint64_t SIZES[][3] = {{1, 1, 1},    {300, 200, 500}, {3, 5000, 2},
                                        {1000, 7, 1}, {1, 7, 1000},    {513, 1025, 257}};
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++)
        for (int ranks = 1; ranks <= 12; ranks++) {
            struct yk_matmul_plan p;
            deal_cards(ranks, 2, SIZES[s][0], SIZES[s][1], SIZES[s][2]);
            assert_int_equal(yk_matmul_plan(&p, &FILES, card, ranks, NULL), YK_OK);
            assert_true(p.memory <= card[0].memory && p.seconds > 0);
            check_walks(&p);
            const uint64_t sides[] = {p.m, p.k, p.k, p.n};
            for (int i = 0; i < 4; i++) { /* lines that are checked: all, once, in order */
                uint64_t next = 0;
                for (int r = 0; r < ranks; r++) {
                    const uint64_t *some = p.part[r].check[i / 2][i % 2];
                    assert_true(some[0] == next && some[1] >= next);
                    next = some[1];
                }
                assert_int_equal(next, sides[i]);
            }
            yk_matmul_plan_release(&p);
        }
}

static void a_small_memory_makes_small_tiles(void **state)
{
    (void)state;
    struct yk_matmul_plan p;
    struct yk_error e;
    deal_cards(2, 2, 6000, 3000, 5000);
    card[1].memory = (uint64_t)170 << 20;
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 2, NULL), YK_OK);
    assert_true(p.memory <= card[1].memory && p.tile_rows * p.tile_cols < 6000 * 2500 / 2);
    check_walks(&p);
    yk_matmul_plan_release(&p);
    card[1].memory = (uint64_t)130 << 20; /* room for all but tile and panels */
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 2, &e), YK_USAGE);
    assert_non_null(strstr(e.hint, "--memory 154 is"));
}

/* The least that --memory takes is the least that does. */
static void the_smallest_memory_is_enough_for_small_matrices(void **state)
{
    (void)state;
    const struct yk_matmul_ask trace = {.path = {"a.npy", "b.npy"}, .trace = true};
    for (uint64_t mb = 151; mb <= 152; mb++)
        for (int what = 0; what < 2; what++) {
            struct yk_matmul_plan p;
            struct yk_error e;
            deal_cards(2, 2, 10, 10, 10);
            card[0].memory = card[1].memory = mb << 20;
            yk_code rc = yk_matmul_plan(&p, what == 0 ? &FILES : &trace, card, 2, &e);
            assert_int_equal(rc, mb == 152 ? YK_OK : YK_USAGE);
            if (rc != YK_OK)
                assert_non_null(strstr(e.hint, "--memory 152 is"));
            else
                yk_matmul_plan_release(&p);
        }
}

static void reads_are_of_each_file_by_its_own_type(void **state)
{
    (void)state;
    const struct yk_matmul_ask trace = {.path = {"a.npy", "b.npy"}, .trace = true};
    for (int blind = 0; blind < 2; blind++) /* rank 0 may not see what is float64 */
        for (int what = 0; what < 2; what++) {
            struct yk_matmul_plan p;
            deal_cards(2, 2, 37, 53, 37);
            card[0].input[1].wide = card[1].input[1].wide = true;
            if (blind)
                memset(&card[0].input[1], 0, sizeof card[0].input[1]);
            assert_int_equal(yk_matmul_plan(&p, what == 0 ? &FILES : &trace, card, 2, NULL), YK_OK);
            assert_int_equal(p.reads, 37 * 53 * 4 + 53 * 37 * 8);
            yk_matmul_plan_release(&p);
        }
}

/* Ranks of a host are a rectangle, as square as it goes, so that they share rows and columns. */
static void partners_share_a_machine(void **state)
{
    (void)state;
    struct yk_matmul_plan p;
    deal_cards(16, 4, 8000, 8000, 8000);
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 16, NULL), YK_OK);
    assert_true(p.hosts == 4 && p.grid[0] == 4 && p.grid[1] == 4);
    for (int h = 0; h < 4; h++) {
        unsigned rows = 0, cols = 0;
        for (int r = 4 * h; r < 4 * h + 4; r++) {
            rows |= 1u << p.part[r].row;
            cols |= 1u << p.part[r].col;
        }
        assert_true(__builtin_popcount(rows) == 2 && __builtin_popcount(cols) == 2);
    }
    assert_int_equal(p.reads, (uint64_t)4 * 2 * 4000 * 8000 *
                                  4); /* half of A and half of B, on each of four hosts */
    yk_matmul_plan_release(&p);
    deal_cards(4, 4, 100000, 100, 10); /* long and narrow: cut across the long side */
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 4, NULL), YK_OK);
    assert_true(p.grid[0] == 4 && p.grid[1] == 1);
    yk_matmul_plan_release(&p);
}

static void who_has_it_is_asked(void **state)
{
    (void)state;
    struct yk_matmul_plan p;
    deal_cards(4, 2, 4000, 4000, 4000);
    card[2].input[0].seen = card[3].input[0].seen = false;
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 4, NULL), YK_OK);
    for (uint64_t t = 0; t < 10; t++)
        for (int r = 0; r < 4; r++)
            for (int x = 0; x < 2; x++) {
                int from = yk_matmul_supplier(&p, r, x, t);
                assert_true(from >= 0 && p.card[from].input[x].seen &&
                            (from == r || !p.card[r].input[x].seen));
            }
    assert_true(p.part[0].pulls == 0 && p.part[2].pulls > 0 &&
                (p.part[0].serves || p.part[1].serves));
    for (int way = 0; way < YK_WAYS; way++) { /* it cannot check what it does not see */
        const uint64_t *some = p.part[2].check[YK_MATMUL_A][way];
        assert_true(some[0] == some[1]);
    }
    yk_matmul_plan_release(&p);
    for (int r = 0; r < 4; r++) /* a file system far away: partners take turns */
        card[r].input[0] = card[1].input[0], card[r].input[0].far = true;
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 4, NULL), YK_OK);
    unsigned asked = 0;
    for (uint64_t t = 0; t < 10; t++) {
        int from = yk_matmul_supplier(&p, 0, YK_MATMUL_A, t);
        assert_int_equal(p.part[from].row, p.part[0].row);
        asked |= 1u << from;
    }
    assert_int_equal(__builtin_popcount(asked), p.grid[1]);
    yk_matmul_plan_release(&p);
}

static void impossible_plans_are_refused(void **state)
{
    (void)state;
    struct yk_matmul_plan p;
    struct yk_error e;
    const struct yk_matmul_ask trace = {.path = {"a.npy", "b.npy"}, .trace = true};
    deal_cards(2, 1, 10, 20, 30);
    assert_int_equal(yk_matmul_plan(&p, &trace, card, 2, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "10 x 30"));
    card[0].input[1].rows = card[1].input[1].rows = 21;
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 2, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "10 x 20"));
    deal_cards(2, 1, 10, 20, 30);
    card[1].input[0].mark = 5;
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 2, &e), YK_DATA);
    assert_non_null(strstr(e.text, "on rank 1"));
    card[0].input[1].seen = card[1].input[1].seen = false;
    card[1].input[0].mark = 0;
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 2, &e), YK_DATA);
    assert_non_null(strstr(e.text, "'b.npy': no rank has it"));
}

static void reports_have_every_key(void **state)
{
    (void)state;
    static const char *const KEYS[] = {"verified", "trace",       "gflops",
                                       "seconds",  "bytes_moved", "bytes_planned"};
    struct yk_matmul_plan p;
    struct yk_buf text = {0};
    deal_cards(4, 2, 100, 200, 100);
    assert_int_equal(yk_matmul_plan(&p, &FILES, card, 4, NULL), YK_OK);
    const struct yk_matmul_result r = {.checked = true,
                                       .verified = true,
                                       .has_trace = true,
                                       .trace = 2.5,
                                       .seconds = 1,
                                       .gflops = 3};
    for (int real = 0; real < 2; real++) {
        json_t *j = yk_matmul_json(&p, real ? &r : NULL);
        for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
            assert_non_null(json_object_get(j, KEYS[i]));
        assert_true(real ? json_is_true(json_object_get(j, "verified"))
                         : json_is_null(json_object_get(j, "verified")));
        json_decref(j);
    }
    yk_matmul_text(&p, &r, &text);
    assert_non_null(strstr(text.data, "4 ranks on 2 hosts"));
    assert_non_null(strstr(text.data, "trace 2.5"));
    assert_non_null(strstr(text.data, "verified"));
    yk_buf_release(&text);
    yk_matmul_plan_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_cover_everything_once),
        cmocka_unit_test(a_small_memory_makes_small_tiles),
        cmocka_unit_test(the_smallest_memory_is_enough_for_small_matrices),
        cmocka_unit_test(reads_are_of_each_file_by_its_own_type),
        cmocka_unit_test(partners_share_a_machine),
        cmocka_unit_test(who_has_it_is_asked),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(reports_have_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
