/* shelf.c - see shelf.h. A cache that nobody has mapped can be removed at any time: it is made again when it is wanted. One that a process
 * of this host has mapped stays readable without its name; only over a network file system it would not, which is what the day is for.
 * When a cache was used is its time of access, set by hand, as most file systems do not keep it. */
#include "data/shelf.h"

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

struct book {
    char *name;
    uint64_t bytes;
    time_t used;
};

/* The folder of `path`; "." has no slash, and no cache is there. */
static const char *folder_of(const char *path, char out[YK_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(out, YK_PATH_MAX, "%.*s", slash == NULL ? 1 : (int)(slash - path),
             slash == NULL ? "." : path);
    return slash == NULL ? path : slash + 1;
}

/* Has the file still a name? Its remover may have been faster. */
static bool is_named(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int yk_shelf_lock(const char *path, struct yk_error *e)
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

void yk_shelf_sweep(const char *path)
{
    char folder[YK_PATH_MAX], prefix[300];
    snprintf(prefix, sizeof prefix, "%.250s.tmp.", folder_of(path, folder));
    DIR *d = opendir(folder);
    for (struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(dirfd(d), entry->d_name, 0);
    if (d != NULL)
        closedir(d);
}

void yk_shelf_used(const char *path)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    utimensat(AT_FDCWD, path, times, 0); /* a wish: others may own it */
}

yk_code yk_shelf_place(char path[YK_PATH_MAX], struct yk_error *e)
{
    char folder[YK_PATH_MAX];
    yk_code rc = yk_cache_dir(folder, e);
    if (rc == YK_OK)
        rc = yk_path(path, e, "%s/rows", folder);
    if (rc == YK_OK)
        rc = yk_mkdirs(path, e);
    return rc == YK_OK ? yk_path(path, e, "%s/rows/unnamed.rows", folder) : rc;
}

uint64_t yk_shelf_room(const char *path)
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
    const struct book *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

/* Not while somebody makes it anew. */
static bool remove_book(int folder, const char *name)
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

void yk_shelf_trim(const char *path, uint64_t most)
{
    char folder[YK_PATH_MAX];
    const char *keep = folder_of(path, folder);
    struct book *book = NULL;
    size_t n = 0, room = 0;
    uint64_t total = 0;
    time_t yesterday = time(NULL) - DAY;
    DIR *d = opendir(folder);
    for (struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;) {
        struct stat st;
        const char *end = strstr(entry->d_name, ".rows");
        if (end == NULL || fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        time_t used = st.st_atime > st.st_mtime ? st.st_atime : st.st_mtime;
        if (strncmp(end, ".rows.tmp.", 10) == 0 && used < yesterday)
            unlinkat(dirfd(d), entry->d_name, 0);
        if (strcmp(end, ".rows") != 0)
            continue;
        total += (uint64_t)st.st_size;
        if (used >= yesterday || strcmp(entry->d_name, keep) == 0)
            continue;
        if (n == room) {
            struct book *more = realloc(book, (2 * room + 16) * sizeof *book);
            if (more == NULL)
                break;
            book = more;
            room = 2 * room + 16;
        }
        book[n].name = strdup(entry->d_name);
        book[n].bytes = (uint64_t)st.st_size;
        book[n].used = used;
        n += book[n].name != NULL;
    }
    if (n > 0)
        qsort(book, n, sizeof *book, by_use);
    for (size_t i = 0; i < n; i++) {
        if (total > most && remove_book(dirfd(d), book[i].name))
            total -= book[i].bytes;
        free(book[i].name);
    }
    free(book);
    if (d != NULL)
        closedir(d);
}
