/* deal.h - deals the examples of an epoch out in parts, each exactly once, whatever happens to those who hold them.
 *
 * A part is `batch` neighbouring examples of an epoch's shuffled order, the last one what is left. Its id is the position of its first
 * example, counted over all epochs: epoch * rows + at. Where hosts have data of their own, each has a *share*, a range of every epoch's
 * positions, and its workers get parts of that one only. A part is new, then *out* (dealt), then done; one whose holder was lost or
 * came too late is *back*, and dealt again before any new one, so it still belongs to its epoch. What is back or out when a checkpoint is
 * written is saved with it: a resumed run deals it again.
 *
 * Where workers share two shuffled orders (`near`), parts of an epoch are dealt only while no more than the epoch before it is unfinished; others
 * have orders of their own, and go on while one of them sleeps over a part.
 * THREADS: belongs to the clock, under owner 0's lock. */
#ifndef YK_STRATEGY_DEAL_H
#define YK_STRATEGY_DEAL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define YK_NO_PART UINT64_MAX

struct yk_share { /* of the examples of every epoch: positions [from, from + rows) of it */
    uint64_t from, rows;
    uint64_t next; /* its next new part */
};

struct yk_deal {
    uint64_t rows;
    uint32_t batch;
    bool one_epoch; /* never deal from two epochs at a time: a synchronous step belongs to one */
    bool near;      /* never from more than two */
    struct yk_share
        *share; /* (shares) in the order of positions, without gaps; mostly one, all there is */
    unsigned shares;
    uint64_t end;   /* no new part from here on */
    uint64_t quota; /* parts that may still be dealt, new or not */
    uint64_t *out;  /* (outs) */
    uint64_t *back; /* (backs) ascending */
    unsigned outs, backs, most;
};

/* At most `most` parts are out or back at any time. `share` may be NULL: everybody's. */
yk_code yk_deal_init(struct yk_deal *d, uint64_t rows, uint32_t batch, const struct yk_share *share,
                     unsigned shares, unsigned most, struct yk_error *e);
void yk_deal_release(struct yk_deal *d);

uint32_t yk_deal_size(const struct yk_deal *d, uint64_t id); /* examples of a part */
uint64_t yk_deal_take(struct yk_deal *d, unsigned share);    /* YK_NO_PART: none may be dealt now */
void yk_deal_done(struct yk_deal *d, uint64_t id);
void yk_deal_return(struct yk_deal *d, uint64_t id);
void yk_deal_add(struct yk_deal *d, uint64_t id); /* one that an earlier start had not finished */
bool yk_deal_is_out(const struct yk_deal *d, uint64_t id);
/* Parts of the oldest unfinished epoch that are not done: out, back or new. */
uint64_t yk_deal_left(const struct yk_deal *d);
/* Past every part that has been dealt. */
uint64_t yk_deal_position(const struct yk_deal *d);
/* Nothing is out or back, and nothing new may be dealt. */
bool yk_deal_over(const struct yk_deal *d);

#endif
