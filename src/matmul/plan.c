/* plan.c - which rank multiplies which blocks, where they come from, and what that costs; see
 * matmul.h.
 *
 * The ranks form a grid; rank (i, j) has region (i, j) of C, and so needs row i of A's regions and
 * column j of B's. Partners, the ranks of a row or a column of the grid, need the same data, so
 * they should share a machine: the ranks of one host are a rectangle of the grid where that is
 * possible. Every grid and every such rectangle is weighed by the time it would take: the slowest
 * rank's share of the work, the elements that it loads, the bytes between ranks, the bytes that
 * each host reads. The least time wins, and the first of equals.
 *
 * A region that does not fit into the memory of a rank is cut into tiles. A tile is multiplied
 * panel by panel, so memory holds one tile and two panels, for matrices of any size. Panels are
 * short also because of rounding: sums are PANEL long, not k.
 *
 * A trace is sum_ij A_ij B_ji, so blocks (i, j) of A and (j, i) of B meet on a rank that has both;
 * no product is made. Each rank plans by itself, from the same cards, and comes to the same plan.
 * LIMITS: the sum over k is not divided, so a product with a long k and a small C uses few ranks
 * well; regions are equal, even if hosts are not. */
#include "matmul/rank.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PANEL = 1024, /* columns of A, rows of B that are multiplied at a time */
    PANEL_LEAST = 64,
    /* bytes of the program, MPI's and oneDNN's buffers; the least --memory follows from it */
    OVERHEAD = 117000000,
    /* bytes of two blocks of A and two of B */
    TRACE_BLOCKS = 4 * YK_TRACE_BLOCK * YK_TRACE_BLOCK * (int)sizeof(double),
    NOTE = (int)sizeof(struct yk_note),
};
/* Bytes per second to compare plans with, before anything is measured. */
#define WIRE_FAR 200e6
#define WIRE_NEAR 2e9
#define DISK 1e9

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t up(uint64_t a, uint64_t b) /* a / b, rounded up */
{
    return (a + b - 1) / b;
}

/* Where share i of `parts` begins; no product of two large numbers. */
static uint64_t share(uint64_t total, uint64_t parts, uint64_t i)
{
    return total / parts * i + total % parts * i / parts;
}

static bool local(const struct yk_matmul_plan *p, int rank, int x)
{
    return p->card[rank].input[x].seen && !p->card[rank].input[x].far;
}

/* --- walks --- */

uint64_t yk_matmul_panels(const struct yk_matmul_plan *p)
{
    return up(p->k, p->panel);
}

static bool trace_step(const struct yk_matmul_plan *p, const struct yk_matmul_part *mine,
                       uint64_t i, struct yk_rect block[2])
{
    uint64_t side = p->panel, across = up(p->k, side), down = up(mine->c.rows, side);
    if (i >= down * across)
        return false;
    uint64_t r = i / across * side, c = i % across * side;
    struct yk_rect a = {mine->c.row + r, c, least(side, mine->c.rows - r), least(side, p->k - c)};
    block[YK_MATMUL_A] = a;
    block[YK_MATMUL_B] = (struct yk_rect){a.col, a.row, a.cols, a.rows};
    return true;
}

bool yk_matmul_step(const struct yk_matmul_plan *p, int rank, uint64_t i,
                    struct yk_rect block[YK_MATMUL_INPUTS], struct yk_rect *tile, uint64_t *panel)
{
    const struct yk_matmul_part *mine = &p->part[rank];
    if (mine->row < 0)
        return false;
    if (!p->product)
        return trace_step(p, mine, i, block);
    uint64_t panels = yk_matmul_panels(p), down = up(mine->c.rows, p->tile_rows),
             across = up(mine->c.cols, p->tile_cols);
    uint64_t t = i % panels, tr = i / panels / across, tc = i / panels % across;
    if (tr >= down)
        return false;
    struct yk_rect c = {.row = mine->c.row + share(mine->c.rows, down, tr),
                        .col = mine->c.col + share(mine->c.cols, across, tc)};
    c.rows = mine->c.row + share(mine->c.rows, down, tr + 1) - c.row;
    c.cols = mine->c.col + share(mine->c.cols, across, tc + 1) - c.col;
    uint64_t k = share(p->k, panels, t), some = share(p->k, panels, t + 1) - k;
    block[YK_MATMUL_A] = (struct yk_rect){c.row, k, c.rows, some};
    block[YK_MATMUL_B] = (struct yk_rect){k, c.col, some, c.cols};
    if (tile != NULL)
        *tile = c;
    if (panel != NULL)
        *panel = t;
    return true;
}

