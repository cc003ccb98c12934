/* sweep.c - the step loop of a sparse model in one process. The process owns all parameters, so a
 * push is a call of the optimizer, and no keys have to be listed, sorted or sent. A step of one row
 * takes a quarter of a microsecond; so the model makes many steps in one sweep, up to where the
 * watcher wants to look round, and reports them together. This loop bypasses worker, comm and
 * server of src/strategy on purpose.
 * THREADS: the one worker's; with --threads the model deals rows to several inside a sweep. */
#include "base/clock.h"
#include "train/loop.h"
#include "train/plan.h"
#include "train/session.h"

enum {
    MOST = 1 << 16, /* rows of one sweep: some 20 ms, so that Ctrl-C is heard */
    THREADS = 256,  /* at most */
};

bool yk_sweep_fits(const struct yk_session *s)
{
    return s->ops->sweep != NULL && yk_plan_is_local(&s->crew.rule) && s->crew.rule.shards == 1;
}

struct updates {
    const struct yk_owner *owner;
    uint64_t first; /* step of the sweep's first update */
    struct {
        _Alignas(64) struct yk_update u; /* on cache lines of its own */
    } of[THREADS];
};

static const struct yk_update *update(void *arg, unsigned thread, uint64_t step, uint32_t rows)
{
    struct updates *all = arg;
    struct yk_update *u = &all->of[thread].u;
    yk_owner_update(all->owner, u, all->first + step, rows);
    return u;
}

/* Rows of the longest sweep from here: whole steps up to the next look, within the epoch. */
static uint64_t rows_of(const struct yk_session *s)
{
    const struct yk_rule *r = &s->crew.rule;
    uint64_t look_at = yk_watch_next(s);
    uint64_t steps = look_at > s->now.step ? look_at - s->now.step : 1;
    uint64_t most = r->batch < MOST ? MOST / r->batch : 1,
             left = r->rows - s->crew.clock.position % r->rows;
    uint64_t rows = (steps < most ? steps : most) * r->batch;
    return rows < left ? rows : left;
}

static void begin(const struct yk_session *s, struct updates *all)
{
    const struct yk_owner *o = &s->crew.server[0].owner;
    all->owner = o;
    for (unsigned i = 0; i < THREADS; i++) {
        all->of[i].u = o->update;
        all->of[i].u.step = UINT64_MAX;
    }
}

void yk_sweep_run(struct yk_session *s, struct yk_local_worker *local)
{
    struct yk_crew *c = &s->crew;
    struct yk_server *server = &c->server[0];
    struct yk_owner *o = &server->owner;
    struct yk_phases *p = &local->worker.phases;
    struct updates all;
    struct yk_error e = {0};
    double born = yk_now();
    begin(s, &all);
    c->comm->ops->lock(c->comm, 0);
    bool on = !c->clock.stopping;
    while (on) {
        struct yk_batch batch;
        uint64_t rows = rows_of(s), steps = (rows + c->rule.batch - 1) / c->rule.batch;
        double t0 = yk_now();
        yk_source_at(&s->input.source, c->clock.position, (uint32_t)rows, UINT64_MAX, &batch);
        double t1 = yk_now();
        all.first = o->step;
        struct yk_sweep sweep = {.rows = s->input.train.sparse,
                                 .order = batch.row,
                                 .count = rows,
                                 .batch = c->rule.batch,
                                 .w = o->weights,
                                 .slots = o->slots,
                                 .lazy = o->update.lazy,
                                 .apply = o->optimizer->apply,
                                 .apply_keys = o->optimizer->apply_keys,
                                 .read_keys = o->optimizer->read_keys,
                                 .update = update,
                                 .arg = &all};
        for (unsigned i = 0; i < o->slots; i++)
            sweep.slot[i] = o->slot[i];
        yk_code rc = s->ops->sweep(local->work, &sweep, &e);
        if (rc == YK_OK)
            rc = yk_rows_intact(s->input.train.sparse, &e);
        if (rc != YK_OK) {
            yk_server_fail(server, rc, e.text);
            break;
        }
        p->input += t1 - t0;
        p->compute += yk_now() - t1;
        p->samples++;
        p->steps += steps;
        o->step += steps;
        c->clock.position += rows;
        yk_ledger_sweep(&c->clock.member[0].ledger, steps, rows, sweep.loss);
        yk_ledger_sweep(&c->clock.member[0].since, steps, rows, sweep.loss);
        const struct yk_stepped done = {
            .step = o->step, .examples = (uint32_t)rows, .loss = sweep.loss};
        on = yk_watch_stepped(s, &done) == YK_GO;
    }
    server->state = YK_SERVER_ENDED;
    c->comm->ops->unlock(c->comm, 0);
    p->seconds += yk_now() - born;
    c->account[0] = *p;
}
