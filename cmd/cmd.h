/* cmd.h - one file per verb, behind one list.
 *
 * A verb describes itself: its words, help, examples and option table are what `yoke help`, the
 * manual page, the completions and yoke.ini go by. A new verb is one file and one word in YK_VERBS.
 * main.c reads options and words, calls `run`, prints the error if there is one, and exits with the
 * code; nothing else exits. */
#ifndef YK_CMD_CMD_H
#define YK_CMD_CMD_H

#include "base/error.h"
#include "base/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define YK_VERBS(X)                                                                                \
    X(train) X(eval) X(predict) X(export) X(data) X(matmul) X(net) X(netcheck) X(testbed) X(help)

/* A list for a verb's `choices`: X(name) of YK_VERBS and the like. */
#define SPACED(name) #name " "

struct call {
    struct yk_opts opts; /* options from the command line and the files */
    const void *values;  /* the verb's struct that the options fill */
    const char *word[4]; /* arguments that are no options: MODEL, RUN, ... */
    size_t words;
    char **rest; /* arguments after "--", NULL-terminated; NULL unless the verb takes a command */
    int argc;    /* the whole command line, for a verb that starts the program again elsewhere */
    char **argv;
    int signal; /* out: the signal that ended the verb, for the exit code */
    /* out: if not 0, the exit code, from a command that the verb ran or could not run */
    int status;
    bool told; /* out: the error has been shown already, or another rank shows it */
    bool quit; /* out: end by _exit, because the engine between processes could not be closed */
};

struct verb {
    const char *name;
    const char *args;    /* "MODEL [options]" */
    const char *summary; /* one line */
    const char *details; /* a paragraph or more; lines of at most 78 characters */
    const char *examples;
    /* prints a list that belongs to the details (models, formats), one "  name  text" a line; NULL
     * if there is none */
    void (*list)(FILE *out);
    /* for completion: the first words that there are, separated by spaces; NULL if it is a path */
    const char *choices;
    bool takes_net;     /* the first word may also be a net of yoke's own, or a .net file */
    size_t most;        /* largest number of words that it takes */
    bool takes_command; /* it runs the command that stands after "--" */
    /* The option table, which ends in a row without a name. A row that has only a name and a field
     * repeats the row of the same name of a verb further up the list. */
    const struct yk_opt *options;
    size_t values; /* size of the struct that the options fill */
    yk_code (*run)(struct call *call, struct yk_error *e);
};

/* --- verbs.c: the list --- */

/* Completes the option tables; called once, before all others. */
yk_code verbs_open(struct yk_error *e);
void verbs_close(void);
const struct verb *verb_at(unsigned i); /* NULL past the end */
const struct verb *verb_find(const char *name);
/* Fills `e`, with a suggestion if a verb is near. */
yk_code unknown_verb(const char *name, struct yk_error *e);
/* The whole option table of a verb, and the tables of all verbs. */
const struct yk_opt_set *verb_options(const struct verb *v);
const struct yk_opt_set *const *all_options(void);

/* --- help.c, man.c, completion.c: made from the verbs and their option tables --- */

void help_overview(FILE *out);
void help_verb(FILE *out, const struct verb *v);
void help_man(FILE *out);
void help_completion(FILE *out, const char *shell);
/* "1 to 1000000; default 100", or "" */
void option_limits(const struct yk_opt *t, char *out, size_t cap);

/* --- main.c --- */

/* Prints the error and its hint on standard error. */
void print_error(const struct yk_error *e);

#endif
