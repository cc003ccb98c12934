/* logreg_isa.c - one row of sparse logistic regression: a few dozen weights to one logit, its loss
 * and its slope. Compiled once per instruction set.
 *
 * The sum: entry i goes to lane i % 16, the bias is entry n with value 1, and lanes are added
 * pairwise at the end. So the order depends on the row's length only, not on where its weights lie.
 * Scattered weights are put together by loads and inserts, which is twice as fast as the CPU's own
 * gather. Results are stored in whole vectors, because a wide load that has to wait for narrow
 * stores costs more than a row's arithmetic.
 *
 * With m = -y z, the margin by which the row is wrong, and e = exp(-|m|) in (0, 1], nothing
 * overflows and nothing cancels:
 *
 *     loss = max(m, 0) + log(1 + e)            log(1 + e) = 2 atanh(s), s = e / (2 + e) in (0, 1/3]
 *     |g|  = m > 0 ? 1/(1 + e) : e/(1 + e)     sign(g) = -y
 *
 * exp and atanh are polynomials by interpolation at Chebyshev nodes, good to 1e-8 and 2e-8 where
 * they are used, so that what is left is the rounding of floats. One row at a time is fast enough:
 * the next rows' sums run beside this row's polynomial.
 * LIMITS: exp(-|m|) is 0 from |m| = 87 on, where a float has no exponents left. */
#include "kernel/kernel.h"

#include <stdbool.h>
#include <string.h>
#if !defined(YK_ISA_plain)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

typedef float quad __attribute__((vector_size(16)));
typedef float quad_u __attribute__((vector_size(16), aligned(4)));

/* --- what a row reads --- */

INLINE float entry(const struct yk_picks *p, size_t i)
{
    float v;
    if (p->from != NULL)
        __atomic_load(p->from[i], &v, __ATOMIC_RELAXED);
    else
        v = p->w[p->at == NULL ? i : p->at[i]];
    return v;
}

INLINE quad quad_of(float a, float b, float c, float d)
{
#if defined(YK_ISA_plain)
    return (quad){a, b, c, d};
#else /* left alone, the compiler takes the way through general registers */
    quad q = _mm_insert_ps(_mm_set_ss(a), _mm_set_ss(b), 0x10);
    return _mm_insert_ps(_mm_insert_ps(q, _mm_set_ss(c), 0x20), _mm_set_ss(d), 0x30);
#endif
}

INLINE quad four(const struct yk_picks *p, size_t i)
{
    return quad_of(entry(p, i), entry(p, i + 1), entry(p, i + 2), entry(p, i + 3));
}

/* Entries i .. i + 3, the bias at n, zeros behind it. */
INLINE quad entries(const struct yk_picks *p, size_t i)
{
    if (i + 4 <= p->n)
        return four(p, i);
    if (i + 3 == p->n)
        return quad_of(entry(p, i), entry(p, i + 1), entry(p, i + 2), p->bias);
    if (i + 2 == p->n)
        return quad_of(entry(p, i), entry(p, i + 1), p->bias, 0);
    if (i + 1 == p->n)
        return quad_of(entry(p, i), p->bias, 0, 0);
    return i == p->n ? quad_of(p->bias, 0, 0, 0) : (quad){0};
}

/* --- 16 lanes, in what registers there are --- */

#if defined(YK_ISA_avx512)
typedef __m512 lanes;

INLINE lanes zero(void)
{
    return _mm512_setzero_ps();
}

INLINE lanes all(float x)
{
    return _mm512_set1_ps(x);
}

INLINE lanes join(quad a, quad b, quad c, quad d)
{
    __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1);
    __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(c), d, 1);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

INLINE void store(float *p, lanes v)
{
    _mm512_storeu_ps(p, v);
}

INLINE lanes add_product(lanes sum, lanes a, lanes b)
{
    return _mm512_fmadd_ps(a, b, sum);
}

/* a b + 0.0f, which takes the sign off a zero; written so that the compiler cannot fuse it, as a
 * product that rounds to -0.0 would stay so. */
INLINE lanes product(lanes a, lanes b)
{
    lanes p = _mm512_mul_ps(a, b);
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(p, _mm512_setzero_ps(), _CMP_NEQ_UQ), p);
}

/* Values i .. i + 15 of n, then a 1 for the bias and zeros. */
INLINE lanes values(const float *x, size_t i, size_t n)
{
    if (i + LANES <= n)
        return x == NULL ? all(1) : _mm512_loadu_ps(x + i);
    __mmask16 some = (__mmask16)_bzhi_u32(0xffff, (unsigned)(n - i)),
              bias = (__mmask16)(1U << (n - i));
    return x == NULL ? _mm512_maskz_mov_ps(some | bias, all(1))
                     : _mm512_mask_mov_ps(_mm512_maskz_loadu_ps(some, x + i), bias, all(1));
}

INLINE float total(lanes v)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    quad q = _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
    return (q[0] + q[2]) + (q[1] + q[3]);
}
#else
typedef int32_t quad_i __attribute__((vector_size(16)));
typedef struct {
    quad q[4];
} lanes;

INLINE lanes zero(void)
{
    return (lanes){0};
}

INLINE lanes all(float x)
{
    quad q = {x, x, x, x};
    return (lanes){{q, q, q, q}};
}

INLINE lanes join(quad a, quad b, quad c, quad d)
{
    return (lanes){{a, b, c, d}};
}

INLINE void store(float *p, lanes v)
{
    for (int k = 0; k < 4; k++)
        *(quad_u *)(p + (ptrdiff_t)4 * k) = v.q[k];
}

