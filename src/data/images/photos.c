/* photos.c - photos in class folders: decoded when they are needed, brought to one size, cropped
 * and flipped at random.
 *
 *     DATA/train/cat/1.jpg    DATA/test/cat/7.jpg     a training and a test part (or val/), or
 *     DATA/cat/1.jpg                                  one part, which --holdout splits in two
 *
 * A photo is resized, keeping its proportions, until it just covers 8/7 of the wanted size (256 x
 * 256 for 224 x 224); the image is then cut out of it, in the centre, or for training at a random
 * place. A photo that has exactly the wanted size is taken as it is. Photos more than four times as
 * long as the wanted proportions are cut to their middle first, so that a panorama does not take
 * the memory of a hundred photos.
 *
 *     file -> JPEG at 1/1 .. 1/8 of its size -> resized: all or a window -> cropped, flipped
 *
 * Resized photos are kept as long as the granted memory lasts, and cost only a copy from the second
 * epoch on. Of a test part only the centre is kept. A window has the same pixels as in the whole
 * picture, so no result depends on which photos are kept.
 * THREADS: any number make images at a time; one compare-and-swap publishes a kept photo for good.
 * LIMITS: a file has at most 256 MB. */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/images/class_folders.h"
#include "data/images/images.h"
#include "data/images/jpeg.h"
#include "data/images/resize.h"
#include "data/images/sets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MARGIN_TOP = 8,
    MARGIN_BOTTOM = 7,
    LONGEST = 4,
    FILE_MOST = 256 << 20,
    HEAD_BYTES = 64 << 10,
    NAMED = 20
};

struct kept {
    uint32_t h, w;
    uint8_t pixels[]; /* (h, w, channels) */
};

struct folder {
    struct yk_images images; /* first, so that pointers to the two convert */
    struct yk_class_folders list;
    uint32_t shape[3];
    bool still;                   /* only the centre is ever wanted */
    atomic_llong allowed;         /* bytes that may still be kept */
    _Atomic(struct kept *) *kept; /* (rows) */
};

/* How a photo becomes an image. */
struct fit {
    uint32_t region_h, region_w; /* the part of the photo that is used, round its middle */
    uint32_t cover_h, cover_w;   /* the size that it is brought to, and the image is cut out of */
    unsigned eighths;            /* the scale of decoding */
};

static uint32_t with_margin(uint32_t side)
{
    return (uint32_t)(((uint64_t)side * MARGIN_TOP + MARGIN_BOTTOM - 1) / MARGIN_BOTTOM);
}

static uint32_t scaled(uint32_t side, unsigned eighths)
{
    return (side * eighths + 7) / 8;
}

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

static uint32_t most(uint64_t a, uint64_t b)
{
    return (uint32_t)(a > b ? a : b);
}

static struct fit fit_of(const uint32_t shape[3], uint32_t h, uint32_t w)
{
    struct fit c = {.region_h = h, .region_w = w, .cover_h = h, .cover_w = w, .eighths = 8};
    uint64_t wide = with_margin(shape[1]), high = with_margin(shape[0]);
    if (h == shape[0] && w == shape[1])
        return c;
    c.region_w = most(1, least(w, LONGEST * h * wide / high));
    c.region_h = most(1, least(h, LONGEST * w * high / wide));
    if (c.region_h * wide <= c.region_w * high) { /* the height decides */
        c.cover_h = (uint32_t)high;
        c.cover_w = most(wide, (c.region_w * high + c.region_h / 2) / c.region_h);
    } else {
        c.cover_w = (uint32_t)wide;
        c.cover_h = most(high, (c.region_h * wide + c.region_w / 2) / c.region_w);
    }
    while (c.eighths > 1 && scaled(c.region_h, c.eighths / 2) >= c.cover_h &&
           scaled(c.region_w, c.eighths / 2) >= c.cover_w)
        c.eighths /= 2;
    return c;
}

