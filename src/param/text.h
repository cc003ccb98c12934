/* text.h - writes parameters as text: for each view a line "# name shape", then a line
 * "name:index:value" for every value that is not zero. */
#ifndef YK_PARAM_TEXT_H
#define YK_PARAM_TEXT_H

#include "base/error.h"
#include "param/param.h"

/* Writes the file atomically (see base/file.h). Values have enough digits to be read back
 * exactly. */
yk_code yk_text_write(const char *path, const struct yk_params *p, struct yk_error *e);

#endif
