/* file.c - atomic files, folders and paths; see file.h.
 * LIMITS: a temporary file of a killed process stays until yk_sweep removes it, which finds the
 *         process in its name. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

yk_code yk_path(char out[YK_PATH_MAX], struct yk_error *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, YK_PATH_MAX, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= YK_PATH_MAX)
        return yk_fail(e, YK_USAGE, "path is too long: '%.60s...'", out);
    return YK_OK;
}

/* Does the path name an open descriptor, as /dev/stdout and /proc/self/fd/1 do? It may be open on a
 * regular file, but no file may be renamed over such a name. */
static bool is_descriptor(const char *path)
{
    char name[YK_PATH_MAX], dir[YK_PATH_MAX], target[YK_PATH_MAX];
    struct statfs fs;
    snprintf(name, sizeof name, "%s", path);
    for (int links = 0; links < 8; links++) {
        const char *slash = strrchr(name, '/');
        int n = slash != NULL ? (int)(slash - name + 1) : 0;
        snprintf(dir, sizeof dir, "%.*s", n > 0 ? n : 1, n > 0 ? name : ".");
        if (statfs(dir, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC)
            return true;
        ssize_t length = readlink(name, target, sizeof target - 1);
        if (length < 0)
            return false;
        target[length] = '\0';
        bool whole = target[0] == '/';
        if (snprintf(name, sizeof name, "%.*s%s", whole ? 0 : n, dir, target) >= (int)sizeof name)
            return false;
    }
    return false;
}

/* Creates a new file beside the path. Other users with write access to the folder can guess its
 * name, so an existing file, above all a link, is never opened. */
static yk_code create_temp(struct yk_outfile *o, struct yk_error *e)
{
    enum { TRIES = 100 };
    static atomic_uint serial; /* two writers in one process never share a temporary name */
    for (int i = 0; i < TRIES; i++) {
        unsigned number = atomic_fetch_add(&serial, 1);
        yk_code rc = yk_path(o->temp, e, "%s.tmp.%ld.%u", o->path, (long)getpid(), number);
        if (rc != YK_OK)
            return rc;
        o->fd = open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (o->fd >= 0)
            return YK_OK;
        if (errno != EEXIST)
            break;
    }
    return yk_fail_errno(e, YK_FAILED, "cannot create '%s'", o->path);
}

yk_code yk_outfile_open(struct yk_outfile *o, const char *path, struct yk_error *e)
{
    o->fd = -1;
    o->hasty = false;
    o->temp[0] = '\0';
    yk_code rc = yk_path(o->path, e, "%s", path);
    if (rc != YK_OK)
        return rc;
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) /* otherwise the rename would fail when all work is done */
        return yk_fail(e, YK_USAGE, "cannot write '%s': it is a folder", path);
    if (!there || (S_ISREG(st.st_mode) && !is_descriptor(path)))
        return create_temp(o, e);
    o->fd = open(path, O_WRONLY | O_CLOEXEC); /* a rename would replace /dev/null by a file */
    return o->fd >= 0 ? YK_OK : yk_fail_errno(e, YK_FAILED, "cannot create '%s'", path);
}

yk_code yk_outfile_write(struct yk_outfile *o, const void *bytes, size_t n, struct yk_error *e)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t k = write(o->fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return yk_fail_errno(e, YK_FAILED, "cannot write '%s'", o->path);
        p += k;
        n -= (size_t)k;
    }
    return YK_OK;
}

yk_code yk_outfile_patch(struct yk_outfile *o, const void *bytes, size_t n, uint64_t at,
                         struct yk_error *e)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(o->fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return yk_fail_errno(e, YK_FAILED, "cannot write '%s'", o->path);
        done += (size_t)k;
    }
    return YK_OK;
}

