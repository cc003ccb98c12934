/* data.h - from files to batches.
 *
 * A *format* knows how to open one kind of file; a *dataset* is labelled examples; a *source* deals them out as
 * shuffled batches. A batch does not copy: it names rows of its dataset, and says which rows come next so that a kernel can
 * fetch them ahead of time.
 *
 * Most sets have their pixels in memory. Photos in class folders, and made-up images, would not fit: of these a dataset knows only how to make
 * them (images.h), and a *feed* (prefetch.h) has the images of a batch ready when it is computed, and those of the next one on their way.
 * yk_batch_image is where models find them, either way.
 *
 * Memory: a dataset holds its examples once, 8 bits a pixel as in the file, and less once it is packed (see yk_dataset_pack; where rows are not a
 * multiple of 8 pixels both forms exist while it packs). Packing adds 12 bytes a row and more for long rows, a source 4. */
#ifndef YK_DATA_DATA_H
#define YK_DATA_DATA_H

#include "base/error.h"
#include "data/rows.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_PACK_BLOCK = 8 }; /* pixels that packing drops or keeps together */
enum {
    YK_ROW_SLACK = 64
}; /* readable bytes after the last row, so that kernels may load whole vectors */

struct yk_images; /* images.h */

struct yk_dataset {
    char name[64];     /* "mnist", or the last part of the path */
    char split[8];     /* "train" or "test" */
    uint32_t rows;     /* examples */
    uint32_t features; /* pixels a row */
    uint32_t classes;  /* labels are 0 .. classes-1 */
    uint32_t shape[3]; /* height, width, channels; features = their product */
    uint8_t *
        pixels; /* (rows, features), 64-byte aligned, YK_ROW_SLACK readable zero bytes after the end */
    uint16_t *labels; /* (rows) */
    uint8_t *
        blocks; /* packed: the blocks of 8 pixels that are not all zero, row after row; `pixels` is then NULL */
    uint32_t *first;   /* (rows + 1) packed: the number of a row's first block */
    uint64_t *nonzero; /* (rows, words) packed: bit k of word w: the row has block 64 w + k */
    uint32_t words;    /* packed: words of `nonzero` a row */
    float scale;       /* what a model multiplies a pixel with: 1/255 */
    char *class_names; /* class folders: what labels mean, "cat/dog" for 0 and 1; else NULL */
    uint64_t
        xxh3; /* of pixels and labels, or what stands for them, so that a resumed run can tell other data */

    struct yk_images *
        images; /* the pixels are made when they are needed; `pixels` is then NULL. See yk_feed_take and yk_dataset_load */

    /* A sparse set has these instead of pixels and labels; shape is 1 x features x 1. Two parts of one set share its rows. */
    struct yk_rows *sparse;
    bool borrowed; /* the other part's to close */
    double
        holdout; /* share of the rows, evenly spread, that are the test part; 0: all rows are in this part */
    bool held; /* this is the test part */
};

/* How files become images. */
struct yk_imaging {
    uint32_t shape
        [3]; /* height, width, channels that photos are brought to; 0: those of the first photo */
    double
        holdout; /* class folders without a test part: the share of their photos, evenly spread, that becomes one */
    const char *
        classes; /* class folders: labels are those of a dataset with these class_names, of which some may be missing; a class that it lacks is YK_DATA */
    uint64_t
        keep; /* bytes of decoded photos to keep in memory; 0: as many as a half of what is free holds */
};

/* What `--data` names: "mnist", "fashion-mnist", a folder with the four IDX files (plain or .gz), one images file whose
 * labels lie beside it (...-images-idx3-ubyte and ...-labels-idx1-ubyte), or one of the kinds in sets.h: CIFAR-10 binaries, JPEG files in class
 * folders, "fake:224x224x3:1000". Fetches "mnist" if it is not cached yet. `how` may be NULL: all zero.
 * A missing, unreadable or malformed file is YK_DATA. On success the caller owns both; a set without a test part leaves
 * test->rows == 0. `test` may be NULL if only the training part is wanted. */
