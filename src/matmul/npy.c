/* npy.c - NumPy's .npy files; see npy.h. All numbers little-endian.
 *
 *     93 'N' 'U' 'M' 'P' 'Y' | u8 major | u8 minor | length | header | the elements
 *     length   of the header: u16 (major 1) or u32 (major 2, 3)
 *     header   a Python dict, spaces, '\n':
 *              {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *     element (r, c) of (R, C) is number r C + c, in Fortran order c R + r
 *
 * The dict is read by its grammar, not as NumPy happens to write it: keys in any order, either
 * quote, blanks anywhere. Files are read, not mapped: a mapped file that shrinks would be a SIGBUS
 * in the middle of a product. Columns of a Fortran file go through a small buffer, some at a time,
 * and are turned there.
 * LIMITS: a header of at most 64 KB; nothing is byte-swapped. */
#include "matmul/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_MOST = 1 << 16,
    DIMS = 8,
    STRIP = 64,        /* columns of a Fortran file that are turned together */
    STRIP_ROWS = 2048, /* rows of them that are turned together */
    CONVERT = 1 << 16, /* elements that are converted at a time */
    DESCR_MOST = 64,
};
static const char MAGIC[] = "\x93NUMPY";

/* --- the header's grammar --- */

struct text {
    const char *at, *end;
};

static bool skip_blanks(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r'))
        t->at++;
    return t->at < t->end;
}

