/* json.h - jansson with yoke's habits: bounded files, one-sentence errors, and null for numbers JSON cannot say.
 * THREADS: jansson objects belong to one thread at a time. */
#ifndef YK_BASE_JSON_H
#define YK_BASE_JSON_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/* A JSON object from text or from a file (at most 16 MB; YK_DATA otherwise). The caller json_decrefs it. */
yk_code yk_json_parse(const char *text, size_t n, const char *what, json_t **out,
                      struct yk_error *e);
yk_code yk_json_load(const char *path, json_t **out, struct yk_error *e);

/* Indented, keys in insertion order, atomically (see file.h). */
yk_code yk_json_save(const char *path, const json_t *value, struct yk_error *e);

/* A real, or null where `v` is not finite. */
json_t *yk_json_real(double v);

#endif
