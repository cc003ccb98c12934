/* deal.h - assigns the examples of an epoch in parts, each exactly once, whatever happens to the
 * workers that hold them.
 *
 * A part is `batch` neighbouring examples of an epoch's shuffled order; the last one may be
 * shorter. Its id is the position of its first example, counted over all epochs: epoch * rows + at.
 * Where hosts have data of their own, each has a *share*, a range of every epoch's positions, and
 * its workers get parts of that share only. A part is new, then *out* (dealt), then done. A part
 * whose holder was lost or came too late is *back*, and is dealt again before any new one, so it
 * still belongs to its epoch. Parts that are back or out when a checkpoint is written are saved
 * with it: a resumed run deals them again.
 *
 * Where workers share two shuffled orders (`near`), parts of an epoch are dealt only while no more
 * than the epoch before it is unfinished. Other workers have orders of their own, and go on while
 * one of them sleeps over a part.
 * THREADS: belongs to the clock, under owner 0's lock. */
#ifndef YK_STRATEGY_DEAL_H
#define YK_STRATEGY_DEAL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define YK_NO_PART UINT64_MAX

struct yk_share { /* positions [from, from + rows) of every epoch */
    uint64_t from, rows;
    uint64_t next; /* the next new part */
};

struct yk_deal {
    uint64_t rows;
    uint32_t batch;
    bool one_epoch;         /* deal from one epoch at a time: a synchronous step belongs to one */
    bool near;              /* deal from two epochs at most */
    struct yk_share *share; /* (shares) in the order of positions, without gaps; mostly one */
    unsigned shares;
    uint64_t end;   /* no new part from here on */
    uint64_t quota; /* parts that may still be dealt, new or not */
    uint64_t *out;  /* (outs) */
    uint64_t *back; /* (backs) ascending */
    unsigned outs, backs, most;
};

/* At most `most` parts are out or back at any time. `share` NULL: one for all workers. */
yk_code yk_deal_init(struct yk_deal *d, uint64_t rows, uint32_t batch, const struct yk_share *share,
                     unsigned shares, unsigned most, struct yk_error *e);
void yk_deal_release(struct yk_deal *d);

uint32_t yk_deal_size(const struct yk_deal *d, uint64_t id); /* examples of a part */
uint64_t yk_deal_take(struct yk_deal *d, unsigned share);    /* YK_NO_PART: none may be dealt now */
/* A part has been done, or comes back. Nothing happens if it is not out. */
void yk_deal_done(struct yk_deal *d, uint64_t id);
void yk_deal_return(struct yk_deal *d, uint64_t id);
void yk_deal_add(struct yk_deal *d, uint64_t id); /* unfinished at an earlier start */
/* Parts of the oldest unfinished epoch that are not done: out, back or new. */
uint64_t yk_deal_left(const struct yk_deal *d);
/* The first position that no dealt part reaches. */
uint64_t yk_deal_position(const struct yk_deal *d);

#endif
