/* input.h - the data of a run: what this process opens, and which worker trains on which rows. */
#ifndef YK_TRAIN_INPUT_H
#define YK_TRAIN_INPUT_H

#include "base/file.h"
#include "data/data.h"
#include "strategy/deal.h"

struct yk_session;

struct yk_input {
    char path[YK_PATH_MAX];  /* --data on this host */
    struct yk_dataset train; /* the training data of this host */
    struct yk_dataset test;  /* owner 0's process only; test.rows == 0: there is no evaluation */
    struct yk_share *share; /* (rule.shares) the rows of an epoch; one share for each host's data */
    uint32_t *share_of;     /* (workers) the share of each worker */
    uint64_t xxh3;          /* hash of the training data of all hosts */
    struct yk_source source; /* the training data in the order of the run */
};

/* Opens the data that this process needs. */
yk_code yk_input_open(struct yk_session *s, struct yk_error *e);
void yk_input_release(struct yk_input *in);
/* YK_DATA if mapped rows have changed since they were opened. */
yk_code yk_input_intact(const struct yk_input *in, struct yk_error *e);

/* The training data of one worker. */
struct yk_portion {
    uint64_t rows, xxh3;
    uint32_t shape[3], classes;
    uint64_t names; /* XXH3 of the names of the class folders; 0 without class folders */
    char host[64];
};
/* Decides which worker trains on which rows. `portion` is what each worker has; NULL if all have
 * the same. */
yk_code yk_input_share(struct yk_session *s, const struct yk_portion *portion, struct yk_error *e);
/* With --data-local, logs the rows of each host. */
void yk_input_log(const struct yk_session *s);
/* Position of a task's examples in the data of this process. */
uint64_t yk_input_position(const struct yk_session *s, uint64_t id);

/* Memory budget for decoded photos, {train, test}; split 3:1 if both sets are opened separately.
 * At least 1, because 0 means "default" to yk_imaging. */
void yk_input_keep(uint64_t free_bytes, unsigned ranks, bool both, uint64_t keep[2]);
uint64_t yk_input_names_xxh3(const struct yk_dataset *d);
/* The names of the classes, or NULL if this process does not know them. */
const char *yk_input_class_names(const struct yk_input *in);

#endif