static bool take(struct text *t, char c)
{
    if (!skip_blanks(t) || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_word(struct text *t, const char *word)
{
    size_t n = strlen(word);
    if (!skip_blanks(t) || (size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

/* 'text' or "text", without escapes. */
static bool take_string(struct text *t, char *out, size_t cap)
{
    if (!skip_blanks(t) || (*t->at != '\'' && *t->at != '"'))
        return false;
    const char *from = t->at + 1, *to = memchr(from, *t->at, (size_t)(t->end - from));
    if (to == NULL || (size_t)(to - from) >= cap || memchr(from, '\\', (size_t)(to - from)) != NULL)
        return false;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
    t->at = to + 1;
    return true;
}

static bool take_number(struct text *t, uint64_t *out)
{
    const char *first = skip_blanks(t) ? t->at : t->end;
    uint64_t v = 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        uint64_t digit = (uint64_t)(*t->at - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    if (t->at == first)
        return false;
    if (t->at < t->end && *t->at == 'L') /* as Python 2 wrote long integers */
        t->at++;
    *out = v;
    return true;
}

/* (), (3,), (3, 4), (3, 4,) */
static bool take_shape(struct text *t, uint64_t dim[DIMS], unsigned *dims)
{
    *dims = 0;
    if (!take(t, '('))
        return false;
    while (!take(t, ')')) {
        if (*dims == DIMS || !take_number(t, &dim[*dims]))
            return false;
        ++*dims;
        if (!take(t, ',')) {
            if (!take(t, ')'))
                return false;
            break;
        }
    }
    return true;
}

struct header {
    char descr[DESCR_MOST];
    bool fortran;
    uint64_t dim[DIMS];
    unsigned dims;
    bool has_descr, has_order, has_shape;
    bool record; /* the descr is a list of fields */
};

/* The value of one key. */
static bool take_value(struct text *t, const char *key, struct header *h)
{
    if (strcmp(key, "descr") == 0) {
        h->has_descr = true;
        h->record = skip_blanks(t) && *t->at == '[';
        return h->record || take_string(t, h->descr, sizeof h->descr);
    }
    if (strcmp(key, "fortran_order") == 0) {
        h->has_order = true;
        h->fortran = take_word(t, "True");
        return h->fortran || take_word(t, "False");
    }
    h->has_shape = true;
    return strcmp(key, "shape") == 0 && take_shape(t, h->dim, &h->dims);
}

static bool take_dict(struct text *t, struct header *h)
{
    char key[24];
    if (!take(t, '{'))
        return false;
    while (!take(t, '}')) {
        if (!take_string(t, key, sizeof key) || !take(t, ':') || !take_value(t, key, h))
            return false;
        if (h->record)
            return true; /* refused anyway */
        if (!take(t, ',')) {
            if (!take(t, '}'))
                return false;
            break;
        }
    }
    return !skip_blanks(t) && h->has_descr && h->has_order && h->has_shape;
}

/* --- accepted and refused matrices --- */

static yk_code refuse_type(const struct header *h, const char *path, struct yk_error *e)
{
    if (h->record)
        yk_fail(e, YK_DATA, "'%s' holds records, not numbers", path);
    else if (h->descr[0] == '>')
        yk_fail(e, YK_DATA, "'%s' holds big-endian numbers ('%s')", path, h->descr);
    else
        yk_fail(e, YK_DATA, "'%s' holds elements of type '%s', not float32 or float64", path,
                h->descr);
    yk_hint(e, "numpy.save(file, a.astype('<f4')) writes a matrix that fits");
    return YK_DATA;
}

static yk_code take_header(struct yk_npy *f, const struct header *h, uint64_t size,
                           const char *path, struct yk_error *e)
{
    const char *descr = h->descr;
    if (h->record)
        return refuse_type(h, path, e);
    if (strcmp(descr, "<f4") == 0 || strcmp(descr, "=f4") == 0)
        f->type = YK_F32;
    else if (strcmp(descr, "<f8") == 0 || strcmp(descr, "=f8") == 0)
        f->type = YK_F64;
    else
        return refuse_type(h, path, e);
    if (h->dims != 2) {
        yk_fail(e, YK_DATA, "'%s' has %u dimensions, and a matrix has 2", path, h->dims);
        yk_hint(e, "numpy.save(file, a.reshape(rows, columns)) writes a matrix that fits");
        return YK_DATA;
    }
    if (h->dim[0] == 0 || h->dim[1] == 0)
        return yk_fail(e, YK_DATA, "'%s' is a matrix without elements, %" PRIu64 " x %" PRIu64,
                       path, h->dim[0], h->dim[1]);
    uint64_t room = (size - f->offset) / f->type;
    if (h->dim[0] > room || h->dim[1] > room / h->dim[0])
        return yk_fail(e, YK_DATA,
                       "'%s' is too short: its header promises %" PRIu64 " x %" PRIu64
                       " numbers, and there are %" PRIu64,
                       path, h->dim[0], h->dim[1], room);
    f->rows = h->dim[0];
    f->cols = h->dim[1];
    f->fortran = h->fortran;
    return YK_OK;
}

yk_code yk_npy_parse(struct yk_npy *f, const void *bytes, size_t n, uint64_t size, const char *path,
                     struct yk_error *e)
{
    const unsigned char *p = bytes;
    *f = (struct yk_npy){.fd = -1};
    if (n < 10 || n > size || memcmp(p, MAGIC, 6) != 0)
        return yk_fail(e, YK_DATA, "'%s' is not an .npy file", path);
    unsigned major = p[6], start = major == 1 ? 10 : 12;
    if (major < 1 || major > 3)
        return yk_fail(e, YK_DATA,
                       "'%s' is an .npy file of version %u.%u, and versions 1 to 3 are known", path,
                       major, p[7]);
    uint64_t length = p[8] | (uint64_t)p[9] << 8;
    if (major > 1 && n >= 12)
        length |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
    if (n < start || length > n - start)
        return length > HEADER_MOST
                   ? yk_fail(e, YK_DATA,
                             "'%s' has a header of %" PRIu64 " bytes, which is too long", path,
                             length)
                   : yk_fail(e, YK_DATA, "'%s' ends within its header", path);
    struct header h = {0};
    struct text t = {(const char *)p + start, (const char *)p + start + length};
    if (!take_dict(&t, &h))
        return yk_fail(e, YK_DATA, "'%s' has a malformed header", path);
    f->offset = start + length;
    yk_code rc = take_header(f, &h, size, path, e);
    if (rc == YK_OK)
        rc = yk_path(f->path, e, "%s", path);
    if (rc != YK_OK)
        *f = (struct yk_npy){.fd = -1};
    return rc;
}

/* All of `n` bytes at `at`; YK_DATA if the file ends before. */
static yk_code read_at(int fd, const char *path, void *out, size_t n, uint64_t at,
                       struct yk_error *e)
{
    char *to = out;
    while (n > 0) {
        ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return yk_fail_errno(e, YK_DATA, "cannot read '%s'", path);
        if (got == 0)
            return yk_fail(e, YK_DATA, "'%s' has become shorter while it was read", path);
        to += got;
        n -= (size_t)got;
        at += (uint64_t)got;
    }
    return YK_OK;
}

yk_code yk_npy_open(struct yk_npy *f, const char *path, struct yk_error *e)
{
    struct stat s = {0};
    *f = (struct yk_npy){.fd = -1};
    char *head = malloc(HEADER_MOST + 12);
    if (head == NULL)
        return yk_fail_memory(e, HEADER_MOST + 12);
    yk_code rc = YK_OK;
    /* O_NONBLOCK: a pipe is refused below, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &s) != 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    else if (!S_ISREG(s.st_mode))
        rc = yk_fail(e, YK_DATA,
                     "'%s' is not a regular file: its blocks cannot be read in any order", path);
    if (rc == YK_OK) {
        uint64_t size = (uint64_t)s.st_size;
        size_t n = size < HEADER_MOST + 12 ? (size_t)size : HEADER_MOST + 12;
        rc = read_at(fd, path, head, n, 0, e);
        if (rc == YK_OK)
            rc = yk_npy_parse(f, head, n, size, path, e);
    }
    if (rc == YK_OK)
        f->fd = fd;
    else if (fd >= 0)
        close(fd);
    free(head);
    return rc;
}

void yk_npy_close(struct yk_npy *f)
{
    if (f->fd >= 0 && f->path[0] != '\0')
        close(f->fd);
    f->fd = -1;
}

/* --- blocks --- */

static void convert(const void *from, enum yk_float has, void *to, enum yk_float wants, size_t n)
{
    if (has == wants) {
        memcpy(to, from, n * has);
    } else if (wants == YK_F32) {
        const double *x = from;
        float *y = to;
        for (size_t i = 0; i < n; i++)
            y[i] = (float)x[i];
    } else {
        const float *x = from;
        double *y = to;
        for (size_t i = 0; i < n; i++)
            y[i] = (double)x[i];
    }
}

/* `n` elements that lie side by side in the file. `spare` holds CONVERT doubles. */
static yk_code read_run(const struct yk_npy *f, uint64_t first, uint64_t n, enum yk_float type,
                        void *out, void *spare, struct yk_error *e)
{
    uint64_t at = f->offset + first * f->type;
    if (f->type == type)
        return read_at(f->fd, f->path, out, (size_t)n * type, at, e);
    yk_code rc = YK_OK;
    for (uint64_t i = 0; i < n && rc == YK_OK; i += CONVERT) {
        size_t some = (size_t)(n - i < CONVERT ? n - i : CONVERT);
        rc = read_at(f->fd, f->path, spare, some * f->type, at + i * f->type, e);
        if (rc == YK_OK)
            convert(spare, f->type, (char *)out + i * type, type, some);
    }
    return rc;
}

static yk_code read_rows(const struct yk_npy *f, const struct yk_rect *b, enum yk_float type,
                         void *out, void *spare, struct yk_error *e)
{
    if (b->cols == f->cols) /* whole rows are one run */
        return read_run(f, b->row * f->cols, b->rows * b->cols, type, out, spare, e);
    yk_code rc = YK_OK;
    for (uint64_t r = 0; r < b->rows && rc == YK_OK; r++)
        rc = read_run(f, (b->row + r) * f->cols + b->col, b->cols, type,
                      (char *)out + r * b->cols * type, spare, e);
    return rc;
}

/* `cols` columns of `rows` elements, one after the other in `from`, into the rows of `to`. */
static void turn(const void *from, enum yk_float type, uint64_t rows, uint64_t cols, void *to,
                 uint64_t ld)
{
    if (type == YK_F32) {
        const float *x = from;
        float *y = to;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < cols; c++)
                y[r * ld + c] = x[c * rows + r];
    } else {
        const double *x = from;
        double *y = to;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < cols; c++)
                y[r * ld + c] = x[c * rows + r];
    }
}

static yk_code read_columns(const struct yk_npy *f, const struct yk_rect *b, enum yk_float type,
                            char *out, char *spare, struct yk_error *e)
{
    char *strip = spare + CONVERT * sizeof(double);
    for (uint64_t r = 0; r < b->rows; r += STRIP_ROWS)
        for (uint64_t c = 0; c < b->cols; c += STRIP) {
            uint64_t rows = b->rows - r < STRIP_ROWS ? b->rows - r : STRIP_ROWS;
            uint64_t cols = b->cols - c < STRIP ? b->cols - c : STRIP;
            for (uint64_t k = 0; k < cols; k++) {
                uint64_t first = (b->col + c + k) * f->rows + b->row + r;
                yk_code rc = read_run(f, first, rows, type, strip + k * rows * type, spare, e);
                if (rc != YK_OK)
                    return rc;
            }
            turn(strip, type, rows, cols, out + (r * b->cols + c) * type, b->cols);
        }
    return YK_OK;
}

yk_code yk_npy_read(const struct yk_npy *f, const struct yk_rect *b, enum yk_float type, void *out,
                    struct yk_error *e)
{
    size_t room = (size_t)(CONVERT + (f->fortran ? STRIP * STRIP_ROWS : 0)) * sizeof(double);
    void *spare = calloc(1, room); /* untouched pages cost nothing */
    if (spare == NULL)
        return yk_fail_memory(e, room);
    yk_code rc =
        f->fortran ? read_columns(f, b, type, out, spare, e) : read_rows(f, b, type, out, spare, e);
    free(spare);
    return rc;
}

/* --- writing --- */

void yk_npy_header(unsigned char out[YK_NPY_HEADER], uint64_t rows, uint64_t cols)
{
    char text[YK_NPY_HEADER];
    int n =
        snprintf(text, sizeof text,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }",
                 rows, cols);
    memset(out, ' ', YK_NPY_HEADER);
    memcpy(out, MAGIC, 6);
    out[6] = 1;
    out[7] = 0;
    out[8] = YK_NPY_HEADER - 10;
    out[9] = 0;
    memcpy(out + 10, text, (size_t)n);
    out[YK_NPY_HEADER - 1] = '\n';
}

static yk_code write_at(int fd, const char *path, const void *bytes, size_t n, uint64_t at,
                        struct yk_error *e)
{
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = pwrite(fd, from, n, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return yk_fail_errno(e, YK_FAILED, "cannot write '%s'", path);
        from += put;
        n -= (size_t)put;
        at += (uint64_t)put;
    }
    return YK_OK;
}

yk_code yk_npy_write(int fd, const char *path, uint64_t columns, const struct yk_rect *b,
                     const float *in, uint64_t ld, struct yk_error *e)
{
    uint64_t at = YK_NPY_HEADER + (b->row * columns + b->col) * sizeof *in;
    if (b->cols == columns && ld == columns)
        return write_at(fd, path, in, (size_t)(b->rows * b->cols) * sizeof *in, at, e);
    yk_code rc = YK_OK;
    for (uint64_t r = 0; r < b->rows && rc == YK_OK; r++)
        rc = write_at(fd, path, in + r * ld, (size_t)b->cols * sizeof *in,
                      at + r * columns * sizeof *in, e);
    return rc;
}