/* Reads the first `limit` bytes of a file: *n of the *size that it has. */
static yk_code read_file(const char *path, size_t limit, struct yk_canvas *c, size_t *n,
                         uint64_t *size, struct yk_error *e)
{
    struct stat st;
    yk_code rc = YK_OK;
    size_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0) {
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
        goto out_file;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MOST) {
        rc = yk_fail(e, YK_DATA, "'%s' is %s; expected a JPEG file of at most %d MB", path,
                     S_ISREG(st.st_mode) ? "too long" : "not a file", FILE_MOST >> 20);
        goto out_file;
    }
    *size = (uint64_t)st.st_size;
    size_t want = least(limit, *size);
    uint8_t *bytes = yk_room(&c->file, want + 1);
    if (bytes == NULL) {
        rc = yk_fail_memory(e, want + 1);
        goto out_file;
    }
    while (got < want) {
        ssize_t k = read(fd, bytes + got, want - got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            rc = yk_fail_errno(e, YK_DATA, "cannot read '%s'", path);
        if (k <= 0)
            break; /* A file that shrinks meanwhile is cut off, and decoding will say so. */
        got += (size_t)k;
    }
    *n = got;
out_file:
    close(fd);
    return rc;
}

/* Reads size and kind, mostly from the first bytes alone; a long preview may come before them. */
static yk_code read_head(const char *path, struct yk_canvas *c, struct yk_picture *p,
                         uint64_t *size, struct yk_error *e)
{
    size_t n = 0;
    yk_code rc = read_file(path, HEAD_BYTES, c, &n, size, e);
    if (rc != YK_OK || (n < *size && yk_jpeg_head(c, c->file.bytes, n, path, p, NULL) == YK_OK))
        return rc;
    if (n < *size)
        rc = read_file(path, FILE_MOST, c, &n, size, e);
    return rc == YK_OK ? yk_jpeg_head(c, c->file.bytes, n, path, p, e) : rc;
}

/* The place of the image in a picture of (h, w). */
static void place(const struct folder *f, const struct yk_variation *v, uint32_t h, uint32_t w,
                  uint32_t *y, uint32_t *x)
{
    uint32_t down = h - f->shape[0], right = w - f->shape[1];
    *y = v->crop ? (uint32_t)(v->y * ((uint64_t)down + 1) >> 32) : down / 2;
    *x = v->crop ? (uint32_t)(v->x * ((uint64_t)right + 1) >> 32) : right / 2;
}

static void mirror(uint8_t *p, const uint32_t shape[3])
{
    uint32_t w = shape[1], c = shape[2];
    for (uint32_t y = 0; y < shape[0]; y++, p += (size_t)w * c)
        for (uint32_t a = 0, b = w - 1; a < b; a++, b--)
            for (uint32_t k = 0; k < c; k++) {
                uint8_t one = p[(size_t)a * c + k];
                p[(size_t)a * c + k] = p[(size_t)b * c + k];
                p[(size_t)b * c + k] = one;
            }
}

static void cut(const struct folder *f, const struct kept *k, const struct yk_variation *v,
                uint8_t *out)
{
    uint32_t y0, x0, c = f->shape[2];
    size_t row = (size_t)f->shape[1] * c;
    place(f, v, k->h, k->w, &y0, &x0);
    for (uint32_t y = 0; y < f->shape[0]; y++)
        memcpy(out + y * row, k->pixels + (((size_t)y0 + y) * k->w + x0) * c, row);
}

/* Memory for a picture to be kept; NULL if no more may be kept. */
static struct kept *granted(struct folder *f, uint32_t h, uint32_t w)
{
    long long bytes = (long long)(sizeof(struct kept) + (size_t)h * w * f->shape[2]);
    if (f->kept == NULL)
        return NULL;
    struct kept *k = atomic_fetch_sub(&f->allowed, bytes) >= bytes ? malloc((size_t)bytes) : NULL;
    if (k == NULL) {
        atomic_fetch_add(&f->allowed, bytes);
        return NULL;
    }
    k->h = h;
    k->w = w;
    return k;
}

static void give_up(struct folder *f, struct kept *k)
{
    if (k != NULL)
        atomic_fetch_add(&f->allowed, (long long)(sizeof *k + (size_t)k->h * k->w * f->shape[2]));
    free(k);
}

static void publish(struct folder *f, uint32_t row, struct kept *k)
{
    struct kept *none = NULL;
    if (!atomic_compare_exchange_strong(&f->kept[row], &none, k))
        give_up(f, k); /* another thread was faster */
}

