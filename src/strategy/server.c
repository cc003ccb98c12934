/* server.c - an owner's end of the wire; see server.h, and strategy.h for the messages.
 * Where a step needs one push (local, async, ssp) a range is applied the moment it is here. Otherwise pushes are *held* (push.h) until
 * all are here that it takes: of whole batches bucket by bucket (server_bucket.c), else of the step. */
#include "strategy/server.h"

#include "strategy/server_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned yk_server_worker(const struct yk_server *s, int endpoint)
{
    return (unsigned)(endpoint - s->comm->owners);
}

static size_t range_bytes(const struct yk_server *s)
{
    return (s->owner.hi - s->owner.lo) * sizeof(float);
}

void yk_server_send(struct yk_server *s, int endpoint, struct yk_note *n, const void *data,
                    size_t bytes)
{
    n->from = (uint16_t)s->index;
    n->to = (uint16_t)endpoint;
    yk_comm_send(s->comm, n, data, bytes, &s->sending);
}

void yk_server_tell(struct yk_server *s, struct yk_note *n, const void *data, size_t bytes)
{
    for (int k = 1; k < s->comm->owners; k++)
        yk_server_send(s, k, n, data, bytes);
}

/* The parameters of the range to worker w. In threads all read the same ones, unless they change under them (async, backups). */
static void reply(struct yk_server *s, unsigned w, struct yk_note *n)
{
    bool carries = !s->comm->shared || s->rule->pooled;
    n->kind = YK_REPLY;
    if (yk_rule_buckets(s->rule)) /* as YK_AGAIN */
        n->urgency = YK_AT_ONCE;
    if (yk_rule_buckets(s->rule) &&
        s->has[w] == s->owner.step) { /* they have gone, bucket by bucket */
        yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), n, NULL, 0);
        return;
    }
    s->has[w] = s->owner.step;
    if (s->rule->sparse) {
        yk_server_reply_keys(s, w, n);
        return;
    }
    if (s->pack.out != NULL) {
        yk_server_reply_packed(s, w, n);
        return;
    }
    n->lo = s->owner.lo;
    yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), n,
                   carries ? s->owner.weights + s->owner.lo : NULL, carries ? range_bytes(s) : 0);
}

/* Another owner's answer to worker w; one that comes before the state does waits for it. Only w's: who has pushed for the open step is
 * owed an answer too, and must not get it before the step is complete. */
static void reply_to(struct yk_server *s, unsigned w)
{
    struct yk_note n = {.step = s->owner.step};
    s->owed[w] = !s->ready;
    if (s->ready)
        reply(s, w, &n);
}

void yk_server_reply_owed(struct yk_server *s)
{
    for (unsigned w = 0; s->ready && w < s->rule->workers; w++)
        if (s->owed[w])
            reply_to(s, w);
}

/* --- pushes --- */

/* With whole batches a new incarnation is one of everybody: what has come for the open step is forgotten and comes again. */
void yk_server_see(struct yk_server *s, uint32_t incarnation)
{
    if (s->rule->pooled || incarnation <= s->least[0])
        return;
    for (unsigned w = 0; w < s->rule->workers; w++)
        s->least[w] = incarnation;
    yk_pushes_forget(&s->table);
    yk_server_open_buckets(s, true);
}

bool yk_server_counts(const struct yk_server *s, const struct yk_note *n)
{
    return !s->halted && n->incarnation >= s->least[yk_server_worker(s, n->from)] &&
           (!s->rule->fresh || n->step == s->owner.step);
}

static void *place_push(struct yk_server *s, const struct yk_note *n)
{
    yk_server_see(s, n->incarnation);
    return yk_server_counts(s, n) ? yk_pushes_place(&s->table, yk_server_worker(s, n->from), n)
                                  : NULL;
}

/* --- owner 0: answers, and what the watcher wants --- */

static void maybe_end(struct yk_server *s);

