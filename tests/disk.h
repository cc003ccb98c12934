/* disk.h - a model of the disk below the calls that change files, for tests of crashes.
 *
 * A program that includes this is linked with --wrap for each call of DISK_CALLS (the Makefile has
 * the list), so it sees every change below the folder DISK_ROOT. Changes are made for real and
 * recorded in a *trace*: bytes written, names made, moved or removed, and syncs.
 *
 * From the trace, disk_states derives the possible states of the disk after a power cut behind the
 * first n events. POSIX promises little: bytes are on the disk if their file was synced later,
 * names if their folder was. Every other event is *open*: it may have happened or not, and bytes
 * may be there in part. disk_states tries the subsets of the open events: all of them if they are
 * few, else each prefix, each one missing, each one alone and some at random.
 *
 * A call can also be made to fail: one call with EIO, or, as on a full disk, all calls that need
 * space from one on, after half of its bytes.
 * THREADS: any; the trace keeps the order of the calls. */
#ifndef YK_TESTS_DISK_H
#define YK_TESTS_DISK_H

#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#define DISK_ROOT "run"
enum {
    DISK_EVENTS = 4096,
    DISK_NODES = 2048,
    DISK_FDS = 256,
    DISK_NAME = 96,
    DISK_FEW = 6,
    DISK_SEEN = 1 << 16
};

enum disk_what {
    DISK_NAMED,
    DISK_MOVED,
    DISK_REMOVED,
    DISK_WROTE,
    DISK_CUT,
    DISK_SYNCED,
    DISK_REPORTED
};

struct disk_event {
    enum disk_what what;
    int node;  /* the file whose bytes change, or the folder whose names do */
    int child; /* the node behind the name */
    char name[DISK_NAME], old[DISK_NAME];
    char *bytes;
    size_t at, n;
    long long step;  /* DISK_REPORTED: the run reports that this checkpoint is on the disk */
    unsigned synced; /* the sync that made it permanent; UINT_MAX: none */
};

enum disk_fault { DISK_SOUND, DISK_EIO, DISK_FULL };

