/* momentum.c - heavy-ball momentum: v = mu v + g + (l2 + decay) w; w -= lr v.
 *
 * The rate is not part of v, so a change of the rate acts at once.
 * SPARSE: an untouched key glides on. A step without a gradient is linear in (w, v), a 2 x 2
 * matrix, so k steps at one rate are its k-th power, in log k products. Under a schedule the first
 * STEPWISE steps, which do most of the gliding (all but e^-13 at mu = 0.9), are taken one by one,
 * and the others in stretches that grow with the distance, each at its mean rate. */
#include "optim/sparse.h"

enum { STEPWISE = 128 };

YK_INLINE void step(const struct yk_update *u, float *w, float *v, float g)
{
    *v = u->momentum * *v + u->scale * g;
    *w -= u->lr * *v;
}

YK_INLINE void regularized(const struct yk_update *u, float *w, float *v, float g)
{
    *v = u->momentum * *v + (u->scale * g + u->l2 * *w);
    *w -= u->lr * *v;
}

YK_WIDE static void apply(const struct yk_update *u, float *restrict w, const float *restrict g,
                          float *const *slot, size_t n)
{
    struct yk_update c = *u;
    float *restrict v = slot[0]; /* (n) velocity */
    c.l2 += c.decay;
    if (c.l2 > 0) {
        for (size_t i = 0; i < n; i++)
            regularized(&c, &w[i], &v[i], g[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            step(&c, &w[i], &v[i], g[i]);
    }
}

/* Takes n steps without a gradient at the rate lr: (w, v) <- M^n (w, v). */
static void glide(const struct yk_update *u, double lr, uint32_t n, double *w, double *v)
{
    double mu = (double)u->momentum, l2 = (double)u->l2;
    double a = 1 - lr * l2, b = -lr * mu, c = l2, d = mu; /* M = (a b; c d) */
    for (; n > 0; n >>= 1) {
        if (n & 1) {
            double x = a * *w + b * *v;
            *v = c * *w + d * *v;
            *w = x;
        }
        double trace = a + d, bc = b * c;
        a = a * a + bc;
        d = d * d + bc;
        b *= trace;
        c *= trace;
    }
}

/* Brings value and velocity to their state before u->step. */
static void catch_up(const struct yk_update *u, float seen, float *w, float *v)
{
    uint32_t gap = missed(u->step, seen);
    if (gap == 0 || (*v == 0 && (u->l2 == 0 || *w == 0)))
        return;
    double dw = (double)*w, dv = (double)*v;
    if (u->schedule == NULL) {
        glide(u, (double)u->lr, gap, &dw, &dv);
    } else {
        uint64_t at = u->step - gap;
        for (uint32_t done = 0; done < gap && (dv != 0 || dw != 0);) {
            uint32_t n = done < STEPWISE ? 1 : done / 8;
            if (n > gap - done)
                n = gap - done;
            double lr =
                n == 1 ? yk_schedule_at(u->schedule, u->base_lr, at + done)
                       : yk_schedule_sum(u->schedule, u->base_lr, at + done, at + done + n) / n;
            glide(u, lr, n, &dw, &dv);
            done += n;
        }
    }
    *w = (float)dw;
    *v = (float)dv;
}

static void apply_keys(const struct yk_update *u, float *w, float *const *slot, uint32_t base,
                       const uint32_t *key, const float *g, size_t n)
{
    float now = seen_now(u->step);
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key[i] - base;
        float *v = &slot[0][k], *seen = &slot[1][k];
        catch_up(u, *seen, &w[k], v);
        if (u->l2 > 0)
            regularized(u, &w[k], v, g[i]);
        else
            step(u, &w[k], v, g[i]);
        *seen = now;
    }
}

static void read_keys(const struct yk_update *u, const float *w, float *const *slot, uint32_t base,
                      const uint32_t *key, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = key != NULL ? key[i] - base : i;
        float value = w[k], v = slot[0][k];
        catch_up(u, slot[1][k], &value, &v);
        out[i] = value;
    }
}

const struct yk_optimizer_ops yk_optimizer_momentum = {
    .name = "momentum",
    .help = "v = mu v + g + l2 w; w -= lr v",
    .lr = 0.01,
    .uses = "momentum|l2|weight-decay",
    .slots = 1,
    .slot = {"velocity", "seen"},
    .lazy = YK_LAZY_ALWAYS,
    .apply = apply,
    .apply_keys = apply_keys,
    .read_keys = read_keys,
};
