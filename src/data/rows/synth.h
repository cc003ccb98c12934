/* synth.h - made-up rows that look like Criteo's: clicks on advertisements, a few dozen entries out
 * of millions of features. Labels come from a true model, so the best possible loss is known.
 * THREADS: an open generator is never changed; any number of threads may make rows with it. */
#ifndef YK_DATA_ROWS_SYNTH_H
#define YK_DATA_ROWS_SYNTH_H

#include "data/rows/rows_format.h"

enum { YK_SYNTH_INTEGERS = 13, YK_SYNTH_FIELDS = 39 };

struct yk_synth;

/* `features` keys are divided exactly among the fields; 0: 33762578. Too few, or no rows, is
 * YK_USAGE. */
yk_code yk_synth_open(struct yk_synth **out, uint64_t rows, uint64_t features, uint64_t seed,
                      struct yk_error *e);
void yk_synth_close(struct yk_synth *s); /* NULL is fine */

uint64_t yk_synth_features(const struct yk_synth *s);

/* Appends rows from, from + 1, ... to the chunk. A row depends on seed, features and number
 * only. */
yk_code yk_synth_chunk(const struct yk_synth *s, uint64_t from, uint32_t rows, struct yk_chunk *out,
                       struct yk_error *e);

/* Is `what` "synth-criteo:ROWS[:FEATURES[:SEED]]"? By default features are 0 and the seed is 1. */
bool yk_synth_name(const char *what, uint64_t *rows, uint64_t *features, uint64_t *seed);

/* Makes so many rows as a set; `how` names the number of threads and the function for reports. */
yk_code yk_synth_rows(struct yk_rows **out, const struct yk_synth *s, uint64_t rows,
                      const struct yk_reading *how, struct yk_error *e);

/* The mean entropy (natural logarithm) of the true probabilities of these labels: the lowest log
 * loss that a model can be expected to have. */
double yk_synth_best(const struct yk_synth *s, uint64_t from, uint64_t rows);

/* The true log-odds of a row's label. */
double yk_synth_score(const struct yk_synth *s, uint64_t row);

#endif