/* Resizes the decoded photo: all of it if it is kept, else only the window that is wanted. */
static yk_code paint(struct folder *f, uint32_t row, const struct fit *to,
                     const struct yk_picture *p, const struct yk_variation *v, struct yk_canvas *c,
                     uint8_t *out, struct yk_error *e)
{
    const uint32_t *shape = f->shape;
    uint32_t h = least(scaled(to->region_h, to->eighths), p->height),
             w = least(scaled(to->region_w, to->eighths), p->width);
    size_t stride = (size_t)p->width * p->channels;
    struct yk_resize r = {.from = p->pixels + (p->height - h) / 2 * stride +
                                  (size_t)((p->width - w) / 2) * p->channels,
                          .stride = stride,
                          .from_h = h,
                          .from_w = w,
                          .channels = p->channels,
                          .to_h = to->cover_h,
                          .to_w = to->cover_w};
    struct kept *k =
        granted(f, f->still ? shape[0] : to->cover_h, f->still ? shape[1] : to->cover_w);
    place(f, v, to->cover_h, to->cover_w, &r.y, &r.x);
    if (k != NULL && !f->still)
        r.y = r.x = 0;
    r.h = k != NULL ? k->h : shape[0];
    r.w = k != NULL ? k->w : shape[1];
    if (!yk_resize(&r, c, k != NULL ? k->pixels : out)) {
        give_up(f, k);
        return yk_fail_memory(e, stride * sizeof(int32_t));
    }
    if (k != NULL) {
        cut(f, k, v, out);
        publish(f, row, k);
    }
    return YK_OK;
}

static yk_code make(struct yk_images *im, uint32_t row, const struct yk_variation *v,
                    struct yk_canvas *c, uint8_t *out, struct yk_error *e)
{
    struct folder *f = (struct folder *)im;
    const struct kept *k = f->kept != NULL ? atomic_load(&f->kept[row]) : NULL;
    yk_code rc = YK_OK;
    if (k != NULL) {
        cut(f, k, v, out);
    } else {
        char path[YK_PATH_MAX];
        struct yk_picture p;
        size_t n = 0;
        uint64_t size;
        rc = yk_class_folders_path(&f->list, row, path, e);
        if (rc == YK_OK)
            rc = read_file(path, FILE_MOST, c, &n, &size, e);
        if (rc == YK_OK)
            rc = yk_jpeg_head(c, c->file.bytes, n, path, &p, e);
        if (rc != YK_OK)
            return rc;
        const struct fit to = fit_of(f->shape, p.height, p.width);
        rc = yk_jpeg_decode(c, c->file.bytes, n, path, f->shape[2], to.eighths, &p, e);
        if (rc == YK_OK)
            rc = paint(f, row, &to, &p, v, c, out, e);
    }
    if (rc == YK_OK && v->flip)
        mirror(out, f->shape);
    return rc;
}

static void close_folder(struct yk_images *im)
{
    struct folder *f = (struct folder *)im;
    if (f->kept != NULL)
        for (uint32_t i = 0; i < f->list.rows; i++)
            free(atomic_load(&f->kept[i]));
    free(f->kept);
    yk_class_folders_release(&f->list);
    free(f);
}

static const struct yk_images_ops OPS = {.make = make, .close = close_folder};

/* Opens a part, which takes `list` over. */
static yk_code open_part(struct yk_class_folders *list, const uint32_t shape[3], uint64_t keep,
                         bool still, struct yk_dataset *out, struct yk_error *e)
{
    struct folder *f = calloc(1, sizeof *f);
    uint16_t *labels = malloc((list->rows + (size_t)1) * sizeof *labels);
    char *names = yk_class_folders_names(list);
    if (f == NULL || labels == NULL || names == NULL) {
        free(f);
        free(labels);
        free(names);
        return yk_fail_memory(e, list->rows * sizeof *labels);
    }
    memcpy(labels, list->label, list->rows * sizeof *labels);
    f->images = (struct yk_images){.ops = &OPS, .varied = !still};
    memcpy(f->shape, shape, sizeof f->shape);
    f->still = still;
    atomic_init(&f->allowed, (long long)(keep < INT64_MAX ? keep : INT64_MAX));
    f->kept = calloc(list->rows, sizeof *f->kept); /* without it nothing is kept */
    *out = (struct yk_dataset){.rows = list->rows,
                               .features = shape[0] * shape[1] * shape[2],
                               .classes = list->classes < 2 ? 2 : list->classes,
                               .shape = {shape[0], shape[1], shape[2]},
                               .labels = labels,
                               .class_names = names,
                               .scale = 1.0f / 255,
                               .xxh3 = list->xxh3,
                               .images = &f->images};
    f->list = *list;
    *list = (struct yk_class_folders){0};
    return YK_OK;
}

