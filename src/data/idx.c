/* idx.c - reads IDX, the format of MNIST and its kin.
 *
 *     offset  bytes
 *          0      2  00 00
 *          2      1  element type: 08 u8, 09 i8, 0b i16, 0c i32, 0d f32, 0e f64
 *          3      1  number of dimensions n
 *          4     4n  the dimensions, u32 big-endian, slowest first
 *       4+4n      -  the elements, big-endian, row after row; nothing behind them
 *
 * A file may be gzipped, whatever its name (stream.h). Bytes pass once from the file, or from inflate, into the buffer they
 * stay in. No header is believed before the length of the file agrees: to the byte if it is plain; if it is
 * compressed, as far as deflate can expand (1032 times), and to the byte once it is inflated.
 * THREADS: no state; any thread may read any file. */
#include "data/idx.h"

#include "data/data.h"
#include "data/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
    DEFLATE_LIMIT = 1032, /* deflate never expands further than this */
    HUGE_PAGE = 2 << 20,  /* bytes */
    SHAPE_TEXT = 11 * YK_IDX_DIMS + 1,
};

static const struct {
    const char *name;
    unsigned size;
} types[] = {{"u8", 1},  {"i8", 1},  {NULL, 0}, {"i16", 2},
             {"i32", 4}, {"f32", 4}, {"f64", 8}}; /* from 0x08 on */

const char *yk_idx_type_name(uint8_t type)
{
    return type >= 0x08 && type <= 0x0e ? types[type - 0x08].name : NULL;
}

struct input {
    const char *name; /* for messages */
    uint64_t length;  /* of the file as it is stored */
    struct yk_stream *bytes;
};

static bool gzip(const struct input *s)
{
    return yk_stream_is_gzip(s->bytes);
}

static const char *shape_text(const struct yk_idx *x, char out[SHAPE_TEXT])
{
    int n = 0;
    for (int i = 0; i < x->ndim; i++)
        n += snprintf(out + n, (size_t)(SHAPE_TEXT - n), "%s%u", i > 0 ? "x" : "", x->dim[i]);
    return out;
}

/* Is a header of `head` bytes that promises `x->bytes` more (`fits` is false if that is past 2^64) true to the file? */
static yk_code check_length(const struct input *s, const struct yk_idx *x, uint64_t head, bool fits,
                            struct yk_error *e)
{
    char shape[SHAPE_TEXT];
    uint64_t whole;
    if (!fits || __builtin_add_overflow(head, x->bytes, &whole))
        return yk_fail(
            e, YK_DATA,
            "'%s' is %llu bytes long, but its header says %s %s, more than any file can hold",
            s->name, (unsigned long long)s->length, yk_idx_type_name(x->type),
            shape_text(x, shape));
    if (gzip(s) && whole / DEFLATE_LIMIT > s->length)
        return yk_fail(e, YK_DATA,
                       "'%s' is %llu bytes of gzip, but its header says %s %s, and %llu bytes "
                       "never shrink that far",
                       s->name, (unsigned long long)s->length, yk_idx_type_name(x->type),
                       shape_text(x, shape), (unsigned long long)whole);
    if (!gzip(s) && whole != s->length)
        return yk_fail(e, YK_DATA,
                       "'%s' is %llu bytes long, but its header says %s %s; expected %llu bytes",
                       s->name, (unsigned long long)s->length, yk_idx_type_name(x->type),
                       shape_text(x, shape), (unsigned long long)whole);
    return YK_OK;
}

static yk_code read_head(struct input *s, struct yk_idx *x, struct yk_error *e)
{
    uint8_t b[4 + 4 * YK_IDX_DIMS];
    size_t got;
    yk_code rc = yk_stream_take(s->bytes, b, 4, &got, e);
    if (rc != YK_OK)
        return rc;
    if (got == 0)
        return yk_fail(e, YK_DATA, "'%s' is empty; expected an IDX file", s->name);
    if (got < 4)
        return yk_fail(e, YK_DATA,
                       "'%s' ends after %zu byte%s; expected an IDX header of at least 8", s->name,
                       got, got == 1 ? "" : "s");
    if (b[0] != 0 || b[1] != 0)
        return yk_fail(e, YK_DATA,
                       "'%s' is not an IDX file: it starts with %02x %02x, expected 00 00", s->name,
                       b[0], b[1]);
    if (yk_idx_type_name(b[2]) == NULL)
        return yk_fail(e, YK_DATA,
                       "'%s' has IDX element type %02x; expected 08 (u8), 09, 0b, 0c, 0d or 0e",
                       s->name, b[2]);
    if (b[3] < 1 || b[3] > YK_IDX_DIMS)
        return yk_fail(e, YK_DATA, "'%s' has %u dimensions; expected 1 to %d", s->name, b[3],
                       YK_IDX_DIMS);
    x->gzip = gzip(s);
    x->type = b[2];
    x->ndim = b[3];
    size_t want = (size_t)4 * x->ndim;
    rc = yk_stream_take(s->bytes, b + 4, want, &got, e);
    if (rc != YK_OK)
        return rc;
    if (got < want)
        return yk_fail(e, YK_DATA,
                       "'%s' ends after %zu bytes; expected an IDX header of %zu for %u dimensions",
                       s->name, 4 + got, 4 + want, x->ndim);
    x->bytes = types[x->type - 0x08].size;
    bool fits = true, empty = false;
    for (int i = 0; i < x->ndim; i++) {
        const uint8_t *d = b + 4 + 4 * i;
        x->dim[i] = (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3];
        empty = empty || x->dim[i] == 0;
        fits = !__builtin_mul_overflow(x->bytes, (uint64_t)x->dim[i], &x->bytes) && fits;
    }
    char shape[SHAPE_TEXT];
    if (empty)
        return yk_fail(
            e, YK_DATA,
            "'%s' holds no elements: its shape is %s; expected every dimension to be at least 1",
            s->name, shape_text(x, shape));
    return check_length(s, x, 4 + want, fits, e);
}

