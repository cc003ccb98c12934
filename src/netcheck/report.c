/* report.c - what the numbers mean: the slowest link, a table of at most 80 columns for people,
 * JSON for programs.
 *
 * All numbers are measured but one: a net of 61 M parameters moves more than a round does, so its
 * time is that of a round, scaled. A link is called slow, or uneven, only between hosts: within a
 * host the scheduler decides from run to run which pair is fastest. */
#include "netcheck/netcheck.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCHEMA = 1,
    MATRIX = 6,  /* most ranks of a matrix that fits the page */
    LISTED = 10, /* pairs that are listed instead */
};
#define SLOW 0.67  /* a slow link has less than this part of the best one's bandwidth */
#define UNEVEN 1.5 /* an uneven one is so many times slower than its other direction */

/* --- the verdict --- */

static const char *host_of(const struct yk_netcheck_result *r, int rank)
{
    return r->rank[rank].host;
}

static bool same_host(const struct yk_netcheck_result *r, int a, int b)
{
    return strcmp(host_of(r, a), host_of(r, b)) == 0;
}

static int count_hosts(const struct yk_netcheck_result *r)
{
    int hosts = 0;
    for (int i = 0; i < r->ranks; i++) {
        int k = 0;
        while (!same_host(r, k, i))
            k++;
        hosts += k == i;
    }
    return hosts;
}

/* Is the link one that the verdict is about? */
static bool counts(const struct yk_netcheck_result *r, const struct yk_netcheck_pair *p,
                   bool several)
{
    return !several || !same_host(r, p->from, p->to);
}

static const struct yk_netcheck_pair *find(const struct yk_netcheck_result *r, int from, int to)
{
    for (size_t i = 0; i < r->pairs; i++)
        if (r->pair[i].from == from && r->pair[i].to == to)
            return &r->pair[i];
    return NULL;
}

/* Are all links of `host` slow, and all other links fast? */
static bool is_to_blame(const struct yk_netcheck_result *r, const char *host, double limit)
{
    for (size_t i = 0; i < r->pairs; i++) {
        const struct yk_netcheck_pair *p = &r->pair[i];
        bool touches =
            strcmp(host_of(r, p->from), host) == 0 || strcmp(host_of(r, p->to), host) == 0;
        if (counts(r, p, true) && (p->bandwidth < limit) != touches)
            return false;
    }
    return true;
}

void yk_netcheck_judge(const struct yk_netcheck_result *r, struct yk_netcheck_verdict *v)
{
    bool several = count_hosts(r) > 1;
    double best = 0, worst = UNEVEN;
    *v = (struct yk_netcheck_verdict){0};
    for (size_t i = 0; i < r->pairs; i++) {
        const struct yk_netcheck_pair *p = &r->pair[i], *back = find(r, p->to, p->from);
        if (!counts(r, p, several))
            continue;
        best = p->bandwidth > best ? p->bandwidth : best;
        if (v->slowest == NULL || p->bandwidth < v->slowest->bandwidth)
            v->slowest = p;
        if (several && back != NULL && back->bandwidth > worst * p->bandwidth) {
            worst = back->bandwidth / p->bandwidth;
            v->uneven = p;
            v->back = back->bandwidth;
        }
    }
    if (v->slowest == NULL)
        return;
    v->of_best = best > 0 ? v->slowest->bandwidth / best : 1;
    v->slow = several && v->of_best < SLOW;
    if (!v->slow)
        return;
    const char *ends[] = {host_of(r, v->slowest->from), host_of(r, v->slowest->to)};
    bool blame[] = {is_to_blame(r, ends[0], SLOW * best), is_to_blame(r, ends[1], SLOW * best)};
    if (blame[0] != blame[1]) /* with two hosts, each has only links to the other */
        v->host = blame[0] ? ends[0] : ends[1];
}

/* --- words --- */

static const char *rate_text(double v, char out[24])
{
    if (v >= 1e9)
        snprintf(out, 24, v >= 99.95e9 ? "%.0f GB/s" : "%.2f GB/s", v / 1e9);
    else
        snprintf(out, 24, v >= 99.95e6 ? "%.0f MB/s" : "%.1f MB/s", v / 1e6);
    return out;
}

