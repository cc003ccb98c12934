/* sparse.h - what the optimizers' loops over keys have in common; private to this folder.
 *
 * A loop gathers a strip of keys into small arrays, computes on those with the very expressions of the dense loop, and scatters them
 * back: the arithmetic (roots, divisions) is then done in vectors, and the loads of a strip overlap. The last few are padded with
 * zeros to whole vectors, which every formula here survives, and not scattered.
 * THREADS: none of their own; everything is inline. */
#ifndef YK_OPTIM_SPARSE_H
#define YK_OPTIM_SPARSE_H

#include "optim/optim.h"

#include <math.h>
#include <string.h>

#define YK_INLINE static inline __attribute__((always_inline))

enum { LANES = 16, STRIP = 64 }; /* floats of the widest vector; keys that are computed together */

/* Keys of the next strip, if so many are left. */
YK_INLINE size_t strip(size_t left)
{
    return left < STRIP ? left : STRIP;
}

/* m, in whole vectors. */
YK_INLINE size_t padded(size_t m)
{
    return (m + LANES - 1) / LANES * LANES;
}

/* The index of a key. The empty instruction keeps the compiler from taking keys in vectors, only to take the vectors apart again. */
YK_INLINE size_t index_of(uint32_t key, uint32_t base)
{
    size_t i = key - base;
    __asm__("" : "+r"(i));
    return i;
}

/* Clears the last vector of m values, m >= 1, which they may not fill. */
YK_INLINE void pad(float *to, size_t m)
{
    memset(to + (m - 1) / LANES * LANES, 0, LANES * sizeof *to);
}

/* to[0..m) = from[0..m), and zeros up to whole vectors. */
YK_INLINE void copy(float *restrict to, const float *restrict from, size_t m)
{
    size_t whole = m / LANES * LANES;
    pad(to, m);
    for (size_t j = 0; j < whole; j += LANES)
        memcpy(to + j, from + j, LANES * sizeof *to);
    for (size_t j = whole; j < m; j++)
        to[index_of((uint32_t)j, 0)] = from[j];
}

/* The same of m keys; without keys, a copy. */
YK_INLINE void gather(float *restrict to, const float *restrict from, uint32_t base,
                      const uint32_t *restrict key, size_t m)
{
    if (key == NULL) {
        copy(to, from, m);
        return;
    }
    pad(to, m);
    for (size_t j = 0; j < m; j++)
        to[j] = from[index_of(key[j], base)];
}

YK_INLINE void scatter(float *restrict to, const float *restrict from, uint32_t base,
                       const uint32_t *restrict key, size_t m)
{
    for (size_t j = 0; j < m; j++)
        to[index_of(key[j], base)] = from[j];
}

/* to[key] = value for m keys. */
YK_INLINE void put(float *to, float value, uint32_t base, const uint32_t *key, size_t m)
{
    for (size_t j = 0; j < m; j++)
        to[index_of(key[j], base)] = value;
}

/* e^-y - 1 for y >= 0, to a unit or two in the last place, as vectors can do it: e^-y = 2^-k e^r. Adding 1.5 * 2^23 rounds to an integer
 * and leaves it in the low bits. */
YK_INLINE float shrink(float y)
{
    const float round = 0x1.8p23f;
    y = y < 80 ? y : 80;
    float rounded = y * 1.44269504f + round, k = rounded - round;
    float r = (k * 0.693359375f - y) +
              k * -2.12194440e-4f; /* k ln 2 - y; k times the first part is exact */
    float p = 1.0f / 720 + r * (1.0f / 5040);
    p = 1.0f / 120 + r * p;
    p = 1.0f / 24 + r * p;
    p = 1.0f / 6 + r * p;
    p = 0.5f + r * p;
    p = r + r * r * p;
    uint32_t bits;
    float power; /* 2^-k */
    memcpy(&bits, &rounded, sizeof bits);
    bits = (127 - bits) << 23;
    memcpy(&power, &bits, sizeof power);
    return power * p + (power - 1);
}

/* The regularizer as a flow; see optim.h. `decays` is known where a loop is compiled, so that it has no branch. */
struct flow {
    bool decays; /* l2 > 0 */
    float l1, l2;
    float ratio; /* l1 / l2 */
};

YK_INLINE struct flow flow_of(const struct yk_update *u, bool decays)
{
    float ratio = decays ? u->l1 / u->l2 : 0;
    return (struct flow){
        .decays = decays, .l1 = u->l1, .l2 = u->l2, .ratio = ratio < 3e38f ? ratio : 3e38f};
}

/* What a value is when the flow has acted for the time x. Not-a-number stays what it is. */
YK_INLINE float flowed(struct flow f, float w, float x)
{
    float size = fabsf(w);
    if (f.decays)
        size += (size + f.ratio) * shrink(f.l2 * x);
    else
        size -= f.l1 * x;
    return copysignf(size < 0 ? 0 : size, w);
}

/* Updates that a value with this `seen` has missed. One that the step in progress has touched already has missed none. */
YK_INLINE uint32_t missed(uint64_t step, float seen)
{
    uint32_t bits;
    memcpy(&bits, &seen, sizeof bits);
    uint32_t gap = (uint32_t)step - bits;
    return gap < UINT32_C(1) << 31 ? gap : 0;
}

/* What `seen` is when the update in progress has been applied. */
YK_INLINE float seen_now(uint64_t step)
{
    uint32_t bits = (uint32_t)(step + 1);
    float seen;
    memcpy(&seen, &bits, sizeof seen);
    return seen;
}

/* sum[j] = the rates that a value with seen[j] has missed, added up. */
void yk_missed_rates(const struct yk_update *u, const float *seen, float *sum, size_t m);

#endif
