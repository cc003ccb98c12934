/* npz.h - writes parameters as a NumPy .npz archive. Its formats are drawn in npz.c. */
#ifndef YK_PARAM_NPZ_H
#define YK_PARAM_NPZ_H

#include "base/error.h"
#include "param/param.h"

/* Writes one array per view, under the view's name, atomically (see base/file.h). 4 GB and more are
 * YK_USAGE: that is the limit of plain zip files. */
yk_code yk_npz_write(const char *path, const struct yk_params *p, struct yk_error *e);

#endif