yk_code yk_data_open(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                     struct yk_dataset *test, struct yk_error *e);

/* Is it that, rather than sparse rows? */
bool yk_data_is_dense(const char *what);

/* The test part alone: that of a folder, or the one images file. */
yk_code yk_data_open_test(const char *what, const struct yk_imaging *how, struct yk_dataset *test,
                          struct yk_error *e);

/* A set whose images are made when they are needed becomes one of pixels in memory, as they are without chance (centre crops). YK_USAGE if
 * they would take more than a half of the memory that is free. Does nothing to other sets. */
yk_code yk_dataset_load(struct yk_dataset *d, struct yk_error *e);

/* Sparse rows, whatever yk_rows_open takes. With `holdout` > 0 that share of them, evenly spread over the file, is the test part (YK_USAGE if that is not even one) and the rest the training part;
 * else all are training rows and test->rows == 0. `test` may be NULL: the held-out rows are then only left out. */
yk_code yk_data_open_rows(const char *what, const struct yk_reading *how, double holdout,
                          struct yk_dataset *train, struct yk_dataset *test, struct yk_error *e);

/* A dense set becomes one of sparse rows, the pixels that are not zero; for models that take no other. Loads it first. */
yk_code yk_dataset_sparse(struct yk_dataset *d, struct yk_error *e);

/* The numbers of this part's rows, in the order of the file, to row[0 .. rows). */
void yk_dataset_rows(const struct yk_dataset *d, uint32_t *row);

void yk_dataset_release(struct yk_dataset *d);

/* Drop the background: keep only the blocks of 8 pixels that hold anything. For models that skip the rest anyway; does nothing
 * to a set that is packed already. Loads it first. */
yk_code yk_dataset_pack(struct yk_dataset *d, struct yk_error *e);

/* The rows of one step. Everything points into the source or its dataset; valid while no batch of the epoch after the next is asked for. */
struct yk_batch {
    const struct yk_dataset *set;
    uint32_t n;          /* examples in this batch; the last one of an epoch may be smaller */
    const uint32_t *row; /* (n) which rows of the set */
    uint32_t
        n_ahead; /* how many of the rows after these are known already (0 at the end of an epoch) */
    const uint32_t *ahead; /* (n_ahead) their numbers, worth prefetching; at most as many as n */
    uint64_t epoch;        /* 0 for the first */
    const uint8_t *const *
        image; /* (n) the pixels, where a feed made them, valid until it is asked for the next batch; else NULL */
};

/* The pixels of example i of a batch: (height, width, channels), 8 bits each; models multiply them with set->scale. */
static inline const uint8_t *yk_batch_image(const struct yk_batch *b, uint32_t i)
{
    return b->image != NULL ? b->image[i] : b->set->pixels + (size_t)b->row[i] * b->set->features;
}

/* The shuffled order of a dataset, epoch by epoch. A *position* counts examples over all epochs: epoch * rows + place in its order. */
struct yk_source {
    const struct yk_dataset *set;
    uint64_t seed;
    uint32_t
        window; /* rows are shuffled within windows of so many; 0: all together, 1: not at all */
    struct yk_order {
        _Atomic uint64_t epoch; /* whose permutation `row` holds; UINT64_MAX if none */
        uint32_t *row;          /* (rows) keyed by (seed, epoch) */
    } order[2]; /* even and odd epochs: batches of two epochs may be under way at a time */
    pthread_mutex_t making;
};

yk_code yk_source_init(struct yk_source *s, const struct yk_dataset *set, uint64_t seed,
                       uint32_t window, struct yk_error *e);
void yk_source_release(struct yk_source *s); /* a zeroed one is fine */

/* The `n` examples from `position` on, all of one epoch. `ahead` is the position of those that will be asked for next, UINT64_MAX if
 * nobody knows. Any thread; whoever is the first of an epoch makes its order. */
void yk_source_at(struct yk_source *s, uint64_t position, uint32_t n, uint64_t ahead,
                  struct yk_batch *out);

#endif
