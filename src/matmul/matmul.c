/* matmul.c - a product of matrices, block by block, or the trace of one; see matmul.h.
 *
 * All ranks go through the same phases and meet at rank 0 between them:
 *
 *     probe    measures how fast blocks come from other ranks, if some must. Then rank 0 knows how
 *              long the work will take, reports it, and sends GO
 *     work     multiplies tile after tile of the region, all panels of each, and writes it; or adds
 *              up block after block of the trace
 *     check    check.c
 *     end      rank 0 gives the output its name, and sends STOP to all
 *
 * A call of the multiplication is bounded in time, so that a rank notices the user, and a failure
 * of another rank, soon enough.
 * THREADS: one thread per rank. */
#include "matmul/rank.h"

#include "base/clock.h"
#include "kernel/onednn_gemm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROWS_LEAST = 1024, SUB = 16, PARTS = 256 };
#define CALL_TIME 2.0 /* seconds of one call, about */

static bool walk(void *arg, uint64_t i, struct yk_rect block[YK_MATMUL_INPUTS])
{
    const struct yk_matmul *m = arg;
    return yk_matmul_step(&m->plan, m->rank, i, block, NULL, NULL);
}

static void say(struct yk_matmul *m, double part, double start, const char *what)
{
    if (m->rank == 0 && m->hooks.say != NULL)
        m->hooks.say(m->hooks.arg, part, yk_now() - start, what);
}

/* --- the product --- */

static void add_diagonal(struct yk_matmul *m, const struct yk_rect *tile)
{
    uint64_t lo = tile->row > tile->col ? tile->row : tile->col;
    uint64_t row_end = tile->row + tile->rows, col_end = tile->col + tile->cols;
    for (uint64_t i = lo; i < row_end && i < col_end; i++)
        m->trace += (double)m->buffers.tile[(i - tile->row) * tile->cols + i - tile->col];
}

static yk_code write_tile(struct yk_matmul *m, const struct yk_rect *tile, struct yk_error *e)
{
    if (m->ask.output == NULL)
        return YK_OK;
    if (m->output.fd < 0)
        return yk_wire_tile(m, tile, e);
    return yk_npy_write(m->output.fd, m->ask.output, m->plan.n, tile, m->buffers.tile, tile->cols,
                        e);
}

/* Adds one panel to the tile. */
static yk_code multiply_panel(struct yk_matmul *m, const struct yk_rect *tile,
                              const struct yk_rect *a, void *const data[], bool first,
                              struct yk_error *e)
{
    const float *left = data[YK_MATMUL_A];
    double row_flops = 2 * (double)tile->cols * (double)a->cols;
    uint64_t at_once = (uint64_t)fmin(CALL_TIME * m->plan.card[m->rank].gflops * 1e9 / row_flops,
                                      (double)tile->rows);
    at_once = at_once > ROWS_LEAST ? at_once : ROWS_LEAST;
    yk_code rc = YK_OK;
    for (uint64_t r = 0; r < tile->rows && rc == YK_OK; r += at_once) {
        struct yk_gemm_job job = {
            .n = tile->cols, .k = a->cols, .a = left + r * a->cols, .b = data[YK_MATMUL_B]};
        job.m = tile->rows - r < at_once ? tile->rows - r : at_once;
        job.c = m->buffers.tile + r * tile->cols;
        job.lda = a->cols;
        job.ldb = job.ldc = tile->cols;
        job.beta = first ? 0 : 1;
        rc = yk_gemm(&job, e);
        if (rc == YK_OK)
            rc = yk_wire_state(m, e);
    }
    return rc;
}

/* Multiplies all tiles of the region. The last one is left to be checked, in *last, because the
 * time of the check is not that of the work. */
