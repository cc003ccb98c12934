/* prefetch_test.c - a feed gives the images that were asked for, whichever thread made them;
 * several feeds share a pool; failures are reported. */
#include "data/images/prefetch.h"

#include "base/file.h"
#include "data/images/images.h"
#include "tests/photo.h"
#include "tests/testdir.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

/* Images whose pixels encode the request. Those of rows from `bad` on cannot be made. */
struct told {
    struct yk_images images;
    uint32_t bad;
    atomic_uint made;
};

struct pixels { /* an image: 32 x 1 x 1 */
    uint32_t row, x, y;
    uint8_t crop, flip, rest[18];
};

static yk_code tell(struct yk_images *im, uint32_t row, const struct yk_variation *v,
                    struct yk_canvas *c, uint8_t *out, struct yk_error *e)
{
    struct told *t = (struct told *)im;
    struct pixels p = {.row = row, .x = v->x, .y = v->y, .crop = v->crop, .flip = v->flip};
    (void)c;
    atomic_fetch_add(&t->made, 1);
    if (row >= t->bad)
        return yk_fail(e, YK_DATA, "row %u is bad", row);
    memcpy(out, &p, sizeof p);
    return YK_OK;
}

static void nothing(struct yk_images *im)
{
    (void)im;
}

static const struct yk_images_ops TELL = {.make = tell, .close = nothing};

enum { ROWS = 211 };

struct rig {
    struct told told;
    struct yk_dataset set;
    struct yk_source source;
};

static void rig_open(struct rig *r, bool varied)
{
    *r = (struct rig){.told = {.images = {.ops = &TELL, .varied = varied}, .bad = UINT32_MAX}};
    r->set = (struct yk_dataset){.name = "told",
                                 .rows = ROWS,
                                 .features = 32,
                                 .shape = {32, 1, 1},
                                 .images = &r->told.images};
    assert_int_equal(yk_source_init(&r->source, &r->set, 5, 0, NULL), YK_OK);
}

static void rig_close(struct rig *r)
{
    yk_source_release(&r->source);
    yk_images_close(r->set.images);
}

/* Is every image of the batch that of its row? The variations go into `sum`, so that walks can be
 * compared. */
static bool check_batch(const struct yk_batch *b, uint64_t *sum)
{
    bool fine = true;
    for (uint32_t i = 0; i < b->n; i++) {
        struct pixels p;
        const uint8_t *image = yk_batch_image(b, i);
        memcpy(&p, image, sizeof p);
        fine = fine && (uintptr_t)image % 64 == 0 && p.row == b->row[i];
        for (int k = 0; k < YK_ROW_SLACK; k++)
            fine = fine && image[32 + k] == 0;
        *sum += (uint64_t)p.x * 31 + p.y * 17u + p.crop * 7u + p.flip + (b->epoch + 1) * p.row;
    }
    return fine;
}

/* Worker `w` of `workers` walks its shard of every batch of 20 for two epochs (a source keeps no
 * more). */
struct walk {
    struct rig *r;
    unsigned augment, w, workers;
    bool blind; /* the rows ahead are unknown */
    bool fine;  /* a thread cannot assert */
    uint64_t sum;
};

static void *walk(void *arg)
{
    struct walk *k = arg;
    struct yk_feed *f;
    k->fine = yk_feed_open(&f, &k->r->set, k->augment, 9, NULL) == YK_OK;
    for (uint64_t at = 0; k->fine && at < (uint64_t)2 * ROWS;) {
        uint64_t left = ROWS - at % ROWS, n = left < 20 ? left : 20;
        uint64_t from = n * k->w / k->workers, to = n * (k->w + 1) / k->workers;
        struct yk_batch b;
        yk_source_at(&k->r->source, at + from, (uint32_t)(to - from),
                     k->blind ? UINT64_MAX : at + n + from, &b);
        k->fine = yk_feed_take(f, &b, NULL) == YK_OK && check_batch(&b, &k->sum);
        at += n;
    }
    yk_feed_close(f);
    return NULL;
}

