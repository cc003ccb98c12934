/* optread.c - reads options from the command line and from configuration files (inih parses those);
 * see opt.h. Both look at the tables of all verbs, so that an option of another verb is never taken
 * for a mistyped one.
 * LIMITS: a line of a configuration file has at most 190 characters, inih's limit less its line
 * end; longer ones are refused. */
#include "base/opt.h"

#include "base/file.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 190, FILE_MOST = 1 << 20 };

static const struct yk_opt *by_name(const struct yk_opt *table, size_t rows, const char *name,
                                    size_t n)
{
    for (size_t i = 0; i < rows; i++)
        if (strlen(table[i].name) == n && strncmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}

static const struct yk_opt *by_letter(const struct yk_opt *table, size_t rows, char letter)
{
    for (size_t i = 0; i < rows; i++)
        if (table[i].letter != 0 && table[i].letter == letter)
            return &table[i];
    return NULL;
}

/* The option of an argument that begins with a dash: --name, --name=value, -l or -lVALUE. */
static const struct yk_opt *by_argument(const struct yk_opt *table, size_t rows, const char *arg)
{
    if (arg[1] == '-')
        return by_name(table, rows, arg + 2, strcspn(arg + 2, "="));
    const struct yk_opt *t = by_letter(table, rows, arg[1]);
    return t != NULL && t->type == YK_OPT_FLAG && arg[2] != '\0' ? NULL : t;
}

/* The option `name` of the first verb that has it. */
static const struct yk_opt *of_any_verb(const struct yk_opt_set *const *all, const char *name)
{
    const struct yk_opt *t = NULL;
    for (; *all != NULL && t == NULL; all++)
        t = by_name((*all)->table, (*all)->n, name, strlen(name));
    return t;
}

/* Explains an argument that is no option of this verb. Only options of this verb are suggested. */
static yk_code unknown(const struct yk_opts *o, const char *verb,
                       const struct yk_opt_set *const *all, const char *arg, struct yk_error *e)
{
    char name[64];
    const char *near = NULL;
    bool elsewhere = false;
    for (; *all != NULL && !elsewhere; all++)
        elsewhere = by_argument((*all)->table, (*all)->n, arg) != NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    if (elsewhere)
        yk_fail(e, YK_USAGE, "'yoke %s' takes no option '%s'", verb, name);
    else
        yk_fail(e, YK_USAGE, "unknown option '%s'", name);
    if (!elsewhere && strncmp(name, "--", 2) == 0)
        near = yk_nearest(name + 2, o->table, o->n, sizeof *o->table);
    if (near != NULL)
        yk_hint(e, "did you mean '--%s'?", near);
    else
        yk_hint(e, "'yoke help %s' lists the options", verb);
    return YK_USAGE;
}

/* Is this argument an option, and so not the value of the one before? */
static bool is_option(const struct yk_opt_set *const *all, const char *arg)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    return strncmp(name, "--", 2) == 0 && of_any_verb(all, name + 2) != NULL;
}

yk_code yk_opts_args(struct yk_opts *o, const char *verb, const struct yk_opt_set *const *all,
                     int argc, char *const *argv, const char **words, size_t max, size_t *n,
                     struct yk_error *e)
{
    bool only_words = false;
    *n = 0;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (only_words || arg[0] != '-' || arg[1] == '\0') {
            if (*n == max) {
                yk_fail(e, YK_USAGE, "'yoke %s' does not know what to do with '%.60s'", verb, arg);
                yk_hint(e, "'yoke help %s' shows how it is called", verb);
                return YK_USAGE;
            }
            words[(*n)++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_words = true;
            continue;
        }
        const struct yk_opt *t = by_argument(o->table, o->n, arg);
        if (t == NULL)
            return unknown(o, verb, all, arg, e);
        const char *value = NULL;
        if (arg[1] == '-' && strchr(arg, '=') != NULL)
            value = strchr(arg, '=') + 1;
        else if (arg[1] != '-' && arg[2] != '\0')
            value = arg + 2; /* -b60 */
        if (t->type == YK_OPT_FLAG) {
            value = value ? value : "true";
        } else if (value == NULL) {
            if (i + 1 == argc || is_option(all, argv[i + 1]))
                return yk_fail(e, YK_USAGE, "--%s needs a value: --%s %s", t->name, t->name,
                               t->meta);
            value = argv[++i];
        }
        yk_code rc = yk_opts_set(o, t->name, value, YK_COMMAND_LINE, e);
        if (rc != YK_OK)
            return rc;
    }
    return YK_OK;
}

/* A key that no verb has. */
static yk_code unknown_key(const struct yk_opt_set *const *all, const char *name,
                           struct yk_error *e)
{
    const char *words[512];
    size_t n = 0;
    for (; *all != NULL; all++)
        for (size_t i = 0; i < (*all)->n && n < sizeof words / sizeof words[0]; i++)
            words[n++] = (*all)->table[i].name;
    const char *near = yk_nearest(name, words, n, sizeof words[0]);
    yk_fail(e, YK_USAGE, "unknown option '--%.60s'", name);
    if (near != NULL)
        yk_hint(e, "did you mean '--%s'?", near);
    return YK_USAGE;
}

