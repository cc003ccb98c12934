/* completion.c - completion scripts for bash, zsh and fish, from the verbs and their option tables.
 * They are static text: completing never starts yoke. */
#include "cmd/cmd.h"

#include "model/net/net.h"

#include <string.h>

static void words_of(FILE *out, const struct yk_opt_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        fprintf(out, "--%s ", set->table[i].name);
    fputs("--help", out);
}

static void choices_of(FILE *out, const char *choices)
{
    for (const char *p = choices; *p != '\0'; p++)
        fputc(*p == '|' ? ' ' : *p, out);
}

/* The words that may come first after a verb. */
static void first_of(FILE *out, const struct verb *v)
{
    fputs(v->choices, out);
    if (v->takes_net)
        for (const struct yk_net_file *f = yk_net_files; f->name != NULL; f++)
            fprintf(out, "%s ", f->name);
}

/* Has a verb before this one the option too? */
static bool was_before(const struct yk_opt_set *const *set, const char *name)
{
    for (const struct yk_opt_set *const *s = all_options(); s < set; s++)
        for (size_t i = 0; i < (*s)->n; i++)
            if (strcmp((*s)->table[i].name, name) == 0)
                return true;
    return false;
}

static void bash(FILE *out)
{
    fputs("# bash completion for yoke\n_yoke()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} "
          "prev=${COMP_WORDS[COMP_CWORD-1]} "
          "verb=${COMP_WORDS[1]}\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        mapfile -t COMPREPLY < <(compgen -W \"",
          out);
    for (unsigned i = 0; verb_at(i) != NULL; i++)
        fprintf(out, "%s ", verb_at(i)->name);
    fputs("--help --version\" -- \"$cur\")\n        return\n    fi\n    case $prev in\n", out);
    for (const struct yk_opt_set *const *set = all_options(); *set != NULL; set++)
        for (size_t i = 0; i < (*set)->n; i++) {
            const struct yk_opt *t = &(*set)->table[i];
            if (t->type != YK_OPT_CHOICE || was_before(set, t->name))
                continue;
            fprintf(out, "    --%s) mapfile -t COMPREPLY < <(compgen -W \"", t->name);
            choices_of(out, t->choices);
            fputs("\" -- \"$cur\"); return ;;\n", out);
        }
    fputs("    esac\n    case $cur in\n    -*)\n        case $verb in\n", out);
    for (unsigned i = 0; verb_at(i) != NULL; i++) {
        fprintf(out, "        %s) mapfile -t COMPREPLY < <(compgen -W \"", verb_at(i)->name);
        words_of(out, verb_options(verb_at(i)));
        fputs("\" -- \"$cur\") ;;\n", out);
    }
    fputs("        esac\n        return ;;\n    esac\n    if [ \"$COMP_CWORD\" -eq 2 ]; then\n     "
          "   case $verb in\n",
          out);
    for (unsigned i = 0; verb_at(i) != NULL; i++)
        if (verb_at(i)->choices != NULL) {
            fprintf(out, "        %s) mapfile -t COMPREPLY < <(compgen -W \"", verb_at(i)->name);
            first_of(out, verb_at(i));
            fputs("\" -- \"$cur\"", out);
            if (verb_at(i)->takes_net)
                fputs("; compgen -f -X '!*.net' -- \"$cur\"; compgen -d -- \"$cur\"", out);
            fputs("); return ;;\n", out);
        }
    fputs("        esac\n    fi\n    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n}\ncomplete "
          "-o filenames -F _yoke yoke\n",
          out);
}

/* ' ends a single-quoted word, so it is written '\'' */
static void quoted(FILE *out, const char *text, const char *also)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'')
            fputs("'\\''", out);
        else if (strchr(also, *p) != NULL)
            fprintf(out, "\\%c", *p);
        else
            fputc(*p, out);
    }
}

static void zsh(FILE *out)
{
    fputs("#compdef yoke\n_yoke() {\n  local -a verbs\n  verbs=(\n", out);
    for (unsigned i = 0; verb_at(i) != NULL; i++) {
        fprintf(out, "    '%s:", verb_at(i)->name);
        quoted(out, verb_at(i)->summary, ":");
        fputs("'\n", out);
    }
    fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n  case "
          "$words[2] in\n",
          out);
    for (unsigned v = 0; verb_at(v) != NULL; v++) {
        const struct verb *verb = verb_at(v);
        fprintf(out, "  %s)\n    shift words; (( CURRENT-- ))\n    _arguments \\\n", verb->name);
        const struct yk_opt_set *set = verb_options(verb);
        for (size_t i = 0; i < set->n; i++) {
            const struct yk_opt *t = &set->table[i];
            fprintf(out, "      '--%s[", t->name);
            quoted(out, t->help, "[]:");
            fputs("]", out);
            if (t->type == YK_OPT_CHOICE) {
                fprintf(out, ":%s:(", t->meta);
                choices_of(out, t->choices);
                fputs(")", out);
            } else if (t->type == YK_OPT_TEXT) {
                fprintf(out, ":%s:_files", t->meta);
            } else if (t->type != YK_OPT_FLAG) {
                fprintf(out, ":%s:", t->meta);
            }
            fputs("' \\\n", out);
        }
        if (verb->choices != NULL) {
            fputs(verb->takes_net ? "      '1:word:{compadd " : "      '1:word:(", out);
            first_of(out, verb);
            fputs(verb->takes_net ? "; _files -g \"*.net\"}' " : ")' ", out);
        } else {
            fputs("      ", out);
        }
        fputs("'*:file:_files' ;;\n", out);
    }
    fputs("  esac\n}\n_yoke \"$@\"\n", out);
}

static void fish(FILE *out)
{
    fputs("# fish completion for yoke\n", out);
    for (unsigned v = 0; verb_at(v) != NULL; v++) {
        const struct verb *verb = verb_at(v);
        fprintf(out, "complete -c yoke -n __fish_use_subcommand -f -a %s -d '", verb->name);
        quoted(out, verb->summary, "\\");
        fputs("'\n", out);
        if (verb->choices != NULL) {
            fprintf(out, "complete -c yoke -n '__fish_seen_subcommand_from %s' -a '", verb->name);
            first_of(out, verb);
            fputs("'\n", out);
        }
        const struct yk_opt_set *set = verb_options(verb);
        for (size_t i = 0; i < set->n; i++) {
            const struct yk_opt *t = &set->table[i];
            fprintf(out, "complete -c yoke -n '__fish_seen_subcommand_from %s' -l %s", verb->name,
                    t->name);
            if (t->letter != 0)
                fprintf(out, " -s %c", t->letter);
            if (t->type == YK_OPT_CHOICE) {
                fputs(" -x -a '", out);
                choices_of(out, t->choices);
                fputs("'", out);
            } else if (t->type != YK_OPT_FLAG) {
                fputs(t->type == YK_OPT_TEXT ? " -r" : " -x", out);
            }
            fputs(" -d '", out);
            quoted(out, t->help, "\\");
            fputs("'\n", out);
        }
    }
}

void help_completion(FILE *out, const char *shell)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } SHELLS[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof SHELLS / sizeof SHELLS[0]; i++)
        if (strcmp(SHELLS[i].name, shell) == 0)
            SHELLS[i].print(out);
}
