/* members.c - losses, fences and replacement: which workers take part, and how an owner fails.
 *
 * Owner 0 alone decides that a worker is lost. It fences the worker, so that nothing of it arrives
 * any more, and tells the other owners. With parts the lost worker's part is dealt again; a whole
 * batch is redone by the survivors, with other shards. A new process may take the lost one's place
 * (--on-worker-loss replace): all workers wait, all processes meet to start it, and training goes
 * on.
 * THREADS: under the owner's lock. */
#include "strategy/exchange.h"

#include <stdio.h>
#include <string.h>

/* --- failures --- */

void yk_server_fail(struct yk_server *s, yk_code code, const char *why)
{
    if (s->failed != YK_OK)
        return;
    s->failed = code;
    yk_server_enter(s, YK_SERVER_ENDED);
    snprintf(s->why, sizeof s->why, "%s", why);
    struct yk_note n = {.kind = YK_END, .step = s->owner.step};
    for (int i = 1; i < s->comm->owners + s->comm->workers; i++)
        yk_server_send(s, i, &n, s->why, sizeof s->why);
}

void yk_server_broken(struct yk_server *s, const char *why)
{
    struct yk_note n = {.kind = YK_END, .step = s->owner.step};
    char text[sizeof s->why];
    if (s->failed != YK_OK)
        return;
    snprintf(text, sizeof text, "owner %u cannot go on: %s", s->index, why);
    if (s->clock != NULL) {
        yk_server_fail(s, YK_FAILED, text);
        return;
    }
    s->failed = YK_FAILED;
    yk_server_enter(s, YK_SERVER_HALTED);
    memcpy(s->why, text, sizeof text);
    if (s->elsewhere) {
        yk_server_send(s, 0, &n, s->why, sizeof s->why);
        return;
    }
    /* In one process the clock's lock comes before this one, so the workers are told instead. */
    for (int w = 0; w < s->comm->workers; w++)
        yk_server_send(s, yk_worker_endpoint(s->comm, w), &n, s->why, sizeof s->why);
}

/* --- losses, at owner 0 --- */

/* Whole batches: the survivors redo the open step, with its shards dealt among them. Workers
 * whose push owner 0 has applied, and that only wait for its answer, redo it too: another owner
 * may lack the part that the lost worker did not send. */
static void do_again(struct yk_server *s)
{
    struct yk_clock *c = s->clock;
    yk_server_see_incarnation(s, c->incarnation);
    for (unsigned w = 0; w < s->rule->workers; w++) {
        struct yk_member *m = &c->member[w];
        bool open = m->task != YK_NO_PART;
        if (!m->alive || m->stopped || (!open && s->comm->owners == 1))
            continue;
        struct yk_note n = {.kind = YK_AGAIN,
                            .urgency = s->exchange->task_urgency,
                            .step = s->owner.step,
                            .incarnation = m->incarnation};
        if (open) { /* its push is void */
            c->waiting -= m->waiting;
            m->waiting = false;
        }
        yk_clock_span(c, w, &n.task.first, &n.task.last);
        yk_server_send_worker(s, w, &n, NULL, 0);
    }
}

/* Parts: nothing of the worker counts any more. With backups, the parts that it has pushed and no
 * step has taken yet go to others. */
static void drop_parts(struct yk_server *s, unsigned w)
{
    s->least[w] = UINT32_MAX;
    for (unsigned i = 0; i < s->table.n; i++) {
        const struct yk_push *p = &s->table.push[i];
        if (p->used && p->whole && p->worker == w)
            yk_clock_dropped(s->clock, w, p->id);
    }
    yk_pending_lose(&s->table, w);
}

static void lose_worker(struct yk_server *s, unsigned w)
{
    struct yk_note fenced = {.kind = YK_FENCED},
                   fence = {.kind = YK_FENCE, .incarnation = UINT32_MAX, .member.worker = w};
    bool begun = !s->clock->stopping || !s->clock->member[w].stopped;
    if (s->rule->pooled)
        drop_parts(s, w);
    yk_pending_abandon(&s->table, w);
    yk_clock_lose(s->clock, w);
    s->begun[w] = s->paused = false;               /* its step does not come any more */
    yk_server_send_worker(s, w, &fenced, NULL, 0); /* in case it only slept */
    s->comm->ops->fence(s->comm, yk_worker_endpoint(s->comm, (int)w));
    yk_server_send_owners(s, &fence, NULL, 0);
    if (s->clock->alive == 0) {
        yk_server_fail(s, YK_LOST, "all workers are lost");
        return;
    }
    if (s->rule->pooled)
        yk_server_try_set(s);
    else if (begun)
        do_again(s);
    yk_server_go_on(s);
}

void yk_server_lost(void *arg, int endpoint, const char *why)
{
    struct yk_server *s = arg;
    if (s->clock == NULL) { /* owner 0 judges all other losses */
        if (endpoint != 0)
            return;
        s->failed = YK_LOST;
        s->orphaned = true;
        yk_server_enter(s, YK_SERVER_CLOSED);
        snprintf(s->why, sizeof s->why, "owner 0 is lost: %s", why);
        return;
    }
    /* The state of a sparse model is read from its owners after the end, too. */
    bool read_later = s->rule->sparse && endpoint < s->comm->owners;
    if (s->state == YK_SERVER_ENDED && !read_later)
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

/* --- losses, at another owner --- */

void yk_server_fenced(struct yk_server *s, const struct yk_note *n)
{
    unsigned w = n->member.worker;
    yk_pending_abandon(&s->table, w);
    if (!s->rule->pooled) /* the rest follows with a new incarnation of all workers */
        return;
    struct yk_note count = {.kind = YK_COUNT, .member = {.worker = w, .count = s->applied[w]}};
    s->least[w] = n->incarnation;
    s->owed[w] = false;
    yk_pending_lose(&s->table, w);
    yk_server_send(s, 0, &count, NULL, 0);
    yk_state_moved(s);
}

void yk_server_counted(struct yk_server *s, const struct yk_note *n)
{
    if (n->member.count != s->applied[n->member.worker])
        s->clock->member[n->member.worker].ledger.torn++;
}

/* --- replacement --- */

void yk_server_want(struct yk_server *s, unsigned w)
{
    s->replace.wants += !s->replace.wanted[w];
    s->replace.wanted[w] = true;
}

void yk_server_call_replacement(struct yk_server *s)
{
    const struct yk_clock *c = s->clock;
    struct yk_replace *r = &s->replace;
    if (r->wants == 0 || r->called || c->stopping || c->waiting < c->alive ||
        s->still.now != YK_STILL_NO)
        return;
    r->worker = 0;
    while (!r->wanted[r->worker])
        r->worker++;
    r->called = true; /* the thread that runs the message loop sees it */
}

void yk_server_replaced(struct yk_server *s, unsigned w, bool done)
{
    s->replace.called = false;
    if (done)
        s->applied[w] = 0; /* torn pushes are found by counting those of one process */
    if (s->clock == NULL)
        return;
    s->replace.wants -= s->replace.wanted[w];
    s->replace.wanted[w] = false;
    if (done)
        yk_clock_join(s->clock, w);
    if (done && s->rule->pooled) {
        s->least[w] = s->clock->member[w].incarnation;
        yk_pending_lose(&s->table, w); /* an owner may have reported a push of the old one */
    }
    yk_server_see_incarnation(s, s->clock->incarnation);
    yk_server_go_on(s);
}
