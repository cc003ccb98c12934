/* check_test.c - what a check finds, and what it does not mistake for an error.
 *
 * A product is made once and kept; then copies of it are spoilt in many small ways, put where the
 * product would be, and checked. Whole runs on several ranks, with tiles that are spoilt in
 * passing, show that the parts of a check come together. A thousand products of all kinds of
 * matrices must pass.
 *
 *     build/src/matmul/matmul_check_test          sizes for every day
 *     build/src/matmul/matmul_check_test 8192     that size alone; tests/long/matmul.sh does it */
#include "matmul/rank.h"

#include "base/rng.h"
#include "kernel/onednn_gemm.h"
#include "tests/testdir.h"

#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 4, KEYS = 3 };

#ifdef __SANITIZE_THREAD__ /* it looks for races, which small products have as well as large ones */
enum { PRODUCTS = 100 };
static uint64_t sizes[] = {300};
#else
enum { PRODUCTS = 1000 };
static uint64_t sizes[] = {300, 777, 2048};
#endif
static size_t size_count = sizeof sizes / sizeof sizes[0];

/* --- ranks that do not measure their speed first --- */

struct job {
    struct yk_matmul_ask ask;
    uint64_t key, memory; /* memory 0: plenty */
    int ranks;
    void (*spoil)(struct job *j, float *tile, const struct yk_rect *where); /* rank 0's tiles */
    void *arg;
    struct yk_comm *comm;
    struct yk_matmul_card card[MOST];
    pthread_barrier_t meet;
    struct yk_matmul *first;
    uint64_t steps; /* of rank 0 */
    uint64_t planned;
};

struct member {
    struct job *job;
    int rank;
    yk_code rc;
    struct yk_error e;
    struct yk_matmul_result result;
};

static void planned(void *arg, const struct yk_matmul_plan *p)
{
    ((struct job *)arg)->planned = p->bytes;
}

/* After each step of rank 0; a tile that is finished has not been checked yet. */
static void said(void *arg, double part, double seconds, const char *what)
{
    struct job *j = arg;
    (void)seconds;
    if (part < 0 || strcmp(what, "multiplied") != 0 || j->spoil == NULL)
        return;
    struct yk_rect block[YK_MATMUL_INPUTS], tile;
    uint64_t panel;
    const struct yk_matmul_plan *p = yk_matmul_planned(j->first);
    assert_true(yk_matmul_step(p, 0, j->steps++, block, &tile, &panel));
    if (panel + 1 == yk_matmul_panels(p))
        j->spoil(j, j->first->buffers.tile, &tile);
}

/* Up to where the work starts. */
static void prepare(struct job *j, int rank, struct yk_matmul **out)
{
    struct yk_matmul *m;
    struct yk_matmul_card *card = &j->card[rank];
    assert_int_equal(yk_matmul_open(&m, &j->ask, rank, j->ranks, NULL), YK_OK);
    m->threads = j->ask.threads;
    *card = (struct yk_matmul_card){.gflops = 10, .loads = 1e9, .key = j->key};
    card->threads = m->threads;
    card->memory = j->memory > 0 ? j->memory : (uint64_t)8 << 30;
    snprintf(card->host, sizeof card->host, "here");
    yk_gemm_threads(m->threads);
    assert_int_equal(yk_team_open(&m->team, m->threads, NULL), YK_OK);
    for (int x = 0; x < YK_MATMUL_INPUTS; x++) {
        struct yk_matrix *input = &m->input[x];
        if (j->ask.n > 0)
            yk_matrix_make(input, j->ask.n, j->ask.seed, x);
        else
            assert_int_equal(yk_matrix_open(input, j->ask.path[x], NULL), YK_OK);
        card->input[x].seen = true;
        card->input[x].rows = input->rows;
        card->input[x].cols = input->cols;
    }
    if (rank == 0)
        j->first = m;
    pthread_barrier_wait(&j->meet);
    assert_int_equal(yk_matmul_settle(m, j->card, NULL), YK_OK);
    const struct yk_matmul_hooks hooks = {.planned = planned, .say = said, .arg = j};
    yk_matmul_attach(m, j->comm, &hooks);
    pthread_barrier_wait(&j->meet);
    *out = m;
}

