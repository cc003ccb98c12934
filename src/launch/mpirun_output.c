/* mpirun_output.c - see mpirun_output.h. */
#include "launch/mpirun_output.h"

#include "launch/mpirun_command.h"
#include "launch/record.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- lines --- */

void yk_lines_feed(struct yk_lines *l, const char *bytes, size_t n,
                   void (*line)(void *arg, const char *text, size_t n), void *arg)
{
    while (n > 0) {
        const char *end = memchr(bytes, '\n', n);
        size_t len = end != NULL ? (size_t)(end - bytes) : n;
        if (l->part.len + len > YK_RECORD_MAX || l->part.failed)
            l->skip = true;
        if (!l->skip)
            yk_buf_add(&l->part, bytes, len);
        if (end == NULL)
            return;
        if (!l->skip && !l->part.failed)
            line(arg, l->part.data != NULL ? l->part.data : "", l->part.len);
        yk_buf_release(&l->part); /* a record may have been large, and most lines are not */
        l->skip = false;
        bytes += len + 1;
        n -= len + 1;
    }
}

void yk_lines_end(struct yk_lines *l, void (*line)(void *arg, const char *text, size_t n),
                  void *arg)
{
    if (l->part.len > 0 && !l->skip && !l->part.failed)
        line(arg, l->part.data, l->part.len);
    yk_buf_release(&l->part);
    l->skip = false;
}

bool yk_line_is_ours(const char *text, size_t n)
{
    return n >= 5 && (memcmp(text, "yoke:", 5) == 0 || memcmp(text, "hint:", 5) == 0 ||
                      (n >= 6 && memcmp(text, "rank ", 5) == 0 && isdigit((unsigned char)text[5])));
}

/* --- noise --- */

const char *yk_noise_add(struct yk_noise *noise, const char *text, size_t n)
{
    char *to = noise->line[noise->n % YK_NOISE_LINES];
    size_t len = 0, rule = 0;
    for (size_t i = 0; i < n && len + 1 < YK_NOISE_LINE; i++) {
        rule += text[i] == '-' || isspace((unsigned char)text[i]);
        to[len++] = (char)(text[i] == '\t' ? ' ' : iscntrl((unsigned char)text[i]) ? '?' : text[i]);
    }
    to[len] = '\0';
    if (rule == len) /* blank, or a rule across the page */
        return NULL;
    noise->n++;
    return to;
}

void yk_noise_show(const struct yk_noise *noise)
{
    size_t first = noise->n > YK_NOISE_LINES ? noise->n - YK_NOISE_LINES : 0;
    for (size_t i = first; i < noise->n; i++)
        fprintf(stderr, "mpirun: %s\n", noise->line[i % YK_NOISE_LINES]);
}

/* --- blame --- */

/* Lines of ssh and its shell if a host cannot be reached or has no Open MPI, and mpirun's own
 * summary of it. */
static const char *const causes[] = {"ssh: ",
                                     "Permission denied",
                                     "Host key verification failed",
                                     "orted: command not found",
                                     "orted: not found",
                                     "orted: No such file",
                                     "ORTE was unable to reliably start one or more daemons"};

static const char *find_cause(const struct yk_noise *noise)
{
    size_t first = noise->n > YK_NOISE_LINES ? noise->n - YK_NOISE_LINES : 0;
    for (size_t c = 0; c < sizeof causes / sizeof causes[0]; c++)
        for (size_t i = first; i < noise->n; i++)
            if (strstr(noise->line[i % YK_NOISE_LINES], causes[c]) != NULL)
                return noise->line[i % YK_NOISE_LINES];
    return NULL;
}

/* Does `line` name `host`, and not merely a longer name that contains it? */
static bool names(const char *line, const char *host)
{
    size_t n = strlen(host);
    for (const char *p = line; (p = strstr(p, host)) != NULL; p++) {
        bool starts = p == line || !(isalnum((unsigned char)p[-1]) || p[-1] == '-' || p[-1] == '.');
        bool ends = !(isalnum((unsigned char)p[n]) || p[n] == '-' ||
                      (p[n] == '.' && isalnum((unsigned char)p[n + 1])));
        if (starts && ends)
            return true;
    }
    return false;
}

bool yk_noise_blame(const struct yk_noise *noise, const struct yk_launch *l, struct yk_error *e)
{
    size_t ranks = l->owners + l->hosts->workers.n, others = 0;
    const char *line = find_cause(noise), *named = NULL, *other = NULL;
    if (line == NULL)
        return false;
    for (size_t i = 0; i < ranks && named == NULL; i++) {
        const char *host = yk_launch_host(l, i);
        if (yk_host_is_local(host))
            continue;
        if (names(line, host))
            named = host;
        others += other == NULL || strcmp(other, host) != 0;
        other = host;
    }
    if (other == NULL)
        return false;
    if (named == NULL && others == 1)
        named = other;
    if (named != NULL)
        yk_fail(e, YK_LOST, "cannot start anything on host '%s': %s", named, line);
    else
        yk_fail(e, YK_LOST, "cannot start anything on one of the other hosts: %s", line);
    yk_hint(e, "'ssh %s orted --version' must work without a password",
            named != NULL ? named : other);
    return true;
}
