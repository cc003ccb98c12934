/* check.c - is C = A B? Random vectors tell, for the price of reading the matrices twice
 * (Freivalds).
 *
 * From the right, C x = A (B x) for a random vector x; from the left, y'C = (y'A) B. A wrong
 * element shows in its row and in its column, a wrong column also in the one sum that is its own.
 * All sums are made in double, from inputs that are loaded anew, and A and B are dealt to the
 * ranks in another way than for the product: blocks that were read, sent or put together wrongly
 * are found, too. C x and y'C are made from each tile while it is in memory; the output is not
 * read again.
 *
 *              random vector   first matrix -> middle (k)   second matrix -> want   C -> made
 *     YK_ROWS  x (n)           rows of B:    B x            rows of A:    A (B x)   C x (m)
 *     YK_COLS  y (m)           columns of A: y'A            columns of B: (y'A) B   y'C (n)
 *
 * Every product is made for TRIES vectors at once, and a row or column is wrong if it is off in all
 * of them. Vectors are others in every run, so what one run misses the next one may find. Their
 * elements are from 1 to XMOST, of either sign: whatever the vector, a wrong element shows with at
 * least its own size, and two that are equal do not cancel as they would under signs alone.
 *
 * How far may a row be off? Each of L roundings adds at most u = 2^-24 of a partial sum, which is
 * at most P_ij = sum_k |A_ik| |B_kj|. Roundings go up and down by chance, so an element is off by
 * about sqrt(L) u P_ij at most, not by L u P_ij, and a row's sum with a random x by about
 *
 *     sigma_i = XMOST sqrt(L) u |P_i|,   |P_i| <= R_i = sum_k |A_ik| |B_k|   (Euclid's norms)
 *
 * R_i is made along with the sums: rows of B give |B_k| beside B x, rows of A then R_i beside
 * A (B x). Only what meets counts, so rows and columns may have any scale. Columns likewise.
 * SIGMAS sigma are taken for rounding. Random matrices need far less than one; the room is for
 * those whose roundings all go one way. Constant matrices have up to 63 u P_ij in sums of 1024, and
 * a huge summand before many small ones 255 u P_ij. For their sake L is that of a long sum also if
 * k is small. A little is added for the doubles and for numbers that are too small for floats. No
 * partial sum is larger than R_i, so only where that is beyond the range of floats may an element
 * of the row be no number.
 * THREADS: one thread a rank; its team shares out the rows or columns of a block.
 * LIMITS:  docs/matmul.md has a table of how large an error must be. What befalls a tile on its way
 *          into the file is not seen. */
#include "matmul/rank.h"

#include "base/rng.h"
#include "base/wide.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    TRIES = 2,
    SUMS = TRIES + 1, /* one for each try, and one of magnitudes */
    LANES = 8,
    STRIP = 512,  /* columns whose sums stay in the nearest cache */
    CHAIN = 1024, /* roundings of a long sum within a panel */
};
#define XMOST 1.5
#define SIGMAS 16.0
#define INLINE static inline __attribute__((always_inline))

static uint64_t length(const uint64_t range[2])
{
    return range[1] - range[0];
}

/* The matrix that comes first (stage 0) or second (stage 1) in a product with a vector. */
static int matrix_of(enum yk_way way, int stage)
{
    return (way == YK_ROWS) == (stage == 0) ? YK_MATMUL_B : YK_MATMUL_A;
}

static double *middle_of(const struct yk_matmul *m, enum yk_way way)
{
    return m->check.middle + (uint64_t)way * SUMS * m->plan.k;
}

/* --- memory --- */

static uint64_t shared_lines(const struct yk_matmul_part *part, int stage)
{
    uint64_t rows = length(part->check[matrix_of(YK_ROWS, stage)][YK_ROWS]);
    return rows + length(part->check[matrix_of(YK_COLS, stage)][YK_COLS]);
}

