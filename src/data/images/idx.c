/* idx.c - reads IDX, the format of MNIST and similar sets of images.
 *
 *     offset  bytes
 *          0      2  00 00
 *          2      1  element type: 08 u8, 09 i8, 0b i16, 0c i32, 0d f32, 0e f64
 *          3      1  number of dimensions n
 *          4     4n  the dimensions, u32 big-endian, slowest first
 *       4+4n      -  the elements, big-endian, row after row; nothing behind them
 *
 * A file may be gzipped, whatever its name (stream.h). Its elements are read straight into the
 * buffer that becomes the pixels of a dataset. A header is checked against the length of the file
 * before memory is allocated: exactly if the file is plain; against the 1032-fold expansion that
 * deflate can reach if it is compressed, and exactly once it is inflated.
 *
 * A folder holds up to two parts of two files each, plain or gzipped, in either of two spellings:
 *
 *     train-images-idx3-ubyte   train-labels-idx1-ubyte     the training part
 *     t10k-images.idx3-ubyte    t10k-labels.idx1-ubyte.gz   the test part
 *
 * The number of classes is that of the whole set. The labels of a part that is not wanted are
 * therefore read, too, and both parts agree on the number even if only one of them is opened.
 * THREADS: no state; any thread may read any file. */
#include "data/images/idx.h"

#include "base/file.h"
#include "base/text.h"
#include "data/images/sets.h"
#include "data/rows/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    U8 = 0x08,            /* the element type of images and labels */
    DEFLATE_LIMIT = 1032, /* deflate never expands further than this */
    HUGE_PAGE = 2 << 20,  /* bytes */
    SHAPE_TEXT = 11 * YK_IDX_DIMS + 1,
};

static const struct {
    const char *name;
    unsigned size;
} types[] = {{"u8", 1},  {"i8", 1},  {NULL, 0}, {"i16", 2},
             {"i32", 4}, {"f32", 4}, {"f64", 8}}; /* from 0x08 on */

const char *yk_idx_type_name(uint8_t type)
{
    return type >= 0x08 && type <= 0x0e ? types[type - 0x08].name : NULL;
}

struct input {
    const char *name; /* for messages */
    uint64_t length;  /* of the file as it is stored */
    struct yk_stream *bytes;
};

static const char *shape_text(const struct yk_idx *x, char out[SHAPE_TEXT])
{
    int n = 0;
    for (int i = 0; i < x->ndim; i++)
        n += snprintf(out + n, (size_t)(SHAPE_TEXT - n), "%s%u", i > 0 ? "x" : "", x->dim[i]);
    return out;
}

/* Checks that a header of `head` bytes with `x->bytes` of elements agrees with the length of the
 * file. `fits` is false if the elements are past 2^64 bytes. */
static yk_code check_length(const struct input *s, const struct yk_idx *x, uint64_t head, bool fits,
                            struct yk_error *e)
{
    char shape[SHAPE_TEXT];
    uint64_t whole;
    if (!fits || __builtin_add_overflow(head, x->bytes, &whole))
        return yk_fail(
            e, YK_DATA,
            "'%s' is %llu bytes long, but its header says %s %s, more than any file can hold",
            s->name, (unsigned long long)s->length, yk_idx_type_name(x->type),
            shape_text(x, shape));
    if (yk_stream_is_gzip(s->bytes) && whole / DEFLATE_LIMIT > s->length)
        return yk_fail(e, YK_DATA,
                       "'%s' is %llu bytes of gzip, but its header says %s %s, and %llu bytes "
                       "never shrink that far",
                       s->name, (unsigned long long)s->length, yk_idx_type_name(x->type),
                       shape_text(x, shape), (unsigned long long)whole);
    if (!yk_stream_is_gzip(s->bytes) && whole != s->length)
        return yk_fail(e, YK_DATA,
                       "'%s' is %llu bytes long, but its header says %s %s; expected %llu bytes",
                       s->name, (unsigned long long)s->length, yk_idx_type_name(x->type),
                       shape_text(x, shape), (unsigned long long)whole);
    return YK_OK;
}

