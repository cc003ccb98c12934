/* server.c - the life of an owner's endpoint: pushes are counted, steps closed, workers answered;
 * see server.h. How gradients come and parameters leave is the exchange's business (exchange.h).
 *
 * Where a step needs one push (local, async, ssp) the exchange applies it and says so. Otherwise
 * pushes are kept (pending.h) until all are here that the step takes: every shard of a whole
 * batch, or with backups the set that owner 0 names. */
#include "strategy/server.h"

#include "strategy/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned yk_server_worker(const struct yk_server *s, int endpoint)
{
    return (unsigned)(endpoint - s->comm->owners);
}

void yk_server_enter(struct yk_server *s, enum yk_server_state state)
{
    if (state > s->state)
        s->state = state;
}

void yk_server_send(struct yk_server *s, int endpoint, struct yk_note *n, const void *data,
                    size_t bytes)
{
    n->from = (uint16_t)s->index;
    n->to = (uint16_t)endpoint;
    yk_comm_send(s->comm, n, data, bytes, &s->sending);
}

void yk_server_send_worker(struct yk_server *s, unsigned w, struct yk_note *n, const void *data,
                           size_t bytes)
{
    yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), n, data, bytes);
}

void yk_server_send_owners(struct yk_server *s, struct yk_note *n, const void *data, size_t bytes)
{
    for (int k = 1; k < s->comm->owners; k++)
        yk_server_send(s, k, n, data, bytes);
}

/* --- answers --- */

static void reply(struct yk_server *s, unsigned w, struct yk_note *n)
{
    n->kind = YK_REPLY;
    n->urgency = s->exchange->task_urgency;
    s->exchange->reply(s, w, n);
}

/* Another owner: answer worker w, or owe it the answer until the state has come. Only w: other
 * workers may be owed an answer that has to wait until their step is complete. */
static void reply_or_owe(struct yk_server *s, unsigned w)
{
    struct yk_note n = {.step = s->owner.step};
    s->owed[w] = s->state == YK_SERVER_EMPTY;
    if (!s->owed[w])
        reply(s, w, &n);
}

void yk_server_reply_owed(struct yk_server *s)
{
    if (s->state == YK_SERVER_EMPTY)
        return;
    for (unsigned w = 0; w < s->rule->workers; w++)
        if (s->owed[w])
            reply_or_owe(s, w);
}

/* Worker w has sent its last message for this step, and waits for an answer. */
static void now_waits(struct yk_server *s, unsigned w)
{
    if (s->clock == NULL) {
        s->owed[w] = true;
        return;
    }
    s->clock->member[w].waiting = true;
    s->clock->waiting++;
}

/* Backups: a worker whose push is kept waits for the step to be complete. When all of them wait,
 * because too few workers are left or the data of some hosts are used up, each takes a further part
 * of the same step. */
static bool too_few(const struct yk_server *s)
{
    const struct yk_clock *c = s->clock;
    if (!yk_rule_backups(s->rule) || c->waiting < c->alive)
        return false;
    for (unsigned w = 0; w < s->rule->workers; w++)
        if (c->member[w].alive && c->member[w].task == YK_NO_PART &&
            !(c->deal.shares > 1 && c->member[w].idle))
            return false; /* this one is free to take the next part */
    return true;
}

static void send_task(struct yk_server *s, unsigned w, const struct yk_task *t, bool further)
{
    struct yk_note n = {
        .flags = further ? YK_FURTHER_FLAG : 0,
        .step = t->step,
        .examples = t->examples,
        .incarnation = t->incarnation,
        .task = {.id = t->id, .ahead = t->ahead, .first = t->first, .last = t->last}};
    reply(s, w, &n);
}

static void send_stop(struct yk_server *s, unsigned w)
{
    struct yk_note n = {.kind = YK_REPLY, .step = s->owner.step, .flags = YK_STOP_FLAG};
    s->clock->member[w].stopped = true;
    yk_server_send_worker(s, w, &n, NULL, 0);
}