/* --- suppliers --- */

static bool partners(const struct yk_matmul_plan *p, int a, int b, int x)
{
    const struct yk_matmul_part *one = &p->part[a], *other = &p->part[b];
    return one->row >= 0 && other->row >= 0 &&
           (x == YK_MATMUL_A ? one->row == other->row : one->col == other->col);
}

/* The t-th of the ranks that see the matrix, or of the partners among them. -1: none. */
static int choose(const struct yk_matmul_plan *p, int rank, int x, uint64_t t, bool partners_only)
{
    for (int r = 0; r < p->ranks; r++)
        if (p->card[r].input[x].seen && (!partners_only || partners(p, r, rank, x)) && t-- == 0)
            return r;
    return -1;
}

int yk_matmul_supplier(const struct yk_matmul_plan *p, int rank, int x, uint64_t t)
{
    if (local(p, rank, x) || p->ranks == 1)
        return rank;
    /* From a file system of another machine every partner reads a part for all of them. */
    uint64_t n = 0;
    for (int r = 0; r < p->ranks; r++)
        n += p->card[r].input[x].seen && partners(p, r, rank, x);
    int r = choose(p, rank, x, n > 0 ? t % n : 0, true);
    if (r >= 0)
        return r;
    n = 0;
    for (r = 0; r < p->ranks; r++)
        n += p->card[r].input[x].seen;
    return choose(p, rank, x, n > 0 ? (t + (uint64_t)rank) % n : 0, false);
}

/* --- checks --- */

/* All ranks that see a matrix see the same one, and at least one does. Its size is in `rows` and
 * `cols`. */
static yk_code same_everywhere(const struct yk_matmul_plan *p, int x, uint64_t *rows,
                               uint64_t *cols, struct yk_error *e)
{
    int first = -1;
    const char *path = p->ask->path[x];
    for (int r = 0; r < p->ranks; r++) {
        const struct yk_matmul_card *c = &p->card[r];
        if (!c->input[x].seen)
            continue;
        if (first >= 0 && c->input[x].mark != p->card[first].input[x].mark) {
            yk_fail(e, YK_DATA, "'%s' on rank %d ('%s') differs from that on rank %d ('%s')", path,
                    r, c->host, first, p->card[first].host);
            yk_hint(e, "give every host the same file, or let only some of them have it");
            return YK_DATA;
        }
        first = first < 0 ? r : first;
    }
    if (first < 0)
        return yk_fail(e, YK_DATA, "cannot open '%s': no rank has it", path != NULL ? path : "");
    *rows = p->card[first].input[x].rows;
    *cols = p->card[first].input[x].cols;
    return YK_OK;
}

static yk_code check_sizes(struct yk_matmul_plan *p, struct yk_error *e)
{
    uint64_t inner = 0;
    yk_code rc = same_everywhere(p, YK_MATMUL_A, &p->m, &p->k, e);
    if (rc == YK_OK)
        rc = same_everywhere(p, YK_MATMUL_B, &inner, &p->n, e);
    if (rc != YK_OK)
        return rc;
    if (inner != p->k)
        return yk_fail(e, YK_USAGE,
                       "'%s' is %" PRIu64 " x %" PRIu64 " and '%s' is %" PRIu64 " x %" PRIu64
                       ": the inner sizes differ",
                       p->ask->path[0], p->m, p->k, p->ask->path[1], inner, p->n);
    if (p->ask->trace && p->m != p->n)
        return yk_fail(e, YK_USAGE,
                       "the product is %" PRIu64 " x %" PRIu64
                       ", and only a square matrix has a trace",
                       p->m, p->n);
    return YK_OK;
}

/* --- the grid --- */

struct hosts {
    int *of;    /* (ranks) a rank's host, numbered in the order of their first ranks */
    int *order; /* (ranks) the ranks, host after host */
    int n;
    int each; /* ranks on every host; 0: not the same number */
    unsigned char *mark;
};

