/* clock.c - see clock.h. */
#include "strategy/clock.h"

#include <limits.h>
#include <stdlib.h>

yk_code yk_clock_init(struct yk_clock *c, const struct yk_rule *rule, uint64_t position,
                      unsigned left, struct yk_error *e)
{
    *c = (struct yk_clock){.rule = rule, .position = position, .alive = rule->workers};
    yk_code rc = yk_deal_init(&c->deal, rule->rows, rule->batch, rule->share, rule->shares,
                              2 * rule->workers + rule->need + left, e);
    if (rc != YK_OK)
        return rc;
    if (rule->share == NULL) /* others say where each of theirs is */
        c->deal.share[0].next = position;
    c->deal.one_epoch = rule->fresh;
    c->deal.near = rule->threads;
    c->member = calloc(rule->workers, sizeof *c->member);
    if (c->member == NULL) {
        yk_clock_release(c);
        return yk_fail_memory(e, rule->workers * sizeof *c->member);
    }
    for (unsigned w = 0; w < rule->workers; w++)
        c->member[w] = (struct yk_member){.alive = true, .task = YK_NO_PART, .ahead = YK_NO_PART};
    return YK_OK;
}

void yk_clock_release(struct yk_clock *c)
{
    yk_deal_release(&c->deal);
    free(c->member);
    *c = (struct yk_clock){0};
}

void yk_clock_limit(struct yk_clock *c, uint64_t step)
{
    const struct yk_rule *r = c->rule;
    if (r->last_step == UINT64_MAX || r->held) /* held: the run ends by steps, not by parts */
        return;
    c->deal.quota = r->last_step > step ? r->last_step - step : 0;
    if (r->epochs > 0 && __builtin_mul_overflow(r->epochs, r->rows, &c->deal.end))
        c->deal.end = UINT64_MAX;
}

void yk_clock_span(const struct yk_clock *c, unsigned w, uint32_t *first, uint32_t *last)
{
    unsigned before = 0;
    for (unsigned i = 0; i < w; i++)
        before += c->member[i].alive;
    *first = yk_shard_of(before, c->alive, c->rule->shards);
    *last = yk_shard_of(before + 1, c->alive, c->rule->shards);
}

/* Pushes of the slowest worker among those that have work. */
static uint64_t slowest(const struct yk_clock *c, unsigned w)
{
    uint64_t least = c->member[w].done;
    for (unsigned i = 0; i < c->rule->workers; i++) {
        const struct yk_member *m = &c->member[i];
        if (m->alive && !m->stopped && !m->idle && m->done < least)
            least = m->done;
    }
    return least;
}

/* Backups, where a step waits for parts that other workers hold: the part to compute once more. Of
 * the parts that have not come it is the one that the fewest workers compute; of several such, the
 * oldest. */
static uint64_t copy_of(const struct yk_clock *c)
{
    uint64_t best = YK_NO_PART;
    unsigned fewest = UINT_MAX;
    for (unsigned i = 0; i < c->deal.outs; i++) {
        uint64_t id = c->deal.out[i];
        unsigned holders = 0;
        bool here = false;
        for (unsigned w = 0; w < c->rule->workers; w++) {
            const struct yk_member *m = &c->member[w];
            if (m->alive && m->task == id) {
                holders++;
                here = here || m->waiting;
            }
        }
        if (!here && (holders < fewest || (holders == fewest && id < best))) {
            best = id;
            fewest = holders;
        }
    }
    return best;
}

/* Backups: a worker may still be at a part that another has done long since. Threads share two
 * shuffled orders, so the epoch after the next cannot begin before that worker is back; a
 * process has orders of its own, and may sleep as long as it likes. */
static bool too_early(const struct yk_clock *c)
{
    if (!c->rule->threads || !c->rule->fresh || c->deal.backs > 0)
        return false;
    for (unsigned w = 0; w < c->rule->workers; w++) {
        const struct yk_member *m = &c->member[w];
        if (m->task != YK_NO_PART &&
            c->deal.share[0].next / c->rule->rows > m->task / c->rule->rows + 1)
            return true;
    }
    return false;
}

static uint64_t take(struct yk_clock *c, unsigned w)
{
    return yk_deal_take(&c->deal, c->rule->share_of != NULL ? c->rule->share_of[w] : 0);
}

/* A part for a worker: a promised one, a new one, or a copy. Where hosts have their own data no
 * other host can compute a copy. A step never has more further parts than it waits for, so it is
 * not complete before the last of them. */
static uint64_t part_for(struct yk_clock *c, unsigned w)
{
    struct yk_member *m = &c->member[w];
    const struct yk_rule *r = c->rule;
    uint64_t id = m->ahead;
    m->ahead = YK_NO_PART;
    if (r->fresh && m->task != YK_NO_PART && c->deal.outs >= r->need)
        return YK_NO_PART;
    if (id == YK_NO_PART && !too_early(c))
        id = take(c, w);
    if (id == YK_NO_PART && r->fresh && c->deal.shares == 1)
        id = copy_of(c);
    return id;
}

