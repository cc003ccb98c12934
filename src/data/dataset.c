/* dataset.c - opens what `--data` names. Other kinds have files of their own (sets.h); IDX files it finds itself, checks that they belong
 * together, and loads them.
 *
 * A folder holds up to two parts of two files each, plain or gzipped, in either of the spellings that are about:
 *
 *     train-images-idx3-ubyte   train-labels-idx1-ubyte     the training part
 *     t10k-images.idx3-ubyte    t10k-labels.idx1-ubyte.gz   the test part
 *
 * Pixels and labels stay in the buffers they were read into. The number of classes is that of the whole set: the labels of a
 * part that is not wanted are read too, so that both parts agree on it whoever opens them.
 * THREADS: no state; an open dataset is never changed, so any thread may read it. */
#include "data/data.h"

#include "base/file.h"
#include "data/fetch.h"
#include "data/idx.h"
#include "data/images.h"
#include "data/sets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { U8 = 0x08, SHAPE_TEXT = 36 };

/* The first file that is there of <stem>-idx<d>-ubyte, for each digit d of `dims`, in all spellings; "" if none is. */
static yk_code find_file(const char *stem, const char *dims, char found[YK_PATH_MAX],
                         struct yk_error *e)
{
    for (; *dims != '\0'; dims++)
        for (int spelling = 0; spelling < 4; spelling++) {
            char sep = spelling < 2 ? '-' : '.';
            yk_code rc =
                yk_path(found, e, "%s%cidx%c-ubyte%s", stem, sep, *dims, spelling % 2 ? ".gz" : "");
            if (rc != YK_OK)
                return rc;
            if (access(found, F_OK) == 0)
                return YK_OK;
            if (errno != ENOENT)
                return yk_fail_errno(e, YK_DATA, "cannot open '%s'", found);
        }
    found[0] = '\0';
    return YK_OK;
}

static yk_code find_images(const char *stem, char found[YK_PATH_MAX], struct yk_error *e)
{
    return find_file(stem, "342", found,
                     e); /* (rows, height, width), (.., channels), (rows, features) */
}

static yk_code find_labels(const char *stem, char found[YK_PATH_MAX], struct yk_error *e)
{
    return find_file(stem, "1", found, e);
}

static yk_code load_labels(const char *path, struct yk_idx *out, struct yk_error *e)
{
    struct yk_idx head;
    yk_code rc = yk_idx_head(path, &head, e);
    if (rc != YK_OK)
        return rc;
    if (head.type != U8 || head.ndim != 1)
        return yk_fail(e, YK_DATA,
                       "'%s' holds %s elements in %u dimension%s; labels must be u8 in 1", path,
                       yk_idx_type_name(head.type), head.ndim, head.ndim == 1 ? "" : "s");
    return yk_idx_read(path, out, e);
}

static uint64_t row_bytes(const struct yk_idx *images)
{
    uint64_t n = 1;
    for (int i = 1; i < images->ndim; i++)
        n *= images->dim[i];
    return n;
}

/* `labels` is how many labels there are: known before the images, which are most of the bytes, are read. */
static yk_code load_images(const char *path, const char *labels_path, uint32_t labels,
                           struct yk_idx *out, struct yk_error *e)
{
    struct yk_idx head;
    yk_code rc = yk_idx_head(path, &head, e);
    if (rc != YK_OK)
        return rc;
    if (head.type != U8 || head.ndim < 2)
        return yk_fail(e, YK_DATA,
                       "'%s' holds %s elements in %u dimension%s; images must be u8 in 2 to 4",
                       path, yk_idx_type_name(head.type), head.ndim, head.ndim == 1 ? "" : "s");
    if (head.dim[0] != labels)
        return yk_fail(e, YK_DATA, "'%s' has %u images but '%s' has %u labels", path, head.dim[0],
                       labels_path, labels);
    if (row_bytes(&head) > UINT32_MAX)
        return yk_fail(e, YK_DATA, "'%s' has images of %llu bytes; at most 4294967295 are possible",
                       path, (unsigned long long)row_bytes(&head));
    return yk_idx_read(path, out, e);
}

