/* cgroup.c - see cgroup.h.
 *
 *     <the cgroup of this process, or one above it>/yoke-testbed-<pid>/n0  n1  n2 ...
 *
 * If one host is slow every host gets a group, because a process that n0 starts on n1 must leave
 * n0's. Version 1 of the interface takes a limit as cpu.cfs_quota_us and lets groups be made
 * anywhere; version 2 takes it as cpu.max, and hands the cpu controller on only from groups that
 * hold no process, so there the nearest one above that already does is used, and at last the root.
 *
 * The janitor is a process that only waits for the end of the others and then removes the folders,
 * since only another process outlives a kill -9. If the janitor is killed too, the next testbed
 * removes them: folders are locked (flock) as long as their owners live.
 * LIMITS: the root group of version 2 keeps the cpu controller switched on for its children;
 * switching it off could hurt others. */
#include "testbed/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIX "yoke-testbed-"
#define NO_CPU "cannot give a host less CPU: "

/* A host waits at most this long for its share: so short that a step of training meets a slow core,
 * not a stop now and then. */
enum { PERIOD_US = 10000, LEAST_QUOTA_US = 1000 };

/* Does the list of `separated` words hold `word`? */
static bool has_word(const char *list, const char *separators, const char *word)
{
    size_t len = strlen(word);
    for (list += strspn(list, separators); *list != '\0'; list += strspn(list, separators)) {
        size_t n = strcspn(list, separators);
        if (n == len && memcmp(list, word, len) == 0)
            return true;
        list += n;
    }
    return false;
}

/* The files of a cgroup hold little, and the kernel wants each of them written by one call. */
static bool put(const char *folder, const char *file, const char *text)
{
    char path[YK_PATH_MAX];
    if (yk_path(path, NULL, "%s/%s", folder, file) != YK_OK)
        return false;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int why = errno;
    close(fd);
    errno = why;
    return ok;
}

static bool file_has_word(const char *folder, const char *file, const char *word)
{
    char path[YK_PATH_MAX], text[512];
    if (yk_path(path, NULL, "%s/%s", folder, file) != YK_OK)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return has_word(text, " \n", word);
}

struct mount {
    bool found, unified;
    char root[YK_PATH_MAX];  /* which cgroup is mounted: "/", or some path in a container */
    char point[YK_PATH_MAX]; /* ... and where */
};

/* Where the cpu controller is mounted. A line of mountinfo: id parent dev root point options
 * [more]... - type source options */
static void find_mount(struct mount *m)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t cap = 0;
    memset(m, 0, sizeof *m);
    while (f != NULL && getline(&line, &cap, f) > 0) {
        char root[YK_PATH_MAX], point[YK_PATH_MAX], type[32], options[512];
        const char *tail = strstr(line, " - ");
        if (tail == NULL || sscanf(tail, " - %31s %*s %511s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2)
            continue;
        bool v1 = strcmp(type, "cgroup") == 0 && has_word(options, ",", "cpu"),
             v2 = strcmp(type, "cgroup2") == 0;
        if (v1 || (v2 && !m->found)) {
            m->found = true;
            m->unified = v2;
            memcpy(m->root, root, sizeof root);
            memcpy(m->point, point, sizeof point);
        }
    }
    free(line);
    if (f != NULL)
        fclose(f);
}

/* The cgroup of this process as a folder below m->point, or m->point itself if it cannot be seen
 * from there. A line of /proc/self/cgroup: id:controllers:path, with no controllers for version
 * 2. */
static void own_group(const struct mount *m, char out[YK_PATH_MAX])
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char *line = NULL;
    size_t cap = 0, skip = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);
    yk_path(out, NULL, "%s", m->point);
    while (f != NULL && getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'),
             *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *path++ = '\0';
        if (m->unified ? controllers[1] != '\0' : !has_word(controllers + 1, ",", "cpu"))
            continue;
        char group[YK_PATH_MAX];
        if (strncmp(path, m->root, skip) == 0 && strcmp(path + skip, "/") != 0 &&
            yk_path(group, NULL, "%s%s", m->point, path + skip) == YK_OK && yk_is_dir(group))
            memcpy(out, group, sizeof group);
    }
    free(line);
    if (f != NULL)
        fclose(f);
}

/* The cgroup to make ours in. */
static yk_code find_place(char out[YK_PATH_MAX], bool *unified, struct yk_error *e)
{
    struct mount m;
    find_mount(&m);
    if (!m.found)
        return yk_fail(e, YK_FAILED, NO_CPU "no cgroups are mounted on this machine");
    *unified = m.unified;
    own_group(&m, out);
    size_t top = strlen(m.point);
    if (m.unified)
        do { /* at least one up, because this process is in its own */
            char *last = strrchr(out + top, '/');
            if (last != NULL)
                *last = '\0';
        } while (strlen(out) > top && !file_has_word(out, "cgroup.subtree_control", "cpu"));
    return YK_OK;
}

/* One try: true if the folder is gone. A cgroup in which something still runs cannot be removed. */
static bool remove_groups(const char *folder)
{
    char path[YK_PATH_MAX];
    for (unsigned i = 0; i < YK_TESTBED_HOSTS; i++)
        if (yk_path(path, NULL, "%s/n%u", folder, i) == YK_OK)
            rmdir(path);
    return rmdir(folder) == 0 || errno == ENOENT;
}

