/* server_hold.c - sparse runs: everything stands still, so that the state can be read, copied and saved, a piece at a time; see server.h.
 *
 * No process but its owner ever has a range. To see the state of one step, the watcher has everybody held: owner 0 answers nobody, and
 * when all who live wait for it, or are at the same step, nothing new is pushed. What is still under way to other owners is known by
 * count: each is asked to answer when it has applied as much of every worker as owner 0, whose part of a push comes last, or is at its
 * step. Then whatever is read from anywhere is of one moment. For a checkpoint each owner makes a copy of its range, and training goes on
 * while pieces of the copies are fetched.
 *
 * A *question* has a number, which its answer repeats; what answers another one is thrown away.
 * THREADS: handlers under the owner's lock. read, keep, fetch and put wait, and are for one thread at a time that is in no handler. */
#include "strategy/server.h"

#include "param/param.h"
#include "strategy/server_parts.h"

#include <stdlib.h>
#include <string.h>

static const double PATIENCE =
    0.1; /* seconds of one wait; a lost owner is noticed by comm, which then calls us */

/* Let go of the copy, as soon as the engine has. */
void yk_server_let_go(struct yk_server *s)
{
    s->hold.unwanted = atomic_load_explicit(&s->hold.reading, memory_order_acquire) > 0;
    for (unsigned i = 0; !s->hold.unwanted && i <= YK_SLOTS; i++) {
        yk_floats_free(s->hold.kept[i]);
        s->hold.kept[i] = NULL;
    }
}

void yk_server_release_hold(struct yk_server *s)
{
    atomic_store(&s->hold.reading, 0);
    yk_server_let_go(s);
}

/* --- standing still --- */

static void resume_with(struct yk_server *s, enum yk_verdict verdict)
{
    s->holding = s->hold.on = s->hold.asked = s->hold.still = false;
    yk_server_look(s, verdict);
    yk_server_go_on(s);
}

/* Nothing moves any more. */
static void stand_still(struct yk_server *s)
{
    s->hold.still = true;
    if (s->halted && s->clock->stopping) { /* that was the end */
        s->ended = true;
        return;
    }
    enum yk_verdict verdict = s->watcher.stepped(s->watcher.arg, NULL);
    if (verdict != YK_HOLD)
        resume_with(s, verdict);
}

void yk_server_try_still(struct yk_server *s)
{
    struct yk_note n = {.kind = YK_STILL, .step = s->owner.step};
    if (s->hold.asked)
        return;
    for (unsigned w = 0; !s->rule->fresh && w < s->rule->workers;
         w++) { /* what is pushed late for a closed step does nothing */
        const struct yk_member *m = &s->clock->member[w];
        if (m->alive && !m->waiting && !m->stopped)
            return;
    }
    s->hold.asked = true;
    if (!yk_server_elsewhere(s)) {
        stand_still(s);
        return;
    }
    memcpy(s->counted, s->applied,
           s->rule->workers * sizeof *s->counted); /* stays as it is until all have answered */
    n.id = ++s->hold.id;
    s->hold.missing = (unsigned)s->comm->owners - 1;
    yk_server_tell(s, &n, s->counted, s->rule->workers * sizeof *s->counted);
}

void yk_server_resume(struct yk_server *s, enum yk_verdict verdict)
{
    if (s->hold.still && verdict != YK_HOLD)
        resume_with(s, verdict);
}

void yk_server_be_still(struct yk_server *s)
{
    struct yk_note n = {.kind = YK_ANSWER, .first = YK_STILL, .id = s->hold.id};
    if (!yk_server_is_level(s, s->hold.step))
        return;
    s->hold.wanted = false;
    yk_server_send(s, 0, &n, NULL, 0);
}

/* --- questions, at the owner that is asked --- */

static size_t range_of(const struct yk_server *s)
{
    return s->owner.hi - s->owner.lo;
}

/* Copy the range. */
static bool keep(struct yk_server *s)
{
    yk_server_let_go(s);
    for (unsigned i = 0; i <= s->owner.slots; i++) {
        if (s->hold.kept[i] != NULL || (s->hold.kept[i] = yk_floats(range_of(s))) == NULL)
            return false;
        memcpy(s->hold.kept[i], yk_server_state(s, i), range_of(s) * sizeof(float));
    }
    return true;
}