size_t yk_check_vector_bytes(const struct yk_matmul_part *part)
{
    return sizeof(struct yk_vector_report) + sizeof(double) * SUMS * shared_lines(part, 0);
}

size_t yk_check_report_bytes(const struct yk_matmul_part *part)
{
    uint64_t doubles = TRIES * (part->c.rows + part->c.cols) + SUMS * shared_lines(part, 1);
    return sizeof(struct yk_check_report) + sizeof(double) * doubles;
}

size_t yk_check_middle_bytes(const struct yk_matmul_plan *p)
{
    return sizeof(double) * YK_WAYS * SUMS * p->k;
}

size_t yk_check_memory(const struct yk_matmul_plan *p, int rank)
{
    const struct yk_matmul_part *part = &p->part[rank];
    uint64_t tried = p->n + p->m + part->c.rows + part->c.cols;
    uint64_t bytes = sizeof(double) * (TRIES * tried + SUMS * shared_lines(part, 1));
    bytes += yk_check_middle_bytes(p) + yk_check_report_bytes(part);
    if (rank == 0) { /* all sums side by side, and the reports of all ranks */
        bytes += sizeof(double) * (TRIES + SUMS) * (p->m + p->n);
        for (int r = 0; r < p->ranks; r++)
            bytes += yk_check_vector_bytes(&p->part[r]) + yk_check_report_bytes(&p->part[r]);
    }
    return bytes;
}

static void draw(double *out, uint64_t n, uint64_t key, enum yk_way way)
{
    struct yk_rng rng;
    yk_rng_init(&rng, key, (uint64_t)way, 0, 0);
    for (uint64_t i = 0; i < TRIES * n; i++) {
        uint64_t bits = yk_rng_next(&rng);
        double size = 1 + (XMOST - 1) * (double)(bits >> 32) * 0x1p-32;
        out[i] = bits & 1 ? size : -size;
    }
}

bool yk_check_open(struct yk_matmul *m)
{
    const uint64_t across[YK_WAYS] = {m->plan.n, m->plan.m};
    const uint64_t region[YK_WAYS] = {m->part->c.rows, m->part->c.cols};
    bool good = (m->check.middle = calloc(1, yk_check_middle_bytes(&m->plan))) != NULL;
    for (int way = 0; way < YK_WAYS && good; way++) {
        uint64_t lines = length(m->part->check[matrix_of((enum yk_way)way, 1)][way]);
        m->check.random[way] = malloc(TRIES * across[way] * sizeof(double));
        m->check.made[way] = calloc(TRIES * region[way] + 1, sizeof(double));
        m->check.want[way] = calloc(SUMS * lines + 1, sizeof(double));
        good = m->check.random[way] != NULL && m->check.made[way] != NULL &&
               m->check.want[way] != NULL;
        if (good)
            draw(m->check.random[way], across[way], m->plan.card[0].key, (enum yk_way)way);
    }
    return good;
}

void yk_check_close(struct yk_matmul *m)
{
    free(m->check.middle);
    for (int way = 0; way < YK_WAYS; way++) {
        free(m->check.random[way]);
        free(m->check.made[way]);
        free(m->check.want[way]);
    }
}

/* --- a block times vectors --- */

/* The sum of sizes that is made beside the tries. */
enum sizes { NO_SIZES, SQUARES, WEIGHTED };

struct product {
    const float *data;
    uint64_t rows, cols;
    enum yk_way way;
    const double *in; /* (tries or sums, in_stride), from the block's first column or row on */
    uint64_t in_stride;
    enum sizes sizes; /* WEIGHTED: by the last of `in` */
    double *out;      /* (tries or sums, out_stride), from the block's first row or column on */
    uint64_t out_stride;
    unsigned parts;
};

