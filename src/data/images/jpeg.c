/* jpeg.c - libjpeg-turbo behind two functions; the only file that includes its header.
 *
 * A photo that is to become small is decoded small: the inverse cosine transform can leave out fine
 * detail, at 1/2, 1/4 or 1/8 of a side, in a fraction of the time of decoding all and averaging.
 * Grey files become three equal channels where three are wanted, and colour becomes brightness
 * where one is. CMYK files, of scanners and printers, are converted to light.
 *
 * After a damaged byte, or garbage at the end, libjpeg only warns: the picture is nearly whole and
 * is accepted. A file that ends too early is refused, because its rest would silently be grey.
 * THREADS: a canvas and the decoder in it belong to one thread.
 * LIMITS: a picture has at most YK_JPEG_MOST pixels and 500 scans; EXIF orientation is ignored. */
#include "data/images/jpeg.h"

#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

static yk_code decoder_of(struct yk_canvas *c, tjhandle *out, struct yk_error *e)
{
    if (c->decoder == NULL)
        c->decoder = tjInitDecompress();
    *out = c->decoder;
    return c->decoder != NULL ? YK_OK : yk_fail_memory(e, 1 << 16); /* about */
}

/* libjpeg's reasons are sentences: "Not a JPEG file: starts with 0x00 0x01". */
static yk_code refuse(tjhandle h, const char *name, struct yk_error *e)
{
    const char *why = tjGetErrorStr2(h),
               *behind = strstr(why, "(): "); /* behind the name of a function, if there is one */
    return yk_fail(e, YK_DATA, "'%s' is not a JPEG file that can be decoded: %s", name,
                   behind != NULL ? behind + 4 : why);
}

static yk_code read_head(tjhandle h, const uint8_t *bytes, size_t n, const char *name,
                         struct yk_picture *out, bool *cmyk, struct yk_error *e)
{
    /* An error after a warning looks like a warning, and leaves these as they are. */
    int width = 0, height = 0, samples, colours = TJCS_GRAY;
    if (n == 0)
        return yk_fail(e, YK_DATA, "'%s' is empty; expected a JPEG file", name);
    if (tjDecompressHeader3(h, bytes, n, &width, &height, &samples, &colours) != 0 &&
        tjGetErrorCode(h) != TJERR_WARNING)
        return refuse(h, name, e);
    if (width < 1 || height < 1)
        return yk_fail(e, YK_DATA, "'%s' is cut off: it ends before its picture begins", name);
    if ((uint64_t)width * (uint64_t)height > YK_JPEG_MOST)
        return yk_fail(e, YK_DATA,
                       "'%s' is a picture of %dx%d; at most %d million pixels are decoded", name,
                       width, height, YK_JPEG_MOST / 1000000);
    *cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
    *out = (struct yk_picture){.height = (uint32_t)height,
                               .width = (uint32_t)width,
                               .channels = colours == TJCS_GRAY ? 1 : 3};
    return YK_OK;
}

yk_code yk_jpeg_head(struct yk_canvas *c, const uint8_t *bytes, size_t n, const char *name,
                     struct yk_picture *out, struct yk_error *e)
{
    tjhandle h;
    bool cmyk;
    yk_code rc = decoder_of(c, &h, e);
    return rc == YK_OK ? read_head(h, bytes, n, name, out, &cmyk, e) : rc;
}

/* Converts inks, stored as the light they leave, to light. In place: writing follows reading. */
static void from_cmyk(uint8_t *p, size_t pixels, uint32_t channels)
{
    for (size_t i = 0; i < pixels; i++) {
        unsigned light[3], black = p[4 * i + 3];
        for (int k = 0; k < 3; k++)
            light[k] = (p[4 * i + (size_t)k] * black + 127) / 255;
        if (channels == 1) /* the weights of JPEG's own brightness */
            p[i] = (uint8_t)((299 * light[0] + 587 * light[1] + 114 * light[2] + 500) / 1000);
        else
            for (int k = 0; k < 3; k++)
                p[3 * i + (size_t)k] = (uint8_t)light[k];
    }
}

/* An error after a warning looks like a warning. Decodes again after a change of the last row: did
 * decoding reach it? */
static bool whole(tjhandle h, const uint8_t *bytes, size_t n, uint8_t *to, uint8_t *last,
                  const struct yk_picture *p, int format)
{
    uint8_t was = *last;
    *last = (uint8_t)~was;
    tjDecompress2(h, bytes, n, to, (int)p->width, 0, (int)p->height, format, TJFLAG_LIMITSCANS);
    return *last == was;
}

yk_code yk_jpeg_decode(struct yk_canvas *c, const uint8_t *bytes, size_t n, const char *name,
                       uint32_t channels, unsigned eighths, struct yk_picture *out,
                       struct yk_error *e)
{
    tjhandle h;
    bool cmyk = false;
    struct yk_picture p = {0};
    yk_code rc = decoder_of(c, &h, e);
    if (rc == YK_OK)
        rc = read_head(h, bytes, n, name, &p, &cmyk, e);
    if (rc != YK_OK)
        return rc;
    p.height = (p.height * eighths + 7) / 8;
    p.width = (p.width * eighths + 7) / 8;
    p.channels = channels;
    size_t pixels = (size_t)p.height * p.width, stride = (size_t)p.width * (cmyk ? 4 : channels),
           room = p.height * stride;
    uint8_t *to = yk_room(&c->picture, room);
    if (to == NULL)
        return yk_fail_memory(e, room);
    int format = cmyk ? TJPF_CMYK : channels == 1 ? TJPF_GRAY : TJPF_RGB;
    if (tjDecompress2(h, bytes, n, to, (int)p.width, 0, (int)p.height, format, TJFLAG_LIMITSCANS) !=
        0) {
        if (tjGetErrorCode(h) != TJERR_WARNING)
            return refuse(h, name, e);
        if (strstr(tjGetErrorStr2(h), "Premature end") != NULL)
            return yk_fail(e, YK_DATA, "'%s' is cut off: its picture ends after %zu bytes", name,
                           n);
        if (!whole(h, bytes, n, to, to + room - stride, &p, format))
            return refuse(h, name, e);
    }
    if (cmyk)
        from_cmyk(to, pixels, channels);
    p.pixels = to;
    *out = p;
    return YK_OK;
}

void yk_jpeg_release(void *decoder)
{
    if (decoder != NULL)
        tjDestroy(decoder);
}