/* ssp: workers that have found no work, and so delay no other. */
static unsigned idlers(const struct yk_server *s)
{
    unsigned n = 0;
    if (s->rule->staleness >= 0)
        for (unsigned w = 0; w < s->rule->workers; w++)
            n += s->clock->member[w].idle;
    return n;
}

/* Is a whole batch under way? Then every worker has shards of it, also one that has not asked for
 * its task yet. */
static bool is_open(const struct yk_server *s)
{
    if (!yk_rule_batches(s->rule) || s->state >= YK_SERVER_HALTED)
        return false;
    for (unsigned w = 0; w < s->rule->workers; w++)
        if (s->clock->member[w].alive && s->clock->member[w].task != YK_NO_PART)
            return true;
    return false;
}

/* The run is over when every living worker has been told so; then the state is fetched a last
 * time. */
static void maybe_end(struct yk_server *s)
{
    struct yk_clock *c = s->clock;
    unsigned stopped = 0;
    if (s->still.holds) {
        yk_state_try_still(s);
        return;
    }
    yk_server_call_replacement(s);
    for (unsigned w = 0; w < s->rule->workers; w++)
        stopped += c->member[w].alive && c->member[w].stopped;
    if (!c->stopping || s->state >= YK_SERVER_ENDED || s->still.now != YK_STILL_NO ||
        stopped < c->alive)
        return;
    if (s->state < YK_SERVER_HALTED && s->elsewhere) {
        yk_server_enter(s, YK_SERVER_HALTED);
        s->still.now = YK_STILL_WANTED;
        yk_state_try_still(s);
    } else {
        yk_server_enter(s, YK_SERVER_ENDED);
    }
}

/* At the end workers get the word that it is over, but a whole batch that is under way is completed
 * first. When a worker has found no work, the others are asked once more. */
void yk_server_go_on(struct yk_server *s)
{
    struct yk_clock *c = s->clock;
    bool meets = s->replace.wants > 0 && !c->stopping;
    if (s->still.holds || s->paused || s->state == YK_SERVER_EMPTY || meets) {
        maybe_end(s);
        return;
    }
    bool further = too_few(s), stops = c->stopping && !is_open(s);
    unsigned idle;
    do {
        idle = idlers(s);
        for (unsigned w = 0; w < s->rule->workers && c->waiting > 0; w++) {
            struct yk_member *m = &c->member[w];
            bool kept = s->rule->held && m->task != YK_NO_PART, may = further || !kept;
            struct yk_task t;
            if (!m->waiting || (!stops && !(may && yk_clock_next(c, w, s->owner.step, &t))))
                continue;
            m->waiting = false;
            c->waiting--;
            if (stops)
                send_stop(s, w);
            else
                send_task(s, w, &t, kept);
        }
    } while (idlers(s) > idle);
    maybe_end(s);
}

/* Worker w has sent all of a push, or has come: it waits for an answer. */
static void answer(struct yk_server *s, unsigned w)
{
    if (s->clock == NULL) {
        reply_or_owe(s, w);
        return;
    }
    now_waits(s, w);
    yk_server_go_on(s);
}

void yk_server_act_on(struct yk_server *s, enum yk_verdict verdict)
{
    s->paused = verdict == YK_PAUSE;
    switch (verdict) {
    case YK_GO:
    case YK_PAUSE:
        break;
    case YK_LOOK:
        if (s->still.now != YK_STILL_NO)
            break;
        if (!s->rule->fresh && !s->rule->sparse) {
            yk_state_catch_up(s);
            break;
        }
        s->still.holds = true;
        s->still.now = YK_STILL_WANTED;
        break;
    case YK_LEAVE:
        yk_server_enter(s, YK_SERVER_HALTED);
        s->clock->stopping = true;
        break;
    case YK_HALT:
        s->clock->stopping = true;
        break;
    case YK_HOLD:
        s->still.holds = true;
        if (s->still.now == YK_STILL_NO)
            s->still.now = YK_STILL_WANTED;
        break;
    }
}

/* --- pushes --- */

