/* hosts.c - see hosts.h. Text in, lists of checked names out; the only files touched are the ones a
 * user named.
 * LIMITS: at most YK_HOST_SLOTS_MAX slots, names of at most YK_HOST_MAX characters, a host file of
 * 1 MB. */
#include "launch/hosts.h"

#include "base/file.h"
#include "base/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 20, SHOWN = 60 };

/* --- names --- */

static bool is_name(const char *s, size_t n)
{
    /* a leading '-' would be an option to ssh */
    if (n == 0 || n > YK_HOST_MAX || !isalnum((unsigned char)s[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isascii((unsigned char)s[i]) ||
            (!isalnum((unsigned char)s[i]) && s[i] != '.' && s[i] != '-'))
            return false;
    return true;
}

bool yk_host_is_local(const char *name)
{
    char own[YK_HOST_MAX + 1] = "";
    if (strcasecmp(name, "localhost") == 0 ||
        (strncmp(name, "127.", 4) == 0 && name[strspn(name, "0123456789.")] == '\0'))
        return true;
    if (gethostname(own, sizeof own - 1) != 0)
        return false;
    /* a machine may know itself as n1.example.org and be called n1, but not the reverse */
    size_t n = strcspn(own, ".");
    return strcasecmp(name, own) == 0 || (strlen(name) == n && strncasecmp(name, own, n) == 0);
}

static void list_release(struct yk_host_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
    *l = (struct yk_host_list){0};
}

static yk_code list_add(struct yk_host_list *l, const char *name, size_t len, size_t slots,
                        const char *what, struct yk_error *e)
{
    if (slots > YK_HOST_SLOTS_MAX - l->n)
        return yk_fail(e, YK_USAGE, "%s names more than %d slots", what, YK_HOST_SLOTS_MAX);
    char **longer = realloc(l->name, (l->n + slots) * sizeof *longer);
    if (longer == NULL)
        return yk_fail_memory(e, (l->n + slots) * sizeof *longer);
    l->name = longer;
    for (size_t i = 0; i < slots; i++) {
        char *copy = strndup(name, len);
        if (copy == NULL)
            return yk_fail_memory(e, len + 1);
        l->name[l->n++] = copy;
    }
    return YK_OK;
}

/* --- one entry: NAME or NAME:NUMBER, where NAME may be an IPv6 address in brackets --- */

struct entry {
    const char *name;
    size_t len;
    bool has_number;
    unsigned long number;
};

static bool read_number(const char *s, size_t n, unsigned long *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)s[i]))
            return false;
        *out = *out * 10 + (unsigned long)(s[i] - '0');
    }
    return n > 0 && n <= 6;
}

static yk_code refuse_v6(const char *s, size_t n, const char *what, struct yk_error *e)
{
    yk_fail(e, YK_USAGE, "%s: '%.*s' is an IPv6 address, which Open MPI does not take as a host",
            what, (int)(n < SHOWN ? n : SHOWN), s);
    yk_hint(e, "give the host a name in /etc/hosts and use that");
    return YK_USAGE;
}

static yk_code refuse_name(const char *s, size_t n, const char *what, struct yk_error *e)
{
    char shown[SHOWN + 1];
    size_t len = n < SHOWN ? n : SHOWN;
    for (size_t i = 0; i < len; i++)
        shown[i] = isascii((unsigned char)s[i]) && isprint((unsigned char)s[i]) ? s[i] : '?';
    shown[len] = '\0';
    if (n == 0)
        yk_fail(e, YK_USAGE, "%s holds an entry without a name", what);
    else
        yk_fail(e, YK_USAGE, "%s: '%s' is not the name of a host", what, shown);
    yk_hint(e, "a name consists of letters, digits, dots and hyphens");
    return YK_USAGE;
}

/* Open MPI 4 overruns a buffer of its own where the part of a name before its first digit is
 * longer. */
static yk_code check_length(const char *s, size_t n, const char *what, struct yk_error *e)
{
    enum { MOST = 56 };
    size_t letters = 0;
    while (letters < n && !isdigit((unsigned char)s[letters]))
        letters++;
    if (letters <= MOST)
        return YK_OK;
    yk_fail(e, YK_USAGE,
            "%s: '%.*s' is too long for Open MPI, which takes %d characters before the first digit",
            what, (int)(n < SHOWN ? n : SHOWN), s, MOST);
    yk_hint(e, "give the host a shorter name in /etc/hosts, or use its address");
    return YK_USAGE;
}