static uint32_t count_classes(const uint8_t *labels, uint32_t n)
{
    uint8_t max = 1; /* a set with one class only is still a question with two answers */
    for (uint32_t i = 0; i < n; i++)
        max = labels[i] > max ? labels[i] : max;
    return max + 1u;
}

static yk_code fingerprint(struct yk_dataset *d, const uint8_t *labels, struct yk_error *e)
{
    XXH3_state_t *h = XXH3_createState();
    if (h == NULL)
        return yk_fail_memory(e, 1024); /* about: the library hides how much it is */
    XXH3_64bits_reset(h);
    XXH3_64bits_update(h, d->pixels, (size_t)d->rows * d->features);
    XXH3_64bits_update(h, labels, d->rows);
    d->xxh3 = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return YK_OK;
}

static void name_part(struct yk_dataset *d, const char *name, const char *split)
{
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->split, sizeof d->split, "%s", split);
}

static yk_code load_part(const char *images_path, const char *labels_path, const char *name,
                         const char *split, struct yk_dataset *out, struct yk_error *e)
{
    struct yk_idx images = {0}, labels = {0};
    yk_code rc = load_labels(labels_path, &labels, e);
    if (rc != YK_OK)
        return rc;
    rc = load_images(images_path, labels_path, labels.dim[0], &images, e);
    if (rc != YK_OK)
        goto out_labels;
    uint16_t *wide = malloc((labels.dim[0] + (size_t)1) * sizeof *wide);
    if (wide == NULL) {
        rc = yk_fail_memory(e, labels.dim[0] * sizeof *wide);
        goto out_images;
    }
    for (uint32_t i = 0; i < labels.dim[0]; i++)
        wide[i] = labels.data[i];
    struct yk_dataset d = {
        .rows = images.dim[0],
        .features = (uint32_t)row_bytes(&images),
        .classes = count_classes(labels.data, labels.dim[0]),
        .shape = {1, images.dim[1], 1},
        .pixels = images.data,
        .labels = wide,
        .scale = 1.0f / 255,
    };
    if (images.ndim > 2) {
        d.shape[0] = images.dim[1];
        d.shape[1] = images.dim[2];
        d.shape[2] = images.ndim > 3 ? images.dim[3] : 1;
    }
    name_part(&d, name, split);
    rc = fingerprint(&d, labels.data, e);
    if (rc == YK_OK) {
        *out = d;
        goto out_labels;
    }
    free(wide);
out_images:
    yk_idx_release(&images);
out_labels:
    yk_idx_release(&labels);
    return rc;
}

static const char *shape_text(const struct yk_dataset *d, char out[SHAPE_TEXT])
{
    snprintf(out, SHAPE_TEXT, "%ux%ux%u", d->shape[0], d->shape[1], d->shape[2]);
    return out;
}

/* One part of a folder: "train" or "t10k". If `out` is NULL only its labels are looked at. Raises *classes to what the part
 * needs. */
static yk_code open_part(const char *folder, const char *prefix, const char *name,
                         const char *split, bool required, struct yk_dataset *out,
                         uint32_t *classes, struct yk_error *e)
{
    char stem[YK_PATH_MAX], images[YK_PATH_MAX], labels[YK_PATH_MAX];
    struct yk_idx other = {0};
    yk_code rc = yk_path(stem, e, "%s/%s-images", folder, prefix);
    if (rc == YK_OK)
        rc = find_images(stem, images, e);
    if (rc == YK_OK)
        rc = yk_path(stem, e, "%s/%s-labels", folder, prefix);
    if (rc == YK_OK)
        rc = find_labels(stem, labels, e);
    if (rc != YK_OK)
        return rc;
    uint32_t found = 0;
    if (out == NULL && labels[0] != '\0') {
        rc = load_labels(labels, &other, e);
        found = rc == YK_OK ? count_classes(other.data, other.dim[0]) : 0;
        yk_idx_release(&other);
    } else if (out != NULL && images[0] != '\0' && labels[0] != '\0') {
        rc = load_part(images, labels, name, split, out, e);
        found = rc == YK_OK ? out->classes : 0;
    } else if (out != NULL && (required || images[0] != '\0' || labels[0] != '\0')) {
        const char *missing = images[0] == '\0' ? "images-idx3" : "labels-idx1";
        rc = yk_fail(e, YK_DATA, "cannot find '%s-%s-ubyte' in '%s'", prefix, missing, folder);
        yk_hint(e, "a folder of data holds train-images-idx3-ubyte, train-labels-idx1-ubyte and "
                   "the same with t10k for the test "
                   "part, plain or as .gz; or a folder of JPEG files for each class");
    }
    *classes = found > *classes ? found : *classes;
    return rc;
}

