/* export.c - `yoke export`: a trained model in a format that other tools read. */
#include "cmd/trained.h"

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
        return yk_fail(e, YK_USAGE, "--to onnx: there is no graph for a '%s'", t->name);
    return t->ops->onnx(t->model, &t->params, path, e);
}

static yk_code write_text(const char *path, const struct yk_trained *t, struct yk_error *e)
{
    return yk_text_write(path, &t->params, e);
}

/* What --to names. A new format is a writer and a line here, and its name among the option's choices. */
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

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    struct yk_trained t = {0};
    yk_code rc = open_trained(call, &t, e);
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
    .run = run,
};
