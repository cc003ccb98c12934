/* ini.c - fuzz target: any text is either read as a configuration file or refused with a sentence
 * that names a line; what was read can be saved as a run's config.json and comes back the same.
 * Tried for train, with its real table, and for a second verb that has the first few options of
 * it. */
#include "train/options.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool promise)
{
    if (!promise)
        abort();
}

static void open_options(struct yk_opts *o, struct yk_options *values, const struct yk_opt_set *set)
{
    memset(values, 0, sizeof *values);
    must(yk_opts_init(o, set->table, set->n, values, NULL) == YK_OK);
}

/* What was accepted is within its range, and saved and loaded again it is what it was. */
static void round_trip(const struct yk_opts *o, const struct yk_opt_set *set)
{
    struct yk_options values;
    struct yk_opts again;
    struct yk_error e = {0};
    json_t *saved = yk_opts_json(o), *twice;
    open_options(&again, &values, set);
    must(yk_opts_load(&again, saved, "fuzz", YK_RESUMED, 0, &e) == YK_OK);
    twice = yk_opts_json(&again);
    must(json_equal(saved, twice));
    json_decref(saved);
    json_decref(twice);
    yk_opts_release(&again);
}

static void read_for(const char *text, const struct yk_opt_set *set,
                     const struct yk_opt_set *const *all)
{
    struct yk_options values;
    struct yk_opts o;
    struct yk_error e = {0};
    open_options(&o, &values, set);
    yk_code rc = yk_opts_ini_text(&o, text, "fuzz", set->verb, all, YK_LOCAL_INI, &e);
    if (rc == YK_OK) {
        must(e.text[0] == '\0');
        round_trip(&o, set);
    } else {
        must(rc == YK_USAGE && e.code == rc && strncmp(e.text, "'fuzz' line ", 12) == 0);
    }
    for (size_t i = 0; i < o.n; i++) /* nothing that belongs on the command line came from a file */
        must(!o.given[i] ||
             (!(o.table[i].flags & YK_OPT_TRANSIENT) && o.origin[i] == YK_LOCAL_INI));
    yk_opts_release(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
    must(text != NULL);
    if (n > 0)
        memcpy(text, bytes, n);
    text[n] =
        '\0'; /* a NUL inside ends the text, as it does for the reader of files, which refuses it */
    const struct yk_opt_set train = {"train", yk_option_table, yk_option_count},
                            eval = {"eval", yk_option_table, 8};
    const struct yk_opt_set *const all[] = {&train, &eval, NULL};
    read_for(text, &train, all);
    read_for(text, &eval, all);
    free(text);
    return 0;
}