static uint64_t walk_all(unsigned augment, unsigned workers, bool blind)
{
    struct rig r;
    struct walk k[8];
    pthread_t t[8];
    uint64_t sum = 0;
    rig_open(&r, true);
    for (unsigned w = 0; w < workers; w++) {
        k[w] =
            (struct walk){.r = &r, .augment = augment, .w = w, .workers = workers, .blind = blind};
        assert_int_equal(pthread_create(&t[w], NULL, walk, &k[w]), 0);
    }
    for (unsigned w = 0; w < workers; w++) {
        pthread_join(t[w], NULL);
        assert_true(k[w].fine);
        sum += k[w].sum;
    }
    if (workers == 1 && !blind) /* nothing is made twice, or in vain */
        assert_int_equal(atomic_load(&r.told.made), 2 * ROWS);
    rig_close(&r);
    return sum;
}

static void test_same_for_all(void **state)
{
    (void)state;
    for (unsigned augment = 0; augment < 4; augment++) {
        uint64_t one = walk_all(augment, 1, false);
        assert_true(walk_all(augment, 1, true) == one);
        assert_true(walk_all(augment, 2, false) == one);
        assert_true(walk_all(augment, 7, false) == one);
    }
}

static void test_chance(void **state)
{
    enum { EPOCHS = 8 };
    struct rig r;
    struct yk_feed *f;
    struct yk_batch b;
    static struct pixels p[EPOCHS][ROWS];
    unsigned flips = 0;
    (void)state;
    rig_open(&r, true);
    assert_int_equal(yk_feed_open(&f, &r.set, YK_AUGMENT_CROP | YK_AUGMENT_FLIP, 9, NULL), YK_OK);
    for (unsigned e = 0; e < EPOCHS; e++) {
        yk_source_at(&r.source, (uint64_t)e * ROWS, ROWS, UINT64_MAX, &b);
        assert_int_equal(yk_feed_take(f, &b, NULL), YK_OK);
        for (uint32_t i = 0; i < ROWS; i++) {
            memcpy(&p[e][b.row[i]], yk_batch_image(&b, i), sizeof p[0][0]);
            flips += p[e][b.row[i]].flip;
        }
    }
    assert_true(flips > EPOCHS * ROWS * 0.45 && flips < EPOCHS * ROWS * 0.55);
    for (uint32_t i = 0; i < ROWS; i++) /* another place each epoch, and for each row */
        assert_true(p[0][i].x != p[1][i].x && p[0][i].y != p[1][i].y &&
                    p[0][i].x != p[0][(i + 1) % ROWS].x && p[0][i].crop);
    yk_feed_close(f);
    rig_close(&r);
    rig_open(&r, false); /* nothing to vary: no variation is drawn */
    assert_int_equal(yk_feed_open(&f, &r.set, YK_AUGMENT_CROP | YK_AUGMENT_FLIP, 9, NULL), YK_OK);
    yk_source_at(&r.source, 0, ROWS, UINT64_MAX, &b);
    assert_int_equal(yk_feed_take(f, &b, NULL), YK_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        memcpy(&p[0][i], yk_batch_image(&b, i), sizeof p[0][0]);
        assert_true(p[0][i].x == 0 && !p[0][i].crop && !p[0][i].flip);
    }
    yk_feed_close(f);
    rig_close(&r);
}

/* Batches of other sizes and rows than were announced, larger ones too, and a feed that is closed
 * while its images are being made. */
static void test_surprises(void **state)
{
    struct rig r;
    struct yk_feed *f;
    uint64_t sum = 0;
    uint32_t row[ROWS];
    (void)state;
    rig_open(&r, false);
    for (uint32_t i = 0; i < ROWS; i++)
        row[i] = i * 7 % ROWS;
    assert_int_equal(yk_feed_open(&f, &r.set, 0, 0, NULL), YK_OK);
    for (uint32_t k = 0; k < 500; k++) {
        uint32_t n = k * 13 % 50, n_ahead = k * 29 % 60, at = k * 31 % 100;
        struct yk_batch b = {.set = &r.set,
                             .n = n,
                             .row = row + at,
                             .ahead = row + (k * 17 % 100),
                             .n_ahead = n_ahead,
                             .epoch = k / 100};
        assert_int_equal(yk_feed_take(f, &b, NULL), YK_OK);
        assert_true(check_batch(&b, &sum));
    }
    assert_true(yk_feed_waited(f) > 0);
    yk_feed_close(f);
    rig_close(&r);
}