static yk_code open_folder(const char *folder, const char *name, struct yk_dataset *train,
                           struct yk_dataset *test, struct yk_error *e)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    uint32_t classes = 0;
    yk_code rc = open_part(folder, "train", name, "train", true, train, &classes, e);
    if (rc == YK_OK)
        rc = open_part(folder, "t10k", name, "test", train == NULL, test, &classes, e);
    if (rc != YK_OK)
        return rc;
    if (train != NULL && test != NULL && test->rows > 0 &&
        memcmp(train->shape, test->shape, sizeof train->shape) != 0)
        return yk_fail(e, YK_DATA, "the training images in '%s' are %s, but its test images are %s",
                       folder, shape_text(train, a), shape_text(test, b));
    if (train != NULL)
        train->classes = classes;
    if (test != NULL && test->rows > 0)
        test->classes = classes;
    return YK_OK;
}

/* What <a>images<b>-idx3-ubyte is to be trained against: <a>labels<b>-idx1-ubyte. */
static yk_code find_labels_beside(const char *images, char labels[YK_PATH_MAX], struct yk_error *e)
{
    const char *slash = strrchr(images, '/'), *base = slash ? slash + 1 : images, *word = NULL;
    struct yk_idx head;
    yk_code rc = yk_idx_head(images, &head,
                             e); /* a file of another kind altogether should hear that first */
    if (rc != YK_OK)
        return rc;
    for (const char *p = base; (p = strstr(p, "images")) != NULL; p++)
        word = p;
    if (word == NULL) {
        yk_fail(e, YK_DATA,
                "cannot tell where the labels of '%s' are: its name does not have 'images' in it",
                images);
        yk_hint(e, "the labels of some-images-idx3-ubyte are looked for beside it, in "
                   "some-labels-idx1-ubyte");
        return YK_DATA;
    }
    char stem[YK_PATH_MAX];
    const char *rest = word + strlen("images"), *idx = strstr(rest, "idx");
    int middle = idx != NULL && idx > rest ? (int)(idx - rest) - 1 : 0;
    rc = yk_path(stem, e, "%.*slabels%.*s", (int)(word - images), images, middle, rest);
    if (rc == YK_OK)
        rc = find_labels(stem, labels, e);
    if (rc == YK_OK && labels[0] == '\0') {
        rc = yk_fail(e, YK_DATA, "cannot find the labels of '%s' beside it", images);
        yk_hint(e, "expected '%s-idx1-ubyte', plain or as .gz", stem);
    }
    return rc;
}

static yk_code open_file(const char *path, const char *name, const char *split,
                         struct yk_dataset *out, struct yk_error *e)
{
    char labels[YK_PATH_MAX];
    yk_code rc = find_labels_beside(path, labels, e);
    return rc == YK_OK ? load_part(path, labels, name, split, out, e) : rc;
}

/* The last part of a path, without slashes behind it. */
static void name_of_path(const char *path, char name[64])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    snprintf(name, 64, "%.*s", (int)(end - start), path + start);
}

#define COLLECT(name) &yk_set_##name,
static const struct yk_set_ops *const KINDS[] = {YK_SETS(COLLECT)};
#undef COLLECT
enum { N_KINDS = sizeof KINDS / sizeof KINDS[0] };

