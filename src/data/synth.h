/* synth.h - made-up rows that look like Criteo's: clicks on advertisements, a few dozen non-zeros out of millions of features, and a true
 * model behind the labels, so that it is known how well anybody can do.
 * THREADS: an open generator is never changed; any number of threads may make rows with it. */
#ifndef YK_DATA_SYNTH_H
#define YK_DATA_SYNTH_H

#include "data/rows_format.h"

enum { YK_SYNTH_INTEGERS = 13, YK_SYNTH_FIELDS = 39 };
enum {
    YK_SYNTH_VERSION = 1
}; /* counts changes of what rows are made: what was cached before is other data */

struct yk_synth;

/* `features` is the number of keys, shared out exactly over the fields; 0: 33762578. Too few of them or no rows is YK_USAGE. */
yk_code yk_synth_open(struct yk_synth **out, uint64_t rows, uint64_t features, uint64_t seed,
                      struct yk_error *e);
void yk_synth_close(struct yk_synth *s); /* NULL is fine */

uint64_t yk_synth_features(const struct yk_synth *s);

/* Append rows from, from + 1, ... to the chunk. A row depends on seed, features and its own number only. */
yk_code yk_synth_chunk(const struct yk_synth *s, uint64_t from, uint32_t rows, struct yk_chunk *out,
                       struct yk_error *e);

/* Is it "synth-criteo:ROWS[:FEATURES[:SEED]]"? Features left out are 0, the seed is then 1. */
bool yk_synth_name(const char *what, uint64_t *rows, uint64_t *features, uint64_t *seed);

/* That many rows as a set; `how` says how many threads make them, and whom to tell meanwhile. */
yk_code yk_synth_rows(struct yk_rows **out, const struct yk_synth *s, uint64_t rows,
                      const struct yk_reading *how, struct yk_error *e);

/* The mean entropy (natural logarithm) of the true probabilities of these rows' labels: the log loss that no model gets below, but for
 * luck. */
double yk_synth_best(const struct yk_synth *s, uint64_t from, uint64_t rows);

/* The true weight of a key, and the true bias: what a model would learn from rows without end. */
double yk_synth_weight(const struct yk_synth *s, uint32_t key);
double yk_synth_bias(const struct yk_synth *s);

#endif
