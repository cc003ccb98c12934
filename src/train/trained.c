/* trained.c - see trained.h. The checkpoint's metadata say everything that is needed; the run
 * folder around it only saves typing. */
#include "train/trained.h"

#include "param/checkpoint.h"
#include "train/evaluate.h"
#include "train/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct yk_rows NO_ROWS; /* tells a model's shape that it is sparse */

static yk_code read_checkpoint(struct yk_trained *t, const char *what, struct yk_tensors *file,
                               void (*damaged)(void *arg, const struct yk_error *why), void *arg,
                               struct yk_error *e)
{
    char dir[YK_PATH_MAX];
    int found;
    if (!yk_is_dir(what)) {
        yk_code rc = yk_path(t->path, e, "%s", what);
        return rc == YK_OK ? yk_tensors_read(what, file, e) : rc;
    }
    yk_code rc = yk_path(dir, e, "%s/checkpoints", what);
    if (rc == YK_OK)
        rc = yk_checkpoint_newest(dir, file, t->path, &found, damaged, arg, e);
    if (rc == YK_OK && !found) {
        yk_fail(e, YK_DATA, "'%s' holds no checkpoint", what);
        yk_hint(e, "name a run folder, such as runs/latest, or a .safetensors file");
        rc = YK_DATA;
    }
    return rc;
}

/* Other models than nets have no text. */
static yk_code read_net(struct yk_trained *t, const struct yk_tensors *file, struct yk_error *e)
{
    struct yk_error why;
    struct yk_buf text = {0};
    yk_code rc = yk_saved_text(file, "net", &text, e);
    if (rc == YK_OK && text.len == 0)
        return YK_OK;
    if (rc == YK_OK && yk_net_parse(t->name, text.data, text.len, &t->net, &why) != YK_OK)
        rc = yk_fail(e, YK_DATA, "'%s': %.300s", t->path, why.text); /* the file is wrong */
    yk_buf_release(&text);
    const char *engine = yk_tensors_meta(file, "engine");
    snprintf(t->engine, sizeof t->engine, "%s", engine != NULL ? engine : "auto");
    t->ops = rc == YK_OK ? &yk_model_net : NULL;
    return rc;
}

static yk_code read_meta(struct yk_trained *t, const struct yk_tensors *file, struct yk_error *e)
{
    const char *model = yk_tensors_meta(file, "model"), *data = yk_tensors_meta(file, "data"),
               *shape = yk_tensors_meta(file, "shape");
    const char *classes = yk_tensors_meta(file, "classes");
    uint32_t *d = t->shape.shape;
    yk_code rc = yk_saved_format(file, t->path, e);
    if (rc != YK_OK)
        return rc;
    if (!yk_tensors_count(file, "step", &t->step))
        return yk_fail(e, YK_DATA, "'%s' does not say after which step it was written", t->path);
    if (model == NULL || data == NULL || shape == NULL || classes == NULL ||
        strlen(model) >= sizeof t->name || sscanf(shape, "%ux%ux%u", &d[0], &d[1], &d[2]) != 3 ||
        d[0] == 0 || d[1] == 0 || d[2] == 0 || (double)d[0] * d[1] * d[2] > UINT32_MAX)
        return yk_fail(e, YK_DATA,
                       "'%s' was not written by yoke: its metadata names no model, data and shape",
                       t->path);
    snprintf(t->name, sizeof t->name, "%s", model);
    const char *test_data = yk_tensors_meta(file, "test_data");
    snprintf(t->data, sizeof t->data, "%s", data);
    snprintf(t->test_data, sizeof t->test_data, "%s", test_data != NULL ? test_data : data);
    snprintf(t->shape.name, sizeof t->shape.name, "%.*s", (int)sizeof t->shape.name - 1, model);
    t->shape.features = d[0] * d[1] * d[2];
    t->shape.classes = (uint32_t)strtoul(classes, NULL, 10);
    const char *holdout = yk_tensors_meta(file, "holdout"),
               *bits = yk_tensors_meta(file, "hash_bits");
    uint64_t hash_bits = 0;
    t->holdout = holdout != NULL && test_data == NULL ? strtod(holdout, NULL) : 0;
    if (!(t->holdout >= 0 && t->holdout < 1) ||
        (bits != NULL && (!yk_tensors_count(file, "hash_bits", &hash_bits) || hash_bits > 31)))
        return yk_fail(e, YK_DATA, "'%s' is damaged: its holdout or hash_bits is out of range",
                       t->path);
    t->how.hash_bits = (unsigned)hash_bits;
    static const char *const WORDS[] = {"row_format", "label_name", "index_name", "value_name"};
    const char **word[] = {&t->how.format, &t->how.label, &t->how.index, &t->how.value};
    for (size_t i = 0; i < 4; i++) {
        const char *text = yk_tensors_meta(file, WORDS[i]);
        snprintf(t->reading[i], sizeof t->reading[i], "%s", text != NULL ? text : "");
        *word[i] = text != NULL ? t->reading[i] : NULL;
    }
    struct yk_buf names = {0};
    rc = yk_saved_text(file, "class_names", &names, e);
    if (rc == YK_OK && names.len > 0)
        t->shape.class_names = names.data;
    else
        yk_buf_release(&names);
    if (rc == YK_OK)
        rc = read_net(t, file, e);
    if (rc != YK_OK)
        return rc;
    if (t->ops == NULL)
        t->ops = yk_model_find(t->name);
    if (t->ops != NULL && t->ops->keys != NULL)
        t->shape.sparse = &NO_ROWS;
    return t->ops != NULL
               ? YK_OK
               : yk_fail(e, YK_DATA, "'%s' holds a '%s', a model this yoke does not know", t->path,
                         t->name);
}