static yk_code read_head(struct input *s, struct yk_idx *x, struct yk_error *e)
{
    uint8_t b[4 + 4 * YK_IDX_DIMS];
    size_t got;
    yk_code rc = yk_stream_take(s->bytes, b, 4, &got, e);
    if (rc != YK_OK)
        return rc;
    if (got == 0)
        return yk_fail(e, YK_DATA, "'%s' is empty; expected an IDX file", s->name);
    if (got < 4)
        return yk_fail(e, YK_DATA,
                       "'%s' ends after %zu byte%s; expected an IDX header of at least 8", s->name,
                       got, got == 1 ? "" : "s");
    if (b[0] != 0 || b[1] != 0)
        return yk_fail(e, YK_DATA,
                       "'%s' is not an IDX file: it starts with %02x %02x, expected 00 00", s->name,
                       b[0], b[1]);
    if (yk_idx_type_name(b[2]) == NULL)
        return yk_fail(e, YK_DATA,
                       "'%s' has IDX element type %02x; expected 08 (u8), 09, 0b, 0c, 0d or 0e",
                       s->name, b[2]);
    if (b[3] < 1 || b[3] > YK_IDX_DIMS)
        return yk_fail(e, YK_DATA, "'%s' has %u dimensions; expected 1 to %d", s->name, b[3],
                       YK_IDX_DIMS);
    x->gzip = yk_stream_is_gzip(s->bytes);
    x->type = b[2];
    x->ndim = b[3];
    size_t want = (size_t)4 * x->ndim;
    rc = yk_stream_take(s->bytes, b + 4, want, &got, e);
    if (rc != YK_OK)
        return rc;
    if (got < want)
        return yk_fail(e, YK_DATA,
                       "'%s' ends after %zu bytes; expected an IDX header of %zu for %u dimensions",
                       s->name, 4 + got, 4 + want, x->ndim);
    x->bytes = types[x->type - 0x08].size;
    bool fits = true, empty = false;
    for (int i = 0; i < x->ndim; i++) {
        const uint8_t *d = b + 4 + 4 * i;
        x->dim[i] = (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3];
        empty = empty || x->dim[i] == 0;
        fits = !__builtin_mul_overflow(x->bytes, (uint64_t)x->dim[i], &x->bytes) && fits;
    }
    char shape[SHAPE_TEXT];
    if (empty)
        return yk_fail(
            e, YK_DATA,
            "'%s' holds no elements: its shape is %s; expected every dimension to be at least 1",
            s->name, shape_text(x, shape));
    return check_length(s, x, 4 + want, fits, e);
}

/* Large arrays lie on huge pages: random access then misses the TLB 500 times less often. */
static uint8_t *new_elements(uint64_t bytes)
{
    bool large = bytes > 2 * HUGE_PAGE;
    void *p;
    if (bytes > PTRDIFF_MAX - YK_ROW_SLACK ||
        posix_memalign(&p, large ? HUGE_PAGE : 64, bytes + YK_ROW_SLACK) != 0)
        return NULL;
    if (large)
        madvise(p, bytes + YK_ROW_SLACK, MADV_HUGEPAGE); /* Without huge pages it is only slower. */
    memset((uint8_t *)p + bytes, 0, YK_ROW_SLACK);
    return p;
}

static yk_code read_elements(struct input *s, struct yk_idx *x, struct yk_error *e)
{
    char shape[SHAPE_TEXT];
    uint8_t more;
    size_t got, extra = 0;
    x->data = new_elements(x->bytes);
    if (x->data == NULL)
        return yk_fail_memory(e, x->bytes + YK_ROW_SLACK);
    yk_code rc = yk_stream_take(s->bytes, x->data, x->bytes, &got, e);
    if (rc == YK_OK && got < x->bytes)
        rc = yk_fail(
            e, YK_DATA,
            "'%s' ends after %zu bytes of elements, but its header says %s %s; expected %llu",
            s->name, got, yk_idx_type_name(x->type), shape_text(x, shape),
            (unsigned long long)x->bytes);
    if (rc == YK_OK)
        rc = yk_stream_take(s->bytes, &more, 1, &extra, e); /* inflate checks its checksum, too */
    if (rc == YK_OK && extra > 0)
        rc = yk_fail(
            e, YK_DATA,
            "'%s' goes on after its elements; expected the end after the %llu bytes of %s %s",
            s->name, (unsigned long long)x->bytes, yk_idx_type_name(x->type), shape_text(x, shape));
    if (rc != YK_OK)
        yk_idx_release(x);
    return rc;
}

static yk_code read_input(struct input *s, bool elements, struct yk_idx *out, struct yk_error *e)
{
    struct yk_idx x = {0};
    yk_code rc = read_head(s, &x, e);
    if (rc == YK_OK && elements)
        rc = read_elements(s, &x, e);
    *out = rc == YK_OK ? x : (struct yk_idx){0};
    yk_stream_close(s->bytes);
    return rc;
}