static void send_task(struct yk_server *s, unsigned w, const struct yk_task *t, bool further)
{
    struct yk_note n = {.flags = further ? YK_FURTHER_FLAG : 0,
                        .step = t->step,
                        .id = t->id,
                        .word = t->ahead,
                        .examples = t->examples,
                        .first = t->first,
                        .last = t->last,
                        .incarnation = t->incarnation};
    reply(s, w, &n);
}

/* A worker whose push is held waits with it for its step. When all wait so because too few are left, or because the data of some hosts are
 * through, each takes a further part of the same step. */
static bool too_few(const struct yk_server *s)
{
    const struct yk_clock *c = s->clock;
    if (!s->rule->held || !s->rule->pooled || c->waiting < c->alive)
        return false;
    for (unsigned w = 0; w < s->rule->workers; w++)
        if (c->member[w].alive && c->member[w].task == YK_NO_PART &&
            !(c->deal.shares > 1 && c->member[w].idle))
            return false; /* this one is free to do it */
    return true;
}

/* A task, or if it is NULL the word that there is none any more. */
static void answer(struct yk_server *s, unsigned w, const struct yk_task *t, bool further)
{
    struct yk_member *m = &s->clock->member[w];
    m->waiting = false;
    s->clock->waiting--;
    if (t != NULL) {
        send_task(s, w, t, further);
        return;
    }
    struct yk_note n = {.kind = YK_REPLY, .step = s->owner.step, .flags = YK_STOP_FLAG};
    m->stopped = true;
    yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), &n, NULL, 0);
}

/* ssp: how many have found no work, and so hold nobody up. */
static unsigned idlers(const struct yk_server *s)
{
    unsigned n = 0;
    for (unsigned w = 0; s->rule->staleness >= 0 && w < s->rule->workers; w++)
        n += s->clock->member[w].idle;
    return n;
}

/* Is a whole batch under way? Then all have a part in it, also those who have not asked for theirs yet. */
static bool is_open(const struct yk_server *s)
{
    bool open = false;
    for (unsigned w = 0; s->rule->held && !s->rule->pooled && !s->halted && w < s->rule->workers;
         w++)
        open = open || (s->clock->member[w].alive && s->clock->member[w].task != YK_NO_PART);
    return open;
}

/* Everybody who waits and may go on gets its next task; at the end, the word that it is over, but a whole batch that is under way is completed
 * first. When one has found no work, the others are asked once more. */
void yk_server_go_on(struct yk_server *s)
{
    struct yk_clock *c = s->clock;
    unsigned idle;
    if (s->holding || !s->ready || (s->replace.wants > 0 && !c->stopping))
        return maybe_end(s);
    bool further = too_few(s), stops = c->stopping && !is_open(s);
    do {
        idle = idlers(s);
        for (unsigned w = 0; c->waiting > 0 && w < s->rule->workers; w++) {
            struct yk_member *m = &c->member[w];
            bool held = s->rule->held && m->task != YK_NO_PART, holds = held && !further;
            struct yk_task t;
            if (m->waiting && (stops || (!holds && yk_clock_next(c, w, s->owner.step, &t))))
                answer(s, w, stops ? NULL : &t, held);
        }
    } while (idlers(s) > idle);
    maybe_end(s);
}

bool yk_server_elsewhere(const struct yk_server *s) /* does another process own a part? */
{
    return !s->comm->shared && s->comm->owners > 1;
}

