/* inputs.h - the files that a user names as data, their state, and the path of their cache. */
#ifndef YK_DATA_ROWS_INPUTS_H
#define YK_DATA_ROWS_INPUTS_H

#include "data/rows/cache.h"

struct yk_inputs {
    char **path; /* (n) */
    uint32_t n;
    struct yk_cache_input *stamp; /* (n) the state of each file; only if `regular` */
    uint64_t bytes;               /* of all files; 0 if not `regular` */
    bool regular;                 /* all are plain files, which can be read again */
};

/* Finds a file, a comma-separated list of files and folders, a folder, or "-". Opens nothing; a
 * missing file is YK_DATA. */
yk_code yk_inputs_find(struct yk_inputs *in, const char *what, struct yk_error *e);
void yk_inputs_release(struct yk_inputs *in);

/* Fills in `stamp`. A file that changed a moment ago could change again within the same tick of its
 * clock, so this waits until the tick is over. */
yk_code yk_inputs_stamp(struct yk_inputs *in, struct yk_error *e);

/* The path of the cache for the rows of `what`, read as `how` says: "<cache
 * folder>/rows/<name>-<hash>.rows". `in` is NULL if `what` is not a file. */
yk_code yk_inputs_cache(const struct yk_inputs *in, const char *what, const struct yk_reading *how,
                        char path[YK_PATH_MAX], struct yk_error *e);

#endif
