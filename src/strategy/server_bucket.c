/* server_bucket.c - whole batches, range by range: an owner's range is cut into *buckets*, and what a step does to one is done when
 * every shard has sent its part of it, while the rest is still computed and sent.
 *
 * A bucket is applied once a step: its sums are added over the tree, as all of the range would be, so its bits do not depend on when;
 * and the parameters go to everybody who takes part, at once. A step that is done again leaves the buckets that have been applied as
 * they are, because the same sums would come out.
 *
 * What became complete last is what the next forward pass reads first, so of the parameters that wait for the wire the latest go first,
 * and all gradients of the step go before them: it is not complete without those (strategy.h).
 * THREADS: under the owner's lock.
 * LIMITS: a push has a buffer of the whole range as before, so memory does not depend on how far workers are apart. */
#include "strategy/server.h"

#include "strategy/server_parts.h"

#include <stdlib.h>

static size_t bucket_at(const struct yk_server *s,
                        unsigned i) /* where it begins; the last ends with the range */
{
    size_t at = s->owner.lo + i * yk_rule_bucket(s->rule);
    return at < s->owner.hi ? at : s->owner.hi;
}

void yk_server_open_buckets(struct yk_server *s, bool again)
{
    struct yk_server_buckets *b = &s->buckets;
    for (unsigned i = 0; i < b->n; i++) {
        b->applied[i] = again && b->applied[i];
        b->due[i] =
            b->applied[i] ? 0 : (uint64_t)(bucket_at(s, i + 1) - bucket_at(s, i)) * s->rule->shards;
    }
    b->closed = again ? b->closed : 0;
}

static int by_first(const void *a, const void *b)
{
    const struct yk_block *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* The parameters of bucket i, as of the step that is being made, to worker w. */
static void send_bucket(struct yk_server *s, unsigned w, unsigned i)
{
    size_t lo = bucket_at(s, i), n = bucket_at(s, i + 1) - lo;
    struct yk_note note = {.kind = YK_PIECE,
                           .urgency = yk_urgency(s->buckets.closed, false),
                           .step = s->owner.step + 1,
                           .lo = lo};
    if (s->pack.out != NULL)
        yk_server_send_packed(s, w, &note, n);
    else
        yk_server_send(s, yk_worker_endpoint(s->comm, (int)w), &note, s->owner.weights + lo,
                       n * sizeof(float));
}

/* All shards are here with their part of bucket i. Unless one of them was sent by somebody who is lost: then all of it comes again. */
static void apply_bucket(struct yk_server *s, unsigned i)
{
    uint32_t n = 0, shards = 0, examples = 0;
    size_t lo = bucket_at(s, i), hi = bucket_at(s, i + 1);
    for (unsigned k = 0; k < s->table.n; k++) {
        const struct yk_push *p = &s->table.push[k];
        if (!p->used)
            continue;
        s->block[n++] = (struct yk_block){
            .first = p->first, .last = p->last, .sum = p->sum, .origin = p->origin};
        shards += p->last - p->first;
        examples += p->examples;
    }
    if (shards != s->rule->shards)
        return;
    qsort(s->block, n, sizeof *s->block, by_first);
    yk_owner_apply_blocks(&s->owner, s->block, s->rule->shards, lo, hi, examples);
    s->buckets.applied[i] = true;
    if (s->comm->shared && s->pack.out == NULL) /* all threads read the same ones */
        return;
    if (s->pack.out != NULL)
        yk_server_pack_bucket(s, lo, hi - lo);
    for (unsigned w = 0; w < s->rule->workers; w++) {
        bool takes_part = false;
        for (unsigned k = 0; k < s->table.n && !takes_part; k++)
            takes_part = s->table.push[k].used && s->table.push[k].worker == w;
        if (takes_part)
            send_bucket(s, w, i);
    }
    s->buckets.closed++;
}

void yk_server_fill_buckets(struct yk_server *s, const struct yk_push *p, size_t lo, size_t hi)
{
    struct yk_server_buckets *b = &s->buckets;
    for (unsigned i = (unsigned)((lo - s->owner.lo) / yk_rule_bucket(s->rule));
         i < b->n && bucket_at(s, i) < hi; i++) {
        size_t from = bucket_at(s, i) > lo ? bucket_at(s, i) : lo,
               to = bucket_at(s, i + 1) < hi ? bucket_at(s, i + 1) : hi;
        uint64_t part = (uint64_t)(to - from) * (p->last - p->first);
        if (b->applied[i] || b->due[i] == 0)
            continue;
        b->due[i] -= part < b->due[i] ? part : b->due[i];
        if (b->due[i] == 0)
            apply_bucket(s, i);
    }
}

yk_code yk_server_init_buckets(struct yk_server *s, struct yk_error *e)
{
    struct yk_server_buckets *b = &s->buckets;
    size_t size = yk_rule_bucket(s->rule);
    b->n = (unsigned)((s->owner.hi - s->owner.lo + size - 1) / size);
    b->due = calloc(b->n + 1, sizeof *b->due);
    b->applied = calloc(b->n + 1, sizeof *b->applied);
    if (b->due == NULL || b->applied == NULL)
        return yk_fail_memory(e, b->n * sizeof *b->due);
    yk_server_open_buckets(s, false);
    return YK_OK;
}

void yk_server_release_buckets(struct yk_server *s)
{
    free(s->buckets.due);
    free(s->buckets.applied);
}
