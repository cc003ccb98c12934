/* state.c - stand still, read, copy and fetch: how the state of one step is seen, though no process
 * but its owner has a range.
 *
 * To see the state of one step the watcher has all workers held: owner 0 answers none, and when all
 * that live wait for it, or are at the same step, nothing new is pushed. Pushes that are still
 * under way to other owners are known by count: each owner is asked to answer when it has applied
 * as many of every worker as owner 0, whose part of a push comes last, or when it is at owner 0's
 * step. A dense owner sends its state before that answer, because owner 0 has room for all of it; a
 * sparse owner is then read, or makes a copy of its range, which is fetched in pieces while
 * training goes on. Async training of a dense model does not wait: owners answer when they have
 * caught up.
 *
 * A *question* has a number, which its answer repeats; answers to other questions are thrown away.
 * THREADS: handlers run under the owner's lock. read, keep, fetch and put wait, and are for one
 * thread at a time that is in no handler. */
#include "param/param.h"
#include "strategy/exchange.h"

#include <stdlib.h>
#include <string.h>

/* Seconds of one wait. comm notices a lost owner and calls the handler, which ends the wait. */
static const double PATIENCE = 0.1;

/* Vector `which` of the state, from flat index owner.origin on: 0 the weights, 1.. the
 * optimizer's. */
static float *vector(const struct yk_server *s, unsigned which)
{
    return which == 0 ? s->owner.weights : s->owner.slot[which - 1];
}

/* n floats of a vector, from flat index lo on; NULL: they are not in this process. */
static float *floats_at(const struct yk_server *s, unsigned which, uint64_t lo, uint64_t n)
{
    size_t first = s->owner.origin, end = s->rule->sparse ? s->owner.hi : s->count;
    if (which > s->owner.slots || lo < first || lo > end || n > end - lo)
        return NULL;
    return vector(s, which) + (lo - first);
}

/* Free the copy, as soon as the engine has let go of it. */
static void drop_copy(struct yk_server *s)
{
    s->copy.unwanted = atomic_load_explicit(&s->copy.reading, memory_order_acquire) > 0;
    if (s->copy.unwanted)
        return;
    for (unsigned i = 0; i <= YK_SLOTS; i++) {
        yk_floats_free(s->copy.kept[i]);
        s->copy.kept[i] = NULL;
    }
}

void yk_state_release(struct yk_server *s)
{
    atomic_store(&s->copy.reading, 0);
    drop_copy(s);
}

/* --- standing still, at owner 0 --- */

static void resume_with(struct yk_server *s, enum yk_verdict verdict)
{
    s->still.holds = false;
    s->still.now = YK_STILL_NO;
    yk_server_act_on(s, verdict);
    yk_server_go_on(s);
}

/* All owners are at one step, and a dense state is here. */
static void all_answered(struct yk_server *s)
{
    if (s->still.now == YK_STILL_CATCHING_UP && s->still.holds) { /* wanted since the question */
        s->still.now = YK_STILL_WANTED;
        yk_state_try_still(s);
        return;
    }
    bool catching_up = s->still.now == YK_STILL_CATCHING_UP;
    s->still.now = YK_STILL_YES;
    if (s->state == YK_SERVER_HALTED && s->clock->stopping && s->clock->waiting == 0) {
        yk_server_enter(s, YK_SERVER_ENDED);
        return;
    }
    if (s->state >= YK_SERVER_HALTED && catching_up) { /* the watcher has left meanwhile */
        resume_with(s, YK_GO);
        return;
    }
    enum yk_verdict verdict = s->watcher.stepped(s->watcher.arg, NULL);
    if (verdict != YK_HOLD || catching_up)
        resume_with(s, verdict);
}

static void ask_owners(struct yk_server *s)
{
    size_t bytes = s->rule->workers * sizeof *s->applied;
    struct yk_note n = {.kind = YK_STILL, .step = s->owner.step, .state.id = ++s->still.id};
    if (!s->elsewhere) {
        all_answered(s);
        return;
    }
    s->still.missing = (unsigned)s->comm->owners - 1;
    memcpy(s->still.counted, s->applied, bytes); /* stays as it is until all have answered */
    yk_server_send_owners(s, &n, s->still.counted, bytes);
}

void yk_state_catch_up(struct yk_server *s)
{
    s->still.now = YK_STILL_CATCHING_UP;
    ask_owners(s);
}