void yk_server_see_incarnation(struct yk_server *s, uint32_t incarnation)
{
    if (s->rule->pooled || incarnation <= s->least[0])
        return;
    for (unsigned w = 0; w < s->rule->workers; w++)
        s->least[w] = incarnation;
    yk_pending_forget(&s->table);
    if (s->exchange->reopen != NULL)
        s->exchange->reopen(s);
}

bool yk_server_counts(const struct yk_server *s, const struct yk_note *n)
{
    return s->state < YK_SERVER_HALTED &&
           n->incarnation >= s->least[yk_server_worker(s, n->from)] &&
           (!s->rule->fresh || n->step == s->owner.step);
}

/* A lost worker gets no answer to the push, nor does one that redoes the step. A late worker does,
 * with backups. */
void yk_server_drop(struct yk_server *s, const struct yk_note *n)
{
    unsigned w = yk_server_worker(s, n->from);
    bool answers = n->incarnation >= s->least[w] && s->rule->pooled;
    if (s->clock != NULL) {
        if (s->state < YK_SERVER_HALTED)
            yk_clock_dropped(s->clock, w, n->push.id);
        answers = answers && s->clock->member[w].alive;
    }
    if (answers)
        answer(s, w);
}

/* Owner 0: an update has been applied. */
static void stepped(struct yk_server *s, uint32_t examples, double loss)
{
    const struct yk_stepped now = {.step = s->owner.step, .examples = examples, .loss = loss};
    s->clock->position += examples;
    yk_server_act_on(s, s->watcher.stepped(s->watcher.arg, &now));
}

void yk_server_applied(struct yk_server *s, const struct yk_note *n)
{
    unsigned w = yk_server_worker(s, n->from);
    uint64_t staleness = s->owner.step - n->step; /* 0 where a push must be fresh */
    yk_owner_finish(&s->owner);
    s->applied[w]++;
    s->begun[w] = false;
    if (s->clock == NULL) {
        reply_or_owe(s, w);
        return;
    }
    yk_clock_applied(s->clock, w, n->push.id, staleness, n->examples, n->push.loss);
    now_waits(s, w);
    stepped(s, n->examples, n->push.loss);
    yk_server_go_on(s);
}

/* Apply the parts, which cover the shards [0, v), and count the step. */
static void apply_step(struct yk_server *s, unsigned parts, uint32_t v, uint32_t *examples,
                       double *loss)
{
    *examples = 0;
    *loss = 0;
    for (unsigned i = 0; i < parts; i++) {
        *examples += s->part[i].push->examples;
        *loss += s->part[i].push->loss;
    }
    s->exchange->apply(s, s->part, parts, v, *examples);
    yk_owner_finish(&s->owner);
}

/* The pushes of the step are used up: let the workers go on. */
static void finish_step(struct yk_server *s, uint32_t examples, double loss)
{
    yk_pending_forget(&s->table);
    if (s->clock == NULL) {
        yk_server_reply_owed(s);
        return;
    }
    stepped(s, examples, loss);
    yk_server_go_on(s);
}

/* Owner 0: count the sums that worker w has sent for the batch. */
static void count_batch(struct yk_server *s, unsigned w)
{
    uint32_t examples = 0;
    double loss = 0;
    for (unsigned i = 0; i < s->table.n; i++)
        if (s->table.push[i].used && s->table.push[i].worker == w) {
            examples += s->table.push[i].examples;
            loss += s->table.push[i].loss;
        }
    if (s->clock->member[w].alive)
        yk_clock_applied(s->clock, w, s->clock->position, 0, examples, loss);
}

/* All shards of a whole batch are here. */
static void close_batch(struct yk_server *s)
{
    unsigned parts = 0;
    uint32_t examples;
    double loss;
    for (unsigned i = 0; i < s->table.n; i++) {
        const struct yk_push *p = &s->table.push[i];
        if (p->used)
            s->part[parts++] = (struct yk_part){.push = p, .first = p->first, .last = p->last};
    }
    apply_step(s, parts, s->rule->shards, &examples, &loss);
    if (s->clock != NULL)
        for (unsigned w = 0; w < s->rule->workers; w++)
            count_batch(s, w);
    finish_step(s, examples, loss);
}

