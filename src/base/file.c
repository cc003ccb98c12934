/* file.c - atomic files, folders and paths; see file.h.
 * LIMITS: a temporary file of a killed process stays until somebody sweeps the folder; its name says whose it was. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

yk_code yk_outfile_open(struct yk_outfile *o, const char *path, struct yk_error *e)
{
    static atomic_uint serial; /* two writers in one process never share a temporary name */
    o->fd = -1;
    o->hasty = false;
    yk_code rc = yk_path(o->path, e, "%s", path);
    if (rc == YK_OK)
        rc = yk_path(o->temp, e, "%s.tmp.%ld.%u", path, (long)getpid(),
                     atomic_fetch_add(&serial, 1));
    if (rc != YK_OK)
        return rc;
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) /* the rename would find it out when all the work is done */
        return yk_fail(e, YK_USAGE, "cannot write '%s': it is a folder", path);
    if (there && !S_ISREG(st.st_mode)) {
        o->temp[0] = '\0'; /* renaming a file over /dev/null would be a disaster */
        o->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        o->fd = open(o->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (o->fd < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot create '%s'", path);
    return YK_OK;
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

/* A rename is durable only when the folder that holds the name has reached the disk too. */
static void sync_parent(const char *path)
{
    char dir[YK_PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

yk_code yk_outfile_commit(struct yk_outfile *o, struct yk_error *e)
{
    yk_code rc = YK_OK;
    if (!o->hasty && fsync(o->fd) != 0 && errno != EINVAL &&
        errno != EROFS) /* EINVAL: a pipe or device has nothing to sync */
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
    else if (!o->hasty)
        sync_parent(o->path);
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

yk_code yk_file_write(const char *path, const void *bytes, size_t n, struct yk_error *e)
{
    struct yk_outfile o;
    yk_code rc = yk_outfile_open(&o, path, e);
    if (rc != YK_OK)
        return rc;
    o.hasty = true;
    rc = yk_outfile_write(&o, bytes, n, e);
    if (rc == YK_OK)
        return yk_outfile_commit(&o, e);
    yk_outfile_abort(&o);
    return rc;
}

yk_code yk_file_read(const char *path, size_t max, char **bytes, size_t *n, struct yk_error *e)
{
    yk_code rc = YK_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC |
                            O_NONBLOCK); /* so that a pipe is refused below, not waited for */
    if (fd < 0)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", path);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = yk_fail(e, YK_DATA, "'%s' is not a regular file", path);
        goto out_fd;
    }
    if ((uint64_t)st.st_size > max) {
        rc = yk_fail(e, YK_DATA, "'%s' is too long: %lld bytes where at most %zu make sense", path,
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
            break; /* it shrank while we read; the parser will see what is missing */
        got += (size_t)k;
    }
    data[got] = '\0';
    *bytes = data;
    *n = got;
out_fd:
    close(fd);
    return rc;
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

/* What killed writers left. A disk may be full because of it, so this comes before the next write. */
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

yk_code yk_mkdirs(const char *path, struct yk_error *e)
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
        if (mkdir(part, 0777) != 0 && !(errno == EEXIST && yk_is_dir(part)))
            return yk_fail_errno(e, YK_FAILED, "cannot make the folder '%s'", part);
        if (keep == '\0')
            return YK_OK;
        *p = keep;
    }
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

const char *yk_size_text(uint64_t bytes, char out[24])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    unsigned u = 0;
    while (v >= 999.5 && u < 6) {
        v /= 1000;
        u++;
    }
    snprintf(out, 24, u == 0 ? "%.0f %s" : "%.1f %s", v, unit[u]);
    return out;
}

const char *yk_count_text(uint64_t v, char out[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)v), at = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}