void yk_state_try_still(struct yk_server *s)
{
    if (s->still.now != YK_STILL_WANTED)
        return;
    /* Where pushes must be fresh, a late one for a closed step changes nothing. */
    if (!s->rule->fresh)
        for (unsigned w = 0; w < s->rule->workers; w++) {
            const struct yk_member *m = &s->clock->member[w];
            if (m->alive && !m->waiting && !m->stopped)
                return;
        }
    s->still.now = YK_STILL_ASKED;
    ask_owners(s);
}

void yk_server_resume(struct yk_server *s, enum yk_verdict verdict)
{
    if (s->still.now == YK_STILL_YES && verdict != YK_HOLD)
        resume_with(s, verdict);
}

bool yk_servers_even(const struct yk_server *s, unsigned owners)
{
    bool even = true;
    for (unsigned k = 0; k < owners; k++) {
        for (unsigned w = 0; w < s->rule->workers; w++)
            even = even && !s[k].begun[w] && s[k].applied[w] == s->applied[w];
        for (unsigned i = 0; i < s[k].buckets.n; i++)
            even = even && !s[k].buckets.applied[i];
    }
    return even;
}

/* --- standing still, at another owner --- */

static void send_vectors(struct yk_server *s, int to, size_t lo, size_t hi)
{
    for (unsigned i = 0; i <= s->owner.slots; i++) {
        struct yk_note n = {.kind = YK_STATE,
                            .step = s->owner.step,
                            .flags = i == s->owner.slots ? YK_LAST_FLAG : 0,
                            .state = {.lo = lo, .which = i}};
        yk_server_send(s, to, &n, vector(s, i) + lo, (hi - lo) * sizeof(float));
    }
}

/* Has it applied as much as owner 0 had when it asked? The rest of a lost worker's push never
 * comes. */
static bool has_caught_up(const struct yk_server *s)
{
    if (s->rule->fresh)
        return s->owner.step >= s->still.step;
    for (unsigned w = 0; w < s->rule->workers; w++)
        if (s->least[w] != UINT32_MAX && s->applied[w] < s->still.counted[w])
            return false;
    return true;
}

void yk_state_moved(struct yk_server *s)
{
    if (s->copy.unwanted)
        drop_copy(s);
    if (!s->still.wanted || !has_caught_up(s))
        return;
    struct yk_note n = {.kind = YK_ANSWER, .state = {.asked = YK_STILL, .id = s->still.id}};
    s->still.wanted = false;
    if (!s->rule->sparse)
        send_vectors(s, 0, s->owner.lo, s->owner.hi);
    yk_server_send(s, 0, &n, NULL, 0);
}

static void be_asked(struct yk_server *s, const struct yk_note *n, const uint64_t *count)
{
    if (n->bytes != s->rule->workers * sizeof *count || count == NULL)
        return;
    memcpy(s->still.counted, count, n->bytes);
    s->still.wanted = true;
    s->still.step = n->step;
    s->still.id = n->state.id;
    yk_state_moved(s);
}

/* --- the beginning --- */

/* Another owner: its part of the state is here when the last vector is. */
static void take_state(struct yk_server *s, const struct yk_note *n, const void *data)
{
    if (n->bytes > 0 && data == NULL) {
        yk_server_broken(s, "a piece of the state does not fit its range");
        return;
    }
    if (s->clock != NULL || !(n->flags & YK_LAST_FLAG))
        return;
    s->owner.step = n->step;
    yk_server_enter(s, YK_SERVER_RUNS);
    yk_server_reply_owed(s);
}

void yk_server_seed(struct yk_server *s, uint64_t step, size_t count)
{
    struct yk_note n = {.kind = YK_STATE, .step = step, .flags = YK_LAST_FLAG};
    s->owner.step = step;
    yk_server_enter(s, YK_SERVER_RUNS);
    if (s->elsewhere && s->rule->sparse)
        yk_server_send_owners(s, &n, NULL, 0);
    else if (s->elsewhere)
        for (unsigned k = 1; k < s->rule->owners; k++)
            send_vectors(s, (int)k, yk_owner_at(k, s->rule->owners, count),
                         yk_owner_at(k + 1, s->rule->owners, count));
    yk_server_go_on(s);
}

/* --- questions, at the owner that is asked --- */

