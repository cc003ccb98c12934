/* deal.c - see deal.h. A few ids per worker are out at a time, so plain arrays are searched. */
#include "strategy/deal.h"

#include <stdlib.h>
#include <string.h>

yk_code yk_deal_init(struct yk_deal *d, uint64_t rows, uint32_t batch, const struct yk_share *share,
                     unsigned shares, unsigned most, struct yk_error *e)
{
    *d = (struct yk_deal){
        .rows = rows, .batch = batch, .end = UINT64_MAX, .quota = UINT64_MAX, .most = most};
    d->shares = share != NULL ? shares : 1;
    d->share = calloc(d->shares, sizeof *d->share);
    d->out = calloc(most, sizeof *d->out);
    d->back = calloc(most, sizeof *d->back);
    if (d->share == NULL || d->out == NULL || d->back == NULL) {
        yk_deal_release(d);
        return yk_fail_memory(e, 2 * most * sizeof *d->out);
    }
    d->share[0].rows = rows;
    if (share != NULL)
        memcpy(d->share, share, shares * sizeof *share);
    return YK_OK;
}

void yk_deal_release(struct yk_deal *d)
{
    free(d->share);
    free(d->out);
    free(d->back);
    *d = (struct yk_deal){0};
}

static const struct yk_share *share_of(const struct yk_deal *d, uint64_t id)
{
    const struct yk_share *s = d->share;
    while (s + 1 < d->share + d->shares && id % d->rows >= s[1].from)
        s++;
    return s;
}

/* Examples of a share from a place in its epoch on. */
static uint64_t rest_of(const struct yk_deal *d, const struct yk_share *s, uint64_t id)
{
    return s->from + s->rows - id % d->rows;
}

uint32_t yk_deal_size(const struct yk_deal *d, uint64_t id)
{
    uint64_t left = rest_of(d, share_of(d, id), id);
    return left < d->batch ? (uint32_t)left : d->batch;
}

/* The part that comes after this one in its share. */
static uint64_t after(const struct yk_deal *d, const struct yk_share *s, uint64_t id)
{
    uint64_t left = rest_of(d, s, id);
    return left > d->batch ? id + d->batch : (id / d->rows + 1) * d->rows + s->from;
}

/* The oldest unfinished epoch. */
static uint64_t oldest_epoch(const struct yk_deal *d)
{
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < d->shares; i++)
        if (d->share[i].next / d->rows < oldest)
            oldest = d->share[i].next / d->rows;
    for (unsigned i = 0; i < d->outs; i++)
        if (d->out[i] / d->rows < oldest)
            oldest = d->out[i] / d->rows;
    if (d->backs > 0 && d->back[0] / d->rows < oldest)
        oldest = d->back[0] / d->rows;
    return oldest;
}

uint64_t yk_deal_take(struct yk_deal *d, unsigned share)
{
    struct yk_share *s = &d->share[share];
    unsigned at = 0;
    uint64_t id;
    if (d->outs == d->most || d->quota == 0)
        return YK_NO_PART;
    while (at < d->backs && share_of(d, d->back[at]) != s)
        at++;
    if (at < d->backs) {
        id = d->back[at];
        if (d->one_epoch && id / d->rows > oldest_epoch(d))
            return YK_NO_PART;
        d->backs--;
        memmove(d->back + at, d->back + at + 1, (d->backs - at) * sizeof *d->back);
    } else {
        id = s->next;
        uint64_t apart = d->one_epoch || d->near ? id / d->rows - oldest_epoch(d) : 0;
        if (id >= d->end || apart > (d->one_epoch ? 0 : 1))
            return YK_NO_PART;
        s->next = after(d, s, id);
    }
    d->quota -= d->quota != UINT64_MAX;
    d->out[d->outs++] = id;
    return id;
}

static bool forget(struct yk_deal *d, uint64_t id)
{
    for (unsigned i = 0; i < d->outs; i++)
        if (d->out[i] == id) {
            d->out[i] = d->out[--d->outs];
            return true;
        }
    return false;
}

void yk_deal_done(struct yk_deal *d, uint64_t id)
{
    forget(d, id);
}

void yk_deal_return(struct yk_deal *d, uint64_t id)
{
    if (!forget(d, id))
        return;
    d->quota += d->quota != UINT64_MAX;
    yk_deal_add(d, id);
}

void yk_deal_add(struct yk_deal *d, uint64_t id)
{
    if (d->backs == d->most)
        return;
    unsigned at = d->backs++;
    for (; at > 0 && d->back[at - 1] > id; at--)
        d->back[at] = d->back[at - 1];
    d->back[at] = id;
}

uint64_t yk_deal_left(const struct yk_deal *d)
{
    uint64_t epoch = oldest_epoch(d), left = 0;
    for (unsigned i = 0; i < d->outs; i++)
        left += d->out[i] / d->rows == epoch;
    for (unsigned i = 0; i < d->backs; i++)
        left += d->back[i] / d->rows == epoch;
    for (unsigned i = 0; i < d->shares; i++) {
        const struct yk_share *s = &d->share[i];
        if (s->next / d->rows == epoch && s->next < d->end)
            left += (rest_of(d, s, s->next) + d->batch - 1) / d->batch;
    }
    return left;
}

uint64_t yk_deal_position(const struct yk_deal *d)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < d->shares; i++)
        if (d->share[i].next > most)
            most = d->share[i].next;
    return most;
}
