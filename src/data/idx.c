/* idx.c - reads IDX, the format of MNIST and its kin.
 *
 *     offset  bytes
 *          0      2  00 00
 *          2      1  element type: 08 u8, 09 i8, 0b i16, 0c i32, 0d f32, 0e f64
 *          3      1  number of dimensions n
 *          4     4n  the dimensions, u32 big-endian, slowest first
 *       4+4n      -  the elements, big-endian, row after row; nothing behind them
 *
 * A gzipped file is told by its first bytes (1f 8b), whatever its name. Bytes pass once from the file, or from inflate, into
 * the buffer they stay in. No header is believed before the length of the file agrees: to the byte if it is plain; if it is
 * compressed, as far as deflate can expand (1032 times), and to the byte once it is inflated.
 * THREADS: no state; any thread may read any file. */
#include "data/idx.h"

#include "data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    CHUNK = 1 << 16,      /* compressed bytes handed to inflate at a time */
    DEFLATE_LIMIT = 1032, /* deflate never expands further than this */
    HUGE_PAGE = 2 << 20,  /* bytes */
    ANY_GZIP = 16 + 15,   /* zlib's way to say: a gzip header, any window */
    SHAPE_TEXT = 11 * YK_IDX_DIMS + 1,
};

static const struct {
    const char *name;
    unsigned size;
} types[] = {{"u8", 1}, {"i8", 1}, {NULL, 0}, {"i16", 2}, {"i32", 4}, {"f32", 4}, {"f64", 8}}; /* from 0x08 on */

const char *yk_idx_type_name(uint8_t type)
{
    return type >= 0x08 && type <= 0x0e ? types[type - 0x08].name : NULL;
}

/* The bytes of one file in order, inflated if need be. */
struct stream {
    const char *name;   /* for messages */
    int fd;             /* -1: the bytes are in memory */
    const uint8_t *mem; /* ... here, `mem_left` of them not yet taken */
    size_t mem_left;
    uint64_t length; /* of the file as it is stored */
    bool gzip;
    bool member_done; /* a gzip member has ended; another may follow */
    z_stream z;
    uint8_t chunk[CHUNK]; /* input of inflate */
};

/* Stored bytes, fewer than `n` only at the end of the file. */
static yk_code take_stored(struct stream *s, uint8_t *dst, size_t n, size_t *got, struct yk_error *e)
{
    *got = 0;
    if (s->fd < 0) {
        if (s->mem_left == 0)
            return YK_OK;
        *got = n < s->mem_left ? n : s->mem_left;
        memcpy(dst, s->mem, *got);
        s->mem += *got;
        s->mem_left -= *got;
        return YK_OK;
    }
    while (*got < n) {
        ssize_t k = read(s->fd, dst + *got, n - *got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return yk_fail_errno(e, YK_DATA, "cannot read '%s'", s->name);
        if (k == 0)
            break;
        *got += (size_t)k;
    }
    return YK_OK;
}

static yk_code take_inflated(struct stream *s, uint8_t *dst, size_t n, size_t *got, struct yk_error *e)
{
    z_stream *z = &s->z;
    *got = 0;
    while (*got < n) {
        if (z->avail_in == 0) {
            size_t k;
            yk_code rc = take_stored(s, s->chunk, CHUNK, &k, e);
            if (rc != YK_OK)
                return rc;
            if (k == 0 && !s->member_done)
                return yk_fail(e, YK_DATA, "'%s' is cut off: its compressed data end before their end mark", s->name);
            if (k == 0)
                return YK_OK;
            z->next_in = s->chunk;
            z->avail_in = (uInt)k;
        }
        if (s->member_done)
            inflateReset(z);
        uInt room = n - *got < UINT_MAX ? (uInt)(n - *got) : UINT_MAX;
        z->next_out = dst + *got;
        z->avail_out = room;
        int r = inflate(z, Z_NO_FLUSH);
        if (r == Z_MEM_ERROR)
            return yk_fail_memory(e, 1 << 15);
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) /* Z_BUF_ERROR: only wants more input */
            return yk_fail(e, YK_DATA, "'%s' holds damaged compressed data: %s", s->name, z->msg ? z->msg : "not deflate");
        *got += room - z->avail_out;
        s->member_done = r == Z_STREAM_END;
    }
    return YK_OK;
}