yk_code yk_sync_name(const char *path, struct yk_error *e)
{
    char dir[YK_PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* EINVAL: the file system cannot sync folders. EACCES: the folder may be written but not
     * read. */
    bool done = fd >= 0 ? fsync(fd) == 0 || errno == EINVAL || errno == EROFS : errno == EACCES;
    yk_code rc = done ? YK_OK : yk_fail_errno(e, YK_FAILED, "cannot write '%s'", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

yk_code yk_outfile_commit(struct yk_outfile *o, struct yk_error *e)
{
    yk_code rc = YK_OK;
    /* EINVAL: a pipe or a device has nothing to sync. */
    if (!o->hasty && fsync(o->fd) != 0 && errno != EINVAL && errno != EROFS)
        rc = yk_fail_errno(e, YK_FAILED, "cannot write '%s'", o->path);
    if (close(o->fd) != 0 && rc == YK_OK)
        rc = yk_fail_errno(e, YK_FAILED, "cannot write '%s'", o->path);
    o->fd = -1;
    if (o->temp[0] == '\0')
        return rc;
    if (rc == YK_OK && rename(o->temp, o->path) != 0)
        rc = yk_fail_errno(e, YK_FAILED, "cannot rename '%s' to '%s'", o->temp, o->path);
    if (rc != YK_OK)
        unlink(o->temp);
    else if (!o->hasty) /* syncing the file does not sync its name */
        rc = yk_sync_name(o->path, e);
    return rc;
}

void yk_outfile_abort(struct yk_outfile *o)
{
    if (o->fd < 0)
        return;
    close(o->fd);
    if (o->temp[0] != '\0')
        unlink(o->temp);
    o->fd = -1;
}

static yk_code write_whole(const char *path, const void *bytes, size_t n, bool hasty,
                           struct yk_error *e)
{
    struct yk_outfile o;
    yk_code rc = yk_outfile_open(&o, path, e);
    if (rc != YK_OK)
        return rc;
    o.hasty = hasty;
    rc = yk_outfile_write(&o, bytes, n, e);
    if (rc == YK_OK)
        return yk_outfile_commit(&o, e);
    yk_outfile_abort(&o);
    return rc;
}

yk_code yk_file_write(const char *path, const void *bytes, size_t n, struct yk_error *e)
{
    return write_whole(path, bytes, n, true, e);
}

yk_code yk_file_keep(const char *path, const void *bytes, size_t n, struct yk_error *e)
{
    return write_whole(path, bytes, n, false, e);
}

yk_code yk_file_read(const char *path, size_t max, char **bytes, size_t *n, struct yk_error *e)
{
    yk_code rc = YK_OK;
    /* O_NONBLOCK: opening a pipe must not wait; it is refused below. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = yk_fail(e, YK_DATA, "'%s' is not a regular file", path);
        goto out_fd;
    }
    if ((uint64_t)st.st_size > max) {
        rc = yk_fail(e, YK_DATA, "'%s' is too long: %lld bytes, but at most %zu are allowed", path,
                     (long long)st.st_size, max);
        goto out_fd;
    }
    size_t size = (size_t)st.st_size, got = 0;
    char *data = malloc(size + 1);
    if (data == NULL) {
        rc = yk_fail_memory(e, size + 1);
        goto out_fd;
    }
    while (got < size) {
        ssize_t k = read(fd, data + got, size - got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            rc = yk_fail_errno(e, YK_DATA, "cannot read '%s'", path);
            free(data);
            goto out_fd;
        }
        if (k == 0)
            break; /* the file shrank meanwhile; its parser will notice */
        got += (size_t)k;
    }
    data[got] = '\0';
    *bytes = data;
    *n = got;
out_fd:
    close(fd);
    return rc;
}

yk_code yk_file_regular(const char *path, struct yk_error *e)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) /* opening it reports why stat fails */
        return YK_OK;
    return yk_fail(e, YK_DATA, "'%s' is not a regular file", path);
}

/* The process that owns "<anything>.tmp.<pid>.<n>", or 0 if the name is not of that form. */
static pid_t owner_of(const char *name)
{
    const char *mark = NULL;
    for (const char *p = name; (p = strstr(p, ".tmp.")) != NULL; p++)
        mark = p;
    int pid, end = 0;
    unsigned serial;
    if (mark == NULL || sscanf(mark, ".tmp.%9d.%9u%n", &pid, &serial, &end) != 2 ||
        mark[end] != '\0')
        return 0;
    return pid > 0 ? pid : 0;
}

void yk_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        pid_t pid = owner_of(entry->d_name);
        if (pid != 0 && kill(pid, 0) != 0 && errno == ESRCH)
            unlinkat(dirfd(d), entry->d_name, 0);
    }
    closedir(d);
}

static yk_code make_dirs(const char *path, bool hasty, struct yk_error *e)
{
    char part[YK_PATH_MAX];
    yk_code rc = yk_path(part, e, "%s", path);
    if (rc != YK_OK)
        return rc;
    if (part[0] == '\0')
        return yk_fail(e, YK_USAGE, "the name of a folder is empty");
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char keep = *p;
        *p = '\0';
        bool made = mkdir(part, 0777) == 0;
        if (!made && !(errno == EEXIST && yk_is_dir(part)))
            return yk_fail_errno(e, YK_FAILED, "cannot make the folder '%s'", part);
        if (made && !hasty && (rc = yk_sync_name(part, e)) != YK_OK)
            return rc;
        if (keep == '\0')
            return YK_OK;
        *p = keep;
    }
}

yk_code yk_mkdirs(const char *path, struct yk_error *e)
{
    return make_dirs(path, true, e);
}

yk_code yk_keep_dirs(const char *path, struct yk_error *e)
{
    return make_dirs(path, false, e);
}

bool yk_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool yk_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

yk_code yk_cache_dir(char out[YK_PATH_MAX], struct yk_error *e)
{
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (xdg != NULL && xdg[0] == '/')
        return yk_path(out, e, "%s/yoke", xdg);
    if (home == NULL || home[0] == '\0') {
        yk_fail(e, YK_USAGE,
                "cannot tell where to keep data: neither XDG_CACHE_HOME nor HOME is set");
        yk_hint(e, "set XDG_CACHE_HOME to a folder you may write");
        return YK_USAGE;
    }
    return yk_path(out, e, "%s/.cache/yoke", home);
}
