/* info.c - describes images for `yoke data info`. A set is opened as training would open it, so the
 * description is of what would be trained on. */
#include "data/info.h"

#include "base/text.h"
#include "data/data.h"
#include "data/images/sets.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLASSES = 32 }; /* classes that are listed if there are more than twice as many */

static void describe_part(const struct yk_dataset *d, struct yk_buf *out)
{
    char size[24];
    yk_size_text((uint64_t)d->rows * ((uint64_t)d->features + 1), size);
    yk_buf_format(out, "  %-5s  %10u rows of %ux%ux%u, %s, xxh3 %016llx\n", d->split, d->rows,
                  d->shape[0], d->shape[1], d->shape[2], size, (unsigned long long)d->xxh3);
}

static void count_labels(const struct yk_dataset *d, uint32_t *count)
{
    for (uint32_t i = 0; i < d->rows; i++)
        count[d->labels[i]]++;
}

static void describe_classes(const struct yk_dataset *train, const struct yk_dataset *test,
                             const uint32_t *in_train, const uint32_t *in_test, struct yk_buf *out)
{
    uint32_t shown = train->classes > 2 * CLASSES ? CLASSES : train->classes;
    yk_buf_format(out, "  class       train   share%s\n",
                  test->rows > 0 ? "        test   share" : "");
    for (uint32_t c = 0; c < shown; c++) {
        yk_buf_format(out, "  %5u  %10u  %4.1f %%", c, in_train[c],
                      100.0 * in_train[c] / train->rows);
        if (test->rows > 0)
            yk_buf_format(out, "  %10u  %4.1f %%", in_test[c], 100.0 * in_test[c] / test->rows);
        yk_buf_text(out, "\n");
    }
    if (shown == train->classes)
        return;
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t c = shown; c < train->classes; c++) {
        least = in_train[c] < least ? in_train[c] : least;
        most = in_train[c] > most ? in_train[c] : most;
    }
    yk_buf_format(out, "  and %u more, of %u to %u training images\n", train->classes - shown,
                  least, most);
}

static yk_code describe_dataset(const char *what, struct yk_buf *out, struct yk_error *e)
{
    const struct yk_set_ops *kind = yk_set_find(what);
    struct yk_dataset train, test;
    char size[24];
    yk_code rc = yk_data_open(what, NULL, &train, &test, e);
    if (rc != YK_OK)
        return rc;
    /* (2, classes) the training part, then the test part */
    uint32_t *count = calloc((size_t)2 * train.classes, sizeof *count);
    if (count == NULL) {
        rc = yk_fail_memory(e, 2 * train.classes * sizeof *count);
        goto out_sets;
    }
    yk_size_text((uint64_t)train.rows * (train.features + 1ull) +
                     (uint64_t)test.rows * (test.features + 1ull),
                 size);
    yk_buf_format(out, "%s: %llu labelled images, %u classes, %s %s\n", train.name,
                  (unsigned long long)train.rows + test.rows, train.classes, size,
                  train.images != NULL ? "of pixels, made when they are needed" : "in memory");
    describe_part(&train, out);
    if (test.rows > 0)
        describe_part(&test, out);
    if (kind != NULL && kind->describe != NULL)
        rc = kind->describe(what, out, e);
    count_labels(&train, count);
    count_labels(&test, count + train.classes);
    describe_classes(&train, &test, count, count + train.classes, out);
    free(count);
out_sets:
    yk_dataset_release(&train);
    yk_dataset_release(&test);
    return rc;
}

yk_code yk_data_info(const char *path, struct yk_buf *out, struct yk_error *e)
{
    const struct yk_set_ops *kind = yk_set_find(path);
    struct stat st;
    bool exists = stat(path, &st) == 0, file = exists && S_ISREG(st.st_mode);
    yk_code rc;
    if (kind != NULL && kind->describe_file != NULL && file)
        rc = kind->describe_file(path, out, e);
    /* also has the best message if there is no such file */
    else if (kind != NULL || !exists || S_ISDIR(st.st_mode))
        rc = describe_dataset(path, out, e);
    else if (!file)
        rc = yk_fail(e, YK_DATA, "'%s' is neither a file nor a folder", path);
    else if (access(path, R_OK) != 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    else
        rc = yk_fail(e, YK_DATA,
                     "'%s' is in no format yoke can read: expected IDX, plain or gzipped, or "
                     "CIFAR-10 records",
                     path);
    return rc == YK_OK && out->failed ? yk_fail_memory(e, out->len) : rc;
}
