/* append.h - a file that only grows, by whole records: what metrics.jsonl and TensorBoard events are.
 *
 * Records collect in `buf` and go to the kernel in one write(2) per flush, or when 64 KB have come together. Recording must
 * never stop the training it records: a failure to write is remembered, and returned by flush and close. What a full disk
 * cut short is taken back, so that the file ends with a whole record at all times and later ones may still be added.
 * THREADS: one thread at a time. */
#ifndef YK_RECORD_APPEND_H
#define YK_RECORD_APPEND_H

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"

#include <sys/types.h>

struct yk_append {
    int fd;
    char path[YK_PATH_MAX];
    struct yk_buf buf; /* records that wait; the caller adds to it, then calls yk_append_done */
    off_t size;        /* length of the file; all of it whole records */
    struct yk_error failed; /* the first failure; code YK_OK if there was none */
};

/* Open for appending, creating it if absent. On failure `a` needs no close. */
yk_code yk_append_open(struct yk_append *a, const char *path, struct yk_error *e);

/* A record in `buf` is complete. */
void yk_append_done(struct yk_append *a);

/* Both return the first failure so far. */
yk_code yk_append_flush(struct yk_append *a, struct yk_error *e);
yk_code yk_append_close(struct yk_append *a, struct yk_error *e);

#endif
