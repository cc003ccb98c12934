/* cifar.c - reads CIFAR-10's binary version: records of 3073 bytes, one after another.
 *
 *     offset  bytes
 *          0      1  label, 0 .. 9
 *          1   1024  red, 32 rows of 32
 *       1025   1024  green
 *       2049   1024  blue
 *
 * In memory the three colours of a pixel lie side by side, as in all sets. A folder has the
 * training part in data_batch_1.bin, data_batch_2.bin, ... and the test part in test_batch.bin; one
 * file alone is the part that the caller wants. Memory is allocated by the length of the files.
 * THREADS: no state. */
#include "data/images/cifar.h"

#include "base/file.h"
#include "data/images/sets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { PLANE = YK_CIFAR_SIDE * YK_CIFAR_SIDE, FILES_MOST = 99, AT_A_TIME = 64 };

yk_code yk_cifar_parse(const uint8_t *bytes, size_t n, const char *name, uint64_t first,
                       uint8_t *pixels, uint16_t *labels, struct yk_error *e)
{
    size_t records = n / YK_CIFAR_RECORD;
    if (n % YK_CIFAR_RECORD != 0)
        return yk_fail(e, YK_DATA,
                       "'%s' ends in the middle of record %llu; CIFAR-10 records have %d bytes",
                       name, (unsigned long long)(first + records), YK_CIFAR_RECORD);
    for (size_t i = 0; i < records; i++) {
        const uint8_t *r = bytes + i * YK_CIFAR_RECORD;
        uint8_t *to = pixels + i * YK_CIFAR_PIXELS;
        if (r[0] >= YK_CIFAR_CLASSES)
            return yk_fail(e, YK_DATA,
                           "'%s' has label %u in record %llu; labels of CIFAR-10 are 0 to %d", name,
                           r[0], (unsigned long long)(first + i), YK_CIFAR_CLASSES - 1);
        labels[i] = r[0];
        for (int k = 0; k < PLANE; k++) {
            to[3 * k] = r[1 + k];
            to[3 * k + 1] = r[1 + PLANE + k];
            to[3 * k + 2] = r[1 + 2 * PLANE + k];
        }
    }
    return YK_OK;
}

