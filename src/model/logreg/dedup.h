/* dedup.h - numbers the distinct keys of a batch in the order in which they first appear.
 *
 * An open-addressing table of numbers, four times as many as there are entries, as a collision
 * costs more than room does, small enough to stay in the nearest cache: numbers have 16 bits where
 * they fit, and the key of a number stands in the list that is being made anyway. It is cleared for
 * every batch. Whether a key is new is a coin toss that no branch predictor wins, so there is no
 * branch on it, only on collisions, which are rare.
 * THREADS: one at a time. LIMITS: a batch has fewer than 2^30 keys. */
#ifndef YK_MODEL_LOGREG_DEDUP_H
#define YK_MODEL_LOGREG_DEDUP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct yk_dedup {
    void *cell;     /* (mask + 1) numbers of 16 or 32 bits, all bits set: empty */
    uint32_t mask;  /* of this batch; there may be room for more */
    unsigned shift; /* that makes a cell's index of a product */
    bool small;     /* 16 bits */
    size_t room;    /* bytes */
};

/* A new batch of at most `entries` keys. False if there is no memory. */
static inline bool yk_dedup_begin(struct yk_dedup *d, uint64_t entries)
{
    unsigned bits = 6;
    if (entries >= 1U << 30)
        return false;
    while ((uint64_t)1 << bits < 4 * entries)
        bits++;
    d->small = entries < UINT16_MAX;
    d->mask = (uint32_t)(((uint64_t)1 << bits) - 1);
    d->shift = 32 - bits;
    size_t bytes = ((size_t)1 << bits) * (d->small ? sizeof(uint16_t) : sizeof(uint32_t));
    if (bytes > d->room) {
        free(d->cell);
        d->cell = aligned_alloc(64, bytes);
        d->room = d->cell == NULL ? 0 : bytes;
        if (d->cell == NULL)
            return false;
    }
    memset(d->cell, 0xff, bytes);
    return true;
}

static inline __attribute__((always_inline)) uint32_t
yk_dedup_add_(const struct yk_dedup *d, bool small, uint32_t *list, uint32_t n, const uint32_t *key,
              uint32_t count, uint32_t *number)
{
    uint16_t *restrict shorts = d->cell;
    uint32_t *restrict longs = d->cell;
    uint32_t mask = d->mask, none = small ? UINT16_MAX : UINT32_MAX;
    unsigned shift = d->shift;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = key[i], h = k * 0x9E3779B1U >> shift, at, fresh;
        for (;; h = (h + 1) & mask) {
            at = small ? shorts[h] : longs[h];
            fresh = at == none ? UINT32_MAX : 0;
            __asm__("" : "+r"(fresh)); /* a mask: the compiler would make a branch of it */
            at = (at & ~fresh) | (n & fresh);
            list[n] = k; /* where the key stands if it is new */
            if (__builtin_expect(list[at] == k, 1))
                break;
        }
        if (small)
            shorts[h] = (uint16_t)at;
        else
            longs[h] = at;
        number[i] = at;
        n -= fresh;
    }
    return n;
}

/* Add `count` keys to the n of the list (which has room for them); number[i] is where in the list
 * key[i] stands. Returns the list's new length. */
static inline uint32_t yk_dedup_add(const struct yk_dedup *d, uint32_t *list, uint32_t n,
                                    const uint32_t *key, uint32_t count, uint32_t *number)
{
    return d->small ? yk_dedup_add_(d, true, list, n, key, count, number)
                    : yk_dedup_add_(d, false, list, n, key, count, number);
}

static inline void yk_dedup_release(struct yk_dedup *d)
{
    free(d->cell);
    *d = (struct yk_dedup){0};
}

#endif
