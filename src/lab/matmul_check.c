/* matmul_check.c - is C = A B? A random vector tells, for the price of reading the matrices once (Freivalds).
 *
 * x is a vector of random signs. If C = A B then C x = A (B x), and three products of a matrix and a vector are cheap. They are made in
 * double and from the inputs as they are in their files (as floats): blocks that were loaded wrongly, sent wrongly or taken for others
 * are found, not only products that were computed wrongly. Rows are dealt to the ranks anew, whoever multiplied them. C x is made from
 * each tile while it is in memory; the output is not read again.
 *
 * How large may C x - A (B x) be if all is right? An element of C is a sum over k in float, made in chains of at most L = panel + panels
 * + a few additions, so |C - A B| <= g |A| |B| with g = L u / (1 - L u), u = 2^-24, whatever the order. By Cauchy and Schwarz row i of
 * that has the norm g |A_i| |B|, norms being Euclid's and Frobenius'. A sum of such errors with random signs exceeds SIGMAS times its
 * norm with probability 2 exp(-SIGMAS^2 / 2), 3e-14 a row (Hoeffding). So row i may deviate by SIGMAS g |A_i| |B|, and a little for the
 * doubles and for numbers too small for floats. No sum on the way to row i is larger than |A_i| |B|, so only where that is beyond the
 * range of floats may an element be no number.
 * THREADS: one thread a rank; its team shares out the rows of a block.
 * LIMITS:  an error that is smaller than what rounding may do is not found, and a wrong product passes with probability 1/2 at worst;
 *          one wrong element always shows, if it is large enough. What befalls a tile on its way into the file is not seen. */
#include "lab/matmul_rank.h"

#include "base/clock.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { LANES = 16, PARTS = 256, SIGNS = 2 /* the third matrix of a seed */ };
#define SIGMAS 8.0

void yk_check_signs(float *x, uint64_t n, uint64_t seed)
{
    struct yk_rng rng;
    uint64_t bits = 0;
    yk_rng_init(&rng, seed, SIGNS, 0, 0);
    for (uint64_t i = 0; i < n; i++) {
        bits = i % 64 == 0 ? yk_rng_next(&rng) : bits >> 1;
        x[i] = bits & 1 ? 1 : -1;
    }
}

/* sum row[i] x[i], and sum row[i]^2. Sixteen sums side by side are vectors to the compiler. */
YK_MATMUL_WIDE static void dot_floats(const float *row, const float *x, uint64_t n, double *dot,
                                      double *square)
{
    double a[LANES] = {0}, b[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double v = (double)row[i + k];
            a[k] += v * (double)x[i + k];
            b[k] += v * v;
        }
    for (; i < n; i++) {
        a[0] += (double)row[i] * (double)x[i];
        b[0] += (double)row[i] * (double)row[i];
    }
    *dot = *square = 0;
    for (int k = 0; k < LANES; k++) {
        *dot += a[k];
        *square += b[k];
    }
}

YK_MATMUL_WIDE static void dot_doubles(const float *row, const double *y, uint64_t n, double *dot,
                                       double *square)
{
    double a[LANES] = {0}, b[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double v = (double)row[i + k];
            a[k] += v * y[i + k];
            b[k] += v * v;
        }
    for (; i < n; i++) {
        a[0] += (double)row[i] * y[i];
        b[0] += (double)row[i] * (double)row[i];
    }
    *dot = *square = 0;
    for (int k = 0; k < LANES; k++) {
        *dot += a[k];
        *square += b[k];
    }
}

/* A block times a part of a vector, row by row: out += block v, squares += |row|^2. */
struct rows {
    const float *data;
    uint64_t rows, cols;
    const float *x; /* the vector, or */
    const double *y;
    double *out, *squares; /* (rows) squares may be NULL */
    double norm2[PARTS];   /* of each part's rows */
    unsigned parts;
};

static void some_rows(void *arg, unsigned part)
{
    struct rows *r = arg;
    double norm2 = 0;
    for (uint64_t i = r->rows * part / r->parts; i < r->rows * (part + 1) / r->parts; i++) {
        double dot, square;
        if (r->x != NULL)
            dot_floats(r->data + i * r->cols, r->x, r->cols, &dot, &square);
        else
            dot_doubles(r->data + i * r->cols, r->y, r->cols, &dot, &square);
        r->out[i] += dot;
        norm2 += square;
        if (r->squares != NULL)
            r->squares[i] += square;
    }
    r->norm2[part] = norm2;
}

