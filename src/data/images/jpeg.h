/* jpeg.h - JPEG files to pixels. See jpeg.c. */
#ifndef YK_DATA_IMAGES_JPEG_H
#define YK_DATA_IMAGES_JPEG_H

#include "data/images/images.h"

struct yk_picture {
    uint32_t height, width, channels; /* channels: 1 grey; 3 red, green, blue */
    const uint8_t *pixels;            /* (height, width, channels); NULL after _head */
};

enum { YK_JPEG_MOST = 1 << 26 }; /* pixels of the largest picture that is decoded */

/* Reads size and kind alone. `name` is for messages. Malformed bytes, and a picture of more than
 * YK_JPEG_MOST pixels, are YK_DATA. */
yk_code yk_jpeg_head(struct yk_canvas *c, const uint8_t *bytes, size_t n, const char *name,
                     struct yk_picture *out, struct yk_error *e);
/* Decodes a picture with `channels` (1 or 3) channels, at `eighths`/8 (8, 4, 2 or 1) of the length
 * of each side, rounded up. The pixels belong to the canvas, until its next picture. A file that
 * ends too early is YK_DATA. */
yk_code yk_jpeg_decode(struct yk_canvas *c, const uint8_t *bytes, size_t n, const char *name,
                       uint32_t channels, unsigned eighths, struct yk_picture *out,
                       struct yk_error *e);
void yk_jpeg_release(void *decoder); /* of a canvas; NULL is fine */

#endif