static bool is_in(const struct yk_set_entry *set, unsigned n, const struct yk_push *p)
{
    for (unsigned k = 0; k < n; k++)
        if (p->worker == set[k].worker && p->id == set[k].id)
            return true;
    return false;
}

/* Owner 0: count the pushes of the set, and those that are here but not in it. */
static void count_set(struct yk_server *s, const struct yk_set_entry *set, unsigned n,
                      unsigned parts)
{
    for (unsigned i = 0; i < parts; i++) {
        const struct yk_push *p = s->part[i].push;
        yk_clock_applied(s->clock, p->worker, p->id, 0, p->examples, p->loss);
    }
    for (unsigned i = 0; i < s->table.n; i++) {
        const struct yk_push *p = &s->table.push[i];
        if (p->used && p->whole && !is_in(set, n, p))
            yk_clock_dropped(s->clock, p->worker, p->id);
    }
}

/* Backups: apply exactly these pushes, in the order of their parts, and drop the others. */
static void close_set(struct yk_server *s, const struct yk_set_entry *set, unsigned n)
{
    unsigned parts = 0;
    uint32_t examples;
    double loss;
    for (unsigned k = 0; k < n; k++)
        for (unsigned i = 0; i < s->table.n; i++) {
            const struct yk_push *p = &s->table.push[i];
            if (p->used && p->whole && is_in(&set[k], 1, p))
                s->part[parts++] = (struct yk_part){.push = p, .first = k, .last = k + 1};
        }
    apply_step(s, parts, n, &examples, &loss);
    for (unsigned i = 0; i < parts; i++)
        s->applied[s->part[i].push->worker]++;
    if (s->clock != NULL)
        count_set(s, set, n, parts);
    finish_step(s, examples, loss);
}

