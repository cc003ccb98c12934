/* data.h - from files to batches.
 *
 * A *dataset* is labelled examples: the training or the test part of what `--data` names. A
 * *source* deals them out as shuffled batches. A batch does not copy: it names rows of its dataset,
 * and also the rows that come next, so that a kernel can prefetch them.
 *
 * Most sets have their pixels in memory. Photos and made-up images would not fit: their dataset
 * only knows how to make an image (images.h), and a *feed* (prefetch.h) makes the images of a batch
 * before it is computed. Models find their images through yk_batch_image in both cases.
 *
 * Memory: a dataset holds its examples once, 8 bits a pixel as in the file, and less once it is
 * packed (yk_dataset_pack). Packing adds at least 12 bytes a row; a source adds 8. */
#ifndef YK_DATA_DATA_H
#define YK_DATA_DATA_H

#include "base/error.h"
#include "data/rows/rows.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    YK_PACK_BLOCK = 8, /* pixels that packing drops or keeps together */
    YK_ROW_SLACK = 64, /* readable bytes after the last row: kernels may load whole vectors */
};

struct yk_images; /* images.h */

/* Images without their background: the blocks of 8 pixels that are not all zero (pack.c). */
struct yk_packed {
    uint8_t *blocks;   /* the blocks, row after row; NULL: the set is not packed */
    uint32_t *first;   /* (rows + 1) the number of a row's first block */
    uint64_t *nonzero; /* (rows, words) bit k of word w: the row has block 64 w + k */
    uint32_t words;    /* of `nonzero`, a row */
};

struct yk_dataset {
    char name[64];     /* "mnist", or the last part of the path */
    char split[8];     /* "train" or "test" */
    uint32_t rows;     /* examples */
    uint32_t features; /* pixels a row */
    uint32_t classes;  /* labels are 0 .. classes-1 */
    uint32_t shape[3]; /* height, width, channels; features = their product */
    float scale;       /* models multiply a pixel with this: 1/255 */
    uint64_t xxh3;     /* of pixels and labels, or of their source: a resumed run compares it */
    uint16_t *labels;  /* (rows); NULL: `sparse` has them */
    char *class_names; /* class folders: "cat/dog" for labels 0 and 1; else NULL */

    /* The examples have exactly one of four forms; the other three are NULL. */
    uint8_t *pixels; /* (rows, features), 64-byte aligned, YK_ROW_SLACK zero bytes after the end */
    struct yk_packed packed;
    struct yk_images *images; /* pixels are made when they are needed, see yk_feed_take */
    struct yk_rows *sparse;   /* shape is 1 x features x 1; two parts of one set share their rows */

    double holdout; /* share of `sparse`, evenly spread, that is the test part; 0: no test part */
    bool is_test;   /* this is that test part */
    bool borrowed;  /* the other part closes `sparse` */
};

/* How files become images. */
struct yk_imaging {
    /* Height, width and channels of the images that photos become; 0: those of the first photo. */
    uint32_t shape[3];
    /* Share of photos, evenly spread, that becomes the test part of class folders without one. */
    double holdout;
    /* The class_names of a dataset whose labels class folders get; some classes may be missing, but
     * a class that is not among them is YK_DATA. NULL: class folders have labels of their own. */
    const char *classes;
    /* Bytes of decoded photos to keep in memory; 0: half of the memory that is free. */
    uint64_t keep;
};

/* Opens `what`: "mnist", "fashion-mnist", a folder with the four IDX files (plain or .gz), one file
 * of IDX images with its labels beside it, CIFAR-10 binaries, JPEG files in class folders, or
 * "fake:224x224x3:1000" (sets.h). Fetches "mnist" if it is not cached yet. `how` may be NULL: all
 * zero. A missing, unreadable or malformed file is YK_DATA. On success the caller owns both parts;
 * a set without a test part leaves test->rows == 0. `test` may be NULL. */
yk_code yk_data_open(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                     struct yk_dataset *test, struct yk_error *e);

/* The test part alone: that of a folder, or the one file of images. */
yk_code yk_data_open_test(const char *what, const struct yk_imaging *how, struct yk_dataset *test,
                          struct yk_error *e);

/* Does `what` name images rather than sparse rows? */
bool yk_data_is_dense(const char *what);