/* Over once everybody who lives has been told so; then the state is fetched for a last time. A new worker is waited for the same way. */
static void maybe_end(struct yk_server *s)
{
    struct yk_clock *c = s->clock;
    unsigned stopped = 0;
    if (s->hold.on) {
        yk_server_try_still(s);
        return;
    }
    if (s->replace.wants > 0 && !s->replace.called && !c->stopping && c->waiting == c->alive &&
        !s->gathering) {
        for (s->replace.worker = 0; !s->replace.wanted[s->replace.worker];)
            s->replace.worker++;
        s->replace.called = true; /* whoever runs the message loop sees it */
    }
    for (unsigned w = 0; w < s->rule->workers; w++)
        stopped += c->member[w].alive && c->member[w].stopped;
    if (!c->stopping || s->ended || s->gathering || stopped < c->alive)
        return;
    if (!s->halted && yk_server_elsewhere(s)) {
        s->halted = true;
        if (s->rule
                ->sparse) { /* nothing of the size of the model is fetched: it is there to be read */
            s->hold.on = true;
            yk_server_try_still(s);
        } else {
            yk_server_gather(s);
        }
    } else {
        s->halted = s->ended = true;
    }
}

void yk_server_look(struct yk_server *s, enum yk_verdict verdict)
{
    switch (verdict) {
    case YK_GO:
        break;
    case YK_LOOK:
        if (s->rule->sparse) { /* there is no place for the whole state */
            s->holding = s->hold.on = true;
            break;
        }
        if (s->gathering)
            break;
        s->holding =
            s->rule->fresh; /* a step of everybody: nothing moves before it has been seen */
        yk_server_gather(s);
        break;
    case YK_LEAVE:
        s->halted = true;
        s->clock->stopping = true;
        break;
    case YK_HALT:
        s->clock->stopping = true;
        break;
    case YK_HOLD:
        s->holding = s->hold.on = true;
        break;
    }
}

/* --- arrivals --- */

/* Told to the ledger; and with backups its worker gets what it needs to go on. */
void yk_server_drop(struct yk_server *s, const struct yk_note *n)
{
    unsigned w = yk_server_worker(s, n->from);
    bool old = n->incarnation <
               s->least[w]; /* somebody who was lost, or a step that is done again: no answer */
    if (s->clock != NULL) {
        struct yk_member *m = &s->clock->member[w];
        if (!s->halted)
            yk_clock_dropped(s->clock, w, n->id);
        if (!old && s->rule->pooled && m->alive) {
            m->waiting = true;
            s->clock->waiting++;
            yk_server_go_on(s);
        }
    } else if (!old && s->rule->pooled) {
        reply_to(s, w);
    }
}

/* One push is one step (or one of several owners' part of it): apply what is here, now. */
static void apply_now(struct yk_server *s, const struct yk_note *n, const float *data)
{
    yk_owner_apply(&s->owner, data, n->lo, n->lo, n->lo + n->bytes / sizeof(float), n->examples);
    if (n->flags & YK_LAST_FLAG)
        yk_server_applied(s, n);
}

void yk_server_applied(struct yk_server *s, const struct yk_note *n)
{
    unsigned w = yk_server_worker(s, n->from);
    uint64_t staleness = s->owner.step - n->step;
    yk_owner_finish(&s->owner);
    s->applied[w]++;
    if (s->clock == NULL) {
        reply_to(s, w);
        return;
    }
    struct yk_member *m = &s->clock->member[w];
    yk_clock_applied(s->clock, w, n->id, s->rule->pooled ? staleness : 0, n->examples, n->loss);
    m->waiting = true;
    s->clock->waiting++;
    yk_server_stepped(s, n->examples, n->loss);
    yk_server_go_on(s);
}

static void hold(struct yk_server *s, struct yk_push *p, const struct yk_note *n, const float *data,
                 bool received)
{
    if (!received && s->rule->pooled &&
        !s->comm->shared) { /* its worker may do another part before the step is complete */
        float *copy = yk_pushes_place(&s->table, p->worker, n);
        if (copy == NULL) {
            yk_server_broken(s, "there is no memory for a worker's gradients");
            return;
        }
        memcpy(copy, data, n->bytes);
        p->receiving--;
        received = true;
    }
    p->sum = received ? p->buffer : data - n->lo; /* where its worker, in this process, has it */
    p->origin = received ? s->owner.lo : 0;
    p->bytes += n->bytes;
    p->examples = n->examples;
    p->loss += n->loss;
    p->final = p->final || (n->flags & YK_LAST_FLAG);
    if (!s->rule->pooled)
        yk_server_fill_buckets(s, p, n->lo, n->lo + n->bytes / sizeof(float));
    if (p->bytes >= range_bytes(s))
        yk_server_whole(s, p, n);
}

