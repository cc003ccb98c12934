/* help.c - `yoke help`, and the texts of --help, made from the verbs and their option tables. */
#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

enum { WIDE = 80, INDENT = 28 };

static void option_form(const struct yk_opt *t, char out[80])
{
    char letter[8] = "";
    if (t->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", t->letter);
    snprintf(out, 80, "%s--%s%s%s", letter, t->name, t->meta[0] != '\0' ? " " : "", t->meta);
}

void option_limits(const struct yk_opt *t, char *out, size_t cap)
{
    char range[96] = "", value[64] = "";
    if (t->type == YK_OPT_CHOICE)
        snprintf(range, sizeof range, "%.90s", t->choices);
    else if ((t->type == YK_OPT_INT || t->type == YK_OPT_REAL) && t->max < 9e15)
        snprintf(range, sizeof range, "%.10g to %.10g", t->min, t->max);
    if (t->value != NULL)
        snprintf(value, sizeof value, "%sdefault %.40s", range[0] != '\0' ? "; " : "", t->value);
    snprintf(out, cap, "%s%s", range, value);
}

/* Words wrapped into the column that starts at INDENT; the cursor is already there. */
static void wrap(FILE *out, const char *text)
{
    int at = INDENT;
    for (const char *p = text; *p != '\0';) {
        int n = (int)strcspn(p, " ");
        if (at > INDENT && at + 1 + n > WIDE) {
            fprintf(out, "\n%*s", INDENT, "");
            at = INDENT;
        } else if (at > INDENT) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", n, p);
        at += n;
        p += n + (p[n] == ' ');
    }
    fputc('\n', out);
}

static void list_options(FILE *out, const struct yk_opt_set *set, bool shared)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct yk_opt *t = &set->table[i];
        char form[80], limits[192], text[400];
        if (((t->flags & YK_OPT_SHARED) != 0) != shared)
            continue;
        option_form(t, form);
        option_limits(t, limits, sizeof limits);
        snprintf(text, sizeof text, limits[0] != '\0' ? "%s (%s)" : "%s", t->help, limits);
        fprintf(out, "  %-*s", INDENT - 3, form);
        if (strlen(form) > INDENT - 3)
            fprintf(out, "\n%*s", INDENT - 1, "");
        fputc(' ', out);
        wrap(out, text);
    }
}

static void indented(FILE *out, const char *text)
{
    for (const char *p = text; *p != '\0';) {
        int n = (int)strcspn(p, "\n");
        fprintf(out, n > 0 ? "  %.*s\n" : "%.*s\n", n, p);
        p += n + (p[n] == '\n');
    }
}

void help_verb(FILE *out, const struct verb *v)
{
    fprintf(out, "usage: yoke %s %s\n\n", v->name, v->args);
    indented(out, v->details);
    if (v->list != NULL) {
        fputc('\n', out);
        v->list(out);
    }
    fprintf(out, "\noptions:\n");
    list_options(out, verb_options(v), false);
    list_options(out, verb_options(v), true);
    fprintf(out, "  %-*s print this\n", INDENT - 3, "-h, --help");
    fprintf(out, "\nexamples:\n");
    indented(out, v->examples);
}

void help_overview(FILE *out)
{
    fprintf(out, "usage: yoke VERB [ARG] [--option value]\n\n"
                 "yoke trains models and tells why it is as fast as it is.\n\nverbs:\n");
    for (unsigned i = 0; verb_at(i) != NULL; i++)
        fprintf(out, "  %-10s %s\n", verb_at(i)->name, verb_at(i)->summary);
    fprintf(out,
            "\nexamples:\n"
            "  yoke train softmax --data mnist --target-loss 0.35\n"
            "  yoke eval runs/latest\n"
            "  yoke help train\n\n"
            "Options may also stand in ./yoke.ini or ~/.config/yoke/yoke.ini, as 'batch = 60'.\n");
}

struct help_options {
    bool man;
    char *completion;
};

#define AT(f) offsetof(struct help_options, f)
static const struct yk_opt TABLE[] = {
    {"man", 0, YK_OPT_FLAG, AT(man), NULL, 0, 0, NULL, "", YK_OPT_TRANSIENT,
     "print the manual page (roff)"},
    {"completion", 0, YK_OPT_CHOICE, AT(completion), NULL, 0, 0, "bash|zsh|fish", "SHELL",
     YK_OPT_TRANSIENT, "print the completion script of a shell"},
    {0},
};

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct help_options *o = call->values;
    if (o->man) {
        help_man(stdout);
    } else if (o->completion != NULL) {
        help_completion(stdout, o->completion);
    } else if (call->words == 0) {
        help_overview(stdout);
    } else {
        const struct verb *v = verb_find(call->word[0]);
        if (v == NULL)
            return unknown_verb(call->word[0], e);
        help_verb(stdout, v);
    }
    return YK_OK;
}

const struct verb verb_help = {
    .name = "help",
    .args = "[VERB] | --man | --completion SHELL",
    .summary = "explain a verb and its options",
    .details = "Without a verb, lists them. The manual page and the completion scripts that\n"
               "'make install' installs come from here too.",
    .examples = "yoke help train\n"
                "yoke help --man | man -l -\n"
                "source <(yoke help --completion bash)",
    .choices = YK_VERBS(SPACED),
    .most = 1,
    .options = TABLE,
    .values = sizeof(struct help_options),
    .run = run,
};
