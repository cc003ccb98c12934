/* opt.h - options as data.
 *
 * Each verb of the program has one table of its options: name, type, default, range, help and the
 * field that the option fills. The command line, configuration files, --help, the man page, shell
 * completion and the config.json of a run all come from these tables. This file is the mechanism;
 * the options of training are in train/options.c, those of the other verbs in cmd/.
 *
 * A value remembers its *origin*, and a weaker origin never overwrites a stronger one, so the order
 * in which sources are read does not matter: built in < the model's own < the user's ini <
 * ./yoke.ini < a resumed run < --config FILE < command line. */
#ifndef YK_BASE_OPT_H
#define YK_BASE_OPT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum yk_opt_type {
    YK_OPT_FLAG,   /* bool */
    YK_OPT_INT,    /* int64_t */
    YK_OPT_REAL,   /* double */
    YK_OPT_TEXT,   /* char *, NULL while unset */
    YK_OPT_CHOICE, /* char *, one of `choices` */
    YK_OPT_EVERY,  /* struct yk_every: 100, 20000ex or 30s */
};

struct yk_every {
    enum { YK_NEVER, YK_STEPS, YK_EXAMPLES, YK_SECONDS } unit;
    double amount;
};

enum yk_origin {
    YK_BUILT_IN,
    YK_FROM_MODEL,
    YK_USER_INI,
    YK_LOCAL_INI,
    YK_RESUMED,
    YK_CONFIG_FILE,
    YK_COMMAND_LINE
};

enum {
    YK_OPT_ON_RESUME = 1, /* may be changed when a run is resumed */
    /* about this call, not about the run: neither saved in config.json nor read from it */
    YK_OPT_TRANSIENT = 2,
    /* does not change the result, or is common to most verbs: listed last in help */
    YK_OPT_SHARED = 4,
    YK_OPT_STOP = 8, /* a stop rule: giving any on resume replaces all that the run had */
    /* makes yoke contact other machines: refused in ./yoke.ini, which may be a stranger's */
    YK_OPT_FAR = 16,
};

struct yk_opt {
    const char *name; /* without the dashes */
    char letter;      /* 'o' for -o; 0 for none */
    enum yk_opt_type type;
    size_t field;        /* offset in the values struct */
    const char *value;   /* default as a user would type it; NULL: unset (the model may have one) */
    double min, max;     /* for INT and REAL */
    const char *choices; /* for CHOICE: "a|b|c" */
    const char *meta;    /* name of the value in --help: "N", "FILE" */
    uint32_t flags;
    const char *help; /* one line, lowercase, no full stop */
};

/* The options of one verb. A list of all sets ends in NULL. */
struct yk_opt_set {
    const char *verb;
    const struct yk_opt *table;
    size_t n;
};

struct yk_opts {
    const struct yk_opt *table;
    size_t n;
    void *values;           /* zeroed by the caller; yk_opts_init sets the defaults */
    enum yk_origin *origin; /* (n) */
    bool *given;            /* (n) the value has another origin than YK_BUILT_IN */
};

yk_code yk_opts_init(struct yk_opts *o, const struct yk_opt *table, size_t n, void *values,
                     struct yk_error *e);
void yk_opts_release(struct yk_opts *o); /* frees the texts in `values` too */
yk_code yk_opts_copy(struct yk_opts *to, void *values, const struct yk_opts *from,
                     struct yk_error *e);

/* Sets one option from text after checking type and range. `name` is without dashes; an unknown one
 * is YK_USAGE, with a suggestion. */
yk_code yk_opts_set(struct yk_opts *o, const char *name, const char *text, enum yk_origin origin,
                    struct yk_error *e);

bool yk_opts_given(const struct yk_opts *o, const char *name);
/* The source of the value; YK_BUILT_IN if it is the default. */
enum yk_origin yk_opts_origin(const struct yk_opts *o, const char *name);
/* Was it given for this call: on the command line or in --config FILE? */
bool yk_opts_typed(const struct yk_opts *o, const char *name);
/* Was any option with one of these flags given? With `typed` only options of this call count. */
bool yk_opts_any(const struct yk_opts *o, uint32_t flags, bool typed);
/* The field of an option; NULL if the table has no such option. */
const void *yk_opts_field(const struct yk_opts *o, const char *name);

/* Reads the arguments after `verb`. Words that are no options go to `words` (at most `max`). `all`
 * tells an option of another verb from a mistyped one. */
yk_code yk_opts_args(struct yk_opts *o, const char *verb, const struct yk_opt_set *const *all,
                     int argc, char *const *argv, const char **words, size_t max, size_t *n,
                     struct yk_error *e);

/* Reads a configuration file of lines `key = value`. A [verb] section holds for that verb; lines
 * before any section hold for every verb that has the option. An entry that is wrong for any verb
 * of `all` is YK_USAGE, which names file and line. */
yk_code yk_opts_ini(struct yk_opts *o, const char *path, const char *verb,
                    const struct yk_opt_set *const *all, enum yk_origin origin, struct yk_error *e);
yk_code yk_opts_ini_text(struct yk_opts *o, const char *text, const char *what, const char *verb,
                         const struct yk_opt_set *const *all, enum yk_origin origin,
                         struct yk_error *e);

/* Reads the user's own file and ./yoke.ini; both may be absent. */
yk_code yk_opts_usual_inis(struct yk_opts *o, const char *verb, const struct yk_opt_set *const *all,
                           struct yk_error *e);

/* Everything that a run should remember, as JSON numbers, booleans and strings; unset options are
 * left out. */
json_t *yk_opts_json(const struct yk_opts *o);
/* Sets options from such JSON, except those with one of the flags `but_not`. `what` names it in
 * errors. */
yk_code yk_opts_load(struct yk_opts *o, const json_t *saved, const char *what,
                     enum yk_origin origin, uint32_t but_not, struct yk_error *e);

/* The value as a user would type it ("" if unset). */
void yk_opt_text(const struct yk_opts *o, size_t i, char *out, size_t cap);

/* The word nearest to `typed`, or NULL if none is near. `words` has `n` entries, `stride` bytes
 * apart, each starting with a char *. */
const char *yk_nearest(const char *typed, const void *words, size_t n, size_t stride);

/* Is `word` one of the choices "a|b|c"? */
bool yk_choice_has(const char *choices, const char *word);

#endif