static yk_code take(struct stream *s, uint8_t *dst, size_t n, size_t *got, struct yk_error *e)
{
    return s->gzip ? take_inflated(s, dst, n, got, e) : take_stored(s, dst, n, got, e);
}

static yk_code sniff_gzip(struct stream *s, const uint8_t *first, size_t n, struct yk_error *e)
{
    s->gzip = n >= 2 && first[0] == 0x1f && first[1] == 0x8b;
    if (s->gzip && inflateInit2(&s->z, ANY_GZIP) != Z_OK) {
        s->gzip = false;
        return yk_fail_memory(e, 1 << 15);
    }
    return YK_OK;
}

static void stream_close(struct stream *s)
{
    if (s->gzip)
        inflateEnd(&s->z);
    if (s->fd >= 0)
        close(s->fd);
}

/* On failure nothing is left open. */
static yk_code stream_open(struct stream *s, const char *path, struct yk_error *e)
{
    memset(s, 0, offsetof(struct stream, chunk));
    s->name = path;
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* so that a pipe is refused below, not waited for */
    if (s->fd < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    struct stat st;
    uint8_t first[2];
    ssize_t n = 0;
    yk_code rc;
    if (fstat(s->fd, &st) != 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    else if (!S_ISREG(st.st_mode))
        rc = yk_fail(e, YK_DATA, "'%s' is not a file but a %s; expected an IDX file", path,
                     S_ISDIR(st.st_mode) ? "folder" : "pipe or device");
    else if ((n = pread(s->fd, first, sizeof first, 0)) < 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot read '%s'", path);
    else
        rc = sniff_gzip(s, first, (size_t)n, e);
    if (rc != YK_OK)
        stream_close(s);
    else
        s->length = (uint64_t)st.st_size;
    return rc;
}

static const char *shape_text(const struct yk_idx *x, char out[SHAPE_TEXT])
{
    int n = 0;
    for (int i = 0; i < x->ndim; i++)
        n += snprintf(out + n, (size_t)(SHAPE_TEXT - n), "%s%u", i > 0 ? "x" : "", x->dim[i]);
    return out;
}

/* Is a header of `head` bytes that promises `x->bytes` more (`fits` is false if that is past 2^64) true to the file? */
static yk_code check_length(const struct stream *s, const struct yk_idx *x, uint64_t head, bool fits, struct yk_error *e)
{
    char shape[SHAPE_TEXT];
    uint64_t whole;
    if (!fits || __builtin_add_overflow(head, x->bytes, &whole))
        return yk_fail(e, YK_DATA, "'%s' is %llu bytes long, but its header says %s %s, more than any file can hold", s->name,
                       (unsigned long long)s->length, yk_idx_type_name(x->type), shape_text(x, shape));
    if (s->gzip && whole / DEFLATE_LIMIT > s->length)
        return yk_fail(e, YK_DATA, "'%s' is %llu bytes of gzip, but its header says %s %s, and %llu bytes never shrink that far",
                       s->name, (unsigned long long)s->length, yk_idx_type_name(x->type), shape_text(x, shape),
                       (unsigned long long)whole);
    if (!s->gzip && whole != s->length)
        return yk_fail(e, YK_DATA, "'%s' is %llu bytes long, but its header says %s %s; expected %llu bytes", s->name,
                       (unsigned long long)s->length, yk_idx_type_name(x->type), shape_text(x, shape), (unsigned long long)whole);
    return YK_OK;
}

static yk_code read_head(struct stream *s, struct yk_idx *x, struct yk_error *e)
{
    uint8_t b[4 + 4 * YK_IDX_DIMS];
    size_t got;
    yk_code rc = take(s, b, 4, &got, e);
    if (rc != YK_OK)
        return rc;
    if (got == 0)
        return yk_fail(e, YK_DATA, "'%s' is empty; expected an IDX file", s->name);
    if (got < 4)
        return yk_fail(e, YK_DATA, "'%s' ends after %zu byte%s; expected an IDX header of at least 8", s->name, got,
                       got == 1 ? "" : "s");
    if (b[0] != 0 || b[1] != 0)
        return yk_fail(e, YK_DATA, "'%s' is not an IDX file: it starts with %02x %02x, expected 00 00", s->name, b[0], b[1]);
    if (yk_idx_type_name(b[2]) == NULL)
        return yk_fail(e, YK_DATA, "'%s' has IDX element type %02x; expected 08 (u8), 09, 0b, 0c, 0d or 0e", s->name, b[2]);
    if (b[3] < 1 || b[3] > YK_IDX_DIMS)
        return yk_fail(e, YK_DATA, "'%s' has %u dimensions; expected 1 to %d", s->name, b[3], YK_IDX_DIMS);
    x->gzip = s->gzip;
    x->type = b[2];
    x->ndim = b[3];
    size_t want = (size_t)4 * x->ndim;
    rc = take(s, b + 4, want, &got, e);
    if (rc != YK_OK)
        return rc;
    if (got < want)
        return yk_fail(e, YK_DATA, "'%s' ends after %zu bytes; expected an IDX header of %zu for %u dimensions", s->name, 4 + got,
                       4 + want, x->ndim);
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
        return yk_fail(e, YK_DATA, "'%s' holds no elements: its shape is %s; expected every dimension to be at least 1", s->name,
                       shape_text(x, shape));
    return check_length(s, x, 4 + want, fits, e);
}

/* Large ones lie on huge pages: a kernel that jumps from row to row then misses the TLB 500 times less often. */
static uint8_t *new_elements(uint64_t bytes)
{
    bool large = bytes > 2 * HUGE_PAGE;
    void *p;
    if (bytes > PTRDIFF_MAX - YK_ROW_SLACK || posix_memalign(&p, large ? HUGE_PAGE : 64, bytes + YK_ROW_SLACK) != 0)
        return NULL;
    if (large)
        madvise(p, bytes + YK_ROW_SLACK, MADV_HUGEPAGE); /* a wish: without huge pages it is only slower */
    memset((uint8_t *)p + bytes, 0, YK_ROW_SLACK);
    return p;
}

static yk_code read_elements(struct stream *s, struct yk_idx *x, struct yk_error *e)
{
    char shape[SHAPE_TEXT];
    uint8_t more;
    size_t got, extra = 0;
    x->data = new_elements(x->bytes);
    if (x->data == NULL)
        return yk_fail_memory(e, x->bytes + YK_ROW_SLACK);
    yk_code rc = take(s, x->data, x->bytes, &got, e);
    if (rc == YK_OK && got < x->bytes)
        rc = yk_fail(e, YK_DATA, "'%s' ends after %zu bytes of elements, but its header says %s %s; expected %llu", s->name, got,
                     yk_idx_type_name(x->type), shape_text(x, shape), (unsigned long long)x->bytes);
    if (rc == YK_OK)
        rc = take(s, &more, 1, &extra, e); /* also makes inflate check its checksum */
    if (rc == YK_OK && extra > 0)
        rc = yk_fail(e, YK_DATA, "'%s' goes on after its elements; expected the end after the %llu bytes of %s %s", s->name,
                     (unsigned long long)x->bytes, yk_idx_type_name(x->type), shape_text(x, shape));
    if (rc != YK_OK)
        yk_idx_release(x);
    return rc;
}

static yk_code read_stream(struct stream *s, bool elements, struct yk_idx *out, struct yk_error *e)
{
    struct yk_idx x = {0};
    yk_code rc = read_head(s, &x, e);
    if (rc == YK_OK && elements)
        rc = read_elements(s, &x, e);
    *out = rc == YK_OK ? x : (struct yk_idx){0};
    stream_close(s);
    return rc;
}

static yk_code read_file(const char *path, bool elements, struct yk_idx *out, struct yk_error *e)
{
    struct stream s;
    *out = (struct yk_idx){0};
    yk_code rc = stream_open(&s, path, e);
    return rc == YK_OK ? read_stream(&s, elements, out, e) : rc;
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
    struct stream s;
    memset(&s, 0, offsetof(struct stream, chunk));
    s.name = "(memory)";
    s.fd = -1;
    s.mem = bytes;
    s.mem_left = n;
    s.length = n;
    *out = (struct yk_idx){0};
    yk_code rc = sniff_gzip(&s, bytes, n, e);
    return rc == YK_OK ? read_stream(&s, true, out, e) : rc;
}

void yk_idx_release(struct yk_idx *x)
{
    if (x == NULL)
        return;
    free(x->data);
    *x = (struct yk_idx){0};
}
