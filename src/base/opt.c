/* opt.c - sets, checks, saves and restores options described by a table; see opt.h. The command
 * line and configuration files, which both end in yk_opts_set, are in optread.c.
 * THREADS: options are set by one thread before work starts and only read afterwards. */
#include "base/opt.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *field(const struct yk_opts *o, size_t i)
{
    return (char *)o->values + o->table[i].field;
}

static bool is_text(const struct yk_opt *t)
{
    return t->type == YK_OPT_TEXT || t->type == YK_OPT_CHOICE;
}

static yk_code parse_every(const char *text, struct yk_every *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || errno != 0 || !isfinite(v) || v <= 0)
        return YK_USAGE;
    if (*end == '\0' && v == floor(v))
        *out = (struct yk_every){YK_STEPS, v};
    else if (strcmp(end, "ex") == 0 && v == floor(v))
        *out = (struct yk_every){YK_EXAMPLES, v};
    else if (strcmp(end, "s") == 0)
        *out = (struct yk_every){YK_SECONDS, v};
    else
        return YK_USAGE;
    return YK_OK;
}

bool yk_choice_has(const char *choices, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = choices; p != NULL; p = strchr(p, '|')) {
        p += *p == '|';
        if (n > 0 && n == strcspn(p, "|") && strncmp(p, word, n) == 0)
            return true;
    }
    return false;
}

/* Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours
 * cost one each. */
static unsigned distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MOST || m > MOST)
        return UINT_MAX; /* no option is that long */
    unsigned d[MOST + 1][MOST + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *yk_nearest(const char *typed, const void *words, size_t n, size_t stride)
{
    const char *best = NULL;
    /* one slip in a short word, two in a longer one */
    unsigned least = (unsigned)strlen(typed) / 3 + 2;
    for (size_t i = 0; i < n; i++) {
        const char *word = *(const char *const *)(const void *)((const char *)words + i * stride);
        unsigned d = distance(typed, word);
        if (d < least) {
            least = d;
            best = word;
        }
    }
    return best;
}

/* A text that JSON cannot hold would be missing from config.json, and a resumed run would take the
 * default instead. */
static bool is_utf8(const char *text)
{
    json_t *j = json_string(text);
    bool can = j != NULL;
    json_decref(j);
    return can;
}

static yk_code set_number(const struct yk_opt *t, const char *text, double *out, struct yk_error *e)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || errno == ERANGE || !isfinite(v) ||
        (t->type == YK_OPT_INT && v != floor(v)))
        return yk_fail(e, YK_USAGE, "--%s: '%.60s' is not a %s", t->name, text,
                       t->type == YK_OPT_INT ? "whole number" : "number");
    if (v < t->min || v > t->max)
        return yk_fail(e, YK_USAGE, "--%s: %.60s is out of range: %.10g to %.10g", t->name, text,
                       t->min, t->max);
    *out = v;
    return YK_OK;
}

