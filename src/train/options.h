/* options.h - every option of every verb, in one struct and one table.
 *
 * The table (options.c) is what `yoke help`, the man page, shell completion, yoke.ini and config.json are made from. A new
 * option is a field here and a line there. Fields that a user did not set and that have no default are zero or NULL. */
#ifndef YK_TRAIN_OPTIONS_H
#define YK_TRAIN_OPTIONS_H

#include "base/opt.h"
#include "data/rows.h"

/* The verbs, each a file of its own in cmd/: the one list. YK_VERB(train) is a verb's bit in the table. */
#define YK_VERBS(X)                                                                                \
    X(train) X(eval) X(predict) X(export) X(data) X(matmul) X(net) X(netcheck) X(testbed) X(help)
#define YK_VERB_INDEX(name) yk_verb_index_##name,
enum yk_verb_index { YK_VERBS(YK_VERB_INDEX) yk_verb_count };
#define YK_VERB(name) (1u << yk_verb_index_##name)

struct yk_options {
    /* what to train on what */
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
    /* who trains: how many, where, by which rule */
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
    /* what if one of them is lost */
    double heartbeat;
    char *on_worker_loss;
    int64_t restarts;
    /* how the parameters move */
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
    /* when to stop */
    int64_t steps;
    int64_t epochs;
    double target_loss;
    double target_accuracy;
    double max_seconds;
    /* what to look at and to keep */
    struct yk_every eval_every;
    struct yk_every checkpoint_every;
    int64_t keep;
    char *run;
    char *resume;
    /* how to compute */
    int64_t threads;
    char *isa;
    char *engine;
    char *net;
    double label_smoothing;
    /* sparse rows: how files become rows, and how many to make up */
    char *format;
    int64_t hash_bits;
    int64_t skip_bad;
    char *label_name;
    char *index_name;
    char *value_name;
    int64_t rows;
    int64_t features;
    /* other verbs */
    char *output;
    char *to;
    char *mirror;
    int64_t n;
    bool trace;
    bool full;
    int64_t memory;
    char *bandwidth;
    char *slow;
    char *slow_link;
    bool man;
    char *completion;
    /* common */
    char *config;
    bool json;
    bool quiet;
    bool verbose;
    bool dry_run;
};

extern const struct yk_opt yk_option_table[];
extern const size_t yk_option_count;

/* What chance may do to photos: YK_AUGMENT_... of data/prefetch.h. */
unsigned yk_options_augment(const struct yk_options *o);

/* How files become sparse rows. */
void yk_options_reading(const struct yk_options *o, struct yk_reading *out);

/* The bit of a verb's name; 0 if there is no such verb. */
uint32_t yk_verb_bit(const char *name);

/* Read the user's ini, ./yoke.ini and --config FILE into `o` (origins decide which wins). Absent files are fine, but not a
 * FILE that was named. */
yk_code yk_options_files(struct yk_opts *o, uint32_t verb, struct yk_error *e);

/* The model's defaults for what nobody said. The model's default length (epochs, steps) counts only if no stop rule was given, its rates only
 * with its optimizer. A net's own lines come first, then, by a second call, what holds for every net. */
yk_code yk_options_model(struct yk_opts *o, const char *const *defaults, struct yk_error *e);

/* Combinations that no single range can rule out; called before any work starts. */
yk_code yk_options_check(const struct yk_opts *o, uint32_t verb, struct yk_error *e);

#endif
