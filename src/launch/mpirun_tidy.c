/* mpirun_tidy.c - see mpirun_tidy.h.
 *
 * Processes are signalled through the open /proc/<pid> whose environment was read, never by number,
 * so no other process is hit if a number changes hands in between. A folder appears under its
 * final name only when it is locked already; on the machine that is part of its name an unlocked
 * one is therefore dead at any age. Elsewhere orted makes it and a rank locks it a moment later, so
 * there it must also be old. */
#include "launch/mpirun_tidy.h"

#include "launch/record.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "yoke-mpi."
#define DRAFT "." PREFIX /* a folder that is not locked yet */

enum {
    OLD = 60,         /* seconds after which an unlocked folder of another machine is dead */
    ROUNDS = 250,     /* of killing */
    PAUSE = 20000000, /* ns between them */
    MB = 1 << 20,     /* for the room that Open MPI needs in the folder */
    ROOM_HOST = 64,   /* MB for session files */
    ROOM_RANK = 10,   /* MB for a rank's shared memory: twice its size (mpi_join.c) */
    TRIES = 1000,     /* names for a folder */
};

/* --- folders --- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    remove(path); /* the next sweep tries the rest again */
    return 0;
}

static int remove_inner(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return at->level == 0 ? 0 : remove_one(path, st, type, at);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* This machine's name as a part of a file's name. */
static const char *own_name(char out[65])
{
    memset(out, 0, 65);
    if (gethostname(out, 64) != 0 || out[0] == '\0')
        memcpy(out, "unnamed", 8);
    for (char *p = out; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && *p != '.' && *p != '-')
            *p = '-';
    return out;
}

/* "yoke-mpi.<pid>.<n>.<host>" of the machine we are on? */
static bool is_ours(const char *name)
{
    char own[65];
    int end = 0;
    return sscanf(name, PREFIX "%*[0-9].%*[0-9].%n", &end) == 0 && end > 0 &&
           strcmp(name + end, own_name(own)) == 0;
}

static void sweep(const char *base)
{
    DIR *d = opendir(base);
    if (d == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        char path[YK_PATH_MAX];
        struct stat st;
        const char *name = entry->d_name;
        if ((strncmp(name, PREFIX, sizeof PREFIX - 1) != 0 &&
             strncmp(name, DRAFT, sizeof DRAFT - 1) != 0) ||
            yk_path(path, NULL, "%s/%s", base, name) != YK_OK)
            continue;
        int fd = openat(dirfd(d), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
            (is_ours(name) || time(NULL) - st.st_mtime > OLD) && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_tree(path);
        close(fd);
    }
    closedir(d);
}

static bool has_room(const char *base, size_t ranks)
{
    struct statvfs s;
    unsigned long long need = (ROOM_HOST + (unsigned long long)ranks * ROOM_RANK) * MB;
    return access(base, W_OK | X_OK) == 0 && statvfs(base, &s) == 0 &&
           (unsigned long long)s.f_bavail * s.f_frsize >= need;
}

/* Makes and locks `out`, a new folder. Returns its descriptor, or -1 and errno. */
static int make_folder(const char *base, char out[YK_PATH_MAX])
{
    char draft[YK_PATH_MAX], own[65];
    for (unsigned n = 0; n < TRIES; n++) {
        if (yk_path(draft, NULL, "%s/" DRAFT "%ld.%u.%s", base, (long)getpid(), n, own_name(own)) !=
                YK_OK ||
            yk_path(out, NULL, "%s/" PREFIX "%ld.%u.%s", base, (long)getpid(), n, own) != YK_OK) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (mkdir(draft, 0700) != 0) {
            if (errno == EEXIST)
                continue; /* another process of our number, in another container */
            return -1;
        }
        int fd = open(draft, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
            renameat2(AT_FDCWD, draft, AT_FDCWD, out, RENAME_NOREPLACE) == 0)
            return fd;
        int saved = errno;
        rmdir(draft);
        if (fd >= 0)
            close(fd);
        if (saved != EEXIST) {
            errno = saved;
            return -1;
        }
    }
    errno = EEXIST;
    return -1;
}

/* --- processes --- */

/* Is `entry` (NAME=value) in the environment that `fd` reads? The rank that it names goes to
 * `rank`, -1 if none. */
static bool read_environment(int fd, const char *entry, long *rank)
{
    static const char key[] = "OMPI_COMM_WORLD_RANK=";
    char some[4096], word[YK_PATH_MAX + 32];
    size_t len = 0;
    bool found = false;
    *rank = -1;
    for (ssize_t n; (n = read(fd, some, sizeof some)) > 0;) {
        for (ssize_t i = 0; i < n; i++) {
            if (len < sizeof word)
                word[len++] = some[i];
            if (some[i] != '\0')
                continue;
            if (word[len - 1] == '\0') { /* else it was cut, and is none of ours */
                found |= strcmp(word, entry) == 0;
                if (strncmp(word, key, sizeof key - 1) == 0)
                    *rank = strtol(word + sizeof key - 1, NULL, 10);
            }
            len = 0;
        }
    }
    return found;
}

/* Counts the processes of the run `folder` on this machine, and sends them `signal` unless it is 0;
 * alive[r] becomes true for each that is rank r < n. A zombie has no environment and does not
 * count. */
static size_t visit(const char *folder, int signal, bool *alive, size_t n)
{
    char entry[YK_PATH_MAX + 32];
    size_t found = 0;
    DIR *proc = opendir("/proc");
    snprintf(entry, sizeof entry, "%s=%s", YK_PARENT_VARIABLE, folder);
    if (proc == NULL)
        return 0;
    for (struct dirent *d; (d = readdir(proc)) != NULL;) {
        struct stat st;
        long rank;
        if (!isdigit((unsigned char)d->d_name[0]))
            continue;
        int process = openat(dirfd(proc), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (process < 0)
            continue;
        int fd = fstat(process, &st) == 0 && st.st_uid == geteuid()
                     ? openat(process, "environ", O_RDONLY | O_CLOEXEC)
                     : -1;
        if (fd >= 0 && read_environment(fd, entry, &rank)) {
            found++;
            if (signal != 0)
                pidfd_send_signal(process, signal, NULL, 0);
            if (rank >= 0 && (size_t)rank < n)
                alive[rank] = true;
        }
        if (fd >= 0)
            close(fd);
        close(process);
    }
    closedir(proc);
    return found;
}

static void kill_all(const char *folder)
{
    for (int i = 0; i < ROUNDS && visit(folder, SIGKILL, NULL, 0) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
}

/* --- janitors --- */

/* Forks a child that no signal reaches, from its first moment on. */
static pid_t fork_deaf(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t child = fork();
    if (child != 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

/* Leaves the user's terminal, streams and folder; only `a` and `b` stay open. */
static void withdraw(int a, int b)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, 0);
    prctl(PR_SET_NAME, "yoke-janitor");
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    if (low > 3)
        close_range(3, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0U, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            close(fd); /* whatever happens, a pipeline of the user's must not wait for us */
    if (null > 2)
        close(null);
    if (chdir("/") != 0)
        return; /* then a folder of the user's stays busy for a moment longer */
}

static _Noreturn void watch_parent(const struct yk_tidy *t, int leash)
{
    char byte;
    withdraw(leash, t->hold);
    while (read(leash, &byte, 1) < 0 && errno == EINTR)
        ;
    kill_all(t->folder);
    remove_tree(t->folder);
    _exit(0);
}

/* `mark` is our own copy of the variable by which processes of the run are found; a janitor must
 * not be found. */
static _Noreturn void watch_daemon(const char *folder, char *mark, int daemon, int hold)
{
    memset(mark, 'x', strlen(mark));
    withdraw(daemon, hold);
    struct pollfd p = {.fd = daemon, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    remove_tree(folder);
    _exit(0);
}

/* --- the calls --- */

yk_code yk_tidy_open(struct yk_tidy *t, size_t ranks, struct yk_error *e)
{
    static const char shm[] = "/dev/shm";
    const char *tmp = getenv("TMPDIR");
    if (tmp == NULL || tmp[0] != '/')
        tmp = "/tmp";
    sweep(shm);
    sweep(tmp);
    /* a testbed's, which goes with it; or the user's wish */
    const char *given = getenv("OMPI_MCA_orte_tmpdir_base");
    const char *base = given != NULL && given[0] == '/' && has_room(given, ranks) ? given
                       : has_room(shm, ranks)                                     ? shm
                                                                                  : tmp;
    *t = (struct yk_tidy){0};
    t->hold = make_folder(base, t->folder);
    if (t->hold < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot make a folder in '%s'", base);
    int leash[2];
    if (pipe2(leash, O_CLOEXEC) != 0) {
        yk_fail_errno(e, YK_FAILED, "cannot make a pipe");
        goto out_folder;
    }
    t->janitor = fork_deaf();
    if (t->janitor == 0)
        watch_parent(t, leash[0]);
    close(leash[0]);
    t->leash = leash[1];
    if (t->janitor > 0)
        return YK_OK;
    yk_fail_errno(e, YK_FAILED, "cannot start a process");
    close(t->leash);
out_folder:
    remove_tree(t->folder);
    close(t->hold);
    return YK_FAILED;
}

void yk_tidy_kill(const struct yk_tidy *t)
{
    kill_all(t->folder);
}

void yk_tidy_empty(const struct yk_tidy *t)
{
    nftw(t->folder, remove_inner, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void yk_tidy_ranks(const struct yk_tidy *t, bool *alive, size_t n)
{
    memset(alive, 0, n * sizeof *alive);
    visit(t->folder, 0, alive, n);
}

void yk_tidy_close(struct yk_tidy *t)
{
    kill_all(t->folder);
    remove_tree(t->folder);
    kill(t->janitor, SIGKILL); /* nothing is left for it to do */
    while (waitpid(t->janitor, NULL, 0) < 0 && errno == EINTR)
        ;
    close(t->leash);
    close(t->hold);
}

void yk_tidy_join(void)
{
    char *mark = getenv(YK_PARENT_VARIABLE), folder[YK_PATH_MAX];
    if (mark == NULL || mark[0] != '/' || strstr(mark, "/" PREFIX) == NULL ||
        yk_path(folder, NULL, "%s", mark) != YK_OK)
        return;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return;
    int hold = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (hold < 0)
        return;
    int daemon = -1;
    /* a locked folder has a janitor; with orted gone this rank ends soon */
    if (flock(hold, LOCK_EX | LOCK_NB) == 0 && getppid() != 1)
        daemon = pidfd_open(getppid(), 0);
    if (daemon >= 0) {
        pid_t child = fork_deaf();
        if (child == 0) { /* twice, so that the janitor is no child of the rank's */
            if (fork() == 0)
                watch_daemon(folder, mark, daemon, hold);
            _exit(0);
        }
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        close(daemon);
    }
    close(hold);
}
