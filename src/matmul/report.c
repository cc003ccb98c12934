/* report.c - the plan and the result of a product, side by side, for people and as JSON. */
#include "matmul/rank.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *name(const struct yk_matmul_plan *p, int x, char out[64])
{
    if (p->ask->n > 0)
        snprintf(out, 64, "%c, made from seed %" PRIu64, "AB"[x], p -> ask -> seed);
    else
        snprintf(out, 64, "'%.50s'", p->ask->path[x]);
    return out;
}

static void describe(const struct yk_matmul_plan *p, struct yk_buf *out)
{
    char a[64], b[64];
    yk_buf_format(out, "%s (%" PRIu64 " x %" PRIu64 ") times %s (%" PRIu64 " x %" PRIu64 ")\n",
                  name(p, 0, a), p->m, p->k, name(p, 1, b), p->k, p->n);
    bool wide = false, files = p->ask->n == 0;
    for (int r = 0; r < p->ranks; r++)
        wide = wide || p->card[r].input[0].wide || p->card[r].input[1].wide;
    if (!p->product)
        yk_buf_text(out, "the trace alone needs no product: it is the sum of A_ij B_ji\n");
    else if (wide)
        yk_buf_text(out, "float64 is rounded to float32 before it is multiplied\n");
    yk_buf_format(out, "%d rank%s on %d host%s, %u thread%s each", p->ranks,
                  p->ranks == 1 ? "" : "s", p->hosts, p->hosts == 1 ? "" : "s", p->threads,
                  p->threads == 1 ? "" : "s");
    if (p->product) {
        yk_buf_format(out, ", as a grid of %d x %d\n", p->grid[0], p->grid[1]);
        yk_buf_format(out,
                      "tiles of %" PRIu64 " x %" PRIu64 ", %" PRIu64
                      " columns of A and rows of B at a time\n",
                      p->tile_rows, p->tile_cols, p->panel);
    } else {
        yk_buf_format(out, ", both blocks of a pair on one of them\n");
    }
    uint64_t pulls = 0;
    int writers = 0;
    for (int r = 0; r < p->ranks; r++) {
        pulls += p->part[r].pulls;
        writers += p->card[r].writes;
    }
    char text[24];
    if (files)
        yk_buf_format(out, "%s read from files%s\n", yk_size_text(p->reads, text),
                      pulls == 0 ? ", by each rank what it needs"
                                 : ", and sent to the ranks that cannot");
    if (p->ask->output != NULL && p->ranks > 1)
        yk_buf_format(out, "%d of %d ranks write into '%s' themselves%s\n", writers, p->ranks,
                      p->ask->output, writers < p->ranks ? ", rank 0 for the others" : "");
}

static void line(struct yk_buf *out, const char *what, const char *planned, const char *real)
{
    yk_buf_format(out, real[0] != '\0' ? "  %-18s %14s %14s\n" : "  %-18s %14s\n", what, planned,
                  real);
}

static const char *seconds_text(double s, char out[24])
{
    snprintf(out, 24, s < 0.1 ? "%.4f s" : s < 10 ? "%.2f s" : "%.1f s", s);
    return out;
}

void yk_matmul_text(const struct yk_matmul_plan *p, const struct yk_matmul_result *r,
                    struct yk_buf *out)
{
    char a[24], b[24], rate[2][24] = {"", ""};
    describe(p, out);
    line(out, "", "planned", r != NULL ? "real" : "");
    line(out, "bytes moved", yk_size_text(p->bytes, a),
         r != NULL ? yk_size_text(r->bytes_moved, b) : "");
    line(out, "memory of a rank", yk_size_text(p->memory, a),
         r != NULL ? yk_size_text(r->peak_rss, b) : "");
    line(out, "time", seconds_text(p->seconds, a), r != NULL ? seconds_text(r->seconds, b) : "");
    snprintf(rate[0], sizeof rate[0], "%.1f", p->flops / p->seconds * 1e-9);
    if (r != NULL)
        snprintf(rate[1], sizeof rate[1], "%.1f", r->gflops);
    line(out, "GFLOPS", rate[0], rate[1]);
    if (p->wire > 0)
        line(out, "wire, a second", yk_size_text((uint64_t)p->wire, a), "");
    if (r == NULL)
        return;
    if (r->has_trace)
        yk_buf_format(out, "trace %.9g\n", r->trace);
    if (r->verified)
        yk_buf_format(out, "verified in %s: off by %.2g of the bound for rounding\n",
                      seconds_text(r->check_seconds, a), r->residual);
    else if (r->checked)
        yk_buf_format(out, "not verified: %s\n", r->reason);
    if (p->ask->output != NULL)
        yk_buf_format(out, "written to '%s'\n", p->ask->output);
}

static void put(json_t *j, const char *key, json_t *value)
{
    json_object_set_new(j, key, value);
}

json_t *yk_matmul_json(const struct yk_matmul_plan *p, const struct yk_matmul_result *r)
{
    json_t *j = json_object();
    static const struct yk_matmul_result NONE = {0};
    bool real = r != NULL;
    r = real ? r : &NONE;
    put(j, "schema", json_integer(1));
    put(j, "version", json_string(YK_VERSION));
    put(j, "m", json_integer((json_int_t)p->m));
    put(j, "k", json_integer((json_int_t)p->k));
    put(j, "n", json_integer((json_int_t)p->n));
    put(j, "seed", p->ask->n > 0 ? json_integer((json_int_t)p->ask->seed) : json_null());
    put(j, "method", json_string(p->product ? "product" : "trace"));
    put(j, "ranks", json_integer(p->ranks));
    put(j, "hosts", json_integer(p->hosts));
    put(j, "threads", json_integer(p->threads));
    put(j, "grid", json_pack("[ii]", p->grid[0], p->grid[1]));
    put(j, "tile", json_pack("[II]", (json_int_t)p->tile_rows, (json_int_t)p->tile_cols));
    put(j, "panel", json_integer((json_int_t)p->panel));
    put(j, "output", p->ask->output != NULL ? json_string(p->ask->output) : json_null());
    put(j, "verified", real && r->checked ? json_boolean(r->verified) : json_null());
    put(j, "reason", r->reason[0] != '\0' ? json_string(r->reason) : json_null());
    put(j, "residual", real && r->checked ? yk_json_real(r->residual) : json_null());
    put(j, "trace", real && r->has_trace ? yk_json_real(r->trace) : json_null());
    put(j, "gflops", real ? yk_json_real(r->gflops) : json_null());
    put(j, "gflops_planned", yk_json_real(p->flops / p->seconds * 1e-9));
    put(j, "seconds", real ? yk_json_real(r->seconds) : json_null());
    put(j, "seconds_planned", yk_json_real(p->seconds));
    put(j, "check_seconds", real && r->checked ? yk_json_real(r->check_seconds) : json_null());
    put(j, "bytes_moved", real ? json_integer((json_int_t)r->bytes_moved) : json_null());
    put(j, "bytes_planned", json_integer((json_int_t)p->bytes));
    put(j, "bytes_read_planned", json_integer((json_int_t)p->reads));
    put(j, "memory_planned", json_integer((json_int_t)p->memory));
    put(j, "peak_rss_bytes", real ? json_integer((json_int_t)r->peak_rss) : json_null());
    put(j, "wire", p->wire > 0 ? yk_json_real(p->wire) : json_null());
    return j;
}
