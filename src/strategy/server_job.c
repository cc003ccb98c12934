/* server_job.c - what an owner does beside steps: hand its state over, stop, and go on when somebody is lost; see server.h. */
#include "strategy/server.h"

#include "strategy/server_parts.h"

#include <stdio.h>
#include <string.h>

/* Ask the owners in other processes for their state. */
void yk_server_gather(struct yk_server *s)
{
    struct yk_note n = {.kind = YK_GATHER, .step = s->owner.step};
    s->gathering = true;
    s->missing = (unsigned)s->comm->owners - 1;
    memcpy(s->counted, s->applied,
           s->rule->workers * sizeof *s->counted); /* stays as it is until all have answered */
    yk_server_tell(s, &n, s->counted, s->rule->workers * sizeof *s->counted);
}

float *yk_server_state(const struct yk_server *s,
                       unsigned which) /* 0: weights, 1..: the optimizer's */
{
    return which == 0 ? s->owner.weights : s->owner.slot[which - 1];
}

static void send_state(struct yk_server *s, int to, size_t lo, size_t hi)
{
    for (unsigned i = 0; i <= s->owner.optimizer->slots; i++) {
        struct yk_note n = {.kind = YK_STATE,
                            .step = s->owner.step,
                            .lo = lo,
                            .first = i,
                            .flags = i == s->owner.optimizer->slots ? YK_LAST_FLAG : 0};
        yk_server_send(s, to, &n, yk_server_state(s, i) + lo, (hi - lo) * sizeof(float));
    }
}

/* Has it applied what owner 0 had when it asked? What a lost worker left half done does not come any more. */
bool yk_server_is_level(const struct yk_server *s, uint64_t step)
{
    if (s->rule->fresh)
        return s->owner.step >= step;
    for (unsigned w = 0; w < s->rule->workers; w++)
        if (s->least[w] != UINT32_MAX && s->applied[w] < s->counted[w])
            return false;
    return true;
}

void yk_server_answer(struct yk_server *s)
{
    if (s->hold.wanted)
        yk_server_be_still(s);
    if (s->hold.unwanted)
        yk_server_let_go(s);
    if (s->gather_at == UINT64_MAX || !yk_server_is_level(s, s->gather_at))
        return;
    s->gather_at = UINT64_MAX;
    send_state(s, 0, s->owner.lo, s->owner.hi);
}

void yk_server_take_state(struct yk_server *s, const struct yk_note *n)
{
    if (!(n->flags & YK_LAST_FLAG))
        return;
    if (s->clock == NULL) { /* the beginning */
        s->owner.step = n->step;
        s->ready = true;
        yk_server_reply_owed(s);
    } else if (s->gathering && --s->missing == 0) {
        s->gathering = s->holding = false;
        if (s->halted)
            s->ended = true;
        else
            yk_server_look(s, s->watcher.stepped(s->watcher.arg, NULL));
        yk_server_go_on(s);
    }
}

void yk_server_take_count(struct yk_server *s,
                          const struct yk_note *n) /* what another owner has of a lost worker */
{
    if (n->first < s->rule->workers && n->id != s->applied[n->first])
        s->clock->member[n->first].ledger.torn++;
}

/* --- losses --- */

void yk_server_fail(struct yk_server *s, yk_code code, const char *why)
{
    if (s->failed != YK_OK)
        return;
    s->failed = code;
    s->halted = s->ended = true;
    snprintf(s->why, sizeof s->why, "%s", why);
    struct yk_note n = {.kind = YK_END, .step = s->owner.step};
    for (int i = 1; i < s->comm->owners + s->comm->workers; i++)
        yk_server_send(s, i, &n, s->why, sizeof s->why);
}

/* Whole batches: the survivors do the open step once more, its shards dealt among them. Those whose push owner 0 has applied already, and
 * who only wait for its answer, do so for the other owners' sake: one of them may lack what the lost worker did not send. */
static void do_again(struct yk_server *s)
{
    struct yk_clock *c = s->clock;
    const uint8_t urgency = yk_rule_buckets(s->rule)
                                ? YK_AT_ONCE
                                : 0; /* as the answers have: neither overtakes the other */
    yk_server_see(s, c->incarnation);
    for (unsigned w = 0; w < s->rule->workers; w++) {
        struct yk_member *m = &c->member[w];
        bool open = m->task != YK_NO_PART;
        if (!m->alive || m->stopped || (!open && s->comm->owners == 1))
            continue;
        struct yk_note n = {.kind = YK_AGAIN,
                            .urgency = urgency,
                            .step = s->owner.step,
                            .incarnation = m->incarnation};
        if (open) { /* what it pushed is void */
            c->waiting -= m->waiting;
            m->waiting = false;
        }
        yk_clock_span(c, w, &n.first, &n.last);
        yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), &n, NULL, 0);
    }
}

