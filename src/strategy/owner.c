/* owner.c - applies pushed gradients to the range it owns; see owner.h.
 * THREADS: one thread at a time; nothing here blocks. */
#include "strategy/owner.h"

#include "param/param.h"

yk_code yk_owner_init(struct yk_owner *o, const struct yk_optimizer_ops *optimizer, const struct yk_schedule *schedule, double lr,
                      const struct yk_update *update, float *weights, size_t lo, size_t hi, struct yk_error *e)
{
    *o = (struct yk_owner){
        .optimizer = optimizer, .schedule = *schedule, .lr = lr, .update = *update, .weights = weights, .lo = lo, .hi = hi};
    for (unsigned i = 0; i < optimizer->slots; i++) {
        o->slot[i] = yk_floats(hi - lo);
        if (o->slot[i] == NULL) {
            yk_owner_release(o);
            return yk_fail_memory(e, (hi - lo) * sizeof(float));
        }
    }
    return YK_OK;
}

void yk_owner_release(struct yk_owner *o)
{
    for (unsigned i = 0; i < YK_SLOTS; i++)
        yk_floats_free(o->slot[i]);
    *o = (struct yk_owner){0};
}

void yk_owner_begin(struct yk_owner *o, uint32_t examples)
{
    o->update.lr = (float)yk_schedule_at(&o->schedule, o->lr, o->step);
    o->update.scale = 1.0f / (float)examples;
    o->update.step = o->step;
}

void yk_owner_apply(struct yk_owner *o, const float *grad, size_t lo, size_t hi)
{
    float *slot[YK_SLOTS];
    for (unsigned i = 0; i < o->optimizer->slots; i++)
        slot[i] = o->slot[i] + (lo - o->lo);
    o->optimizer->apply(&o->update, o->weights + lo, grad + lo, slot, hi - lo);
}

void yk_owner_finish(struct yk_owner *o)
{
    o->step++;
}
