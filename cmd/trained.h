/* trained.h - what the verbs that use a trained model have in common: finding it, and finding what to look at. */
#ifndef YK_CMD_TRAINED_H
#define YK_CMD_TRAINED_H

#include "cmd/cmd.h"
#include "train/trained.h"

/* The model that the call's first word names. Damaged checkpoints that were passed over are told on stderr. */
yk_code open_trained(struct call *call, struct yk_trained *t, struct yk_error *e);

/* The examples to score: --test-data or --data if this call has them, else what the run itself was evaluated on. `name` is how the user
 * calls them. */
yk_code open_examples(struct call *call, const struct yk_trained *t, struct yk_dataset *set,
                      const char **name, struct yk_error *e);

#endif