/* n floats of the copy or, if there is none, of the state; NULL if they are not there. */
static const float *piece(const struct yk_server *s, unsigned which, uint64_t lo, uint64_t n)
{
    if (which > s->owner.slots || lo < s->owner.lo || lo > s->owner.hi || n > s->owner.hi - lo)
        return NULL;
    const float *state = s->hold.kept[which] != NULL && !s->hold.unwanted
                             ? s->hold.kept[which]
                             : yk_server_state(s, which);
    return state + (lo - s->owner.lo);
}

static void read_for(struct yk_server *s, const struct yk_note *question, const uint32_t *key)
{
    struct yk_note n = {
        .kind = YK_ANSWER, .first = YK_READ, .id = question->id, .flags = YK_LAST_FLAG, .to = 0};
    size_t keys = question->bytes / sizeof *key;
    bool fits = question->bytes % sizeof *key == 0 && (keys == 0 || key != NULL) &&
                yk_keys_ok(key, keys, s->owner.lo, s->owner.hi);
    struct yk_box *box = fits ? yk_boxes_take(&s->keys.out, question->bytes) : NULL;
    if (box == NULL) {
        n.flags = 0;
        yk_server_send(s, 0, &n, NULL, 0);
        return;
    }
    yk_owner_read_keys(&s->owner, key, box->data, keys);
    n.from = (uint16_t)s->index;
    yk_comm_send(s->comm, &n, box->data, question->bytes, &box->sending);
}

static void fetch_for(struct yk_server *s, const struct yk_note *question)
{
    struct yk_note n = {.kind = YK_ANSWER,
                        .first = YK_FETCH,
                        .id = question->id,
                        .flags = YK_LAST_FLAG,
                        .from = (uint16_t)s->index};
    const float *from = piece(s, question->first, question->lo, question->word);
    if (from == NULL)
        n.flags = 0;
    yk_comm_send(s->comm, &n, from, from != NULL ? question->word * sizeof(float) : 0,
                 &s->hold.reading);
}

static void keep_for(struct yk_server *s, const struct yk_note *question)
{
    struct yk_note n = {.kind = YK_ANSWER, .first = YK_KEEP, .id = question->id};
    if (!(question->flags & YK_LAST_FLAG)) {
        yk_server_let_go(s);
        return;
    }
    n.flags = keep(s) ? YK_LAST_FLAG : 0;
    yk_server_send(s, 0, &n, NULL, 0);
}

static void be_asked(struct yk_server *s, const struct yk_note *n, const uint64_t *count)
{
    if (n->bytes != s->rule->workers * sizeof *count || count == NULL)
        return;
    memcpy(s->counted, count, n->bytes);
    s->hold.wanted = true;
    s->hold.step = n->step;
    s->hold.id = n->id;
    yk_server_be_still(s);
}

/* --- answers, at owner 0 --- */

static size_t expected(const struct yk_server *s, unsigned owner)
{
    return s->hold.call.at != NULL
               ? (s->hold.call.at[owner + 1] - s->hold.call.at[owner]) * sizeof(float)
               : 0;
}

static void take_answer(struct yk_server *s, const struct yk_note *n, const float *data)
{
    bool refused = !(n->flags & YK_LAST_FLAG);
    if (n->first == YK_STILL) {
        if (s->hold.asked && n->id == s->hold.id && s->hold.missing > 0 && --s->hold.missing == 0)
            stand_still(s);
        return;
    }
    if (n->id != s->hold.call.id || s->hold.call.missing == 0 || n->from >= s->comm->owners)
        return;
    if (!refused && (n->bytes != expected(s, n->from) || (n->bytes > 0 && data == NULL)))
        refused = true;
    if (!refused && n->bytes > 0)
        memcpy(s->hold.call.to + s->hold.call.at[n->from], data, n->bytes);
    s->hold.call.refused = s->hold.call.refused || refused;
    s->hold.call.missing--;
}

void *yk_server_place_hold(struct yk_server *s, const struct yk_note *n)
{
    bool wanted = false;
    if (n->kind == YK_STATE)
        return n->bytes % sizeof(float) == 0 &&
                       piece(s, n->first, n->lo, n->bytes / sizeof(float)) != NULL
                   ? yk_server_state(s, n->first) + (n->lo - s->owner.lo)
                   : NULL;
    if (n->kind == YK_READ)
        wanted = n->bytes <= range_of(s) * sizeof(uint32_t);
    else if (n->kind == YK_STILL)
        wanted = n->bytes == s->rule->workers * sizeof *s->counted;
    else if (n->kind == YK_ANSWER && n->from < s->comm->owners)
        wanted = n->id == s->hold.call.id && s->hold.call.missing > 0 &&
                 n->bytes == expected(s, n->from);
    struct yk_box *box = wanted ? yk_boxes_take(&s->keys.in, n->bytes) : NULL;
    if (box == NULL)
        return NULL;
    box->busy = true;
    return box->data;
}

