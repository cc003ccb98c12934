/* export.c - `yoke export`: a trained model in a format that other tools read. */
#include "cmd/trained.h"

#include "param/npz.h"

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    struct yk_trained t = {0};
    yk_code rc = open_trained(call, &t, e);
    if (rc != YK_OK)
        return rc;
    rc = yk_npz_write(o->output, &t.params, e);
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
    .args = "RUN|FILE --to npz -o FILE",
    .summary = "write a trained model for other tools",
    .details = "npz: NumPy's archive, one float32 array per parameter; numpy.load reads it.\n"
               "Checkpoints themselves are safetensors files and need no export.",
    .examples = "yoke export runs/latest --to npz -o digits.npz",
    .most = 1,
    .run = run,
};