INLINE lanes add_product(lanes sum, lanes a, lanes b)
{
    for (int k = 0; k < 4; k++)
        sum.q[k] += a.q[k] * b.q[k];
    return sum;
}

/* a b + 0.0f, which takes the sign off a zero; written so that the compiler cannot fuse it, as a
 * product that rounds to -0.0 would stay so. */
INLINE lanes product(lanes a, lanes b)
{
    for (int k = 0; k < 4; k++) {
        quad p = a.q[k] * b.q[k];
        a.q[k] = (quad)((quad_i)p & (p != (quad){0}));
    }
    return a;
}

/* Values i .. i + 15 of n, then a 1 for the bias and zeros. */
INLINE lanes values(const float *x, size_t i, size_t n)
{
    static const float ONES[2 * LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct yk_picks p = {.w = x, .n = (uint32_t)n, .bias = 1};
    lanes v;
    for (size_t k = 0; k < 4; k++)
        if (x == NULL)
            v.q[k] = *(const quad_u *)(ONES + (i + LANES <= n ? 0 : LANES - 1 - (n - i)) + 4 * k);
        else if (i + 4 * k + 4 <= n)
            v.q[k] = *(const quad_u *)(x + i + 4 * k);
        else
            v.q[k] = entries(&p, i + 4 * k);
    return v;
}

INLINE float total(lanes v)
{
    quad q = (v.q[0] + v.q[2]) + (v.q[1] + v.q[3]);
    return (q[0] + q[2]) + (q[1] + q[3]);
}
#endif

/* Entries i .. i + 15. pick_last takes fewer, with the bias and zeros behind them. */
INLINE lanes pick(const struct yk_picks *p, size_t i)
{
    return join(four(p, i), four(p, i + 4), four(p, i + 8), four(p, i + 12));
}

INLINE lanes pick_last(const struct yk_picks *p, size_t i)
{
    return join(entries(p, i), entries(p, i + 4), entries(p, i + 8), entries(p, i + 12));
}

INLINE void pick_all(const struct yk_picks *p, float *copy)
{
    size_t i = 0;
    for (; i + LANES <= p->n; i += LANES)
        store(copy + i, pick(p, i));
    store(copy + i, pick_last(p, i));
}

INLINE float sum(const struct yk_picks *p, const float *x, float *copy)
{
    lanes s = zero(), v;
    size_t i = 0;
    for (; i + LANES <= p->n; i += LANES) {
        v = pick(p, i);
        if (copy != NULL)
            store(copy + i, v);
        s = add_product(s, v, values(x, i, p->n));
    }
    v = pick_last(p, i);
    if (copy != NULL)
        store(copy + i, v);
    return total(add_product(s, v, values(x, i, p->n)));
}

/* --- the functions of one number --- */

/* e^-a for a >= 0: 2^k e^r, k whole and |r| <= ln 2 / 2. */
INLINE float exp_minus(float a)
{
    static const float LOG2E = 1.44269504f, LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
    /* 1.5 * 2^23: adding it leaves a whole number in the last bits */
    static const float ROUND = 12582912.0f;
    float top = a > 87.0f ? 87.0f : a; /* NaN stays NaN */
    float shifted = ROUND - top * LOG2E, k = shifted - ROUND;
    float r = (-top - k * LN2_HIGH) - k * LN2_LOW;
    float p = 0.00139261761f;
    p = p * r + 0.00836317307f;
    p = p * r + 0.0416665547f;
    p = p * r + 0.16666577f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    uint32_t bits, scale;
    memcpy(&bits, &shifted, sizeof bits);
    scale = (bits + 127) << 23;
    float two_to_k;
    memcpy(&two_to_k, &scale, sizeof two_to_k);
    return a > 87.0f ? 0.0f : p * two_to_k;
}

/* log(1 + e) for e in [0, 1]. */
INLINE float log_1_plus(float e)
{
    float s = e / (2.0f + e), t = s * s;
    float p = 0.13425749f;
    p = p * t + 0.141183099f;
    p = p * t + 0.200037803f;
    p = p * t + 0.333333202f;
    return 2.0f * s + 2.0f * s * t * p;
}

/* --- what is offered: each source of weights has a loop of its own --- */

void JOIN(yk_pick_, YK_ISA)(const struct yk_picks *p, float *copy);
void JOIN(yk_pick_, YK_ISA)(const struct yk_picks *p, float *copy)
{
    if (p->from != NULL)
        pick_all(&(struct yk_picks){.from = p->from, .n = p->n, .bias = p->bias}, copy);
    else
        pick_all(&(struct yk_picks){.w = p->w, .at = p->at, .n = p->n, .bias = p->bias}, copy);
}

struct yk_logit JOIN(yk_logreg_, YK_ISA)(const struct yk_logreg_row *r);
struct yk_logit JOIN(yk_logreg_, YK_ISA)(const struct yk_logreg_row *r)
{
    const struct yk_picks p = r->weights;
    float z = p.from != NULL
                  ? sum(&(struct yk_picks){.from = p.from, .n = p.n, .bias = p.bias}, r->x, r->copy)
                  : sum(&(struct yk_picks){.w = p.w, .at = p.at, .n = p.n, .bias = p.bias}, r->x,
                        r->copy);
    float m = r->label ? -z : z;
    float e = exp_minus(m < 0 ? -m : m);
    float slope = (m > 0 ? 1.0f : e) / (1.0f + e);
    float g = (r->label ? -slope : slope) + 0.0f;
    for (size_t i = 0; r->grad != NULL && i <= p.n; i += LANES)
        store(r->grad + i, product(values(r->x, i, p.n), all(g)));
    return (struct yk_logit){.z = z, .g = g, .loss = (m < 0 ? 0.0f : m) + log_1_plus(e)};
}