/* Copy the range. */
static bool keep(struct yk_server *s)
{
    drop_copy(s);
    for (unsigned i = 0; i <= s->owner.slots; i++) {
        if (s->copy.kept[i] != NULL || (s->copy.kept[i] = yk_floats(yk_server_floats(s))) == NULL)
            return false;
        memcpy(s->copy.kept[i], floats_at(s, i, s->owner.lo, yk_server_floats(s)),
               yk_server_floats(s) * sizeof(float));
    }
    return true;
}

/* n floats of the copy or, if there is none, of the state; NULL: they are not this owner's. */
static const float *piece(const struct yk_server *s, unsigned which, uint64_t lo, uint64_t n)
{
    if (which > s->owner.slots || lo < s->owner.lo || lo > s->owner.hi || n > s->owner.hi - lo)
        return NULL;
    if (s->copy.kept[which] != NULL && !s->copy.unwanted)
        return s->copy.kept[which] + (lo - s->owner.lo);
    return floats_at(s, which, lo, n);
}

static void read_for(struct yk_server *s, const struct yk_note *question, const uint32_t *key)
{
    struct yk_note n = {.kind = YK_ANSWER,
                        .flags = YK_OK_FLAG,
                        .from = (uint16_t)s->index,
                        .state = {.asked = YK_READ, .id = question->state.id}};
    size_t keys = question->bytes / sizeof *key;
    bool fits = question->bytes % sizeof *key == 0 && (keys == 0 || key != NULL) &&
                yk_keys_ok(key, keys, s->owner.lo, s->owner.hi);
    struct yk_box *box = fits ? yk_boxes_take(&s->out, question->bytes) : NULL;
    if (box == NULL) {
        n.flags = 0;
        yk_server_send(s, 0, &n, NULL, 0);
        return;
    }
    yk_owner_read_keys(&s->owner, key, box->data, keys);
    yk_comm_send(s->comm, &n, box->data, question->bytes, &box->sending);
}

static void fetch_for(struct yk_server *s, const struct yk_note *question)
{
    struct yk_note n = {.kind = YK_ANSWER,
                        .flags = YK_OK_FLAG,
                        .from = (uint16_t)s->index,
                        .state = {.asked = YK_FETCH, .id = question->state.id}};
    const float *from = piece(s, question->state.which, question->state.lo, question->state.n);
    if (from == NULL)
        n.flags = 0;
    yk_comm_send(s->comm, &n, from, from != NULL ? question->state.n * sizeof(float) : 0,
                 &s->copy.reading);
}

static void keep_for(struct yk_server *s, const struct yk_note *question)
{
    struct yk_note n = {.kind = YK_ANSWER, .state = {.asked = YK_KEEP, .id = question->state.id}};
    if (!(question->flags & YK_OK_FLAG)) {
        drop_copy(s);
        return;
    }
    n.flags = keep(s) ? YK_OK_FLAG : 0;
    yk_server_send(s, 0, &n, NULL, 0);
}

/* --- answers, at owner 0 --- */

static size_t expected(const struct yk_server *s, unsigned owner)
{
    return s->copy.call.at != NULL
               ? (s->copy.call.at[owner + 1] - s->copy.call.at[owner]) * sizeof(float)
               : 0;
}

static void take_answer(struct yk_server *s, const struct yk_note *n, const float *data)
{
    bool refused = !(n->flags & YK_OK_FLAG);
    if (n->state.asked == YK_STILL) {
        bool asked = s->still.now == YK_STILL_ASKED || s->still.now == YK_STILL_CATCHING_UP;
        if (asked && n->state.id == s->still.id && s->still.missing > 0 && --s->still.missing == 0)
            all_answered(s);
        return;
    }
    if (n->state.id != s->copy.call.id || s->copy.call.missing == 0 || n->from >= s->comm->owners)
        return;
    if (!refused && (n->bytes != expected(s, n->from) || (n->bytes > 0 && data == NULL)))
        refused = true;
    if (!refused && n->bytes > 0)
        memcpy(s->copy.call.to + s->copy.call.at[n->from], data, n->bytes);
    s->copy.call.refused = s->copy.call.refused || refused;
    s->copy.call.missing--;
}

