/* images.h - images that are made when they are needed: photos that are decoded, or made-up ones.
 * THREADS: any number of threads share an open struct yk_images; a struct yk_canvas belongs to one
 * thread at a time. */
#ifndef YK_DATA_IMAGES_IMAGES_H
#define YK_DATA_IMAGES_IMAGES_H

#include "base/error.h"
#include "data/data.h"

#include <stdbool.h>
#include <stdint.h>

/* A random change of an image. */
struct yk_variation {
    bool crop;     /* crop at x, y; else in the centre */
    uint32_t x, y; /* shares of the possible range, in 1/2^32 */
    bool flip;     /* swap left and right */
};

/* A thread's buffers, which grow with the largest image. Zeroed at first. */
struct yk_canvas {
    void *decoder; /* of jpeg.c */
    struct yk_room {
        void *bytes;
        size_t size;
    } file, picture, rows, sums;
};
void yk_canvas_release(struct yk_canvas *c);
/* A buffer of at least `bytes`, contents undefined; NULL if there is no memory. */
void *yk_room(struct yk_room *r, size_t bytes);

struct yk_images_ops {
    /* Makes the image of a row, (height, width, channels), which depends on row and variation
     * alone. Any thread; may block on the disk. An unreadable file is YK_DATA. */
    yk_code (*make)(struct yk_images *im, uint32_t row, const struct yk_variation *v,
                    struct yk_canvas *c, uint8_t *out, struct yk_error *e);
    void (*close)(struct yk_images *im);
};

/* The threads that make images ahead of time (prefetch.c). */
struct yk_pool;
void yk_pool_close(struct yk_pool *p); /* NULL is fine */

struct yk_images {
    const struct yk_images_ops *ops;
    bool varied; /* images may be cropped and flipped at random: photos for training */
    struct yk_pool *_Atomic pool; /* started by the first feed; NULL before */
};

/* Closes its pool, too. No feed may be open on it; NULL is fine. */
void yk_images_close(struct yk_images *im);

#endif
