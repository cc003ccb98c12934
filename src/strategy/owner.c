/* owner.c - applies pushed gradients to the range it owns; see owner.h.
 * THREADS: one thread at a time; nothing here blocks. */
#include "strategy/owner.h"

#include "base/wide.h"

#include <string.h>

enum { PIECE = 64 }; /* keys of a dense step that are made at a time */

size_t yk_owner_at(unsigned k, unsigned n, size_t count)
{
    size_t lines = (count + 15) / 16, at = lines * k / n * 16; /* lines < 2^50: no overflow */
    return at < count ? at : count;
}

void yk_owner_init(struct yk_owner *o, const struct yk_recipe *recipe, float *weights,
                   float *const *slot, size_t lo, size_t hi)
{
    *o = (struct yk_owner){.optimizer = recipe->optimizer,
                           .schedule = recipe->schedule,
                           .lr = recipe->lr,
                           .update = recipe->constants,
                           .clip = recipe->clip,
                           .weights = weights,
                           .lo = lo,
                           .hi = hi};
    o->update.step = UINT64_MAX; /* of no update yet: the first one asks for its rate */
    o->span = recipe->span;
    o->spans = recipe->spans;
    o->bias.schedule = recipe->bias.schedule;
    o->bias.lr = recipe->bias.lr;
    o->bias.update = o->update;
    o->bias.update.momentum = recipe->bias.momentum;
    o->bias.update.decay = recipe->bias.decay;
    o->slots = yk_recipe_slots(recipe);
    o->update.lazy = o->slots > o->optimizer->slots;
    for (unsigned i = 0; i < o->slots; i++)
        o->slot[i] = slot[i];
}

static void update(const struct yk_schedule *schedule, double lr, struct yk_update *u,
                   uint64_t step, uint32_t examples)
{
    bool steady = schedule->shape == YK_CONSTANT && schedule->warmup == 0;
    if (u->step != step) {
        if (!steady || u->step == UINT64_MAX)
            u->lr = (float)yk_schedule_at(schedule, lr, step);
        u->step = step;
    }
    u->base_lr = lr;
    u->schedule = steady ? NULL : schedule; /* every time: an owner may have moved in memory */
    u->scale = 1.0f / (float)examples;
}

void yk_owner_update(const struct yk_owner *o, struct yk_update *u, uint64_t step,
                     uint32_t examples)
{
    update(&o->schedule, o->lr, u, step, examples);
}

static void begin(struct yk_owner *o, uint32_t examples)
{
    yk_owner_update(o, &o->update, o->step, examples);
    if (o->spans > 0)
        update(&o->bias.schedule, o->bias.lr, &o->bias.update, o->step, examples);
}

/* Nothing is prefetched here: the optimizers gather many keys before they compute, and asking
 * for a piece of 64 keys ahead of that was measured to be slower. */
void yk_owner_apply_keys(struct yk_owner *o, const uint32_t *key, const float *grad, size_t n,
                         uint32_t examples)
{
    begin(o, examples);
    o->optimizer->apply_keys(&o->update, o->weights, o->slot, (uint32_t)o->origin, key, grad, n);
}

void yk_owner_read_keys(struct yk_owner *o, const uint32_t *key, float *out, size_t n)
{
    begin(o, 1);
    o->optimizer->read_keys(&o->update, o->weights, o->slot, (uint32_t)o->origin, key, out, n);
}

/* Where [lo, hi) first passes from one group to another; *group: the group of lo. */
static size_t group_end(const struct yk_owner *o, size_t lo, size_t hi, enum yk_group *group)
{
    size_t first = 0, last = o->spans; /* the first span that ends behind lo */
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (o->span[middle].hi > lo)
            last = middle;
        else
            first = middle + 1;
    }
    bool inside = first < o->spans && o->span[first].lo <= lo;
    size_t end = first == o->spans ? hi : inside ? o->span[first].hi : o->span[first].lo;
    *group = inside ? o->span[first].group : YK_WEIGHTS;
    return end < hi ? end : hi;
}

YK_WIDE static void subtract(float *restrict w, const float *restrict g, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= scale * g[i];
}

YK_WIDE static void limit(const float *restrict g, float most, float *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = g[i] > most ? most : g[i];
        out[i] = x < -most ? -most : x;
    }
}

static void apply_group(struct yk_owner *o, const struct yk_update *u, const float *grad, size_t lo,
                        size_t n)
{
    _Alignas(64) float limited[YK_SUM_CHUNK];
    float *slot[YK_SLOTS];
    size_t piece = o->clip > 0 && n > YK_SUM_CHUNK ? YK_SUM_CHUNK : n;
    for (size_t i = 0; i < n; i += piece) {
        size_t m = n - i < piece ? n - i : piece, at = lo + i - o->origin;
        const float *g = grad + i;
        if (o->clip > 0) {
            limit(g, o->clip / u->scale, limited, m); /* g is a sum, not yet the mean */
            g = limited;
        }
        for (unsigned k = 0; k < o->slots; k++)
            slot[k] = o->slot[k] + at;
        o->optimizer->apply(u, o->weights + at, g, slot, m);
    }
}

static void apply(struct yk_owner *o, const float *grad, size_t lo, size_t n)
{
    if (o->update.lazy) { /* a dense step of a sparse run */
        uint32_t key[PIECE];
        for (size_t i = 0; i < n; i += PIECE) {
            size_t m = n - i < PIECE ? n - i : PIECE;
            for (size_t j = 0; j < m; j++)
                key[j] = (uint32_t)(lo + i + j);
            o->optimizer->apply_keys(&o->update, o->weights, o->slot, (uint32_t)o->origin, key,
                                     grad + i, m);
        }
        return;
    }
    for (size_t at = lo, end; at < lo + n; at = end) {
        enum yk_group group;
        end = group_end(o, at, lo + n, &group);
        if (group == YK_STATISTICS)
            subtract(o->weights + (at - o->origin), grad + (at - lo), o->update.scale, end - at);
        else
            apply_group(o, group == YK_BIASES ? &o->bias.update : &o->update, grad + (at - lo), at,
                        end - at);
    }
}

void yk_owner_read(struct yk_owner *o, float *out, size_t lo, size_t hi)
{
    const float *from = o->weights + (lo - o->origin);
    float *slot[YK_SLOTS];
    if (!o->update.lazy) {
        memmove(out, from, (hi - lo) * sizeof *out);
        return;
    }
    begin(o, 1);
    for (unsigned i = 0; i < o->slots; i++)
        slot[i] = o->slot[i] + (lo - o->origin);
    o->optimizer->read_keys(&o->update, from, slot, 0, NULL, out, hi - lo);
}

void yk_owner_apply(struct yk_owner *o, const float *grad, size_t origin, size_t lo, size_t hi,
                    uint32_t examples)
{
    begin(o, examples);
    apply(o, grad + (lo - origin), lo, hi - lo);
}

void yk_owner_apply_blocks(struct yk_owner *o, const struct yk_block *block, uint32_t v, size_t lo,
                           size_t hi, uint32_t examples)
{
    _Alignas(64) float row[YK_SUM_DEPTH][YK_SUM_CHUNK];
    begin(o, examples);
    for (size_t at = lo, end; at < hi; at = end) {
        end = hi - at < YK_SUM_CHUNK ? hi : at + YK_SUM_CHUNK;
        apply(o, yk_tree_sum(block, v, at, end, row), at, end - at);
    }
}

void yk_owner_finish(struct yk_owner *o)
{
    o->step++;
}
