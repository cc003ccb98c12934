/* jpeg.c - fuzz target: any bytes either are a JPEG picture, whose pixels are all there and can be
 * resized, or give one error message. */
#include "data/images/jpeg.h"
#include "data/images/resize.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST = 1 << 17, SIDE = 24 }; /* larger pictures are only slower */

static void must(bool promise)
{
    if (!promise)
        abort();
}

static void refused(yk_code rc, const struct yk_error *e)
{
    must(rc == YK_DATA || rc == YK_FAILED);
    must(e->code == rc && e->text[0] != '\0');
}

/* Reads every byte, so that a sanitizer sees any that was not written. */
static void look(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += p[i];
    must(sum <= 255 * (uint64_t)n);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const unsigned EIGHTHS[] = {1, 2, 4, 8};
    static uint8_t out[SIDE * SIDE * 3];
    struct yk_canvas c = {0};
    struct yk_picture head, p;
    struct yk_error e = {0};
    yk_code rc = yk_jpeg_head(&c, bytes, n, "(memory)", &head, &e);
    if (rc != YK_OK) {
        refused(rc, &e);
        goto out_canvas;
    }
    must(head.height >= 1 && head.width >= 1 && (uint64_t)head.height * head.width <= YK_JPEG_MOST);
    must(head.channels == 1 || head.channels == 3);
    if ((uint64_t)head.height * head.width > MOST)
        goto out_canvas;
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        unsigned eighths = EIGHTHS[n % 4];
        rc = yk_jpeg_decode(&c, bytes, n, "(memory)", channels, eighths, &p, &e);
        if (rc != YK_OK) {
            refused(rc, &e);
            continue;
        }
        must(p.height == (head.height * eighths + 7) / 8 &&
             p.width == (head.width * eighths + 7) / 8 && p.channels == channels);
        look(p.pixels, (size_t)p.height * p.width * channels);
        const struct yk_resize r = {.from = p.pixels,
                                    .stride = (size_t)p.width * channels,
                                    .from_h = p.height,
                                    .from_w = p.width,
                                    .channels = channels,
                                    .to_h = SIDE,
                                    .to_w = SIDE,
                                    .h = SIDE,
                                    .w = SIDE};
        must(yk_resize(&r, &c, out));
        look(out, (size_t)SIDE * SIDE * channels);
    }
out_canvas:
    yk_canvas_release(&c);
    return 0;
}
