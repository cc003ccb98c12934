/* info.h - tells people what a file or folder holds, and the list of file formats that drives it.
 * A new format is one file that defines a `yk_format_<name>`, and one word in YK_FORMATS. */
#ifndef YK_DATA_INFO_H
#define YK_DATA_INFO_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { YK_SNIFF_BYTES = 64 };

struct yk_format_ops {
    const char *name; /* as --format takes it: "idx" */
    const char *what; /* for messages: "IDX (MNIST and its kin), plain or .gz" */

    /* Could this be a file of the format? `head` is its beginning, inflated if it was gzipped: `n` bytes, fewer than
     * YK_SNIFF_BYTES only if the file is shorter. Must not answer yes to another format's files; allocates nothing. */
    bool (*sniff)(const uint8_t *head, size_t n);

    /* Append a description to `out`, whole lines. Called for files that `sniff` said yes to; a file that turns out to be
     * malformed is YK_DATA. May read the whole file, holds nothing afterwards. */
    yk_code (*describe)(const char *path, struct yk_buf *out, struct yk_error *e);
};

#define YK_FORMATS(X) X(idx)

#define YK_DECLARE_FORMAT(name) extern const struct yk_format_ops yk_format_##name;
YK_FORMATS(YK_DECLARE_FORMAT)
#undef YK_DECLARE_FORMAT

/* Append a description of `path` to `out`: a file in any of the formats, a folder with IDX files, or a data set's name (which
 * is fetched if need be). A file that no format recognises is YK_DATA. */
yk_code yk_data_info(const char *path, struct yk_buf *out, struct yk_error *e);

#endif