static yk_code multiply(struct yk_matmul *m, struct yk_rect *last, struct yk_error *e)
{
    uint64_t panels = yk_matmul_panels(&m->plan), panel;
    double all = (double)m->part->c.rows * (double)m->part->c.cols * (double)m->plan.k, done = 0,
           start = yk_now();
    *last = (struct yk_rect){0};
    yk_code rc = yk_load_begin(m, walk, m, YK_F32, true, e);
    bool more = rc == YK_OK;
    for (uint64_t i = 0; more; i++) {
        void *data[YK_MATMUL_INPUTS];
        struct yk_rect block[YK_MATMUL_INPUTS], tile;
        rc = yk_load_take(m, i, data, block, &more, e);
        if (rc != YK_OK || !more)
            break;
        yk_matmul_step(&m->plan, m->rank, i, block, &tile, &panel);
        if (panel == 0 && last->rows > 0)
            yk_check_tile(m, last);
        rc = multiply_panel(m, &tile, &block[YK_MATMUL_A], data, panel == 0, e);
        yk_load_free(m, i);
        if (rc == YK_OK && panel + 1 == panels) {
            add_diagonal(m, &tile);
            *last = tile;
            rc = write_tile(m, &tile, e);
        }
        done += (double)tile.rows * (double)tile.cols * (double)block[YK_MATMUL_A].cols;
        say(m, done / all, start, "multiplied");
        more = rc == YK_OK;
    }
    yk_load_end(m);
    return rc;
}

/* --- the trace alone --- */

struct diagonal {
    const double *a, *b; /* (rows, cols), (cols, rows) */
    uint64_t rows, cols;
    unsigned parts;
    double sum[PARTS];
};

/* sum_ij a_ij b_ji over some rows of a, in squares that stay in the cache while b is read by
 * columns. */
static void add_products(void *arg, unsigned part)
{
    struct diagonal *d = arg;
    uint64_t lo = d->rows * part / d->parts, hi = d->rows * (part + 1) / d->parts;
    double sum = 0;
    for (uint64_t r = lo; r < hi; r += SUB)
        for (uint64_t c = 0; c < d->cols; c += SUB) {
            uint64_t rows = hi - r < SUB ? hi - r : SUB,
                     cols = d->cols - c < SUB ? d->cols - c : SUB;
            for (uint64_t i = 0; i < rows; i++)
                for (uint64_t j = 0; j < cols; j++)
                    sum += d->a[(r + i) * d->cols + c + j] * d->b[(c + j) * d->rows + r + i];
        }
    d->sum[part] = sum;
}

static yk_code add_trace(struct yk_matmul *m, struct yk_error *e)
{
    double all = (double)m->part->c.rows * (double)m->plan.k, done = 0, start = yk_now();
    yk_code rc = yk_load_begin(m, walk, m, YK_F64, true, e);
    bool more = rc == YK_OK;
    for (uint64_t i = 0; more; i++) {
        void *data[YK_MATMUL_INPUTS];
        struct yk_rect block[YK_MATMUL_INPUTS];
        rc = yk_load_take(m, i, data, block, &more, e);
        if (rc != YK_OK || !more)
            break;
        struct diagonal d = {.a = data[0],
                             .b = data[1],
                             .rows = block[0].rows,
                             .cols = block[0].cols,
                             .parts = m->threads};
        yk_team_run(m->team, d.parts, add_products, &d);
        yk_load_free(m, i);
        for (unsigned p = 0; p < d.parts; p++)
            m->trace += d.sum[p];
        done += (double)d.rows * (double)d.cols;
        say(m, done / all, start, "added up");
    }
    yk_load_end(m);
    return rc;
}

/* --- phases --- */

/* Another rank that supplies blocks of this one; the rank itself if there is none. */
static int any_supplier(const struct yk_matmul *m)
{
    for (int x = 0; x < YK_MATMUL_INPUTS; x++)
        for (uint64_t t = 0; t < 2; t++) {
            int from = yk_matmul_supplier(&m->plan, m->rank, x, t);
            if (from != m->rank)
                return from;
        }
    return m->rank;
}

/* Ranks that lack a block measure how fast one comes, all at the same time. */
static yk_code probe(struct yk_matmul *m, struct yk_error *e)
{
    struct yk_probe_report mine = {0};
    yk_code rc = YK_OK;
    int from = m->part->pulls > 0 ? any_supplier(m) : m->rank;
    if (from != m->rank)
        rc = yk_wire_probe(m, from, &mine.rate, e);
    if (rc == YK_OK)
        rc = yk_wire_report(m, YK_PHASE_PROBE, &mine, sizeof mine, e);
    if (rc == YK_OK && m->rank == 0)
        rc = yk_wire_gather(m, YK_PHASE_PROBE, e);
    if (rc != YK_OK || m->rank > 0)
        return rc;
    double wire = 0;
    for (int r = 0; r < m->ranks; r++) {
        const struct yk_probe_report *its = yk_wire_box(m, YK_PHASE_PROBE, r);
        if (its->rate <= 0)
            continue;
        wire = fmax(wire, (double)m->plan.part[r].pulls / its->rate);
        m->plan.wire = m->plan.wire == 0 ? its->rate : fmin(m->plan.wire, its->rate);
    }
    m->plan.seconds = fmax(m->plan.seconds, wire); /* blocks come while the rank computes */
    return YK_OK;
}

