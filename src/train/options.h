/* options.h - the options of training, in one struct and one table.
 *
 * A new option is a field here and a row of the table (options.c). Verbs that do not train have
 * tables of their own in cmd/. Fields that were not set and have no default are zero or NULL. */
#ifndef YK_TRAIN_OPTIONS_H
#define YK_TRAIN_OPTIONS_H

#include "base/opt.h"
#include "data/rows/rows.h"

struct yk_options {
    /* data */
    char *data;
    char *test_data;
    double holdout;
    int64_t test_batch;
    int64_t shuffle_buffer;
    bool data_local;
    char *augment;
    bool progressive;
    int64_t batch;
    int64_t seed;
    /* workers: how many, where, by which rule */
    char *mode;
    int64_t workers;
    int64_t ps;
    int64_t backup;
    int64_t staleness;
    int64_t global_batch;
    int64_t shards;
    char *hosts;
    char *hostfile;
    char *ps_hosts;
    /* loss of a worker */
    double heartbeat;
    char *on_worker_loss;
    int64_t restarts;
    /* optimizer */
    char *optimizer;
    double lr;
    double momentum;
    double beta2;
    double eps;
    double l1;
    double l2;
    double ftrl_beta;
    char *schedule;
    double weight_decay;
    double bias_lr;
    double bias_momentum;
    double bias_weight_decay;
    char *bias_schedule;
    double clip;
    char *init;
    char *compress;
    /* stop rules */
    int64_t steps;
    int64_t epochs;
    double target_loss;
    double target_accuracy;
    double max_seconds;
    /* evaluation and checkpoints */
    struct yk_every eval_every;
    struct yk_every checkpoint_every;
    int64_t keep;
    char *run;
    char *resume;
    /* computation */
    int64_t threads;
    char *isa;
    char *engine;
    char *net;
    double label_smoothing;
    /* sparse rows: how files become rows */
    char *format;
    int64_t hash_bits;
    int64_t skip_bad;
    char *label_name;
    char *index_name;
    char *value_name;
    int64_t features;
    /* this call */
    char *config;
    bool json;
    bool quiet;
    bool verbose;
    bool dry_run;
};

extern const struct yk_opt yk_option_table[]; /* ends in a row without a name */
extern const size_t yk_option_count;          /* rows before that one */

/* Random changes of photos: YK_AUGMENT_... of data/images/prefetch.h. */
unsigned yk_options_augment(const struct yk_options *o);

/* How files become sparse rows. A number of threads that the user asked for also limits the
 * parsers; one that comes from the model, the machine or a resumed run does not. */
void yk_options_reading(const struct yk_opts *opts, struct yk_reading *out);

/* The model's defaults for options that were not given. Its default length (epochs, steps) counts
 * only if no stop rule was given, its rates only with its own optimizer. A net's own lines come
 * first, then, by a second call, the defaults of every net. */
yk_code yk_options_model(struct yk_opts *o, const char *const *defaults, struct yk_error *e);

/* Combinations that no single range can rule out; called before any work starts. */
yk_code yk_options_check(const struct yk_opts *o, struct yk_error *e);

#endif