/* The shape that the model wants, or that of the first photo. */
static yk_code shape_of(const struct yk_class_folders *l, const struct yk_imaging *how,
                        uint32_t shape[3], struct yk_error *e)
{
    char path[YK_PATH_MAX];
    struct yk_canvas c = {0};
    struct yk_picture p;
    uint64_t size;
    memcpy(shape, how->shape, sizeof how->shape);
    if (shape[0] > 0 && shape[2] != 1 && shape[2] != 3)
        return yk_fail(e, YK_USAGE, "photos have 1 or 3 channels, not the %u of %ux%ux%u", shape[2],
                       shape[0], shape[1], shape[2]);
    if (shape[0] > 0 && (uint64_t)shape[0] * shape[1] > YK_JPEG_MOST)
        return yk_fail(e, YK_USAGE,
                       "photos cannot be brought to %ux%u: at most %d million pixels are possible",
                       shape[0], shape[1], YK_JPEG_MOST / 1000000);
    if (shape[0] > 0)
        return YK_OK;
    yk_code rc = yk_class_folders_path(l, 0, path, e);
    if (rc == YK_OK)
        rc = read_head(path, &c, &p, &size, e);
    yk_canvas_release(&c);
    if (rc != YK_OK)
        return rc;
    shape[0] = p.height;
    shape[1] = p.width;
    shape[2] = p.channels;
    return YK_OK;
}

/* Finds DATA/train and DATA/test or DATA/val; a missing part is "". Without train/ DATA itself is
 * the training part. */
static yk_code find_parts(const char *what, char train[YK_PATH_MAX], char test[YK_PATH_MAX],
                          struct yk_error *e)
{
    static const char *const TEST[] = {"test", "val"};
    yk_code rc = yk_path(train, e, "%s/train", what);
    test[0] = '\0';
    if (rc == YK_OK && !yk_is_dir(train))
        return yk_path(train, e, "%s", what);
    for (int i = 0; rc == YK_OK && i < 2; i++) {
        rc = yk_path(test, e, "%s/%s", what, TEST[i]);
        if (rc != YK_OK || yk_is_dir(test))
            return rc;
    }
    test[0] = '\0';
    return rc;
}

static bool is(const char *what)
{
    char train[YK_PATH_MAX], test[YK_PATH_MAX];
    return yk_is_dir(what) && find_parts(what, train, test, NULL) == YK_OK &&
           yk_class_folders_sniff(train);
}