static yk_code read_file(const char *path, bool elements, struct yk_idx *out, struct yk_error *e)
{
    struct input s = {.name = path};
    struct stat st;
    *out = (struct yk_idx){0};
    if (stat(path, &st) != 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    /* A pipe must not be opened: the call would wait, and its writer would lose a reader. */
    if (!S_ISREG(st.st_mode))
        return yk_fail(e, YK_DATA, "'%s' is not a file but a %s; expected an IDX file", path,
                       S_ISDIR(st.st_mode) ? "folder" : "pipe or device");
    s.length = (uint64_t)st.st_size;
    yk_code rc = yk_stream_open(&s.bytes, path, e);
    return rc == YK_OK ? read_input(&s, elements, out, e) : rc;
}

yk_code yk_idx_head(const char *path, struct yk_idx *out, struct yk_error *e)
{
    return read_file(path, false, out, e);
}

yk_code yk_idx_read(const char *path, struct yk_idx *out, struct yk_error *e)
{
    return read_file(path, true, out, e);
}

yk_code yk_idx_parse(const uint8_t *bytes, size_t n, struct yk_idx *out, struct yk_error *e)
{
    struct input s = {.name = "(memory)", .length = n};
    *out = (struct yk_idx){0};
    yk_code rc = yk_stream_open_memory(&s.bytes, bytes, n, e);
    return rc == YK_OK ? read_input(&s, true, out, e) : rc;
}

void yk_idx_release(struct yk_idx *x)
{
    if (x == NULL)
        return;
    free(x->data);
    *x = (struct yk_idx){0};
}

/* --- a set: images and labels --- */

/* Digits for find_file: (rows, height, width), with channels, (rows, features); and (rows). */
static const char IMAGES[] = "342", LABELS[] = "1";

/* The first file that exists of <stem>-idx<d>-ubyte, for each digit d of `dims`, in all spellings;
 * "" if there is none. */
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

/* `labels` is the number of labels, which is compared before all the images are read. */
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
    uint8_t max = 1; /* a set with a single class is still a problem with two answers */
    for (uint32_t i = 0; i < n; i++)
        max = labels[i] > max ? labels[i] : max;
    return max + 1u;
}

static yk_code fingerprint(struct yk_dataset *d, const uint8_t *labels, struct yk_error *e)
{
    XXH3_state_t *h = XXH3_createState();
    if (h == NULL)
        return yk_fail_memory(e, 1024); /* about: the library hides the size */
    XXH3_64bits_reset(h);
    XXH3_64bits_update(h, d->pixels, (size_t)d->rows * d->features);
    XXH3_64bits_update(h, labels, d->rows);
    d->xxh3 = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    return YK_OK;
}

static yk_code load_part(const char *images_path, const char *labels_path, struct yk_dataset *out,
                         struct yk_error *e)
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

/* Opens one part of a folder, "train" or "t10k". If `out` is NULL only its labels are read. Raises
 * *classes to the number that the part needs. */
static yk_code open_part(const char *folder, const char *prefix, bool required,
                         struct yk_dataset *out, uint32_t *classes, struct yk_error *e)
{
    char stem[YK_PATH_MAX], images[YK_PATH_MAX], labels[YK_PATH_MAX];
    struct yk_idx other = {0};
    yk_code rc = yk_path(stem, e, "%s/%s-images", folder, prefix);
    if (rc == YK_OK)
        rc = find_file(stem, IMAGES, images, e);
    if (rc == YK_OK)
        rc = yk_path(stem, e, "%s/%s-labels", folder, prefix);
    if (rc == YK_OK)
        rc = find_file(stem, LABELS, labels, e);
    if (rc != YK_OK)
        return rc;
    uint32_t found = 0;
    if (out == NULL && labels[0] != '\0') {
        rc = load_labels(labels, &other, e);
        found = rc == YK_OK ? count_classes(other.data, other.dim[0]) : 0;
        yk_idx_release(&other);
    } else if (out != NULL && images[0] != '\0' && labels[0] != '\0') {
        rc = load_part(images, labels, out, e);
        found = rc == YK_OK ? out->classes : 0;
    } else if (out != NULL && (required || images[0] != '\0' || labels[0] != '\0')) {
        const char *missing = images[0] == '\0' ? "images-idx3" : "labels-idx1";
        rc = yk_fail(e, YK_DATA, "cannot find '%s-%s-ubyte' in '%s'", prefix, missing, folder);
        yk_hint(e, "a folder of data holds train-images-idx3-ubyte, train-labels-idx1-ubyte and "
                   "the same with t10k for the test part, plain or as .gz; or a folder of JPEG "
                   "files for each class");
    }
    *classes = found > *classes ? found : *classes;
    return rc;
}

static yk_code open_folder(const char *folder, struct yk_dataset *train, struct yk_dataset *test,
                           struct yk_error *e)
{
    uint32_t classes = 0;
    yk_code rc = open_part(folder, "train", true, train, &classes, e);
    if (rc == YK_OK)
        rc = open_part(folder, "t10k", train == NULL, test, &classes, e);
    if (rc != YK_OK)
        return rc;
    if (train != NULL && test != NULL && test->rows > 0 &&
        memcmp(train->shape, test->shape, sizeof train->shape) != 0)
        return yk_fail(e, YK_DATA,
                       "the training images in '%s' are %ux%ux%u, but its test images are %ux%ux%u",
                       folder, train->shape[0], train->shape[1], train->shape[2], test->shape[0],
                       test->shape[1], test->shape[2]);
    if (train != NULL)
        train->classes = classes;
    if (test != NULL && test->rows > 0)
        test->classes = classes;
    return YK_OK;
}

