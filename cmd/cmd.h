/* cmd.h - one file per verb behind one table (YK_VERBS in train/options.h lists them).
 *
 * A verb describes itself: its words, its help and its examples are what `yoke help`, the man page and the completions show. main.c
 * reads options and words, calls `run`, prints the error if there is one, and exits with the code; nothing else exits. */
#ifndef YK_CMD_CMD_H
#define YK_CMD_CMD_H

#include "base/error.h"
#include "train/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct call {
    struct yoke_config *config; /* options from the command line and the files */
    const char *word[4];        /* what is left: MODEL, RUN, ... */
    size_t words;
    char **rest; /* what stands after "--", NULL-terminated; NULL unless the verb takes a command */
    int argc;    /* the whole command line, for a verb that starts the program again elsewhere */
    char **argv;
    int signal; /* out: the signal that ended the verb, for the exit code */
    int status; /* out: the exit code of a command that the verb ran, if it ran to its end */
    bool told;  /* out: the error has been shown already, or is another rank's to show */
    bool quit;  /* out: end by _exit: the engine between processes could not be closed */
};

struct verb {
    const char *name;
    const char *args;    /* "MODEL [options]" */
    const char *summary; /* one line */
    const char *details; /* a paragraph or more; lines of at most 78 characters */
    const char *examples;
    void (*list)(
        FILE *
            out); /* a list that belongs to the details (models, formats), "  name  what it is" a line; NULL if none */
    const char *
        choices; /* for completion: what the first word may be, separated by spaces; NULL if it is a path */
    bool takes_net;     /* ... or the name of a net that comes with yoke, or a .net file */
    size_t most;        /* words it takes */
    bool takes_command; /* ... and, after "--", the command that it runs */
    yk_code (*run)(struct call *call, struct yk_error *e);
};

const struct verb *verb_at(unsigned i); /* NULL past the end */
const struct verb *verb_find(const char *name);
yk_code unknown_verb(const char *name,
                     struct yk_error *e); /* fills `e`, with a suggestion if a verb is near */

/* help.c, man.c, completion.c: all made from the verbs and the option table. */
void help_overview(FILE *out);
void help_verb(FILE *out, const struct verb *v);
void help_man(FILE *out);
void help_completion(FILE *out, const char *shell);

/* launch.c: does this call start a job on other hosts (--hosts, --hostfile, TF_CONFIG, or a resumed run that had them)? Then it does, and *done is
 * true. `train`: ranks are owners and workers; otherwise every rank is alike. */
yk_code launch_job(struct call *call, bool train, bool *done, struct yk_error *e);
/* For verbs that are not trained: --hosts and the like say where, else `here` processes of this machine. */
bool hosts_said(const struct yk_options *o);
yk_code launch_ranks(struct call *call, int64_t here, struct yk_error *e);

/* A list for a verb's `choices`: X(name) of YK_VERBS and the like. */
#define SPACED(name) #name " "

/* How an option looks in help: "-b, --batch N". */
void option_form(const struct yk_opt *t, char out[80]);
/* "1 to 1000000; default 100", or "" */
void option_limits(const struct yk_opt *t, char *out, size_t cap);

/* Print the error the way all of yoke does. */
void print_error(const struct yk_error *e);

#endif
