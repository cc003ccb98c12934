/* resize.h - a picture in another size, or a window of it. See resize.c. */
#ifndef YK_DATA_RESIZE_H
#define YK_DATA_RESIZE_H

#include "data/images.h"

struct yk_resize {
    const uint8_t *from; /* (from_h, from_w, channels), rows `stride` bytes apart */
    size_t stride;
    uint32_t from_h, from_w, channels;
    uint32_t to_h,
        to_w; /* the size of the whole result, of which the window (h, w) at (y, x) is wanted */
    uint32_t y, x, h, w;
};

/* The window, (h, w, channels), to `out`: the same pixels as of the whole. False: no memory. */
bool yk_resize(const struct yk_resize *r, struct yk_canvas *c, uint8_t *out);

#endif
