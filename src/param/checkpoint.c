/* checkpoint.c - the checkpoints/ folder of a run; see checkpoint.h.
 *
 * A checkpoint is one safetensors file, "step-%012llu.safetensors", complete from the moment its name exists (file.h). The
 * names alone are the index: there is no list to keep in step with them. A file of a step *after* the one just written is
 * left over from a damaged newest checkpoint that a resume passed over; it does not count towards `keep` and is not touched
 * until the run reaches its step again and replaces it.
 * THREADS: one writer per folder (the run's lock sees to that); readers at any time. */
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

struct list {
    uint64_t *step; /* (n) newest first */
    size_t n;
};

static yk_code step_path(char path[YK_PATH_MAX], const char *dir, uint64_t step, struct yk_error *e)
{
    return yk_path(path, e, "%s/step-%012" PRIu64 SUFFIX, dir, step);
}

/* Only a name that we would have written ourselves is a checkpoint of ours. */
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
static yk_code list_steps(const char *dir, struct list *out, struct yk_error *e)
{
    yk_code rc = YK_OK;
    size_t cap = 0;
    *out = (struct list){0};
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
                *out = (struct list){0};
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
    struct list all;
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
        rc = yk_mkdirs(dir, e);
    if (rc != YK_OK)
        return rc;
    yk_sweep(dir);
    rc = yk_tensors_write(path, tensor, n, meta, metas, e);
    if (rc == YK_OK)
        prune(dir, step, keep > 0 ? keep : 1);
    return rc;
}

/* One pass over the names as they are now. *gone: a file went between the listing and the reading, as a writer prunes. */
static yk_code try_newest(const char *dir, struct yk_tensors *out, char path[YK_PATH_MAX],
                          int *found, bool *gone,
                          void (*damaged)(void *arg, const struct yk_error *why), void *arg,
                          struct yk_error *e)
{
    struct list all;
    *gone = false;
    *found = false;
    yk_code rc = list_steps(dir, &all, e);
    if (rc != YK_OK || all.n == 0)
        return rc;
    for (size_t i = 0; i < all.n; i++) {
        struct yk_error why;
        if ((rc = step_path(path, dir, all.step[i], e)) != YK_OK)
            goto out_list;
        rc = yk_tensors_read(path, out, &why);
        if (rc == YK_OK) {
            *found = true;
            goto out_list;
        }
        if (rc != YK_DATA) { /* no memory is no fault of the file */
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
    struct list all;
    if (list_steps(dir, &all, NULL) != YK_OK)
        return;
    for (size_t i = 0; i < all.n; i++)
        if (all.step[i] > step)
            remove_step(dir, all.step[i]);
    free(all.step);
}
