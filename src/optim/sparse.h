/* sparse.h - the common parts of the optimizers' loops over keys; private to this folder.
 *
 * A loop gathers a strip of keys into small arrays, computes on them with the very expressions of
 * the dense loop, and scatters the results. So roots and divisions are done in vectors, and the
 * loads of a strip overlap. The last values are padded with zeros to whole vectors, which every
 * formula here tolerates; the padding is not scattered. */
#ifndef YK_OPTIM_SPARSE_H
#define YK_OPTIM_SPARSE_H

#include "base/wide.h"
#include "optim/optim.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 16, /* floats of the widest vector */
    STRIP = 64, /* keys that are computed together */
};

/* The number of keys in the next strip if `left` keys are left. */
YK_INLINE size_t strip(size_t left)
{
    return left < STRIP ? left : STRIP;
}

/* m rounded up to whole vectors. */
YK_INLINE size_t padded(size_t m)
{
    return (m + LANES - 1) / LANES * LANES;
}

/* The index of a key. The empty instruction keeps the compiler from loading keys as vectors, only
 * to take the vectors apart again. */
YK_INLINE size_t index_of(uint32_t key, uint32_t base)
{
    size_t i = key - base;
    __asm__("" : "+r"(i));
    return i;
}

/* Clears the last vector of m >= 1 values, which may be only partly used. */
YK_INLINE void pad(float *to, size_t m)
{
    memset(to + (m - 1) / LANES * LANES, 0, LANES * sizeof *to);
}

/* Copies m values and pads them with zeros to whole vectors. */
YK_INLINE void copy(float *restrict to, const float *restrict from, size_t m)
{
    size_t whole = m / LANES * LANES;
    pad(to, m);
    for (size_t j = 0; j < whole; j += LANES)
        memcpy(to + j, from + j, LANES * sizeof *to);
    for (size_t j = whole; j < m; j++)
        to[index_of((uint32_t)j, 0)] = from[j];
}

/* The same for the values of m keys, or a copy if `key` is NULL. */
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

/* Sets the values of m keys. */
YK_INLINE void put(float *to, float value, uint32_t base, const uint32_t *key, size_t m)
{
    for (size_t j = 0; j < m; j++)
        to[index_of(key[j], base)] = value;
}

/* e^-y - 1 for y >= 0, to a unit or two in the last place, in operations that vectors have:
 * e^-y = 2^-k e^r. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
YK_INLINE float shrink(float y)
{
    const float round = 0x1.8p23f;
    y = y < 80 ? y : 80;
    float rounded = y * 1.44269504f + round, k = rounded - round;
    /* k ln 2 - y; k times the first part of ln 2 is exact */
    float r = (k * 0.693359375f - y) + k * -2.12194440e-4f;
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

/* The flow of l1 and l2; see optim.h. `decays` is a constant where a loop is compiled, so the loop
 * has no branch. */
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

/* The value w after the flow has acted for the time x. NaN stays NaN. */
YK_INLINE float flowed(struct flow f, float w, float x)
{
    float size = fabsf(w);
    if (f.decays)
        size += (size + f.ratio) * shrink(f.l2 * x);
    else
        size -= f.l1 * x;
    return copysignf(size < 0 ? 0 : size, w);
}

/* The number of updates that a value with this `seen` has missed: 0 if the current step has already
 * touched it. */
YK_INLINE uint32_t missed(uint64_t step, float seen)
{
    uint32_t bits;
    memcpy(&bits, &seen, sizeof bits);
    uint32_t gap = (uint32_t)step - bits;
    return gap < UINT32_C(1) << 31 ? gap : 0;
}

/* The value of `seen` after the current update. */
YK_INLINE float seen_now(uint64_t step)
{
    uint32_t bits = (uint32_t)(step + 1);
    float seen;
    memcpy(&seen, &bits, sizeof seen);
    return seen;
}

/* Sets sum[j] to the sum of the rates that a value with seen[j] has missed. */
void yk_missed_rates(const struct yk_update *u, const float *seen, float *sum, size_t m);

#endif
