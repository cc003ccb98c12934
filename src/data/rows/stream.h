/* stream.h - the bytes of a file, a pipe or standard input in order, inflated if they are gzipped.
 *
 * A gzipped input is told by its first bytes (1f 8b), whatever its name; it may have several
 * members.
 * THREADS: a stream belongs to one thread at a time. */
#ifndef YK_DATA_ROWS_STREAM_H
#define YK_DATA_ROWS_STREAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct yk_stream;

/* "-" is standard input, which is not closed. A folder is YK_DATA. Waits a second for a pipe's
 * writer. */
yk_code yk_stream_open(struct yk_stream **out, const char *path, struct yk_error *e);
/* The same from memory, which has to outlive the stream. For fuzzers; its name is "(memory)". */
yk_code yk_stream_open_memory(struct yk_stream **out, const void *bytes, size_t n,
                              struct yk_error *e);
void yk_stream_close(struct yk_stream *s); /* NULL is fine */

/* Reads n bytes, fewer only at the end. */
yk_code yk_stream_take(struct yk_stream *s, void *dst, size_t n, size_t *got, struct yk_error *e);

bool yk_stream_is_gzip(const struct yk_stream *s);

/* The name for messages: the path, or "standard input". */
const char *yk_stream_name(const char *path);

#endif
