/* matmul_test.c - made matrices, and whole products and traces with threads as ranks, against sums
 * in double. Files are hidden from some ranks, change under the work, hold what is no number; the
 * user stops in the middle. */
#include "matmul/rank.h"

#include "tests/skip.h"
#include "tests/testdir.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 8 };

/* --- made matrices --- */

static void any_block_is_the_same_numbers(void **state)
{
    (void)state;
    enum { N = 300 };
    static float all[N * N], part[N * N];
    static double wide[N];
    struct yk_matrix x, other;
    yk_matrix_make(&x, N, 7, 0);
    assert_int_equal(yk_matrix_read(&x, &(struct yk_rect){0, 0, N, N}, YK_F32, all, NULL), YK_OK);
    const struct yk_rect blocks[] = {
        {0, 0, 1, 1}, {299, 299, 1, 1}, {17, 33, 40, 101}, {0, 299, 300, 1}};
    for (size_t i = 0; i < 4; i++) {
        const struct yk_rect *b = &blocks[i];
        assert_int_equal(yk_matrix_read(&x, b, YK_F32, part, NULL), YK_OK);
        for (uint64_t r = 0; r < b->rows; r++)
            assert_memory_equal(part + r * b->cols, all + (b->row + r) * N + b->col,
                                b->cols * sizeof(float));
    }
    assert_int_equal(yk_matrix_read(&x, &(struct yk_rect){5, 0, 1, N}, YK_F64, wide, NULL), YK_OK);
    double sum = 0, square = 0;
    for (int i = 0; i < N * N; i++) {
        sum += (double)all[i];
        square += (double)all[i] * (double)all[i];
        assert_true(fabsf(all[i]) <= 1 && (i >= N || wide[i] == (double)all[5 * N + i]));
    }
    assert_true(fabs(sum) < 4 * sqrt(N * N / 3.0) && fabs(square / (N * N) - 1.0 / 3) < 0.01);
    yk_matrix_make(&other, N, 7, 1);
    assert_int_equal(yk_matrix_read(&other, &(struct yk_rect){0, 0, N, N}, YK_F32, part, NULL),
                     YK_OK);
    double dot = 0;
    for (int i = 0; i < N * N; i++)
        dot += (double)all[i] * (double)part[i];
    assert_true(fabs(dot) < 4 * N / 3.0);
}

/* --- with threads as ranks --- */

struct crew {
    struct yk_matmul_ask ask;
    int ranks, each;
    unsigned hidden[2]; /* bit r: rank r does not see A, B */
    unsigned mute;      /* bit r: rank r cannot write the output */
    struct yk_comm *comm;
    struct yk_matmul_card card[MOST];
    pthread_barrier_t meet;
    /* rank 0's */
    int said, stop_after; /* 0: it runs to its end */
    const char *spoil;    /* a file that changes when the work is done, */
    uint64_t spoil_at;    /* here */
    const float *poison;  /* a number for the tile of C when the work is done, */
    uint64_t poison_at;   /* here */
    struct yk_matmul *first;
    const char *shorten; /* a file that loses its end when it is planned */
    uint64_t planned, vectors;
};

struct member {
    struct crew *crew;
    int rank;
    yk_code rc;
    struct yk_error e;
    struct yk_matmul_result result;
};

static void said(void *arg, double part, double seconds, const char *what)
{
    struct crew *c = arg;
    assert_true(part <= 1 + 1e-9 && seconds >= 0);
    c->said += part >= 0;
    if (c->spoil != NULL && part >= 1 - 1e-9 && strcmp(what, "multiplied") == 0) {
        float v = 1e3f;
        int fd = open(c->spoil, O_WRONLY);
        assert_true(pwrite(fd, &v, sizeof v, (off_t)c->spoil_at) == sizeof v);
        close(fd);
        c->spoil = NULL;
    }
    if (c->poison != NULL && part >= 1 - 1e-9 && strcmp(what, "multiplied") == 0)
        c->first->buffers.tile[c->poison_at] = *c->poison;
}

