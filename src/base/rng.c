/* rng.c - keyed random streams; see rng.h. xoshiro256++ and splitmix64 are public-domain algorithms
 * by Blackman and Vigna. */
#include "base/rng.h"

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void yk_rng_init(struct yk_rng *r, uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t key[4] = {seed, a, b, c};
    uint64_t x = 0;
    /* Each part is mixed in fully, so (1,0) and (0,1) are unrelated streams. */
    for (int i = 0; i < 4; i++) {
        x ^= key[i];
        x = splitmix(&x);
    }
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix(&x);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t yk_rng_next(struct yk_rng *r)
{
    uint64_t *s = r->s, out = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

/* Lemire's multiply-and-shift with rejection of the short first interval. */
uint32_t yk_rng_below(struct yk_rng *r, uint32_t n)
{
    uint64_t m = (yk_rng_next(r) >> 32) * n;
    if ((uint32_t)m < n) {
        uint32_t floor = -n % n;
        while ((uint32_t)m < floor)
            m = (yk_rng_next(r) >> 32) * n;
    }
    return (uint32_t)(m >> 32);
}
