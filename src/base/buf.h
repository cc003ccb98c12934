/* buf.h - a growable byte string: the one way to build text or binary records of unknown length.
 *
 * A zeroed struct is an empty buffer. An allocation that fails sets `failed` and makes later calls do nothing, so a caller
 * appends freely and checks once at the end. Text is always NUL-terminated (the NUL is not counted in `len`).
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
void yk_buf_clear(struct yk_buf *b); /* length 0, memory kept */
void yk_buf_release(struct yk_buf *b);

#endif
