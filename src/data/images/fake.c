/* fake.c - made-up images of any shape, for measuring: "fake:224x224x3:1000", or
 * "fake:HxWxC:CLASSES:ROWS:SEED".
 *
 * Pixels are random bytes keyed by (seed, row), and so are labels: the same on every machine, made
 * when they are needed and never stored. A model can only memorise them. Opened as test data it has
 * other rows than opened for training.
 * THREADS: any number make images at a time. */
#include "base/rng.h"
#include "data/images/images.h"
#include "data/images/sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* "pixs" and "labl": two separate random streams */
enum { PIXELS = 0x70697873, LABELS = 0x6c61626c };
enum {
    ROWS = 100000,
    ROWS_MOST = 100000000,
    SIDE_MOST = 65535,
    CHANNELS_MOST = 4096,
    CLASSES_MOST = 65536
};
#define FEATURES_MOST (1ull << 28)

struct made_up { /* the parsed name */
    uint64_t shape[3], classes, rows, seed, test;
};

struct fake {
    struct yk_images images; /* first, so that pointers to the two convert */
    struct made_up m;
};

static bool is(const char *what)
{
    return strncmp(what, "fake:", 5) == 0;
}

/* Reads a number of at most 18 digits at *at, and moves *at behind it. */
static bool number(const char **at, uint64_t *out)
{
    const char *p = *at;
    *out = 0;
    while (*p >= '0' && *p <= '9' && p - *at < 18)
        *out = *out * 10 + (uint64_t)(*p++ - '0');
    bool any = p > *at;
    *at = p;
    return any;
}

static bool sign(const char **at, char c)
{
    bool there = **at == c;
    *at += there;
    return there;
}

static yk_code parse(const char *what, struct made_up *m, struct yk_error *e)
{
    const char *p = what + 5;
    *m = (struct made_up){.rows = ROWS, .seed = 1};
    bool fine = number(&p, &m->shape[0]) && sign(&p, 'x') && number(&p, &m->shape[1]) &&
                sign(&p, 'x') && number(&p, &m->shape[2]) && sign(&p, ':') &&
                number(&p, &m->classes);
    if (fine && sign(&p, ':'))
        fine = number(&p, &m->rows) && (!sign(&p, ':') || number(&p, &m->seed));
    if (!fine || *p != '\0') {
        yk_fail(e, YK_USAGE,
                "'%s' is not fake:HxWxC:CLASSES, fake:HxWxC:CLASSES:ROWS or "
                "fake:HxWxC:CLASSES:ROWS:SEED",
                what);
        yk_hint(e, "for example fake:224x224x3:1000");
        return YK_USAGE;
    }
    bool sides = m->shape[0] >= 1 && m->shape[0] <= SIDE_MOST && m->shape[1] >= 1 &&
                 m->shape[1] <= SIDE_MOST && m->shape[2] >= 1 && m->shape[2] <= CHANNELS_MOST;
    if (!sides || m->shape[0] * m->shape[1] * m->shape[2] > FEATURES_MOST)
        return yk_fail(
            e, YK_USAGE,
            "'%s' wants images that are too large, or empty: at most %dx%dx%d and %llu pixels",
            what, SIDE_MOST, SIDE_MOST, CHANNELS_MOST, FEATURES_MOST);
    if (m->classes < 2 || m->classes > CLASSES_MOST)
        return yk_fail(e, YK_USAGE, "'%s' wants %llu classes; 2 to %d are possible", what,
                       (unsigned long long)m->classes, CLASSES_MOST);
    if (m->rows < 1 || m->rows > ROWS_MOST)
        return yk_fail(e, YK_USAGE, "'%s' wants %llu rows; 1 to %d are possible", what,
                       (unsigned long long)m->rows, ROWS_MOST);
    return YK_OK;
}

static yk_code make(struct yk_images *im, uint32_t row, const struct yk_variation *v,
                    struct yk_canvas *c, uint8_t *out, struct yk_error *e)
{
    const struct fake *f = (const struct fake *)im;
    size_t n = f->m.shape[0] * f->m.shape[1] * f->m.shape[2], i = 0;
    struct yk_rng r;
    (void)v;
    (void)c;
    (void)e;
    yk_rng_init(&r, f->m.seed, f->m.test, row, PIXELS);
    for (; i + 8 <= n; i += 8) {
        uint64_t bytes = yk_rng_next(&r);
        memcpy(out + i, &bytes, 8);
    }
    uint64_t last = yk_rng_next(&r);
    memcpy(out + i, &last, n - i);
    return YK_OK;
}

static void close_fake(struct yk_images *im)
{
    free(im);
}

static const struct yk_images_ops OPS = {.make = make, .close = close_fake};

static yk_code open_fake(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                         struct yk_dataset *test, struct yk_error *e)
{
    struct yk_dataset *out = train != NULL ? train : test;
    struct made_up m;
    struct yk_rng r;
    (void)how; /* the name defines the shape */
    yk_code rc = parse(what, &m, e);
    if (rc != YK_OK)
        return rc;
    m.test = train == NULL;
    struct fake *f = calloc(1, sizeof *f);
    uint16_t *labels = malloc(m.rows * sizeof *labels);
    if (f == NULL || labels == NULL) {
        free(f);
        free(labels);
        return yk_fail_memory(e, m.rows * sizeof *labels);
    }
    f->images.ops = &OPS;
    f->m = m;
    yk_rng_init(&r, m.seed, m.test, 0, LABELS);
    for (uint64_t i = 0; i < m.rows; i++)
        labels[i] = (uint16_t)yk_rng_below(&r, (uint32_t)m.classes);
    *out = (struct yk_dataset){
        .rows = (uint32_t)m.rows,
        .features = (uint32_t)(m.shape[0] * m.shape[1] * m.shape[2]),
        .classes = (uint32_t)m.classes,
        .shape = {(uint32_t)m.shape[0], (uint32_t)m.shape[1], (uint32_t)m.shape[2]},
        .labels = labels,
        .scale = 1.0f / 255,
        .xxh3 = XXH3_64bits(&m, sizeof m),
        .images = &f->images};
    return YK_OK;
}

const struct yk_set_ops yk_set_fake = {
    .is = is,
    .open = open_fake,
};