static const char *time_text(double v, char out[24])
{
    if (v < 1e-2)
        snprintf(out, 24, "%.0f us", v * 1e6);
    else if (v < 1)
        snprintf(out, 24, "%.0f ms", v * 1e3);
    else
        snprintf(out, 24, "%.2f s", v);
    return out;
}

static const char *bytes_text(uint64_t bytes, char out[24])
{
    if (bytes >= 1 << 20)
        snprintf(out, 24, "%g MB", (double)(bytes >> 10) / 1024);
    else
        snprintf(out, 24, "%.0f KB", (double)bytes / 1024);
    return out;
}

static const char *rank_text(const struct yk_netcheck_result *r, int rank, char out[32])
{
    snprintf(out, 32, "%d %.20s", rank, host_of(r, rank));
    return out;
}

static double latency_us(const struct yk_netcheck_pair *p)
{
    return p->latency * 1e6;
}

static double megabytes(const struct yk_netcheck_pair *p)
{
    return p->bandwidth / 1e6;
}

/* --- the table --- */

/* Rows are senders. 14 + 6 x 11 columns at most. */
static void matrix(const struct yk_netcheck_result *r,
                   double (*value)(const struct yk_netcheck_pair *p), struct yk_buf *out)
{
    char name[32];
    yk_buf_format(out, "  %-12s", "from \\ to");
    for (int to = 0; to < r->ranks; to++)
        yk_buf_format(out, " %10.10s", rank_text(r, to, name));
    yk_buf_text(out, "\n");
    for (int from = 0; from < r->ranks; from++) {
        yk_buf_format(out, "  %-12.12s", rank_text(r, from, name));
        for (int to = 0; to < r->ranks; to++) {
            const struct yk_netcheck_pair *p = find(r, from, to);
            if (p == NULL)
                yk_buf_format(out, " %10s", "-");
            else
                yk_buf_format(out, value(p) < 1000 ? " %10.1f" : " %10.0f", value(p));
        }
        yk_buf_text(out, "\n");
    }
}

static int by_bandwidth(const void *a, const void *b)
{
    const struct yk_netcheck_pair *const *x = a, *const *y = b;
    return ((*x)->bandwidth > (*y)->bandwidth) - ((*x)->bandwidth < (*y)->bandwidth);
}

/* For too many ranks for a matrix: the slowest pairs, and the median. */
static void list(const struct yk_netcheck_result *r, struct yk_buf *out)
{
    char text[4][32];
    const struct yk_netcheck_pair **by = calloc(r->pairs, sizeof *by);
    out->failed = out->failed || by == NULL;
    if (by == NULL)
        return;
    for (size_t i = 0; i < r->pairs; i++)
        by[i] = &r->pair[i];
    qsort(by, r->pairs, sizeof *by, by_bandwidth);
    const struct yk_netcheck_pair *middle = by[r->pairs / 2];
    yk_buf_format(out, "half of the pairs have at least %s; the slowest ones:\n",
                  rate_text(middle->bandwidth, text[0]));
    yk_buf_format(out, "  %-24s %-24s %11s %13s\n", "from", "to", "round trip", "bandwidth");
    for (size_t i = 0; i < r->pairs && i < LISTED; i++)
        yk_buf_format(out, "  %-24s %-24s %11s %13s\n", rank_text(r, by[i]->from, text[0]),
                      rank_text(r, by[i]->to, text[1]), time_text(by[i]->latency, text[2]),
                      rate_text(by[i]->bandwidth, text[3]));
    free(by);
}

