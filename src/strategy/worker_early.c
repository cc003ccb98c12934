/* worker_early.c - whole batches between processes: parameters come bucket by bucket, and an eager worker begins its next task with the
 * first of them; see strategy.h.
 *
 *     pull      the task is here, or what it will be is known: params.flat becomes the buffer that is being filled; the one before it is kept
 *     need      the model waits for a range of it, layer by layer
 *               ... until all are here, and the task too. Then gradients may be written, and the old buffer is where the next
 *               parameters come
 *
 * Owner 0 names the next task when the last bucket of a step is applied, which is when the parameters of the first layers have long been here.
 * So a worker does not wait for that word but guesses: the batch behind this one, and its own shards of it. If the word is another one, or none comes
 * any more, the step that was begun is given up.
 *
 * Nothing is pushed before all are here. So every owner has applied a step before it sees anything of the next one, and a step that is
 * done again because a worker was lost finds its parameters where they were: the model gives up the one it has begun (need says false),
 * and pull goes back.
 * THREADS: need belongs to the worker's thread; the rest runs under the endpoint's lock. */
#include "base/clock.h"
#include "strategy/deal.h"
#include "strategy/owner.h"
#include "strategy/worker_parts.h"

#include <stdlib.h>
#include <string.h>

static const double PATIENCE = 0.5; /* seconds of one wait */

static size_t begins(const struct yk_worker *w, unsigned owner)
{
    return yk_owner_at(owner, w->rule->owners, w->params.count);
}

void yk_worker_came(struct yk_worker *w, const struct yk_note *n, size_t floats)
{
    size_t bucket = yk_rule_bucket(w->rule), lo, hi;
    if (n->from >= w->rule->owners)
        return;
    lo = begins(w, n->from);
    hi = begins(w, n->from + 1u);
    if (n->lo < lo || (n->lo - lo) % bucket != 0)
        return;
    for (size_t at = n->lo; at < hi && (at + bucket <= n->lo + floats || n->lo + floats >= hi);
         at += bucket) {
        bool *come = &w->pieces.come[w->pieces.at[n->from] + (at - lo) / bucket];
        w->pieces.missing -= !*come;
        *come = true;
    }
}

static bool are_here(const struct yk_worker *w, size_t lo, size_t hi)
{
    size_t bucket = yk_rule_bucket(w->rule);
    for (unsigned k = 0; k < w->rule->owners; k++) {
        size_t first = begins(w, k), last = begins(w, k + 1);
        size_t a = lo > first ? lo : first, b = hi < last ? hi : last;
        for (size_t i = a < b ? (a - first) / bucket : 0; a < b && first + i * bucket < b; i++)
            if (!w->pieces.come[w->pieces.at[k] + i])
                return false;
    }
    return true;
}

/* The last to be asked for is everything: who asks for it is about to push, which takes a task that is no guess. */
static bool are_early_enough(const struct yk_worker *w, size_t lo, size_t hi)
{
    return !w->early || (are_here(w, lo, hi) && !(w->guessed && lo == 0 && hi == w->params.count));
}

/* Those that come from now on are the next task's. */
static void begin_next(struct yk_worker *w)
{
    memset(w->pieces.come, 0, w->pieces.n * sizeof *w->pieces.come);
    w->pieces.missing = w->pieces.n;
    w->fresh = w->old;
    w->early = false;
}

void yk_worker_go_early(struct yk_worker *w)
{
    w->early = true;
    yk_worker_have_all(w);
}

void yk_worker_have_all(struct yk_worker *w)
{
    if (w->early && !w->guessed && w->pieces.missing == 0)
        begin_next(w);
}

bool yk_worker_guess(struct yk_worker *w)
{
    const struct yk_rule *r = w->rule;
    const struct yk_task *t = &w->task;
    if (!w->eager || w->pieces.n == 0 || r->shares > 1 || t->examples == 0 ||
        t->ahead == YK_NO_PART || w->early || w->again)
        return false;
    uint64_t left = r->rows - t->ahead % r->rows;
    w->hoped = *t;
    w->hoped.step++;
    w->hoped.id = t->ahead;
    w->hoped.examples = left < r->batch ? (uint32_t)left : r->batch;
    w->hoped.ahead = left > r->batch ? t->ahead + r->batch : YK_NO_PART;
    return true;
}

/* The task is here: is it what was guessed? */
static bool guessed_right(struct yk_worker *w)
{
    const struct yk_task *a = &w->task, *b = &w->next;
    if (w->stop || a->step != b->step || a->id != b->id || a->examples != b->examples ||
        a->first != b->first || a->last != b->last || a->incarnation != b->incarnation)
        return false;
    w->task = w->next;
    w->guessed = w->ordered = false;
    w->replies = 0;
    return true;
}

void yk_worker_go_back(struct yk_worker *w)
{
    w->params.flat = w->old; /* what has come stays in `fresh` */
    w->task = w->before;
    w->ordered = w->ordered || !w->guessed;
    w->early = w->guessed = false;
}

bool yk_worker_need(struct yk_sink *sink, size_t lo, size_t hi)
{
    struct yk_worker *w = (struct yk_worker *)sink;
    struct yk_comm *c = w->comm;
    int me = yk_worker_endpoint(c, (int)w->index);
    if (!w->early || w->abandoned) /* only this thread changes it */
        return !w->abandoned;
    double start = w->timed ? yk_now() : 0;
    for (bool got = false; !got;) {
        unsigned seen = c->ops->seen(c, me);
        c->ops->lock(c, me);
        w->abandoned = w->fenced || w->meet || w->again || w->failed != YK_OK ||
                       (w->guessed && w->ordered && !guessed_right(w));
        yk_worker_have_all(w);
        got = are_early_enough(w, lo, hi);
        c->ops->unlock(c, me);
        if (w->abandoned)
            return false;
        if (!got)
            c->ops->wait(c, me, seen, PATIENCE);
    }
    if (!w->early)
        yk_worker_begin(w);
    if (w->timed)
        w->phases.pull += yk_now() - start;
    return true;
}

yk_code yk_worker_init_pieces(struct yk_worker *w, struct yk_error *e)
{
    size_t bucket = yk_rule_bucket(w->rule);
    w->pieces.at = calloc(w->rule->owners + 1, sizeof *w->pieces.at);
    if (w->pieces.at == NULL)
        return yk_fail_memory(e, (w->rule->owners + 1) * sizeof *w->pieces.at);
    for (unsigned k = 0; k < w->rule->owners; k++)
        w->pieces.at[k + 1] =
            w->pieces.at[k] + (unsigned)((begins(w, k + 1) - begins(w, k) + bucket - 1) / bucket);
    w->pieces.n = w->pieces.missing = w->pieces.at[w->rule->owners];
    w->pieces.come = calloc(w->pieces.n + 1, sizeof *w->pieces.come);
    return w->pieces.come != NULL ? YK_OK : yk_fail_memory(e, w->pieces.n);
}

void yk_worker_release_pieces(struct yk_worker *w)
{
    free(w->pieces.at);
    free(w->pieces.come);
}