/* Bytes that a check moves, and nothing else. Each rank but the first gets all of B x and y'A, two
 * tries and the sizes each. It sends as many sums of every row or column of A and B that is its
 * own, and two tries of the rows and columns of its part of C. Five notes and three heads. */
static uint64_t vectors(const struct yk_matmul_plan *p)
{
    uint64_t heads = sizeof(struct yk_work_report) + 5 * sizeof(struct yk_note);
    heads += sizeof(struct yk_vector_report) + sizeof(struct yk_check_report);
    uint64_t bytes = 0;
    for (int r = 1; r < p->ranks; r++) {
        const struct yk_matmul_part *part = &p->part[r];
        uint64_t doubles = 2 * 3 * p->k + 2 * (part->c.rows + part->c.cols);
        for (int i = 0; i < 4; i++)
            doubles += 3 * (part->check[i / 2][i % 2][1] - part->check[i / 2][i % 2][0]);
        bytes += heads + doubles * sizeof(double);
    }
    return bytes;
}

static void planned(void *arg, const struct yk_matmul_plan *p)
{
    struct crew *c = arg;
    c->planned = p->bytes;
    c->vectors = vectors(p);
    if (c->shorten != NULL)
        assert_int_equal(truncate(c->shorten, 200), 0);
}

static bool enough(void *arg)
{
    const struct crew *c = arg;
    return c->stop_after > 0 && c->said >= c->stop_after;
}

static void *take_part(void *arg)
{
    struct member *t = arg;
    struct crew *c = t->crew;
    struct yk_matmul *m;
    struct yk_matmul_ask ask = c->ask;
    char nowhere[] = "nowhere/absent.npy";
    for (int x = 0; x < 2; x++)
        ask.path[x] = c->hidden[x] >> t->rank & 1 ? nowhere : ask.path[x];
    assert_int_equal(yk_matmul_open(&m, &ask, t->rank, c->ranks, &t->e), YK_OK);
    if (t->rank == 0)
        c->first = m;
    t->rc = yk_matmul_look(m, c->ranks, &c->card[t->rank], &t->e);
    assert_int_equal(t->rc, YK_OK);
    snprintf(c->card[t->rank].host, sizeof c->card[0].host, "n%d", t->rank / c->each);
    pthread_barrier_wait(&c->meet);
    if (!(c->mute >> t->rank & 1))
        yk_matmul_reach(m, &c->card[0], &c->card[t->rank]);
    pthread_barrier_wait(&c->meet);
    t->rc = yk_matmul_settle(m, c->card, &t->e);
    assert_int_equal(t->rc, YK_OK);
    const struct yk_matmul_hooks hooks = {
        .planned = planned, .say = said, .stopped = enough, .arg = c};
    yk_matmul_attach(m, c->comm, &hooks);
    pthread_barrier_wait(&c->meet);
    t->rc = yk_matmul_run(m, &t->result, &t->e);
    pthread_barrier_wait(&c->meet); /* nobody's handler is called any more */
    yk_matmul_close(m);
    return NULL;
}

static void run_crew(struct crew *c, struct member *member)
{
    pthread_t thread[MOST];
    c->each = c->each > 0 ? c->each : c->ranks;
    c->ask.threads = c->ask.threads > 0 ? c->ask.threads : 1;
    assert_int_equal(yk_comm_threads(&c->comm, c->ranks, c->ranks, NULL), YK_OK);
    pthread_barrier_init(&c->meet, NULL, (unsigned)c->ranks);
    for (int r = 0; r < c->ranks; r++) {
        member[r] = (struct member){.crew = c, .rank = r};
        assert_int_equal(pthread_create(&thread[r], NULL, take_part, &member[r]), 0);
    }
    for (int r = 0; r < c->ranks; r++)
        pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&c->meet);
    c->comm->ops->close(c->comm, true);
}

struct files {
    char a[YK_PATH_MAX], b[YK_PATH_MAX], c[YK_PATH_MAX];
    float *left, *right; /* what is in a and b */
    uint64_t m, k, n;
};