static int by_id(const void *a, const void *b)
{
    const struct yk_set_entry *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* A push is in the set when every owner has all of it, so that no set can be torn. The list stays
 * where it is until all owners have acted on it: no worker pushes for the next step before. */
void yk_server_try_set(struct yk_server *s)
{
    unsigned n = 0, need = yk_clock_need(s->clock), others = s->elsewhere ? s->rule->owners - 1 : 0;
    for (unsigned i = 0; i < s->table.n && n < need; i++) {
        const struct yk_push *p = &s->table.push[i];
        bool twice = false;
        for (unsigned k = 0; k < n; k++)
            twice = twice || s->set[k].id == p->id;
        if (p->used && p->whole && !twice &&
            yk_pending_have(&s->table, p->worker, p->id, 0) >= others)
            s->set[n++] = (struct yk_set_entry){.worker = p->worker, .id = p->id};
    }
    if (n == 0 || n < need)
        return;
    qsort(s->set, n, sizeof *s->set, by_id);
    struct yk_note note = {.kind = YK_SET, .step = s->owner.step};
    yk_server_send_owners(s, &note, s->set, n * sizeof *s->set);
    close_set(s, s->set, n);
}

void yk_server_push_complete(struct yk_server *s, struct yk_push *p, const struct yk_note *n)
{
    unsigned w = p->worker;
    p->whole = true;
    s->table.covered += p->last - p->first;
    if (p->final || (n->flags & YK_LAST_FLAG))
        now_waits(s, w);
    if (!s->rule->pooled) {
        if (s->table.covered == s->rule->shards)
            close_batch(s);
    } else if (s->clock != NULL) {
        yk_server_try_set(s);
        if (s->clock->waiting == s->clock->alive || s->clock->stopping) /* see too_few */
            yk_server_go_on(s);
    } else if (s->elsewhere) {
        struct yk_note have = {
            .kind = YK_HAVE, .step = n->step, .member = {.worker = w, .id = n->push.id}};
        yk_server_send(s, 0, &have, NULL, 0);
    }
}

/* --- arrivals --- */

/* Does the note come from an endpoint that may send it, about a worker that exists? */
static bool is_sound(const struct yk_server *s, const struct yk_note *n)
{
    int workers = s->comm->workers, w = n->from - s->comm->owners;
    switch ((enum yk_kind)n->kind) {
    case YK_JOIN:
    case YK_PUSH:
    case YK_ASK:
    case YK_ACCOUNT:
        return w >= 0 && w < workers;
    case YK_FENCE:
    case YK_REPLACE:
    case YK_HAVE:
    case YK_COUNT:
        return n->member.worker < (uint32_t)workers;
    default:
        return true;
    }
}

static void *place(void *arg, const struct yk_note *n)
{
    struct yk_server *s = arg;
    if (!is_sound(s, n))
        return NULL;
    switch ((enum yk_kind)n->kind) {
    case YK_PUSH:
    case YK_ASK:
        return s->exchange->place_push(s, n);
    case YK_SET:
        return n->bytes <= s->rule->need * sizeof *s->set ? s->set : NULL;
    case YK_ACCOUNT:
        return n->bytes <= sizeof s->account_buffer ? s->account_buffer : NULL;
    case YK_END:
        return n->bytes <= sizeof s->why && s->failed == YK_OK ? s->why : NULL;
    default:
        return yk_state_place(s, n);
    }
}

static void arrive_join(struct yk_server *s, unsigned w)
{
    const struct yk_member *m = s->clock != NULL ? &s->clock->member[w] : NULL;
    s->exchange->welcome(s, w);
    if (m == NULL || (m->alive && !m->waiting))
        answer(s, w);
}

static void arrive_end(struct yk_server *s, const struct yk_note *n, const void *data)
{
    char why[sizeof s->why];
    if (s->clock == NULL) {
        s->failed = YK_LOST;
        yk_server_enter(s, YK_SERVER_CLOSED);
        return;
    }
    snprintf(why, sizeof why, "%.*s", (int)n->bytes, data != NULL ? (const char *)data : "");
    yk_server_fail(s, n->member.code != 0 ? (yk_code)n->member.code : YK_FAILED, why);
}

static void arrive(void *arg, const struct yk_note *n, const void *data)
{
    struct yk_server *s = arg;
    if (!is_sound(s, n))
        return;
    switch ((enum yk_kind)n->kind) {
    case YK_JOIN:
        arrive_join(s, yk_server_worker(s, n->from));
        break;
    case YK_PUSH:
    case YK_ASK:
        s->exchange->arrive(s, n, data);
        yk_state_moved(s);
        break;
    case YK_SET:
        if (data != NULL)
            close_set(s, data, (unsigned)(n->bytes / sizeof *s->set));
        yk_state_moved(s);
        break;
    case YK_HAVE:
        if (n->step == s->owner.step) {
            yk_pending_have(&s->table, n->member.worker, n->member.id, 1);
            yk_server_try_set(s);
        }
        break;
    case YK_FENCE:
        yk_server_fenced(s, n);
        break;
    case YK_COUNT:
        yk_server_counted(s, n);
        break;
    case YK_ACCOUNT:
        s->accounts++;
        if (data != NULL)
            s->watcher.account(s->watcher.arg, yk_server_worker(s, n->from), data, n->bytes);
        break;
    case YK_REPLACE:
        s->replace.called = true;
        s->replace.worker = n->member.worker;
        if (s->rule->pooled) /* the new one may push before this process is back from the meeting */
            s->least[n->member.worker] = n->incarnation;
        break;
    case YK_CLOSE:
        yk_server_enter(s, YK_SERVER_CLOSED);
        s->clean = (n->flags & YK_CLEAN_FLAG) != 0;
        break;
    case YK_END:
        arrive_end(s, n, data);
        break;
    case YK_STATE:
    case YK_STILL:
    case YK_READ:
    case YK_KEEP:
    case YK_FETCH:
    case YK_ANSWER:
        yk_state_arrive(s, n, data);
        break;
    case YK_REPLY: /* those below are a worker's */
    case YK_PIECE:
    case YK_VALUES:
    case YK_AGAIN:
    case YK_FENCED:
        break;
    }
}

/* Of a whole batch a worker's sums stay as they are until the batch is complete. Where parts are
 * dealt, it may begin another part before. */
static bool near(void *arg, const struct yk_note *n)
{
    const struct yk_server *s = arg;
    return n->kind == YK_PUSH && s->exchange->reads_in_place;
}

const struct yk_handler yk_server_handler = {
    .place = place, .near = near, .arrive = arrive, .lost = yk_server_lost};

/* --- from outside --- */

void yk_server_stop(struct yk_server *s)
{
    s->clock->stopping = true;
    s->paused = false;
    yk_server_go_on(s);
}

void yk_server_halt(struct yk_server *s)
{
    yk_server_enter(s, YK_SERVER_HALTED);
}

void yk_server_close(struct yk_server *s, bool clean)
{
    struct yk_note n = {.kind = YK_CLOSE, .flags = clean ? YK_CLEAN_FLAG : 0};
    for (int i = 1; i < s->comm->owners + s->comm->workers; i++)
        yk_server_send(s, i, &n, NULL, 0);
}

static bool make_tables(struct yk_server *s, unsigned pushes)
{
    unsigned workers = s->rule->workers;
    s->part = calloc(pushes, sizeof *s->part);
    s->block = calloc(pushes, sizeof *s->block);
    s->least = calloc(workers, sizeof *s->least);
    s->owed = calloc(workers, sizeof *s->owed);
    s->applied = calloc(workers, sizeof *s->applied);
    s->begun = calloc(workers, sizeof *s->begun);
    s->still.counted = calloc(workers, sizeof *s->still.counted);
    s->replace.wanted = calloc(workers, sizeof *s->replace.wanted);
    s->set = calloc(s->rule->need + 1, sizeof *s->set);
    return s->part != NULL && s->block != NULL && s->least != NULL && s->owed != NULL &&
           s->applied != NULL && s->begun != NULL && s->still.counted != NULL &&
           s->replace.wanted != NULL && s->set != NULL;
}

yk_code yk_server_init(struct yk_server *s, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_recipe *recipe, float *weights,
                       float *const *slot, size_t count, struct yk_clock *clock,
                       const struct yk_watcher *watcher, struct yk_error *e)
{
    *s = (struct yk_server){.exchange = yk_exchange_of(rule, comm),
                            .comm = comm,
                            .rule = rule,
                            .index = index,
                            .clock = clock,
                            .elsewhere = !comm->shared && comm->owners > 1,
                            .count = count};
    if (watcher != NULL)
        s->watcher = *watcher;
    size_t lo = yk_owner_at(index, rule->owners, count),
           hi = yk_owner_at(index + 1, rule->owners, count);
    yk_owner_init(&s->owner, recipe, weights, slot, lo, hi);
    s->owner.origin = rule->sparse ? lo : 0;
    /* In other processes owners wait for their seed; owner 0 waits for its word to begin. */
    s->state = clock == NULL && comm->shared ? YK_SERVER_RUNS : YK_SERVER_EMPTY;
    /* A worker pushes one sum for each subtree of its span: at most two for each level of the
     * tree. */
    unsigned each = rule->shards < 26 ? rule->shards : 26;
    unsigned pushes = rule->workers * each + rule->need + 1;
    yk_code rc = yk_pending_init(&s->table, pushes, lo, hi, e);
    if (rc == YK_OK && !make_tables(s, pushes))
        rc = yk_fail_memory(e, pushes * sizeof *s->block);
    if (rc == YK_OK)
        rc = s->exchange->open_owner(s, pushes, e);
    if (rc != YK_OK)
        yk_server_release(s);
    return rc;
}

void yk_server_release(struct yk_server *s)
{
    if (s->exchange != NULL)
        s->exchange->close_owner(s);
    yk_pending_release(&s->table);
    yk_state_release(s);
    yk_boxes_release(&s->in);
    yk_boxes_release(&s->out);
    free(s->part);
    free(s->block);
    free(s->least);
    free(s->owed);
    free(s->applied);
    free(s->begun);
    free(s->still.counted);
    free(s->replace.wanted);
    free(s->set);
    *s = (struct yk_server){0};
}
