/* cache_dir.c - see cache_dir.h. A deleted cache is made again when it is needed. Unlinking a
 * mapped cache is safe locally but not over NFS, so caches used within the last day are kept. The
 * time of use is the time of access, which is set explicitly, as most file systems do not maintain
 * it.
 * THREADS: no state. */
#include "data/rows/cache_dir.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_SECONDS = 3600, DAY = 24 * 3600 };
#define MOST_ROOM 100000000000u

struct cache_file {
    char *name;
    uint64_t bytes;
    time_t used;
};

/* The folder of `path`, to `out`; returns the name in it. Without a slash the folder is ".". */
static const char *folder_of(const char *path, char out[YK_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(out, YK_PATH_MAX, "%.*s", slash == NULL ? 1 : (int)(slash - path),
             slash == NULL ? "." : path);
    return slash == NULL ? path : slash + 1;
}

/* Does the file still have a name? Another process may have just deleted it. */
static bool is_named(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int yk_cache_dir_lock(const char *path, struct yk_error *e)
{
    char name[YK_PATH_MAX];
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    if (yk_path(name, e, "%s.lock", path) != YK_OK)
        return -1;
    for (double end = yk_now() + LOCK_SECONDS;;) {
        int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) {
            yk_fail_errno(e, YK_FAILED, "cannot create '%s'", name);
            return -1;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            if (is_named(fd))
                return fd;
            close(fd);
            continue;
        }
        bool wait = errno == EWOULDBLOCK || errno == EINTR;
        if (!wait)
            yk_fail_errno(e, YK_FAILED, "cannot lock '%s'", name);
        else if (yk_now() > end)
            yk_fail(e, YK_FAILED, "another process has held '%s' for %d minutes", name,
                    LOCK_SECONDS / 60);
        close(fd);
        if (!wait || yk_now() > end)
            return -1;
        nanosleep(&pause, NULL);
    }
}

void yk_cache_dir_sweep(const char *path)
{
    char folder[YK_PATH_MAX], prefix[300];
    snprintf(prefix, sizeof prefix, "%.250s.tmp.", folder_of(path, folder));
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (const struct dirent *d; (d = readdir(dir)) != NULL;)
        if (strncmp(d->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(dirfd(dir), d->d_name, 0);
    closedir(dir);
}

void yk_cache_dir_used(const char *path)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    utimensat(AT_FDCWD, path, times, 0); /* may fail: another user may own it */
}

yk_code yk_cache_dir_unnamed(char path[YK_PATH_MAX], struct yk_error *e)
{
    char folder[YK_PATH_MAX];
    yk_code rc = yk_cache_dir(folder, e);
    if (rc == YK_OK)
        rc = yk_path(path, e, "%s/rows", folder);
    if (rc == YK_OK)
        rc = yk_mkdirs(path, e);
    return rc == YK_OK ? yk_path(path, e, "%s/rows/unnamed.rows", folder) : rc;
}

uint64_t yk_cache_dir_room(const char *path)
{
    char folder[YK_PATH_MAX];
    struct statvfs fs;
    folder_of(path, folder);
    if (statvfs(folder, &fs) != 0)
        return MOST_ROOM;
    uint64_t quarter = (uint64_t)fs.f_blocks * fs.f_frsize / 4;
    return quarter < MOST_ROOM ? quarter : MOST_ROOM;
}

static int by_use(const void *a, const void *b)
{
    const struct cache_file *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

/* Deletes a cache, unless a process is making it anew. */
static bool remove_cache(int folder, const char *name)
{
    char lock[300];
    snprintf(lock, sizeof lock, "%.280s.lock", name);
    int fd = openat(folder, lock, O_RDWR | O_CLOEXEC);
    bool gone = (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) && unlinkat(folder, name, 0) == 0;
    if (gone && fd >= 0)
        unlinkat(folder, lock, 0);
    if (fd >= 0)
        close(fd);
    return gone;
}

/* Removes half-written files that were given up, and lists the caches that may go: all but `keep`
 * and those used during the last day. Returns the bytes of all caches. */
static uint64_t list_caches(DIR *dir, const char *keep, struct cache_file **file, size_t *n)
{
    time_t yesterday = time(NULL) - DAY;
    uint64_t total = 0;
    size_t room = 0;
    for (const struct dirent *d; (d = readdir(dir)) != NULL;) {
        struct stat st;
        const char *end = strstr(d->d_name, ".rows");
        if (end == NULL || fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        time_t used = st.st_atime > st.st_mtime ? st.st_atime : st.st_mtime;
        if (strncmp(end, ".rows.tmp.", 10) == 0 && used < yesterday)
            unlinkat(dirfd(dir), d->d_name, 0);
        if (strcmp(end, ".rows") != 0)
            continue;
        total += (uint64_t)st.st_size;
        if (used >= yesterday || strcmp(d->d_name, keep) == 0)
            continue;
        if (*n == room) {
            struct cache_file *more = realloc(*file, (2 * room + 16) * sizeof *more);
            if (more == NULL)
                break;
            *file = more;
            room = 2 * room + 16;
        }
        struct cache_file *f = &(*file)[*n];
        *f = (struct cache_file){
            .name = strdup(d->d_name), .bytes = (uint64_t)st.st_size, .used = used};
        *n += f->name != NULL;
    }
    return total;
}

void yk_cache_dir_trim(const char *path, uint64_t most)
{
    char folder[YK_PATH_MAX];
    const char *keep = folder_of(path, folder);
    struct cache_file *file = NULL;
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    uint64_t total = list_caches(dir, keep, &file, &n);
    if (n > 0)
        qsort(file, n, sizeof *file, by_use);
    for (size_t i = 0; i < n; i++) {
        if (total > most && remove_cache(dirfd(dir), file[i].name))
            total -= file[i].bytes;
        free(file[i].name);
    }
    free(file);
    closedir(dir);
}
