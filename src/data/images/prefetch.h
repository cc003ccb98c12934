/* prefetch.h - makes the images of a batch before it is computed, and those of the next one
 * meanwhile.
 *
 *     yk_source_at(&source, position, n, ahead, &batch);
 *     rc = yk_feed_take(feed, &batch, &e);      waits for images, and sets batch.image
 *     ... yk_batch_image(&batch, i) ...
 *
 * Sets that have their pixels in memory need no feed: NULL stands for one, and costs nothing.
 * THREADS: a feed belongs to one thread at a time; feeds of one set share its pool of threads. */
#ifndef YK_DATA_IMAGES_PREFETCH_H
#define YK_DATA_IMAGES_PREFETCH_H

#include "base/error.h"
#include "data/data.h"

enum { YK_AUGMENT_CROP = 1, YK_AUGMENT_FLIP = 2 };

struct yk_feed;

/* *out = NULL if `set` has its pixels in memory. `augment` is how photos are changed at random (0
 * for tests), by a random stream keyed by (seed, epoch, row). The set must outlive the feed. */
yk_code yk_feed_open(struct yk_feed **out, const struct yk_dataset *set, unsigned augment,
                     uint64_t seed, struct yk_error *e);
void yk_feed_close(struct yk_feed *f); /* NULL is fine */

/* Sets b->image, which is valid until the next call, and begins with the rows in b->ahead. Takes
 * memory for two batches of the largest size so far. An image that cannot be made is YK_DATA, and
 * `e` names its file. */
yk_code yk_feed_take(struct yk_feed *f, struct yk_batch *b, struct yk_error *e);

/* Seconds spent in yk_feed_take so far: steps waited for their images. */
double yk_feed_waited(const struct yk_feed *f);

#endif