static void open_job(struct job *j)
{
    j->ranks = j->ranks > 0 ? j->ranks : 1;
    j->ask.threads = j->ask.threads > 0 ? j->ask.threads : 1;
    j->steps = 0;
    assert_int_equal(yk_comm_threads(&j->comm, j->ranks, j->ranks, NULL), YK_OK);
    pthread_barrier_init(&j->meet, NULL, (unsigned)j->ranks);
}

static void close_job(struct job *j)
{
    pthread_barrier_destroy(&j->meet);
    j->comm->ops->close(j->comm, true);
}

static void *take_part(void *arg)
{
    struct member *t = arg;
    struct yk_matmul *m;
    prepare(t->job, t->rank, &m);
    t->rc = yk_matmul_run(m, &t->result, &t->e);
    pthread_barrier_wait(&t->job->meet); /* nobody's handler is called any more */
    yk_matmul_close(m);
    return NULL;
}

/* A whole product on threads as ranks; rank 0's words about it. */
static struct member run_job(struct job *j)
{
    struct member member[MOST] = {{0}};
    pthread_t thread[MOST];
    open_job(j);
    for (int r = 0; r < j->ranks; r++) {
        member[r] = (struct member){.job = j, .rank = r};
        assert_int_equal(pthread_create(&thread[r], NULL, take_part, &member[r]), 0);
    }
    for (int r = 0; r < j->ranks; r++)
        pthread_join(thread[r], NULL);
    close_job(j);
    return member[0];
}

/* Is `c` the product? `after` may meddle with what the tile gave. */
static struct member check_given(struct job *j, const float *c, void (*after)(struct yk_matmul *m))
{
    struct member t = {.job = j};
    struct yk_matmul *m;
    open_job(j);
    prepare(j, 0, &m);
    const struct yk_rect all = {0, 0, m->plan.m, m->plan.n};
    assert_true(m->plan.tile_rows == all.rows && m->plan.tile_cols == all.cols);
    memcpy(m->buffers.tile, c, all.rows * all.cols * sizeof *c);
    yk_check_tile(m, &all);
    if (after != NULL)
        after(m);
    t.rc = yk_check(m, &t.result, &t.e);
    close_job(j);
    yk_matmul_close(m);
    return t;
}

/* --- a product that is kept, and faults --- */

static void keep(struct job *j, float *tile, const struct yk_rect *where)
{
    memcpy(j->arg, tile, where->rows * where->cols * sizeof *tile);
}

static double deviation(const float *c, uint64_t n)
{
    double square = 0;
    for (uint64_t i = 0; i < n; i++)
        square += (double)c[i] * (double)c[i];
    return sqrt(square / (double)n);
}

struct fault {
    const char *what;
    void (*plant)(float *c, uint64_t n, float sigma, uint64_t at); /* c is (n, n) */
};

static void last_column(float *c, uint64_t n, float sigma, uint64_t at)
{
    (void)sigma, (void)at;
    for (uint64_t i = 0; i < n; i++)
        c[i * n + n - 1] = 0;
}

static void last_row(float *c, uint64_t n, float sigma, uint64_t at)
{
    (void)sigma, (void)at;
    memset(c + (n - 1) * n, 0, n * sizeof *c);
}

static void right_edge_of_a_tile(float *c, uint64_t n, float sigma, uint64_t at)
{
    (void)sigma;
    for (uint64_t i = at % (n / 2); i < at % (n / 2) + 48; i++)
        memset(c + i * n + n / 2 - 8, 0, 8 * sizeof *c);
}

static void lower_edge_of_a_tile(float *c, uint64_t n, float sigma, uint64_t at)
{
    (void)sigma;
    memset(c + (n / 2) * n + at % (n / 2), 0, 16 * sizeof *c);
}

static void one_element(float *c, uint64_t n, float sigma, uint64_t at)
{
    c[at % (n * n)] += sigma;
}

static void the_last_element(float *c, uint64_t n, float sigma, uint64_t at)
{
    (void)at;
    c[n * n - 1] -= sigma;
}

