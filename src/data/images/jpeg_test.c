/* jpeg_test.c - grey, colour and CMYK pictures are decoded as they were, in full and smaller;
 * damaged ones are refused. */
#include "data/images/jpeg.h"

#include "tests/photo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { H = 37, W = 61 };

static int distance(int a, int b)
{
    return a > b ? a - b : b - a;
}

static void test_colour(void **state)
{
    static const unsigned EIGHTHS[] = {8, 4, 2, 1};
    struct yk_canvas c = {0};
    struct yk_picture p;
    struct yk_error e;
    size_t n;
    uint8_t *paint = photo_paint(H, W, 77), *jpeg = photo_encode(paint, H, W, PHOTO_COLOUR, &n);
    (void)state;
    assert_non_null(jpeg);
    assert_int_equal(yk_jpeg_head(&c, jpeg, n, "x", &p, &e), YK_OK);
    assert_true(p.height == H && p.width == W && p.channels == 3);
    assert_null(p.pixels);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(yk_jpeg_decode(&c, jpeg, n, "x", 3, EIGHTHS[k], &p, &e), YK_OK);
        assert_int_equal(p.height, (H * EIGHTHS[k] + 7) / 8);
        assert_int_equal(p.width, (W * EIGHTHS[k] + 7) / 8);
        assert_int_equal(p.channels, 3);
        for (uint32_t y = 0; y < p.height; y++)
            for (uint32_t x = 0; x < p.width; x++) {
                const uint8_t *at = p.pixels + ((size_t)y * p.width + x) * 3;
                double sx = (x + 0.5) * 8 / EIGHTHS[k] - 0.5, sy = (y + 0.5) * 8 / EIGHTHS[k] - 0.5;
                /* The last block hangs over the edge, and is averaged with the pixels that it
                 * has. */
                int far = EIGHTHS[k] == 8 ? 3 : 24;
                assert_true(distance(at[0], (int)(255 * (sx < W - 1 ? sx : W - 1) / (W - 1))) <=
                            far);
                assert_true(distance(at[1], (int)(255 * (sy < H - 1 ? sy : H - 1) / (H - 1))) <=
                            far);
                assert_true(distance(at[2], 77) <= far);
            }
    }
    assert_int_equal(yk_jpeg_decode(&c, jpeg, n, "x", 1, 8, &p, &e), YK_OK); /* as brightness */
    assert_int_equal(p.channels, 1);
    for (size_t i = 0; i < H * W; i++)
        assert_true(distance(p.pixels[i], (299 * paint[3 * i] + 587 * paint[3 * i + 1] +
                                           114 * paint[3 * i + 2]) /
                                              1000) <= 3);
    free(paint);
    free(jpeg);
    yk_canvas_release(&c);
    assert_null(c.decoder);
}

static void test_grey(void **state)
{
    uint8_t paint[H * W];
    struct yk_canvas c = {0};
    struct yk_picture p;
    size_t n;
    (void)state;
    for (int i = 0; i < H * W; i++)
        paint[i] = (uint8_t)(i % W * 4);
    uint8_t *jpeg = photo_encode(paint, H, W, PHOTO_GREY, &n);
    assert_int_equal(yk_jpeg_head(&c, jpeg, n, "x", &p, NULL), YK_OK);
    assert_int_equal(p.channels, 1);
    assert_int_equal(yk_jpeg_decode(&c, jpeg, n, "x", 1, 8, &p, NULL), YK_OK);
    for (int i = 0; i < H * W; i++)
        assert_true(distance(p.pixels[i], paint[i]) <= 2);
    assert_int_equal(yk_jpeg_decode(&c, jpeg, n, "x", 3, 8, &p, NULL), YK_OK);
    for (int i = 0; i < 3 * H * W; i++)
        assert_true(distance(p.pixels[i], paint[i / 3]) <= 2);
    free(jpeg);
    yk_canvas_release(&c);
}

