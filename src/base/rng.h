/* rng.h - random numbers that depend on what they are for, not on who asks first.
 *
 * A stream is keyed by up to four integers (seed, epoch, example, layer, ...), so shuffles, initial values and dropout are
 * the same whatever the number of workers and wherever a run was stopped and resumed. The generator is xoshiro256++,
 * its state filled by splitmix64 over the key: fast, tiny, and good enough for everything that is not cryptography. */
#ifndef YK_BASE_RNG_H
#define YK_BASE_RNG_H

#include <stdint.h>

struct yk_rng {
    uint64_t s[4];
};

void yk_rng_init(struct yk_rng *r, uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
uint64_t yk_rng_next(struct yk_rng *r);
uint32_t yk_rng_below(struct yk_rng *r, uint32_t n); /* uniform in [0, n), n >= 1, no modulo bias */
double yk_rng_unit(struct yk_rng *r);                /* uniform in [0, 1) */

#endif
