/* predict.c - `yoke predict`: the label and the class probabilities of every example, as CSV. */
#include "cmd/saved_model.h"

#include "base/buf.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

static void csv_row(struct yk_buf *text, uint32_t row, const float *p, uint32_t classes)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        best = p[c] > p[best] ? c : best;
    yk_buf_format(text, "%u,%u", row, best);
    for (uint32_t c = 0; c < classes; c++)
        yk_buf_format(text, ",%.6g", (double)p[c]);
    yk_buf_text(text, "\n");
}

/* Writes the lines gathered so far to the file or to standard output. */
static yk_code drain(struct yk_outfile *file, struct yk_buf *text, struct yk_error *e)
{
    yk_code rc = YK_OK;
    if (text->failed)
        rc = yk_fail_memory(e, text->len);
    else if (file->fd >= 0)
        rc = yk_outfile_write(file, text->data, text->len, e);
    else if (fwrite(text->data, 1, text->len, stdout) != text->len)
        rc = yk_fail_errno(e, YK_FAILED, "cannot write to standard output");
    yk_buf_clear(text);
    return rc;
}

/* row,label,p0,p1,... */
static yk_code write_csv(const char *path, const float *prob, uint32_t rows, uint32_t classes,
                         struct yk_error *e)
{
    enum { CHUNK = 1 << 16 };
    struct yk_outfile file = {.fd = -1};
    struct yk_buf text = {0};
    yk_code rc = path != NULL ? yk_outfile_open(&file, path, e) : YK_OK;
    if (rc != YK_OK)
        return rc;
    yk_buf_text(&text, "row,label");
    for (uint32_t c = 0; c < classes; c++)
        yk_buf_format(&text, ",p%u", c);
    yk_buf_text(&text, "\n");
    for (uint32_t i = 0; i < rows && rc == YK_OK; i++) {
        csv_row(&text, i, prob + (size_t)i * classes, classes);
        if (text.failed || text.len >= CHUNK)
            rc = drain(&file, &text, e);
    }
    if (rc == YK_OK)
        rc = drain(&file, &text, e);
    yk_buf_release(&text);
    if (path != NULL && rc == YK_OK)
        return yk_outfile_commit(&file, e);
    yk_outfile_abort(&file);
    return rc;
}

#define AT(f) offsetof(struct score_options, f)
static const struct yk_opt TABLE[] = {
    {"data", .field = AT(data)},
    {"test-data", .field = AT(test_data)},
    {"test-batch", .field = AT(test_batch)},
    {"threads", .field = AT(threads)},
    {"isa", .field = AT(isa)},
    {"format", .field = AT(format)},
    {"hash-bits", .field = AT(hash_bits)},
    {"skip-bad", .field = AT(skip_bad)},
    {"label-name", .field = AT(label_name)},
    {"index-name", .field = AT(index_name)},
    {"value-name", .field = AT(value_name)},
    {"output", 'o', YK_OPT_TEXT, AT(output), NULL, 0, 0, NULL, "FILE", YK_OPT_TRANSIENT,
     "file to write (predict: default standard output)"},
    {"config", .field = AT(config)},
    {"quiet", .field = AT(quiet)},
    {0},
};

static yk_code run(struct call *call, struct yk_error *e)
{
    const struct score_options *o = call->values;
    struct yk_trained t = {0};
    struct yk_dataset set = {0};
    struct yk_score score = {0};
    const char *data;
    float *prob = NULL;
    const char *output = o->output != NULL ? o->output : "-";
    bool to_file = strcmp(output, "-") != 0;
    yk_code rc = check_model_output(call, output, e);
    if (rc == YK_OK)
        rc = open_model(call, o->threads, o->isa, &t, e);
    if (rc != YK_OK)
        return rc;
    rc = open_examples(call, &t, output, &set, &data, e);
    if (rc != YK_OK)
        goto out;
    size_t bytes = sizeof(float) * set.rows * t.shape.classes;
    prob = malloc(bytes + 1);
    if (prob == NULL) {
        rc = yk_fail_memory(e, bytes);
        goto out;
    }
    rc = yk_trained_score(&t, &set, (uint32_t)o->test_batch, &score, prob, e);
    if (rc == YK_OK)
        rc = write_csv(to_file ? o->output : NULL, prob, set.rows, t.shape.classes, e);
    if (rc == YK_OK && to_file && !o->quiet)
        fprintf(stderr, "yoke: %u predictions in '%s'\n", set.rows, o->output);
out:
    free(prob);
    yk_dataset_release(&set);
    yk_trained_close(&t);
    return rc;
}

const struct verb verb_predict = {
    .name = "predict",
    .args = "RUN|FILE [--data DATA] [-o FILE]",
    .summary = "labels and class probabilities as CSV",
    .details = "Writes one line per example of the test part of DATA (default: the data it was\n"
               "trained on): row, the most likely label, and the probability of every class.",
    .examples = "yoke predict runs/latest -o predictions.csv\n"
                "yoke predict runs/latest --data digits/t10k-images-idx3-ubyte | head",
    .most = 1,
    .options = TABLE,
    .values = sizeof(struct score_options),
    .run = run,
};
