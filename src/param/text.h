/* text.h - writes parameters as text: a line "# name shape" for each, then "name:index:value" for every one that is not zero. */
#ifndef YK_PARAM_TEXT_H
#define YK_PARAM_TEXT_H

#include "base/error.h"
#include "param/param.h"

/* Atomic (see base/file.h). A value has as many digits as its bits need. */
yk_code yk_text_write(const char *path, const struct yk_params *p, struct yk_error *e);

#endif
