/* dataset.c - finds out which kind of images `--data` names (sets.h), and opens them.
 * THREADS: no state; an open dataset is never changed, so any thread may read it. */
#include "data/data.h"

#include "base/apart.h"
#include "base/file.h"
#include "data/fetch.h"
#include "data/images/images.h"
#include "data/images/sets.h"
#include "data/rows/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void name_part(struct yk_dataset *d, const char *name, const char *split)
{
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->split, sizeof d->split, "%s", split);
}

/* The last component of a path, without slashes behind it. */
static void name_of_path(const char *path, char name[64])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    snprintf(name, 64, "%.*s", (int)(end - start), path + start);
}

#define COLLECT(name) &yk_set_##name,
static const struct yk_set_ops *const KINDS[] = {YK_SETS(COLLECT) NULL};
#undef COLLECT

const struct yk_set_ops *yk_set_find(const char *what)
{
    if (yk_fetch_knows(what))
        return &yk_set_idx; /* all sets that can be fetched are IDX files */
    for (const struct yk_set_ops *const *kind = KINDS; *kind != NULL; kind++)
        if ((*kind)->is(what))
            return *kind;
    return NULL;
}

bool yk_data_is_dense(const char *what)
{
    return yk_set_find(what) != NULL;
}

/* `what` is of no kind. YK_OK if no kind can say why. */
static yk_code explain_unknown(const char *what, struct yk_error *e)
{
    struct stat st;
    if (stat(what, &st) != 0) {
        yk_fail_errno(e, YK_DATA, "cannot open '%s'", what);
        yk_hint(e,
                "data is %s, %s, a folder with IDX or CIFAR-10 files or with a folder of JPEG "
                "files for each class, one such file of images, or fake:HxWxC:CLASSES",
                yk_fetch_names[0], yk_fetch_names[1]);
        return YK_DATA;
    }
    for (const struct yk_set_ops *const *kind = KINDS; *kind != NULL; kind++)
        if ((*kind)->meant != NULL && (*kind)->meant(what, e))
            return YK_DATA;
    return YK_OK;
}

/* Either part may be NULL, but not both; they come zeroed. */
static yk_code open_any(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                        struct yk_dataset *test, struct yk_error *e)
{
    static const struct yk_imaging AS_IT_IS;
    const struct yk_set_ops *kind = yk_set_find(what);
    const char *path = what;
    char folder[YK_PATH_MAX], name[64];
    yk_code rc = YK_OK;
    how = how != NULL ? how : &AS_IT_IS;
    name_of_path(what, name);
    if (how->holdout > 0 && (kind == NULL || !kind->holds_out))
        rc = yk_fail(e, YK_USAGE,
                     "--holdout means nothing to '%s': it is for sparse rows and for class folders",
                     what);
    else if (kind == NULL)
        rc = explain_unknown(what, e);
    if (rc == YK_OK && yk_fetch_knows(what)) {
        rc = yk_fetch(what, NULL, NULL, NULL, folder, e);
        path = folder;
    }
    if (rc == YK_OK) /* As IDX if the kind is unknown: its errors say which files are expected. */
        rc = (kind != NULL ? kind : &yk_set_idx)->open(path, how, train, test, e);
    if (rc != YK_OK) {
        yk_dataset_release(train);
        yk_dataset_release(test);
        return rc;
    }
    if (train != NULL)
        name_part(train, name, "train");
    if (test != NULL && test->rows > 0)
        name_part(test, name, "test");
    return YK_OK;
}

yk_code yk_data_apart(const char *what, const char *output, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    struct yk_inputs in;
    struct stat st;
    if (yk_fetch_knows(what))
        return yk_fetch(what, NULL, NULL, NULL, path, NULL) == YK_OK ? yk_apart(path, output, e)
                                                                     : YK_OK;
    const struct yk_set_ops *kind = yk_set_find(what);
    if (kind != NULL && kind->beside != NULL && kind->beside(what, path)) {
        yk_code rc = yk_apart(path, output, e);
        if (rc != YK_OK)
            return rc;
    }
    /* Opening the data will report a missing file. */
    if (stat(what, &st) == 0 || yk_inputs_find(&in, what, NULL) != YK_OK)
        return yk_apart(what, output, e);
    yk_code rc = YK_OK;
    for (uint32_t i = 0; i < in.n && rc == YK_OK; i++)
        rc = yk_apart(in.path[i], output, e);
    yk_inputs_release(&in);
    return rc;
}

yk_code yk_data_open(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                     struct yk_dataset *test, struct yk_error *e)
{
    *train = (struct yk_dataset){0};
    if (test != NULL)
        *test = (struct yk_dataset){0};
    return open_any(what, how, train, test, e);
}

yk_code yk_data_open_test(const char *what, const struct yk_imaging *how, struct yk_dataset *test,
                          struct yk_error *e)
{
    *test = (struct yk_dataset){0};
    return open_any(what, how, NULL, test, e);
}

void yk_dataset_release(struct yk_dataset *d)
{
    if (d == NULL)
        return;
    free(d->pixels);
    free(d->labels);
    free(d->packed.blocks);
    free(d->packed.first);
    free(d->packed.nonzero);
    free(d->class_names);
    yk_images_close(d->images);
    if (!d->borrowed)
        yk_rows_close(d->sparse);
    *d = (struct yk_dataset){0};
}
