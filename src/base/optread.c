/* optread.c - reads options from the command line and from configuration files (inih parses those); see opt.h.
 * LIMITS: a line of a configuration file has at most 190 characters, inih's limit less its line end; longer ones are refused. */
#include "base/opt.h"

#include "base/file.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 190, FILE_MOST = 1 << 20 };

static const struct yk_opt *by_name(const struct yk_opts *o, const char *name, size_t n)
{
    for (size_t i = 0; i < o->n; i++)
        if (strlen(o->table[i].name) == n && strncmp(o->table[i].name, name, n) == 0)
            return &o->table[i];
    return NULL;
}

static const struct yk_opt *by_letter(const struct yk_opts *o, char letter)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->table[i].letter != 0 && o->table[i].letter == letter)
            return &o->table[i];
    return NULL;
}

/* Unknown, or known but not for this verb: suggest only what the verb takes. */
static yk_code unknown(const struct yk_opts *o, uint32_t verb, const char *verb_name,
                       const char *arg, bool exists, struct yk_error *e)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    if (exists)
        yk_fail(e, YK_USAGE, "'yoke %s' takes no option '%s'", verb_name, name);
    else
        yk_fail(e, YK_USAGE, "unknown option '%s'", name);
    const char *words[128];
    size_t n = 0;
    for (size_t i = 0; i < o->n && n < 128; i++)
        if (o->table[i].verbs & verb)
            words[n++] = o->table[i].name;
    const char *near = exists || strncmp(name, "--", 2) != 0
                           ? NULL
                           : yk_nearest(name + 2, words, n, sizeof words[0]);
    if (near != NULL)
        yk_hint(e, "did you mean '--%s'?", near);
    else
        yk_hint(e, "'yoke help %s' lists the options", verb_name);
    return YK_USAGE;
}

yk_code yk_opts_args(struct yk_opts *o, uint32_t verb, const char *verb_name, int argc,
                     char *const *argv, const char **words, size_t max, size_t *n,
                     struct yk_error *e)
{
    bool only_words = false;
    *n = 0;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (only_words || arg[0] != '-' || arg[1] == '\0') {
            if (*n == max) {
                yk_fail(e, YK_USAGE, "'yoke %s' does not know what to do with '%.60s'", verb_name,
                        arg);
                yk_hint(e, "'yoke help %s' shows how it is called", verb_name);
                return YK_USAGE;
            }
            words[(*n)++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_words = true;
            continue;
        }
        const struct yk_opt *t;
        const char *value = NULL;
        if (arg[1] == '-') {
            size_t len = strcspn(arg + 2, "=");
            t = by_name(o, arg + 2, len);
            value = arg[2 + len] == '=' ? arg + 3 + len : NULL;
        } else {
            t = by_letter(o, arg[1]);
            value = arg[2] != '\0' ? arg + 2 : NULL; /* -b60 */
            if (t != NULL && t->type == YK_OPT_FLAG && value != NULL)
                t = NULL;
        }
        if (t == NULL || !(t->verbs & verb))
            return unknown(o, verb, verb_name, arg, t != NULL, e);
        if (t->type == YK_OPT_FLAG) {
            value = value ? value : "true";
        } else if (value == NULL) {
            bool option_next = i + 1 < argc && strncmp(argv[i + 1], "--", 2) == 0 &&
                               by_name(o, argv[i + 1] + 2, strcspn(argv[i + 1] + 2, "="));
            if (i + 1 == argc || option_next)
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

struct reading {
    struct yk_opts *o;
    const char *at; /* what is left of the text */
    int line;       /* the one handed out last, from 1 */
    uint32_t verb;
    uint32_t (*verb_of)(const char *name);
    enum yk_origin origin;
    yk_code rc; /* of the first bad entry */
    struct yk_error error;
};

/* inih's reader: the next line (none is longer than it takes), or the end after a bad entry: inih itself would go on. */
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

/* inih calls this for every `name = value`; 0 makes it report the line, if no line before was bad. */
static int entry(void *arg, const char *section, const char *name, const char *value)
{
    struct reading *r = arg;
    uint32_t verbs = section[0] == '\0' ? ~0u : r->verb_of(section);
    const struct yk_opt *t = by_name(r->o, name, strlen(name));
    if (verbs == 0)
        r->rc = yk_fail(&r->error, YK_USAGE, "[%.40s] is not a verb", section);
    else if (t != NULL && !(t->verbs & verbs))
        r->rc = yk_fail(&r->error, YK_USAGE, "'yoke %.40s' takes no option '%.60s'", section, name);
    else if (t != NULL && (t->flags & YK_OPT_TRANSIENT))
        r->rc = yk_fail(&r->error, YK_USAGE, "'%.60s' belongs on the command line", name);
    else if (t == NULL || (verbs & t->verbs & r->verb))
        r->rc = yk_opts_set(r->o, name, value, r->origin, &r->error);
    return r->rc == YK_OK;
}

yk_code yk_opts_ini_text(struct yk_opts *o, const char *text, const char *what, uint32_t verb,
                         uint32_t (*verb_of)(const char *name), enum yk_origin origin,
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
    struct reading r = {.o = o, .at = text, .verb = verb, .verb_of = verb_of, .origin = origin};
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

yk_code yk_opts_ini(struct yk_opts *o, const char *path, uint32_t verb,
                    uint32_t (*verb_of)(const char *name), enum yk_origin origin,
                    struct yk_error *e)
{
    char *text;
    size_t n;
    yk_code rc = yk_file_read(path, FILE_MOST, &text, &n, e);
    if (rc != YK_OK)
        return YK_USAGE; /* a configuration that cannot be read is a mistake in the call, not in the data */
    if (strlen(text) != n)
        rc = yk_fail(e, YK_USAGE, "'%s' is not text", path);
    else
        rc = yk_opts_ini_text(o, text, path, verb, verb_of, origin, e);
    free(text);
    return rc;
}
