/* prefetch.h - has the images of a batch ready when it is computed, and those of the next one on their way.
 *
 *     yk_source_at(&source, position, n, ahead, &batch);
 *     rc = yk_feed_take(feed, &batch, &e);             waits for what is not ready, and sets batch.image
 *     ... yk_batch_image(&batch, i) ...
 *
 * Sets that have their pixels in memory need no feed: NULL stands for one, and costs nothing.
 * THREADS: a feed belongs to one thread at a time; feeds of one set share its pool of threads. */
#ifndef YK_DATA_PREFETCH_H
#define YK_DATA_PREFETCH_H

#include "base/error.h"
#include "data/data.h"

enum { YK_AUGMENT_CROP = 1, YK_AUGMENT_FLIP = 2 };

struct yk_feed;

/* *out = NULL if `set` has its pixels in memory. `augment`: what chance may do to photos (0 for tests), by a stream keyed by (seed, epoch,
 * row): not by who asks, nor when. The set stays open as long as the feed. */
yk_code yk_feed_open(struct yk_feed **out, const struct yk_dataset *set, unsigned augment,
                     uint64_t seed, struct yk_error *e);
void yk_feed_close(struct yk_feed *f); /* NULL is fine */

/* Set b->image; it is valid until the next call. Then the rows in b->ahead are begun. Memory is for two batches of the largest size that was
 * asked for. An image that cannot be made is YK_DATA, and names its file. */
yk_code yk_feed_take(struct yk_feed *f, struct yk_batch *b, struct yk_error *e);

/* Seconds that yk_feed_take took in all: the steps waited for their images. */
double yk_feed_waited(const struct yk_feed *f);

#endif