static yk_code set_value(struct yk_opts *o, size_t i, const char *text, struct yk_error *e)
{
    const struct yk_opt *t = &o->table[i];
    void *at = field(o, i);
    double v = 0;
    yk_code rc;
    switch (t->type) {
    case YK_OPT_FLAG:
        if (!yk_choice_has("true|yes|on|1", text) && !yk_choice_has("false|no|off|0", text))
            return yk_fail(e, YK_USAGE, "--%s: '%.60s' is not true or false", t->name, text);
        *(bool *)at = yk_choice_has("true|yes|on|1", text);
        return YK_OK;
    case YK_OPT_INT:
        rc = set_number(t, text, &v, e);
        if (rc == YK_OK)
            *(int64_t *)at = (int64_t)v;
        return rc;
    case YK_OPT_REAL:
        rc = set_number(t, text, &v, e);
        if (rc == YK_OK)
            *(double *)at = v;
        return rc;
    case YK_OPT_EVERY:
        if (parse_every(text, at) != YK_OK) {
            yk_fail(e, YK_USAGE, "--%s: '%.60s' is not an interval", t->name, text);
            yk_hint(e, "say 100 for steps, 20000ex for examples, 30s for seconds");
            return YK_USAGE;
        }
        return YK_OK;
    case YK_OPT_CHOICE:
        if (!yk_choice_has(t->choices, text))
            return yk_fail(e, YK_USAGE, "--%s: '%.60s' is none of %s", t->name, text, t->choices);
        break;
    case YK_OPT_TEXT:
        if (text[0] == '\0')
            return yk_fail(e, YK_USAGE, "--%s: the value is empty", t->name);
        if (!is_utf8(text))
            return yk_fail(e, YK_USAGE, "--%s: the value is not UTF-8", t->name);
        break;
    }
    char *copy = strdup(text);
    if (copy == NULL)
        return yk_fail_memory(e, strlen(text));
    free(*(char **)at);
    *(char **)at = copy;
    return YK_OK;
}

yk_code yk_opts_init(struct yk_opts *o, const struct yk_opt *table, size_t n, void *values,
                     struct yk_error *e)
{
    *o = (struct yk_opts){.table = table, .n = n, .values = values};
    o->origin = calloc(n, sizeof *o->origin);
    o->given = calloc(n, sizeof *o->given);
    if (o->origin == NULL || o->given == NULL) {
        yk_opts_release(o);
        return yk_fail_memory(e, n);
    }
    yk_code rc = YK_OK;
    for (size_t i = 0; i < n && rc == YK_OK; i++)
        if (table[i].value != NULL)
            rc = set_value(o, i, table[i].value, e);
    if (rc != YK_OK)
        yk_opts_release(o);
    return rc;
}

void yk_opts_release(struct yk_opts *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (is_text(&o->table[i])) {
            free(*(char **)field(o, i));
            *(char **)field(o, i) = NULL;
        }
    free(o->origin);
    free(o->given);
    *o = (struct yk_opts){0};
}

/* The value as text of any length. A text is returned where it is kept, other values in
 * `number`. */
static const char *text_of(const struct yk_opts *o, size_t i, char number[64])
{
    if (is_text(&o->table[i])) {
        const char *kept = *(char *const *)field(o, i);
        return kept != NULL ? kept : "";
    }
    yk_opt_text(o, i, number, 64);
    return number;
}

yk_code yk_opts_copy(struct yk_opts *to, void *values, const struct yk_opts *from,
                     struct yk_error *e)
{
    char number[64];
    yk_code rc = yk_opts_init(to, from->table, from->n, values, e);
    for (size_t i = 0; i < from->n && rc == YK_OK; i++)
        if (from->given[i])
            rc = yk_opts_set(to, from->table[i].name, text_of(from, i, number), from->origin[i], e);
    return rc;
}

static size_t find(const struct yk_opts *o, const char *name)
{
    size_t i = 0;
    while (i < o->n && strcmp(o->table[i].name, name) != 0)
        i++;
    return i;
}

yk_code yk_opts_set(struct yk_opts *o, const char *name, const char *text, enum yk_origin origin,
                    struct yk_error *e)
{
    size_t i = find(o, name);
    if (i == o->n) {
        yk_fail(e, YK_USAGE, "unknown option '--%.60s'", name);
        const char *near = yk_nearest(name, o->table, o->n, sizeof *o->table);
        if (near != NULL)
            yk_hint(e, "did you mean '--%s'?", near);
        return YK_USAGE;
    }
    if (o->given[i] && o->origin[i] > origin)
        return YK_OK; /* a stronger source has spoken */
    yk_code rc = set_value(o, i, text, e);
    if (rc == YK_OK) {
        o->origin[i] = origin;
        o->given[i] = true;
    }
    return rc;
}

const void *yk_opts_field(const struct yk_opts *o, const char *name)
{
    size_t i = find(o, name);
    return i < o->n ? field(o, i) : NULL;
}