static void find_hosts(const struct yk_matmul_plan *p, struct hosts *h)
{
    int next = 0;
    h->n = 0;
    for (int r = 0; r < p->ranks; r++) {
        int same = 0;
        while (strcmp(p->card[same].host, p->card[r].host) != 0)
            same++;
        h->of[r] = same < r ? h->of[same] : h->n++;
    }
    h->each = h->n > 0 ? p->ranks / h->n : 0;
    for (int host = 0; host < h->n; host++) {
        int before = next;
        for (int r = 0; r < p->ranks; r++)
            if (h->of[r] == host)
                h->order[next++] = r;
        if (next - before != h->each)
            h->each = 0;
    }
}

/* Places ranks on a grid, those of a host as a rectangle of `high` rows. False if the grid cannot
 * be cut like that. */
static bool place(struct yk_matmul_plan *p, const struct hosts *h, int rows, int cols, int high)
{
    int wide = cols, used = rows * cols;
    bool boxes = h->each > 0 && used == p->ranks && h->each % high == 0;
    if (boxes) {
        wide = h->each / high;
        boxes = rows % high == 0 && cols % wide == 0;
    }
    if (!boxes && high > 1)
        return false;
    p->grid[0] = rows;
    p->grid[1] = cols;
    for (int i = 0; i < p->ranks; i++) {
        struct yk_matmul_part *part = &p->part[h->order[i]];
        if (i >= used) {
            part->row = part->col = -1;
            part->c = (struct yk_rect){0};
            continue;
        }
        if (boxes) {
            int host = i / h->each, inside = i % h->each, across = cols / wide;
            part->row = host / across * high + inside / wide;
            part->col = host % across * wide + inside % wide;
        } else {
            part->row = i / cols;
            part->col = i % cols;
        }
        uint64_t r = (uint64_t)part->row, c = (uint64_t)part->col, height = (uint64_t)rows,
                 width = (uint64_t)cols;
        part->c.row = share(p->m, height, r);
        part->c.rows = share(p->m, height, r + 1) - part->c.row;
        part->c.col = share(p->n, width, c);
        part->c.cols = share(p->n, width, c + 1) - part->c.col;
    }
    return true;
}

/* Elements that each host reads from files if it reads every block once: distinct rows of A's
 * regions and columns of B's. Returns the most of any host; `all` gets the sums for A and for B. */
static double host_reads(const struct yk_matmul_plan *p, const struct hosts *h,
                         double all[YK_MATMUL_INPUTS])
{
    double largest = 0;
    int at = 0;
    all[YK_MATMUL_A] = all[YK_MATMUL_B] = 0;
    for (int host = 0; host < h->n; host++) {
        double here[YK_MATMUL_INPUTS] = {0};
        memset(h->mark, 0, (size_t)(p->grid[0] + p->grid[1]));
        for (; at < p->ranks && h->of[h->order[at]] == host; at++) {
            const struct yk_matmul_part *part = &p->part[h->order[at]];
            if (part->row < 0)
                continue;
            unsigned char *row = &h->mark[part->row], *col = &h->mark[p->grid[0] + part->col];
            here[YK_MATMUL_A] += *row ? 0 : (double)part->c.rows * (double)p->k;
            here[YK_MATMUL_B] += *col ? 0 : (double)part->c.cols * (double)p->k;
            *row = *col = 1;
        }
        for (int x = 0; x < YK_MATMUL_INPUTS; x++)
            all[x] += here[x];
        largest = fmax(largest, here[YK_MATMUL_A] + here[YK_MATMUL_B]);
    }
    return largest;
}

/* The time of a plan, roughly, in seconds. */
static double weigh(const struct yk_matmul_plan *p, const struct hosts *h)
{
    double work = 0, wire = 0, all[YK_MATMUL_INPUTS];
    for (int r = 0; r < p->ranks; r++) {
        const struct yk_matmul_part *part = &p->part[r];
        if (part->row < 0)
            continue;
        double k = (double)p->k, rows = (double)part->c.rows, cols = (double)part->c.cols;
        double compute = 2 * k * rows * cols / (p->card[r].gflops * 1e9);
        work = fmax(work, compute + k * (rows + cols) / p->card[r].loads);
        double pulls =
            (local(p, r, YK_MATMUL_A) ? 0 : rows * k) + (local(p, r, YK_MATMUL_B) ? 0 : k * cols);
        wire += pulls * sizeof(float) / (h->n > 1 ? WIRE_FAR : WIRE_NEAR);
    }
    return work + wire / h->n + (p->ask->n > 0 ? 0 : host_reads(p, h, all) * sizeof(float) / DISK);
}

