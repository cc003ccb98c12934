/* npz.h - writes parameters as NumPy's .npz archive. The two formats inside each other are drawn in npz.c. */
#ifndef YK_PARAM_NPZ_H
#define YK_PARAM_NPZ_H

#include "base/error.h"
#include "param/param.h"

/* One array per view, named like it. Atomic (see base/file.h). Views of 4 GB and more are YK_USAGE: zip's plain form ends there. */
yk_code yk_npz_write(const char *path, const struct yk_params *p, struct yk_error *e);

#endif
