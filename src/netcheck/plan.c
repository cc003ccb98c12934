/* plan.c - which pairs of ranks are measured, and which of them at the same time.
 *
 * Up to YK_NETCHECK_ALL_PAIRS ranks, all pairs are. Beyond that, rank i is paired with the ranks at
 * a few distances that are spread over half the circle, both ways, so that every rank is in equally
 * many pairs and a slow host cannot hide. Pairs of a round share no host, because the link of a
 * host is what is measured. With up to four ranks a round is one pair, which nothing can
 * disturb. */
#include "netcheck/netcheck.h"

#include <stdlib.h>
#include <string.h>

enum { ONE_BY_ONE = 4 }; /* ranks */

static size_t add_both(struct yk_netcheck_pair *to, size_t n, int a, int b)
{
    to[n++] = (struct yk_netcheck_pair){.from = a, .to = b};
    to[n++] = (struct yk_netcheck_pair){.from = b, .to = a};
    return n;
}

static int by_round(const void *a, const void *b)
{
    const struct yk_netcheck_pair *x = a, *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* Each round takes every pair that is left and whose hosts are still free. `host` numbers hosts by
 * their first ranks. */
static void assign_rounds(struct yk_netcheck_pair *pair, size_t pairs, const int *host, bool *taken,
                          int ranks)
{
    size_t left = pairs;
    for (size_t i = 0; i < pairs; i++)
        pair[i].round = 0;
    for (unsigned round = 1; left > 0; round++) {
        memset(taken, 0, (size_t)ranks * sizeof *taken);
        size_t before = left;
        for (size_t i = 0; i < pairs; i++) {
            int a = host[pair[i].from], b = host[pair[i].to];
            if (pair[i].round != 0 || taken[a] || taken[b] ||
                (ranks <= ONE_BY_ONE && left < before))
                continue;
            taken[a] = taken[b] = true;
            pair[i].round = round;
            left--;
        }
    }
}

yk_code yk_netcheck_plan(struct yk_netcheck_pair **out, size_t *pairs,
                         const struct yk_netcheck_rank *rank, int ranks, struct yk_error *e)
{
    int furthest = ranks / 2; /* around the circle */
    int distances = furthest;
    if (ranks > YK_NETCHECK_ALL_PAIRS) {
        furthest = (ranks - 1) / 2;
        distances = YK_NETCHECK_ALL_PAIRS * (YK_NETCHECK_ALL_PAIRS - 1) / (2 * ranks);
        distances = distances > 0 ? distances : 1;
    }
    size_t most = 2 * (size_t)ranks * (size_t)distances, n = 0;
    struct yk_netcheck_pair *pair = calloc(most, sizeof *pair);
    int *host = calloc((size_t)ranks, sizeof *host);
    bool *taken = calloc((size_t)ranks, sizeof *taken);
    yk_code rc = YK_OK;
    if (pair == NULL || host == NULL || taken == NULL) {
        rc = yk_fail_memory(e, most * sizeof *pair);
        goto out_arrays;
    }
    for (int i = 0; i < ranks; i++)
        while (strcmp(rank[host[i]].host, rank[i].host) != 0)
            host[i]++;
    for (int k = 1; k <= distances; k++) {
        int d = k * furthest / distances;
        int starts = 2 * d == ranks ? d : ranks; /* halfway round, i and i + d are each other's */
        for (int i = 0; i < starts; i++)
            n = add_both(pair, n, i, (i + d) % ranks);
    }
    assign_rounds(pair, n, host, taken, ranks);
    qsort(pair, n, sizeof *pair, by_round);
    *pairs = n;
    *out = pair;
    pair = NULL;
out_arrays:
    free(pair);
    free(host);
    free(taken);
    return rc;
}