static yk_code open_model(struct yk_trained *t, struct yk_error *e)
{
    const struct yk_net_how how = {0}; /* nothing is drawn or smoothed any more */
    return t->ops->open_net != NULL ? t->ops->open_net(&t->model, &t->net, &how, &t->shape, e)
                                    : t->ops->open(&t->model, &t->shape, e);
}

yk_code yk_trained_open(struct yk_trained *t, const char *what, unsigned threads, const char *isa,
                        void (*damaged)(void *arg, const struct yk_error *why), void *arg,
                        struct yk_error *e)
{
    struct yk_tensors file = {0};
    struct yk_error why;
    *t = (struct yk_trained){0};
    yk_code rc = read_checkpoint(t, what, &file, damaged, arg, e);
    if (rc != YK_OK)
        return rc;
    rc = read_meta(t, &file, e);
    if (rc == YK_OK && (rc = open_model(t, &why)) != YK_OK)
        rc = yk_fail(e, rc == YK_USAGE ? YK_DATA : rc, "'%s': %.200s", t->path,
                     why.text); /* the file is wrong, not the caller */
    if (rc == YK_OK)
        rc = t->ops->layout(t->model, &t->params, 0, e);
    if (rc == YK_OK && t->params.flat == NULL) /* a sparse model leaves it to its owner */
        t->params.flat = yk_floats(t->params.count);
    if (rc == YK_OK && t->params.flat == NULL) {
        yk_fail_memory(e, t->params.count * sizeof(float));
        rc = YK_FAILED; /* said once more, because clang-tidy does not look into yk_fail_memory */
    }
    for (size_t i = 0; rc == YK_OK && i < t->params.views; i++) {
        const struct yk_view *v = &t->params.view[i];
        const struct yk_tensor *from = yk_tensors_view(&file, "", v);
        if (from == NULL)
            rc = yk_fail(e, YK_DATA, "'%s' has no tensor '%s' of the model's shape", t->path,
                         v->name);
        else if (!yk_floats_finite(from->data, from->count))
            rc = yk_fail(e, YK_DATA,
                         "'%s' cannot be used: tensor '%s' has values that are infinite or NaN",
                         t->path, v->name);
        else
            memcpy(t->params.flat + v->at, from->data, v->count * sizeof(float));
    }
    if (rc == YK_OK)
        rc = yk_tensors_intact(&file, t->path, e);
    const char *engine;
    char said[256];
    if (rc == YK_OK && t->ops->engine != NULL) /* that of the training, for equal numbers */
        rc = t->ops->engine(t->model, &t->params, t->engine, 64, threads, isa, &engine, said, e);
    if (rc == YK_OK)
        rc = t->ops->work_open(&t->work, t->model, threads, isa, e);
    yk_tensors_release(&file);
    if (rc != YK_OK)
        yk_trained_close(t);
    return rc;
}

void yk_trained_close(struct yk_trained *t)
{
    if (t->work != NULL)
        t->ops->work_close(t->work);
    yk_params_release(&t->params);
    if (t->model != NULL)
        t->ops->close(t->model);
    yk_net_release(&t->net);
    free(t->shape.class_names);
    *t = (struct yk_trained){0};
}

yk_code yk_trained_fits(const struct yk_trained *t, const struct yk_dataset *set,
                        struct yk_error *e)
{
    const uint32_t *a = t->shape.shape, *b = set->shape;
    bool same = set->sparse != NULL
                    ? t->ops->keys != NULL
                    : set->features == t->shape.features; /* unknown features count nothing */
    if (same && set->classes <= t->shape.classes)
        return YK_OK;
    return yk_fail(
        e, YK_USAGE,
        "'%s' (%ux%ux%u, %u classes) does not fit the model in '%s' (%ux%ux%u, %u classes)",
        set->name, b[0], b[1], b[2], set->classes, t->path, a[0], a[1], a[2], t->shape.classes);
}

static yk_code read_values(void *arg, const uint32_t *key, float *out, size_t n, struct yk_error *e)
{
    const struct yk_trained *t = arg;
    (void)e;
    for (size_t i = 0; i < n; i++)
        out[i] = t->params.flat[key[i]];
    return YK_OK;
}

yk_code yk_trained_score(struct yk_trained *t, struct yk_dataset *set, uint32_t batch,
                         struct yk_score *score, float *prob, struct yk_error *e)
{
    const struct yk_reader reader = {.read = read_values, .arg = t};
    yk_code rc = t->ops->packed ? yk_dataset_pack(set, e) : YK_OK;
    if (rc != YK_OK)
        return rc;
    struct yk_dataset view = *set;
    uint32_t *rows = malloc(((size_t)set->rows + 1) * sizeof *rows);
    if (rows == NULL)
        return yk_fail_memory(e, set->rows * sizeof *rows);
    yk_dataset_rows(set, rows);
    view.classes = t->shape.classes; /* a set may lack the highest classes */
    rc = view.rows > 0 ? yk_evaluate_prepare(t->ops, t->work, &view, batch, e) : YK_OK;
    if (rc == YK_OK)
        rc = yk_evaluate(t->ops, t->work, &t->params, &reader, &view, rows, batch, score, prob, e);
    free(rows);
    return rc;
}