static yk_code work(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e)
{
    struct yk_rect last = {0};
    double start = yk_now();
    yk_code rc = m->part->row < 0  ? YK_OK
                 : m->plan.product ? multiply(m, &last, e)
                                   : add_trace(m, e);
    const struct yk_work_report mine = {.trace = m->trace};
    if (rc == YK_OK)
        rc = yk_wire_report(m, YK_PHASE_WORK, &mine, sizeof mine, e);
    if (rc == YK_OK && m->rank == 0)
        rc = yk_wire_gather(m, YK_PHASE_WORK, e);
    if (rc != YK_OK)
        return rc;
    if (m->rank == 0) {
        result->seconds = yk_now() - start;
        result->gflops = m->plan.flops / result->seconds * 1e-9;
        result->has_trace = m->plan.m == m->plan.n;
        for (int r = 0; r < m->ranks; r++)
            result->trace +=
                ((const struct yk_work_report *)yk_wire_box(m, YK_PHASE_WORK, r))->trace;
        if (result->has_trace && !isfinite(result->trace))
            snprintf(result->reason, sizeof result->reason, "the trace is not a finite number");
    }
    if (last.rows > 0)
        yk_check_tile(m, &last);
    return YK_OK;
}

/* Rank 0 gives the output its header, which makes it a .npy file, and its name. */
static yk_code commit(struct yk_matmul *m, struct yk_error *e)
{
    unsigned char header[YK_NPY_HEADER];
    yk_npy_header(header, m->plan.m, m->plan.n);
    if (pwrite(m->output.fd, header, sizeof header, 0) != (ssize_t)sizeof header)
        return yk_fail_errno(e, YK_FAILED, "cannot write '%s'", m->ask.output);
    return yk_outfile_commit(&m->output.file, e);
}

static uint64_t peak_rss(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

/* A trace is not checked: rank 0 only collects the numbers. */
static yk_code tally(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e)
{
    const struct yk_check_report mine = {
        .moved =
            atomic_load(&m->wire.moved) + (m->rank > 0 ? sizeof(struct yk_note) + sizeof mine : 0),
        .peak_rss = peak_rss()};
    yk_code rc = yk_wire_report(m, YK_PHASE_CHECK, &mine, sizeof mine, e);
    if (rc != YK_OK || m->rank > 0)
        return rc;
    rc = yk_wire_gather(m, YK_PHASE_CHECK, e);
    for (int r = 0; r < m->ranks && rc == YK_OK; r++) {
        const struct yk_check_report *its = yk_wire_box(m, YK_PHASE_CHECK, r);
        result->bytes_moved += its->moved;
        result->peak_rss = its->peak_rss > result->peak_rss ? its->peak_rss : result->peak_rss;
    }
    return rc;
}

static yk_code phases(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e)
{
    yk_code rc = yk_wire_start(m, e);
    if (rc == YK_OK)
        rc = probe(m, e);
    if (rc != YK_OK)
        return rc;
    result->plan_seconds = yk_now() - m->opened;
    if (m->rank == 0 && m->hooks.planned != NULL)
        m->hooks.planned(m->hooks.arg, &m->plan);
    if (m->ask.dry_run)
        return YK_OK;
    rc = yk_wire_go(m, e);
    if (rc == YK_OK)
        rc = work(m, result, e);
    if (rc == YK_OK && m->output.fd >= 0 && m->rank > 0 &&
        strcmp(m->plan.card[m->rank].host, m->plan.card[0].host) != 0)
        rc = fdatasync(m->output.fd) == 0
                 ? YK_OK
                 : yk_fail_errno(e, YK_FAILED, "cannot write '%s'", m->ask.output);
    double start = yk_now();
    if (rc == YK_OK)
        rc = m->plan.product ? yk_check(m, result, e) : tally(m, result, e);
    result->check_seconds = yk_now() - start;
    if (rc == YK_OK && m->rank == 0 && m->ask.output != NULL)
        rc = commit(m, e);
    return rc;
}

yk_code yk_matmul_run(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e)
{
    *result = (struct yk_matmul_result){0};
    yk_code rc = phases(m, result, e);
    return yk_wire_finish(m, rc, &result->stopped, e);
}