void yk_server_whole(struct yk_server *s, struct yk_push *p, const struct yk_note *n)
{
    p->whole = true;
    unsigned w = p->worker;
    s->table.covered += p->last - p->first;
    if (p->final || (n->flags & YK_LAST_FLAG)) {
        s->owed[w] = s->clock == NULL;
        if (s->clock != NULL) {
            s->clock->member[w].waiting = true;
            s->clock->waiting++;
        }
    }
    if (!s->rule->pooled && s->table.covered == s->rule->shards) {
        yk_server_close_batch(s);
    } else if (s->rule->pooled && s->clock != NULL) {
        yk_server_try_set(s);
        if (s->clock->waiting == s->clock->alive ||
            s->clock->stopping) /* fewer are left than a step takes */
            yk_server_go_on(s);
    } else if (s->rule->pooled && !s->comm->shared) {
        struct yk_note have = {.kind = YK_HAVE, .step = n->step, .first = w, .id = n->id};
        yk_server_send(s, 0, &have, NULL, 0);
    }
}

static void arrive_push(struct yk_server *s, const struct yk_note *n, const float *data)
{
    yk_server_see(s, n->incarnation);
    struct yk_push *p = data != NULL ? yk_pushes_around(&s->table, data) : NULL;
    bool received = p != NULL;
    if (received)
        p->receiving--;
    else if (s->rule->held && data != NULL && yk_server_counts(s, n))
        p = yk_pushes_find(&s->table, yk_server_worker(s, n->from), n);
    bool mine = p != NULL && p->used && p->worker == yk_server_worker(s, n->from) &&
                p->step == n->step && p->id == n->id;
    if (!yk_server_counts(s, n) || data == NULL || (p != NULL && !mine)) {
        if (n->flags & YK_LAST_FLAG)
            yk_server_drop(s, n);
        if (mine)
            p->used = false;
        return;
    }
    struct yk_note floats = *n;
    if ((n->flags & YK_PACKED_FLAG) && !(received && yk_server_unpack(s, p, &floats)))
        return;
    if (s->rule->held) {
        if (mine)
            hold(s, p, &floats, data, received);
    } else {
        if (mine)
            p->used = !(n->flags & YK_LAST_FLAG);
        apply_now(s, &floats, data);
    }
}

static void arrive_pull(struct yk_server *s, unsigned w)
{
    s->has[w] = UINT64_MAX;
    if (s->clock == NULL) {
        reply_to(s, w);
    } else if (s->clock->member[w].alive && !s->clock->member[w].waiting) {
        s->clock->member[w].waiting = true;
        s->clock->waiting++;
        yk_server_go_on(s);
    }
}

/* Does the note come from whom it may come from, about somebody who exists? */
static bool is_sound(const struct yk_server *s, const struct yk_note *n)
{
    int workers = s->comm->workers, w = n->from - s->comm->owners;
    if (n->kind == YK_PUSH || n->kind == YK_PULL || n->kind == YK_ACCOUNT)
        return w >= 0 && w < workers;
    if (n->kind == YK_FENCE || n->kind == YK_REPLACE || n->kind == YK_HAVE)
        return n->first < (uint32_t)workers;
    return true;
}