/* The sums of one row. Several side by side are vectors to the compiler, which knows `sized`. */
INLINE void along(const float *row, const struct product *p, double *out, bool sized)
{
    const double *x0 = p->in, *x1 = x0 + p->in_stride;
    const double *weight = p->sizes == WEIGHTED ? x1 + p->in_stride : NULL;
    double a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= p->cols; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double v = (double)row[i + k], size = fabs(v);
            a[k] += v * x0[i + k];
            b[k] += v * x1[i + k];
            if (sized)
                c[k] += size * (weight != NULL ? weight[i + k] : size);
        }
    for (; i < p->cols; i++) {
        double v = (double)row[i], size = fabs(v);
        a[0] += v * x0[i];
        b[0] += v * x1[i];
        if (sized)
            c[0] += size * (weight != NULL ? weight[i] : size);
    }
    for (int k = 0; k < LANES; k++) {
        out[0] += a[k];
        out[p->out_stride] += b[k];
        if (sized)
            out[TRIES * p->out_stride] += c[k];
    }
}

YK_WIDE static void add_along(const float *row, const struct product *p, double *out)
{
    if (p->sizes == NO_SIZES)
        along(row, p, out, false);
    else
        along(row, p, out, true);
}

/* Row r of some columns onto their sums. */
YK_WIDE static void add_across(const struct product *p, uint64_t r, uint64_t col, uint64_t n)
{
    const enum sizes sizes = p->sizes;
    const float *restrict row = p->data + r * p->cols + col;
    const double x0 = p->in[r], x1 = p->in[p->in_stride + r];
    const double weight = sizes == WEIGHTED ? p->in[TRIES * p->in_stride + r] : 0;
    double *restrict a = p->out + col, *restrict b = a + p->out_stride;
    double *restrict c = sizes != NO_SIZES ? b + p->out_stride : NULL;
    for (uint64_t i = 0; i < n; i++) {
        double v = (double)row[i], size = fabs(v);
        a[i] += v * x0;
        b[i] += v * x1;
        if (sizes != NO_SIZES)
            c[i] += size * (sizes == WEIGHTED ? weight : size);
    }
}

static void some_rows(void *arg, unsigned part)
{
    const struct product *p = arg;
    for (uint64_t r = p->rows * part / p->parts; r < p->rows * (part + 1) / p->parts; r++)
        add_along(p->data + r * p->cols, p, p->out + r);
}

static void some_cols(void *arg, unsigned part)
{
    const struct product *p = arg;
    uint64_t end = p->cols * (part + 1) / p->parts;
    for (uint64_t c = p->cols * part / p->parts; c < end; c += STRIP)
        for (uint64_t r = 0; r < p->rows; r++)
            add_across(p, r, c, end - c < STRIP ? end - c : STRIP);
}

static void multiply(struct yk_matmul *m, struct product *p)
{
    p->parts = m->threads;
    yk_team_run(m->team, p->parts, p->way == YK_ROWS ? some_rows : some_cols, p);
}

void yk_check_tile(struct yk_matmul *m, const struct yk_rect *tile)
{
    const struct yk_rect *c = &m->part->c;
    struct product p = {
        .data = m->buffers.tile, .rows = tile->rows, .cols = tile->cols, .way = YK_ROWS};
    p.in = m->check.random[YK_ROWS] + tile->col;
    p.in_stride = m->plan.n;
    p.out = m->check.made[YK_ROWS] + (tile->row - c->row);
    p.out_stride = c->rows;
    multiply(m, &p);
    p.way = YK_COLS;
    p.in = m->check.random[YK_COLS] + tile->row;
    p.in_stride = m->plan.m;
    p.out = m->check.made[YK_COLS] + (tile->col - c->col);
    p.out_stride = c->cols;
    multiply(m, &p);
}

/* --- rows or columns of A, or of B --- */

struct pass {
    int x;
    struct yk_rect region; /* the rank's part of the matrix */
};