/* Random signs alone would take half of these for right. */
static void neighbours_that_make_up(float *c, uint64_t n, float sigma, uint64_t at)
{
    uint64_t i = at % (n * n - 1);
    c[i] += sigma;
    c[i + 1] -= sigma;
}

static void columns_exchanged(float *c, uint64_t n, float sigma, uint64_t at)
{
    (void)sigma;
    for (uint64_t i = 0, a = at % (n - 1); i < n; i++) {
        float v = c[i * n + a];
        c[i * n + a] = c[i * n + a + 1];
        c[i * n + a + 1] = v;
    }
}

static const struct fault FAULTS[] = {{"last column zero", last_column},
                                      {"last row zero", last_row},
                                      {"right edge of a tile unwritten", right_edge_of_a_tile},
                                      {"lower edge of a tile unwritten", lower_edge_of_a_tile},
                                      {"one element off by a standard deviation", one_element},
                                      {"the last element off by as much", the_last_element},
                                      {"two neighbours off that make up", neighbours_that_make_up},
                                      {"two columns exchanged", columns_exchanged}};

static void expect_found(const struct member *t, uint64_t n, const char *what)
{
    if (t->rc != YK_FAILED || strstr(t->e.text, "the product is wrong: ") == NULL)
        fail_msg("n = %d: not found: %s (residual %g)", (int)n, what, t->result.residual);
}

/* What docs/matmul.md promises: one element of a made product, in parts of a standard deviation. */
static double promised(uint64_t n)
{
    return (double)n / 20000;
}

static void planted_faults_are_found(void **state)
{
    (void)state;
    for (size_t s = 0; s < size_count; s++) {
        uint64_t n = sizes[s], bytes = n * n * sizeof(float);
        float *right = malloc(bytes), *wrong = malloc(bytes);
        struct job j = {.ask = {.n = n, .seed = s + 1, .threads = 2}, .spoil = keep, .arg = right};
        struct yk_rng rng;
        assert_true(right != NULL && wrong != NULL);
        assert_true(run_job(&j).result.verified);
        float sigma = (float)deviation(right, n * n);
        yk_rng_init(&rng, n, 0, 0, 0);
        for (j.key = 1; j.key <= KEYS; j.key++) {
            struct member t = check_given(&j, right, NULL);
            assert_true(t.rc == YK_OK && t.result.verified && t.result.residual < 0.05);
            for (size_t f = 0; f < sizeof FAULTS / sizeof FAULTS[0]; f++) {
                memcpy(wrong, right, bytes);
                FAULTS[f].plant(wrong, n, sigma, yk_rng_next(&rng) >> 1);
                t = check_given(&j, wrong, NULL);
                expect_found(&t, n, FAULTS[f].what);
            }
            char row[32];
            uint64_t at = yk_rng_next(&rng) % (n * n);
            memcpy(wrong, right, bytes);
            wrong[at] += (float)promised(n) * sigma;
            t = check_given(&j, wrong, NULL);
            expect_found(&t, n, "as little as the documentation says");
            snprintf(row, sizeof row, "row %d is off by ", (int)(at / n));
            assert_non_null(strstr(t.e.text, row));
        }
        free(right);
        free(wrong);
    }
}

/* One vector that has bad luck is no reason to fail; two are. */
static void unlucky_once(struct yk_matmul *m)
{
    m->check.made[YK_ROWS][17] += 1e6;
    m->check.made[YK_COLS][m->part->c.cols + 3] += 1e6; /* the second try */
}

static void unlucky_twice(struct yk_matmul *m)
{
    unlucky_once(m);
    m->check.made[YK_COLS][3] += 1e6;
}

static void a_second_vector_must_fail_too(void **state)
{
    (void)state;
    static float right[100 * 100];
    struct job j = {.ask = {.n = 100, .seed = 1}, .spoil = keep, .arg = right};
    assert_true(run_job(&j).result.verified);
    assert_true(check_given(&j, right, unlucky_once).result.verified);
    struct member t = check_given(&j, right, unlucky_twice);
    assert_int_equal(t.rc, YK_FAILED);
    assert_non_null(strstr(t.e.text, "column 3 is off by "));
}

