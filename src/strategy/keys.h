/* keys.h - sorted lists of keys (flat indices of single parameters), and buffers for messages that carry them.
 *
 * A *list* is ascending and without repetition, so that the keys of one owner are one contiguous part of it, and lists can be merged.
 * What comes from the wire is checked before it is believed. A *box* holds the data of one message while it is under way: in, between
 * place() and arrive(); out, until the engine has let go of it. Boxes are used again and again, so their number is that of messages under
 * way at a time, and their size that of the largest.
 * THREADS: a list or a pool of boxes belongs to whoever has it, under its endpoint's lock; `sending` alone is the engine's to lower. */
#ifndef YK_STRATEGY_KEYS_H
#define YK_STRATEGY_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_NO_KEY                                                                                  \
    UINT32_MAX /* ends a list that is merged; so a model has fewer parameters than that */

/* Is this a list, and inside [lo, hi)? */
bool yk_keys_ok(const uint32_t *key, size_t n, size_t lo, size_t hi);
/* Keys of the list that are below `at`. */
size_t yk_keys_below(const uint32_t *key, size_t n, size_t at);
/* Where each owner's part of the list begins, and where the last one ends: at[owners + 1]. */
void yk_keys_split(const uint32_t *key, size_t n, unsigned owners, size_t count, size_t *at);

/* Room for n items of `size` bytes in *buffer, which has room for *room: false if there is no memory, and then nothing has changed. The
 * content is lost if it grows. Grows by half at least, so that batches of about one size soon need no more. */
bool yk_grow(void **buffer, size_t *room, size_t n, size_t size);

struct yk_box {
    void *data; /* on a line of 64 bytes */
    size_t room;
    bool busy;           /* in: placed, and not yet delivered */
    atomic_uint sending; /* out: messages that the engine still reads from it */
};

struct yk_boxes {
    struct yk_box **box; /* (n) */
    unsigned n;
};

/* A box that nothing uses, of at least so many bytes; NULL if there is no memory. */
struct yk_box *yk_boxes_take(struct yk_boxes *b, size_t bytes);
/* The busy box these data are in; NULL if they are in none. */
struct yk_box *yk_boxes_around(const struct yk_boxes *b, const void *data);
void yk_boxes_release(struct yk_boxes *b);

#endif