/* Block i of the region: as many rows as make a block, a part of each if they are long. */
static bool pass_step(void *arg, uint64_t i, struct yk_rect block[YK_MATMUL_INPUTS])
{
    const struct pass *p = arg;
    const struct yk_rect *all = &p->region;
    if (all->cols == 0)
        return false;
    uint64_t wide = all->cols < YK_CHECK_COLS ? all->cols : YK_CHECK_COLS;
    uint64_t high = YK_CHECK_FLOATS / wide, across = (all->cols + wide - 1) / wide;
    uint64_t row = i / across * high, col = i % across * wide;
    if (row >= all->rows)
        return false;
    struct yk_rect *b = &block[p->x];
    *b = (struct yk_rect){.row = all->row + row, .col = all->col + col};
    b->rows = all->rows - row < high ? all->rows - row : high;
    b->cols = all->cols - col < wide ? all->cols - col : wide;
    return true;
}

/* Lines of a block have values that are not finite, here or in blocks before. If here, are there
 * doubles in the file that float32 has no room for? The block has been used, so its slot is free to
 * read them into. */
static yk_code find_large(struct yk_matmul *m, int x, const struct yk_rect *block, void *slot,
                          struct yk_error *e)
{
    const struct yk_matrix *input = &m->input[x];
    const double *v = slot;
    const float *used = slot;
    uint64_t at_once = YK_CHECK_FLOATS / 2 / block->cols, n = block->rows * block->cols, i = 0;
    yk_code rc = YK_OK;
    if (input->made || input->file.type != YK_F64)
        return YK_OK;
    while (i < n && isfinite(used[i]))
        i++;
    if (i == n)
        return YK_OK;
    for (uint64_t r = 0; r < block->rows && rc == YK_OK && !m->check.large[x]; r += at_once) {
        struct yk_rect b = {block->row + r, block->col, block->rows - r, block->cols};
        b.rows = b.rows < at_once ? b.rows : at_once;
        rc = yk_matrix_read(input, &b, YK_F64, slot, e);
        for (i = 0; i < b.rows * b.cols && rc == YK_OK; i++)
            m->check.large[x] = m->check.large[x] || (isfinite(v[i]) && !isfinite((float)v[i]));
    }
    return rc;
}

