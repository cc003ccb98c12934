/* saved_model.c - see saved_model.h. --data in yoke.ini is for training: it does not change the
 * data that an old run is measured on. */
#include "cmd/saved_model.h"

#include "base/apart.h"
#include "base/file.h"
#include "base/team.h"
#include "record/run.h"

#include <string.h>

static void say_damaged(void *arg, const struct yk_error *why)
{
    (void)arg;
    fprintf(stderr, "yoke: warning: %s; using the checkpoint before it\n", why->text);
}

yk_code open_model(const struct call *call, int64_t threads, const char *isa, struct yk_trained *t,
                   struct yk_error *e)
{
    if (call->words == 0) {
        yk_fail(e, YK_USAGE, "which run?");
        yk_hint(e, "name a run folder, such as runs/latest, or a .safetensors file");
        return YK_USAGE;
    }
    return yk_trained_open(t, call->word[0], threads > 0 ? (unsigned)threads : yk_cpus(), isa,
                           say_damaged, NULL, e);
}

yk_code check_model_output(const struct call *call, const char *output, struct yk_error *e)
{
    const char *what = call->words > 0 ? call->word[0] : "";
    yk_code rc = yk_run_spare(output, e);
    if (rc == YK_OK)
        rc = yk_is_dir(what) ? yk_run_apart(what, output, e) : yk_apart(what, output, e);
    return rc;
}

yk_code open_examples(const struct call *call, const struct yk_trained *t, const char *output,
                      struct yk_dataset *set, const char **name, struct yk_error *e)
{
    const struct score_options *o = call->values;
    const struct yk_opts *opts = &call->opts;
    *name = yk_opts_typed(opts, "test-data") ? o->test_data
            : yk_opts_typed(opts, "data")    ? o->data
                                             : t->test_data;
    bool same = *name == t->test_data; /* as the run itself was evaluated */
    struct yk_reading how = t->how;
    struct yk_dataset train = {0};
    bool sparse = t->ops->keys != NULL;
    if (same && strcmp(*name, "-") == 0) {
        yk_fail(e, YK_USAGE,
                "the run took its data from standard input, which cannot be read again");
        yk_hint(e, "--data FILE says what to take instead; --data - takes what is piped in now");
        return YK_USAGE;
    }
    if (output != NULL && yk_data_apart(*name, output, e) != YK_OK)
        return YK_USAGE;
    if (!sparse || yk_data_is_dense(*name)) {
        struct yk_imaging image = {.holdout = same ? t->holdout : 0,
                                   .classes = t->shape.class_names};
        /* photos are brought to the size that the model was made for */
        memcpy(image.shape, t->shape.shape, sizeof image.shape);
        yk_code rc = yk_data_open_test(*name, &image, set, e);
        if (rc == YK_OK && sparse && set->classes == 2)
            rc = yk_dataset_sparse(set, e);
        return rc == YK_OK ? yk_trained_fits(t, set, e) : rc;
    }
    if (yk_opts_typed(opts, "hash-bits") && o->hash_bits != (int64_t)how.hash_bits) {
        yk_fail(e, YK_USAGE, "'%s' was not trained with --hash-bits %lld", t->path,
                (long long)o->hash_bits);
        yk_hint(e, "leave it out: rows are hashed as those that the model was trained on");
        return YK_USAGE;
    }
    how.skip_bad = (uint64_t)o->skip_bad;
    how.threads = (unsigned)o->threads;
    how.format = yk_opts_typed(opts, "format") ? o->format : how.format;
    how.label = yk_opts_typed(opts, "label-name") ? o->label_name : how.label;
    how.index = yk_opts_typed(opts, "index-name") ? o->index_name : how.index;
    how.value = yk_opts_typed(opts, "value-name") ? o->value_name : how.value;
    yk_code rc = yk_data_open_rows(*name, &how, same ? t->holdout : 0, &train, set, e);
    if (rc == YK_OK && set->rows > 0)
        set->borrowed = false; /* the held-out part now closes the rows */
    else
        *set = train;
    return rc == YK_OK ? yk_trained_fits(t, set, e) : rc;
}