static struct {
    pthread_mutex_t lock;
    bool on;
    struct disk_event event[DISK_EVENTS];
    unsigned events;
    struct disk_node {
        bool folder;
        bool there;   /* `path` names it now */
        bool matters; /* a resume depends on it */
        char path[DISK_NAME * 2];
        size_t size;
    } node[DISK_NODES];
    int nodes;
    int open[DISK_FDS]; /* node of a descriptor; -1: none */
    size_t at[DISK_FDS];
    bool append[DISK_FDS];
    enum disk_fault fault;
    unsigned calls;   /* calls so far that may fail */
    unsigned fail_at; /* the call that does */
    bool failed;
    uint64_t seen[DISK_SEEN]; /* hashes of the states examined so far */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the trace ---- */

/* The node that a path names; -1 if none. Node 0 is the current folder. */
static int disk_find(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (int i = disk.nodes - 1; i >= 0; i--)
        if (disk.node[i].there && strlen(disk.node[i].path) == n &&
            memcmp(disk.node[i].path, path, n) == 0)
            return i;
    return -1;
}

static bool disk_ours(const char *path)
{
    size_t n = strlen(DISK_ROOT);
    return disk.on && strncmp(path, DISK_ROOT, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static struct disk_event *disk_note(enum disk_what what, int node)
{
    if (disk.events == DISK_EVENTS) {
        fprintf(stderr, "disk.h: the trace is full\n");
        abort();
    }
    struct disk_event *e = &disk.event[disk.events++];
    *e = (struct disk_event){.what = what, .node = node, .child = -1, .synced = UINT_MAX};
    return e;
}

/* The folder of a path, and the last part of it. */
static int disk_folder(const char *path, char name[DISK_NAME])
{
    char folder[DISK_NAME * 2];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) : 1,
             slash != NULL ? path : ".");
    snprintf(name, DISK_NAME, "%s", slash != NULL ? slash + 1 : path);
    return disk_find(folder);
}

static int disk_add(const char *path, bool folder)
{
    if (disk.nodes == DISK_NODES) {
        fprintf(stderr, "disk.h: too many files\n");
        abort();
    }
    struct disk_node *n = &disk.node[disk.nodes];
    *n = (struct disk_node){.folder = folder, .there = true};
    n->matters = strcmp(path, DISK_ROOT) == 0 || strstr(path, "/checkpoints") != NULL ||
                 strstr(path, "/config.json") != NULL;
    snprintf(n->path, sizeof n->path, "%s", path);
    return disk.nodes++;
}

static void disk_name(const char *path, bool folder)
{
    char name[DISK_NAME];
    int in = disk_folder(path, name), node = disk_add(path, folder);
    struct disk_event *e = disk_note(DISK_NAMED, in);
    e->child = node;
    snprintf(e->name, sizeof e->name, "%s", name);
}

static void disk_bytes(int node, const void *bytes, size_t at, size_t n)
{
    struct disk_event *e = disk_note(DISK_WROTE, node);
    e->at = at;
    e->n = n;
    e->bytes = malloc(n + 1);
    assert_non_null(e->bytes);
    memcpy(e->bytes, bytes, n);
    if (disk.node[node].size < at + n)
        disk.node[node].size = at + n;
}

/* Forgets everything; from now on changes are recorded. */
static void disk_begin(enum disk_fault fault, unsigned fail_at)
{
    for (unsigned i = 0; i < disk.events; i++)
        free(disk.event[i].bytes);
    disk.events = 0;
    disk.nodes = 0;
    disk_add(".", true);
    memset(disk.open, 0xff, sizeof disk.open);
    disk.fault = fault;
    disk.calls = 0;
    disk.fail_at = fail_at;
    disk.failed = false;
    disk.on = true;
}

static void disk_end(void)
{
    disk.on = false;
}

static void disk_report(void *arg, long long step)
{
    (void)arg;
    pthread_mutex_lock(&disk.lock);
    disk_note(DISK_REPORTED, 0)->step = step;
    pthread_mutex_unlock(&disk.lock);
}

/* ---- the calls ---- */

/* Must this call fail? On a full disk, all later calls that need space fail, too. */
static bool disk_fails(bool needs_space)
{
    if (disk.fault == DISK_SOUND)
        return false;
    if (disk.fault == DISK_FULL && disk.failed && needs_space) {
        errno = ENOSPC;
        return true;
    }
    if (disk.fault == DISK_FULL && !needs_space)
        return false;
    if (disk.calls++ != disk.fail_at)
        return false;
    disk.failed = true;
    errno = disk.fault == DISK_EIO ? EIO : ENOSPC;
    return true;
}

#define DISK_CALLS(X)                                                                              \
    X(open)                                                                                        \
    X(close)                                                                                       \
    X(write) X(pwrite) X(fsync) X(ftruncate) X(mkdir) X(rename) X(unlink) X(rmdir) X(symlink)

int __real_open(const char *path, int flags, ...);
int __real_close(int fd);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __real_ftruncate(int fd, off_t n);
int __real_mkdir(const char *path, mode_t mode);
int __real_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __real_rmdir(const char *path);
int __real_symlink(const char *to, const char *path);
int __wrap_open(const char *path, int flags, ...);
int __wrap_close(int fd);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __wrap_fsync(int fd);
int __wrap_ftruncate(int fd, off_t n);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);
int __wrap_rmdir(const char *path);
int __wrap_symlink(const char *to, const char *path);

int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? (mode_t)va_arg(ap, unsigned) : 0;
    va_end(ap);
    pthread_mutex_lock(&disk.lock);
    bool changes = (flags & O_ACCMODE) != O_RDONLY,
         ours = disk_ours(path) || (disk.on && strcmp(path, ".") == 0);
    bool folder = (flags & O_DIRECTORY) != 0;
    int fd = ours && (changes || folder) && disk_fails((flags & O_CREAT) != 0)
                 ? -1
                 : __real_open(path, flags, mode);
    if (fd >= 0 && fd < DISK_FDS && ours && (changes || folder)) {
        int node = disk_find(path);
        if (node < 0) {
            disk_name(path, false);
            node = disk.nodes - 1;
        } else if (flags & O_TRUNC) {
            disk_note(DISK_CUT, node);
            disk.node[node].size = 0;
        }
        disk.open[fd] = node;
        disk.at[fd] = 0;
        disk.append[fd] = (flags & O_APPEND) != 0;
    }
    pthread_mutex_unlock(&disk.lock);
    return fd;
}

