/* run.c - makes, opens and locks run folders; see run.h.
 *
 * mkdir succeeds for exactly one of several processes that want the same name, so no number is used
 * twice. The lock is an flock on the folder itself; the kernel drops it with the process, so a
 * killed run can be resumed at once. runs/latest is a relative link that is replaced by rename, so
 * it names a run at every moment.
 * LIMITS: flock is per host on some network file systems; there two hosts could train in one
 * folder. */
#include "record/run.h"

#include "base/apart.h"
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RUNS "runs"
#define LATEST RUNS "/latest"

/* The files and folders that runs make in their folder. */
static const struct {
    const char *name;
    bool reread; /* a run that is opened or resumed reads it */
} OWN[] = {
    {"config.json", true},   {"summary.json", true}, {"ranks.json", true},
    {"metrics.jsonl", true}, {"log.txt", true},      {"resources.csv", false},
    {"trace.json", false},   {"checkpoints", false}, {"events", false},
};
enum { N_OWN = sizeof OWN / sizeof OWN[0] };

static yk_code take_lock(struct yk_run *r, struct yk_error *e)
{
    r->lock = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot open the run folder '%s'", r->dir);
    if (flock(r->lock, LOCK_EX | LOCK_NB) == 0)
        return YK_OK;
    yk_code rc = errno == EWOULDBLOCK
                     ? yk_fail(e, YK_USAGE, "another process is training in '%s'", r->dir)
                     : yk_fail_errno(e, YK_FAILED, "cannot lock the run folder '%s'", r->dir);
    yk_run_close(r);
    return rc;
}

/* Makes a text fit for a file name: "models/big net.net" becomes "big-net.net". */
static void file_word(char out[64], const char *text)
{
    const char *slash = strrchr(text, '/');
    snprintf(out, 64, "%s", slash != NULL ? slash + 1 : text);
    for (char *p = out; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && *p != '.' && *p != '_')
            *p = '-';
}

/* The link is a convenience: nothing happens if it cannot be made, or if its name is taken by
 * something that is not a link. */
static void point_latest(const char *name)
{
    char temp[YK_PATH_MAX];
    struct stat st;
    if (lstat(LATEST, &st) == 0 && !S_ISLNK(st.st_mode))
        return;
    /* Run names are unique, so the temporary name is too. */
    if (yk_path(temp, NULL, "%s.tmp.%s", LATEST, name) != YK_OK)
        return;
    unlink(temp); /* left by a killed run of this name whose folder was removed by hand */
    if (symlink(name, temp) == 0 && rename(temp, LATEST) != 0)
        unlink(temp);
}

static yk_code create_numbered(struct yk_run *r, const char *model, const char *mode,
                               struct yk_error *e)
{
    char what[64], how[64], date[16];
    time_t now = time(NULL);
    struct tm local;
    yk_code rc = yk_keep_dirs(RUNS, e);
    if (rc != YK_OK)
        return rc;
    file_word(what, model);
    file_word(how, mode);
    localtime_r(&now, &local);
    strftime(date, sizeof date, "%Y%m%d", &local);
    for (unsigned n = 1;; n++) {
        if ((rc = yk_path(r->dir, e, RUNS "/%s-%s-%s-%u", what, how, date, n)) != YK_OK)
            return rc;
        if (mkdir(r->dir, 0777) == 0)
            return YK_OK;
        if (errno != EEXIST)
            return yk_fail_errno(e, YK_FAILED, "cannot make the run folder '%s'", r->dir);
    }
}

static yk_code create_named(struct yk_run *r, const char *dir, struct yk_error *e)
{
    yk_code rc = yk_path(r->dir, e, "%s", dir);
    if (rc != YK_OK)
        return rc;
    char *slash = strrchr(r->dir, '/');
    if (slash != NULL && slash != r->dir) {
        *slash = '\0';
        rc = yk_keep_dirs(r->dir, e);
        *slash = '/';
        if (rc != YK_OK)
            return rc;
    }
    if (mkdir(r->dir, 0777) == 0)
        return YK_OK;
    if (errno != EEXIST)
        return yk_fail_errno(e, YK_FAILED, "cannot make the run folder '%s'", dir);
    rc = yk_fail(e, YK_USAGE, "--run '%s' exists already; a run folder is never reused", dir);
    yk_hint(e, "'--resume %s' continues the run in it; another --run starts a new one", dir);
    return rc;
}