static void choose_grid(struct yk_matmul_plan *p, const struct hosts *h)
{
    double best = INFINITY;
    int rows = 1, high = 1;
    for (int r = 1; r <= p->ranks && (uint64_t)r <= p->m; r++)
        for (int box = 1; box <= (h->each > 0 ? h->each : 1); box++) {
            if (!place(p, h, r, (int)least((uint64_t)(p->ranks / r), p->n), box))
                continue;
            double seconds = weigh(p, h);
            if (seconds < best * (1 - 1e-9)) {
                best = seconds;
                rows = r;
                high = box;
            }
        }
    place(p, h, rows, (int)least((uint64_t)(p->ranks / rows), p->n), high);
}

/* Assigns rows of A to the ranks that have both blocks of a pair; if there are none, to those that
 * have A's. */
static void assign_trace(struct yk_matmul_plan *p)
{
    int able = 0, at = 0, both = 0;
    for (int r = 0; r < p->ranks; r++)
        both += p->card[r].input[0].seen && p->card[r].input[1].seen;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < p->ranks; r++) {
            bool can = p->card[r].input[0].seen && (both == 0 || p->card[r].input[1].seen);
            struct yk_matmul_part *part = &p->part[r];
            if (pass == 0) {
                able += can;
                part->row = part->col = -1;
                part->c = (struct yk_rect){0};
            } else if (can) {
                uint64_t lo = share(p->m, (uint64_t)able, (uint64_t)at++);
                part->c = (struct yk_rect){.row = lo,
                                           .rows = share(p->m, (uint64_t)able, (uint64_t)at) - lo};
                part->row = part->c.rows > 0 ? at - 1 : -1;
                part->col = 0;
            }
        }
    p->grid[0] = (int)least((uint64_t)able, p->m);
    p->grid[1] = 1;
}

/* Assigns rows or columns of a matrix, to check with, to the ranks that see it. */
static void assign_check(struct yk_matmul_plan *p, int x, enum yk_way way, uint64_t lines)
{
    uint64_t able = 0, at = 0;
    for (int r = 0; r < p->ranks; r++)
        able += p->card[r].input[x].seen;
    for (int r = 0; r < p->ranks; r++)
        if (p->card[r].input[x].seen) {
            p->part[r].check[x][way][0] = share(lines, able, at++);
            p->part[r].check[x][way][1] = share(lines, able, at);
        }
}

/* --- memory --- */

/* Bytes of a rank's buffers, without tile and panels. */
static uint64_t other_memory(const struct yk_matmul_plan *p, int r)
{
    return OVERHEAD + 2 * (uint64_t)YK_PULL_BYTES + (p->product ? yk_check_memory(p, r) : 0);
}

static uint64_t slot_memory(uint64_t elements, uint64_t size)
{
    return 2 * most(elements, YK_CHECK_FLOATS) * size; /* two slots, also for the check */
}

static uint64_t tile_memory(const struct yk_matmul_plan *p)
{
    uint64_t f = sizeof(float);
    return p->tile_rows * p->tile_cols * f + slot_memory(p->tile_rows * p->panel, f) +
           slot_memory(p->panel * p->tile_cols, f);
}

static yk_code refuse_memory(uint64_t limit, uint64_t need, struct yk_error *e)
{
    yk_fail(e, YK_USAGE, "%" PRIu64 " MB of memory for a rank is too little", limit >> 20);
    yk_hint(e, "--memory %" PRIu64 " is the least that suffices", up(need, 1 << 20));
    return YK_USAGE;
}

