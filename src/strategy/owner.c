/* owner.c - applies pushed gradients to the range it owns; see owner.h.
 * THREADS: one thread at a time; nothing here blocks. */
#include "strategy/owner.h"

#include <string.h>

enum { PIECE = 64 }; /* keys of a dense step that are made at a time */

size_t yk_owner_at(unsigned k, unsigned n, size_t count)
{
    size_t lines = (count + 15) / 16, at = lines * k / n * 16; /* fewer lines than 2^50: no overflow */
    return at < count ? at : count;
}

void yk_owner_init(struct yk_owner *o, const struct yk_recipe *recipe, float *weights, float *const *slot, size_t lo, size_t hi)
{
    *o = (struct yk_owner){.optimizer = recipe->optimizer,
                           .schedule = recipe->schedule,
                           .lr = recipe->lr,
                           .update = recipe->constants,
                           .weights = weights,
                           .lo = lo,
                           .hi = hi};
    o->update.step = UINT64_MAX; /* of no update yet: the first one asks for its rate */
    o->slots = yk_recipe_slots(recipe);
    o->update.lazy = o->slots > o->optimizer->slots;
    for (unsigned i = 0; i < o->slots; i++)
        o->slot[i] = slot[i];
}

void yk_owner_update(const struct yk_owner *o, struct yk_update *u, uint64_t step, uint32_t examples)
{
    bool steady = o->schedule.shape == YK_CONSTANT && o->schedule.warmup == 0;
    if (u->step != step) {
        if (!steady || u->step == UINT64_MAX)
            u->lr = (float)yk_schedule_at(&o->schedule, o->lr, step);
        u->step = step;
    }
    u->base_lr = o->lr;
    u->schedule = steady ? NULL : &o->schedule; /* every time: an owner may have moved in memory */
    u->scale = 1.0f / (float)examples;
}

static void begin(struct yk_owner *o, uint32_t examples)
{
    yk_owner_update(o, &o->update, o->step, examples);
}

/* Nothing is prefetched here: the optimizers gather many keys before they compute, and asking for a piece of 64 keys ahead of
 * that was measured to be slower. */
void yk_owner_apply_keys(struct yk_owner *o, const uint32_t *key, const float *grad, size_t n, uint32_t examples)
{
    begin(o, examples);
    o->optimizer->apply_keys(&o->update, o->weights, o->slot, (uint32_t)o->origin, key, grad, n);
}

void yk_owner_read_keys(struct yk_owner *o, const uint32_t *key, float *out, size_t n)
{
    begin(o, 1);
    o->optimizer->read_keys(&o->update, o->weights, o->slot, (uint32_t)o->origin, key, out, n);
}

static void apply(struct yk_owner *o, const float *grad, size_t lo, size_t n)
{
    float *slot[YK_SLOTS];
    if (o->update.lazy) { /* a dense step of a sparse run */
        uint32_t key[PIECE];
        for (size_t i = 0; i < n; i += PIECE) {
            size_t m = n - i < PIECE ? n - i : PIECE;
            for (size_t j = 0; j < m; j++)
                key[j] = (uint32_t)(lo + i + j);
            o->optimizer->apply_keys(&o->update, o->weights, o->slot, (uint32_t)o->origin, key, grad + i, m);
        }
        return;
    }
    for (unsigned i = 0; i < o->slots; i++)
        slot[i] = o->slot[i] + (lo - o->origin);
    o->optimizer->apply(&o->update, o->weights + (lo - o->origin), grad, slot, n);
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

void yk_owner_apply(struct yk_owner *o, const float *grad, size_t origin, size_t lo, size_t hi, uint32_t examples)
{
    begin(o, examples);
    apply(o, grad + (lo - origin), lo, hi - lo);
}

void yk_owner_apply_blocks(struct yk_owner *o, const struct yk_block *block, uint32_t v, uint32_t examples)
{
    _Alignas(64) float row[YK_SUM_DEPTH][YK_SUM_CHUNK];
    begin(o, examples);
    for (size_t lo = o->lo; lo < o->hi; lo += YK_SUM_CHUNK) {
        size_t hi = o->hi - lo < YK_SUM_CHUNK ? o->hi : lo + YK_SUM_CHUNK;
        apply(o, yk_tree_sum(block, v, lo, hi, row), lo, hi - lo);
    }
}

void yk_owner_finish(struct yk_owner *o)
{
    o->step++;
}
