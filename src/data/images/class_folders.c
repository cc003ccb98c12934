/* class_folders.c - finds the photos of a folder of class folders.
 *
 *     root/cat/1.jpg    label 0      classes and the files of each are sorted by name, by bytes
 *     root/cat/2.JPEG
 *     root/dog/1.jpg    label 1
 *
 * Names are kept in one buffer and joined to paths when they are needed: a million photos take some
 * 30 MB. Each file is opened once, to check its first bytes and to take its length: a web page
 * among the photos is reported at once, not in the third hour. Names that begin with '.' are
 * ignored.
 * THREADS: open class folders are only read.
 * LIMITS: folders inside class folders are ignored. */
#include "data/images/class_folders.h"

#include "base/buf.h"
#include "data/data.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static bool ends_like(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');
    if (dot == NULL)
        return false;
    for (; *endings != NULL; endings++)
        if (strcasecmp(dot, *endings) == 0)
            return true;
    return false;
}

static bool is_jpeg_name(const char *name)
{
    static const char *const JPEG[] = {".jpg", ".jpeg", NULL};
    return ends_like(name, JPEG);
}

static bool is_picture_name(const char *name)
{
    static const char *const PICTURE[] = {".jpg",  ".jpeg", ".png",  ".gif", ".bmp",
                                          ".webp", ".tif",  ".tiff", NULL};
    return ends_like(name, PICTURE);
}

