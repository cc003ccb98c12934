/* peak.h - the most multiply-adds that a core can do: on registers alone, with enough independent
 * sums that no operation waits for a result. Kernels and products are compared with it. Each
 * instruction set has its own vectors.
 * THREADS: any; nothing is shared. */
#ifndef YK_BENCH_PEAK_H
#define YK_BENCH_PEAK_H

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define YK_PEAK_REGISTER "v"
#else
#define YK_PEAK_REGISTER "w"
#endif

/* The empty instructions hide from the compiler that all sums are equal. */
#define YK_PEAK(name, width, attribute, multiply_add)                                              \
    attribute static inline double name(long turns)                                                \
    {                                                                                              \
        typedef float v __attribute__((vector_size(4 * (width))));                                 \
        enum { SUMS = 12 };                                                                        \
        v sum[SUMS] = {{0}}, a = (v){0} + 0.5f;                                                    \
        for (int k = 0; k < SUMS; k++)                                                             \
            __asm__ volatile("" : "+" YK_PEAK_REGISTER(sum[k]));                                   \
        for (long i = 0; i < turns; i++) {                                                         \
            __asm__ volatile("" : "+" YK_PEAK_REGISTER(a));                                        \
            _Pragma("GCC unroll 12") for (int k = 0; k < SUMS; k++) sum[k] = multiply_add;         \
        }                                                                                          \
        for (int k = 0; k < SUMS; k++)                                                             \
            __asm__ volatile("" ::YK_PEAK_REGISTER(sum[k]));                                       \
        return (double)SUMS * (double)turns * (width);                                             \
    }
YK_PEAK(yk_peak_plain, 4, , sum[k] * a + a)
#if defined(__x86_64__)
YK_PEAK(yk_peak_avx2, 8, __attribute__((target("avx2,fma"))),
        (v)_mm256_fmadd_ps((__m256)sum[k], (__m256)a, (__m256)a))
YK_PEAK(yk_peak_avx512, 16, __attribute__((target("avx512f"))),
        (v)_mm512_fmadd_ps((__m512)sum[k], (__m512)a, (__m512)a))
#endif

/* Does `turns` rounds with the vectors of an instruction set (a value of --isa, not "auto") and
 * returns the number of multiply-adds. */
static inline double yk_peak(const char *isa, long turns)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx512") == 0)
        return yk_peak_avx512(turns);
    if (strcmp(isa, "avx2") == 0)
        return yk_peak_avx2(turns);
#endif
    (void)isa;
    return yk_peak_plain(turns);
}

#endif
