/* wide.h - compiles a loop for several vector widths, or always inline.
 *
 * A YK_WIDE function exists once per vector width, and the loader picks the copy for the CPU. Its
 * loops must give the same bits at every width, which holds for element-wise loops because the
 * Makefile turns fused operations off. YK_INLINE is for the functions that it calls: a call would
 * otherwise leave the chosen width.
 * LIMITS: one width on other architectures, and under sanitizers, which run before the resolver's
 *         tables exist. */
#ifndef YK_BASE_WIDE_H
#define YK_BASE_WIDE_H

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
    !defined(__clang__)
#define YK_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define YK_WIDE
#endif

#define YK_INLINE static inline __attribute__((always_inline))

#endif