static double multiply_rows(struct yk_matmul *m, struct rows *r)
{
    double norm2 = 0;
    r->parts = m->threads;
    yk_team_run(m->team, r->parts, some_rows, r);
    for (unsigned p = 0; p < r->parts; p++)
        norm2 += r->norm2[p];
    return norm2;
}

void yk_check_tile(struct yk_matmul *m, const struct yk_block *tile)
{
    double start = yk_now();
    struct rows r = {
        .data = m->tile, .rows = tile->rows, .cols = tile->cols, .x = m->x + tile->col};
    r.out = m->w + (tile->row - m->part->c.row);
    multiply_rows(m, &r);
    m->check_seconds += yk_now() - start;
}

/* --- rows of A, or of B --- */

struct pass {
    struct yk_matmul *m;
    int x;
};

/* Block i of the rank's rows: as many as make a block, a part of each if they are long. */
static bool pass_step(void *arg, uint64_t i, struct yk_block block[YK_MATMUL_INPUTS])
{
    const struct pass *p = arg;
    const struct yk_matmul *m = p->m;
    const uint64_t *range = m->part->check[p->x];
    uint64_t cols = p->x == YK_MATMUL_A ? m->plan.k : m->plan.n,
             wide = cols < YK_CHECK_COLS ? cols : YK_CHECK_COLS;
    uint64_t across = (cols + wide - 1) / wide, high = YK_CHECK_FLOATS / wide;
    uint64_t row = range[0] + i / across * high, col = i % across * wide;
    if (row >= range[1])
        return false;
    block[p->x] = (struct yk_block){row, col, range[1] - row < high ? range[1] - row : high,
                                    cols - col < wide ? cols - col : wide};
    return true;
}

/* A block whose floats are not finite: are there doubles in its file that float32 has no room for? The block has been used, so its slot
 * is free to read them into. */
static yk_code find_large(struct yk_matmul *m, int x, const struct yk_block *block, void *slot,
                          struct yk_error *e)
{
    const struct yk_matrix *input = &m->input[x];
    const double *v = slot;
    uint64_t at_once = YK_CHECK_FLOATS / 2 / block->cols;
    yk_code rc = YK_OK;
    if (input->made || input->file.type != YK_F64)
        return YK_OK;
    for (uint64_t r = 0; r < block->rows && rc == YK_OK && !m->large[x]; r += at_once) {
        struct yk_block b = {block->row + r, block->col, block->rows - r, block->cols};
        b.rows = b.rows < at_once ? b.rows : at_once;
        rc = yk_matrix_read(input, &b, YK_F64, slot, e);
        for (uint64_t i = 0; i < b.rows * b.cols && rc == YK_OK; i++)
            m->large[x] = m->large[x] || (isfinite(v[i]) && !isfinite((float)v[i]));
    }
    return rc;
}

static yk_code run_pass(struct yk_matmul *m, int x, double *norm2, struct yk_error *e)
{
    struct pass pass = {m, x};
    uint64_t first = m->part->check[x][0], rows = m->part->check[x][1] - first;
    yk_code rc = yk_load_begin(m, pass_step, &pass, YK_F32, false, e);
    bool more = rc == YK_OK;
    *norm2 = 0;
    for (uint64_t i = 0; more; i++) {
        void *data[YK_MATMUL_INPUTS];
        struct yk_block block[YK_MATMUL_INPUTS];
        rc = yk_load_take(m, i, data, block, &more, e);
        if (rc != YK_OK || !more)
            break;
        const struct yk_block *b = &block[x];
        struct rows r = {.data = data[x], .rows = b->rows, .cols = b->cols};
        if (x == YK_MATMUL_B) {
            r.x = m->x + b->col;
            r.out = m->y + b->row;
        } else {
            r.y = m->y + b->col;
            r.out = m->z + (b->row - first);
            r.squares = r.out + rows;
        }
        double square = multiply_rows(m, &r);
        *norm2 += square;
        if (!isfinite(square))
            rc = find_large(m, x, b, data[x], e);
        yk_load_free(m, i);
        more = rc == YK_OK;
        if (m->rank == 0 && m->hooks.say != NULL)
            m->hooks.say(m->hooks.arg, (double)(b->row + b->rows - first) / (double)rows, 0,
                         "checked");
    }
    yk_load_end(m);
    return rc;
}