static bool meant(const char *what, struct yk_error *e)
{
    char train[YK_PATH_MAX], test[YK_PATH_MAX], deeper[YK_PATH_MAX];
    uint8_t first[3] = {0};
    if (!yk_is_dir(what)) {
        int fd = open(what, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        bool jpeg = fd >= 0 && pread(fd, first, 3, 0) == 3 && memcmp(first, "\xff\xd8\xff", 3) == 0;
        if (fd >= 0)
            close(fd);
        if (jpeg) {
            yk_fail(e, YK_DATA, "'%s' is one JPEG file, not a data set", what);
            yk_hint(e, "photos lie in a folder for each class, cat/1.jpg, dog/1.jpg; --data is the "
                       "folder that holds those");
        }
        return jpeg;
    }
    if (find_parts(what, train, test, NULL) != YK_OK || !yk_class_folders_stray(train, deeper))
        return false;
    if (deeper[0] == '\0') {
        yk_fail(e, YK_DATA, "'%s' has pictures, but no class folders with pictures in them", train);
        yk_hint(
            e,
            "put them into one folder for each class, such as cat/1.jpg and dog/1.jpg in '%.200s'",
            train);
    } else {
        yk_fail(e, YK_DATA, "'%s' has its pictures a folder too deep for class folders", train);
        yk_hint(e, "if '%.200s' has a folder for each class, name that", deeper);
    }
    return true;
}

static yk_code open_images(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                           struct yk_dataset *test, struct yk_error *e)
{
    char train_path[YK_PATH_MAX], test_path[YK_PATH_MAX];
    struct yk_class_folders like = {0}, list = {0}, held = {0};
    uint32_t shape[3];
    uint64_t keep = how->keep > 0 ? how->keep : yk_memory_free() / 2;
    yk_code rc = find_parts(what, train_path, test_path, e);
    if (rc != YK_OK)
        return rc;
    bool split = test_path[0] != '\0';
    if (how->holdout > 0 && split)
        return yk_fail(e, YK_USAGE,
                       "--holdout means nothing to '%s': it has a test part of its own, '%s'", what,
                       test_path);
    /* Classes are those asked for, else those of the training part: labels mean the same if only
     * the test part is opened. */
    const struct yk_class_folders *known = how->classes != NULL ? &like : NULL;
    if (known != NULL)
        rc = yk_class_folders_named(&like, how->classes, e);
    if (rc == YK_OK)
        rc = split && train == NULL ? yk_class_folders_classes(&list, train_path, e)
                                    : yk_class_folders_read(&list, train_path, known, e);
    if (rc == YK_OK && split && test != NULL)
        rc = yk_class_folders_read(&held, test_path, known != NULL ? known : &list, e);
    if (rc == YK_OK && how->holdout > 0)
        rc = yk_class_folders_hold_out(&list, how->holdout, &held, e);
    /* Without a test part the only part there is becomes one. */
    if (rc == YK_OK && train == NULL && !split && how->holdout == 0) {
        held = list;
        list = (struct yk_class_folders){0};
    }
    if (rc == YK_OK)
        rc = shape_of(train != NULL ? &list : &held, how, shape, e);
    bool both = train != NULL && test != NULL && held.rows > 0;
    if (rc == YK_OK && train != NULL)
        rc = open_part(&list, shape, both ? keep - keep / 4 : keep, false, train, e);
    if (rc == YK_OK && test != NULL && held.rows > 0)
        rc = open_part(&held, shape, both ? keep / 4 : keep, true, test, e);
    yk_class_folders_release(&like);
    yk_class_folders_release(&list);
    yk_class_folders_release(&held);
    return rc;
}

/* Describes the sizes of photos, from their headers alone. */
static yk_code describe_part(const char *path, const char *split,
                             const struct yk_class_folders *like, struct yk_buf *out,
                             struct yk_error *e)
{
    struct yk_class_folders l;
    struct yk_canvas c = {0};
    uint32_t low[2] = {UINT32_MAX, UINT32_MAX}, high[2] = {0}, grey = 0;
    uint64_t bytes = 0;
    char size[24], file[YK_PATH_MAX];
    yk_code rc = yk_class_folders_read(&l, path, like, e);
    if (rc != YK_OK)
        return rc;
    for (uint32_t i = 0; rc == YK_OK && i < l.rows; i++) {
        struct yk_picture p;
        uint64_t length = 0;
        rc = yk_class_folders_path(&l, i, file, e);
        if (rc == YK_OK)
            rc = read_head(file, &c, &p, &length, e);
        if (rc != YK_OK)
            break;
        bytes += length;
        grey += p.channels == 1;
        low[0] = least(low[0], p.height);
        low[1] = least(low[1], p.width);
        high[0] = most(high[0], p.height);
        high[1] = most(high[1], p.width);
    }
    if (rc == YK_OK)
        yk_buf_format(out,
                      "  %-5s  JPEG files of %ux%u to %ux%u, %u of them grey, %s; %llu other files "
                      "left out\n",
                      split, low[0], low[1], high[0], high[1], grey, yk_size_text(bytes, size),
                      (unsigned long long)l.skipped);
    yk_canvas_release(&c);
    yk_class_folders_release(&l);
    return rc;
}

static yk_code describe(const char *what, struct yk_buf *out, struct yk_error *e)
{
    char train[YK_PATH_MAX], test[YK_PATH_MAX];
    struct yk_class_folders like = {0};
    yk_code rc = find_parts(what, train, test, e);
    if (rc == YK_OK)
        rc = yk_class_folders_classes(&like, train, e);
    if (rc == YK_OK)
        rc = describe_part(train, "train", &like, out, e);
    if (rc == YK_OK && test[0] != '\0')
        rc = describe_part(test, "test", &like, out, e);
    if (rc == YK_OK) {
        for (uint32_t i = 0; i < like.classes && i < NAMED; i++)
            yk_buf_format(out, "%s%u %s", i > 0 ? ", " : "  classes are ", i,
                          like.names + like.class_at[i]);
        yk_buf_text(out, like.classes > NAMED ? ", ...\n" : "\n");
    }
    yk_class_folders_release(&like);
    return rc;
}

const struct yk_set_ops yk_set_images = {
    .holds_out = true,
    .is = is,
    .meant = meant,
    .open = open_images,
    .describe = describe,
};
