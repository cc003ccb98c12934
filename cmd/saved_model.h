/* saved_model.h - the common part of the verbs that use a trained model: they open the model, and
 * the examples to score. */
#ifndef YK_CMD_SAVED_MODEL_H
#define YK_CMD_SAVED_MODEL_H

#include "cmd/cmd.h"
#include "train/trained.h"

/* The options of eval and predict. */
struct score_options {
    char *data;
    char *test_data;
    int64_t test_batch;
    int64_t threads;
    char *isa;
    char *format;
    int64_t hash_bits;
    int64_t skip_bad;
    char *label_name;
    char *index_name;
    char *value_name;
    char *output; /* predict */
    char *config;
    bool json; /* eval */
    bool quiet;
};

/* The model that the call's first word names. Damaged checkpoints that were passed over are
 * reported on standard error. `threads` 0: one per core. */
yk_code open_model(const struct call *call, int64_t threads, const char *isa, struct yk_trained *t,
                   struct yk_error *e);

/* Before anything is opened: `output` is neither the model that the call's first word names nor a
 * run's own file. */
yk_code check_model_output(const struct call *call, const char *output, struct yk_error *e);

/* The examples to score: --test-data or --data if this call has them, else those that the run
 * itself was evaluated on. `name` is the user's name for them; none of their files may be `output`,
 * unless that is NULL. */
yk_code open_examples(const struct call *call, const struct yk_trained *t, const char *output,
                      struct yk_dataset *set, const char **name, struct yk_error *e);

#endif