/* --- the vectors, by way of rank 0 --- */

static yk_code share_vector(struct yk_matmul *m, double *norm2, struct yk_error *e)
{
    const uint64_t *range = m->part->check[YK_MATMUL_B];
    size_t n = range[1] - range[0], bytes = sizeof(struct yk_vector_report) + n * sizeof(double);
    yk_code rc = run_pass(m, YK_MATMUL_B, norm2, e);
    struct yk_vector_report *mine = rc == YK_OK ? malloc(bytes) : NULL;
    if (mine == NULL)
        return rc == YK_OK ? yk_fail_memory(e, bytes) : rc;
    *mine = (struct yk_vector_report){.norm2 = *norm2, .large = m->large[YK_MATMUL_B]};
    memcpy(mine + 1, m->y + range[0], n * sizeof(double));
    rc = yk_wire_report(m, YK_PHASE_VECTOR, mine, bytes, e);
    free(mine);
    if (rc == YK_OK && m->rank == 0)
        rc = yk_wire_gather(m, YK_PHASE_VECTOR, e);
    if (rc == YK_OK && m->rank == 0) {
        *norm2 = 0;
        for (int r = 0; r < m->ranks; r++) {
            const struct yk_vector_report *its = yk_wire_box(m, YK_PHASE_VECTOR, r);
            const uint64_t *part = m->plan.part[r].check[YK_MATMUL_B];
            memcpy(m->y + part[0], its + 1, (part[1] - part[0]) * sizeof(double));
            *norm2 += its->norm2;
            m->large[YK_MATMUL_B] = m->large[YK_MATMUL_B] || its->large;
        }
    }
    return rc == YK_OK ? yk_wire_vector(m, e) : rc;
}

static yk_code report(struct yk_matmul *m, struct yk_error *e)
{
    const uint64_t *range = m->part->check[YK_MATMUL_A];
    size_t rows = m->part->c.rows, n = 2 * (range[1] - range[0]);
    size_t bytes = sizeof(struct yk_check_report) + (rows + n) * sizeof(double);
    struct yk_check_report *mine = malloc(bytes);
    struct rusage u = {0};
    if (mine == NULL)
        return yk_fail_memory(e, bytes);
    getrusage(RUSAGE_SELF, &u);
    *mine = (struct yk_check_report){.moved = atomic_load(&m->moved),
                                     .peak_rss = (uint64_t)u.ru_maxrss * 1024};
    mine->moved += m->rank > 0 ? bytes + sizeof(struct yk_note) : 0; /* this very message */
    mine->seconds = m->check_seconds;
    mine->large = m->large[YK_MATMUL_A];
    double *numbers = (double *)(mine + 1);
    memcpy(numbers, m->w, rows * sizeof(double));
    memcpy(numbers + rows, m->z, n * sizeof(double));
    yk_code rc = yk_wire_report(m, YK_PHASE_CHECK, mine, bytes, e);
    free(mine);
    return rc;
}

/* --- the verdict, rank 0's --- */

struct sides { /* (m) each */
    double *left, *right, *norm;
};

static void bring_together(struct yk_matmul *m, struct sides *s, struct yk_matmul_result *result)
{
    for (int r = 0; r < m->ranks; r++) {
        const struct yk_matmul_part *part = &m->plan.part[r];
        const struct yk_check_report *its = yk_wire_box(m, YK_PHASE_CHECK, r);
        const double *numbers = (const double *)(its + 1);
        uint64_t first = part->check[YK_MATMUL_A][0], rows = part->check[YK_MATMUL_A][1] - first;
        for (uint64_t i = 0; i < part->c.rows; i++)
            s->left[part->c.row + i] += numbers[i];
        numbers += part->c.rows;
        for (uint64_t i = 0; i < rows; i++) {
            s->right[first + i] = numbers[i];
            s->norm[first + i] = sqrt(numbers[rows + i]);
        }
        m->large[YK_MATMUL_A] = m->large[YK_MATMUL_A] || its->large;
        result->bytes_moved += its->moved;
        result->peak_rss = its->peak_rss > result->peak_rss ? its->peak_rss : result->peak_rss;
    }
}