bool yk_clock_next(struct yk_clock *c, unsigned w, uint64_t step, struct yk_task *out)
{
    const struct yk_rule *r = c->rule;
    struct yk_member *m = &c->member[w];
    *out = (struct yk_task){
        .step = step, .incarnation = m->incarnation, .ahead = YK_NO_PART, .last = 1};
    if (!r->pooled) {
        out->id = m->task = c->position;
        out->examples = yk_deal_size(&c->deal, out->id);
        uint64_t after = out->id + out->examples;
        out->ahead = after % r->rows != 0 ? after : YK_NO_PART;
        yk_clock_span(c, w, &out->first, &out->last);
        return true;
    }
    if (r->staleness >= 0) {
        uint64_t lead = m->done - slowest(c, w);
        if (lead > (uint64_t)r->staleness)
            return false;
        if (lead > c->most_lead)
            c->most_lead = lead;
    }
    uint64_t id = part_for(c, w);
    m->idle = id == YK_NO_PART;
    if (m->idle)
        return false;
    m->task = id;
    if (!r->fresh)
        m->ahead = take(c, w);
    out->id = m->task;
    out->ahead = m->ahead;
    out->examples = yk_deal_size(&c->deal, out->id);
    return true;
}

void yk_clock_applied(struct yk_clock *c, unsigned w, uint64_t id, uint64_t staleness,
                      uint32_t examples, double loss)
{
    struct yk_member *m = &c->member[w];
    yk_ledger_push(&m->ledger, staleness, examples, loss);
    yk_ledger_push(&m->since, staleness, examples, loss);
    m->done++;
    if (m->task == id) /* it may be at a further part of the same step */
        m->task = YK_NO_PART;
    yk_deal_done(&c->deal, id);
}

/* Does another living worker hold this part too? */
static bool held_elsewhere(const struct yk_clock *c, unsigned w, uint64_t id)
{
    for (unsigned i = 0; i < c->rule->workers; i++)
        if (i != w && c->member[i].alive && (c->member[i].task == id || c->member[i].ahead == id))
            return true;
    return false;
}

void yk_clock_dropped(struct yk_clock *c, unsigned w, uint64_t id)
{
    struct yk_member *m = &c->member[w];
    m->ledger.dropped++;
    m->since.dropped++;
    if (!c->rule->pooled)
        return; /* a whole batch is redone by all workers */
    if (m->task == id)
        m->task = YK_NO_PART;
    if (!held_elsewhere(c, w, id))
        yk_deal_return(&c->deal, id);
}

/* Whole batches: a change of members gives all workers a new incarnation. */
static void renew(struct yk_clock *c)
{
    if (c->rule->pooled)
        return;
    for (unsigned i = 0; i < c->rule->workers; i++)
        c->member[i].incarnation = c->incarnation;
}

void yk_clock_lose(struct yk_clock *c, unsigned w)
{
    struct yk_member *m = &c->member[w];
    if (!m->alive)
        return;
    m->alive = false;
    c->alive--;
    c->waiting -= m->waiting;
    m->waiting = false;
    c->incarnation++;
    const uint64_t held[] = {m->task, m->ahead};
    m->task = m->ahead = YK_NO_PART;
    for (unsigned i = 0; i < 2; i++)
        if (held[i] != YK_NO_PART && !held_elsewhere(c, w, held[i]))
            yk_deal_return(&c->deal, held[i]);
    renew(c);
}

void yk_clock_join(struct yk_clock *c, unsigned w)
{
    struct yk_member *m = &c->member[w];
    uint64_t done = UINT64_MAX;
    for (unsigned i = 0; i < c->rule->workers; i++)
        if (c->member[i].alive && c->member[i].done < done)
            done = c->member[i].done;
    c->incarnation++;
    *m = (struct yk_member){
        .alive = true,
        .incarnation = c->incarnation,
        .task = YK_NO_PART,
        .ahead = YK_NO_PART,
        .done = done != UINT64_MAX ? done : m->done, /* as far as the slowest, so it delays none */
        .ledger = m->ledger,
        .since = m->since};
    c->alive++;
    renew(c);
}

bool yk_clock_sole(const struct yk_clock *c, unsigned w)
{
    const uint32_t *of = c->rule->share_of;
    if (of == NULL)
        return false;
    for (unsigned i = 0; i < c->rule->workers; i++)
        if (i != w && c->member[i].alive && of[i] == of[w])
            return false;
    return true;
}

unsigned yk_clock_need(const struct yk_clock *c)
{
    uint64_t left = yk_deal_left(&c->deal);
    return left < c->rule->need ? (unsigned)left : c->rule->need;
}