static yk_code fit(struct yk_matmul_plan *p, uint64_t limit, uint64_t other, struct yk_error *e)
{
    uint64_t rows = up(p->m, (uint64_t)p->grid[0]), cols = up(p->n, (uint64_t)p->grid[1]), down = 1,
             across = 1;
    p->panel = least(p->k, PANEL);
    for (;;) {
        p->tile_rows = up(rows, down);
        p->tile_cols = up(cols, across);
        bool fits =
            p->tile_cols <= YK_ROW_MOST && other <= limit && tile_memory(p) <= limit - other;
        if (fits)
            return YK_OK;
        if (other > limit || (p->tile_rows <= 1 && p->tile_cols <= 1))
            break;
        if (p->panel > PANEL_LEAST && p->tile_rows + p->tile_cols < 4 * p->panel)
            p->panel = most(p->panel / 2, PANEL_LEAST);
        else if (p->tile_cols > YK_ROW_MOST || p->tile_cols >= p->tile_rows)
            across += across / 8 + 1;
        else
            down += down / 8 + 1;
    }
    p->tile_rows = p->tile_cols = p->panel = 1;
    return refuse_memory(limit, other + tile_memory(p), e);
}

/* A trace has blocks of one size. */
static yk_code fit_trace(struct yk_matmul_plan *p, uint64_t limit, uint64_t other,
                         struct yk_error *e)
{
    p->tile_rows = p->tile_cols = p->panel = YK_TRACE_BLOCK;
    return other + TRACE_BLOCKS <= limit ? YK_OK : refuse_memory(limit, other + TRACE_BLOCKS, e);
}

/* --- costs --- */

static uint64_t messages(uint64_t rows, uint64_t cols, uint64_t size, uint64_t most_bytes)
{
    uint64_t row = cols * size;
    if (row == 0)
        return 0;
    return row > most_bytes ? rows * up(row, most_bytes) : up(rows, most_bytes / row);
}

/* Bytes that a rank gets from others. */
static uint64_t count_pulls(struct yk_matmul_plan *p, int r)
{
    uint64_t bytes = 0, size = p->product ? sizeof(float) : sizeof(double);
    struct yk_rect block[YK_MATMUL_INPUTS];
    if (local(p, r, YK_MATMUL_A) && local(p, r, YK_MATMUL_B))
        return 0;
    for (uint64_t i = 0; yk_matmul_step(p, r, i, block, NULL, NULL); i++)
        for (int x = 0; x < YK_MATMUL_INPUTS; x++) {
            int from = yk_matmul_supplier(p, r, x, i);
            if (from == r)
                continue;
            p->part[from].serves = true;
            bytes += block[x].rows * block[x].cols * size +
                     2 * NOTE * messages(block[x].rows, block[x].cols, size, YK_PULL_BYTES);
        }
    return bytes;
}

/* Bytes of tiles that rank 0 writes for a rank. */
static uint64_t count_tiles(struct yk_matmul_plan *p, int r)
{
    uint64_t bytes = 0, panel;
    struct yk_rect block[YK_MATMUL_INPUTS], tile = {0};
    if (!p->product || p->ask->output == NULL || p->card[r].writes)
        return 0;
    for (uint64_t i = 0; yk_matmul_step(p, r, i, block, &tile, &panel); i += yk_matmul_panels(p))
        bytes += tile.rows * tile.cols * sizeof(float) +
                 2 * NOTE * messages(tile.rows, tile.cols, sizeof(float), YK_TILE_BYTES);
    if (bytes > 0)
        p->part[0].serves = true;
    return bytes;
}

/* Bytes of an element in the file, as a rank that sees it reports. */
static uint64_t element_bytes(const struct yk_matmul_plan *p, int x)
{
    for (int r = 0; r < p->ranks; r++)
        if (p->card[r].input[x].seen)
            return p->card[r].input[x].wide ? YK_F64 : YK_F32;
    return YK_F32;
}

