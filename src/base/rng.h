/* rng.h - random numbers that depend on their purpose, not on the order of requests.
 *
 * A stream is keyed by up to four integers (seed, epoch, example, layer, ...), so shuffles, initial
 * values and dropout do not depend on the number of workers or on where a run was resumed. The
 * generator is xoshiro256++, its state filled by splitmix64 over the key: fast, tiny, and good
 * enough for everything but cryptography. */
#ifndef YK_BASE_RNG_H
#define YK_BASE_RNG_H

#include <stdint.h>

struct yk_rng {
    uint64_t s[4];
};

void yk_rng_init(struct yk_rng *r, uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
uint64_t yk_rng_next(struct yk_rng *r);
/* Uniform in [0, n), n >= 1, without modulo bias. */
uint32_t yk_rng_below(struct yk_rng *r, uint32_t n);

/* Uniform in [0, 1). */
static inline double yk_rng_unit(struct yk_rng *r)
{
    return (double)(yk_rng_next(r) >> 11) * 0x1p-53;
}

#endif
