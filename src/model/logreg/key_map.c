/* key_map.c - the keys of a task: the parameters that its rows touch, sorted, and the slot of
 * every entry.
 *
 * Distinct keys are numbered as they appear (dedup.h), so at most half of a typical batch's entries
 * remain to be sorted. A radix sort of these keys carries their numbers along, and one more look-up
 * turns the number of an entry into its slot. In the sorted list the keys of an owner are one
 * contiguous range.
 * THREADS: a map belongs to its work. LIMITS: a task has fewer than 2^30 entries. */
#include "model/logreg/logreg.h"

enum { DIGIT = 11 }; /* bits of a digit at most: its counts fill a quarter of the nearest cache */

void yk_key_map_release(struct yk_key_map *p)
{
    free(p->key);
    free(p->slot);
    free(p->shard);
    free(p->value);
    free(p->sort);
    yk_dedup_release(&p->dedup);
    *p = (struct yk_key_map){0};
}

/* Gets memory for so many entries, and a quarter more, so that tasks of about one size ask once. */
static yk_code make_room(struct yk_key_map *p, uint64_t entries, uint32_t shards,
                         struct yk_error *e)
{
    if (entries >= 1U << 30)
        return yk_fail(e, YK_USAGE, "one batch has %llu values; at most 2^30 are possible",
                       (unsigned long long)entries);
    if (shards + 1 > p->shard_room) {
        free(p->shard);
        p->shard_room = 0;
        if ((p->shard = malloc(((size_t)shards + 1) * sizeof *p->shard)) == NULL)
            return yk_fail_memory(e, ((size_t)shards + 1) * sizeof *p->shard);
        p->shard_room = shards + 1;
    }
    if (entries + 1 > p->room) { /* the bias is one more */
        size_t room = entries + entries / 4 + 64;
        free(p->key);
        free(p->slot);
        free(p->sort);
        p->room = 0;
        p->key = malloc(room * sizeof *p->key);
        p->slot = malloc(room * sizeof *p->slot);
        p->sort = malloc(2 * room * sizeof *p->sort);
        if (p->key == NULL || p->slot == NULL || p->sort == NULL)
            return yk_fail_memory(e,
                                  room * (sizeof *p->key + sizeof *p->slot + 2 * sizeof *p->sort));
        p->room = (uint32_t)room;
    }
    return yk_dedup_begin(&p->dedup, entries)
               ? YK_OK
               : yk_fail_memory(e, (size_t)entries * 4 * sizeof(uint64_t));
}

/* Sorts n pairs by their upper half, of which only the low `bits` bits are in use. Returns `pair`
 * or `other`, the one that has the result. */
static uint64_t *sort_pairs(uint64_t *pair, uint64_t *other, uint32_t n, unsigned bits)
{
    unsigned passes = (bits + DIGIT - 1) / DIGIT;
    unsigned width = passes > 0 ? (bits + passes - 1) / passes : 0;
    for (unsigned shift = 32; passes-- > 0; shift += width) {
        uint32_t at[1 << DIGIT] = {0}, mask = (1U << width) - 1, sum = 0;
        for (uint32_t i = 0; i < n; i++)
            at[pair[i] >> shift & mask]++;
        for (uint32_t d = 0; d <= mask; d++) {
            uint32_t count = at[d];
            at[d] = sum;
            sum += count;
        }
        for (uint32_t i = 0; i < n; i++)
            other[at[pair[i] >> shift & mask]++] = pair[i];
        uint64_t *swap = pair;
        pair = other;
        other = swap;
    }
    return pair;
}

/* Makes the list of values in which entries with unknown keys are 0. Their slot is that of the
 * bias; with value 0 they add nothing to it. */
static yk_code make_values(struct yk_key_map *p, const struct yk_logreg_model *m,
                           const struct yk_batch *shard, uint32_t shards, struct yk_error *e)
{
    uint32_t at = 0;
    p->value = malloc((size_t)p->room * sizeof *p->value);
    if (p->value == NULL)
        return yk_fail_memory(e, (size_t)p->room * sizeof *p->value);
    for (uint32_t s = 0; s < shards; s++)
        for (uint32_t i = 0; i < shard[s].n; i++) {
            struct yk_row row = yk_row_at(shard[s].set->sparse, shard[s].row[i]);
            for (uint32_t k = 0; k < row.n; k++, at++) {
                bool known = row.key[k] < m->features;
                p->value[at] = !known ? 0 : row.value == NULL ? 1 : row.value[k];
            }
        }
    return YK_OK;
}

yk_code yk_key_map_make(struct yk_key_map *p, const struct yk_logreg_model *m,
                        const struct yk_batch *shard, uint32_t shards, struct yk_error *e)
{
    uint64_t entries = 0;
    p->n = 0;
    free(p->value);
    p->value = NULL;
    for (uint32_t s = 0; s < shards; s++)
        for (uint32_t i = 0; i < shard[s].n; i++) {
            yk_row_prefetch(shard[s].set->sparse, shard[s].row[i]);
            entries += yk_row_at(shard[s].set->sparse, shard[s].row[i]).n;
        }
    yk_code rc = make_room(p, entries, shards, e);
    if (rc != YK_OK)
        return rc;
    uint32_t at = 0, n = 0, all = 0; /* all: the bitwise or of all keys */
    for (uint32_t s = 0; s < shards; s++) {
        p->shard[s] = at;
        for (uint32_t i = 0; i < shard[s].n; i++) {
            struct yk_row row = yk_row_at(shard[s].set->sparse, shard[s].row[i]);
            n = yk_dedup_add(&p->dedup, p->key, n, row.key, row.n, p->slot + at);
            at += row.n;
        }
    }
    p->shard[shards] = at;
    for (uint32_t i = 0; i < n; i++) {
        p->sort[i] = (uint64_t)p->key[i] << 32 | i;
        all |= p->key[i];
    }
    const uint64_t *sorted =
        sort_pairs(p->sort, p->sort + p->room, n, all == 0 ? 0 : 32 - (unsigned)__builtin_clz(all));
    /* (n) the slot of each number, in the half of `sort` that is free now */
    uint32_t *slot_of = (uint32_t *)(sorted == p->sort ? p->sort + p->room : p->sort);
    p->key[0] = m->bias;
    uint32_t known = n;
    while (known > 0 && sorted[known - 1] >> 32 >= m->features)
        known--; /* keys that the model does not have are the last */
    for (uint32_t i = 0; i < known; i++) {
        p->key[i + 1] = m->weight + (uint32_t)(sorted[i] >> 32);
        slot_of[(uint32_t)sorted[i]] = i + 1;
    }
    for (uint32_t i = known; i < n; i++)
        slot_of[(uint32_t)sorted[i]] = 0;
    for (uint32_t i = 0; i < at; i++)
        p->slot[i] = slot_of[p->slot[i]];
    if (known < n && (rc = make_values(p, m, shard, shards, e)) != YK_OK)
        return rc;
    p->n = known + 1;
    return YK_OK;
}