/* The node of a descriptor; -1 if none. */
static int disk_node_of(int fd)
{
    return disk.on && fd >= 0 && fd < DISK_FDS ? disk.open[fd] : -1;
}

int __wrap_close(int fd)
{
    pthread_mutex_lock(&disk.lock);
    bool ours = disk_node_of(fd) >= 0,
         fails = ours && !disk.node[disk.open[fd]].folder && disk_fails(false);
    int rc = __real_close(fd);
    if (ours)
        disk.open[fd] = -1;
    if (fails) {
        rc = -1;
        errno = EIO;
    }
    pthread_mutex_unlock(&disk.lock);
    return rc;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    pthread_mutex_lock(&disk.lock);
    int node = disk_node_of(fd);
    bool was_full = disk.failed;
    if (node >= 0 && disk_fails(true)) {
        if (disk.fault == DISK_EIO || was_full || n < 2) {
            pthread_mutex_unlock(&disk.lock);
            return -1;
        }
        n /= 2; /* the disk has room for half of the bytes; the next call fails */
    }
    ssize_t k = __real_write(fd, bytes, n);
    if (node >= 0 && k > 0) {
        size_t at = disk.append[fd] ? disk.node[node].size : disk.at[fd];
        disk_bytes(node, bytes, at, (size_t)k);
        disk.at[fd] = at + (size_t)k;
    }
    pthread_mutex_unlock(&disk.lock);
    return k;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    pthread_mutex_lock(&disk.lock);
    int node = disk_node_of(fd);
    bool was_full = disk.failed;
    if (node >= 0 && disk_fails(true)) {
        if (disk.fault == DISK_EIO || was_full || n < 2) {
            pthread_mutex_unlock(&disk.lock);
            return -1;
        }
        n /= 2;
    }
    ssize_t k = __real_pwrite(fd, bytes, n, at);
    if (node >= 0 && k > 0)
        disk_bytes(node, bytes, (size_t)at, (size_t)k);
    pthread_mutex_unlock(&disk.lock);
    return k;
}

/* Does not call the real fsync: the trace models the disk, and readers use the page cache. */
int __wrap_fsync(int fd)
{
    pthread_mutex_lock(&disk.lock);
    int node = disk_node_of(fd), rc = node >= 0 && disk_fails(false) ? -1 : 0;
    if (node >= 0 && rc == 0) {
        for (unsigned i = 0; i < disk.events; i++)
            if (disk.event[i].node == node && disk.event[i].synced == UINT_MAX)
                disk.event[i].synced = disk.events;
        disk_note(DISK_SYNCED, node);
    }
    pthread_mutex_unlock(&disk.lock);
    return rc;
}

int __wrap_ftruncate(int fd, off_t n)
{
    pthread_mutex_lock(&disk.lock);
    int node = disk_node_of(fd), rc = node >= 0 && disk_fails(false) ? -1 : __real_ftruncate(fd, n);
    if (node >= 0 && rc == 0) {
        disk_note(DISK_CUT, node)->at = (size_t)n;
        disk.node[node].size = (size_t)n;
    }
    pthread_mutex_unlock(&disk.lock);
    return rc;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    pthread_mutex_lock(&disk.lock);
    bool ours = disk_ours(path);
    int rc = ours && disk_fails(true) ? -1 : __real_mkdir(path, mode);
    if (ours && rc == 0)
        disk_name(path, true);
    pthread_mutex_unlock(&disk.lock);
    return rc;
}