/* With backups: what it has pushed and no step has taken yet is somebody else's to do. */
static void drop_held(struct yk_server *s, unsigned w)
{
    for (unsigned i = 0; i < s->table.n; i++) {
        const struct yk_push *p = &s->table.push[i];
        if (p->used && p->whole && p->worker == w)
            yk_clock_dropped(s->clock, w, p->id);
    }
    yk_pushes_lose(&s->table, w);
}

static void lose_worker(struct yk_server *s, unsigned w)
{
    struct yk_note fenced = {.kind = YK_FENCED},
                   fence = {.kind = YK_FENCE, .first = w, .incarnation = UINT32_MAX};
    bool begun = !s->clock->stopping || !s->clock->member[w].stopped;
    if (s->rule->pooled && s->rule->held)
        drop_held(s, w);
    yk_pushes_abandon(&s->table, w);
    yk_clock_lose(s->clock, w);
    s->least[w] = s->rule->pooled ? UINT32_MAX : s->least[w];
    yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), &fenced, NULL,
                   0); /* in case it only slept */
    s->comm->ops->fence(s->comm, yk_worker_endpoint(s->comm, (int)w));
    yk_server_tell(s, &fence, NULL, 0);
    if (s->clock->alive == 0) {
        yk_server_fail(s, YK_LOST, "all workers are lost");
        return;
    }
    if (!s->rule->pooled && begun)
        do_again(s);
    if (s->rule->held && s->rule->pooled)
        yk_server_try_set(s);
    yk_server_go_on(s);
}

void yk_server_lost(void *arg, int endpoint, const char *why)
{
    struct yk_server *s = arg;
    if (s->clock == NULL) { /* all but owner 0 are its business */
        if (endpoint != 0)
            return;
        s->failed = YK_LOST;
        s->closed = s->orphaned = true;
        snprintf(s->why, sizeof s->why, "owner 0 is lost: %s", why);
        return;
    }
    if (s->ended &&
        (!s->rule->sparse ||
         endpoint >= s->comm->owners)) /* what an owner of a sparse run has is read after the end */
        return;
    int worker = endpoint >= s->comm->owners ? (int)yk_server_worker(s, endpoint) : -1;
    if (s->watcher.lost(s->watcher.arg, worker, why) && worker >= 0) {
        lose_worker(s, (unsigned)worker);
    } else {
        char text[200];
        snprintf(text, sizeof text, "%s %d is lost: %s", worker >= 0 ? "worker" : "owner",
                 worker >= 0 ? worker : endpoint, why);
        yk_server_fail(s, YK_LOST, text);
    }
}

void yk_server_seed(struct yk_server *s, uint64_t step, size_t count)
{
    s->owner.step = step;
    s->ready = true;
    if (s->rule->sparse && yk_server_elsewhere(s)) {
        struct yk_note n = {.kind = YK_STATE, .step = step, .flags = YK_LAST_FLAG};
        yk_server_tell(s, &n, NULL, 0);
        yk_server_go_on(s);
        return;
    }
    for (unsigned k = 1; !s->comm->shared && k < s->rule->owners; k++)
        send_state(s, (int)k, yk_owner_at(k, s->rule->owners, count),
                   yk_owner_at(k + 1, s->rule->owners, count));
    yk_server_go_on(s);
}

void yk_server_stop(struct yk_server *s)
{
    s->clock->stopping = true;
    yk_server_go_on(s);
}

void yk_server_close(struct yk_server *s, bool clean)
{
    struct yk_note n = {.kind = YK_CLOSE, .flags = clean ? YK_LAST_FLAG : 0};
    for (int i = 1; i < s->comm->owners + s->comm->workers; i++)
        yk_server_send(s, i, &n, NULL, 0);
}

void yk_server_want(struct yk_server *s, unsigned w)
{
    s->replace.wants += !s->replace.wanted[w];
    s->replace.wanted[w] = true;
}

void yk_server_replaced(struct yk_server *s, unsigned w, bool done)
{
    s->replace.called = false;
    if (done)
        s->applied[w] = 0; /* a torn push is told by counting those of one process */
    if (s->clock == NULL)
        return;
    s->replace.wants -= s->replace.wanted[w];
    s->replace.wanted[w] = false;
    if (done)
        yk_clock_join(s->clock, w);
    if (done && s->rule->pooled) {
        s->least[w] = s->clock->member[w].incarnation;
        yk_pushes_lose(&s->table, w); /* an owner may have told of a push of the old one since */
    }
    yk_server_see(s, s->clock->incarnation);
    yk_server_go_on(s);
}
