/* photos_test.c - photos in class folders: parts and labels, sizes, crops and flips, kept photos,
 * and files that cannot be decoded. */
#include "base/file.h"
#include "data/data.h"
#include "data/images/images.h"
#include "data/images/sets.h"
#include "tests/photo.h"
#include "tests/skip.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE * 3 };

static const struct yk_variation CENTRE = {0};
static const struct yk_imaging WANTED = {.shape = {SIDE, SIDE, 3}};

static void put(const char *dir, const char *name, int height, int width, uint8_t level)
{
    char path[YK_PATH_MAX], *slash;
    assert_int_equal(yk_path(path, NULL, "%s/%s", dir, name), YK_OK);
    slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(yk_mkdirs(path, NULL), YK_OK);
    *slash = '/';
    assert_int_equal(photo_write(path, height, width, level), 0);
}

static yk_code make(const struct yk_dataset *d, uint32_t row, const struct yk_variation *v,
                    uint8_t *out, struct yk_error *e)
{
    struct yk_canvas c = {0};
    yk_code rc = d->images->ops->make(d->images, row, v, &c, out, e);
    yk_canvas_release(&c);
    return rc;
}

static void put_parts(const char *dir)
{
    put(dir, "train/cat/1.jpg", 32, 32, 10);
    put(dir, "train/cat/2.jpg", 100, 80, 20);
    put(dir, "train/dog/1.jpg", 300, 700, 30);
    put(dir, "train/owl/1.jpg", SIDE, SIDE, 40);
    put(dir, "val/dog/9.jpg", 64, 64, 50);
}

static void near(int is, int want, int by)
{
    if (is < want - by || is > want + by)
        fail_msg("%d is not within %d of %d", is, by, want);
}

static void test_parts(void **state)
{
    struct yk_dataset train, test, alone;
    uint8_t image[PIXELS];
    put_parts(*state);
    assert_true(yk_data_is_dense(*state));
    assert_int_equal(yk_data_open(*state, &WANTED, &train, &test, NULL), YK_OK);
    assert_true(train.rows == 4 && test.rows == 1 && train.classes == 3 && test.classes == 3);
    assert_string_equal(train.split, "train");
    assert_string_equal(test.split, "test");
    assert_memory_equal(train.labels, ((uint16_t[]){0, 0, 1, 2}), 8);
    assert_int_equal(test.labels[0], 1);
    assert_true(train.features == PIXELS && train.pixels == NULL && train.images->varied &&
                !test.images->varied);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(make(&train, i, &CENTRE, image, NULL), YK_OK);
        for (int k = 0; k < SIDE * SIDE; k++)
            near(image[3 * k + 2], (int)(10 * (i + 1)), 4); /* each has a level of its own */
    }
    assert_int_equal(yk_data_open_test(*state, &WANTED, &alone, NULL),
                     YK_OK); /* the same labels, without the training part */
    assert_true(alone.rows == 1 && alone.labels[0] == 1 && alone.classes == 3 &&
                alone.xxh3 == test.xxh3);
    yk_dataset_release(&train);
    yk_dataset_release(&test);
    yk_dataset_release(&alone);
    assert_int_equal(yk_data_open(*state, NULL, &train, NULL, NULL),
                     YK_OK); /* no shape is asked for: that of the first photo */
    assert_memory_equal(train.shape, ((uint32_t[]){32, 32, 3}), sizeof train.shape);
    yk_dataset_release(&train);
}

/* The values of a photo's ramps at the edges of an image that is cut from its middle. */
static void test_sizes(void **state)
{
    static const int SIZE[][2] = {{SIDE, SIDE}, {32, 32}, {64, 64},   {256, 256}, {100, 80},
                                  {80, 100},    {11, 11}, {300, 700}, {9, 900}};
    struct yk_dataset d;
    uint8_t image[PIXELS];
    char name[32];
    for (size_t i = 0; i < sizeof SIZE / sizeof SIZE[0]; i++) {
        snprintf(name, sizeof name, "a/%zu.jpg", i);
        put(*state, name, SIZE[i][0], SIZE[i][1], 9);
    }
    assert_int_equal(yk_data_open(*state, &WANTED, &d, NULL, NULL), YK_OK);
    assert_int_equal(d.classes, 2); /* there are at least two classes */
    for (uint32_t i = 0; i < d.rows; i++) {
        double h = SIZE[i][0], w = SIZE[i][1], cover = h == SIDE && w == SIDE ? SIDE : 32,
               k = cover / (h < w ? h : w);
        double part[2] = {SIDE / (h * k),
                          SIDE / (w * k)}; /* share of the photo that is seen, down and across */
        assert_int_equal(make(&d, i, &CENTRE, image, NULL), YK_OK);
        const uint8_t *top = image + (SIDE / 2) * 3,
                      *bottom = image + ((SIDE - 1) * SIDE + SIDE / 2) * 3;
        const uint8_t *left = image + (SIDE / 2) * SIDE * 3, *right = left + (SIDE - 1) * 3;
        near(top[1], (int)(255 * (0.5 - part[0] / 2)), 12);
        near(bottom[1], (int)(255 * (0.5 + part[0] / 2)), 12);
        near(left[0], (int)(255 * (0.5 - part[1] / 2)), 12);
        near(right[0], (int)(255 * (0.5 + part[1] / 2)), 12);
    }
    yk_dataset_release(&d);
}