struct verdict {
    uint64_t odd, overflow; /* rows of A that are no numbers; rows of C that may have none */
    bool broken;            /* a row of C has none and should */
    uint64_t worst;         /* the row that is broken, or off by most */
};

/* All rows that can be judged are, whatever the others hold. */
static struct verdict look_at_rows(const struct yk_matmul_plan *p, const struct sides *s,
                                   double norm, double *residual)
{
    double chain = (double)(p->panel + yk_matmul_panels(p) + 8), u = 0x1p-24,
           g = chain * u / (1 - chain * u);
    double root = sqrt((double)p->n), doubles = (double)(p->n + p->k) * root * 0x1p-52,
           tiny = SIGMAS * root * (double)p->k * FLT_MIN;
    struct verdict v = {0};
    for (uint64_t i = 0; i < p->m && !v.broken; i++) {
        double most = s->norm[i] * norm,
               off = fabs(s->left[i] - s->right[i]) / ((SIGMAS * g + doubles) * most + tiny);
        v.odd += !isfinite(s->norm[i]);
        if (!isfinite(most))
            continue;
        if (!isfinite(s->left[i]) && most * (1 + g) >= (double)FLT_MAX) {
            v.overflow++;
        } else if (!isfinite(off)) {
            v.broken = true;
            v.worst = i;
        } else if (off > *residual) {
            *residual = off;
            v.worst = i;
        }
    }
    return v;
}

static yk_code judge(struct yk_matmul *m, const struct sides *s, double norm,
                     struct yk_matmul_result *result, struct yk_error *e)
{
    const struct verdict v = look_at_rows(&m->plan, s, norm, &result->residual);
    char *reason = result->reason;
    size_t room = sizeof result->reason;
    result->checked = true;
    if (v.broken)
        return yk_fail(
            e, YK_FAILED,
            "the product is wrong: row %llu has values that are not finite, and that cannot be",
            (unsigned long long)v.worst);
    if (result->residual > 1)
        return yk_fail(e, YK_FAILED,
                       "the product is wrong: row %llu is off by %.3g times what rounding can do",
                       (unsigned long long)v.worst, result->residual);
    if (m->large[YK_MATMUL_A] || m->large[YK_MATMUL_B])
        snprintf(reason, room,
                 "%c has values that are too large for float32, so the product cannot be checked",
                 m->large[YK_MATMUL_A] ? 'A' : 'B');
    else if (v.odd > 0)
        snprintf(reason, room,
                 "A has values that are not finite, in %llu of its rows, so the product cannot be "
                 "checked",
                 (unsigned long long)v.odd);
    else if (!isfinite(norm))
        snprintf(reason, room,
                 "B has values that are not finite, so the product cannot be checked");
    else if (v.overflow > 0)
        snprintf(reason, room, "the product is beyond the range of float32 in %llu of its rows",
                 (unsigned long long)v.overflow);
    else
        result->verified = true;
    return YK_OK;
}

yk_code yk_check(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e)
{
    double norm2, unused;
    yk_code rc = share_vector(m, &norm2, e);
    if (rc == YK_OK)
        rc = run_pass(m, YK_MATMUL_A, &unused, e);
    if (rc == YK_OK)
        rc = report(m, e);
    if (rc != YK_OK || m->rank > 0)
        return rc;
    rc = yk_wire_gather(m, YK_PHASE_CHECK, e);
    if (rc != YK_OK)
        return rc;
    double *all = calloc(3 * m->plan.m, sizeof *all);
    if (all == NULL)
        return yk_fail_memory(e, 3 * m->plan.m * sizeof *all);
    struct sides s = {all, all + m->plan.m, all + 2 * m->plan.m};
    bring_together(m, &s, result);
    rc = judge(m, &s, sqrt(norm2), result, e);
    free(all);
    return rc;
}
