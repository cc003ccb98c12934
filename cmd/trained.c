/* trained.c - see trained.h. A default in yoke.ini is for training: it does not change what an old run is measured on. */
#include "cmd/trained.h"

#include "base/team.h"

#include <string.h>

static void say_damaged(void *arg, const struct yk_error *why)
{
    (void)arg;
    fprintf(stderr, "yoke: warning: %s; using the checkpoint before it\n", why->text);
}

yk_code open_trained(struct call *call, struct yk_trained *t, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    if (call->words == 0) {
        yk_fail(e, YK_USAGE, "which run?");
        yk_hint(e, "name a run folder, such as runs/latest, or a .safetensors file");
        return YK_USAGE;
    }
    return yk_trained_open(t, call->word[0], o->threads > 0 ? (unsigned)o->threads : yk_cpus(),
                           o->isa, say_damaged, NULL, e);
}

yk_code open_examples(struct call *call, const struct yk_trained *t, struct yk_dataset *set,
                      const char **name, struct yk_error *e)
{
    const struct yk_options *o = &call->config->o;
    const struct yk_opts *opts = &call->config->opts;
    *name = yk_opts_typed(opts, "test-data") ? o->test_data
            : yk_opts_typed(opts, "data")    ? o->data
                                             : t->test_data;
    bool same = *name == t->test_data; /* what it was evaluated on */
    struct yk_reading how = t->how;
    struct yk_dataset train = {0};
    bool sparse = t->ops->keys != NULL;
    if (same && strcmp(*name, "-") == 0) {
        yk_fail(e, YK_USAGE,
                "the run took its data from standard input, which cannot be read again");
        yk_hint(e, "--data FILE says what to take instead; --data - takes what is piped in now");
        return YK_USAGE;
    }
    if (!sparse || yk_data_is_dense(*name)) {
        struct yk_imaging image = {.holdout = same ? t->holdout : 0,
                                   .classes = t->shape.class_names};
        memcpy(image.shape, t->shape.shape,
               sizeof image.shape); /* photos are brought to what the model was made for */
        yk_code rc = yk_data_open_test(*name, &image, set, e);
        if (rc == YK_OK && sparse && set->classes == 2)
            rc = yk_dataset_sparse(set, e);
        return rc == YK_OK ? yk_trained_fits(t, set, e) : rc;
    }
    how.skip_bad = (uint64_t)o->skip_bad;
    if (yk_opts_typed(opts, "format"))
        how.format = o->format;
    yk_code rc = yk_data_open_rows(*name, &how, same ? t->holdout : 0, &train, set, e);
    if (rc == YK_OK && set->rows > 0) { /* the held-out part is the one that closes the rows then */
        set->borrowed = false;
    } else {
        *set = train;
    }
    return rc == YK_OK ? yk_trained_fits(t, set, e) : rc;
}
