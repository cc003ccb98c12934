/* eval.c - `yoke eval`: loss and accuracy of a trained model on test data. */
#include "cmd/saved_model.h"

#include "base/clock.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

/* AUC needs examples of both labels, precision and recall need some that are 1: the scores that
 * do not exist are left out. */
static void print_two_classes(const struct yk_score *s)
{
    const struct {
        const char *name, *unit;
        int digits;
        double value;
    } part[] = {{"AUC", "", 4, yk_score_auc(s, NULL)},
                {"precision", " %", 2, yk_score_precision(s) * 100},
                {"recall", " %", 2, yk_score_recall(s) * 100}};
    const char *between = "";
    for (unsigned i = 0; i < 3; i++)
        if (!isnan(part[i].value)) {
            printf("%s%s %.*f%s", between, part[i].name, part[i].digits, part[i].value,
                   part[i].unit);
            between = ", ";
        }
    if (*between != '\0')
        printf("\n");
}

static void show(const struct score_options *o, const struct yk_trained *t, const char *data,
                 const struct yk_score *score, double seconds)
{
    double loss = score->loss / (double)score->examples,
           accuracy = (double)score->correct / (double)score->examples;
    char hash[17];
    yk_params_hash(&t->params, hash);
    if (!o->json) {
        printf("%s at step %llu on %s: loss %.4f, accuracy %.2f %% (%llu of %llu), %.1f ms\n",
               t->name, (unsigned long long)t->step, data, loss, accuracy * 100,
               (unsigned long long)score->correct, (unsigned long long)score->examples,
               seconds * 1e3);
        if (score->bins != NULL)
            print_two_classes(score);
        return;
    }
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:s}", "model", t->name, "data", data,
                  "checkpoint", t->path, "global_steps", (json_int_t)t->step, "examples",
                  (json_int_t)score->examples, "test_loss", yk_json_real(loss), "test_accuracy",
                  yk_json_real(accuracy), "seconds", yk_json_real(seconds), "params_xxh3", hash);
    if (score->bins != NULL) {
        json_object_set_new(j, "test_auc", yk_json_real(yk_score_auc(score, NULL)));
        json_object_set_new(j, "test_precision", yk_json_real(yk_score_precision(score)));
        json_object_set_new(j, "test_recall", yk_json_real(yk_score_recall(score)));
    }
    json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    putchar('\n');
    json_decref(j);
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
    {"config", .field = AT(config)},
    {"json", .field = AT(json)},
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
    yk_code rc = open_model(call, o->threads, o->isa, &t, e);
    if (rc != YK_OK)
        return rc;
    rc = open_examples(call, &t, NULL, &set, &data, e);
    if (rc == YK_OK) {
        double start = yk_now();
        score.bins = set.sparse != NULL ? calloc(1, sizeof *score.bins) : NULL;
        rc = yk_trained_score(&t, &set, (uint32_t)o->test_batch, &score, NULL, e);
        if (rc == YK_OK)
            show(o, &t, data, &score, yk_now() - start);
    }
    free(score.bins);
    yk_dataset_release(&set);
    yk_trained_close(&t);
    return rc;
}

const struct verb verb_eval = {
    .name = "eval",
    .args = "RUN|FILE [options]",
    .summary = "loss and accuracy of a trained model",
    .details = "Evaluates the newest whole checkpoint of RUN, or a .safetensors FILE, on the\n"
               "test part of the data it was trained on, or on --data / --test-data.",
    .examples = "yoke eval runs/latest\n"
                "yoke eval runs/latest --test-data digits/t10k-images-idx3-ubyte --json",
    .most = 1,
    .options = TABLE,
    .values = sizeof(struct score_options),
    .run = run,
};