void *yk_state_place(struct yk_server *s, const struct yk_note *n)
{
    bool wanted = false;
    if (n->kind == YK_STATE)
        return n->bytes % sizeof(float) == 0
                   ? floats_at(s, n->state.which, n->state.lo, n->bytes / sizeof(float))
                   : NULL;
    if (n->kind == YK_READ)
        wanted = n->bytes <= yk_server_floats(s) * sizeof(uint32_t);
    else if (n->kind == YK_STILL)
        wanted = n->bytes == s->rule->workers * sizeof *s->still.counted;
    else if (n->kind == YK_ANSWER && n->from < s->comm->owners)
        wanted = n->state.id == s->copy.call.id && s->copy.call.missing > 0 &&
                 n->bytes == expected(s, n->from);
    return wanted ? yk_boxes_place(&s->in, n->bytes) : NULL;
}

void yk_state_arrive(struct yk_server *s, const struct yk_note *n, const void *data)
{
    if (n->kind == YK_STATE)
        take_state(s, n, data);
    else if (n->kind == YK_ANSWER && s->clock != NULL)
        take_answer(s, n, data);
    else if (n->kind == YK_STILL && s->clock == NULL)
        be_asked(s, n, data);
    else if (n->kind == YK_READ)
        read_for(s, n, data);
    else if (n->kind == YK_KEEP)
        keep_for(s, n);
    else if (n->kind == YK_FETCH)
        fetch_for(s, n);
    yk_boxes_free(&s->in, data);
}

/* --- questions, at owner 0 --- */

static void lock(struct yk_server *s, int endpoint)
{
    s->comm->ops->lock(s->comm, endpoint);
}

static void unlock(struct yk_server *s, int endpoint)
{
    s->comm->ops->unlock(s->comm, endpoint);
}

/* A question to `missing` owners begins: its number. */
static uint64_t begin(struct yk_server *s, unsigned missing, const size_t *at, float *to)
{
    lock(s, 0);
    uint64_t id = ++s->copy.call.id;
    s->copy.call.missing = missing;
    s->copy.call.at = at;
    s->copy.call.to = to;
    s->copy.call.refused = false;
    unlock(s, 0);
    return id;
}

/* The question is over: late answers have nowhere to go. Under the lock. */
static void close_call(struct yk_server *s)
{
    s->copy.call.missing = 0;
    s->copy.call.at = NULL;
}

/* Wait until all have answered and, if there is a box, the engine has let go of it. */
static yk_code end(struct yk_server *s, const struct yk_box *box, struct yk_error *e)
{
    struct yk_comm *c = s->comm;
    yk_code rc = YK_OK;
    for (bool over = false; !over;) {
        unsigned seen = c->ops->seen(c, 0);
        lock(s, 0);
        bool sent = box == NULL || atomic_load_explicit(&box->sending, memory_order_acquire) == 0;
        over = (s->copy.call.missing == 0 && sent) || s->failed != YK_OK;
        if (s->failed != YK_OK)
            rc = yk_fail(e, s->failed, "%s", s->why);
        else if (over && s->copy.call.refused)
            rc = yk_fail(e, YK_FAILED,
                         "an owner cannot give its part of the parameters: there is no memory, or "
                         "no such part");
        if (over)
            close_call(s);
        unlock(s, 0);
        if (!over)
            c->ops->wait(c, 0, seen, box != NULL ? 1e-3 : PATIENCE);
    }
    return rc;
}

/* Send a question with a copy of its data, because a lost owner may keep the engine from ever
 * letting go of them. */
static struct yk_box *ask(struct yk_server *s, unsigned owner, struct yk_note *n, const void *data,
                          size_t bytes)
{
    struct yk_box *box = NULL;
    n->from = 0;
    n->to = (uint16_t)owner;
    if (bytes > 0) {
        lock(s, 0);
        box = yk_boxes_take(&s->out, bytes);
        if (box != NULL) {
            memcpy(box->data, data, bytes);
            atomic_fetch_add(&box->sending, 1); /* it stays taken until it is on its way */
        }
        unlock(s, 0);
        if (box == NULL)
            return NULL;
    }
    yk_comm_send(s->comm, n, box != NULL ? box->data : NULL, bytes,
                 box != NULL ? &box->sending : NULL);
    if (box != NULL)
        atomic_fetch_sub(&box->sending, 1);
    return box;
}

