/* buf.c - see buf.h. The memory doubles when it is full, so appending n bytes costs O(n) in
 * total. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct yk_buf *b, size_t more)
{
    if (b->failed || more > SIZE_MAX / 2 - b->len - 1) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 128;
    while (cap < need)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void yk_buf_add(struct yk_buf *b, const void *bytes, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void yk_buf_text(struct yk_buf *b, const char *text)
{
    yk_buf_add(b, text, strlen(text));
}

void yk_buf_format(struct yk_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    b->failed |= n < 0;
    if (!reserve(b, n < 0 ? 0 : (size_t)n))
        return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void yk_buf_clear(struct yk_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data != NULL)
        b->data[0] = '\0';
}

void yk_buf_release(struct yk_buf *b)
{
    free(b->data);
    *b = (struct yk_buf){0};
}
