/* dedup.h - numbers the distinct keys of a batch in the order in which they first appear.
 *
 * An open-addressing table of numbers. It has four times as many cells as entries, because a
 * collision costs more than room does, and is still small enough for the nearest cache: a number
 * has 16 bits if all fit, and the key of a number is not in the table but in the list that is made
 * anyway. The table is cleared for every batch. No branch predictor can tell whether a key is new,
 * so the code branches only on collisions, which are rare.
 * THREADS: one at a time. LIMITS: a batch has fewer than 2^30 keys. */
#ifndef YK_MODEL_LOGREG_DEDUP_H
#define YK_MODEL_LOGREG_DEDUP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct yk_dedup {
    void *cell;     /* (mask + 1) numbers of 16 or 32 bits; an empty cell has all bits set */
    uint32_t mask;  /* cells of this batch - 1; there may be room for more */
    unsigned shift; /* turns a hash of 32 bits into the index of a cell */
    bool small;     /* numbers have 16 bits */
    size_t room;    /* bytes of `cell` */
};

/* Begins a batch of at most `entries` keys. False if there is no memory. */
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
            __asm__("" : "+r"(fresh)); /* keeps the compiler from making it a branch */
            at = (at & ~fresh) | (n & fresh);
            list[n] = k; /* its place if it is new */
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

/* Adds `count` keys to the n keys of the list, which has room for them. Sets number[i] to the place
 * of key[i] in the list and returns the list's new length. */
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
