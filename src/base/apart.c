/* apart.c - see apart.h.
 *
 * Files are compared by device and inode, so symbolic links, hard links and other spellings of a
 * path make no difference. A folder is walked only if the output exists already. Links inside it
 * are followed, as its readers do, and a file is examined only if it has the name of the output.
 * LIMITS: a folder is walked four levels deep, one more than class folders of photos have. */
#include "base/apart.h"

#include "base/file.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 4 };

static bool look(const char *path, int standard, struct stat *st)
{
    bool there = strcmp(path, "-") == 0 ? fstat(standard, st) == 0 : stat(path, st) == 0;
    return there && S_ISREG(st->st_mode);
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is the file in the folder? `name` is its only name; NULL means that it may have several. */
static bool holds(const char *folder, const struct stat *file, const char *name, int depth)
{
    char path[YK_PATH_MAX];
    struct stat st;
    bool found = false;
    DIR *dir = opendir(folder);
    if (dir == NULL) /* the reader of the folder reports the cause */
        return false;
    for (const struct dirent *d; !found && (d = readdir(dir)) != NULL;) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (d->d_type == DT_REG && name != NULL && strcasecmp(d->d_name, name) != 0)
            continue; /* saves a system call per file: there may be a million photos */
        if (yk_path(path, NULL, "%s/%s", folder, d->d_name) != YK_OK || stat(path, &st) != 0)
            continue;
        found = same(&st, file);
        if (S_ISDIR(st.st_mode) && depth > 1)
            found = holds(path, file, name, depth - 1);
    }
    closedir(dir);
    return found;
}

static bool is_input(const char *input, const char *output, const struct stat *out)
{
    struct stat in;
    if (look(input, STDIN_FILENO, &in))
        return same(&in, out);
    if (strcmp(input, "-") == 0) /* a pipe */
        return false;
    const char *where = strcmp(output, "-") == 0 ? "/proc/self/fd/1" : output;
    char *real = out->st_nlink == 1 ? realpath(where, NULL) : NULL;
    bool found = holds(input, out, real != NULL ? strrchr(real, '/') + 1 : NULL, DEPTH);
    free(real);
    return found;
}

yk_code yk_apart(const char *input, const char *output, struct yk_error *e)
{
    struct stat out;
    if (!look(output, STDOUT_FILENO, &out) || !is_input(input, output, &out))
        return YK_OK;
    yk_fail(e, YK_USAGE, "'%s' is both input and output",
            strcmp(output, "-") != 0  ? output
            : strcmp(input, "-") != 0 ? input
                                      : "standard output");
    yk_hint(e, "write to another name and rename the file afterwards");
    return YK_USAGE;
}
