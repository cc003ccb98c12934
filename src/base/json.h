/* json.h - jansson with bounded files, one-sentence errors, and null for numbers outside JSON.
 * THREADS: jansson objects belong to one thread at a time. */
#ifndef YK_BASE_JSON_H
#define YK_BASE_JSON_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/* Reads a JSON object from text or from a file of at most 16 MB; anything else is YK_DATA. `what`
 * names the text in errors. The caller calls json_decref. */
yk_code yk_json_parse(const char *text, size_t n, const char *what, json_t **out,
                      struct yk_error *e);
yk_code yk_json_load(const char *path, json_t **out, struct yk_error *e);

/* Writes a file atomically and hastily (see file.h), indented, with keys in insertion order. */
yk_code yk_json_save(const char *path, const json_t *value, struct yk_error *e);
/* The same, but the file is on the disk when the function returns. */
yk_code yk_json_keep(const char *path, const json_t *value, struct yk_error *e);

/* A real, or null if `v` is not finite. */
json_t *yk_json_real(double v);

#endif