/* Large ones lie on huge pages: a kernel that jumps from row to row then misses the TLB 500 times less often. */
static uint8_t *new_elements(uint64_t bytes)
{
    bool large = bytes > 2 * HUGE_PAGE;
    void *p;
    if (bytes > PTRDIFF_MAX - YK_ROW_SLACK ||
        posix_memalign(&p, large ? HUGE_PAGE : 64, bytes + YK_ROW_SLACK) != 0)
        return NULL;
    if (large)
        madvise(p, bytes + YK_ROW_SLACK,
                MADV_HUGEPAGE); /* a wish: without huge pages it is only slower */
    memset((uint8_t *)p + bytes, 0, YK_ROW_SLACK);
    return p;
}

static yk_code read_elements(struct input *s, struct yk_idx *x, struct yk_error *e)
{
    char shape[SHAPE_TEXT];
    uint8_t more;
    size_t got, extra = 0;
    x->data = new_elements(x->bytes);
    if (x->data == NULL)
        return yk_fail_memory(e, x->bytes + YK_ROW_SLACK);
    yk_code rc = yk_stream_take(s->bytes, x->data, x->bytes, &got, e);
    if (rc == YK_OK && got < x->bytes)
        rc = yk_fail(
            e, YK_DATA,
            "'%s' ends after %zu bytes of elements, but its header says %s %s; expected %llu",
            s->name, got, yk_idx_type_name(x->type), shape_text(x, shape),
            (unsigned long long)x->bytes);
    if (rc == YK_OK)
        rc = yk_stream_take(s->bytes, &more, 1, &extra,
                            e); /* also makes inflate check its checksum */
    if (rc == YK_OK && extra > 0)
        rc = yk_fail(
            e, YK_DATA,
            "'%s' goes on after its elements; expected the end after the %llu bytes of %s %s",
            s->name, (unsigned long long)x->bytes, yk_idx_type_name(x->type), shape_text(x, shape));
    if (rc != YK_OK)
        yk_idx_release(x);
    return rc;
}

static yk_code read_input(struct input *s, bool elements, struct yk_idx *out, struct yk_error *e)
{
    struct yk_idx x = {0};
    yk_code rc = read_head(s, &x, e);
    if (rc == YK_OK && elements)
        rc = read_elements(s, &x, e);
    *out = rc == YK_OK ? x : (struct yk_idx){0};
    yk_stream_close(s->bytes);
    return rc;
}

static yk_code read_file(const char *path, bool elements, struct yk_idx *out, struct yk_error *e)
{
    struct input s = {.name = path};
    struct stat st;
    *out = (struct yk_idx){0};
    if (stat(path, &st) != 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    if (!S_ISREG(
            st.st_mode)) /* before it is opened: a pipe would be waited for, and its writer would lose a reader */
        return yk_fail(e, YK_DATA, "'%s' is not a file but a %s; expected an IDX file", path,
                       S_ISDIR(st.st_mode) ? "folder" : "pipe or device");
    s.length = (uint64_t)st.st_size;
    yk_code rc = yk_stream_open(&s.bytes, path, e);
    return rc == YK_OK ? read_input(&s, elements, out, e) : rc;
}

yk_code yk_idx_head(const char *path, struct yk_idx *out, struct yk_error *e)
{
    return read_file(path, false, out, e);
}

yk_code yk_idx_read(const char *path, struct yk_idx *out, struct yk_error *e)
{
    return read_file(path, true, out, e);
}

yk_code yk_idx_parse(const uint8_t *bytes, size_t n, struct yk_idx *out, struct yk_error *e)
{
    struct input s = {.name = "(memory)", .length = n};
    *out = (struct yk_idx){0};
    yk_code rc = yk_stream_open_memory(&s.bytes, bytes, n, e);
    return rc == YK_OK ? read_input(&s, true, out, e) : rc;
}

void yk_idx_release(struct yk_idx *x)
{
    if (x == NULL)
        return;
    free(x->data);
    *x = (struct yk_idx){0};
}
