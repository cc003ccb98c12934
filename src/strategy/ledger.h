/* ledger.h - the clock's account of one worker: its steps, examples, loss and staleness.
 *
 * Staleness of an async push is the owner's step when it is applied less the step its parameters
 * came from. It is counted exactly up to YK_STALE - 2; the last bucket holds everything above, and
 * `most` says how far that went.
 * THREADS: belongs to the clock, under owner 0's lock. */
#ifndef YK_STRATEGY_LEDGER_H
#define YK_STRATEGY_LEDGER_H

#include <stddef.h>
#include <stdint.h>

enum { YK_STALE = 256 };

struct yk_ledger {
    uint64_t steps;    /* pushes that became part of an update */
    uint64_t examples; /* in them */
    uint64_t dropped;  /* pushes that came too late, or of an older incarnation */
    uint64_t torn;     /* pushes that some owners have applied and owner 0 has not */
    double loss;       /* summed over loss_examples */
    uint64_t loss_examples;
    uint64_t stale[YK_STALE]; /* pushes by staleness */
    uint64_t most;            /* the largest */
    double stale_sum;
};

void yk_ledger_push(struct yk_ledger *l, uint64_t staleness, uint32_t examples, double loss);
/* Several pushes at once, none of them stale. */
void yk_ledger_sweep(struct yk_ledger *l, uint64_t pushes, uint64_t examples, double loss);
void yk_ledger_add(struct yk_ledger *to, const struct yk_ledger *from);
double yk_ledger_mean(const struct yk_ledger *l); /* 0 without pushes */
/* The smallest staleness that at least the part `p` of the pushes does not exceed. */
uint64_t yk_ledger_quantile(const struct yk_ledger *l, double p);

#endif
