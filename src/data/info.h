/* info.h - describes a file or folder of images for `yoke data info`. */
#ifndef YK_DATA_INFO_H
#define YK_DATA_INFO_H

#include "base/buf.h"
#include "base/error.h"

/* Appends a description of `path` to `out`: one file, a folder, or the name of a data set, which is
 * fetched if need be. A file of no known kind is YK_DATA. */
yk_code yk_data_info(const char *path, struct yk_buf *out, struct yk_error *e);

#endif
