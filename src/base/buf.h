/* buf.h - a growable byte string, for text and binary records of unknown length.
 *
 * A zeroed struct is an empty buffer. A failed allocation sets `failed` and makes later calls do
 * nothing, so a caller appends freely and checks once at the end. The content is always followed by
 * a NUL, which `len` does not count.
 * THREADS: a buffer belongs to one thread at a time. */
#ifndef YK_BASE_BUF_H
#define YK_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct yk_buf {
    char *data;  /* NULL while empty */
    size_t len;  /* bytes in use */
    size_t cap;  /* bytes allocated */
    bool failed; /* an allocation failed; the content is incomplete */
};

void yk_buf_add(struct yk_buf *b, const void *bytes, size_t n);
void yk_buf_text(struct yk_buf *b, const char *text);
void yk_buf_format(struct yk_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void yk_buf_clear(struct yk_buf *b); /* sets the length to 0 and keeps the memory */
void yk_buf_release(struct yk_buf *b);

#endif
