/* clock.h - owner 0's decisions: which pushes form a step, which workers are alive, and what each
 * does next. It alone decides, so that several owners never apply different sets. It sends nothing
 * itself: server.c asks it and sends its answers.
 * THREADS: everything under the lock of owner 0's endpoint. Nothing here blocks. */
#ifndef YK_STRATEGY_CLOCK_H
#define YK_STRATEGY_CLOCK_H

#include "base/error.h"
#include "strategy/deal.h"
#include "strategy/ledger.h"
#include "strategy/rule.h"
#include "strategy/shard.h"

struct yk_member { /* a worker, as the clock sees it */
    bool alive;
    bool waiting;         /* it has pushed (or come) and not been answered */
    bool idle;            /* it waits because there is no part for it */
    bool stopped;         /* it has been told that the run is over */
    uint32_t incarnation; /* pushes of an older one are dropped */
    uint64_t task;        /* the part or batch that it computes; YK_NO_PART */
    uint64_t ahead;       /* pooled: the part that it was promised; YK_NO_PART */
    uint64_t done;        /* pushes that counted: its clock */
    struct yk_ledger ledger;
    struct yk_ledger since; /* the same since the last check */
};

struct yk_clock {
    const struct yk_rule *rule;
    struct yk_deal deal;      /* pooled: where each part is */
    uint64_t position;        /* first example of the open step; read with whole batches only */
    struct yk_member *member; /* (workers) */
    unsigned alive, waiting;
    uint32_t incarnation;
    uint64_t most_lead; /* ssp: the largest fastest - slowest at any pull */
    bool stopping;      /* no worker gets another task */
};

/* `position`: the first example that has not been trained on. `left` earlier parts have not been
 * trained on either, and are added to the deal. */
yk_code yk_clock_init(struct yk_clock *c, const struct yk_rule *rule, uint64_t position,
                      unsigned left, struct yk_error *e);
void yk_clock_release(struct yk_clock *c);
/* Limits the parts that may still be dealt by the rule's last step; after the deal's lists have
 * been restored. */
void yk_clock_limit(struct yk_clock *c, uint64_t step);

/* The next task of worker w, if it may go on now; false: it has to wait. */
bool yk_clock_next(struct yk_clock *c, unsigned w, uint64_t step, struct yk_task *out);

/* The push of w (its task `id`) has become part of an update. */
void yk_clock_applied(struct yk_clock *c, unsigned w, uint64_t id, uint64_t staleness,
                      uint32_t examples, double loss);
/* The push of w came too late: its part is dealt again. */
void yk_clock_dropped(struct yk_clock *c, unsigned w, uint64_t id);

/* Worker w is lost. Its parts are dealt again; with whole batches all workers get a new
 * incarnation. */
void yk_clock_lose(struct yk_clock *c, unsigned w);
/* A new worker in the place of a lost one. */
void yk_clock_join(struct yk_clock *c, unsigned w);

/* Is w the last worker that has its host's data? */
bool yk_clock_sole(const struct yk_clock *c, unsigned w);
/* Parts that make the open step: the rule's, or fewer at the end of the epoch. */
unsigned yk_clock_need(const struct yk_clock *c);
/* The shards of worker w among the living. */
void yk_clock_span(const struct yk_clock *c, unsigned w, uint32_t *first, uint32_t *last);

#endif
