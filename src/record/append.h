/* append.h - a file that only grows, by whole records, as metrics.jsonl and TensorBoard events do.
 *
 * Records collect in `buf` and go to the kernel in one write(2) per flush, or at 64 KB. Recording
 * must never stop the training: a failed write is remembered, and flush and close return it. A
 * record that a full disk cut short is removed, so the file always ends with a whole record and
 * later ones can follow.
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
    struct yk_buf buf;      /* waiting records; the caller appends one, then calls yk_append_done */
    off_t size;             /* length of the file: whole records only */
    struct yk_error failed; /* the first failure; its code is YK_OK if there was none */
};

/* Opens a file for appending and creates it if absent. After a failure there is nothing to
 * close. */
yk_code yk_append_open(struct yk_append *a, const char *path, struct yk_error *e);

/* To be called when a record in `buf` is complete. */
void yk_append_done(struct yk_append *a);

/* Both return the first failure so far. */
yk_code yk_append_flush(struct yk_append *a, struct yk_error *e);
yk_code yk_append_close(struct yk_append *a, struct yk_error *e);

#endif