static float *put_matrix(const char *path, uint64_t rows, uint64_t cols, unsigned seed)
{
    unsigned char header[YK_NPY_HEADER];
    float *x = malloc(rows * cols * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < rows * cols; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    yk_npy_header(header, rows, cols);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && pwrite(fd, header, sizeof header, 0) == sizeof header);
    assert_int_equal(
        yk_npy_write(fd, path, cols, &(struct yk_rect){0, 0, rows, cols}, x, cols, NULL), YK_OK);
    close(fd);
    return x;
}

static void put_files(struct files *f, const char *folder, uint64_t m, uint64_t k, uint64_t n)
{
    yk_path(f->a, NULL, "%s/a.npy", folder);
    yk_path(f->b, NULL, "%s/b.npy", folder);
    yk_path(f->c, NULL, "%s/c.npy", folder);
    f->m = m;
    f->k = k;
    f->n = n;
    f->left = put_matrix(f->a, m, k, 1);
    f->right = put_matrix(f->b, k, n, 2);
}

static void drop_files(struct files *f)
{
    free(f->left);
    free(f->right);
    unlink(f->c);
}

/* The output against sums in double; the trace of it, too. */
static void expect_product(const struct files *f, const struct yk_matmul_result *r)
{
    struct yk_npy out;
    float *c = malloc(f->m * f->n * sizeof *c);
    assert_non_null(c);
    assert_int_equal(yk_npy_open(&out, f->c, NULL), YK_OK);
    assert_true(out.rows == f->m && out.cols == f->n);
    assert_int_equal(yk_npy_read(&out, &(struct yk_rect){0, 0, f->m, f->n}, YK_F32, c, NULL),
                     YK_OK);
    yk_npy_close(&out);
    double trace = 0;
    for (uint64_t i = 0; i < f->m; i++)
        for (uint64_t j = 0; j < f->n; j++) {
            double sum = 0, size = 0;
            for (uint64_t t = 0; t < f->k; t++) {
                double p = (double)f->left[i * f->k + t] * (double)f->right[t * f->n + j];
                sum += p;
                size += fabs(p);
            }
            assert_true(fabs((double)c[i * f->n + j] - sum) <= (double)f->k * 0x1p-24 * size);
            trace += i == j ? sum : 0;
        }
    assert_int_equal(r->has_trace, f->m == f->n);
    if (r->has_trace)
        assert_true(fabs(r->trace - trace) <= 1e-4 * (1 + fabs(trace)));
    free(c);
}

static void products_of_any_shape_on_any_ranks(void **state)
{
    static const uint64_t SIZES[][3] = {
        {1, 1, 1}, {2, 3, 2}, {65, 130, 65}, {97, 1100, 31}, {7, 33, 200}};
    static const int RANKS[] = {1, 2, 3, 4, 6};
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++)
        for (size_t k = 0; k < sizeof RANKS / sizeof RANKS[0]; k++) {
            struct files f;
            struct member member[MOST];
            put_files(&f, *state, SIZES[s][0], SIZES[s][1], SIZES[s][2]);
            struct crew c = {
                .ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = RANKS[k], .each = 2};
            c.ask.threads = k == 0 ? 2 : 1;
            run_crew(&c, member);
            for (int r = 0; r < c.ranks; r++)
                assert_int_equal(member[r].rc, YK_OK);
            const struct yk_matmul_result *r = &member[0].result;
            assert_true(r->checked && r->verified && r->reason[0] == '\0' && r->residual < 1 &&
                        r->seconds > 0);
            assert_int_equal(r->bytes_moved, c.planned);
            expect_product(&f, r);
            drop_files(&f);
        }
}

/* Some see neither matrix, and cannot write; tiles are small, so that there are many. Bytes are
 * what was planned, to the last. */
