/* apart.h - refuses an output that would overwrite an input, before the output is opened. */
#ifndef YK_BASE_APART_H
#define YK_BASE_APART_H

#include "base/error.h"

/* YK_USAGE ("'x' is both input and output") if `output` is the file `input`, or a file in the
 * folder `input`, by any name or link. An output that does not exist, a pipe and a device are
 * always fine. "-" means standard input or standard output. */
yk_code yk_apart(const char *input, const char *output, struct yk_error *e);

#endif
