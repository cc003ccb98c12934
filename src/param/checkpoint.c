/* checkpoint.c - the checkpoints/ folder of a run; see checkpoint.h.
 *
 * A checkpoint is one safetensors file, "step-%012llu.safetensors", complete from the moment its
 * name exists (file.h). The names are the only index. A file of a step *after* the one just written
 * is a damaged checkpoint that a resume skipped: it does not count towards `keep`, and stays until
 * the run reaches its step again and replaces it.
 * THREADS: one writer per folder, which the lock of the run ensures; readers at any time. */
#include "param/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".safetensors"
enum { READ_TRIES = 8 };

struct steps {
    uint64_t *step; /* (n) newest first */
    size_t n;
};

static yk_code step_path(char path[YK_PATH_MAX], const char *dir, uint64_t step, struct yk_error *e)
{
    return yk_path(path, e, "%s/step-%012" PRIu64 SUFFIX, dir, step);
}

/* A file is a checkpoint only if its name is exactly the one we would have given it. */
static bool parse_name(const char *name, uint64_t *step)
{
    char again[64];
    if (sscanf(name, "step-%20" SCNu64, step) != 1)
        return false;
    snprintf(again, sizeof again, "step-%012" PRIu64 SUFFIX, *step);
    return strcmp(name, again) == 0;
}

static int newest_first(const void *a, const void *b)
{
    const uint64_t *sa = a, *sb = b;
    return *sa < *sb ? 1 : *sa > *sb ? -1 : 0;
}

/* An absent folder is an empty list. */
static yk_code list_steps(const char *dir, struct steps *out, struct yk_error *e)
{
    yk_code rc = YK_OK;
    size_t cap = 0;
    *out = (struct steps){0};
    DIR *d = opendir(dir);
    if (d == NULL)
        return errno == ENOENT ? YK_OK
                               : yk_fail_errno(e, YK_DATA, "cannot open the folder '%s'", dir);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        uint64_t step;
        if (!parse_name(entry->d_name, &step))
            continue;
        if (out->n == cap) {
            cap = cap ? 2 * cap : 16;
            uint64_t *more = realloc(out->step, cap * sizeof *more);
            if (more == NULL) {
                rc = yk_fail_memory(e, cap * sizeof *more);
                free(out->step);
                *out = (struct steps){0};
                break;
            }
            out->step = more;
        }
        out->step[out->n++] = step;
    }
    closedir(d);
    if (out->n > 1)
        qsort(out->step, out->n, sizeof *out->step, newest_first);
    return rc;
}

static void remove_step(const char *dir, uint64_t step)
{
    char path[YK_PATH_MAX];
    if (step_path(path, dir, step, NULL) == YK_OK)
        unlink(path);
}

static void prune(const char *dir, uint64_t written, unsigned keep)
{
    struct steps all;
    if (list_steps(dir, &all, NULL) != YK_OK)
        return;
    for (size_t i = 0, kept = 0; i < all.n; i++)
        if (all.step[i] <= written && kept++ >= keep)
            remove_step(dir, all.step[i]);
    free(all.step);
}

yk_code yk_checkpoint_write(const char *dir, uint64_t step, const struct yk_tensor *tensor,
                            size_t n, const struct yk_meta *meta, size_t metas, unsigned keep,
                            char path[YK_PATH_MAX], struct yk_error *e)
{
    yk_code rc = step_path(path, dir, step, e);
    if (rc == YK_OK)
        rc = yk_keep_dirs(dir, e);
    if (rc == YK_OK)
        rc = yk_file_regular(path, e);
    if (rc != YK_OK)
        return rc;
    yk_sweep(dir);
    rc = yk_tensors_write(path, tensor, n, meta, metas, e);
    if (rc == YK_OK)
        prune(dir, step, keep > 0 ? keep : 1);
    return rc;
}

/* Makes one pass over the names in the folder. *gone is set if a file disappeared between listing
 * and reading, because a writer removed old ones. */
static yk_code try_newest(const char *dir, struct yk_tensors *out, char path[YK_PATH_MAX],
                          int *found, bool *gone,
                          void (*damaged)(void *arg, const struct yk_error *why), void *arg,
                          struct yk_error *e)
{
    struct steps all;
    *gone = false;
    *found = false;
    yk_code rc = list_steps(dir, &all, e);
    if (rc != YK_OK || all.n == 0)
        return rc;
    for (size_t i = 0; i < all.n; i++) {
        struct yk_error why;
        rc = step_path(path, dir, all.step[i], e);
        if (rc == YK_OK)
            rc = yk_file_regular(path, e); /* no crash leaves a pipe or a folder of this name */
        if (rc != YK_OK)
            goto out_list;
        rc = yk_tensors_read(path, out, &why);
        if (rc == YK_OK) {
            *found = true;
            goto out_list;
        }
        if (rc != YK_DATA) { /* out of memory, for example: the file is not to blame */
            if (e != NULL)
                *e = why;
            goto out_list;
        }
        if (!yk_exists(path))
            *gone = true;
        else if (damaged != NULL)
            damaged(arg, &why);
    }
    rc = yk_fail(e, YK_DATA, "no whole checkpoint in '%s': %zu found, all damaged", dir, all.n);
out_list:
    free(all.step);
    return rc;
}

yk_code yk_checkpoint_newest(const char *dir, struct yk_tensors *out, char path[YK_PATH_MAX],
                             int *found, void (*damaged)(void *arg, const struct yk_error *why),
                             void *arg, struct yk_error *e)
{
    yk_code rc;
    bool gone;
    int tries = 0;
    do
        rc = try_newest(dir, out, path, found, &gone, damaged, arg, e);
    while (rc == YK_DATA && gone && ++tries < READ_TRIES);
    return rc;
}

void yk_checkpoint_drop_after(const char *dir, uint64_t step)
{
    struct steps all;
    if (list_steps(dir, &all, NULL) != YK_OK)
        return;
    for (size_t i = 0; i < all.n; i++)
        if (all.step[i] > step)
            remove_step(dir, all.step[i]);
    free(all.step);
}