static void what_a_rank_lacks_is_sent(void **state)
{
    static const struct {
        unsigned a, b, mute;
    } CASES[] = {{2, 0, 0}, {0, 6, 0}, {6, 6, 6}, {1, 2, 4}, {0, 0, 6}, {6, 1, 2}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct files f;
        struct member member[MOST];
        put_files(&f, *state, 150, 1030, 190);
        struct crew c = {.ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = 3, .each = 1};
        c.hidden[0] = CASES[i].a;
        c.hidden[1] = CASES[i].b;
        c.mute = CASES[i].mute;
        run_crew(&c, member);
        for (int r = 0; r < 3; r++)
            assert_int_equal(member[r].rc, YK_OK);
        assert_true(member[0].result.verified);
        assert_true(c.planned > 70000); /* at least a third of a matrix */
        assert_int_equal(member[0].result.bytes_moved, c.planned);
        expect_product(&f, &member[0].result);
        drop_files(&f);
    }
}

static void traces_need_no_product(void **state)
{
    static const struct {
        uint64_t n, k;
        int ranks;
        unsigned a, b;
    } CASES[] = {{1, 1, 1, 0, 0},
                 {3, 50, 4, 0, 0},
                 {1100, 1030, 2, 0, 0},
                 {130, 1500, 3, 1, 2},
                 {130, 1500, 3, 6, 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct files f;
        struct member member[MOST];
        double want = 0, size = 0;
        put_files(&f, *state, CASES[i].n, CASES[i].k, CASES[i].n);
        for (uint64_t r = 0; r < f.m; r++)
            for (uint64_t t = 0; t < f.k; t++) {
                double p = (double)f.left[r * f.k + t] * (double)f.right[t * f.n + r];
                want += p;
                size += fabs(p);
            }
        struct crew c = {
            .ask = {.path = {f.a, f.b}, .trace = true}, .ranks = CASES[i].ranks, .each = 1};
        c.ask.threads = i % 2 + 1;
        c.hidden[0] = CASES[i].a;
        c.hidden[1] = CASES[i].b;
        run_crew(&c, member);
        assert_int_equal(member[0].rc, YK_OK);
        const struct yk_matmul_result *r = &member[0].result;
        assert_true(r->has_trace && !r->checked && fabs(r->trace - want) <= 1e-13 * size);
        assert_int_equal(r->bytes_moved, c.planned);
        drop_files(&f);
    }
}

static void made_products_move_only_vectors(void **state)
{
    (void)state;
    double first = 0;
    for (int ranks = 1; ranks <= 4; ranks++) {
        struct member member[MOST];
        struct crew full = {.ask = {.n = 301, .seed = 3, .trace = true, .full = true},
                            .ranks = ranks};
        struct crew trace = {.ask = {.n = 301, .seed = 3, .trace = true}, .ranks = ranks};
        run_crew(&full, member);
        const struct yk_matmul_result *r = &member[0].result;
        assert_true(member[0].rc == YK_OK && r->verified);
        assert_int_equal(r->bytes_moved, full.vectors);
        double product = r->trace;
        run_crew(&trace, member);
        assert_true(member[0].rc == YK_OK && fabs(member[0].result.trace - product) < 1e-3);
        assert_true(ranks == 1 || fabs(member[0].result.trace - first) < 1e-9);
        first = member[0].result.trace;
    }
}

/* An input that is another one when it is read again: one element among 34,000. */
static void a_wrong_product_is_found(void **state)
{
    for (int side = 0; side < 2; side++) {
        struct files f;
        struct member member[MOST];
        put_files(&f, *state, 150, 230, 190);
        struct crew c = {
            .ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = 1, .spoil = side == 0 ? f.a : f.b};
        c.spoil_at = YK_NPY_HEADER + 4 * 12345;
        run_crew(&c, member);
        assert_int_equal(member[0].rc, YK_FAILED);
        assert_non_null(strstr(member[0].e.text, "the product is wrong"));
        assert_int_equal(access(f.c, F_OK), -1);
        drop_files(&f);
    }
}

static void put_number(const char *path, uint64_t index, float v)
{
    int fd = open(path, O_WRONLY);
    assert_true(pwrite(fd, &v, sizeof v, (off_t)(YK_NPY_HEADER + index * sizeof v)) == sizeof v);
    close(fd);
}

/* Elements of C that no sum could give: they are an error also beside a row that overflows, and
 * beside one that A spoils. */
static void a_broken_tile_is_found(void **state)
{
    static const struct {
        float a, b, poison;
        const char *why;
    } CASES[] = {
        {0, 0, NAN, "row 5 has values that are not finite, though its inputs are"},
        {0, 0, INFINITY, "row 5 has values that are not finite, though its inputs are"},
        {3e38f, 2, NAN, "row 5 has values that are not finite, though its inputs are"},
        {3e38f, 2, 1e3f, "row 5 is off by"},
        {NAN, 0, NAN, "row 5 has values that are not finite, though its inputs are"},
        {NAN, 0, 1e3f, "row 5 is off by"},
        {1, 3e38f, INFINITY, "row 5 has values that are not finite, though its inputs are"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct files f;
        struct member member[MOST];
        put_files(&f, *state, 40, 30, 50);
        if (CASES[i].a != 0)
            put_number(f.a, 0, CASES[i].a);
        if (CASES[i].b != 0)
            put_number(f.b, 0, CASES[i].b);
        struct crew c = {
            .ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = 1, .poison = &CASES[i].poison};
        c.poison_at = 5 * 50 + 7;
        run_crew(&c, member);
        assert_int_equal(member[0].rc, YK_FAILED);
        assert_non_null(strstr(member[0].e.text, CASES[i].why));
        assert_int_equal(access(f.c, F_OK), -1);
        drop_files(&f);
    }
}

/* A float64 matrix, `v` in its second row and small numbers elsewhere. */
static void put_wide(const char *path, uint64_t rows, uint64_t cols, double v)
{
    char head[YK_NPY_HEADER + 1];
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    snprintf(head, sizeof head, "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }",
             (int)rows, (int)cols);
    fprintf(f, "%cNUMPY%c%c%c%c%-117s\n", 0x93, 1, 0, YK_NPY_HEADER - 10, 0, head);
    for (uint64_t i = 0; i < rows * cols; i++) {
        double number = i == cols + 1 ? v : 0.5;
        assert_int_equal(fwrite(&number, sizeof number, 1, f), 1);
    }
    fclose(f);
}

static void numbers_too_large_for_floats_are_told(void **state)
{
    static const struct {
        double a, b;
        const char *why;
    } CASES[] = {{1e300, 1, "A has values that are too large for float32"},
                 {1, -1e300, "B has values that are too large for float32"},
                 {INFINITY, 1, "A has values that are not finite, in 1 of its rows"},
                 {1, NAN, "B has values that are not finite"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (int ranks = 1; ranks <= 3; ranks += 2) {
            struct files f;
            struct member member[MOST];
            put_files(&f, *state, 40, 30, 50);
            put_wide(f.a, 40, 30, CASES[i].a);
            put_wide(f.b, 30, 50, CASES[i].b);
            struct crew c = {.ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = ranks};
            c.hidden[0] = c.hidden[1] = ranks > 1; /* rank 0 only hears of it */
            run_crew(&c, member);
            assert_int_equal(member[0].rc, YK_OK);
            assert_true(member[0].result.checked && !member[0].result.verified);
            assert_non_null(strstr(member[0].result.reason, CASES[i].why));
            assert_int_equal(member[0].result.bytes_moved, c.planned);
            drop_files(&f);
        }
}

/* Bytes that this process has read from files, as the system counts them; -1: it does not. */
static long long bytes_read(void)
{
    FILE *f = fopen("/proc/self/io", "re");
    long long bytes = -1;
    if (f != NULL && fscanf(f, "rchar: %lld", &bytes) != 1)
        bytes = -1;
    if (f != NULL)
        fclose(f);
    return bytes;
}

/* The block of a double that is no number is read again, and the blocks after it are not. */
static void one_block_is_read_again(void **state)
{
    enum { BLOCKS = 4, N = BLOCKS * YK_CHECK_COLS };
    const double second[] = {1, (double)NAN, 1e300};
    long long bytes[3], block = 2LL * YK_CHECK_COLS * (long long)sizeof(double);
    struct files f;
    put_files(&f, *state, 1, 2, 1);
    put_wide(f.a, 1, 2, 0);
    if (bytes_read() < 0)
        skip_because("/proc/self/io does not say what was read");
    for (int i = 0; i < 3; i++) {
        struct member member[MOST];
        struct crew c = {.ask = {.path = {f.a, f.b}}, .ranks = 1};
        put_wide(f.b, 2, N, second[i]);
        long long before = bytes_read();
        run_crew(&c, member);
        bytes[i] = bytes_read() - before;
        assert_int_equal(member[0].rc, YK_OK);
        assert_int_equal(member[0].result.verified, i == 0);
        const char *why = i == 0 ? "" : i == 1 ? "not finite" : "too large for float32";
        assert_non_null(strstr(member[0].result.reason, why));
    }
    assert_true(bytes[0] >= 2 * BLOCKS * block);
    for (int i = 1; i < 3; i++)
        assert_in_range(bytes[i] - bytes[0], block / 2, block + block / 2);
    drop_files(&f);
}

static void numbers_that_are_none_are_told(void **state)
{
    static const struct {
        float a, b;
        const char *why;
    } CASES[] = {{NAN, 0, "A has values that are not finite, in 1 of its rows"},
                 {0, INFINITY, "B has values that are not finite"},
                 {3e38f, 3e38f, "beyond the range of float32 in 1 of"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct files f;
        struct member member[MOST];
        put_files(&f, *state, 40, 30, 50);
        if (CASES[i].a != 0)
            put_number(f.a, 0, CASES[i].a);
        if (CASES[i].b != 0)
            put_number(f.b, 0, CASES[i].b);
        struct crew c = {.ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = 2};
        run_crew(&c, member);
        assert_int_equal(member[0].rc, YK_OK);
        assert_true(member[0].result.checked && !member[0].result.verified);
        assert_non_null(strstr(member[0].result.reason, CASES[i].why));
        assert_int_equal(access(f.c, F_OK), 0); /* it is what arithmetic gives, all the same */
        drop_files(&f);
    }
}

static void the_user_may_stop_it(void **state)
{
    for (int after = 1; after <= 5; after += 2) {
        struct files f;
        struct member member[MOST];
        put_files(&f, *state, 100, 5000, 100);
        struct crew c = {
            .ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = 3, .stop_after = after};
        c.hidden[0] = 2;
        run_crew(&c, member);
        for (int r = 0; r < 3; r++)
            assert_true(member[r].rc == YK_OK && member[r].result.stopped);
        assert_int_equal(access(f.c, F_OK), -1);
        drop_files(&f);
    }
}

static void a_failure_ends_all_ranks_with_one_error(void **state)
{
    struct files f;
    struct member member[MOST];
    put_files(&f, *state, 100, 5000, 100);
    struct crew c = {.ask = {.path = {f.a, f.b}, .output = f.c}, .ranks = 3, .shorten = f.a};
    c.hidden[0] = 4;
    run_crew(&c, member);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(member[r].rc, YK_DATA);
        assert_non_null(strstr(member[r].e.text, "has become shorter"));
    }
    assert_int_equal(access(f.c, F_OK), -1);
    drop_files(&f);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct yk_matmul *m = NULL;
    struct yk_error e;
    struct yk_matmul_ask ask = {.n = 10, .trace = true, .output = "c.npy"};
    assert_int_equal(yk_matmul_open(&m, &ask, 0, 1, &e), YK_USAGE);
    assert_non_null(strstr(e.hint, "--full"));
    ask = (struct yk_matmul_ask){.n = 10, .full = true};
    assert_int_equal(yk_matmul_open(&m, &ask, 0, 1, &e), YK_USAGE);
    yk_matmul_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_block_is_the_same_numbers),
        cmocka_unit_test_setup_teardown(products_of_any_shape_on_any_ranks, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(what_a_rank_lacks_is_sent, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(traces_need_no_product, testdir_setup, testdir_teardown),
        cmocka_unit_test(made_products_move_only_vectors),
        cmocka_unit_test_setup_teardown(a_wrong_product_is_found, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(a_broken_tile_is_found, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(numbers_too_large_for_floats_are_told, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(one_block_is_read_again, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(numbers_that_are_none_are_told, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(the_user_may_stop_it, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(a_failure_ends_all_ranks_with_one_error, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