static yk_code entry_read(struct entry *out, const char *s, size_t n, const char *what,
                          struct yk_error *e)
{
    static const char here[] = "localhost";
    const char *colon = memchr(s, ':', n);
    *out = (struct entry){.name = s, .len = colon != NULL ? (size_t)(colon - s) : n};
    if (n > 0 && s[0] == '[') {
        const char *close = memchr(s, ']', n);
        size_t len = close != NULL ? (size_t)(close - s) + 1 : 0;
        if (len == 0 || (len < n && s[len] != ':'))
            return refuse_name(s, n, what, e);
        if (len != 5 || memcmp(s, "[::1]", 5) != 0)
            return refuse_v6(s, len, what, e);
        out->name = here;
        out->len = sizeof here - 1;
        colon = len < n ? s + len : NULL;
    } else if (colon != NULL && memchr(colon + 1, ':', n - (size_t)(colon + 1 - s)) != NULL) {
        return refuse_v6(s, n, what, e);
    }
    if (!is_name(out->name, out->len))
        return refuse_name(out->name, out->len, what, e);
    yk_code rc = check_length(out->name, out->len, what, e);
    if (rc != YK_OK || colon == NULL)
        return rc;
    out->has_number = true;
    if (!read_number(colon + 1, n - (size_t)(colon + 1 - s), &out->number))
        return yk_fail(e, YK_USAGE, "%s: '%.*s' does not end in a number", what,
                       (int)(n < SHOWN ? n : SHOWN), s);
    return YK_OK;
}

static yk_code slots_add(struct yk_host_list *to, const struct entry *at, const char *what,
                         struct yk_error *e)
{
    size_t slots = at->has_number ? at->number : 1;
    if (slots == 0 || slots > YK_HOST_SLOTS_MAX)
        return yk_fail(e, YK_USAGE, "%s: '%.*s' has %zu slots; it may have 1 to %d", what,
                       (int)(at->len < SHOWN ? at->len : SHOWN), at->name, slots,
                       YK_HOST_SLOTS_MAX);
    return list_add(to, at->name, at->len, slots, what, e);
}

/* --- a,b:2,c --- */

static yk_code read_list(struct yk_host_list *to, const char *text, const char *what,
                         struct yk_error *e)
{
    for (const char *s = text;;) {
        size_t all = strcspn(s, ","), skip = strspn(s, " \t"), n = all;
        skip = skip < all ? skip : all;
        while (n > skip && (s[n - 1] == ' ' || s[n - 1] == '\t'))
            n--;
        struct entry at;
        yk_code rc = entry_read(&at, s + skip, n - skip, what, e);
        if (rc == YK_OK)
            rc = slots_add(to, &at, what, e);
        if (rc != YK_OK)
            return rc;
        if (s[all] == '\0')
            return YK_OK;
        s += all + 1;
    }
}

/* --- host files --- */

/* One line without its end: 'host', 'host:n', 'host slots=n' (blanks round the '='), a comment, or
 * nothing. */
static yk_code file_line(struct yk_host_list *to, char *line, const char *what, struct yk_error *e)
{
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t\r");
    size_t n = strcspn(line, " \t\r");
    if (n == 0)
        return YK_OK;
    char rest[SHOWN + 1];
    size_t len = 0;
    for (const char *p = line + n; *p != '\0'; p++) {
        if (strchr(" \t\r", *p) == NULL && len < SHOWN)
            rest[len++] = *p;
    }
    rest[len] = '\0';
    struct entry at;
    yk_code rc = entry_read(&at, line, n, what, e);
    if (rc != YK_OK)
        return rc;
    if (len > 0 && (at.has_number || strncmp(rest, "slots=", 6) != 0 ||
                    !read_number(rest + 6, len - 6, &at.number))) {
        yk_fail(e, YK_USAGE, "%s: what follows '%.*s' is not 'slots=n'", what,
                (int)(at.len < SHOWN ? at.len : SHOWN), at.name);
        yk_hint(e, "a line is 'host slots=n' or 'host'");
        return YK_USAGE;
    }
    at.has_number |= len > 0;
    return slots_add(to, &at, what, e);
}