int __wrap_rename(const char *from, const char *to)
{
    pthread_mutex_lock(&disk.lock);
    bool ours = disk_ours(from);
    int rc = ours && disk_fails(true) ? -1 : __real_rename(from, to);
    if (ours && rc == 0) {
        char old[DISK_NAME], name[DISK_NAME];
        int node = disk_find(from), over = disk_find(to), in = disk_folder(to, name);
        assert_int_equal(disk_folder(from, old), in); /* the model has no moves between folders */
        struct disk_event *e = disk_note(DISK_MOVED, in);
        e->child = node;
        snprintf(e->name, sizeof e->name, "%s", name);
        snprintf(e->old, sizeof e->old, "%s", old);
        if (over >= 0)
            disk.node[over].there = false;
        snprintf(disk.node[node].path, sizeof disk.node[node].path, "%s", to);
    }
    pthread_mutex_unlock(&disk.lock);
    return rc;
}

static int disk_remove(const char *path, int (*real)(const char *path))
{
    pthread_mutex_lock(&disk.lock);
    bool ours = disk_ours(path) && disk_find(path) >= 0;
    int rc = ours && disk_fails(false) ? -1 : real(path);
    if (ours && rc == 0) {
        char name[DISK_NAME];
        disk.node[disk_find(path)].there = false;
        struct disk_event *e = disk_note(DISK_REMOVED, disk_folder(path, name));
        snprintf(e->name, sizeof e->name, "%s", name);
    }
    pthread_mutex_unlock(&disk.lock);
    return rc;
}

int __wrap_unlink(const char *path)
{
    return disk_remove(path, __real_unlink);
}

int __wrap_rmdir(const char *path)
{
    return disk_remove(path, __real_rmdir);
}

int __wrap_symlink(const char *to, const char *path)
{
    assert_false(disk_ours(path)); /* runs/latest is not below the root */
    return __real_symlink(to, path);
}

/* ---- the possible states ---- */

struct disk_state {
    struct {
        int folder, node;
        const char *name;
    } entry[DISK_NODES];
    unsigned entries;
    struct {
        char *data;
        size_t n, room;
    } file[DISK_NODES];
    long long reported; /* the last checkpoint that the run reported as saved; -1: none */
};

static unsigned disk_entry(const struct disk_state *s, int folder, const char *name)
{
    unsigned i = 0;
    while (i < s->entries && !(s->entry[i].folder == folder && strcmp(s->entry[i].name, name) == 0))
        i++;
    return i;
}

static void disk_put(struct disk_state *s, int folder, const char *name, int node)
{
    unsigned i = disk_entry(s, folder, name);
    s->entry[i].folder = folder;
    s->entry[i].name = name;
    s->entry[i].node = node;
    s->entries += i == s->entries;
}

static void disk_drop(struct disk_state *s, int folder, const char *name)
{
    unsigned i = disk_entry(s, folder, name);
    if (i < s->entries)
        s->entry[i] = s->entry[--s->entries];
}

static void disk_resize(struct disk_state *s, int node, size_t n)
{
    if (n > s->file[node].room) {
        s->file[node].room = 2 * n;
        s->file[node].data = realloc(s->file[node].data, 2 * n);
        assert_non_null(s->file[node].data);
    }
    if (n > s->file[node].n)
        memset(s->file[node].data + s->file[node].n, 0, n - s->file[node].n);
    s->file[node].n = n;
}

/* `part` is 0 for all bytes, 1 for the first half, 2 for the second half only. */
static void disk_apply(struct disk_state *s, const struct disk_event *e, unsigned part)
{
    size_t from = part == 2 ? e->n / 2 : 0, to = part == 1 ? e->n / 2 : e->n;
    switch (e->what) {
    case DISK_NAMED:
        disk_put(s, e->node, e->name, e->child);
        break;
    case DISK_MOVED:
        disk_drop(s, e->node, e->old);
        disk_put(s, e->node, e->name, e->child);
        break;
    case DISK_REMOVED:
        disk_drop(s, e->node, e->name);
        break;
    case DISK_WROTE:
        if (e->at + to > s->file[e->node].n)
            disk_resize(s, e->node, e->at + to);
        memcpy(s->file[e->node].data + e->at + from, e->bytes + from, to - from);
        break;
    case DISK_CUT:
        disk_resize(s, e->node, e->at);
        break;
    case DISK_SYNCED:
        break;
    case DISK_REPORTED:
        s->reported = e->step;
        break;
    }
}

