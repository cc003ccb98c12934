/* images.h - images that are made when they are needed: photos that are decoded, or made-up ones.
 *
 * THREADS: an open struct yk_images is shared by any number of threads; a struct yk_canvas belongs to one at a time. */
#ifndef YK_DATA_IMAGES_H
#define YK_DATA_IMAGES_H

#include "base/error.h"
#include "data/data.h"

#include <stdbool.h>
#include <stdint.h>

/* How chance changes an image. Places are shares of the room there is, in 1/2^32. */
struct yk_variation {
    bool crop; /* at place x, y; else in the centre */
    uint32_t x, y;
    bool flip; /* left and right change places */
};

/* A thread's buffers, which grow with the largest image and stay. Zeroed at first. */
struct yk_canvas {
    void *decoder; /* jpeg.c's */
    struct yk_room {
        void *bytes;
        size_t size;
    } file, picture, rows, sums;
};
void yk_canvas_release(struct yk_canvas *c);
/* At least `bytes` of it, contents undefined; NULL if there is no memory. */
void *yk_room(struct yk_room *r, size_t bytes);

struct yk_images_ops {
    /* The image of a row, (height, width, channels), to `out`. Depends on nothing but row and variation. Any thread; may block on the
     * disk. A file that cannot be read or decoded is YK_DATA. */
    yk_code (*make)(struct yk_images *im, uint32_t row, const struct yk_variation *v,
                    struct yk_canvas *c, uint8_t *out, struct yk_error *e);
    void (*close)(struct yk_images *im);
};

/* prefetch.c: the threads that make images ahead of time. */
struct yk_pool;
void yk_pool_close(struct yk_pool *p); /* NULL is fine */

struct yk_images {
    const struct yk_images_ops *ops;
    bool varied; /* photos: chance may crop and flip them; a feed asks for nothing else otherwise */
    struct yk_pool *_Atomic pool; /* started by the first feed; NULL before */
};

void yk_images_close(
    struct yk_images *im); /* its pool too; NULL is fine. No feed may be open on it */

#endif