yk_code yk_hosts_file_text(struct yk_host_list *to, const char *text, size_t n, const char *what,
                           struct yk_error *e)
{
    size_t before = to->n;
    yk_code rc = YK_OK;
    const char *end = text + n;
    /* editors of another system begin files with it */
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (unsigned number = 1; text < end && rc == YK_OK; number++) {
        char line[1024], where[YK_PATH_MAX];
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((stop != NULL ? stop : end) - text);
        snprintf(where, sizeof where, "'%.300s' line %u", what, number);
        if (len >= sizeof line || memchr(text, '\0', len) != NULL) {
            rc = yk_fail(e, YK_DATA, "%s is not a line of text", where);
        } else {
            memcpy(line, text, len);
            line[len] = '\0';
            rc = file_line(to, line, where, e);
        }
        text += len + 1;
    }
    if (rc == YK_USAGE) { /* a mistake in a file is bad data */
        rc = YK_DATA;
        if (e != NULL)
            e->code = rc;
    }
    if (rc == YK_OK && to->n == before)
        rc = yk_fail(e, YK_DATA, "'%.300s' names no host", what);
    return rc;
}

/* --- TF_CONFIG --- */

static yk_code tf_bad(struct yk_error *e, const char *why)
{
    yk_fail(e, YK_USAGE, "TF_CONFIG: %s", why);
    yk_hint(e, "it looks like "
               "{\"cluster\":{\"worker\":[\"a:2222\",\"b:2222\"]},\"task\":{\"type\":\"worker\","
               "\"index\":0}}");
    return YK_USAGE;
}

static yk_code tf_hosts(struct yk_host_list *to, const json_t *cluster, const char *role,
                        struct yk_error *e)
{
    const json_t *list = json_object_get(cluster, role);
    if (list == NULL)
        return YK_OK;
    if (!json_is_array(list))
        return tf_bad(e, "the hosts of a role are not a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (s == NULL)
            return tf_bad(e, "a host is not a string");
        struct entry at; /* its number is a port, and mpirun finds its own */
        yk_code rc = entry_read(&at, s, strlen(s), "TF_CONFIG", e);
        if (rc == YK_OK && at.number > 65535)
            rc = yk_fail(e, YK_USAGE, "TF_CONFIG: '%.60s' does not end in a port", s);
        if (rc == YK_OK)
            rc = list_add(to, at.name, at.len, 1, "TF_CONFIG", e);
        if (rc != YK_OK)
            return rc;
    }
    return YK_OK;
}

/* Who are we, and is it us who launches? An evaluator need not be named in the cluster, because
 * it takes no part in training. */
static yk_code tf_task(struct yk_hosts *h, const json_t *cluster, const json_t *task,
                       bool has_chief, struct yk_error *e)
{
    h->part = YK_HOSTS_LAUNCH;
    if (task == NULL) /* a mere list of hosts */
        return YK_OK;
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_t *index = json_object_get(task, "index");
    if (type == NULL || !json_is_integer(index) || json_integer_value(index) < 0)
        return tf_bad(e, "\"task\" needs a \"type\" and an \"index\"");
    int n =
        snprintf(h->task, sizeof h->task, "%s %lld", type, (long long)json_integer_value(index));
    if (n < 0 || (size_t)n >= sizeof h->task)
        return tf_bad(e, "the type of the task is too long");
    const json_t *peers = json_object_get(cluster, type);
    size_t known = peers == NULL && strcmp(type, "evaluator") == 0 ? 1 : json_array_size(peers);
    if ((json_int_t)known <= json_integer_value(index)) {
        yk_fail(e, YK_USAGE, "TF_CONFIG says this is '%s', but its cluster has %zu of that type",
                h->task, known);
        yk_hint(e, "\"type\" must name a list in \"cluster\", and \"index\" counts from 0");
        return YK_USAGE;
    }
    if (json_integer_value(index) != 0 || strcmp(type, has_chief ? "chief" : "worker") != 0)
        h->part = YK_HOSTS_STAND_BY;
    return YK_OK;
}