/* Removes the folders of killed testbeds: those of ours that no process has locked. */
static void sweep(const char *place)
{
    DIR *d = opendir(place);
    for (const struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;) {
        char path[YK_PATH_MAX];
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            yk_path(path, NULL, "%s/%s", place, entry->d_name) != YK_OK)
            continue;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_groups(path);
        if (fd >= 0)
            close(fd);
    }
    if (d != NULL)
        closedir(d);
}

/* The janitor's life. It keeps no terminal, no folder and no open file of the caller's but the
 * pipe. */
static _Noreturn void clean_later(const char *folder, int wait_for)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "yoke-janitor");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (chdir("/") != 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        dup2(wait_for, 3) < 0)
        _exit(1);
    close_range(4, ~0u, 0);
    char byte;
    while (read(3, &byte, 1) > 0 || errno == EINTR)
        errno = 0;
    for (int tries = 0; tries < 1000 && !remove_groups(folder); tries++)
        usleep(10000); /* its processes are being killed */
    _exit(0);
}

static yk_code start_janitor(struct yk_cgroups *g, struct yk_error *e)
{
    int pipe_[2];
    if (pipe2(pipe_, O_CLOEXEC) != 0)
        return yk_fail_errno(e, YK_FAILED, "cannot make a pipe");
    g->janitor = fork();
    if (g->janitor == 0) {
        close(pipe_[1]);
        clean_later(g->folder, pipe_[0]);
    }
    close(pipe_[0]);
    if (g->janitor < 0) {
        close(pipe_[1]);
        g->janitor = 0;
        return yk_fail_errno(e, YK_FAILED, "cannot start a process");
    }
    g->alive = pipe_[1];
    return YK_OK;
}

static bool limit(const char *group, bool unified, double cpu)
{
    char text[64];
    double period = cpu * PERIOD_US >= LEAST_QUOTA_US ? PERIOD_US : LEAST_QUOTA_US / cpu;
    if (unified) {
        snprintf(text, sizeof text, "%.0f %.0f", cpu * period, period);
        return put(group, "cpu.max", text);
    }
    snprintf(text, sizeof text, "%.0f", period);
    if (!put(group, "cpu.cfs_period_us", text))
        return false;
    snprintf(text, sizeof text, "%.0f", cpu * period);
    return put(group, "cpu.cfs_quota_us", text);
}

static yk_code make_groups(struct yk_cgroups *g, const struct yk_testbed_options *o,
                           const char *place, bool unified, struct yk_error *e)
{
    if (unified && !file_has_word(place, "cgroup.controllers", "cpu"))
        return yk_fail(e, YK_FAILED, NO_CPU "'%s' has no cpu controller", place);
    if (unified && !file_has_word(place, "cgroup.subtree_control", "cpu") &&
        !put(place, "cgroup.subtree_control", "+cpu"))
        return yk_fail_errno(e, YK_FAILED, NO_CPU "cannot write '%s/cgroup.subtree_control'",
                             place);
    if (mkdir(g->folder, 0755) != 0)
        return yk_fail_errno(e, YK_FAILED, NO_CPU "cannot make the cgroup '%s'", g->folder);
    g->lock = open(g->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (g->lock < 0 || flock(g->lock, LOCK_EX | LOCK_NB) != 0 ||
        (unified && !put(g->folder, "cgroup.subtree_control", "+cpu")))
        return yk_fail_errno(e, YK_FAILED, NO_CPU "cannot use the cgroup '%s'", g->folder);
    for (unsigned i = 0; i < o->hosts; i++) {
        char group[YK_PATH_MAX];
        yk_code rc = yk_path(group, e, "%s/n%u", g->folder, i);
        if (rc != YK_OK)
            return rc;
        if (mkdir(group, 0755) != 0 || (o->cpu[i] > 0 && !limit(group, unified, o->cpu[i])))
            return yk_fail_errno(e, YK_FAILED, NO_CPU "cannot set up the cgroup '%s'", group);
    }
    return YK_OK;
}

yk_code yk_cgroups_open(struct yk_cgroups *g, const struct yk_testbed_options *o,
                        struct yk_error *e)
{
    char place[YK_PATH_MAX];
    bool unified = false, wanted = false;
    memset(g, 0, sizeof *g);
    g->lock = g->alive = -1;
    for (unsigned i = 0; i < o->hosts; i++)
        wanted |= o->cpu[i] > 0;
    yk_code rc = find_place(place, &unified, e);
    if (rc == YK_OK)
        sweep(place);
    if (!wanted)
        return YK_OK;
    if (rc == YK_OK)
        rc = yk_path(g->folder, e, "%s/" PREFIX "%ld", place, (long)getpid());
    if (rc == YK_OK)
        rc = start_janitor(g, e);
    if (rc == YK_OK)
        rc = make_groups(g, o, place, unified, e);
    if (rc != YK_OK)
        yk_cgroups_close(g);
    return rc;
}

void yk_cgroups_close(struct yk_cgroups *g)
{
    if (g->alive >= 0)
        close(g->alive);
    while (g->janitor > 0 && waitpid(g->janitor, NULL, 0) < 0 && errno == EINTR)
        ;
    if (g->lock >= 0)
        close(g->lock);
    g->lock = g->alive = -1;
    g->janitor = 0;
    g->folder[0] = '\0';
}
