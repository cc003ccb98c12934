/* error.c - formats errors; see error.h.
 * LIMITS: a text longer than its fixed buffer is cut; nothing is allocated, so reporting cannot
 * fail. */
#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(struct yk_error *e, yk_code code, const char *fmt, va_list ap)
{
    e->code = code;
    e->hint[0] = '\0';
    vsnprintf(e->text, sizeof e->text, fmt, ap);
}

yk_code yk_fail(struct yk_error *e, yk_code code, const char *fmt, ...)
{
    va_list ap;
    if (e != NULL) {
        va_start(ap, fmt);
        fill(e, code, fmt, ap);
        va_end(ap);
    }
    return code;
}

yk_code yk_fail_errno(struct yk_error *e, yk_code code, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    if (e == NULL)
        return code;
    va_start(ap, fmt);
    fill(e, code, fmt, ap);
    va_end(ap);
    char why[128];
    const char *text = strerror_r(saved, why, sizeof why); /* the GNU version returns the text */
    size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %c%s", tolower((unsigned char)text[0]), text + 1);
    return code;
}

void yk_hint(struct yk_error *e, const char *fmt, ...)
{
    va_list ap;
    if (e == NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
}

yk_code yk_fail_memory(struct yk_error *e, size_t bytes)
{
    return yk_fail(e, YK_FAILED, "out of memory: could not allocate %zu bytes", bytes);
}