static void *place(void *arg, const struct yk_note *n)
{
    struct yk_server *s = arg;
    if (!is_sound(s, n))
        return NULL;
    if (s->rule->sparse && (n->kind == YK_PUSH || n->kind == YK_PULL))
        return yk_server_place_keys(s, n);
    if (s->rule->sparse && n->kind != YK_ACCOUNT && n->kind != YK_SET && n->kind != YK_END)
        return yk_server_place_hold(s, n);
    if (n->kind == YK_PUSH)
        return place_push(s, n);
    if (n->kind == YK_STATE && n->first <= s->owner.optimizer->slots && n->lo <= s->count &&
        n->bytes <= (s->count - n->lo) * sizeof(float))
        return yk_server_state(s, n->first) + n->lo;
    if (n->kind == YK_GATHER && n->bytes == s->rule->workers * sizeof *s->counted)
        return s->counted;
    if (n->kind == YK_SET && n->bytes <= s->rule->need * sizeof *s->set)
        return s->set;
    if (n->kind == YK_ACCOUNT && n->bytes <= sizeof s->account_buffer)
        return s->account_buffer;
    if (n->kind == YK_END && n->bytes <= sizeof s->why && s->failed == YK_OK)
        return s->why;
    return NULL;
}

static void arrive(void *arg, const struct yk_note *n, const void *data)
{
    struct yk_server *s = arg;
    struct yk_note answer = {.kind = YK_COUNT, .first = n->first};
    if (!is_sound(s, n))
        return;
    switch ((enum yk_kind)n->kind) {
    case YK_PUSH:
        if (s->rule->sparse)
            yk_server_arrive_keys(s, n, data);
        else
            arrive_push(s, n, data);
        yk_server_answer(s);
        break;
    case YK_PULL:
        if (s->rule->sparse)
            yk_server_arrive_keys(s, n, data);
        if (n->lo == 0)
            arrive_pull(s, yk_server_worker(s, n->from));
        break;
    case YK_STATE:
        if (s->rule->sparse && n->bytes > 0 && data == NULL)
            yk_server_broken(s, "a piece of the state is not of its range");
        yk_server_take_state(s, n);
        break;
    case YK_GATHER:
        s->gather_at = n->step;
        yk_server_answer(s);
        break;
    case YK_SET:
        if (data != NULL)
            yk_server_close_set(s, data, (unsigned)(n->bytes / sizeof *s->set));
        yk_server_answer(s);
        break;
    case YK_HAVE:
        if (n->step == s->owner.step) {
            yk_pushes_have(&s->table, n->first, n->id, 1);
            yk_server_try_set(s);
        }
        break;
    case YK_FENCE:
        yk_pushes_abandon(&s->table, n->first);
        if (!s->rule->pooled) /* a new incarnation of everybody says the rest */
            break;
        s->least[n->first] = n->incarnation;
        s->owed[n->first] = false;
        yk_pushes_lose(&s->table, n->first);
        answer.id = s->applied[n->first];
        yk_server_send(s, 0, &answer, NULL, 0);
        yk_server_answer(s);
        break;
    case YK_COUNT:
        yk_server_take_count(s, n);
        break;
    case YK_ACCOUNT:
        s->accounts++;
        if (data != NULL)
            s->watcher.account(s->watcher.arg, yk_server_worker(s, n->from), data, n->bytes);
        break;
    case YK_REPLACE:
        s->replace.called = true;
        s->replace.worker = n->first;
        if (s->rule->pooled) /* the new one may push before this process is back from the meeting */
            s->least[n->first] = n->incarnation;
        break;
    case YK_CLOSE:
        s->closed = true;
        s->clean = (n->flags & YK_LAST_FLAG) != 0;
        break;
    case YK_END:
        if (s->clock != NULL) {
            char why[sizeof s->why];
            snprintf(why, sizeof why, "%.*s", (int)n->bytes,
                     data != NULL ? (const char *)data : "");
            yk_server_fail(s, n->first != 0 ? (yk_code)n->first : YK_FAILED,
                           why); /* a worker says how it failed */
            break;
        }
        s->failed = YK_LOST;
        s->closed = true;
        break;
    case YK_STILL:
    case YK_READ:
    case YK_KEEP:
    case YK_FETCH:
    case YK_ANSWER:
        yk_server_arrive_hold(s, n, data);
        break;
    case YK_REPLY:
    case YK_AGAIN:
    case YK_FENCED:
    case YK_PIECE:
    case YK_VALUES: /* a worker's */
        break;
    }
}