void yk_server_arrive_hold(struct yk_server *s, const struct yk_note *n, const void *data)
{
    struct yk_box *box = data != NULL ? yk_boxes_around(&s->keys.in, data) : NULL;
    if (n->kind == YK_ANSWER && s->clock != NULL)
        take_answer(s, n, data);
    else if (n->kind == YK_STILL && s->clock == NULL)
        be_asked(s, n, data);
    else if (n->kind == YK_READ)
        read_for(s, n, data);
    else if (n->kind == YK_KEEP)
        keep_for(s, n);
    else if (n->kind == YK_FETCH)
        fetch_for(s, n);
    if (box != NULL)
        box->busy = false;
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
    uint64_t id = ++s->hold.call.id;
    s->hold.call.missing = missing;
    s->hold.call.at = at;
    s->hold.call.to = to;
    s->hold.call.refused = false;
    unlock(s, 0);
    return id;
}

/* The question is over: what comes late has nowhere to go. Under the lock. */
static void close_call(struct yk_server *s)
{
    s->hold.call.missing = 0;
    s->hold.call.at = NULL;
}

/* Until all have answered or, if there is a box, the engine has let go of it. */
static yk_code end(struct yk_server *s, const struct yk_box *box, struct yk_error *e)
{
    struct yk_comm *c = s->comm;
    yk_code rc = YK_OK;
    for (bool over = false; !over;) {
        unsigned seen = c->ops->seen(c, 0);
        lock(s, 0);
        bool sent = box == NULL || atomic_load_explicit(&box->sending, memory_order_acquire) == 0;
        over = (s->hold.call.missing == 0 && sent) || s->failed != YK_OK;
        if (s->failed != YK_OK)
            rc = yk_fail(e, s->failed, "%s", s->why);
        else if (over && s->hold.call.refused)
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

/* Send a question, and with it a copy of its data, because a lost owner may keep the engine from ever letting go of them. */
static struct yk_box *ask(struct yk_server *s, unsigned owner, struct yk_note *n, const void *data,
                          size_t bytes)
{
    struct yk_box *box = NULL;
    n->from = 0;
    n->to = (uint16_t)owner;
    if (bytes > 0) {
        lock(s, 0);
        box = yk_boxes_take(&s->keys.out, bytes);
        if (box != NULL) {
            memcpy(box->data, data, bytes);
            atomic_fetch_add(&box->sending, 1); /* until it is on its way nobody else takes it */
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
        struct yk_note question = {.kind = YK_READ, .id = begin(s, owners - here, at, out)};
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
    struct yk_note question = {
        .kind = YK_KEEP, .flags = YK_LAST_FLAG, .id = begin(s, s->rule->owners - here, NULL, NULL)};
    for (unsigned k = here; k < s->rule->owners; k++)
        ask(s, k, &question, NULL, 0);
    for (unsigned k = 0; k < here; k++) {
        lock(s, (int)k);
        kept = keep(&s[k]) && kept;
        unlock(s, (int)k);
    }
    yk_code rc = end(s, NULL, e);
    if (rc == YK_OK && !kept)
        rc = yk_fail_memory(e, range_of(s) * sizeof(float) * (1 + s->owner.slots));
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
        yk_server_let_go(&s[k]);
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
        .kind = YK_FETCH, .first = which, .lo = lo, .word = n, .id = begin(s, 1, at, to)};
    ask(s, owner, &question, NULL, 0);
    rc = end(s, NULL, e);
    free(at);
    return rc;
}

yk_code yk_server_put(struct yk_server *s, unsigned here, unsigned owner, unsigned which, size_t lo,
                      size_t n, const float *from, struct yk_error *e)
{
    if (owner >= here) {
        struct yk_note note = {.kind = YK_STATE, .first = which, .lo = lo};
        const struct yk_box *box = ask(s, owner, &note, from, n * sizeof *from);
        return box != NULL || n == 0 ? end(s, box, e) : yk_fail_memory(e, n * sizeof *from);
    }
    lock(s, (int)owner);
    bool there = piece(&s[owner], which, lo, n) != NULL;
    if (there)
        memcpy(yk_server_state(&s[owner], which) + (lo - s[owner].owner.lo), from,
               n * sizeof *from);
    unlock(s, (int)owner);
    return there ? YK_OK
                 : yk_fail(e, YK_FAILED, "owner %u does not own the parameters from %zu on", owner,
                           lo);
}
