/* record.c - see record.h. Records are written by hand, since jansson writes characters and these
 * are bytes; they are read with jansson. */
#include "launch/record.h"

#include "base/buf.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "\x1eyoke "
enum { MARK_LEN = sizeof MARK - 1 };

bool yk_record_wanted(void)
{
    const char *parent = getenv(YK_PARENT_VARIABLE);
    return parent != NULL && parent[0] != '\0';
}

int yk_record_restarts(void)
{
    const char *text = getenv(YK_RESTARTS_VARIABLE);
    long n = text != NULL && yk_record_wanted() ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 1000000 ? (int)n : 0;
}

/* --- writing --- */

static void add_string(struct yk_buf *b, const char *text)
{
    yk_buf_text(b, "\"");
    for (const unsigned char *p = (const unsigned char *)(text != NULL ? text : ""); *p != '\0';
         p++) {
        if (*p == '\n')
            yk_buf_text(b, "\\n");
        else if (*p < ' ' || *p > '~')
            yk_buf_format(b, "\\u%04x", *p);
        else if (*p == '"' || *p == '\\')
            yk_buf_format(b, "\\%c", *p);
        else
            yk_buf_add(b, p, 1);
    }
    yk_buf_text(b, "\"");
}

/* Writes the whole line in one call, so that lines of two threads do not mix. A failure cannot be
 * reported anywhere. */
static void say(struct yk_buf *b)
{
    yk_buf_text(b, "}\n");
    if (!b->failed && b->len <= YK_RECORD_MAX) {
        fwrite(b->data, 1, b->len, stdout);
        fflush(stdout);
    }
    yk_buf_release(b);
}

static double or_zero(double v)
{
    return isfinite(v) ? v : 0;
}

void yk_record_started(const char *folder, int ranks, double seconds, int64_t step, bool resumable)
{
    struct yk_buf b = {0};
    yk_buf_text(&b, MARK "{\"kind\":\"started\",\"folder\":");
    add_string(&b, folder);
    yk_buf_format(&b, ",\"ranks\":%d,\"seconds\":%.6f,\"step\":%lld,\"resumable\":%s", ranks,
                  or_zero(seconds), (long long)step, resumable ? "true" : "false");
    say(&b);
}

void yk_record_alive(double within)
{
    struct yk_buf b = {0};
    yk_buf_format(&b, MARK "{\"kind\":\"alive\",\"within\":%.3f", or_zero(within));
    say(&b);
}

void yk_record_saved(int64_t step)
{
    struct yk_buf b = {0};
    yk_buf_format(&b, MARK "{\"kind\":\"saved\",\"step\":%lld", (long long)step);
    say(&b);
}

void yk_record_lost(const char *why)
{
    struct yk_buf b = {0};
    yk_buf_text(&b, MARK "{\"kind\":\"lost\",\"why\":");
    add_string(&b, why);
    say(&b);
}

void yk_record_done(int code, int signal, const char *folder, bool resumable, int64_t step,
                    const char *output)
{
    struct yk_buf b = {0};
    yk_buf_format(&b, MARK "{\"kind\":\"done\",\"code\":%d,\"signal\":%d,\"folder\":", code,
                  signal);
    add_string(&b, folder);
    yk_buf_format(&b, ",\"resumable\":%s,\"step\":%lld,\"output\":", resumable ? "true" : "false",
                  (long long)step);
    add_string(&b, output);
    say(&b);
}

/* --- reading --- */

/* jansson returns UTF-8; every character here is a byte, so at most U+00FF. Converts in place,
 * since the text only gets shorter. */
static bool to_bytes(char *text)
{
    unsigned char *to = (unsigned char *)text;
    for (const unsigned char *p = to; *p != '\0'; p++) {
        if (*p >= 0xc4)
            return false;
        if (*p >= 0xc2) {
            *to++ = (unsigned char)(((*p & 3) << 6) | (p[1] & 0x3f));
            p++;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
    return true;
}

static bool get_int(const json_t *o, const char *key, int64_t least, int64_t most, int64_t *out)
{
    const json_t *v = json_object_get(o, key);
    *out = json_integer_value(v);
    return json_is_integer(v) && *out >= least && *out <= most;
}

static bool get_small(const json_t *o, const char *key, int most, int *out)
{
    int64_t v;
    bool ok = get_int(o, key, 0, most, &v);
    *out = ok ? (int)v : 0;
    return ok;
}

static bool get_step(const json_t *o, struct yk_record *r)
{
    return get_int(o, "step", 0, INT64_MAX, &r->step);
}

static bool get_real(const json_t *o, const char *key, double *out)
{
    const json_t *v = json_object_get(o, key);
    *out = json_number_value(v);
    return json_is_number(v) && *out >= 0;
}

static bool get_text(const json_t *o, const char *key, char **out)
{
    const char *text = json_string_value(json_object_get(o, key));
    *out = text != NULL ? strdup(text) : NULL;
    return *out != NULL && to_bytes(*out);
}

static bool get_place(const json_t *o, struct yk_record *r)
{
    const char *text = json_string_value(json_object_get(o, "folder"));
    const json_t *resumable = json_object_get(o, "resumable");
    if (text == NULL || strlen(text) >= sizeof r->folder || !json_is_boolean(resumable))
        return false;
    snprintf(r->folder, sizeof r->folder, "%s", text);
    r->resumable = json_is_true(resumable);
    return to_bytes(r->folder);
}

static bool get_all(const json_t *o, struct yk_record *r)
{
    const char *kind = json_string_value(json_object_get(o, "kind"));
    if (kind == NULL)
        return false;
    if (strcmp(kind, "started") == 0) {
        r->kind = YK_RECORD_STARTED;
        return get_place(o, r) && get_step(o, r) && get_small(o, "ranks", 1 << 20, &r->ranks) &&
               get_real(o, "seconds", &r->seconds);
    }
    if (strcmp(kind, "alive") == 0) {
        r->kind = YK_RECORD_ALIVE;
        return get_real(o, "within", &r->seconds);
    }
    if (strcmp(kind, "saved") == 0) {
        r->kind = YK_RECORD_SAVED;
        return get_step(o, r);
    }
    if (strcmp(kind, "lost") == 0) {
        r->kind = YK_RECORD_LOST;
        return get_text(o, "why", &r->output);
    }
    if (strcmp(kind, "done") == 0) {
        r->kind = YK_RECORD_DONE;
        return get_place(o, r) && get_step(o, r) && get_small(o, "code", 255, &r->code) &&
               get_small(o, "signal", 64, &r->signal) && get_text(o, "output", &r->output);
    }
    return false;
}

bool yk_record_parse(const char *line, size_t n, struct yk_record *out)
{
    *out = (struct yk_record){0};
    /* half a record may stand before a whole one */
    const char *mark = n <= YK_RECORD_MAX ? memrchr(line, MARK[0], n) : NULL;
    size_t left = mark != NULL ? n - (size_t)(mark - line) : 0;
    if (left <= MARK_LEN || memcmp(mark, MARK, MARK_LEN) != 0)
        return false;
    json_t *o = json_loadb(mark + MARK_LEN, left - MARK_LEN, JSON_REJECT_DUPLICATES, NULL);
    bool ok = json_is_object(o) && get_all(o, out);
    json_decref(o);
    if (!ok) {
        free(out->output);
        *out = (struct yk_record){0};
    }
    return ok;
}