static uint64_t disk_mix(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

/* A hash of everything that matters, independent of its order. */
static uint64_t disk_hash(const struct disk_state *s)
{
    uint64_t sum = (uint64_t)s->reported * 0x9e3779b97f4a7c15u;
    for (unsigned i = 0; i < s->entries; i++) {
        int node = s->entry[i].node;
        if (!disk.node[node].matters)
            continue;
        uint64_t h = disk_mix(0xcbf29ce484222325u + (unsigned)s->entry[i].folder, s->entry[i].name,
                              strlen(s->entry[i].name));
        sum += disk_mix(h, s->file[node].data, s->file[node].n);
    }
    return sum | 1;
}

/* Has this state been examined before? */
static bool disk_known(uint64_t hash)
{
    unsigned i = (unsigned)(hash >> 20) % DISK_SEEN;
    while (disk.seen[i] != 0 && disk.seen[i] != hash)
        i = (i + 1) % DISK_SEEN;
    bool known = disk.seen[i] == hash;
    disk.seen[i] = hash;
    return known;
}

/* Writes all nodes that can be reached below a real folder. */
static void disk_build(const struct disk_state *s, int folder, const char *to)
{
    for (unsigned i = 0; i < s->entries; i++) {
        char path[512];
        int node = s->entry[i].node;
        if (s->entry[i].folder != folder)
            continue;
        snprintf(path, sizeof path, "%s/%s", to, s->entry[i].name);
        if (disk.node[node].folder) {
            assert_int_equal(__real_mkdir(path, 0777), 0);
            disk_build(s, node, path);
            continue;
        }
        int fd = __real_open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
        assert_true(fd >= 0);
        assert_int_equal(__real_write(fd, s->file[node].data, s->file[node].n),
                         (ssize_t)s->file[node].n);
        __real_close(fd);
    }
}

/* Calls look(arg, state) for every new possible state of the disk after the first n events. */
static void disk_states(unsigned n, struct yk_rng *r,
                        void (*look)(void *arg, const struct disk_state *s), void *arg)
{
    static struct disk_state s;
    unsigned open[DISK_EVENTS], opens = 0, ways;
    for (unsigned i = 0; i < n; i++) {
        const struct disk_event *e = &disk.event[i];
        bool matters =
            e->what < DISK_SYNCED && disk.node[e->child >= 0 ? e->child : e->node].matters;
        if (matters && e->synced >= n)
            open[opens++] = i;
    }
    ways = opens <= DISK_FEW ? 1u << opens : 3 * opens + 1 + 24;
    for (unsigned way = 0; way < 3 * ways; way++) {
        unsigned pick = way / 3, next = 0;
        s.entries = 0;
        s.reported = -1;
        for (int i = 0; i < disk.nodes; i++)
            s.file[i].n = 0;
        for (unsigned i = 0; i < n; i++) {
            const struct disk_event *e = &disk.event[i];
            bool is_open = next < opens && open[next] == i,
                 there = e->synced < n || e->what >= DISK_SYNCED;
            unsigned k = next, part = 0;
            next += is_open;
            if (is_open && opens <= DISK_FEW)
                there = pick >> k & 1;
            else if (is_open) /* a beginning, all but one, only one, some */
                there = pick <= opens       ? k < pick
                        : pick <= 2 * opens ? k != pick - opens - 1
                        : pick <= 3 * opens ? k == pick - 2 * opens - 1
                                            : yk_rng_below(r, 2) == 0;
            else if (!there)
                there = yk_rng_below(r, 2) == 0; /* logs and curves */
            if (e->what == DISK_WROTE && e->synced >= n)
                part = way % 3;
            if (there)
                disk_apply(&s, e, part);
        }
        if (!disk_known(disk_hash(&s)))
            look(arg, &s);
    }
}

#endif
