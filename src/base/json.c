/* json.c - see json.h. */
#include "base/json.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 16 << 20, DIGITS = 10 };

yk_code yk_json_parse(const char *text, size_t n, const char *what, json_t **out,
                      struct yk_error *e)
{
    json_error_t why;
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (value == NULL)
        return yk_fail(e, YK_DATA, "'%s' is not valid JSON: line %d, column %d: %s", what, why.line,
                       why.column, why.text);
    if (!json_is_object(value)) {
        json_decref(value);
        return yk_fail(e, YK_DATA, "'%s' is not a JSON object", what);
    }
    *out = value;
    return YK_OK;
}

yk_code yk_json_load(const char *path, json_t **out, struct yk_error *e)
{
    char *text;
    size_t n;
    yk_code rc = yk_file_read(path, MAX_FILE, &text, &n, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_json_parse(text, n, path, out, e);
    free(text);
    return rc;
}

typedef yk_code (*writer)(const char *path, const void *bytes, size_t n, struct yk_error *e);

static yk_code save(const char *path, const json_t *value, writer write, struct yk_error *e)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS));
    if (text == NULL)
        return yk_fail_memory(e, 0);
    size_t n = strlen(text);
    text[n] = '\n'; /* replaces the terminator, since the length is passed along */
    yk_code rc = write(path, text, n + 1, e);
    free(text);
    return rc;
}

yk_code yk_json_save(const char *path, const json_t *value, struct yk_error *e)
{
    return save(path, value, yk_file_write, e);
}

yk_code yk_json_keep(const char *path, const json_t *value, struct yk_error *e)
{
    return save(path, value, yk_file_keep, e);
}

json_t *yk_json_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}