bool yk_opts_given(const struct yk_opts *o, const char *name)
{
    size_t i = find(o, name);
    return i < o->n && o->given[i];
}

enum yk_origin yk_opts_origin(const struct yk_opts *o, const char *name)
{
    size_t i = find(o, name);
    return i < o->n && o->given[i] ? o->origin[i] : YK_BUILT_IN;
}

bool yk_opts_typed(const struct yk_opts *o, const char *name)
{
    return yk_opts_origin(o, name) >= YK_CONFIG_FILE;
}

bool yk_opts_any(const struct yk_opts *o, uint32_t flags, bool typed)
{
    for (size_t i = 0; i < o->n; i++)
        if ((o->table[i].flags & flags) && o->given[i] &&
            (!typed || o->origin[i] >= YK_CONFIG_FILE))
            return true;
    return false;
}

void yk_opt_text(const struct yk_opts *o, size_t i, char *out, size_t cap)
{
    static const char *const unit[] = {
        [YK_NEVER] = "", [YK_STEPS] = "", [YK_EXAMPLES] = "ex", [YK_SECONDS] = "s"};
    const struct yk_opt *t = &o->table[i];
    const void *at = field(o, i);
    out[0] = '\0';
    if (!o->given[i] && t->value == NULL)
        return;
    switch (t->type) {
    case YK_OPT_FLAG:
        snprintf(out, cap, "%s", *(const bool *)at ? "true" : "false");
        break;
    case YK_OPT_INT:
        snprintf(out, cap, "%lld", (long long)*(const int64_t *)at);
        break;
    case YK_OPT_REAL:
        snprintf(out, cap, "%.17g", *(const double *)at);
        break;
    case YK_OPT_EVERY:
        snprintf(out, cap, "%.17g%s", ((const struct yk_every *)at)->amount,
                 unit[((const struct yk_every *)at)->unit]);
        break;
    case YK_OPT_TEXT:
    case YK_OPT_CHOICE:
        snprintf(out, cap, "%s", *(char *const *)at ? *(char *const *)at : "");
        break;
    }
}

json_t *yk_opts_json(const struct yk_opts *o)
{
    json_t *out = json_object();
    for (size_t i = 0; i < o->n; i++) {
        const struct yk_opt *t = &o->table[i];
        char number[64];
        const char *text = text_of(o, i, number);
        if ((t->flags & YK_OPT_TRANSIENT) || text[0] == '\0')
            continue;
        json_t *v = t->type == YK_OPT_FLAG   ? json_boolean(*(const bool *)field(o, i))
                    : t->type == YK_OPT_INT  ? json_integer(*(const int64_t *)field(o, i))
                    : t->type == YK_OPT_REAL ? json_real(*(const double *)field(o, i))
                                             : json_string(text);
        json_object_set_new(out, t->name, v);
    }
    return out;
}

yk_code yk_opts_load(struct yk_opts *o, const json_t *saved, const char *what,
                     enum yk_origin origin, uint32_t but_not, struct yk_error *e)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)saved, name, value)
    {
        char number[64] = "";
        const char *text = json_is_string(value) ? json_string_value(value) : number;
        size_t i = find(o, name);
        if (i == o->n || (o->table[i].flags & (YK_OPT_TRANSIENT | but_not)))
            continue; /* written by a newer yoke, or not an option: "model", "version" */
        if (json_is_boolean(value))
            snprintf(number, sizeof number, "%s", json_is_true(value) ? "true" : "false");
        else if (json_is_integer(value))
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
            snprintf(number, sizeof number, "%.17g", json_real_value(value));
        yk_code rc = yk_opts_set(o, name, text, origin, e);
        if (rc != YK_OK)
            return yk_fail(e, YK_DATA, "'%s' holds a bad value for '%s'", what, name);
    }
    return YK_OK;
}
