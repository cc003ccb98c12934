/* metrics.c - records of scalars, as lines of metrics.jsonl and as TensorBoard events; see
 * metrics.h.
 *
 * A line is built by hand in the file's buffer, because this happens in the training loop, where a
 * JSON library would cost more than the step. Every line begins with its step, which is all that
 * resuming needs to read.
 * LIMITS: an existing metrics.jsonl of more than MAX_LINES bytes is not resumed. */
#include "record/metrics.h"

#include "base/clock.h"
#include "record/append.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP "{\"step\":"
#define MAX_LINES ((size_t)1 << 30)

struct yk_metrics {
    struct yk_append lines;
    struct yk_events *events;
    uint64_t step; /* step of the open record */
    double wall;   /* start of the open record, in seconds since 1970 */
};

static void add_integer(struct yk_buf *b, uint64_t v)
{
    char digits[24];
    char *p = digits + sizeof digits;
    do
        *--p = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    yk_buf_add(b, p, (size_t)(digits + sizeof digits - p));
}

static void add_real(struct yk_buf *b, double v)
{
    char text[32];
    if (!isfinite(v)) {
        yk_buf_text(b, "null");
        return;
    }
    int n = snprintf(text, sizeof text, "%.9g", v);
    char *comma = memchr(text, ',', (size_t)n); /* some locales write a comma, JSON wants a point */
    if (comma != NULL)
        *comma = '.';
    yk_buf_add(b, text, (size_t)n);
}

/* Tags come from our own code and are printable, but may hold a quote or a backslash. */
static void add_key(struct yk_buf *b, const char *tag)
{
    yk_buf_text(b, ",\"");
    for (const char *p = tag; *p != '\0'; p++) {
        size_t plain = strcspn(p, "\"\\");
        yk_buf_add(b, p, plain);
        p += plain;
        if (*p == '\0')
            break;
        yk_buf_add(b, (const char[]){'\\', *p}, 2);
    }
    yk_buf_text(b, "\":");
}

/* Keeps the whole lines of steps up to `last`, in place, and returns the new length. */
static size_t cut_lines(char *text, size_t n, uint64_t last)
{
    size_t kept = 0;
    for (char *line = text, *end; (end = memchr(line, '\n', n - (size_t)(line - text))) != NULL;
         line = end + 1) {
        size_t len = (size_t)(end + 1 - line);
        const char *digits = line + strlen(STEP);
        char *after;
        if (len <= strlen(STEP) || memcmp(line, STEP, strlen(STEP)) != 0)
            continue;
        uint64_t step = strtoull(digits, &after, 10); /* stops at the newline at the latest */
        if (after == digits || step > last)
            continue;
        memmove(text + kept, line, len);
        kept += len;
    }
    return kept;
}

static yk_code resume_at(const char *path, uint64_t step, struct yk_error *e)
{
    char *text;
    size_t n;
    if (!yk_exists(path))
        return YK_OK;
    yk_code rc = yk_file_read(path, MAX_LINES, &text, &n, e);
    if (rc != YK_OK)
        return rc;
    size_t kept = cut_lines(text, n, step);
    if (kept < n)
        rc = yk_file_write(path, text, kept, e);
    free(text);
    return rc;
}

yk_code yk_metrics_open(struct yk_metrics **out, const struct yk_run *run, const char *who,
                        uint64_t from_step, struct yk_error *e)
{
    char path[YK_PATH_MAX], folder[YK_PATH_MAX];
    yk_code rc = yk_run_path(run, "metrics.jsonl", path, e);
    if (rc == YK_OK)
        rc = yk_path(folder, e, "%s/events/%s", run->dir, who);
    if (rc == YK_OK)
        rc = resume_at(path, from_step, e);
    if (rc != YK_OK)
        return rc;
    struct yk_metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return yk_fail_memory(e, sizeof *m);
    if ((rc = yk_append_open(&m->lines, path, e)) != YK_OK)
        goto out_metrics;
    if ((rc = yk_events_open(&m->events, folder, e)) != YK_OK)
        goto out_lines;
    *out = m;
    return YK_OK;
out_lines:
    yk_append_close(&m->lines, NULL);
out_metrics:
    free(m);
    return rc;
}

void yk_metrics_begin(struct yk_metrics *m, uint64_t step, double seconds, uint64_t examples)
{
    struct yk_buf *b = &m->lines.buf;
    m->step = step;
    m->wall = yk_wall();
    yk_buf_text(b, STEP);
    add_integer(b, step);
    yk_buf_text(b, ",\"seconds\":");
    add_real(b, seconds);
    yk_buf_text(b, ",\"examples\":");
    add_integer(b, examples);
}

void yk_metrics_value(struct yk_metrics *m, const char *tag, double value)
{
    add_key(&m->lines.buf, tag);
    add_real(&m->lines.buf, value);
    yk_events_scalar(m->events, m->step, m->wall, tag, value);
}

void yk_metrics_histogram(struct yk_metrics *m, const char *tag, const float *v, size_t n)
{
    yk_events_histogram(m->events, m->step, m->wall, tag, v, n);
}

void yk_metrics_end(struct yk_metrics *m)
{
    yk_buf_text(&m->lines.buf, "}\n");
    yk_append_done(&m->lines);
}

struct yk_events *yk_metrics_events(struct yk_metrics *m)
{
    return m->events;
}

yk_code yk_metrics_flush(struct yk_metrics *m, struct yk_error *e)
{
    struct yk_error other;
    yk_code lines = yk_append_flush(&m->lines, e);
    yk_code events = yk_events_flush(m->events, lines == YK_OK ? e : &other);
    return lines != YK_OK ? lines : events;
}

yk_code yk_metrics_close(struct yk_metrics *m, struct yk_error *e)
{
    if (m == NULL)
        return YK_OK;
    struct yk_error other;
    yk_code lines = yk_append_close(&m->lines, e);
    yk_code events = yk_events_close(m->events, lines == YK_OK ? e : &other);
    free(m);
    return lines != YK_OK ? lines : events;
}