static void vectors_are_others_in_every_run(void **state)
{
    (void)state;
    uint64_t key[3];
    double x[3] = {0};
    for (int i = 0; i < 3; i++) {
        struct yk_matmul *m;
        struct yk_matmul_card card;
        const struct yk_matmul_ask ask = {.n = 10, .seed = 1, .threads = 1};
        assert_int_equal(yk_matmul_open(&m, &ask, 0, 1, NULL), YK_OK);
        assert_int_equal(yk_matmul_look(m, 1, &card, NULL), YK_OK);
        assert_int_equal(yk_matmul_settle(m, &card, NULL), YK_OK);
        key[i] = card.key;
        for (int v = 0; v < 20; v++) {
            double size = fabs(m->check.random[YK_ROWS][v]);
            assert_true(size >= 1 && size <= 1.5 &&
                        m->check.random[YK_COLS][v] != m->check.random[YK_ROWS][v]);
            x[i] += m->check.random[YK_ROWS][v];
        }
        yk_matmul_close(m);
    }
    assert_true(key[0] != key[1] && key[1] != key[2] && x[0] != x[1] && x[1] != x[2]);
}

/* --- several ranks, several tiles --- */

struct touch {
    const char *what;
    enum yk_way edge;     /* the last row or column of rank 0's region, or YK_WAYS: neither, but */
    struct yk_rect where; /* this. It is set to zero, or */
    float add;            /* off by this */
    uint64_t touched;
};

static void touch(struct job *j, float *tile, const struct yk_rect *at)
{
    struct touch *t = j->arg;
    for (uint64_t r = t->where.row; r < t->where.row + t->where.rows; r++)
        for (uint64_t c = t->where.col; c < t->where.col + t->where.cols; c++)
            if (r >= at->row && r < at->row + at->rows && c >= at->col && c < at->col + at->cols) {
                float *v = &tile[(r - at->row) * at->cols + c - at->col];
                *v = t->add > 0 ? *v + t->add : 0;
                t->touched++;
            }
}

/* `where` is known when the plan is. */
static void touch_edge(struct job *j, float *tile, const struct yk_rect *at)
{
    struct touch *t = j->arg;
    const struct yk_matmul_plan *p = yk_matmul_planned(j->first);
    const struct yk_rect c = p->part[0].c;
    assert_true(j->ranks > 2 || p->tile_rows * p->tile_cols < c.rows * c.cols); /* several tiles */
    if (t->edge == YK_COLS)
        t->where = (struct yk_rect){c.row, c.col + c.cols - 1, c.rows, 1};
    else if (t->edge == YK_ROWS)
        t->where = (struct yk_rect){c.row + c.rows - 1, c.col, 1, c.cols};
    touch(j, tile, at);
}

static void every_rank_and_tile_is_checked(void **state)
{
    (void)state;
    enum { N = 900, NOTHING = 3 };
    float sigma = (float)sqrt(N) / 3;
    for (int ranks = 1; ranks <= MOST; ranks++) {
        struct touch t[] = {{"the last column", YK_COLS, .add = 0},
                            {"the last row", YK_ROWS, .add = 0},
                            {"an element", YK_WAYS, {3, 5, 1, 1}, .add = sigma},
                            {"nothing", YK_WAYS, {0, 0, 0, 0}, .add = 0}};
        for (int i = 0; i <= NOTHING; i++) {
            struct job j = {.ask = {.n = N, .seed = 1}, .spoil = touch_edge, .arg = &t[i]};
            j.ranks = ranks;
            j.memory = (uint64_t)153 << 20;
            struct member m = run_job(&j);
            assert_int_equal(t[i].touched, t[i].where.rows * t[i].where.cols);
            if (i < NOTHING) {
                expect_found(&m, N, t[i].what);
            } else {
                assert_true(m.rc == YK_OK && m.result.verified);
                assert_int_equal(m.result.bytes_moved, j.planned);
            }
        }
    }
}

/* --- matrices of all kinds --- */

static void put(const char *path, const float *x, uint64_t rows, uint64_t cols)
{
    unsigned char header[YK_NPY_HEADER];
    yk_npy_header(header, rows, cols);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && pwrite(fd, header, sizeof header, 0) == sizeof header);
    const struct yk_rect all = {0, 0, rows, cols};
    assert_int_equal(yk_npy_write(fd, path, cols, &all, x, cols, NULL), YK_OK);
    close(fd);
}

