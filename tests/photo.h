/* photo.h - makes JPEG files. For tests only: yoke writes none, so the encoder's header is not
 * behind src/data/images/jpeg.c. */
#ifndef YK_TESTS_PHOTO_H
#define YK_TESTS_PHOTO_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <turbojpeg.h>

enum photo_kind { PHOTO_GREY, PHOTO_COLOUR, PHOTO_CMYK };

/* Encodes pixels (height, width, 1, 3 or 4) as JPEG of the best quality. The caller frees; NULL on
 * failure. */
static inline uint8_t *photo_encode(const uint8_t *pixels, int height, int width,
                                    enum photo_kind kind, size_t *n)
{
    static const int FORMAT[] = {TJPF_GRAY, TJPF_RGB, TJPF_CMYK},
                     SAMPLES[] = {TJSAMP_GRAY, TJSAMP_444, TJSAMP_444};
    tjhandle h = tjInitCompress();
    unsigned char *jpeg = NULL;
    unsigned long size = 0;
    uint8_t *out = NULL;
    if (h != NULL && tjCompress2(h, pixels, width, 0, height, FORMAT[kind], &jpeg, &size,
                                 SAMPLES[kind], 100, TJFLAG_ACCURATEDCT) == 0)
        out = malloc(size);
    for (unsigned long i = 0; out != NULL && i < size; i++)
        out[i] = jpeg[i];
    *n = size;
    tjFree(jpeg);
    if (h != NULL)
        tjDestroy(h);
    return out;
}

/* A picture that differs from all others: a ramp to the right, a ramp down, and a level of its own.
 * (height, width, 3), to be freed. */
static inline uint8_t *photo_paint(int height, int width, uint8_t level)
{
    uint8_t *p = malloc((size_t)height * (size_t)width * 3);
    for (int y = 0; p != NULL && y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *at = p + ((size_t)y * (size_t)width + (size_t)x) * 3;
            at[0] = (uint8_t)(width > 1 ? 255 * x / (width - 1) : 0);
            at[1] = (uint8_t)(height > 1 ? 255 * y / (height - 1) : 0);
            at[2] = level;
        }
    return p;
}

/* That picture as a file. */
static inline int photo_write(const char *path, int height, int width, uint8_t level)
{
    size_t n = 0;
    uint8_t *pixels = photo_paint(height, width, level);
    uint8_t *jpeg = pixels != NULL ? photo_encode(pixels, height, width, PHOTO_COLOUR, &n) : NULL;
    FILE *f = jpeg != NULL ? fopen(path, "wb") : NULL;
    int fine = f != NULL && fwrite(jpeg, 1, n, f) == n;
    if (f != NULL)
        fine = fclose(f) == 0 && fine;
    free(jpeg);
    free(pixels);
    return fine ? 0 : -1;
}

#endif
