/* export.c - `yoke export`: a trained model in a format that other tools read. */
#include "cmd/trained.h"

#include "param/npz.h"
#include "param/text.h"

#include <string.h>

/* What --to names. A new format is a writer and a line here, and its name among the option's choices. */
static const struct {
    const char *name;
    yk_code (*write)(const char *path, const struct yk_params *p, struct yk_error *e);
} FORMATS[] = {{"npz", yk_npz_write}, {"text", yk_text_write}};

static yk_code write_model(const char *format, const char *path, const struct yk_params *p, struct yk_error *e)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++)
        if (strcmp(FORMATS[i].name, format) == 0)
            return FORMATS[i].write(path, p, e);
    return yk_fail(e, YK_USAGE, "--to: there is no writer for '%s'", format);
}

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    struct yk_trained t = {0};
    yk_code rc = open_trained(call, &t, e);
    if (rc != YK_OK)
        return rc;
    rc = write_model(o->to, o->output, &t.params, e);
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
    .args = "RUN|FILE --to npz|text -o FILE",
    .summary = "write a trained model for other tools",
    .details = "npz: NumPy's archive, one float32 array per parameter; numpy.load reads it.\n"
               "text: a line name:index:value for every weight that is not zero.\n"
               "Checkpoints themselves are safetensors files and need no export.",
    .examples = "yoke export runs/latest --to npz -o digits.npz\n"
                "yoke export runs/latest --to text -o weights.txt",
    .most = 1,
    .run = run,
};