static void pairs(const struct yk_netcheck_result *r, struct yk_buf *out)
{
    double p99 = 0, least = r->pair[0].bandwidth_31k, most = 0;
    uint64_t message = YK_NETCHECK_MESSAGE;
    char text[3][24];
    for (size_t i = 0; i < r->pairs; i++) {
        const struct yk_netcheck_pair *p = &r->pair[i];
        p99 = p->latency_p99 > p99 ? p->latency_p99 : p99;
        least = p->bandwidth_31k < least ? p->bandwidth_31k : least;
        most = p->bandwidth_31k > most ? p->bandwidth_31k : most;
        message = p->message < message ? p->message : message;
    }
    bool few = r->ranks <= MATRIX;
    yk_buf_format(out, "\nround trip of 64 bytes%s: 99 %% within %s\n", few ? ", median in us" : "",
                  time_text(p99, text[0]));
    if (few)
        matrix(r, latency_us, out);
    yk_buf_format(out, "\nbandwidth, messages of 31 KB: %s to %s\n", rate_text(least, text[1]),
                  rate_text(most, text[2]));
    yk_buf_format(out, "bandwidth, messages of %s%s%s\n", bytes_text(message, text[0]),
                  message < YK_NETCHECK_MESSAGE ? " and more" : "", few ? ", in MB/s:" : ":");
    if (few)
        matrix(r, megabytes, out);
    else
        list(r, out);
}

static void pattern_line(const char *name, const struct yk_netcheck_pattern *p, struct yk_buf *out)
{
    yk_buf_format(out, "  %-20s", name);
    for (int i = 0; i < YK_NETCHECK_SIZES; i++) {
        char text[3][24];
        yk_buf_format(out, " %7s %8s %10s", bytes_text(p[i].bytes, text[0]),
                      time_text(p[i].seconds, text[1]), rate_text(p[i].bandwidth, text[2]));
    }
    yk_buf_text(out, "\n");
}

/* Seconds for a step of the net, from a pattern's big round. */
static double net_seconds(const struct yk_netcheck_pattern *p)
{
    return p[YK_NETCHECK_BIG].seconds * ((double)YK_NETCHECK_NET * sizeof(float)) /
           (double)p[YK_NETCHECK_BIG].bytes;
}

static void training(const char *who, const struct yk_netcheck_pattern *p, struct yk_buf *out)
{
    char text[2][24];
    yk_buf_format(out, "  %-36s %10s %17s\n", who, time_text(p[YK_NETCHECK_31K].seconds, text[0]),
                  time_text(net_seconds(p), text[1]));
}

static void verdict(const struct yk_netcheck_result *r, struct yk_buf *out)
{
    struct yk_netcheck_verdict v;
    char text[4][32];
    yk_netcheck_judge(r, &v);
    if (v.slowest == NULL)
        return;
    yk_buf_format(out, "\nslowest: rank %s to rank %s,\n  %s, %.0f %% of the best link%s\n",
                  rank_text(r, v.slowest->from, text[0]), rank_text(r, v.slowest->to, text[1]),
                  rate_text(v.slowest->bandwidth, text[2]), v.of_best * 100,
                  count_hosts(r) > 1 ? " between hosts" : "");
    if (v.host != NULL)
        yk_buf_format(out, "  all links of host '%.40s' are slow, and no others\n", v.host);
    if (v.uneven != NULL)
        yk_buf_format(out, "uneven: rank %s to rank %s,\n  %s, but %s the other way\n",
                      rank_text(r, v.uneven->from, text[0]), rank_text(r, v.uneven->to, text[1]),
                      rate_text(v.uneven->bandwidth, text[2]), rate_text(v.back, text[3]));
}

static void how(const struct yk_netcheck_result *r, struct yk_buf *out)
{
    size_t all = (size_t)r->ranks * (size_t)(r->ranks - 1);
    if (r->pairs < all)
        yk_buf_format(out, "%zu of %zu pairs", r->pairs, all);
    else
        yk_buf_text(out, "every pair");
    if (r->parallel > 1)
        yk_buf_format(out, ", up to %zu at a time, no host in two of them", r->parallel);
    else
        yk_buf_text(out, ", one at a time");
}

