/* resize.h - scales a picture, or a window of it. See resize.c. */
#ifndef YK_DATA_IMAGES_RESIZE_H
#define YK_DATA_IMAGES_RESIZE_H

#include "data/images/images.h"

struct yk_resize {
    const uint8_t *from; /* (from_h, from_w, channels), rows `stride` bytes apart */
    size_t stride;
    uint32_t from_h, from_w, channels;
    uint32_t to_h, to_w; /* the size of the whole result */
    uint32_t y, x, h, w; /* its window (h, w) at (y, x), which alone is computed */
};

/* Computes the window, (h, w, channels), with the same pixels as in the whole. False: no memory. */
bool yk_resize(const struct yk_resize *r, struct yk_canvas *c, uint8_t *out);

#endif