static yk_code read_tf_config(struct yk_hosts *h, const char *text, struct yk_error *e)
{
    json_t *all = NULL;
    if (yk_json_parse(text, strlen(text), "TF_CONFIG", &all, e) != YK_OK) {
        if (e != NULL)
            e->code = YK_USAGE;
        return YK_USAGE;
    }
    const json_t *cluster = json_object_get(all, "cluster");
    yk_code rc = YK_OK;
    if (cluster != NULL && !json_is_object(cluster))
        rc = tf_bad(e, "\"cluster\" is not an object");
    if (rc == YK_OK)
        rc = tf_hosts(&h->workers, cluster, "chief", e);
    bool has_chief = h->workers.n > 0;
    if (rc == YK_OK)
        rc = tf_hosts(&h->workers, cluster, "worker", e);
    if (rc == YK_OK)
        rc = tf_hosts(&h->owners, cluster, "ps", e);
    if (rc == YK_OK && h->workers.n == 0 && json_object_size(cluster) > 0)
        rc = tf_bad(e, "\"cluster\" has no worker");
    /* without a cluster the process trains alone */
    if (rc == YK_OK && h->workers.n > 0)
        rc = tf_task(h, cluster, json_object_get(all, "task"), has_chief, e);
    json_decref(all);
    return rc;
}

/* --- all of them together --- */

static yk_code read_file(struct yk_host_list *to, const char *path, struct yk_error *e)
{
    char *text;
    size_t n;
    yk_code rc = yk_file_read(path, MAX_FILE, &text, &n, e);
    if (rc == YK_OK) {
        rc = yk_hosts_file_text(to, text, n, path, e);
        free(text);
    }
    return rc;
}

static yk_code read_workers(struct yk_hosts *h, const struct yk_hosts_ask *ask, struct yk_error *e)
{
    if (ask->hosts != NULL && ask->hostfile != NULL && ask->both_typed)
        return yk_fail(
            e, YK_USAGE,
            "--hosts and --hostfile exclude each other: both name the hosts of the workers");
    if (ask->hosts != NULL) {
        h->part = YK_HOSTS_LAUNCH;
        h->source = "--hosts";
        return read_list(&h->workers, ask->hosts, "--hosts", e);
    }
    if (ask->hostfile != NULL) {
        h->part = YK_HOSTS_LAUNCH;
        h->source = "--hostfile";
        return read_file(&h->workers, ask->hostfile, e);
    }
    if (ask->tf_config != NULL && ask->tf_config[0] != '\0') {
        h->source = "TF_CONFIG";
        return read_tf_config(h, ask->tf_config, e);
    }
    return YK_OK;
}

yk_code yk_hosts_read(struct yk_hosts *h, const struct yk_hosts_ask *ask, struct yk_error *e)
{
    *h = (struct yk_hosts){0};
    yk_code rc = read_workers(h, ask, e);
    if (rc == YK_OK && ask->ps_hosts != NULL) {
        list_release(&h->owners); /* the option wins over TF_CONFIG's ps */
        rc = read_list(&h->owners, ask->ps_hosts, "--ps-hosts", e);
        if (rc == YK_OK && h->part == YK_HOSTS_NONE) {
            rc = yk_fail(e, YK_USAGE,
                         "--ps-hosts says where the parameter servers are, but nothing says where "
                         "the workers are");
            yk_hint(e, "add --hosts or --hostfile");
        }
    }
    if (rc == YK_OK && h->part != YK_HOSTS_NONE && ask->workers != 0 &&
        ask->workers != (int64_t)h->workers.n)
        rc =
            yk_fail(e, YK_USAGE, "--workers is %lld but %s has %zu slot%s", (long long)ask->workers,
                    h->source, h->workers.n, h->workers.n == 1 ? "" : "s");
    if (rc != YK_OK || h->part == YK_HOSTS_NONE)
        yk_hosts_release(h);
    return rc;
}

void yk_hosts_release(struct yk_hosts *h)
{
    list_release(&h->workers);
    list_release(&h->owners);
    *h = (struct yk_hosts){0};
}

static bool all_local(const struct yk_host_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (!yk_host_is_local(l->name[i]))
            return false;
    return true;
}

bool yk_hosts_local(const struct yk_hosts *h)
{
    return all_local(&h->workers) && all_local(&h->owners);
}