static bool is_folder(int at, const struct dirent *d)
{
    struct stat st;
    if (d->d_type != DT_UNKNOWN && d->d_type != DT_LNK)
        return d->d_type == DT_DIR;
    return fstatat(at, d->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* Adds a name to the buffer; returns its offset, SIZE_MAX if there is no memory. */
static size_t add_name(struct yk_class_folders *l, const char *name)
{
    size_t n = strlen(name) + 1, at = l->names_len;
    if (n > l->names_room - at) {
        size_t room = l->names_room * 2 + n + 4096;
        char *more = realloc(l->names, room);
        if (more == NULL)
            return SIZE_MAX;
        l->names = more;
        l->names_room = room;
    }
    memcpy(l->names + at, name, n);
    l->names_len += n;
    return at;
}

static int by_name(const void *a, const void *b, void *names)
{
    const char *block = names;
    return strcmp(block + *(const size_t *)a, block + *(const size_t *)b);
}

static yk_code open_folder(const char *path, DIR **out, struct yk_error *e)
{
    *out = opendir(path);
    return *out != NULL ? YK_OK : yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
}

yk_code yk_class_folders_classes(struct yk_class_folders *l, const char *root, struct yk_error *e)
{
    DIR *dir;
    size_t room = 0;
    *l = (struct yk_class_folders){.root = strdup(root)};
    if (l->root == NULL)
        return yk_fail_memory(e, strlen(root) + 1);
    yk_code rc = open_folder(root, &dir, e);
    if (rc != YK_OK)
        goto out_folders;
    for (const struct dirent *d; rc == YK_OK && (d = readdir(dir)) != NULL;) {
        if (d->d_name[0] == '.' || !is_folder(dirfd(dir), d))
            continue;
        if (l->classes == YK_CLASSES_MOST) {
            rc = yk_fail(e, YK_DATA, "'%s' has more than %d class folders", root, YK_CLASSES_MOST);
            break;
        }
        if (l->classes == room) {
            size_t *more = realloc(l->class_at, (room = room * 2 + 16) * sizeof *more);
            if (more == NULL) {
                rc = yk_fail_memory(e, room * sizeof *more);
                break;
            }
            l->class_at = more;
        }
        size_t at = add_name(l, d->d_name);
        if (at == SIZE_MAX)
            rc = yk_fail_memory(e, l->names_room);
        else
            l->class_at[l->classes++] = at;
    }
    closedir(dir);
    if (rc == YK_OK && l->classes > 0)
        qsort_r(l->class_at, l->classes, sizeof *l->class_at, by_name, l->names);
    if (rc == YK_OK)
        return YK_OK;
out_folders:
    yk_class_folders_release(l);
    return rc;
}

static yk_code add_row(struct yk_class_folders *l, size_t name_at, uint16_t label,
                       struct yk_error *e)
{
    if (l->rows == l->rows_room) {
        if (l->rows > UINT32_MAX / 2 - 1024)
            return yk_fail(e, YK_DATA, "'%s' has more than %u files", l->root, l->rows);
        uint32_t room = l->rows_room * 2 + 1024;
        size_t *at = realloc(l->file_at, room * sizeof *at);
        if (at != NULL)
            l->file_at = at;
        uint16_t *to = at != NULL ? realloc(l->label, room * sizeof *to) : NULL;
        if (to == NULL)
            return yk_fail_memory(e, room * (sizeof *at + sizeof *to));
        l->label = to;
        l->rows_room = room;
    }
    l->file_at[l->rows] = name_at;
    l->label[l->rows++] = label;
    return YK_OK;
}

/* Opens a file, checks that it begins like JPEG, and returns its length. */
static yk_code look(int at, const char *folder, const char *name, uint64_t *length,
                    struct yk_error *e)
{
    uint8_t first[3];
    struct stat st = {0};
    ssize_t n = -1;
    yk_code rc = YK_OK;
    /* O_NONBLOCK: a pipe is refused, not waited for. */
    int fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot open '%s/%s'", folder, name);
    else if (!S_ISREG(st.st_mode))
        rc = yk_fail(e, YK_DATA, "'%s/%s' is not a file but a %s; expected a JPEG file", folder,
                     name, S_ISDIR(st.st_mode) ? "folder" : "pipe or device");
    else if ((n = pread(fd, first, sizeof first, 0)) < 0)
        rc = yk_fail_errno(e, YK_DATA, "cannot read '%s/%s'", folder, name);
    else if (n == 0)
        rc = yk_fail(e, YK_DATA, "'%s/%s' is empty; expected a JPEG file", folder, name);
    else if (n < 3 || first[0] != 0xff || first[1] != 0xd8 || first[2] != 0xff)
        rc = yk_fail(e, YK_DATA,
                     "'%s/%s' is not a JPEG file: it starts with %02x %02x, expected ff d8 ff",
                     folder, name, first[0], n > 1 ? first[1] : 0);
    if (rc == YK_OK)
        *length = (uint64_t)st.st_size;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* The files of one class. */
static yk_code read_class(struct yk_class_folders *l, const char *class_name, uint16_t label,
                          struct yk_error *e)
{
    char folder[YK_PATH_MAX];
    DIR *dir;
    uint32_t from = l->rows;
    /* A class without files counts, too: it takes a label. */
    l->xxh3 = XXH3_64bits_withSeed(class_name, strlen(class_name), l->xxh3);
    yk_code rc = yk_path(folder, e, "%s/%s", l->root, class_name);
    if (rc == YK_OK)
        rc = open_folder(folder, &dir, e);
    if (rc != YK_OK)
        return rc;
    for (const struct dirent *d; rc == YK_OK && (d = readdir(dir)) != NULL;) {
        if (d->d_name[0] == '.')
            continue;
        if (!is_jpeg_name(d->d_name)) {
            l->skipped += !is_folder(dirfd(dir), d);
            continue;
        }
        size_t at = add_name(l, d->d_name);
        rc = at != SIZE_MAX ? add_row(l, at, label, e) : yk_fail_memory(e, l->names_room);
    }
    if (rc == YK_OK && l->rows > from)
        qsort_r(l->file_at + from, l->rows - from, sizeof *l->file_at, by_name, l->names);
    for (uint32_t i = from; rc == YK_OK && i < l->rows; i++) {
        const char *name = l->names + l->file_at[i];
        struct {
            uint64_t before, length, name, label;
        } file = {.before = l->xxh3, .name = XXH3_64bits(name, strlen(name)), .label = label};
        rc = look(dirfd(dir), folder, name, &file.length, e);
        l->xxh3 = XXH3_64bits(&file, sizeof file);
    }
    closedir(dir);
    return rc;
}

/* Makes labels numbers of the classes of `like`. */
static yk_code take_classes(struct yk_class_folders *l, const struct yk_class_folders *like,
                            struct yk_error *e)
{
    size_t *at = malloc((like->classes + (size_t)1) * sizeof *at);
    bool fits = at != NULL;
    for (uint32_t i = 0; fits && i < like->classes; i++)
        fits = (at[i] = add_name(l, like->names + like->class_at[i])) != SIZE_MAX;
    if (!fits) {
        free(at);
        return yk_fail_memory(e, l->names_room);
    }
    free(l->class_at);
    l->class_at = at;
    l->classes = like->classes;
    return YK_OK;
}

yk_code yk_class_folders_named(struct yk_class_folders *l, const char *names, struct yk_error *e)
{
    size_t room = 1;
    for (const char *p = names; *p != '\0'; p++)
        room += *p == '/';
    *l = (struct yk_class_folders){.names = strdup(names),
                                   .names_len = strlen(names) + 1,
                                   .class_at = malloc(room * sizeof(size_t))};
    if (room > YK_CLASSES_MOST || l->names == NULL || l->class_at == NULL) {
        yk_class_folders_release(l);
        return room > YK_CLASSES_MOST
                   ? yk_fail(e, YK_DATA, "there are names of more than %d classes", YK_CLASSES_MOST)
                   : yk_fail_memory(e, strlen(names) + room * sizeof(size_t));
    }
    l->names_room = l->names_len;
    for (char *p = l->names; p != NULL;) {
        l->class_at[l->classes++] = (size_t)(p - l->names);
        if ((p = strchr(p, '/')) != NULL)
            *p++ = '\0';
    }
    return YK_OK;
}

char *yk_class_folders_names(const struct yk_class_folders *l)
{
    struct yk_buf out = {0};
    for (uint32_t i = 0; i < l->classes; i++) {
        yk_buf_text(&out, i > 0 ? "/" : "");
        yk_buf_text(&out, l->names + l->class_at[i]);
    }
    if (!out.failed && out.data != NULL)
        return out.data;
    yk_buf_release(&out);
    return NULL;
}

/* Reports a class that `like` does not have. */
static yk_code refuse_class(const char *root, const char *name, const struct yk_class_folders *like,
                            struct yk_error *e)
{
    char known[300] = "";
    if (like->root != NULL)
        return yk_fail(e, YK_DATA, "'%s' has a class '%s' that '%s' does not have", root, name,
                       like->root);
    yk_fail(e, YK_DATA, "'%s' has a class '%s' that was not trained", root, name);
    uint32_t i = 0;
    for (size_t len = 0; i < like->classes; i++, len = strlen(known)) {
        const char *one = like->names + like->class_at[i];
        if (len + strlen(one) + 2 >= sizeof known)
            break;
        snprintf(known + len, sizeof known - len, "%s%s", i > 0 ? ", " : "", one);
    }
    yk_hint(e, "the classes that were trained are %s%s", known, i < like->classes ? ", ..." : "");
    return YK_DATA;
}

yk_code yk_class_folders_read(struct yk_class_folders *l, const char *root,
                              const struct yk_class_folders *like, struct yk_error *e)
{
    yk_code rc = yk_class_folders_classes(l, root, e);
    if (rc != YK_OK)
        return rc;
    for (uint32_t i = 0, k = 0; rc == YK_OK && i < l->classes; i++) {
        char name[NAME_MAX + 1]; /* a copy: the buffer moves when it grows */
        memcpy(name, l->names + l->class_at[i], strlen(l->names + l->class_at[i]) + 1);
        int order = 1;
        while (like != NULL && k < like->classes &&
               (order = strcmp(name, like->names + like->class_at[k])) > 0)
            k++;
        if (like != NULL && (k == like->classes || order != 0))
            rc = refuse_class(root, name, like, e);
        else
            rc = read_class(l, name, (uint16_t)(like != NULL ? k : i), e);
    }
    if (rc == YK_OK && like != NULL)
        rc = take_classes(l, like, e);
    if (rc == YK_OK && l->rows == 0)
        rc = yk_fail(e, YK_DATA,
                     "'%s' has class folders but no JPEG file in them: %llu files are called "
                     "neither .jpg nor .jpeg",
                     root, (unsigned long long)l->skipped);
    if (rc != YK_OK)
        yk_class_folders_release(l);
    return rc;
}

void yk_class_folders_release(struct yk_class_folders *l)
{
    free(l->root);
    free(l->names);
    free(l->class_at);
    free(l->file_at);
    free(l->label);
    *l = (struct yk_class_folders){0};
}

yk_code yk_class_folders_path(const struct yk_class_folders *l, uint32_t row,
                              char path[YK_PATH_MAX], struct yk_error *e)
{
    return yk_path(path, e, "%s/%s/%s", l->root, l->names + l->class_at[l->label[row]],
                   l->names + l->file_at[row]);
}

enum { LOOKED_AT = 1000 }; /* names of a folder that are looked at to find its kind */

static bool has_picture(const char *root, const char *class_name)
{
    char path[YK_PATH_MAX];
    bool found = false;
    DIR *dir = yk_path(path, NULL, "%s/%s", root, class_name) == YK_OK ? opendir(path) : NULL;
    if (dir == NULL)
        return false;
    const struct dirent *d;
    for (int n = 0; !found && n < LOOKED_AT && (d = readdir(dir)) != NULL; n++)
        found = d->d_name[0] != '.' && is_picture_name(d->d_name);
    closedir(dir);
    return found;
}

bool yk_class_folders_sniff(const char *root)
{
    bool found = false;
    DIR *dir = opendir(root);
    if (dir == NULL)
        return false;
    for (const struct dirent *d; !found && (d = readdir(dir)) != NULL;)
        found = d->d_name[0] != '.' && is_folder(dirfd(dir), d) && has_picture(root, d->d_name);
    closedir(dir);
    return found;
}

bool yk_class_folders_stray(const char *root, char deeper[YK_PATH_MAX])
{
    bool here = false, below = false;
    DIR *dir = opendir(root);
    if (dir == NULL)
        return false;
    const struct dirent *d;
    for (int n = 0; !here && !below && n < LOOKED_AT && (d = readdir(dir)) != NULL; n++) {
        if (d->d_name[0] == '.')
            continue;
        if (is_folder(dirfd(dir), d))
            below = yk_path(deeper, NULL, "%s/%s", root, d->d_name) == YK_OK &&
                    yk_class_folders_sniff(deeper);
        else
            here = is_picture_name(d->d_name);
    }
    closedir(dir);
    if (!below)
        deeper[0] = '\0';
    return here || below;
}

/* The smallest share, of about three digits, that holds out one row. */
static double least_share(uint32_t rows)
{
    double unit = 100;
    while (unit < 100.0 * rows)
        unit *= 10;
    return ceil(unit / rows) / unit;
}

yk_code yk_class_folders_hold_out(struct yk_class_folders *l, double share,
                                  struct yk_class_folders *held, struct yk_error *e)
{
    uint32_t left = 0, taken = 0;
    *held = (struct yk_class_folders){0};
    if (yk_held_before(share, l->rows) == 0)
        return yk_fail(
            e, YK_USAGE,
            "--holdout %g of the %u photos of '%s' is less than one; expected at least %g", share,
            l->rows, l->root, least_share(l->rows));
    *held = (struct yk_class_folders){.root = strdup(l->root),
                                      .names = malloc(l->names_len),
                                      .names_len = l->names_len,
                                      .names_room = l->names_len,
                                      .class_at = malloc(l->classes * sizeof *l->class_at),
                                      .classes = l->classes,
                                      .file_at = malloc(l->rows * sizeof *l->file_at),
                                      .label = malloc(l->rows * sizeof *l->label),
                                      .rows_room = l->rows,
                                      .xxh3 = l->xxh3};
    if (held->root == NULL || held->names == NULL || held->class_at == NULL ||
        held->file_at == NULL || held->label == NULL) {
        yk_class_folders_release(held);
        return yk_fail_memory(e, l->names_len + l->rows * sizeof *l->file_at);
    }
    memcpy(held->names, l->names, l->names_len);
    memcpy(held->class_at, l->class_at, l->classes * sizeof *l->class_at);
    for (uint32_t i = 0; i < l->rows; i++) {
        bool out = yk_is_held(share, i);
        size_t *file = out ? &held->file_at[taken] : &l->file_at[left];
        uint16_t *label = out ? &held->label[taken] : &l->label[left];
        *file = l->file_at[i];
        *label = l->label[i];
        taken += out;
        left += !out;
    }
    l->rows = left;
    held->rows = taken;
    return YK_OK;
}
