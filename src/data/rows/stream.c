/* stream.c - see stream.h. Plain bytes are read straight to the caller's memory, except the first
 * few, which are looked at.
 * THREADS: see stream.h.
 * LIMITS: one thread inflates, at about 0.4 GB/s. */
#include "data/rows/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum {
    STORED = 1 << 17,   /* compressed bytes handed to inflate at a time */
    ANY_GZIP = 16 + 15, /* zlib's code for a gzip header and any window */
};

struct yk_stream {
    const char *name;
    int fd;             /* -1: the bytes are in memory */
    const uint8_t *mem; /* `mem_left` bytes in memory that are not read yet */
    size_t mem_left;
    bool gzip;
    bool member_done; /* a gzip member has ended; another may follow */
    size_t at, end;   /* the bytes of `stored` that are not used yet */
    z_stream z;       /* its input is `stored` */
    uint8_t stored[STORED];
};

const char *yk_stream_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static yk_code read_some(struct yk_stream *s, void *dst, size_t n, size_t *got, struct yk_error *e)
{
    ssize_t k;
    if (s->fd < 0) {
        *got = n < s->mem_left ? n : s->mem_left;
        memcpy(dst, s->mem, *got);
        s->mem += *got;
        s->mem_left -= *got;
        return YK_OK;
    }
    do
        k = read(s->fd, dst, n < SSIZE_MAX ? n : SSIZE_MAX);
    while (k < 0 && errno == EINTR);
    *got = k < 0 ? 0 : (size_t)k;
    return k < 0 ? yk_fail_errno(e, YK_DATA, "cannot read '%s'", s->name) : YK_OK;
}

static yk_code take_plain(struct yk_stream *s, uint8_t *dst, size_t n, size_t *got,
                          struct yk_error *e)
{
    size_t first = s->end - s->at < n ? s->end - s->at : n;
    if (first > 0)
        memcpy(dst, s->stored + s->at, first);
    s->at += first;
    *got = first;
    while (*got < n) {
        size_t k;
        yk_code rc = read_some(s, dst + *got, n - *got, &k, e);
        if (rc != YK_OK)
            return rc;
        if (k == 0)
            break;
        *got += k;
    }
    return YK_OK;
}

static yk_code take_inflated(struct yk_stream *s, uint8_t *dst, size_t n, size_t *got,
                             struct yk_error *e)
{
    z_stream *z = &s->z;
    *got = 0;
    while (*got < n) {
        if (z->avail_in == 0) {
            size_t k;
            yk_code rc = read_some(s, s->stored, STORED, &k, e);
            if (rc != YK_OK)
                return rc;
            if (k == 0 && !s->member_done)
                return yk_fail(e, YK_DATA,
                               "'%s' is cut off: its compressed data end before their end mark",
                               s->name);
            if (k == 0)
                return YK_OK;
            z->next_in = s->stored;
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
        if (r != Z_OK && r != Z_STREAM_END &&
            r != Z_BUF_ERROR) /* Z_BUF_ERROR only asks for more input */
            return yk_fail(e, YK_DATA, "'%s' holds damaged compressed data: %s", s->name,
                           z->msg ? z->msg : "not deflate");
        *got += room - z->avail_out;
        s->member_done = r == Z_STREAM_END;
    }
    return YK_OK;
}

yk_code yk_stream_take(struct yk_stream *s, void *dst, size_t n, size_t *got, struct yk_error *e)
{
    return s->gzip ? take_inflated(s, dst, n, got, e) : take_plain(s, dst, n, got, e);
}

/* Reads the first two bytes, which tell gzip. A pipe may bring them one by one. */
static yk_code look(struct yk_stream *s, struct yk_error *e)
{
    while (s->end < 2) {
        size_t k;
        yk_code rc = read_some(s, s->stored + s->end, 4096, &k, e);
        if (rc != YK_OK)
            return rc;
        if (k == 0)
            return YK_OK;
        s->end += k;
    }
    if (s->stored[0] != 0x1f || s->stored[1] != 0x8b)
        return YK_OK;
    if (inflateInit2(&s->z, ANY_GZIP) != Z_OK)
        return yk_fail_memory(e, 1 << 15);
    s->gzip = true;
    s->z.next_in = s->stored;
    s->z.avail_in = (uInt)s->end;
    return YK_OK;
}

/* Waits up to a second for the writer of a named pipe, so that a forgotten pipe does not hang a
 * run. Reading returns 0 without a writer, and EAGAIN with one that has not written yet. */
static yk_code await_writer(struct yk_stream *s, struct yk_error *e)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < 100; i++) {
        ssize_t k = read(s->fd, s->stored, 4096);
        if (k != 0) {
            s->end = k > 0 ? (size_t)k : 0;
            return YK_OK;
        }
        nanosleep(&pause, NULL);
    }
    return yk_fail(e, YK_DATA, "no program writes to the pipe '%s'", s->name);
}

static struct yk_stream *new_stream(const char *name, struct yk_error *e)
{
    struct yk_stream *s = malloc(sizeof *s);
    if (s == NULL) {
        yk_fail_memory(e, sizeof *s);
        return NULL;
    }
    memset(s, 0, offsetof(struct yk_stream, stored));
    s->name = name;
    s->fd = -1;
    return s;
}

yk_code yk_stream_open(struct yk_stream **out, const char *path, struct yk_error *e)
{
    struct yk_stream *s = new_stream(yk_stream_name(path), e);
    struct stat st;
    yk_code rc;
    if (s == NULL)
        return YK_FAILED;
    s->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0 || fstat(s->fd, &st) != 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s'", s->name);
    else if (S_ISDIR(st.st_mode))
        rc = yk_fail(e, YK_DATA, "'%s' is a folder; expected a file", s->name);
    else
        rc = S_ISFIFO(st.st_mode) && s->fd != STDIN_FILENO ? await_writer(s, e) : YK_OK;
    if (rc == YK_OK && s->fd != STDIN_FILENO)
        fcntl(s->fd, F_SETFL, 0); /* later reads wait for bytes */
    if (rc == YK_OK)
        rc = look(s, e);
    if (rc != YK_OK) {
        yk_stream_close(s);
        return rc;
    }
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* only advice */
    *out = s;
    return YK_OK;
}

yk_code yk_stream_open_memory(struct yk_stream **out, const void *bytes, size_t n,
                              struct yk_error *e)
{
    struct yk_stream *s = new_stream("(memory)", e);
    if (s == NULL)
        return YK_FAILED;
    s->mem = bytes;
    s->mem_left = n;
    yk_code rc = look(s, e);
    if (rc == YK_OK)
        *out = s;
    else
        yk_stream_close(s);
    return rc;
}

bool yk_stream_is_gzip(const struct yk_stream *s)
{
    return s->gzip;
}

void yk_stream_close(struct yk_stream *s)
{
    if (s == NULL)
        return;
    if (s->gzip)
        inflateEnd(&s->z);
    if (s->fd > STDIN_FILENO)
        close(s->fd);
    free(s);
}
