/* inputs.h - what a user calls data: which files are meant, what they looked like, and under which name their rows are cached. */
#ifndef YK_DATA_INPUTS_H
#define YK_DATA_INPUTS_H

#include "data/cache.h"

struct yk_inputs {
    char **path; /* (n) */
    uint32_t n;
    struct yk_cache_input *stamp; /* (n) as they are now; only if `regular` */
    uint64_t bytes;               /* of all; 0 if not `regular` */
    bool regular;                 /* all are plain files, which can be read again */
};

/* A file, a comma-separated list of files and folders, a folder, or "-". Nothing is opened; what is missing is YK_DATA. */
yk_code yk_inputs_find(struct yk_inputs *in, const char *what, struct yk_error *e);
void yk_inputs_release(struct yk_inputs *in);

/* Take the stamps. A file that changed a moment ago may change again without its time showing it, so this waits until one would tell. */
yk_code yk_inputs_stamp(struct yk_inputs *in, struct yk_error *e);

/* Where the rows of `what`, read as `how` says, are cached: "<cache folder>/rows/<name>-<hash>.rows". `in` is NULL for what is not a
 * file. */
yk_code yk_inputs_cache(const struct yk_inputs *in, const char *what, const struct yk_reading *how,
                        char path[YK_PATH_MAX], struct yk_error *e);

#endif
