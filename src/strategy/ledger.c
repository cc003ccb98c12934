/* ledger.c - see ledger.h. */
#include "strategy/ledger.h"

#include <math.h>

void yk_ledger_push(struct yk_ledger *l, uint64_t staleness, uint32_t examples, double loss)
{
    l->steps++;
    l->examples += examples;
    l->loss += loss;
    l->loss_examples += examples;
    l->stale[staleness < YK_STALE ? staleness : YK_STALE - 1]++;
    l->stale_sum += (double)staleness;
    if (staleness > l->most)
        l->most = staleness;
}

void yk_ledger_sweep(struct yk_ledger *l, uint64_t pushes, uint64_t examples, double loss)
{
    l->steps += pushes;
    l->examples += examples;
    l->loss += loss;
    l->loss_examples += examples;
    l->stale[0] += pushes;
}

void yk_ledger_add(struct yk_ledger *to, const struct yk_ledger *from)
{
    to->steps += from->steps;
    to->examples += from->examples;
    to->dropped += from->dropped;
    to->torn += from->torn;
    to->loss += from->loss;
    to->loss_examples += from->loss_examples;
    to->stale_sum += from->stale_sum;
    for (size_t i = 0; i < YK_STALE; i++)
        to->stale[i] += from->stale[i];
    if (from->most > to->most)
        to->most = from->most;
}

double yk_ledger_mean(const struct yk_ledger *l)
{
    return l->steps > 0 ? l->stale_sum / (double)l->steps : 0;
}

uint64_t yk_ledger_quantile(const struct yk_ledger *l, double p)
{
    uint64_t want = (uint64_t)ceil(p * (double)l->steps), have = 0;
    for (size_t i = 0; i < YK_STALE - 1; i++) {
        have += l->stale[i];
        if (have >= want)
            return i;
    }
    return l->most;
}