enum { KINDS = 11, SIDE = 1600 };

/* A matrix of users: their rows, columns and values are not made to be added up. */
static void fill(float *x, uint64_t rows, uint64_t cols, unsigned kind, struct yk_rng *rng)
{
    double constant = 0.5 + 0.5 * yk_rng_unit(rng), row_scale[SIDE], col_scale[SIDE];
    for (uint64_t i = 0; i < SIDE; i++) {
        row_scale[i] = pow(10, 16 * yk_rng_unit(rng) - 8);
        col_scale[i] = pow(10, 16 * yk_rng_unit(rng) - 8);
    }
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++) {
            double unit = yk_rng_unit(rng), v = 2 * unit - 1;
            const double all[KINDS] = {
                v,
                unit,                                                     /* of one sign */
                constant,                                                 /* they add up */
                v * row_scale[r],                                         /* rows of any scale */
                v * col_scale[c],                                         /* columns of any scale */
                v * row_scale[r] * col_scale[c],                          /* both */
                r % 3 == 0 || c % 5 == 0 || unit < 0.8 ? 0 : v,           /* mostly zeros */
                v * 1e-39,                                                /* denormal */
                (c + r < (rows + cols) / 2 ? 1 : -1) * (1 + 1e-3 * unit), /* up and down */
                r == 0 || c == 0 ? 1e7 : unit,                            /* small ones get lost */
                0,
            };
            x[r * cols + c] = (float)all[kind];
        }
}

static void a_thousand_products_pass(void **state)
{
    char a[YK_PATH_MAX], b[YK_PATH_MAX];
    float *left = malloc(SIDE * SIDE * sizeof *left), *right = malloc(SIDE * SIDE * sizeof *right);
    double largest = 0;
    assert_true(left != NULL && right != NULL);
    yk_path(a, NULL, "%s/a.npy", (char *)*state);
    yk_path(b, NULL, "%s/b.npy", (char *)*state);
    for (unsigned i = 0; i < PRODUCTS; i++) {
        struct yk_rng rng;
        yk_rng_init(&rng, 11, i, 0, 0);
        unsigned kind = i % (KINDS * KINDS), long_sum = i % 16 == 5;
        uint64_t m = 1 + yk_rng_below(&rng, 90), n = 1 + yk_rng_below(&rng, 90);
        uint64_t k = 1 + yk_rng_below(&rng, long_sum ? SIDE : 120);
        fill(left, m, k, kind % KINDS, &rng);
        fill(right, k, n, kind / KINDS, &rng);
        put(a, left, m, k);
        put(b, right, k, n);
        struct job j = {.ask = {.path = {a, b}}, .key = yk_rng_next(&rng), .ranks = 1};
        if (i % 4 == 0)
            j.ranks += (int)(i / 4 % MOST);
        struct member t = run_job(&j);
        largest = fmax(largest, t.result.residual);
        if (t.rc != YK_OK || !t.result.verified)
            fail_msg("product %u on %d ranks: %s%s", i, j.ranks, t.e.text, t.result.reason);
        assert_int_equal(t.result.bytes_moved, j.planned);
    }
    print_message("the largest residual is %.3g\n", largest);
    assert_true(largest > 1e-4 && largest < 0.9);
    free(left);
    free(right);
}