/* Opens a file and counts its records. */
static yk_code open_file(const char *path, int *fd, uint64_t *records, struct yk_error *e)
{
    struct stat st;
    yk_code rc = YK_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (*fd < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    if (fstat(*fd, &st) != 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    else if (!S_ISREG(st.st_mode))
        rc = yk_fail(e, YK_DATA, "'%s' is not a file; expected CIFAR-10 records", path);
    else if (st.st_size == 0 || st.st_size % YK_CIFAR_RECORD != 0)
        rc = yk_fail(
            e, YK_DATA,
            "'%s' is %lld bytes long; CIFAR-10 files are a multiple of %d, the length of a record",
            path, (long long)st.st_size, YK_CIFAR_RECORD);
    else
        *records = (uint64_t)st.st_size / YK_CIFAR_RECORD;
    if (rc != YK_OK)
        close(*fd);
    return rc;
}

static yk_code read_records(int fd, const char *path, uint64_t records, uint8_t *pixels,
                            uint16_t *labels, struct yk_error *e)
{
    static const size_t ROOM = (size_t)AT_A_TIME * YK_CIFAR_RECORD;
    uint8_t *bytes = malloc(ROOM);
    yk_code rc = YK_OK;
    if (bytes == NULL)
        return yk_fail_memory(e, ROOM);
    for (uint64_t at = 0; rc == YK_OK && at < records;) {
        uint64_t some = records - at < AT_A_TIME ? records - at : AT_A_TIME;
        size_t want = some * YK_CIFAR_RECORD, got = 0;
        while (got < want) {
            ssize_t k = read(fd, bytes + got, want - got);
            if (k < 0 && errno == EINTR)
                continue;
            if (k < 0)
                rc = yk_fail_errno(e, YK_DATA, "cannot read '%s'", path);
            else if (k == 0)
                rc = yk_fail(e, YK_DATA, "'%s' became shorter while it was read", path);
            if (k <= 0)
                break;
            got += (size_t)k;
        }
        if (rc == YK_OK)
            rc = yk_cifar_parse(bytes, want, path, at, pixels + at * YK_CIFAR_PIXELS, labels + at,
                                e);
        at += some;
    }
    free(bytes);
    return rc;
}

/* Loads files, one after another, as one part. */
static yk_code load(char (*path)[YK_PATH_MAX], unsigned files, struct yk_dataset *out,
                    struct yk_error *e)
{
    uint64_t rows = 0, n = 0;
    int fd;
    yk_code rc = YK_OK;
    for (unsigned i = 0; rc == YK_OK && i < files; i++) {
        rc = open_file(path[i], &fd, &n, e);
        if (rc != YK_OK)
            return rc;
        close(fd);
        rows += n;
    }
    if (rows > UINT32_MAX)
        return yk_fail(e, YK_DATA,
                       "'%s' and the files beside it have %llu records; at most %u are possible",
                       path[0], (unsigned long long)rows, UINT32_MAX);
    void *room = NULL;
    size_t bytes = rows * YK_CIFAR_PIXELS;
    uint16_t *labels = malloc((rows + 1) * sizeof *labels);
    if (labels == NULL || posix_memalign(&room, 64, bytes + YK_ROW_SLACK) != 0) {
        free(labels);
        return yk_fail_memory(e, bytes);
    }
    uint8_t *pixels = room;
    memset(pixels + bytes, 0, YK_ROW_SLACK);
    uint64_t at = 0;
    for (unsigned i = 0; rc == YK_OK && i < files; i++) {
        rc = open_file(path[i], &fd, &n, e);
        if (rc != YK_OK)
            break;
        if (n > rows - at)
            rc = yk_fail(e, YK_DATA, "'%s' became longer while it was read", path[i]);
        else
            rc = read_records(fd, path[i], n, pixels + at * YK_CIFAR_PIXELS, labels + at, e);
        close(fd);
        at += n;
    }
    if (rc == YK_OK && at < rows)
        rc = yk_fail(e, YK_DATA, "'%s' and the files beside it became shorter while they were read",
                     path[0]);
    if (rc != YK_OK) {
        free(pixels);
        free(labels);
        return rc;
    }
    const uint64_t both[2] = {XXH3_64bits(pixels, bytes),
                              XXH3_64bits(labels, rows * sizeof *labels)};
    *out = (struct yk_dataset){.rows = (uint32_t)rows,
                               .features = YK_CIFAR_PIXELS,
                               .classes = YK_CIFAR_CLASSES,
                               .shape = {YK_CIFAR_SIDE, YK_CIFAR_SIDE, 3},
                               .pixels = pixels,
                               .labels = labels,
                               .scale = 1.0f / 255,
                               .xxh3 = XXH3_64bits(both, sizeof both)};
    return YK_OK;
}

static bool has(const char *folder, const char *name)
{
    char path[YK_PATH_MAX];
    return yk_path(path, NULL, "%s/%s", folder, name) == YK_OK && yk_exists(path);
}

/* A file is recognised by its name or, if that ends in .bin, by its length and first label. */
static bool is(const char *what)
{
    const char *slash = strrchr(what, '/'), *name = slash != NULL ? slash + 1 : what,
               *dot = strrchr(name, '.');
    uint64_t records;
    uint8_t label;
    int fd;
    if (yk_is_dir(what))
        return has(what, "data_batch_1.bin") || has(what, "test_batch.bin");
    if (dot == NULL || strcmp(dot, ".bin") != 0 || !yk_exists(what))
        return false;
    if (strncmp(name, "data_batch", 10) == 0 || strncmp(name, "test_batch", 10) == 0)
        return true;
    if (open_file(what, &fd, &records, NULL) != YK_OK)
        return false;
    bool good = pread(fd, &label, 1, 0) == 1 && label < YK_CIFAR_CLASSES;
    close(fd);
    return good;
}

static yk_code open_cifar(const char *what, const struct yk_imaging *how, struct yk_dataset *train,
                          struct yk_dataset *test, struct yk_error *e)
{
    unsigned files = 0;
    (void)how; /* they are all of one size */
    char(*path)[YK_PATH_MAX] = calloc(FILES_MOST, sizeof *path);
    if (path == NULL)
        return yk_fail_memory(e, FILES_MOST * sizeof *path);
    yk_code rc = YK_OK;
    if (!yk_is_dir(what)) {
        rc = yk_path(path[0], e, "%s", what);
        if (rc == YK_OK)
            rc = load(path, 1, train != NULL ? train : test, e);
        goto out_path;
    }
    while (rc == YK_OK && train != NULL && files < FILES_MOST) {
        rc = yk_path(path[files], e, "%s/data_batch_%u.bin", what, files + 1);
        if (rc != YK_OK || !yk_exists(path[files]))
            break;
        files++;
    }
    if (rc == YK_OK && train != NULL && files == 0)
        rc = yk_fail(e, YK_DATA, "cannot open '%s': no such file", path[0]);
    if (rc == YK_OK && train != NULL)
        rc = load(path, files, train, e);
    if (rc == YK_OK && test != NULL)
        rc = yk_path(path[0], e, "%s/test_batch.bin", what);
    if (rc == YK_OK && test != NULL && (train == NULL || yk_exists(path[0])))
        rc = load(path, 1, test, e);
out_path:
    free(path);
    return rc;
}

const struct yk_set_ops yk_set_cifar = {
    .is = is,
    .open = open_cifar,
};