static void test_crop_and_flip(void **state)
{
    struct yk_dataset d;
    uint8_t a[PIXELS], b[PIXELS];
    put(*state, "a/1.jpg", 64, 128, 9);
    assert_int_equal(yk_data_open(*state, &WANTED, &d, NULL, NULL), YK_OK);
    struct yk_variation v = {.crop = true}, flipped = {.crop = true, .flip = true};
    assert_int_equal(make(&d, 0, &v, a, NULL), YK_OK); /* top left: both ramps begin */
    near(a[0], 0, 6);
    near(a[1], 0, 6);
    assert_int_equal(make(&d, 0, &flipped, b, NULL), YK_OK);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            assert_memory_equal(a + (y * SIDE + x) * 3, b + (y * SIDE + SIDE - 1 - x) * 3, 3);
    v.x = v.y = UINT32_MAX;
    assert_int_equal(make(&d, 0, &v, a, NULL), YK_OK); /* bottom right: both end */
    near(a[PIXELS - 3], 255, 6);
    near(a[PIXELS - 2], 255, 6);
    yk_dataset_release(&d);
}

/* The pixels are the same whether all, some or none of the photos are kept; and a kept photo does
 * not need its file any more. */
static void test_kept(void **state)
{
    static const uint64_t KEEP[] = {1, 20000, 1 << 30};
    const struct yk_variation v[] = {{0},
                                     {.crop = true, .x = 1u << 31, .y = 77},
                                     {.crop = true, .x = 5, .y = 3u << 30, .flip = true}};
    static uint8_t first[3][4][PIXELS], again[PIXELS];
    put_parts(*state);
    for (int k = 0; k < 3; k++) {
        struct yk_imaging how = WANTED;
        struct yk_dataset d;
        how.keep = KEEP[k];
        assert_int_equal(yk_data_open(*state, &how, &d, NULL, NULL), YK_OK);
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < 3; i++)
                for (uint32_t r = 0; r < 4; r++) {
                    bool before = k == 0 && round == 0;
                    assert_int_equal(make(&d, r, &v[i], before ? first[i][r] : again, NULL), YK_OK);
                    assert_true(before || memcmp(again, first[i][r], PIXELS) == 0);
                }
        if (k == 2) {
            char path[YK_PATH_MAX];
            assert_int_equal(yk_path(path, NULL, "%s/train/dog/1.jpg", (char *)*state), YK_OK);
            assert_int_equal(remove(path), 0);
            assert_int_equal(make(&d, 2, &v[1], again, NULL), YK_OK);
            assert_memory_equal(again, first[1][2], PIXELS);
        }
        yk_dataset_release(&d);
    }
}

static void test_holdout(void **state)
{
    struct yk_dataset train, test;
    struct yk_imaging how = WANTED;
    struct yk_error e;
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%s/%02d.jpg", i < 10 ? "a" : "b", i);
        put(*state, name, 30, 30, (uint8_t)(i * 10));
    }
    how.holdout = 0.2;
    assert_int_equal(yk_data_open(*state, &how, &train, &test, NULL), YK_OK);
    assert_true(train.rows == 16 && test.rows == 4);
    yk_dataset_release(&train);
    yk_dataset_release(&test);
    assert_int_equal(yk_data_open(*state, &how, &train, NULL, NULL),
                     YK_OK); /* left out, wanted or not */
    assert_int_equal(train.rows, 16);
    yk_dataset_release(&train);
    assert_int_equal(yk_data_open_test(*state, &how, &test, NULL), YK_OK);
    assert_int_equal(test.rows, 4);
    yk_dataset_release(&test);
    how.holdout = 0;
    assert_int_equal(yk_data_open_test(*state, &how, &test, NULL),
                     YK_OK); /* the only part there is */
    assert_int_equal(test.rows, 20);
    yk_dataset_release(&test);
    how.holdout = 0.2;
    put(*state, "train/a/1.jpg", 30, 30, 1);
    put(*state, "test/a/1.jpg", 30, 30, 1);
    assert_int_equal(yk_data_open(*state, &how, &train, &test, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "has a test part of its own"));
    assert_int_equal(yk_data_open("fake:2x2x1:3:10", &how, &train, &test, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "--holdout means nothing to 'fake:2x2x1:3:10'"));
}