/* A worker's sums stay as they are until their step is complete; of parts it may do another one before. */
static bool near(void *arg, const struct yk_note *n)
{
    const struct yk_server *s = arg;
    return n->kind == YK_PUSH && yk_rule_buckets(s->rule);
}

const struct yk_handler yk_server_handler = {
    .place = place, .near = near, .arrive = arrive, .lost = yk_server_lost};

/* --- from outside --- */

yk_code yk_server_init(struct yk_server *s, struct yk_comm *comm, const struct yk_rule *rule,
                       unsigned index, const struct yk_recipe *recipe, float *weights,
                       float *const *slot, size_t count, struct yk_clock *clock,
                       const struct yk_watcher *watcher, struct yk_error *e)
{
    unsigned workers = rule->workers, each = 1, shards = rule->pooled ? 1 : rule->shards;
    *s = (struct yk_server){.comm = comm,
                            .rule = rule,
                            .index = index,
                            .clock = clock,
                            .gather_at = UINT64_MAX,
                            .count = count};
    if (watcher != NULL)
        s->watcher = *watcher;
    size_t lo = yk_owner_at(index, rule->owners, count),
           hi = yk_owner_at(index + 1, rule->owners, count);
    yk_owner_init(&s->owner, recipe, weights, slot, lo, hi);
    s->owner.origin = rule->sparse ? lo : 0;
    s->ready = clock == NULL &&
               comm->shared; /* others wait for their seed, owner 0 for its word to begin */
    while (each < 26 &&
           each < shards) /* subtrees of one worker's span: two a level of the tree at most */
        each++;
    unsigned pushes = workers * each + rule->need + 1;
    yk_code rc = yk_pushes_init(&s->table, pushes, s->owner.lo, s->owner.hi, e);
    if (rc == YK_OK && rule->sparse)
        rc = yk_server_init_keys(s, pushes, e);
    if (rc == YK_OK && rule->codec.kind != YK_CODEC_NONE)
        rc = yk_server_init_pack(s, e);
    if (rc == YK_OK && yk_rule_buckets(rule))
        rc = yk_server_init_buckets(s, e);
    if (rc != YK_OK) {
        yk_server_release(s);
        return rc;
    }
    s->block = calloc(pushes, sizeof *s->block);
    s->least = calloc(workers, sizeof *s->least);
    s->owed = calloc(workers, sizeof *s->owed);
    s->applied = calloc(workers, sizeof *s->applied);
    s->has = malloc(workers * sizeof *s->has);
    s->counted = calloc(workers, sizeof *s->counted);
    s->replace.wanted = calloc(workers, sizeof *s->replace.wanted);
    s->set = calloc(rule->need + 1, sizeof *s->set);
    if (s->block == NULL || s->least == NULL || s->owed == NULL || s->applied == NULL ||
        s->has == NULL || s->counted == NULL || s->replace.wanted == NULL || s->set == NULL) {
        yk_server_release(s);
        return yk_fail_memory(e, pushes * sizeof *s->block);
    }
    memset(s->has, 0xff, workers * sizeof *s->has);
    return YK_OK;
}

void yk_server_release(struct yk_server *s)
{
    yk_pushes_release(&s->table);
    yk_server_release_keys(s);
    yk_server_release_hold(s);
    yk_server_release_pack(s);
    yk_server_release_buckets(s);
    free(s->block);
    free(s->least);
    free(s->owed);
    free(s->applied);
    free(s->has);
    free(s->counted);
    free(s->replace.wanted);
    free(s->set);
    *s = (struct yk_server){0};
}
