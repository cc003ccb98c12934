/* keys.c - see keys.h. */
#include "strategy/keys.h"

#include "strategy/owner.h"

#include <stdlib.h>

bool yk_keys_ok(const uint32_t *key, size_t n, size_t lo, size_t hi)
{
    bool sorted = n == 0 || (key[0] >= lo && key[n - 1] < hi);
    for (size_t i = 1; i < n; i++)
        sorted &= key[i - 1] < key[i];
    return sorted;
}

size_t yk_keys_below(const uint32_t *key, size_t n, size_t at)
{
    size_t first = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (key[first + half] < at) {
            first += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return first;
}

void yk_keys_split(const uint32_t *key, size_t n, unsigned owners, size_t count, size_t *at)
{
    at[0] = 0;
    for (unsigned k = 1; k < owners; k++)
        at[k] = at[k - 1] +
                yk_keys_below(key + at[k - 1], n - at[k - 1], yk_owner_at(k, owners, count));
    at[owners] = n;
}

bool yk_grow(void **buffer, size_t *room, size_t n, size_t size)
{
    if (n <= *room)
        return true;
    size_t want = n > *room + *room / 2 ? n : *room + *room / 2;
    want = (want + 15) / 16 * 16;
    if (want < n || want > SIZE_MAX / size)
        return false;
    void *fresh = aligned_alloc(64, (want * size + 63) / 64 * 64);
    if (fresh == NULL)
        return false;
    free(*buffer);
    *buffer = fresh;
    *room = want;
    return true;
}

static bool idle(const struct yk_box *b)
{
    return !b->busy && atomic_load_explicit(&b->sending, memory_order_acquire) == 0;
}

struct yk_box *yk_boxes_take(struct yk_boxes *b, size_t bytes)
{
    struct yk_box *found = NULL;
    for (unsigned i = 0; i < b->n; i++)
        if (idle(b->box[i]) && (found == NULL || found->room < bytes))
            found = b->box[i];
    if (found == NULL) {
        struct yk_box **more = realloc(b->box, (b->n + 1) * sizeof *more);
        if (more == NULL)
            return NULL;
        b->box = more;
        if ((found = calloc(1, sizeof *found)) == NULL)
            return NULL;
        b->box[b->n++] = found;
    }
    return yk_grow(&found->data, &found->room, bytes, 1) ? found : NULL;
}

void *yk_boxes_place(struct yk_boxes *b, size_t bytes)
{
    struct yk_box *box = yk_boxes_take(b, bytes);
    if (box == NULL)
        return NULL;
    box->busy = true;
    return box->data;
}

void yk_boxes_free(struct yk_boxes *b, const void *data)
{
    for (unsigned i = 0; data != NULL && i < b->n; i++)
        if (b->box[i]->data == data)
            b->box[i]->busy = false;
}

void yk_boxes_release(struct yk_boxes *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        free(b->box[i]->data);
        free(b->box[i]);
    }
    free(b->box);
    *b = (struct yk_boxes){0};
}