void yk_netcheck_table(const struct yk_netcheck_result *r, struct yk_buf *out)
{
    char who[48];
    int hosts = count_hosts(r);
    yk_buf_format(out, "%d ranks on %d host%s; ", r->ranks, hosts, hosts == 1 ? "" : "s");
    how(r, out);
    yk_buf_text(out, "\n");
    if (r->pairs > 0)
        pairs(r, out);
    yk_buf_format(out, "\n%-22s %7s %8s %10s %7s %8s %10s\n", "patterns", "bytes", "round", "rate",
                  "bytes", "round", "rate");
    pattern_line("all to one and back", r->to_one, out);
    pattern_line("all to all and back", r->to_all, out);
    yk_buf_format(out, "\n%-38s %10s %17s\n", "a step costs at least", "softmax",
                  "61 M parameters");
    snprintf(who, sizeof who, "sync, 1 server, %d worker%s", r->ranks - 1,
             r->ranks == 2 ? "" : "s");
    training(who, r->to_one, out);
    snprintf(who, sizeof who, "allreduce, %d workers", r->ranks);
    training(who, r->to_all, out);
    verdict(r, out);
}

/* --- JSON --- */

static json_t *pair_json(const struct yk_netcheck_pair *p)
{
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:I}", "from", p->from, "to", p->to,
                     "latency_us", p->latency * 1e6, "latency_p99_us", p->latency_p99 * 1e6,
                     "bandwidth_31k", p->bandwidth_31k, "bandwidth", p->bandwidth, "message_bytes",
                     (json_int_t)p->message);
}

static json_t *round_json(const struct yk_netcheck_pattern *p, const char *rate)
{
    return json_pack("{s:I, s:i, s:f, s:f}", "bytes", (json_int_t)p->bytes, "rounds",
                     (int)p->rounds, "round_us", p->seconds * 1e6, rate, p->bandwidth);
}

static json_t *pattern_json(const struct yk_netcheck_pattern *p, const char *rate)
{
    return json_pack("{s:o, s:o, s:f, s:f}", "small", round_json(&p[YK_NETCHECK_31K], rate),
                     "large", round_json(&p[YK_NETCHECK_BIG], rate), "softmax_step_us",
                     p[YK_NETCHECK_31K].seconds * 1e6, "net_61m_step_seconds", net_seconds(p));
}

static json_t *link_json(const struct yk_netcheck_result *r, const struct yk_netcheck_pair *p)
{
    return json_pack("{s:i, s:i, s:s, s:s, s:f}", "from", p->from, "to", p->to, "from_host",
                     host_of(r, p->from), "to_host", host_of(r, p->to), "bandwidth", p->bandwidth);
}

json_t *yk_netcheck_json(const struct yk_netcheck_result *r)
{
    struct yk_netcheck_verdict v;
    json_t *ranks = json_array(), *list_of_pairs = json_array(), *slowest = json_null(),
           *uneven = json_null();
    yk_netcheck_judge(r, &v);
    for (int i = 0; i < r->ranks; i++)
        json_array_append_new(ranks, json_pack("{s:i, s:s, s:i}", "rank", i, "host", host_of(r, i),
                                               "pid", r->rank[i].pid));
    for (size_t i = 0; i < r->pairs; i++)
        json_array_append_new(list_of_pairs, pair_json(&r->pair[i]));
    if (v.slowest != NULL) {
        slowest = link_json(r, v.slowest);
        json_object_set_new(slowest, "of_best", yk_json_real(v.of_best));
        json_object_set_new(slowest, "host", v.host != NULL ? json_string(v.host) : json_null());
    }
    if (v.uneven != NULL) {
        uneven = link_json(r, v.uneven);
        json_object_set_new(uneven, "back", yk_json_real(v.back));
    }
    return json_pack("{s:i, s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:f}", "schema", SCHEMA,
                     "version", YK_VERSION, "ranks", ranks, "pairs_total",
                     (json_int_t)r->ranks * (r->ranks - 1), "pairs_at_once",
                     (json_int_t)r->parallel, "pairs", list_of_pairs, "all_to_one",
                     pattern_json(r->to_one, "bandwidth"), "all_to_all",
                     pattern_json(r->to_all, "bus_bandwidth"), "slowest", slowest, "asymmetric",
                     uneven, "seconds", r->seconds);
}
