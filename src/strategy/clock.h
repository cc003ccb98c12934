/* clock.h - owner 0's decisions: which pushes form a step, who is alive, and what everybody does next. It alone decides, so that
 * several owners never apply different sets. It sends nothing itself: server.c asks it and carries its answers.
 * THREADS: everything under the lock of owner 0's endpoint. Nothing here blocks. */
#ifndef YK_STRATEGY_CLOCK_H
#define YK_STRATEGY_CLOCK_H

#include "base/error.h"
#include "strategy/deal.h"
#include "strategy/ledger.h"
#include "strategy/shard.h"
#include "strategy/strategy.h"

struct yk_member { /* a worker, as the clock sees it */
    bool alive;
    bool waiting;         /* it has pushed (or come) and not been answered */
    bool idle;            /* it waits because there is no part for it */
    bool stopped;         /* it has been told that the run is over */
    uint32_t incarnation; /* pushes of an older one are dropped */
    uint64_t task, ahead; /* pooled: the parts it holds; YK_NO_PART */
    uint64_t done;        /* pushes that counted: its clock */
    struct yk_ledger ledger;
    struct yk_ledger since; /* the same since the last check */
};

struct yk_clock {
    const struct yk_rule *rule;
    struct yk_deal deal;      /* pooled: which part is where */
    uint64_t position;        /* whole batches: first example of the open step */
    struct yk_member *member; /* (workers) */
    unsigned alive, waiting;
    uint32_t incarnation;
    uint64_t most_lead; /* ssp: the largest fastest - slowest at any pull */
    bool stopping;      /* nobody gets another task */
};

/* `position`: the first example that has not been trained on; `left` parts before it have not either, and are added to the deal. */
yk_code yk_clock_init(struct yk_clock *c, const struct yk_rule *rule, uint64_t position,
                      unsigned left, struct yk_error *e);
void yk_clock_release(struct yk_clock *c);
/* How many parts may still be dealt, from the rule's last step; after the deal's lists have been restored. */
void yk_clock_limit(struct yk_clock *c, uint64_t step);

/* What worker w does next, if it may go on now: false if it has to wait. */
bool yk_clock_next(struct yk_clock *c, unsigned w, uint64_t step, struct yk_task *out);

/* The push of w (its task `id`) has become part of an update. */
void yk_clock_applied(struct yk_clock *c, unsigned w, uint64_t id, uint64_t staleness,
                      uint32_t examples, double loss);
/* ... or came too late: its part is dealt again. */
void yk_clock_dropped(struct yk_clock *c, unsigned w, uint64_t id);

/* Worker w is gone. What it held is dealt again; with whole batches everybody gets a new incarnation. */
void yk_clock_lose(struct yk_clock *c, unsigned w);
/* A new worker in the place of a lost one. */
void yk_clock_join(struct yk_clock *c, unsigned w);

/* Is it the last one that has its host's data? */
bool yk_clock_sole(const struct yk_clock *c, unsigned w);
/* Parts that make the open step: the rule's, or what the epoch has left. */
unsigned yk_clock_need(const struct yk_clock *c);
/* The span of shards of worker w among the living. */
void yk_clock_span(const struct yk_clock *c, unsigned w, uint32_t *first, uint32_t *last);

#endif
