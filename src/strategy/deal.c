/* deal.c - see deal.h. A few ids per worker are out at a time, so plain arrays are searched. */
#include "strategy/deal.h"

#include <stdlib.h>
#include <string.h>

yk_code yk_deal_init(struct yk_deal *d, uint64_t rows, uint32_t batch, unsigned most, struct yk_error *e)
{
    *d = (struct yk_deal){.rows = rows, .batch = batch, .end = UINT64_MAX, .quota = UINT64_MAX, .most = most};
    d->out = calloc(most, sizeof *d->out);
    d->back = calloc(most, sizeof *d->back);
    if (d->out == NULL || d->back == NULL) {
        yk_deal_release(d);
        return yk_fail_memory(e, 2 * most * sizeof *d->out);
    }
    return YK_OK;
}

void yk_deal_release(struct yk_deal *d)
{
    free(d->out);
    free(d->back);
    *d = (struct yk_deal){0};
}

uint32_t yk_deal_size(const struct yk_deal *d, uint64_t id)
{
    uint64_t left = d->rows - id % d->rows;
    return left < d->batch ? (uint32_t)left : d->batch;
}

/* The epoch that is not finished longest; that of the next new part if nothing is under way. */
static uint64_t oldest_epoch(const struct yk_deal *d)
{
    uint64_t oldest = d->next / d->rows;
    for (unsigned i = 0; i < d->outs; i++)
        if (d->out[i] / d->rows < oldest)
            oldest = d->out[i] / d->rows;
    if (d->backs > 0 && d->back[0] / d->rows < oldest)
        oldest = d->back[0] / d->rows;
    return oldest;
}

uint64_t yk_deal_take(struct yk_deal *d)
{
    uint64_t id;
    if (d->outs == d->most || d->quota == 0)
        return YK_NO_PART;
    if (d->backs > 0) {
        id = d->back[0];
        if (d->one_epoch && id / d->rows > oldest_epoch(d))
            return YK_NO_PART;
        memmove(d->back, d->back + 1, --d->backs * sizeof *d->back);
    } else {
        id = d->next;
        uint64_t apart = d->one_epoch || d->near ? id / d->rows - oldest_epoch(d) : 0;
        if (id >= d->end || apart > (d->one_epoch ? 0 : 1))
            return YK_NO_PART;
        d->next += yk_deal_size(d, id);
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

bool yk_deal_is_out(const struct yk_deal *d, uint64_t id)
{
    for (unsigned i = 0; i < d->outs; i++)
        if (d->out[i] == id)
            return true;
    return false;
}

uint64_t yk_deal_left(const struct yk_deal *d)
{
    uint64_t epoch = oldest_epoch(d), left = 0;
    for (unsigned i = 0; i < d->outs; i++)
        left += d->out[i] / d->rows == epoch;
    for (unsigned i = 0; i < d->backs; i++)
        left += d->back[i] / d->rows == epoch;
    if (d->next / d->rows == epoch && d->next < d->end)
        left += (d->rows - d->next % d->rows + d->batch - 1) / d->batch;
    return left;
}

bool yk_deal_over(const struct yk_deal *d)
{
    return d->outs == 0 && d->backs == 0 && d->next >= d->end;
}

uint64_t yk_deal_after(const struct yk_deal *d, uint64_t from, uint64_t steps)
{
    uint64_t in_epoch = from % d->rows,
             here = (d->rows - in_epoch + d->batch - 1) / d->batch; /* parts to the end of this epoch */
    uint64_t whole = (d->rows + d->batch - 1) / d->batch, end;
    if (steps < here)
        return from + steps * d->batch;
    steps -= here;
    if (__builtin_mul_overflow(steps / whole, d->rows, &end) || __builtin_add_overflow(end, from - in_epoch + d->rows, &end))
        return UINT64_MAX - 1;
    uint64_t rest = steps % whole * d->batch;
    return end + (rest < d->rows ? rest : d->rows);
}