/* Removes trailing slashes, which would hide a link and the last part of the path. */
static yk_code tidy(char out[YK_PATH_MAX], const char *dir, struct yk_error *e)
{
    yk_code rc = yk_path(out, e, "%s", dir);
    if (rc != YK_OK)
        return rc;
    for (size_t n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
        out[n - 1] = '\0';
    return out[0] != '\0' ? YK_OK : yk_fail(e, YK_USAGE, "the name of the run folder is empty");
}

yk_code yk_run_create(struct yk_run *r, const char *dir, const char *model, const char *mode,
                      struct yk_error *e)
{
    char name[YK_PATH_MAX];
    *r = (struct yk_run){.lock = -1};
    yk_code rc = dir != NULL ? tidy(name, dir, e) : YK_OK;
    if (rc == YK_OK)
        rc = dir != NULL ? create_named(r, name, e) : create_numbered(r, model, mode, e);
    if (rc != YK_OK)
        return rc;
    if ((rc = yk_sync_name(r->dir, e)) != YK_OK || (rc = take_lock(r, e)) != YK_OK) {
        rmdir(r->dir);
        return rc;
    }
    if (dir == NULL)
        point_latest(r->dir + strlen(RUNS "/"));
    return YK_OK;
}

/* The folder behind a link such as runs/latest, which may point elsewhere later. */
static yk_code follow(char out[YK_PATH_MAX], const char *dir, struct yk_error *e)
{
    char target[YK_PATH_MAX];
    ssize_t n = readlink(dir, target, sizeof target - 1);
    if (n < 0)
        return yk_path(out, e, "%s", dir);
    target[n] = '\0';
    const char *slash = strrchr(dir, '/');
    int parent = target[0] == '/' || slash == NULL ? 0 : (int)(slash + 1 - dir);
    return yk_path(out, e, "%.*s%s", parent, dir, target);
}

yk_code yk_run_open(struct yk_run *r, const char *dir, bool train, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    *r = (struct yk_run){.lock = -1};
    yk_code rc = tidy(path, dir, e);
    if (rc == YK_OK)
        rc = follow(r->dir, path, e);
    if (rc == YK_OK)
        rc = yk_run_path(r, "config.json", path, e);
    if (rc != YK_OK)
        return rc;
    if (!yk_is_dir(r->dir))
        return yk_fail(e, YK_DATA, "there is no run folder '%s'", dir);
    if (!yk_exists(path))
        return yk_fail(e, YK_DATA, "'%s' is not a run folder: it has no config.json", dir);
    for (size_t i = 0; rc == YK_OK && i < N_OWN; i++) {
        rc = yk_run_path(r, OWN[i].name, path, e);
        if (rc == YK_OK && OWN[i].reread)
            rc = yk_file_regular(path, e);
    }
    if (rc == YK_OK && train)
        rc = take_lock(r, e);
    if (rc == YK_OK && train)
        yk_sweep(r->dir); /* files that a killed start was writing */
    return rc;
}

void yk_run_close(struct yk_run *r)
{
    /* A zeroed struct has no name; its lock, 0, is not a lock but standard input. */
    if (r == NULL || r->dir[0] == '\0' || r->lock < 0)
        return;
    close(r->lock);
    r->lock = -1;
}

yk_code yk_run_path(const struct yk_run *r, const char *name, char out[YK_PATH_MAX],
                    struct yk_error *e)
{
    return yk_path(out, e, "%s/%s", r->dir, name);
}

yk_code yk_run_save(const struct yk_run *r, const char *name, const json_t *value,
                    struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = yk_run_path(r, name, path, e);
    return rc == YK_OK ? yk_json_save(path, value, e) : rc;
}

yk_code yk_run_keep(const struct yk_run *r, const char *name, const json_t *value,
                    struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = yk_run_path(r, name, path, e);
    return rc == YK_OK ? yk_json_keep(path, value, e) : rc;
}

yk_code yk_run_load(const struct yk_run *r, const char *name, json_t **value, struct yk_error *e)
{
    char path[YK_PATH_MAX];
    yk_code rc = yk_run_path(r, name, path, e);
    return rc == YK_OK ? yk_json_load(path, value, e) : rc;
}

yk_code yk_run_save_ranks(const struct yk_run *r, const struct yk_rank *rank, unsigned n,
                          struct yk_error *e)
{
    json_t *list = json_array(), *ranks = json_pack("{s:o}", "ranks", list);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:s, s:i}", "rank", (int)i, "role",
                                        rank[i].role, "host", rank[i].host, "pid", rank[i].pid));
    if (ranks == NULL)
        return yk_fail_memory(e, 0);
    yk_code rc = yk_run_save(r, "ranks.json", ranks, e);
    json_decref(ranks);
    return rc;
}