struct reading {
    struct yk_opts *o;
    const char *at; /* the text that has not been read yet */
    int line;       /* the line handed out last, from 1 */
    const char *verb;
    const struct yk_opt_set *const *all;
    enum yk_origin origin;
    yk_code rc; /* of the first bad entry */
    struct yk_error error;
};

/* Gives inih the next line; all are short enough for it. After a bad entry the text ends here,
 * because inih itself would go on. */
static char *next_line(char *out, int size, void *arg)
{
    struct reading *r = arg;
    size_t n = strcspn(r->at, "\n");
    n += r->at[n] == '\n';
    if (n == 0 || n >= (size_t)size || r->rc != YK_OK)
        return NULL;
    memcpy(out, r->at, n);
    out[n] = '\0';
    r->at += n;
    r->line++;
    return out;
}

/* inih calls this for every `name = value`. After a result of 0 it reports this line, unless an
 * earlier one was bad. */
static int entry(void *arg, const char *section, const char *name, const char *value)
{
    struct reading *r = arg;
    const struct yk_opt_set *const *set = r->all;
    while (*set != NULL && strcmp((*set)->verb, section) != 0)
        set++;
    bool for_all = section[0] == '\0';
    const struct yk_opt *t = of_any_verb(r->all, name);
    if (!for_all && *set == NULL) {
        r->rc = yk_fail(&r->error, YK_USAGE, "[%.40s] is not a verb", section);
    } else if (!for_all && t != NULL &&
               by_name((*set)->table, (*set)->n, name, strlen(name)) == NULL) {
        r->rc = yk_fail(&r->error, YK_USAGE, "'yoke %.40s' takes no option '%.60s'", section, name);
    } else if (t != NULL && (t->flags & YK_OPT_TRANSIENT)) {
        r->rc = yk_fail(&r->error, YK_USAGE, "'%.60s' belongs on the command line", name);
    } else if (t != NULL && (t->flags & YK_OPT_FAR) && r->origin == YK_LOCAL_INI) {
        r->rc = yk_fail(
            &r->error, YK_USAGE,
            "'%.60s' is refused in ./yoke.ini, because it makes yoke contact other machines", name);
        yk_hint(
            &r->error,
            "give it as --%.60s, in a --config FILE, or in your own file, ~/.config/yoke/yoke.ini",
            name);
    } else if (t == NULL) {
        r->rc = unknown_key(r->all, name, &r->error);
    } else if ((for_all || strcmp(section, r->verb) == 0) &&
               by_name(r->o->table, r->o->n, name, strlen(name)) != NULL) {
        r->rc = yk_opts_set(r->o, name, value, r->origin, &r->error);
    }
    return r->rc == YK_OK;
}

yk_code yk_opts_ini_text(struct yk_opts *o, const char *text, const char *what, const char *verb,
                         const struct yk_opt_set *const *all, enum yk_origin origin,
                         struct yk_error *e)
{
    int line = 1;
    for (const char *p = text; *p != '\0'; line++) {
        size_t len = strcspn(p, "\n");
        if (len > LINE_MOST)
            return yk_fail(e, YK_USAGE, "'%s' line %d is longer than %d characters", what, line,
                           LINE_MOST);
        p += len + (p[len] == '\n');
    }
    struct reading r = {.o = o, .at = text, .verb = verb, .all = all, .origin = origin};
    int bad = ini_parse_stream(next_line, &r, entry, &r);
    if (bad == 0)
        return YK_OK;
    if (r.rc == YK_OK || bad < r.line) /* not an entry at all */
        return yk_fail(e, YK_USAGE, "'%s' line %d is neither 'key = value' nor '[section]'", what,
                       bad);
    yk_fail(e, YK_USAGE, "'%s' line %d: %.300s", what, bad, r.error.text);
    if (r.error.hint[0] != '\0')
        yk_hint(e, "%s", r.error.hint);
    return YK_USAGE;
}

yk_code yk_opts_ini(struct yk_opts *o, const char *path, const char *verb,
                    const struct yk_opt_set *const *all, enum yk_origin origin, struct yk_error *e)
{
    char *text;
    size_t n;
    yk_code rc = yk_file_read(path, FILE_MOST, &text, &n, e);
    if (rc != YK_OK)
        /* a configuration that cannot be read is a mistake in the call, not in the data */
        return YK_USAGE;
    if (strlen(text) != n)
        rc = yk_fail(e, YK_USAGE, "'%s' is not text", path);
    else
        rc = yk_opts_ini_text(o, text, path, verb, all, origin, e);
    free(text);
    return rc;
}

yk_code yk_opts_usual_inis(struct yk_opts *o, const char *verb, const struct yk_opt_set *const *all,
                           struct yk_error *e)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char user[YK_PATH_MAX] = "";
    yk_code rc = YK_OK;
    if (xdg != NULL && xdg[0] == '/')
        rc = yk_path(user, e, "%s/yoke/yoke.ini", xdg);
    else if (home != NULL && home[0] != '\0')
        rc = yk_path(user, e, "%s/.config/yoke/yoke.ini", home);
    if (rc == YK_OK && user[0] != '\0' && yk_exists(user))
        rc = yk_opts_ini(o, user, verb, all, YK_USER_INI, e);
    if (rc == YK_OK && yk_exists("yoke.ini"))
        rc = yk_opts_ini(o, "yoke.ini", verb, all, YK_LOCAL_INI, e);
    return rc;
}