static void test_cmyk(void **state)
{
    uint8_t paint[H * W * 4];
    struct yk_canvas c = {0};
    struct yk_picture p;
    size_t n;
    (void)state;
    for (int i = 0; i < H * W; i++)
        memcpy(paint + 4 * i, ((uint8_t[]){200, 100, 50, 128}), 4);
    uint8_t *jpeg = photo_encode(paint, H, W, PHOTO_CMYK, &n);
    assert_int_equal(yk_jpeg_decode(&c, jpeg, n, "x", 3, 8, &p, NULL), YK_OK);
    for (int i = 0; i < H * W; i++)
        for (int k = 0; k < 3; k++)
            assert_true(distance(p.pixels[3 * i + k], paint[k] * 128 / 255) <= 3);
    assert_int_equal(yk_jpeg_decode(&c, jpeg, n, "x", 1, 8, &p, NULL), YK_OK);
    for (int i = 0; i < H * W; i++)
        assert_true(distance(p.pixels[i], (299 * 100 + 587 * 50 + 114 * 25) / 1000) <= 3);
    free(jpeg);
    yk_canvas_release(&c);
}

static void refused(const uint8_t *bytes, size_t n, const char *text)
{
    struct yk_canvas c = {0};
    struct yk_picture p;
    struct yk_error e = {0};
    assert_int_equal(yk_jpeg_decode(&c, bytes, n, "a/b.jpg", 3, 8, &p, &e), YK_DATA);
    if (strstr(e.text, text) == NULL || strstr(e.text, "'a/b.jpg'") == NULL)
        fail_msg("expected '%s' in: %s", text, e.text);
    yk_canvas_release(&c);
}

static void test_damaged(void **state)
{
    /* A table of which bytes are missing, which is only a warning, then a second beginning, which
     * is an error. */
    static const char WARNED[] =
        "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xdb\0\x43\0\1\1\1\1\1\1\1\1\1\1\1\1\1"
        "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\1\1\1\1\1\1\1\1\1\1\1\1\1"
        "\xff\xd8\xff\xee\0\x0e"
        "Adobe\0\x64\0\0\0\0\2\xff\xdb\0\x43\0\1\0\1";
    struct yk_canvas c = {0};
    struct yk_picture p;
    size_t n;
    uint8_t *paint = photo_paint(H, W, 1), *jpeg = photo_encode(paint, H, W, PHOTO_COLOUR, &n),
            *more = malloc(n + 100);
    (void)state;
    assert_true(jpeg != NULL && more != NULL);
    refused(jpeg, 0, "is empty");
    refused((const uint8_t *)"\x89PNG\r\n\x1a\n", 8, "not a JPEG file that can be decoded: ");
    refused((const uint8_t *)"\xff\xd8", 2, "is cut off: it ends before its picture begins");
    refused(jpeg, 100, "is cut off: it ends before its picture begins");
    refused(jpeg, n / 2, "is cut off: its picture ends after"); /* in the picture */
    refused(jpeg, n - 40, "is cut off: its picture ends after");
    refused((const uint8_t *)WARNED, sizeof WARNED - 1,
            "is cut off: it ends before its picture begins");
    memcpy(more, jpeg, n);
    memset(more + n, 7, 100); /* garbage behind the end does no harm */
    assert_int_equal(yk_jpeg_decode(&c, more, n + 100, "x", 3, 8, &p, NULL), YK_OK);
    for (size_t i = 0; i + 8 < n;
         i++) /* the frame's header: ff c0, length, precision, height, width */
        if (more[i] == 0xff && more[i + 1] == 0xc0) {
            memset(more + i + 5, 0xf0, 4);
            break;
        }
    refused(more, n, "is a picture of 61680x61680; at most 67 million pixels are decoded");
    yk_canvas_release(&c);
    free(more);
    free(jpeg);
    free(paint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_colour), cmocka_unit_test(test_grey),
                                       cmocka_unit_test(test_cmyk), cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
