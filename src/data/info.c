/* info.c - see info.h. A file goes to the format that recognises its first bytes, gunzipped, whatever its name; a folder or a
 * data set's name is opened as training would open it, so what is described is what would be trained on. */
#include "data/info.h"

#include "base/file.h"
#include "data/data.h"
#include "data/fetch.h"
#include "data/sets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define COLLECT_FORMAT(name) &yk_format_##name,
static const struct yk_format_ops *const formats[] = {YK_FORMATS(COLLECT_FORMAT)};
#undef COLLECT_FORMAT

enum {
    N_FORMATS = sizeof formats / sizeof *formats,
    CLASSES = 32
}; /* classes that are listed, where there are many more */

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
    uint32_t *count = calloc((size_t)2 * train.classes,
                             sizeof *count); /* of the training part, of the test part */
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

static yk_code describe_file(const char *path, struct yk_buf *out, struct yk_error *e)
{
    uint8_t head[YK_SNIFF_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (fd < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return yk_fail(e, YK_DATA, "'%s' is not a regular file", path);
    }
    gzFile f = gzdopen(fd, "rb"); /* reads plain files as they are */
    if (f == NULL) {
        close(fd);
        return yk_fail_memory(e, sizeof head);
    }
    int n = gzread(f, head, sizeof head);
    gzclose(f);
    char expected[384] = "";
    for (size_t i = 0, len = 0; i < N_FORMATS; i++, len = strlen(expected)) {
        if (n > 0 && formats[i]->sniff(head, (size_t)n))
            return formats[i]->describe(path, out, e);
        snprintf(expected + len, sizeof expected - len, "%s%s", len > 0 ? ", " : "",
                 formats[i]->what);
    }
    return yk_fail(e, YK_DATA, "'%s' is in no format yoke can read: expected %s", path, expected);
}

yk_code yk_data_info(const char *path, struct yk_buf *out, struct yk_error *e)
{
    struct stat st;
    yk_code rc;
    if (yk_fetch_knows(path) || yk_set_find(path) != NULL || stat(path, &st) != 0 ||
        S_ISDIR(st.st_mode))
        rc = describe_dataset(path, out, e); /* also says best why there is no such file */
    else if (!S_ISREG(st.st_mode))
        rc = yk_fail(e, YK_DATA, "'%s' is neither a file nor a folder", path);
    else
        rc = describe_file(path, out, e);
    return rc == YK_OK && out->failed ? yk_fail_memory(e, out->len) : rc;
}
