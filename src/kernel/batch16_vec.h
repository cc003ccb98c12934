/* batch16_vec.h - the vectors that the batch16_*_isa.c files are written with: as many lanes as the
 * instruction set's registers have.
 *
 * A line of 16 lanes is PARTS vectors of WIDTH lanes. Kernels take one part through their loops at
 * a time, because the compiler would keep a vector that is wider than the machine's in memory. Only
 * *_isa.c files include this. */
#ifndef YK_KERNEL_BATCH16_VEC_H
#define YK_KERNEL_BATCH16_VEC_H

#include "kernel/batch16.h"

#include <string.h>
#if !defined(YK_ISA_plain)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))

/* How far loops over registers are unrolled: all the way, but not under a sanitizer, which would
 * check each access by itself and compile for minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { UNROLL = 1 };
#else
enum { UNROLL = 32 };
#endif

#if defined(YK_ISA_avx512)
enum { WIDTH = 16, REGISTERS = 32 };
#elif defined(YK_ISA_avx2)
enum { WIDTH = 8, REGISTERS = 16 };
#else
enum { WIDTH = 4, REGISTERS = 15 }; /* of 16: a product needs one, without fused multiply-add */
#endif
enum { LANES = YK_BATCH16, PARTS = LANES / WIDTH };

typedef float vec __attribute__((vector_size(4 * WIDTH)));
typedef int32_t vec_i __attribute__((vector_size(4 * WIDTH)));
typedef float vec_u __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef float quad __attribute__((vector_size(16)));
typedef float quad_u __attribute__((vector_size(16), aligned(4)));

INLINE vec load(const float *p)
{
    return *(const vec *)p;
}

INLINE void store(float *p, vec v)
{
    *(vec *)p = v;
}

INLINE vec load_any(const float *p)
{
    return *(const vec_u *)p;
}

INLINE void store_any(float *p, vec v)
{
    *(vec_u *)p = v;
}

INLINE vec all(float x)
{
    return x - (vec){0};
}

/* Lane by lane: `yes` where the mask is all ones, `no` where it is zero. */
INLINE vec choose(vec_i mask, vec yes, vec no)
{
#if defined(YK_ISA_avx512)
    return (vec)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)no, (__m512)yes);
#elif defined(YK_ISA_avx2)
    return (vec)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
    return (vec)((mask & (vec_i)yes) | (~mask & (vec_i)no));
#endif
}

/* Lane by lane: a where a > b, else b, also if one of them is NaN. */
INLINE vec larger(vec a, vec b)
{
#if defined(YK_ISA_avx512)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(YK_ISA_avx2)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return choose(a > b, a, b);
#endif
}

/* max(0, x), but NaN stays NaN: a net that diverged should not look sound. */
INLINE vec relu(vec x)
{
    return larger((vec){0}, x);
}

INLINE float lane_sum(vec v)
{
#if defined(YK_ISA_avx512)
    __m256 h =
        _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
    quad q = (quad)_mm256_castps256_ps128(h) + (quad)_mm256_extractf128_ps(h, 1);
#elif defined(YK_ISA_avx2)
    quad q = (quad)_mm256_castps256_ps128((__m256)v) + (quad)_mm256_extractf128_ps((__m256)v, 1);
#else
    quad q = v;
#endif
    q += __builtin_shufflevector(q, q, 2, 3, 0, 1);
    return q[0] + q[1];
}

/* The sum of all numbers of some lines. */
INLINE float sum_of_lines(const float *p, size_t lines)
{
    vec sum[4] = {{0}};
    size_t i = 0, n = lines * PARTS;
    for (; i + 4 <= n; i += 4, p += 4 * WIDTH)
        for (size_t k = 0; k < 4; k++)
            sum[k] += load(p + k * WIDTH);
    for (; i < n; i++, p += WIDTH)
        sum[0] += load(p);
    return lane_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* e^x = 2^k (1 + q), for x <= 88, with k whole and |ln(1 + q)| <= ln 2 / 2: returns q and sets
 * *power to 2^k. Below -87 the result is that of -87. */
INLINE vec exp_parts(vec x, vec *power)
{
    x = larger(all(-87.0f), x);
    vec shifted = x * 1.44269504f + 12582912.0f; /* adding 1.5 * 2^23 rounds to a whole number */
    vec k = shifted - 12582912.0f;
    vec r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    vec p = all(1.9875691e-4f);
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665795e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    *power = (vec)(((vec_i)shifted - 0x4b400000 + 127) << 23);
    return p * r * r + r;
}

INLINE vec exp_of(vec x)
{
    vec power, q = exp_parts(x, &power);
    return q * power + power;
}

/* A matrix of 4 x 4 floats. */
struct quads {
    quad row[4];
};

INLINE struct quads transpose(struct quads q)
{
    quad a = __builtin_shufflevector(q.row[0], q.row[1], 0, 4, 1, 5),
         b = __builtin_shufflevector(q.row[0], q.row[1], 2, 6, 3, 7);
    quad c = __builtin_shufflevector(q.row[2], q.row[3], 0, 4, 1, 5),
         d = __builtin_shufflevector(q.row[2], q.row[3], 2, 6, 3, 7);
    return (struct quads){
        {__builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7),
         __builtin_shufflevector(b, d, 0, 1, 4, 5), __builtin_shufflevector(b, d, 2, 3, 6, 7)}};
}

/* Four lanes of four lines as four rows, and back. Only lines are aligned. */
INLINE struct quads load_lines(const float *p)
{
    const quad *line = (const quad *)p;
    return (struct quads){{line[0], line[LANES / 4], line[2 * LANES / 4], line[3 * LANES / 4]}};
}

INLINE void store_lines(float *p, struct quads q)
{
    for (size_t k = 0; k < 4; k++)
        *(quad *)(p + k * LANES) = q.row[k];
}

/* The next piece if `left` is cut into as few pieces of at most `most` as possible, as equal as
 * possible: 28 by 6 is 6 6 6 5 5. */
INLINE uint32_t share(uint32_t left, uint32_t most)
{
    uint32_t pieces = (left + most - 1) / most;
    return (left + pieces - 1) / pieces;
}

#endif
