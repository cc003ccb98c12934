/* resize_test.c - against a slow reference in doubles; and a window has the pixels of the whole. */
#include "data/images/resize.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double weight(double at, uint32_t i, double reach)
{
    return fmax(0, 1 - fabs(i + 0.5 - at) / reach);
}

/* One value of the result, both directions at once, all pixels looked at. */
static double reference(const struct yk_resize *r, uint32_t y, uint32_t x, uint32_t k)
{
    double sy = (double)r->from_h / r->to_h, sx = (double)r->from_w / r->to_w, sum = 0, all = 0;
    for (uint32_t i = 0; i < r->from_h; i++)
        for (uint32_t j = 0; j < r->from_w; j++) {
            double w =
                weight((y + 0.5) * sy, i, fmax(sy, 1)) * weight((x + 0.5) * sx, j, fmax(sx, 1));
            sum += w * r->from[i * r->stride + (size_t)j * r->channels + k];
            all += w;
        }
    return sum / all;
}

static const uint32_t SIZE[][4] = {{17, 23, 17, 23}, {17, 23, 8, 9}, {17, 23, 40, 31},
                                   {17, 23, 1, 1},   {1, 1, 5, 6},   {40, 3, 7, 11},
                                   {3, 40, 11, 7},   {16, 16, 8, 8}, {31, 31, 30, 32}};

static void test_reference(void **state)
{
    struct yk_canvas c = {0};
    struct yk_rng rng;
    (void)state;
    yk_rng_init(&rng, 1, 2, 3, 4);
    for (uint32_t channels = 1; channels <= 3; channels += 2)
        for (size_t s = 0; s < sizeof SIZE / sizeof SIZE[0]; s++) {
            struct yk_resize r = {.from_h = SIZE[s][0],
                                  .from_w = SIZE[s][1],
                                  .to_h = SIZE[s][2],
                                  .to_w = SIZE[s][3],
                                  .channels = channels,
                                  .stride = (size_t)SIZE[s][1] * channels + 5};
            uint8_t *from = malloc(r.stride * r.from_h),
                    *out = malloc((size_t)r.to_h * r.to_w * channels);
            assert_true(from != NULL && out != NULL);
            for (size_t i = 0; i < r.stride * r.from_h; i++)
                from[i] = (uint8_t)yk_rng_next(&rng);
            r.from = from;
            r.h = r.to_h;
            r.w = r.to_w;
            assert_true(yk_resize(&r, &c, out));
            for (uint32_t y = 0; y < r.h; y++)
                for (uint32_t x = 0; x < r.w; x++)
                    for (uint32_t k = 0; k < channels; k++) {
                        double is = out[((size_t)y * r.w + x) * channels + k],
                               want = reference(&r, y, x, k);
                        assert_true(fabs(is - want) <= 1.1); /* rounded twice */
                    }
            free(from);
            free(out);
        }
    yk_canvas_release(&c);
}

static void test_flat_and_ends(void **state)
{
    struct yk_canvas c = {0};
    uint8_t from[50 * 50], out[70 * 70];
    (void)state;
    for (int level = 0; level < 256;
         level +=
         51) /* whatever the size, a flat picture stays as it is: weights sum to one exactly */
        for (uint32_t n = 1; n <= 70; n++) {
            const struct yk_resize r = {.from = from,
                                        .stride = 50,
                                        .from_h = 50,
                                        .from_w = 50,
                                        .channels = 1,
                                        .to_h = n,
                                        .to_w = n,
                                        .h = n,
                                        .w = n};
            memset(from, level, sizeof from);
            assert_true(yk_resize(&r, &c, out));
            for (uint32_t i = 0; i < n * n; i++)
                assert_int_equal(out[i], level);
        }
    static uint8_t white
        [9000]; /* with thousands of weights, what rounding left over would show, and overflow */
    memset(white, 255, sizeof white);
    for (uint32_t n = 1; n <= 70; n++) {
        const struct yk_resize r = {.from = white,
                                    .stride = 9000,
                                    .from_h = 1,
                                    .from_w = 9000,
                                    .channels = 1,
                                    .to_h = 1,
                                    .to_w = n,
                                    .h = 1,
                                    .w = n};
        assert_true(yk_resize(&r, &c, out));
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(out[i], 255);
    }
    yk_canvas_release(&c);
}

static void test_windows(void **state)
{
    struct yk_canvas c = {0};
    struct yk_rng rng;
    uint8_t from[50 * 60 * 3], whole[80 * 80 * 3], part[80 * 80 * 3];
    (void)state;
    yk_rng_init(&rng, 9, 0, 0, 0);
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)yk_rng_next(&rng);
    for (int round = 0; round < 200; round++) {
        struct yk_resize r = {
            .from = from, .stride = 180, .from_h = 50, .from_w = 60, .channels = 3};
        r.h = r.to_h = round % 10 == 0 ? 50 : 1 + yk_rng_below(&rng, 80);
        r.w = r.to_w = round % 10 == 0 ? 60 : 1 + yk_rng_below(&rng, 80);
        assert_true(yk_resize(&r, &c, whole));
        r.y = yk_rng_below(&rng, r.to_h);
        r.x = yk_rng_below(&rng, r.to_w);
        r.h = 1 + yk_rng_below(&rng, r.to_h - r.y);
        r.w = 1 + yk_rng_below(&rng, r.to_w - r.x);
        assert_true(yk_resize(&r, &c, part));
        for (uint32_t y = 0; y < r.h; y++)
            assert_memory_equal(part + (size_t)y * r.w * 3,
                                whole + ((size_t)(r.y + y) * r.to_w + r.x) * 3, (size_t)r.w * 3);
    }
    yk_canvas_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference),
                                       cmocka_unit_test(test_flat_and_ends),
                                       cmocka_unit_test(test_windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