const struct yk_set_ops *yk_set_find(const char *what)
{
    for (size_t i = 0; i < N_KINDS && !yk_fetch_knows(what); i++)
        if (KINDS[i]->is(what))
            return KINDS[i];
    return NULL;
}

static bool meant_otherwise(const char *what, struct yk_error *e)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (KINDS[i]->meant != NULL && KINDS[i]->meant(what, e))
            return true;
    return false;
}

/* Either part may be NULL, but not both; they come zeroed. */
static yk_code open_any(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                        struct yk_dataset *test, struct yk_error *e)
{
    static const struct yk_imaging AS_IT_IS;
    const struct yk_set_ops *kind = yk_set_find(what);
    char folder[YK_PATH_MAX], name[64];
    struct stat st;
    yk_code rc;
    how = how != NULL ? how : &AS_IT_IS;
    name_of_path(what, name);
    if (how->holdout > 0 && (kind == NULL || !kind->holds_out)) {
        rc = yk_fail(e, YK_USAGE,
                     "--holdout means nothing to '%s': it is for sparse rows and for class folders",
                     what);
    } else if (kind != NULL) {
        rc = kind->open(what, how, train, test, e);
        if (rc == YK_OK && train != NULL)
            name_part(train, name, "train");
        if (rc == YK_OK && test != NULL && test->rows > 0)
            name_part(test, name, "test");
    } else if (yk_fetch_knows(what)) {
        rc = yk_fetch(what, NULL, NULL, NULL, folder, e);
        if (rc == YK_OK)
            rc = open_folder(folder, what, train, test, e);
    } else if (stat(what, &st) != 0) {
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s'", what);
        yk_hint(e,
                "data is %s, %s, a folder with IDX or CIFAR-10 files or with a folder of JPEG "
                "files for each class, one such "
                "file of images, or "
                "fake:HxWxC:CLASSES",
                yk_fetch_names[0], yk_fetch_names[1]);
    } else if (!yk_data_is_dense(what) && meant_otherwise(what, e)) {
        rc = YK_DATA;
    } else if (S_ISDIR(st.st_mode)) {
        rc = open_folder(what, name, train, test, e);
    } else {
        rc = open_file(what, name, train ? "train" : "test", train ? train : test, e);
    }
    if (rc != YK_OK) {
        yk_dataset_release(train);
        yk_dataset_release(test);
    }
    return rc;
}

bool yk_data_is_dense(const char *what)
{
    static const char *const PART[] = {"train", "t10k"};
    char stem[YK_PATH_MAX], found[YK_PATH_MAX] = "";
    struct yk_idx head;
    struct stat st;
    if (yk_fetch_knows(what) || yk_set_find(what) != NULL)
        return true;
    if (stat(what, &st) != 0)
        return false;
    for (int i = 0; S_ISDIR(st.st_mode) && i < 2 && found[0] == '\0'; i++)
        if (yk_path(stem, NULL, "%s/%s-images", what, PART[i]) != YK_OK ||
            find_images(stem, found, NULL) != YK_OK)
            return false;
    return S_ISDIR(st.st_mode) ? found[0] != '\0' : yk_idx_head(what, &head, NULL) == YK_OK;
}

yk_code yk_data_open(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                     struct yk_dataset *test, struct yk_error *e)
{
    *train = (struct yk_dataset){0};
    if (test != NULL)
        *test = (struct yk_dataset){0};
    return open_any(what, how, train, test, e);
}

yk_code yk_data_open_test(const char *what, const struct yk_imaging *how, struct yk_dataset *test,
                          struct yk_error *e)
{
    *test = (struct yk_dataset){0};
    return open_any(what, how, NULL, test, e);
}

void yk_dataset_release(struct yk_dataset *d)
{
    if (d == NULL)
        return;
    free(d->pixels);
    free(d->labels);
    free(d->blocks);
    free(d->first);
    free(d->nonzero);
    free(d->class_names);
    yk_images_close(d->images);
    if (!d->borrowed)
        yk_rows_close(d->sparse);
    *d = (struct yk_dataset){0};
}
