/* rows_format.c - see rows_format.h: chunks of rows, the messages about malformed ones, and the
 * list of formats.
 * THREADS: a chunk belongs to one thread at a time. */
#include "data/rows/rows_format.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SLACK = 16 }; /* spare entries: a parser may store a whole vector */

/* Returns a larger array, or NULL and leaves the old one as it was. */
static void *grown(void *old, uint32_t used, uint64_t room, size_t size)
{
    if (used > 0)
        return realloc(old, (room + KEY_SLACK) * size);
    void *p = malloc((room + KEY_SLACK) * size); /* nothing to keep, so nothing to copy */
    if (p != NULL)
        free(old);
    return p;
}

/* At least `need`, half as much again as before, and at most 2^32 - 1. */
static uint64_t next_room(uint32_t room, uint64_t need)
{
    uint64_t more = (uint64_t)room + room / 2;
    more = more < UINT32_MAX ? more : UINT32_MAX;
    return need > more ? need : more;
}

static bool row_room(struct yk_chunk *c, uint64_t rows)
{
    uint64_t room = next_room(c->row_room, c->rows + rows);
    uint8_t *label = grown(c->label, c->rows, room, sizeof *label);
    if (label != NULL)
        c->label = label;
    uint32_t *end = grown(c->end, c->rows, room, sizeof *end);
    if (end != NULL)
        c->end = end;
    if (label == NULL || end == NULL)
        return false;
    c->row_room = (uint32_t)room;
    return true;
}

static bool entry_room(struct yk_chunk *c, uint64_t entries)
{
    uint64_t room = next_room(c->entry_room, c->entries + entries);
    uint32_t *key = grown(c->key, c->entries, room, sizeof *key);
    if (key != NULL)
        c->key = key;
    float *value = grown(c->value, c->entries, room, sizeof *value);
    if (value != NULL)
        c->value = value;
    if (key == NULL || value == NULL)
        return false;
    c->entry_room = (uint32_t)room;
    return true;
}

bool yk_chunk_room(struct yk_chunk *c, uint64_t rows, uint64_t entries)
{
    if (rows > UINT32_MAX - c->rows || entries > UINT32_MAX - c->entries)
        return false;
    return (rows <= c->row_room - c->rows || row_room(c, rows)) &&
           (entries <= c->entry_room - c->entries || entry_room(c, entries));
}

void yk_chunk_clear(struct yk_chunk *c)
{
    c->rows = c->entries = 0;
    c->bad = 0;
    c->counted.bytes = NULL;
    c->worst.text[0] = c->worst.hint[0] = '\0';
}

void yk_chunk_release(struct yk_chunk *c)
{
    free(c->label);
    free(c->end);
    free(c->key);
    free(c->value);
    *c = (struct yk_chunk){0};
}

void yk_chunk_hash(struct yk_chunk *c, uint32_t first, unsigned bits)
{
    if (bits == 0)
        return;
    for (uint32_t i = first; i < c->entries; i++)
        c->key[i] = yk_key_hash(c->key[i], bits);
}

/* Counts the lines of the piece before `at`. */
static uint64_t lines_before(struct yk_chunk *c, const struct yk_piece *p, const char *at)
{
    if (c->counted.bytes != p->bytes || c->counted.offset != p->offset || c->counted.at > at) {
        c->counted.bytes = c->counted.at = p->bytes;
        c->counted.offset = p->offset;
        c->counted.lines = 0;
    }
    for (const char *q; (q = memchr(c->counted.at, '\n', (size_t)(at - c->counted.at))) != NULL;
         c->counted.at = q + 1)
        c->counted.lines++;
    return c->counted.lines;
}

bool yk_chunk_bad(struct yk_chunk *c, const struct yk_reading *how, const struct yk_piece *p,
                  const char *at, bool text, struct yk_error *e, const char *fmt, ...)
{
    char what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    bool skip = c->bad < how->skip_bad;
    struct yk_error *to = skip ? &c->worst : e;
    if (text)
        yk_fail(to, YK_DATA, "'%s' line %llu: %s", p->path,
                (unsigned long long)(p->line + lines_before(c, p, at) + 1), what);
    else
        yk_fail(to, YK_DATA, "'%s' byte %llu: %s", p->path,
                (unsigned long long)(p->offset + (uint64_t)(at - p->bytes)), what);
    yk_hint(to, "--skip-bad N leaves out up to N malformed rows");
    c->bad += skip;
    return skip;
}

const char *yk_chunk_token(char out[24], const char *at, const char *end)
{
    size_t n = 0;
    for (; at < end && n < 20 && *at != ' ' && *at != '\t' && *at != '\r' && *at != '\n'; at++)
        out[n++] = (char)(*at > ' ' && *at < 127 ? *at : '?');
    if (n == 20) {
        memcpy(out + n, "...", 3);
        n += 3;
    }
    out[n] = '\0';
    return out;
}

#define ADDRESS(format) &yk_rows_format_##format,
static const struct yk_rows_format *const formats[] = {YK_ROW_FORMATS(ADDRESS)};
#undef ADDRESS
enum { FORMATS = sizeof formats / sizeof *formats };

const struct yk_rows_format *yk_rows_format_find(const char *name)
{
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

const struct yk_rows_format *yk_rows_format_sniff(const uint8_t *head, size_t n)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i]->sniff(head, n))
            return formats[i];
    return NULL;
}

const char *yk_rows_format_names(char out[200], bool written)
{
    int n = 0;
    out[0] = '\0';
    for (int i = 0; i < FORMATS && n < 150; i++)
        if (!written || formats[i]->write != NULL)
            n += snprintf(out + n, (size_t)(150 - n), "%s%s", n > 0 ? ", " : "", formats[i]->name);
    n = n < 150 ? n : 149;
    snprintf(out + n, (size_t)(200 - n), "%scache", n > 0 ? " and " : "");
    return out;
}

bool yk_reading_due(const struct yk_reading *how, double *told)
{
    if (how->say == NULL)
        return false;
    double now = yk_now();
    bool due = *told > 0 && now - *told > (how->say_every > 0 ? how->say_every : 10);
    *told = due || *told <= 0 ? now : *told;
    return due;
}

size_t yk_cut_lines(const char *bytes, size_t n, bool last)
{
    const char *end = last ? NULL : memrchr(bytes, '\n', n);
    return last ? n : end == NULL ? 0 : (size_t)(end - bytes) + 1;
}