static bool all_finite(const double *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

/* The rank's lines of one matrix times the vectors: random ones into the middle (stage 0), the
 * middle into what is wanted (stage 1). */
static yk_code run_pass(struct yk_matmul *m, enum yk_way way, int stage, struct yk_error *e)
{
    int x = matrix_of(way, stage);
    const uint64_t *share = m->part->check[x][way], across[YK_WAYS] = {m->plan.n, m->plan.m};
    struct pass pass = {x, {0, 0, m->input[x].rows, m->input[x].cols}};
    if (way == YK_ROWS) {
        pass.region.row = share[0];
        pass.region.rows = length(share);
    } else {
        pass.region.col = share[0];
        pass.region.cols = length(share);
    }
    struct product all = {.way = way, .sizes = stage == 0 ? SQUARES : WEIGHTED};
    all.in = stage == 0 ? m->check.random[way] : middle_of(m, way);
    all.in_stride = stage == 0 ? across[way] : m->plan.k;
    all.out = stage == 0 ? middle_of(m, way) + share[0] : m->check.want[way];
    all.out_stride = stage == 0 ? m->plan.k : length(share);
    yk_code rc = yk_load_begin(m, pass_step, &pass, YK_F32, false, e);
    bool more = rc == YK_OK;
    for (uint64_t i = 0; more; i++) {
        void *data[YK_MATMUL_INPUTS];
        struct yk_rect block[YK_MATMUL_INPUTS];
        rc = yk_load_take(m, i, data, block, &more, e);
        if (rc != YK_OK || !more)
            break;
        const struct yk_rect *b = &block[x];
        uint64_t down = b->row - pass.region.row, right = b->col - pass.region.col;
        struct product p = all;
        p.data = data[x];
        p.rows = b->rows;
        p.cols = b->cols;
        p.in += way == YK_ROWS ? right : down;
        p.out += way == YK_ROWS ? down : right;
        multiply(m, &p);
        const double *squares = p.out + TRIES * p.out_stride;
        if (stage == 0 && !all_finite(squares, way == YK_ROWS ? b->rows : b->cols))
            rc = find_large(m, x, b, data[x], e);
        yk_load_free(m, i);
        more = rc == YK_OK;
        double done = (double)(down + b->rows) / (double)pass.region.rows, passes = YK_WAYS * 2;
        if (m->rank == 0 && m->hooks.say != NULL)
            m->hooks.say(m->hooks.arg, (stage * YK_WAYS + (int)way + done) / passes, 0, "checked");
    }
    yk_load_end(m);
    return rc;
}

/* --- the vectors, by way of rank 0 --- */

static double *pack(double *to, const double *from, uint64_t stride, uint64_t n)
{
    for (int s = 0; s < SUMS; s++, to += n)
        memcpy(to, from + (uint64_t)s * stride, n * sizeof *to);
    return to;
}

static const double *unpack(double *to, uint64_t stride, const double *from, uint64_t n)
{
    for (int s = 0; s < SUMS; s++, from += n)
        memcpy(to + (uint64_t)s * stride, from, n * sizeof *to);
    return from;
}

/* Rank 0: the middle from all its parts; the magnitudes are no longer squares. */
static void join_middle(struct yk_matmul *m)
{
    for (int r = 0; r < m->ranks; r++) {
        const struct yk_vector_report *its = yk_wire_box(m, YK_PHASE_VECTOR, r);
        const double *numbers = (const double *)(its + 1);
        for (int way = 0; way < YK_WAYS; way++) {
            const uint64_t *share = m->plan.part[r].check[matrix_of((enum yk_way)way, 0)][way];
            double *to = middle_of(m, (enum yk_way)way) + share[0];
            numbers = unpack(to, m->plan.k, numbers, length(share));
        }
        for (int x = 0; x < YK_MATMUL_INPUTS; x++)
            m->check.large[x] = m->check.large[x] || its->large[x];
    }
    for (int way = 0; way < YK_WAYS; way++) {
        double *size = middle_of(m, (enum yk_way)way) + TRIES * m->plan.k;
        for (uint64_t i = 0; i < m->plan.k; i++)
            size[i] = sqrt(size[i]);
    }
}

static yk_code share_vectors(struct yk_matmul *m, struct yk_error *e)
{
    size_t bytes = yk_check_vector_bytes(m->part);
    struct yk_vector_report *mine = malloc(bytes);
    if (mine == NULL)
        return yk_fail_memory(e, bytes);
    double *numbers = (double *)(mine + 1);
    for (int way = 0; way < YK_WAYS; way++) {
        const uint64_t *share = m->part->check[matrix_of((enum yk_way)way, 0)][way];
        const double *from = middle_of(m, (enum yk_way)way) + share[0];
        numbers = pack(numbers, from, m->plan.k, length(share));
    }
    *mine = (struct yk_vector_report){
        .large = {m->check.large[YK_MATMUL_A], m->check.large[YK_MATMUL_B]}};
    yk_code rc = yk_wire_report(m, YK_PHASE_VECTOR, mine, bytes, e);
    free(mine);
    if (rc == YK_OK && m->rank == 0)
        rc = yk_wire_gather(m, YK_PHASE_VECTOR, e);
    if (rc == YK_OK && m->rank == 0)
        join_middle(m);
    return rc == YK_OK ? yk_wire_vector(m, e) : rc;
}

static yk_code report(struct yk_matmul *m, struct yk_error *e)
{
    const uint64_t region[YK_WAYS] = {m->part->c.rows, m->part->c.cols};
    size_t bytes = yk_check_report_bytes(m->part);
    struct yk_check_report *mine = malloc(bytes);
    struct rusage u = {0};
    if (mine == NULL)
        return yk_fail_memory(e, bytes);
    getrusage(RUSAGE_SELF, &u);
    *mine = (struct yk_check_report){.moved = atomic_load(&m->wire.moved)};
    mine->moved += m->rank > 0 ? bytes + sizeof(struct yk_note) : 0; /* this very message */
    mine->peak_rss = (uint64_t)u.ru_maxrss * 1024;
    double *numbers = (double *)(mine + 1);
    for (int way = 0; way < YK_WAYS; way++) {
        uint64_t lines = length(m->part->check[matrix_of((enum yk_way)way, 1)][way]);
        memcpy(numbers, m->check.made[way], TRIES * region[way] * sizeof *numbers);
        numbers = pack(numbers + TRIES * region[way], m->check.want[way], lines, lines);
    }
    yk_code rc = yk_wire_report(m, YK_PHASE_CHECK, mine, bytes, e);
    free(mine);
    return rc;
}

/* --- the verdict, rank 0's --- */

struct lines { /* all rows, or all columns, of C */
    uint64_t n, across;
    double *made; /* (tries, n) */
    double *want; /* (sums, n) the last are R */
};

static void join_lines(struct yk_matmul *m, struct lines lines[], struct yk_matmul_result *result)
{
    for (int r = 0; r < m->ranks; r++) {
        const struct yk_matmul_part *part = &m->plan.part[r];
        const struct yk_check_report *its = yk_wire_box(m, YK_PHASE_CHECK, r);
        const double *numbers = (const double *)(its + 1);
        const uint64_t first[YK_WAYS] = {part->c.row, part->c.col};
        const uint64_t region[YK_WAYS] = {part->c.rows, part->c.cols};
        for (int way = 0; way < YK_WAYS; way++) {
            const uint64_t *share = part->check[matrix_of((enum yk_way)way, 1)][way];
            struct lines *l = &lines[way];
            for (uint64_t t = 0; t < TRIES; t++)
                for (uint64_t i = 0; i < region[way]; i++)
                    l->made[t * l->n + first[way] + i] += *numbers++;
            numbers = unpack(l->want + share[0], l->n, numbers, length(share));
        }
        result->bytes_moved += its->moved;
        result->peak_rss = its->peak_rss > result->peak_rss ? its->peak_rss : result->peak_rss;
    }
}

struct verdict {
    const char *what;       /* "row" or "column" */
    uint64_t odd, overflow; /* lines whose inputs are no numbers; lines of C that may have none */
    bool broken;            /* a line of C has none and should */
    double off;             /* largest deviation, in units of the bound for rounding */
    uint64_t worst;         /* the line that is broken, or off by most */
};

/* All lines that can be judged are, whatever the others hold. */
static struct verdict look_at(const struct yk_matmul *m, const struct lines *l, const char *what)
{
    const struct yk_matmul_plan *p = &m->plan;
    double chain = (double)(CHAIN + yk_matmul_panels(p) + 8), u = 0x1p-24;
    double root = sqrt((double)l->across), k = (double)p->k;
    double doubles = ((double)l->across + k + 8) * root * 0x1p-52;
    double tiny = root * k * (double)FLT_TRUE_MIN;
    struct verdict v = {.what = what};
    for (uint64_t i = 0; i < l->n && !v.broken; i++) {
        double most = l->want[TRIES * l->n + i], off = INFINITY;
        double bound = XMOST * (SIGMAS * (sqrt(chain) * u * most + tiny) + doubles * most);
        bool number = true;
        for (uint64_t t = 0; t < TRIES; t++) {
            double d = fabs(l->made[t * l->n + i] - l->want[t * l->n + i]) / bound;
            number = number && isfinite(d);
            off = d < off ? d : off;
        }
        if (!isfinite(most)) {
            v.odd++;
        } else if (!number && most * (1 + chain * u) >= (double)FLT_MAX) {
            v.overflow++;
        } else if (!number) {
            v.broken = true;
            v.worst = i;
        } else if (off > v.off) {
            v.off = off;
            v.worst = i;
        }
    }
    return v;
}

static yk_code refuse(const struct verdict *v, struct yk_error *e)
{
    char why[80] = "has values that are not finite, though its inputs are";
    if (!v->broken)
        snprintf(why, sizeof why, "is off by %.3g times the bound for rounding", v->off);
    return yk_fail(e, YK_FAILED, "the product is wrong: %s %" PRIu64 " %s", v->what, v->worst, why);
}

/* Why a product that is not wrong cannot be called right, if so. */
static void explain(const struct yk_matmul *m, const struct verdict v[], char *reason, size_t room)
{
    const char *has = "has values that are", *so = ", so the product cannot be checked";
    bool whole_a = all_finite(middle_of(m, YK_COLS) + TRIES * m->plan.k, m->plan.k);
    bool whole_b = all_finite(middle_of(m, YK_ROWS) + TRIES * m->plan.k, m->plan.k);
    char large = m->check.large[YK_MATMUL_A] ? 'A' : 'B';
    uint64_t rows = v[YK_ROWS].odd, cols = v[YK_COLS].odd, over = v[YK_ROWS].overflow;
    if (m->check.large[YK_MATMUL_A] || m->check.large[YK_MATMUL_B])
        snprintf(reason, room, "%c %s too large for float32%s", large, has, so);
    else if (!whole_a && !whole_b)
        snprintf(reason, room, "A and B have values that are not finite%s", so);
    else if (!whole_a)
        snprintf(reason, room, "A %s not finite, in %" PRIu64 " of its rows%s", has, rows, so);
    else if (!whole_b)
        snprintf(reason, room, "B %s not finite, in %" PRIu64 " of its columns%s", has, cols, so);
    else if (over > 0)
        snprintf(reason, room,
                 "the product is beyond the range of float32 in "
                 "%" PRIu64 " of its rows",
                 over);
}

yk_code yk_check(struct yk_matmul *m, struct yk_matmul_result *result, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (int stage = 0; stage < 2 && rc == YK_OK; stage++) {
        for (int way = 0; way < YK_WAYS && rc == YK_OK; way++)
            rc = run_pass(m, (enum yk_way)way, stage, e);
        if (rc == YK_OK)
            rc = stage == 0 ? share_vectors(m, e) : report(m, e);
    }
    if (rc != YK_OK || m->rank > 0)
        return rc;
    rc = yk_wire_gather(m, YK_PHASE_CHECK, e);
    if (rc != YK_OK)
        return rc;
    size_t bytes = sizeof(double) * (TRIES + SUMS) * (m->plan.m + m->plan.n);
    double *all = calloc(1, bytes);
    if (all == NULL)
        return yk_fail_memory(e, bytes);
    struct lines rows = {.n = m->plan.m, .across = m->plan.n, .made = all};
    rows.want = rows.made + TRIES * rows.n;
    struct lines cols = {.n = m->plan.n, .across = m->plan.m, .made = rows.want + SUMS * rows.n};
    cols.want = cols.made + TRIES * cols.n;
    struct lines lines[YK_WAYS] = {rows, cols};
    join_lines(m, lines, result);
    const struct verdict v[YK_WAYS] = {look_at(m, &rows, "row"), look_at(m, &cols, "column")};
    free(all);
    result->checked = true;
    result->residual = fmax(v[YK_ROWS].off, v[YK_COLS].off);
    if (v[YK_ROWS].broken || v[YK_COLS].broken)
        return refuse(v[YK_ROWS].broken ? &v[YK_ROWS] : &v[YK_COLS], e);
    if (result->residual > 1)
        return refuse(v[YK_ROWS].off > 1 ? &v[YK_ROWS] : &v[YK_COLS], e);
    explain(m, v, result->reason, sizeof result->reason);
    result->verified = result->reason[0] == '\0';
    return YK_OK;
}
