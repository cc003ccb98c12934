/* stream.h - the bytes of an input in order, inflated if they are gzipped, from a file, a pipe or standard input.
 *
 * A gzipped input is told by its first bytes (1f 8b), whatever its name; members may follow each other.
 * THREADS: a stream belongs to one thread at a time. */
#ifndef YK_DATA_STREAM_H
#define YK_DATA_STREAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct yk_stream;

/* "-" is standard input, which is not closed. A folder is YK_DATA; a named pipe's writer is waited for, a second long. */
yk_code yk_stream_open(struct yk_stream **out, const char *path, struct yk_error *e);
/* The same from memory, which has to outlive the stream; its name is "(memory)". For fuzzers. */
yk_code yk_stream_open_memory(struct yk_stream **out, const void *bytes, size_t n,
                              struct yk_error *e);
void yk_stream_close(struct yk_stream *s); /* NULL is fine */

/* Up to n bytes, fewer only at the end. */
yk_code yk_stream_take(struct yk_stream *s, void *dst, size_t n, size_t *got, struct yk_error *e);

bool yk_stream_is_gzip(const struct yk_stream *s);

/* What a message calls it: its path, or "standard input". */
const char *yk_stream_name(const char *path);

#endif