/* Labels are those of the trained model, whatever the other folders are. */
static void test_classes(void **state)
{
    struct yk_dataset train, test;
    struct yk_imaging how = WANTED;
    struct yk_error e;
    put_parts(*state);
    put(*state, "one/owl/1.jpg", SIDE, SIDE, 40);
    assert_int_equal(yk_data_open(*state, &WANTED, &train, &test, NULL), YK_OK);
    assert_string_equal(train.class_names, "cat/dog/owl");
    assert_string_equal(test.class_names, "cat/dog/owl");
    yk_dataset_release(&test);
    how.classes = train.class_names;
    char one[YK_PATH_MAX];
    assert_int_equal(yk_path(one, NULL, "%s/one", (char *)*state), YK_OK);
    assert_int_equal(yk_data_open_test(one, &how, &test, NULL), YK_OK);
    assert_true(test.rows == 1 && test.labels[0] == 2 && test.classes == 3);
    yk_dataset_release(&test);
    how.classes = "bee/cat/dog/owl"; /* those that are asked for, not those of train/ beside it */
    assert_int_equal(yk_data_open_test(*state, &how, &test, NULL), YK_OK);
    assert_true(test.rows == 1 && test.labels[0] == 2 && test.classes == 4);
    yk_dataset_release(&test);
    how.classes = "bee/cat";
    assert_int_equal(yk_data_open_test(one, &how, &test, &e), YK_DATA);
    assert_non_null(strstr(e.text, "has a class 'owl' that was not trained"));
    assert_string_equal(e.hint, "the classes that were trained are bee, cat");
    yk_dataset_release(&train);
}

/* Bytes that this process has read so far. */
static uint64_t bytes_read(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");
    if (f == NULL || fscanf(f, "rchar: %llu", &n) != 1) {
        skip_because("nobody counts what is read");
    }
    fclose(f);
    return n;
}

/* A photo is described by its beginning, even if its size stands behind a long preview. */
static void test_describe(void **state)
{
    enum { PREVIEWS = 3, LONG = 65000, TAIL = 4 << 20 };
    static uint8_t jpeg[PREVIEWS * (LONG + 4) + 100000];
    struct yk_buf text = {0};
    char path[YK_PATH_MAX], *bytes;
    size_t n, at = 2;
    put(*state, "a/1.jpg", 30, 40, 9);
    put(*state, "b/1.jpg", 50, 20, 9);
    assert_int_equal(yk_path(path, NULL, "%s/a/1.jpg", (char *)*state), YK_OK);
    assert_int_equal(truncate(path, TAIL), 0); /* bytes behind a picture do not matter */
    uint64_t before = bytes_read();
    assert_int_equal(yk_set_images.describe(*state, &text, NULL), YK_OK);
    assert_true(bytes_read() - before < TAIL / 2);
    assert_non_null(strstr(text.data, "JPEG files of 30x20 to 50x40, 0 of them grey, 4.2 MB"));

    assert_int_equal(yk_path(path, NULL, "%s/b/1.jpg", (char *)*state), YK_OK);
    assert_int_equal(yk_file_read(path, 90000, &bytes, &n, NULL), YK_OK);
    memcpy(jpeg, bytes, 2);
    for (int i = 0; i < PREVIEWS; i++, at += LONG + 4)
        memcpy(jpeg + at, ((uint8_t[]){0xff, 0xe1, (LONG + 2) >> 8, (LONG + 2) & 255}), 4);
    memcpy(jpeg + at, bytes + 2, n - 2);
    assert_int_equal(yk_file_write(path, jpeg, at + n - 2, NULL), YK_OK);
    yk_buf_clear(&text);
    assert_int_equal(yk_set_images.describe(*state, &text, NULL), YK_OK);
    assert_non_null(strstr(text.data, "JPEG files of 30x20 to 50x40"));
    free(bytes);
    yk_buf_release(&text);
}