/* The smallest row and column count as much as the largest. */
static void small_rows_count_as_well(void **state)
{
    enum { M = 60, K = 200, N = 80 };
    static float left[M * K], right[K * N], c[M * N], wrong[M * N];
    char a[YK_PATH_MAX], b[YK_PATH_MAX];
    struct yk_rng rng;
    yk_path(a, NULL, "%s/a.npy", (char *)*state);
    yk_path(b, NULL, "%s/b.npy", (char *)*state);
    yk_rng_init(&rng, 5, 0, 0, 0);
    for (uint64_t i = 0; i < M * K; i++)
        left[i] = (float)((2 * yk_rng_unit(&rng) - 1) * pow(10, (double)(i / K) / 4 - 10));
    for (uint64_t i = 0; i < K * N; i++)
        right[i] = (float)((2 * yk_rng_unit(&rng) - 1) * pow(10, (double)(i % N) / 5 - 12));
    put(a, left, M, K);
    put(b, right, K, N);
    struct job j = {.ask = {.path = {a, b}}, .spoil = keep, .arg = c};
    assert_true(run_job(&j).result.verified);
    for (uint64_t i = 0; i < M * N; i += 7) {
        struct member t;
        j.key = i;
        memcpy(wrong, c, sizeof wrong);
        memset(wrong + i / N * N, 0, N * sizeof *wrong);
        t = check_given(&j, wrong, NULL);
        expect_found(&t, N, "a row");
        memcpy(wrong, c, sizeof wrong);
        for (uint64_t r = 0; r < M; r++)
            wrong[r * N + i % N] = 0;
        t = check_given(&j, wrong, NULL);
        expect_found(&t, N, "a column");
    }
}

/* What cannot be checked from one side is checked from the other. */
static void what_is_no_number_hides_little(void **state)
{
    enum { M = 40, K = 30, N = 50 };
    static const struct {
        float a, b; /* A[5][0] and B[0][3] */
        uint64_t at;
        float poison;
        const char *why; /* NULL: it is no error */
    } CASES[] = {{0, NAN, 9 * N + 7, 1e3f, "column 7 is off by"},
                 {0, NAN, 9 * N + 7, NAN, "column 7 has values that are not finite, though"},
                 {0, NAN, 9 * N + 3, 1e3f, NULL},
                 {NAN, 0, 9 * N + 7, 1e3f, "row 9 is off by"},
                 {NAN, 0, 5 * N + 7, 1e3f, NULL},
                 {2, 3e38f, 5 * N + 3, INFINITY, NULL},
                 {2, 3e38f, 5 * N + 8, INFINITY, "column 8 has values that are not finite, though"},
                 {2, 3e38f, 9 * N + 3, NAN, "row 9 has values that are not finite, though"},
                 {2, 3e38f, 9 * N + 8, 1e3f, "column 8 is off by"}};
    static float left[M * K], right[K * N], c[M * N];
    char a[YK_PATH_MAX], b[YK_PATH_MAX];
    yk_path(a, NULL, "%s/a.npy", (char *)*state);
    yk_path(b, NULL, "%s/b.npy", (char *)*state);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct yk_rng rng;
        yk_rng_init(&rng, 6, 0, 0, 0);
        fill(left, M, K, 0, &rng);
        fill(right, K, N, 0, &rng);
        for (uint64_t r = 0; r < M; r++) /* so that only row 5 meets a huge value */
            left[r * K] = r == 5 ? left[r * K] : left[r * K] * 0x1p-20f;
        left[5 * K] = CASES[i].a != 0 ? CASES[i].a : left[5 * K];
        right[3] = CASES[i].b != 0 ? CASES[i].b : right[3];
        put(a, left, M, K);
        put(b, right, K, N);
        struct job j = {.ask = {.path = {a, b}}, .spoil = keep, .arg = c, .key = i};
        run_job(&j);
        c[CASES[i].at] = CASES[i].poison;
        struct member t = check_given(&j, c, NULL);
        assert_int_equal(t.rc, CASES[i].why != NULL ? YK_FAILED : YK_OK);
        assert_false(t.result.verified);
        if (CASES[i].why != NULL)
            assert_non_null(strstr(t.e.text, CASES[i].why));
        else
            assert_true(t.result.reason[0] != '\0');
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_faults_are_found), /* the only one, if a size is given */
        cmocka_unit_test(a_second_vector_must_fail_too),
        cmocka_unit_test(vectors_are_others_in_every_run),
        cmocka_unit_test(every_rank_and_tile_is_checked),
        cmocka_unit_test_setup_teardown(a_thousand_products_pass, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(small_rows_count_as_well, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_number_hides_little, testdir_setup,
                                        testdir_teardown),
    };
    if (argc > 1) {
        sizes[0] = strtoull(argv[1], NULL, 10);
        size_count = 1;
        cmocka_set_test_filter("planted_faults_are_found");
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