/* The labels of <a>images<b>-idx3-ubyte are in <a>labels<b>-idx1-ubyte. */
static yk_code find_labels_beside(const char *images, char labels[YK_PATH_MAX], struct yk_error *e)
{
    const char *slash = strrchr(images, '/'), *base = slash ? slash + 1 : images, *word = NULL;
    struct yk_idx head;
    /* If this is no IDX file at all, that is the better message. */
    yk_code rc = yk_idx_head(images, &head, e);
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
        rc = find_file(stem, LABELS, labels, e);
    if (rc == YK_OK && labels[0] == '\0') {
        rc = yk_fail(e, YK_DATA, "cannot find the labels of '%s' beside it", images);
        yk_hint(e, "expected '%s-idx1-ubyte', plain or as .gz", stem);
    }
    return rc;
}

static yk_code open_idx(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                        struct yk_dataset *test, struct yk_error *e)
{
    char labels[YK_PATH_MAX];
    (void)how; /* the files define the shape of their images */
    if (yk_is_dir(what))
        return open_folder(what, train, test, e);
    yk_code rc = find_labels_beside(what, labels, e);
    return rc == YK_OK ? load_part(what, labels, train != NULL ? train : test, e) : rc;
}

static bool beside(const char *what, char path[YK_PATH_MAX])
{
    return !yk_is_dir(what) && find_labels_beside(what, path, NULL) == YK_OK;
}

/* A folder is recognised by the name of its images, a file by its first four bytes. */
static bool is(const char *what)
{
    static const char *const PART[] = {"train", "t10k"};
    char stem[YK_PATH_MAX], found[YK_PATH_MAX] = "";
    struct yk_stream *s;
    struct stat st;
    uint8_t b[4];
    size_t n = 0;
    if (stat(what, &st) != 0)
        return false;
    if (S_ISDIR(st.st_mode)) {
        for (int i = 0; i < 2 && found[0] == '\0'; i++)
            if (yk_path(stem, NULL, "%s/%s-images", what, PART[i]) != YK_OK ||
                find_file(stem, IMAGES, found, NULL) != YK_OK)
                return false;
        return found[0] != '\0';
    }
    if (!S_ISREG(st.st_mode) || yk_stream_open(&s, what, NULL) != YK_OK)
        return false;
    bool read = yk_stream_take(s, b, sizeof b, &n, NULL) == YK_OK && n == sizeof b;
    yk_stream_close(s);
    return read && b[0] == 0 && b[1] == 0 && yk_idx_type_name(b[2]) != NULL && b[3] >= 1 &&
           b[3] <= YK_IDX_DIMS;
}

/* --- yoke data info --- */

static void describe_values(const struct yk_idx *x, struct yk_buf *out)
{
    uint64_t count[256] = {0}, sum = 0;
    for (uint64_t i = 0; i < x->bytes; i++)
        count[x->data[i]]++;
    int min = 255, max = 0;
    for (int v = 0; v < 256; v++) {
        if (count[v] == 0)
            continue;
        min = v < min ? v : min;
        max = v;
        sum += count[v] * (uint64_t)v;
    }
    double all = (double)x->bytes;
    yk_buf_format(out, "  values %d .. %d, mean %.3f, %.1f %% zeros\n", min, max, (double)sum / all,
                  100 * (double)count[0] / all);
    if (x->ndim != 1)
        return;
    yk_buf_text(out, "  class       count   share\n");
    for (int v = min; v <= max; v++)
        if (count[v] > 0)
            yk_buf_format(out, "  %5d  %10llu  %4.1f %%\n", v, (unsigned long long)count[v],
                          100 * (double)count[v] / all);
}

static yk_code describe_file(const char *path, struct yk_buf *out, struct yk_error *e)
{
    struct yk_idx x;
    char size[24], shape[SHAPE_TEXT];
    yk_code rc = yk_idx_read(path, &x, e);
    if (rc != YK_OK)
        return rc;
    const char *slash = strrchr(path, '/');
    yk_buf_format(out, "%s: IDX%s, %s, ", slash ? slash + 1 : path, x.gzip ? " (gzipped)" : "",
                  yk_idx_type_name(x.type));
    yk_buf_format(out, "%s, %s of elements\n", shape_text(&x, shape), yk_size_text(x.bytes, size));
    if (x.type == U8)
        describe_values(&x, out);
    yk_idx_release(&x);
    return YK_OK;
}

const struct yk_set_ops yk_set_idx = {
    .is = is,
    .open = open_idx,
    .beside = beside,
    .describe_file = describe_file,
};