static void expect_said(const char *what, const char *said, const char *hint)
{
    struct yk_dataset d;
    struct yk_error e = {0};
    assert_int_equal(yk_data_open(what, NULL, &d, NULL, &e), YK_DATA);
    if (strstr(e.text, said) == NULL || strstr(e.hint, hint) == NULL)
        fail_msg("'%s' '%s'", e.text, e.hint);
}

/* Photos that are there, but not in class folders. */
static void test_meant(void **state)
{
    char path[YK_PATH_MAX];
    put(*state, "loose/1.jpg", 30, 30, 1);
    put(*state, "deep/photos/cat/1.jpg", 30, 30, 1);
    put(*state, "part/train/1.jpg", 30, 30, 1);
    put(*state, "part/test/cat/1.jpg", 30, 30, 1);
    assert_int_equal(yk_path(path, NULL, "%s/loose", (char *)*state), YK_OK);
    expect_said(path, "/loose' has pictures, but no class folders", "one folder for each class");
    assert_int_equal(yk_path(path, NULL, "%s/part", (char *)*state), YK_OK);
    expect_said(path, "/part/train' has pictures, but no class folders",
                "one folder for each class");
    assert_int_equal(yk_path(path, NULL, "%s/deep", (char *)*state), YK_OK);
    expect_said(path, "/deep' has its pictures a folder too deep",
                "/deep/photos' has a folder for each class, name that");
    assert_int_equal(yk_path(path, NULL, "%s/loose/1.jpg", (char *)*state), YK_OK);
    expect_said(path, "/loose/1.jpg' is one JPEG file, not a data set", "a folder for each class");
}

static void test_load(void **state)
{
    struct yk_dataset d;
    uint8_t image[PIXELS];
    put_parts(*state);
    assert_int_equal(yk_data_open(*state, &WANTED, &d, NULL, NULL), YK_OK);
    assert_int_equal(make(&d, 2, &CENTRE, image, NULL), YK_OK);
    assert_int_equal(yk_dataset_load(&d, NULL), YK_OK);
    assert_true(d.images == NULL && d.pixels != NULL && (uintptr_t)d.pixels % 64 == 0);
    assert_memory_equal(d.pixels + 2 * PIXELS, image, PIXELS);
    assert_int_equal(yk_dataset_load(&d, NULL), YK_OK); /* once is enough */
    yk_dataset_release(&d);
}

static void test_mistakes(void **state)
{
    struct yk_dataset d, none;
    struct yk_error e;
    struct yk_imaging how = {.shape = {SIDE, SIDE, 4}};
    uint8_t image[PIXELS];
    char path[YK_PATH_MAX];
    put_parts(*state);
    assert_int_equal(yk_data_open(*state, &how, &d, NULL, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "photos have 1 or 3 channels, not the 4 of 28x28x4"));
    assert_int_equal(yk_path(path, NULL, "%s/train/cat/2.jpg", (char *)*state), YK_OK);
    assert_int_equal(truncate(path, 900), 0);
    assert_int_equal(yk_data_open(*state, &WANTED, &d, NULL, NULL), YK_OK); /* it begins well */
    assert_int_equal(make(&d, 1, &CENTRE, image, &e), YK_DATA);
    assert_non_null(strstr(e.text, "/train/cat/2.jpg' is cut off"));
    assert_int_equal(yk_dataset_load(&d, &e), YK_DATA);
    assert_non_null(strstr(e.text, "/train/cat/2.jpg' is cut off"));
    assert_non_null(d.images);
    assert_int_equal(remove(path), 0);
    assert_int_equal(make(&d, 1, &CENTRE, image, &e), YK_DATA);
    assert_non_null(strstr(e.text, "/train/cat/2.jpg': no such file"));
    yk_dataset_release(&d);
    put(*state, "val/zebra/1.jpg", 30, 30, 1);
    assert_int_equal(yk_data_open(*state, &WANTED, &d, &none, &e), YK_DATA);
    assert_non_null(strstr(e.text, "has a class 'zebra' that"));
    assert_true(d.images == NULL && d.labels == NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, testdir_setup, testdir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_parts),    TEST(test_sizes), TEST(test_crop_and_flip), TEST(test_kept),
        TEST(test_holdout),  TEST(test_load),  TEST(test_mistakes),      TEST(test_classes),
        TEST(test_describe), TEST(test_meant)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
