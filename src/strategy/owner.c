/* owner.c - applies pushed gradients to the range it owns; see owner.h.
 * THREADS: one thread at a time; nothing here blocks. */
#include "strategy/owner.h"

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
    for (unsigned i = 0; i < o->optimizer->slots; i++)
        o->slot[i] = slot[i];
}

static void begin(struct yk_owner *o, uint32_t examples)
{
    if (o->update.step != o->step) {
        o->update.lr = (float)yk_schedule_at(&o->schedule, o->lr, o->step);
        o->update.step = o->step;
    }
    o->update.scale = 1.0f / (float)examples;
}

static void apply(struct yk_owner *o, const float *grad, size_t lo, size_t n)
{
    float *slot[YK_SLOTS];
    for (unsigned i = 0; i < o->optimizer->slots; i++)
        slot[i] = o->slot[i] + lo;
    o->optimizer->apply(&o->update, o->weights + lo, grad, slot, n);
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