/* YK_USAGE if `output` is one of the files that `what` names, images or rows. See base/apart.h. */
yk_code yk_data_apart(const char *what, const char *output, struct yk_error *e);

/* Makes all images of a set (centre crops) and keeps their pixels in memory. YK_USAGE if they would
 * take more than half of the memory that is free. Does nothing to sets that have their pixels. */
yk_code yk_dataset_load(struct yk_dataset *d, struct yk_error *e);

/* Opens sparse rows, as yk_rows_open does. With `holdout` > 0 that share of them, evenly spread
 * over the file, is the test part (YK_USAGE if that is less than one row) and the rest the training
 * part; else all are training rows and test->rows == 0. If `test` is NULL, held-out rows are left
 * out. */
yk_code yk_data_open_rows(const char *what, const struct yk_reading *how, double holdout,
                          struct yk_dataset *train, struct yk_dataset *test, struct yk_error *e);

/* Turns a dense set into sparse rows of the pixels that are not zero. Loads it first. */
yk_code yk_dataset_sparse(struct yk_dataset *d, struct yk_error *e);

/* How many of the first `row` rows of a file are held out as test part: row r is if r * share and
 * (r + 1) * share have different whole parts. Held-out rows are thus spread evenly, without a
 * seed. */
static inline uint64_t yk_held_before(double share, uint64_t row)
{
    return (uint64_t)((double)row * share);
}
static inline bool yk_is_held(double share, uint64_t row)
{
    return yk_held_before(share, row) != yk_held_before(share, row + 1);
}

/* The numbers of this part's rows, in the order of the file, to row[0 .. rows). */
void yk_dataset_rows(const struct yk_dataset *d, uint32_t *row);

void yk_dataset_release(struct yk_dataset *d);

/* Drops the background of all images: keeps only the blocks of 8 pixels that are not all zero.
 * Loads the set first. Does nothing to a set that is packed already. */
yk_code yk_dataset_pack(struct yk_dataset *d, struct yk_error *e);

/* The rows of one step. All pointers are into the source or its dataset, and are valid until a
 * batch of the epoch after the next is asked for. */
struct yk_batch {
    const struct yk_dataset *set;
    uint32_t n;          /* examples in this batch; the last one of an epoch may be smaller */
    const uint32_t *row; /* (n) their rows in the set */
    uint32_t n_ahead; /* rows after these that are known already, at most n; 0 at an epoch's end */
    const uint32_t *ahead; /* (n_ahead) their numbers, worth prefetching */
    uint64_t epoch;        /* 0 for the first */
    /* (n) pixels that a feed made, valid until it is asked for the next batch; NULL: no feed */
    const uint8_t *const *image;
};

/* The pixels of example i of a batch, (height, width, channels). */
static inline const uint8_t *yk_batch_image(const struct yk_batch *b, uint32_t i)
{
    return b->image != NULL ? b->image[i] : b->set->pixels + (size_t)b->row[i] * b->set->features;
}

/* The shuffled order of a dataset, epoch after epoch. A *position* counts examples over all epochs:
 * epoch * rows + place in the order of that epoch. */
struct yk_source {
    const struct yk_dataset *set;
    uint64_t seed;
    uint32_t window; /* rows that are shuffled together; 0: all rows, 1: no shuffling */
    struct yk_order {
        _Atomic uint64_t epoch; /* whose permutation `row` holds; UINT64_MAX if none */
        uint32_t *row;          /* (rows) keyed by (seed, epoch) */
    } order[2]; /* even and odd epochs: batches of two epochs may be under way at a time */
    pthread_mutex_t making; /* held while an order is made */
};

yk_code yk_source_init(struct yk_source *s, const struct yk_dataset *set, uint64_t seed,
                       uint32_t window, struct yk_error *e);
void yk_source_release(struct yk_source *s); /* a zeroed one is fine */

/* The `n` examples from `position` on, all of one epoch. `ahead` is the position of the examples
 * that will be asked for next; UINT64_MAX: unknown. Any thread; the first makes the order. */
void yk_source_at(struct yk_source *s, uint64_t position, uint32_t n, uint64_t ahead,
                  struct yk_batch *out);

#endif
