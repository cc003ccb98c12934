/* keys.h - sorted lists of keys (flat indices of single parameters), and buffers for messages.
 *
 * A *list* is ascending and without repetition, so that the keys of one owner are one contiguous
 * part of it, and lists can be merged. Lists from the wire are checked first. A *box* holds the
 * data of one message while it is under way: in, between place() and arrive(); out, until the
 * engine has let go of it. Boxes are used again, so there are as many as messages under way at a
 * time, of the largest size.
 * THREADS: a list or a pool of boxes belongs to one endpoint, under its lock; the engine lowers
 * `sending`. */
#ifndef YK_STRATEGY_KEYS_H
#define YK_STRATEGY_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends a list that is merged; so a model has fewer parameters than that. */
#define YK_NO_KEY UINT32_MAX

/* Is this a list, and inside [lo, hi)? */
bool yk_keys_ok(const uint32_t *key, size_t n, size_t lo, size_t hi);
/* Keys of the list that are below `at`. */
size_t yk_keys_below(const uint32_t *key, size_t n, size_t at);
/* Where each owner's part of the list begins, and where the last one ends: at[owners + 1]. */
void yk_keys_split(const uint32_t *key, size_t n, unsigned owners, size_t count, size_t *at);

/* Makes room for n items of `size` bytes in *buffer, which has room for *room; the content is
 * lost if it grows. False: there is no memory, and nothing has changed. It grows by half at
 * least, so that batches of about one size soon need no more. */
bool yk_grow(void **buffer, size_t *room, size_t n, size_t size);

struct yk_box {
    void *data; /* on a line of 64 bytes */
    size_t room;
    bool busy;           /* in: placed, but not delivered */
    atomic_uint sending; /* out: messages that the engine still reads from it */
};

struct yk_boxes {
    struct yk_box **box; /* (n) */
    unsigned n;
};

/* An unused box of at least so many bytes; NULL: there is no memory. */
struct yk_box *yk_boxes_take(struct yk_boxes *b, size_t bytes);
/* Room for data that are to arrive, in a box that is busy from now on; NULL: there is no memory. */
void *yk_boxes_place(struct yk_boxes *b, size_t bytes);
/* The data have been used: their box, if a box holds them, is free again. */
void yk_boxes_free(struct yk_boxes *b, const void *data);
void yk_boxes_release(struct yk_boxes *b);

#endif
