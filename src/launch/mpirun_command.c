/* mpirun_command.c - see mpirun_command.h. Why each setting is there is said beside it.
 * LIMITS: a word that is a single ':' cannot be passed to a rank, because mpirun separates contexts
 * by it. */
#include "launch/mpirun_command.h"

#include "launch/record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const settings[][2] = {
    /* owners need no slot, and a test has more ranks than cores */
    {"rmaps_base_oversubscribe", "1"},
    /* mpirun pins 1 or 2 ranks to one core each, on a testbed all to core 0 */
    {"hwloc_base_binding_policy", "none"},
    /* the death of a rank is yoke's business, not the end of the job */
    {"orte_enable_recovery", "1"},
    /* 4 ranks on 2 cores: 50,000 round trips a second instead of hundreds */
    {"mpi_yield_when_idle", "1"},
    {"odls_base_sigkill_timeout", "30"}, /* time for a checkpoint between mpirun's TERM and KILL */
    {"btl_tcp_sndbuf", "4194304"},       /* 95 % of the wire instead of 56 to 83 % */
    {"btl_tcp_rcvbuf", "4194304"},       /* likewise */
    {"plm_rsh_no_tree_spawn", "1"},      /* only this machine must be able to ssh to the others */
    {"orte_keep_fqdn_hostnames", "1"},   /* node1.east and node1.west are two machines */
};

/* Variables that a rank elsewhere must see as the parent does: ssh passes none on. */
static const char *const forwarded[] = {YK_PARENT_VARIABLE, YK_RESTARTS_VARIABLE, "XDG_CACHE_HOME",
                                        "NO_COLOR"};

/* --- words --- */

static void take(struct yk_words *w, char *word)
{
    char **longer =
        word != NULL && !w->failed ? realloc(w->word, (w->n + 2) * sizeof *longer) : NULL;
    if (longer == NULL) {
        free(word);
        w->failed = true;
        return;
    }
    w->word = longer;
    w->word[w->n++] = word;
    w->word[w->n] = NULL;
}

static void add(struct yk_words *w, const char *word)
{
    take(w, strdup(word));
}

__attribute__((format(printf, 2, 3))) static void add_format(struct yk_words *w, const char *fmt,
                                                             ...)
{
    char *word;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&word, fmt, ap);
    va_end(ap);
    take(w, n >= 0 ? word : NULL);
}

static void words_release(struct yk_words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->word[i]);
    free(w->word);
    *w = (struct yk_words){0};
}

/* --- the environment --- */

static const char *find(const struct yk_words *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < env->n; i++)
        if (strncmp(env->word[i], name, n) == 0 && env->word[i][n] == '=')
            return env->word[i] + n + 1;
    return NULL;
}

static void set_default(struct yk_words *env, const char *name, const char *value)
{
    char full[128];
    snprintf(full, sizeof full, "OMPI_MCA_%s", name);
    if (find(env, full) == NULL)
        add_format(env, "%s=%s", full, value);
}

static void build_env(struct yk_words *env, const struct yk_launch *l, const char *folder,
                      int restarts)
{
    for (char **p = environ; *p != NULL; p++)
        /* TF_CONFIG has been read; a rank must not take itself for a task */
        if (strncmp(*p, "TF_CONFIG=", 10) != 0 &&
            strncmp(*p, YK_PARENT_VARIABLE "=", sizeof YK_PARENT_VARIABLE) != 0 &&
            strncmp(*p, YK_RESTARTS_VARIABLE "=", sizeof YK_RESTARTS_VARIABLE) != 0)
            add(env, *p);
    add_format(env, "%s=%s", YK_PARENT_VARIABLE, folder);
    add_format(env, "%s=%d", YK_RESTARTS_VARIABLE, restarts);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        set_default(env, settings[i][0], settings[i][1]);
    /* The server of PMIx 4 in mpirun may close a dead rank's socket before libevent has let go
     * of it, and epoll then never looks at the new rank that gets the same descriptor: it is not
     * answered, and all hang that wait for it. poll does look. */
    if (find(env, "EVENT_NOEPOLL") == NULL)
        add(env, "EVENT_NOEPOLL=1");
    /* orted makes it where it is missing, which shared memory needs */
    set_default(env, "orte_tmpdir_base", folder);
    set_default(env, "btl_vader_backing_directory", folder);
    if (yk_hosts_local(l->hosts))
        /* the others want ssh to be installed even if it is never called */
        set_default(env, "plm", "isolated");
}

/* --- the words --- */

const char *yk_launch_host(const struct yk_launch *l, size_t rank)
{
    const struct yk_host_list *owners = &l->hosts->owners, *workers = &l->hosts->workers;
    if (rank >= l->owners)
        return workers->name[rank - l->owners];
    return owners->n > 0 ? owners->name[rank % owners->n] : workers->name[0];
}

/* The name for mpirun: it does not know 127.0.0.2 or every form of its own name, but it knows
 * localhost. */
static const char *mpirun_name(const char *host)
{
    return yk_host_is_local(host) ? "localhost" : host;
}

static void add_context(struct yk_mpirun_command *c, const char *host, size_t ranks,
                        const char *cwd, char *const *argv)
{
    struct yk_words *w = &c->argv;
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++) {
        if (find(&c->env, forwarded[i]) == NULL)
            continue;
        add(w, "-x");
        add(w, forwarded[i]);
    }
    add(w, "--wdir");
    add(w, cwd);
    add(w, "--host");
    add(w, host);
    add(w, "-np");
    add_format(w, "%zu", ranks);
    for (char *const *p = argv; *p != NULL; p++)
        add(w, *p);
}

yk_code yk_mpirun_command_build(struct yk_mpirun_command *c, const struct yk_launch *l,
                                char *const *argv, const char *folder, int restarts,
                                struct yk_error *e)
{
    char cwd[YK_PATH_MAX];
    size_t ranks = l->owners + l->hosts->workers.n;
    *c = (struct yk_mpirun_command){0};
    if (getcwd(cwd, sizeof cwd) == NULL)
        return yk_fail_errno(e, YK_FAILED, "cannot tell which folder this is");
    for (char *const *p = argv; *p != NULL; p++)
        if (strcmp(*p, ":") == 0)
            return yk_fail(
                e, YK_USAGE,
                "the argument ':' is special to mpirun and cannot be passed on to the ranks");
    build_env(&c->env, l, folder, restarts);
    add(&c->argv, "mpirun");
    if (geteuid() == 0)
        add(&c->argv, "--allow-run-as-root");
    for (size_t first = 0, end; first < ranks; first = end) {
        const char *host = mpirun_name(yk_launch_host(l, first));
        for (end = first + 1; end < ranks && strcmp(mpirun_name(yk_launch_host(l, end)), host) == 0;
             end++)
            ;
        if (first > 0)
            add(&c->argv, ":");
        add_context(c, host, end - first, cwd, argv);
    }
    if (c->argv.failed || c->env.failed) {
        yk_mpirun_command_release(c);
        return yk_fail_memory(e, 0);
    }
    return YK_OK;
}

void yk_mpirun_command_release(struct yk_mpirun_command *c)
{
    words_release(&c->argv);
    words_release(&c->env);
}
