/* export.c - `yoke export`: a trained model in a format that other tools read. */
#include "cmd/saved_model.h"

#include "data/rows/rows_format.h"
#include "param/npz.h"
#include "param/text.h"

#include <string.h>

static yk_code write_npz(const char *path, const struct yk_trained *t, struct yk_error *e)
{
    return yk_npz_write(path, &t->params, e);
}

static yk_code write_onnx(const char *path, const struct yk_trained *t, struct yk_error *e)
{
    if (t->ops->onnx == NULL)
        return yk_fail(e, YK_USAGE, "--to onnx: a '%s' cannot be written as a graph", t->name);
    return t->ops->onnx(t->model, &t->params, path, e);
}

static yk_code write_text(const char *path, const struct yk_trained *t, struct yk_error *e)
{
    return yk_text_write(path, &t->params, e);
}

/* The formats of --to. A new one is a writer, a line here, and a name among the option's
 * choices. */
static const struct {
    const char *name;
    yk_code (*write)(const char *path, const struct yk_trained *t, struct yk_error *e);
} FORMATS[] = {{"npz", write_npz}, {"onnx", write_onnx}, {"text", write_text}};

static yk_code write_model(const char *format, const char *path, const struct yk_trained *t,
                           struct yk_error *e)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++)
        if (strcmp(FORMATS[i].name, format) == 0)
            return FORMATS[i].write(path, t, e);
    return yk_fail(e, YK_USAGE, "--to: there is no writer for '%s'", format);
}

struct export_options {
    char *output;
    char *to;
    char *config;
    bool quiet;
};

#define AT(f) offsetof(struct export_options, f)
#define OR_NAME(name) "|" #name
static const struct yk_opt TABLE[] = {
    {"output", .field = AT(output)},
    {"to", 0, YK_OPT_CHOICE, AT(to), "npz", 0, 0, "npz|onnx|text" YK_ROW_FORMATS(OR_NAME) "|cache",
     "FORMAT", YK_OPT_TRANSIENT,
     "format to write (export: npz, onnx or text; data: a format of rows, by default that of "
     "FILE's suffix)"},
    {"config", .field = AT(config)},
    {"quiet", .field = AT(quiet)},
    {0},
};

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct export_options *o = call->values;
    struct yk_trained t = {0};
    if (o->output != NULL && strcmp(o->output, "-") == 0)
        return yk_fail(e, YK_USAGE, "'yoke export' writes a file, not standard output");
    if (o->output == NULL)
        return yk_fail(e, YK_USAGE, "'yoke export' needs -o FILE");
    if (!yk_choice_has("npz|onnx|text", o->to))
        return yk_fail(e, YK_USAGE, "'yoke export' writes npz, onnx or text, not %s", o->to);
    yk_code rc = check_model_output(call, o->output, e);
    if (rc == YK_OK)
        rc = open_model(call, 0, "auto", &t, e);
    if (rc != YK_OK)
        return rc;
    rc = write_model(o->to, o->output, &t, e);
    if (rc == YK_OK && !o->quiet)
        for (size_t i = 0; i < t.params.views; i++) {
            const struct yk_view *v = &t.params.view[i];
            fprintf(stderr, "yoke: '%s': %s, %zu floats\n", o->output, v->name, v->count);
        }
    yk_trained_close(&t);
    return rc;
}

const struct verb verb_export = {
    .name = "export",
    .args = "RUN|FILE --to npz|onnx|text -o FILE",
    .summary = "write a trained model for other tools",
    .details = "npz: NumPy's archive, one float32 array per parameter; numpy.load reads it.\n"
               "onnx: a graph that other programs run. Input 'pixels', float (N, height,\n"
               "width, channels), 0 to 255 as the data has them; logreg: 'features', float\n"
               "(N, features), at most 1048576 of them. Output 'probabilities', float\n"
               "(N, classes). Opset 13.\n"
               "text: a line name:index:value for every weight that is not zero.\n"
               "Checkpoints themselves are safetensors files and need no export.",
    .examples = "yoke export runs/latest --to npz -o digits.npz\n"
                "yoke export runs/latest --to onnx -o digits.onnx\n"
                "yoke export runs/latest --to text -o weights.txt",
    .most = 1,
    .options = TABLE,
    .values = sizeof(struct export_options),
    .run = run,
};