static void test_failure(void **state)
{
    struct rig r;
    struct yk_feed *f;
    struct yk_error e;
    uint64_t sum = 0;
    static const uint32_t row[] = {1, 2, 3, 100, 5, 6};
    (void)state;
    rig_open(&r, false);
    r.told.bad = 100;
    assert_int_equal(yk_feed_open(&f, &r.set, 0, 0, NULL), YK_OK);
    struct yk_batch good = {.set = &r.set, .n = 3, .row = row, .ahead = row + 3, .n_ahead = 3},
                    bad = {.set = &r.set, .n = 3, .row = row + 3, .ahead = row, .n_ahead = 3},
                    after = {.set = &r.set, .n = 2, .row = row + 4};
    for (int k = 0; k < 20; k++) {
        assert_int_equal(yk_feed_take(f, &good, &e),
                         YK_OK); /* the failure of the next batch is not reported by this one */
        assert_true(check_batch(&good, &sum));
        assert_int_equal(yk_feed_take(f, &bad, &e), YK_DATA);
        assert_string_equal(e.text, "row 100 is bad");
        assert_int_equal(yk_feed_take(f, &after, &e), YK_OK);
        assert_true(check_batch(&after, &sum));
    }
    yk_feed_close(f);
    rig_close(&r);
}

static void test_in_memory(void **state)
{
    static uint8_t pixels[4 * 64];
    static const uint32_t row[] = {2, 0};
    struct yk_dataset set = {.rows = 4, .features = 64, .pixels = pixels};
    struct yk_batch b = {.set = &set, .n = 2, .row = row};
    struct yk_feed *f;
    (void)state;
    assert_int_equal(yk_feed_open(&f, &set, YK_AUGMENT_FLIP, 1, NULL), YK_OK);
    assert_null(f); /* needs none */
    assert_int_equal(yk_feed_take(f, &b, NULL), YK_OK);
    assert_ptr_equal(yk_batch_image(&b, 0), pixels + 128);
    assert_ptr_equal(yk_batch_image(&b, 1), pixels);
    assert_true(yk_feed_waited(f) == 0);
    yk_feed_close(f);
}

/* Photos, really decoded, by several feeds at a time: as the same photos made one by one. */
static void test_photos(void **state)
{
    enum { PHOTOS = 12, PIXELS = 20 * 20 * 3 };
    const struct yk_imaging how = {.shape = {20, 20, 3}, .keep = 20000}; /* some of them */
    struct rig r = {0};
    char path[YK_PATH_MAX];
    for (int i = 0; i < PHOTOS; i++) {
        assert_int_equal(yk_path(path, NULL, "%s/%c", (char *)*state, 'a' + i % 3), YK_OK);
        assert_int_equal(yk_mkdirs(path, NULL), YK_OK);
        assert_int_equal(yk_path(path, NULL, "%s/%c/%d.jpg", (char *)*state, 'a' + i % 3, i),
                         YK_OK);
        assert_int_equal(photo_write(path, 30 + 5 * i, 90 - 3 * i, (uint8_t)(i * 20)), 0);
    }
    assert_int_equal(yk_data_open(*state, &how, &r.set, NULL, NULL), YK_OK);
    assert_int_equal(yk_source_init(&r.source, &r.set, 1, 0, NULL), YK_OK);
    static uint8_t first[3][PHOTOS][PIXELS];
    for (int round = 0; round < 2; round++) {
        struct yk_feed *f[2];
        for (int k = 0; k < 2; k++)
            assert_int_equal(yk_feed_open(&f[k], &r.set, 3, 4, NULL), YK_OK);
        for (uint32_t at = 0; at < 3 * PHOTOS;
             at += 4) { /* two each, and in the second round from the other feed */
            for (int k = 0; k < 2; k++) {
                struct yk_batch b;
                yk_source_at(&r.source, at + 2 * (uint32_t)k, 2, at + 4 + 2 * (uint32_t)k, &b);
                assert_int_equal(yk_feed_take(f[round == 0 ? k : !k], &b, NULL), YK_OK);
                for (uint32_t i = 0; i < 2; i++) {
                    uint8_t *to = first[b.epoch][b.row[i]];
                    if (round == 0)
                        memcpy(to, yk_batch_image(&b, i), PIXELS);
                    else
                        assert_memory_equal(to, yk_batch_image(&b, i), PIXELS);
                }
            }
        }
        for (int k = 0; k < 2; k++)
            yk_feed_close(f[k]);
    }
    yk_source_release(&r.source);
    yk_dataset_release(&r.set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_for_all),
        cmocka_unit_test(test_chance),
        cmocka_unit_test(test_surprises),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_in_memory),
        cmocka_unit_test_setup_teardown(test_photos, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