static void count_bytes(struct yk_matmul_plan *p, const struct hosts *h)
{
    for (int r = 0; r < p->ranks; r++) {
        struct yk_matmul_part *part = &p->part[r];
        part->pulls = count_pulls(p, r);
        p->bytes += part->pulls + (r > 0 ? count_tiles(p, r) : 0);
        if (r > 0) /* GO, and the report of its work */
            p->bytes += NOTE + NOTE + sizeof(struct yk_work_report);
        if (r > 0 && p->product)
            p->bytes += 3 * NOTE + yk_check_middle_bytes(p);
        if (r > 0 && p->product)
            p->bytes += yk_check_vector_bytes(part) + yk_check_report_bytes(part);
        if (r > 0 && !p->product)
            p->bytes += NOTE + sizeof(struct yk_check_report);
    }
    double elements[YK_MATMUL_INPUTS] = {(double)p->m * (double)p->k, (double)p->k * (double)p->n};
    if (p->product)
        host_reads(p, h, elements);
    if (p->ask->n == 0)
        for (int x = 0; x < YK_MATMUL_INPUTS; x++)
            p->reads += (uint64_t)elements[x] * element_bytes(p, x);
}

/* The time without the wire, which rank 0 measures. */
static void count_time(struct yk_matmul_plan *p)
{
    p->threads = p->card[0].threads;
    for (int r = 0; r < p->ranks; r++) {
        const struct yk_matmul_part *part = &p->part[r];
        const struct yk_matmul_card *card = &p->card[r];
        double k = (double)p->k, rows = (double)part->c.rows, cols = (double)part->c.cols, seconds;
        if (p->product)
            seconds = 2 * k * rows * cols / (card->gflops * 1e9) +
                      k *
                          (rows * (double)up(part->c.cols, p->tile_cols) +
                           cols * (double)up(part->c.rows, p->tile_rows)) /
                          card->loads / card->threads;
        else
            seconds = 2 * k * rows / card->loads;
        p->seconds = fmax(p->seconds, seconds);
        p->threads = card->threads < p->threads ? card->threads : p->threads;
    }
    p->flops = p->product ? 2.0 * (double)p->m * (double)p->k * (double)p->n
                          : 2.0 * (double)p->m * (double)p->k;
}

yk_code yk_matmul_plan(struct yk_matmul_plan *p, const struct yk_matmul_ask *ask,
                       const struct yk_matmul_card *card, int ranks, struct yk_error *e)
{
    struct hosts h = {0};
    *p = (struct yk_matmul_plan){
        .product = !ask->trace || ask->full, .ranks = ranks, .card = card, .ask = ask};
    yk_code rc = check_sizes(p, e);
    if (rc != YK_OK)
        return rc;
    p->part = calloc((size_t)ranks, sizeof *p->part);
    h.of = calloc((size_t)ranks, sizeof *h.of);
    h.order = calloc((size_t)ranks, sizeof *h.order);
    h.mark = calloc((size_t)ranks, 2);
    if (p->part == NULL || h.of == NULL || h.order == NULL || h.mark == NULL) {
        rc = yk_fail_memory(e, (size_t)ranks * sizeof *p->part);
        goto out_hosts;
    }
    find_hosts(p, &h);
    p->hosts = h.n;
    if (p->product)
        choose_grid(p, &h);
    else
        assign_trace(p);
    const uint64_t sides[YK_MATMUL_INPUTS][YK_WAYS] = {{p->m, p->k}, {p->k, p->n}};
    if (p->product)
        for (int i = 0; i < YK_MATMUL_INPUTS * YK_WAYS; i++) {
            int x = i / YK_WAYS, way = i % YK_WAYS;
            assign_check(p, x, (enum yk_way)way, sides[x][way]);
        }
    uint64_t limit = UINT64_MAX, other = 0;
    for (int r = 0; r < ranks; r++) {
        limit = least(limit, card[r].memory);
        other = most(other, other_memory(p, r));
    }
    rc = p->product ? fit(p, limit, other, e) : fit_trace(p, limit, other, e);
    if (rc != YK_OK)
        goto out_hosts;
    for (int r = 0; r < ranks; r++) {
        p->part[r].memory = other_memory(p, r) + (p->product ? tile_memory(p) : TRACE_BLOCKS);
        p->memory = most(p->memory, p->part[r].memory);
    }
    count_bytes(p, &h);
    count_time(p);
out_hosts:
    free(h.of);
    free(h.order);
    free(h.mark);
    if (rc != YK_OK)
        yk_matmul_plan_release(p);
    return rc;
}

void yk_matmul_plan_release(struct yk_matmul_plan *p)
{
    free(p->part);
    p->part = NULL;
}