/* --- outputs beside a run's own files --- */

static bool is_own(const char *name, size_t n)
{
    for (size_t i = 0; i < N_OWN; i++)
        if (strlen(OWN[i].name) == n && strncmp(OWN[i].name, name, n) == 0)
            return true;
    return false;
}

static bool has(const char *dir, const char *name)
{
    char path[YK_PATH_MAX];
    return yk_path(path, NULL, "%s/%s", dir, name) == YK_OK && yk_exists(path);
}

/* The path of `output`, which need not exist, with all links followed. */
static bool resolve(const char *output, char out[YK_PATH_MAX])
{
    char folder[YK_PATH_MAX];
    const char *slash = strrchr(output, '/');
    char *real = realpath(output, NULL);
    bool there = real != NULL;
    if (!there && yk_path(folder, NULL, "%.*s", slash ? (int)(slash - output + 1) : 1,
                          slash ? output : ".") == YK_OK)
        real = realpath(folder, NULL);
    bool ok = real != NULL && yk_path(out, NULL, "%s%s%s", real, there ? "" : "/",
                                      there   ? ""
                                      : slash ? slash + 1
                                              : output) == YK_OK;
    free(real);
    return ok;
}

/* Cuts the path of a run's own file after the run's folder. False if it is not a run's own file. */
static bool cut_to_run(char path[YK_PATH_MAX])
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (is_own(slash + 1, strcspn(slash + 1, "/")) && has(path, "config.json") &&
            has(path, "ranks.json"))
            return true;
        *slash = '/';
    }
    return false;
}

/* Checks the path as typed, too: the checkpoints of a run may be a link to another disk. */
yk_code yk_run_spare(const char *output, struct yk_error *e)
{
    char typed[YK_PATH_MAX], real[YK_PATH_MAX], here[YK_PATH_MAX];
    if (strcmp(output, "-") == 0) /* standard output */
        return YK_OK;
    if (!resolve(output, real) || getcwd(here, sizeof here) == NULL)
        return YK_OK; /* opening it reports the cause */
    bool whole = output[0] == '/';
    yk_code rc = yk_path(typed, e, "%s%s%s", whole ? "" : here, whole ? "" : "/", output);
    if (rc != YK_OK)
        return rc;
    const char *run = cut_to_run(real) ? real : cut_to_run(typed) ? typed : NULL;
    if (run == NULL)
        return YK_OK;
    yk_fail(e, YK_USAGE, "'%s' belongs to the run in '%s'", output, run);
    yk_hint(e, "write elsewhere; another name in the same folder is fine");
    return YK_USAGE;
}

yk_code yk_run_apart(const char *dir, const char *output, struct yk_error *e)
{
    yk_code rc = YK_OK;
    for (size_t i = 0; i < N_OWN && rc == YK_OK; i++) {
        char path[YK_PATH_MAX];
        if (yk_path(path, NULL, "%s/%s", dir, OWN[i].name) == YK_OK)
            rc = yk_apart(path, output, e);
    }
    return rc;
}