yk_code yk_server_read(struct yk_server *s, unsigned here, const uint32_t *key, float *out,
                       size_t n, struct yk_error *e)
{
    unsigned owners = s->rule->owners;
    size_t *at = calloc(owners + 1, sizeof *at);
    if (at == NULL)
        return yk_fail_memory(e, (owners + 1) * sizeof *at);
    yk_keys_split(key, n, owners, s->count, at);
    for (unsigned k = 0; k < here; k++) {
        lock(s, (int)k);
        yk_owner_read_keys(&s[k].owner, key + at[k], out + at[k], at[k + 1] - at[k]);
        unlock(s, (int)k);
    }
    yk_code rc = YK_OK;
    if (here < owners) {
        struct yk_note question = {.kind = YK_READ, .state.id = begin(s, owners - here, at, out)};
        for (unsigned k = here; k < owners; k++)
            if (ask(s, k, &question, key + at[k], (at[k + 1] - at[k]) * sizeof *key) == NULL &&
                at[k] < at[k + 1])
                rc = yk_fail_memory(e, n * sizeof *key);
        if (rc == YK_OK) {
            rc = end(s, NULL, e);
        } else {
            lock(s, 0);
            close_call(s);
            unlock(s, 0);
        }
    }
    free(at);
    return rc;
}

yk_code yk_server_keep(struct yk_server *s, unsigned here, struct yk_error *e)
{
    bool kept = true;
    struct yk_note question = {.kind = YK_KEEP,
                               .flags = YK_OK_FLAG,
                               .state.id = begin(s, s->rule->owners - here, NULL, NULL)};
    for (unsigned k = here; k < s->rule->owners; k++)
        ask(s, k, &question, NULL, 0);
    for (unsigned k = 0; k < here; k++) {
        lock(s, (int)k);
        kept = keep(&s[k]) && kept;
        unlock(s, (int)k);
    }
    yk_code rc = end(s, NULL, e);
    if (rc == YK_OK && !kept)
        rc = yk_fail_memory(e, yk_server_floats(s) * sizeof(float) * (1 + s->owner.slots));
    if (rc != YK_OK)
        yk_server_unkeep(s, here);
    return rc;
}

void yk_server_unkeep(struct yk_server *s, unsigned here)
{
    struct yk_note note = {.kind = YK_KEEP};
    for (unsigned k = here; k < s->rule->owners; k++)
        ask(s, k, &note, NULL, 0);
    for (unsigned k = 0; k < here; k++) {
        lock(s, (int)k);
        drop_copy(&s[k]);
        unlock(s, (int)k);
    }
}

yk_code yk_server_fetch(struct yk_server *s, unsigned here, unsigned owner, unsigned which,
                        size_t lo, size_t n, float *to, struct yk_error *e)
{
    unsigned owners = s->rule->owners;
    yk_code rc = YK_OK;
    if (owner < here) {
        lock(s, (int)owner);
        const float *from = piece(&s[owner], which, lo, n);
        if (from != NULL)
            memcpy(to, from, n * sizeof *to);
        else
            rc = yk_fail(e, YK_FAILED, "owner %u does not own the parameters from %zu on", owner,
                         lo);
        unlock(s, (int)owner);
        return rc;
    }
    size_t *at = calloc(owners + 1, sizeof *at);
    if (at == NULL)
        return yk_fail_memory(e, (owners + 1) * sizeof *at);
    for (unsigned k = owner; k < owners; k++)
        at[k + 1] = n;
    struct yk_note question = {
        .kind = YK_FETCH, .state = {.which = which, .lo = lo, .n = n, .id = begin(s, 1, at, to)}};
    ask(s, owner, &question, NULL, 0);
    rc = end(s, NULL, e);
    free(at);
    return rc;
}

yk_code yk_server_put(struct yk_server *s, unsigned here, unsigned owner, unsigned which, size_t lo,
                      size_t n, const float *from, struct yk_error *e)
{
    if (owner >= here) {
        struct yk_note note = {.kind = YK_STATE, .state = {.which = which, .lo = lo}};
        const struct yk_box *box = ask(s, owner, &note, from, n * sizeof *from);
        return box != NULL || n == 0 ? end(s, box, e) : yk_fail_memory(e, n * sizeof *from);
    }
    lock(s, (int)owner);
    float *to = piece(&s[owner], which, lo, n) != NULL ? floats_at(&s[owner], which, lo, n) : NULL;
    if (to != NULL)
        memcpy(to, from, n * sizeof *from);
    unlock(s, (int)owner);
    return to != NULL ? YK_OK
                      : yk_fail(e, YK_FAILED, "owner %u does not own the parameters from %zu on",
                                owner, lo);
}
