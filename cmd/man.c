/* man.c - the manual page yoke(1), in mdoc, from the verbs and their option tables. docs/yoke.1 is
 * its output; `make check-man` compares. */
#include "cmd/cmd.h"

#include "base/buf.h"

#include <string.h>

/* Text with roff's special characters made harmless, one input line per output line. */
static void escaped(FILE *out, const char *text)
{
    bool start = true;
    for (const char *p = text; *p != '\0'; p++) {
        if (start && (*p == '.' || *p == '\''))
            fputs("\\&", out);
        if (*p == '\\')
            fputs("\\e", out);
        else if (*p == '-')
            fputs("\\-", out);
        else
            fputc(*p, out);
        start = *p == '\n';
    }
}

/* Running text: a new sentence begins a new line, an empty line a new paragraph. */
static void paragraph(FILE *out, const char *text)
{
    struct yk_buf lines = {0};
    for (const char *p = text; *p != '\0'; p++) {
        if (p[0] == '\n' && p[1] == '\n') {
            yk_buf_text(&lines, "\n.Pp\n");
            p++;
        } else if (p[0] == '.' && p[1] == ' ') {
            yk_buf_text(&lines, ".\n");
            p++;
        } else {
            yk_buf_add(&lines, p, 1);
        }
    }
    for (const char *p = lines.data; p != NULL && *p != '\0';) {
        int n = (int)strcspn(p, "\n");
        char line[512];
        snprintf(line, sizeof line, "%.*s", n, p);
        if (strcmp(line, ".Pp") == 0)
            fputs(line, out);
        else
            escaped(out, line);
        fputc('\n', out);
        p += n + (p[n] == '\n');
    }
    yk_buf_release(&lines);
}

static void list_options(FILE *out, const struct yk_opt_set *set)
{
    fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < set->n; i++) {
        const struct yk_opt *t = &set->table[i];
        char limits[192];
        fputs(".It ", out);
        if (t->letter != 0)
            fprintf(out, "Fl %c , ", t->letter);
        fprintf(out, "Fl \\-%s", t->name);
        if (t->meta[0] != '\0')
            fprintf(out, " Ar %s", t->meta);
        fputc('\n', out);
        escaped(out, t->help);
        option_limits(t, limits, sizeof limits);
        if (limits[0] != '\0') {
            fputs(" (", out);
            escaped(out, limits);
            fputc(')', out);
        }
        fputs(".\n", out);
    }
    fputs(".El\n", out);
}

void help_man(FILE *out)
{
    fputs(".Dd November 15, 2026\n.Dt YOKE 1\n.Os\n.Sh NAME\n.Nm yoke\n.Nd trains models and tells "
          "why it is as fast as it is\n"
          ".Sh SYNOPSIS\n",
          out);
    for (unsigned i = 0; verb_at(i) != NULL; i++) {
        fprintf(out, ".Nm\n.Cm %s\n", verb_at(i)->name);
        escaped(out, verb_at(i)->args);
        fputc('\n', out);
    }
    fputs(".Sh DESCRIPTION\n.Nm\ntrains models on one machine or several, reports what it did, and "
          "resumes an interrupted run bit for bit.\n"
          "Results go to standard output, progress and messages to standard error.\n",
          out);
    for (unsigned i = 0; verb_at(i) != NULL; i++) {
        const struct verb *v = verb_at(i);
        fprintf(out, ".Ss %s \\- %s\n", v->name, v->summary);
        paragraph(out, v->details);
        if (v->list != NULL) {
            fputs(".Bd -literal\n", out);
            v->list(out);
            fputs(".Ed\n", out);
        }
        fputs(".Pp\nOptions:\n", out);
        list_options(out, verb_options(v));
        fputs(".Pp\nExamples:\n.Bd -literal -offset indent\n", out);
        escaped(out, v->examples);
        fputs("\n.Ed\n", out);
    }
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width XDG_CONFIG_HOME\n.It Ev XDG_CACHE_HOME\nWhere fetched "
          "data is kept, in yoke/.\n"
          ".It Ev XDG_CONFIG_HOME\nWhere yoke/yoke.ini is looked for.\n.It Ev NO_COLOR\nIf set, "
          "nothing is coloured.\n.El\n"
          ".Sh FILES\n.Bl -tag -width Ds\n.It Pa ./yoke.ini\nOptions for this folder:\n.Ql batch = "
          "60 ,\n"
          "sections such as\n.Ql [train]\nfor one verb.\nThe command line overrides it, and it "
          "overrides the user's file.\n"
          ".It Pa ~/.config/yoke/yoke.ini\nOptions for this user.\n.It Pa runs/\nRun folders; "
          "runs/latest is the newest.\n.El\n"
          ".Sh EXIT STATUS\n.Bl -tag -width Ds -compact\n.It 0\ndone\n.It 1\nfailed: the disk is "
          "full, memory is short, training "
          "diverged\n"
          ".It 2\nusage or configuration\n.It 3\na data file or checkpoint is missing, unreadable "
          "or malformed\n"
          ".It 4\na process was lost beyond recovery\n.It 130, 143\nended by a signal, after "
          "saving\n.El\n",
          out);
}
