/* worker_parts.h - what the two files of a worker share; nobody else's business. */
#ifndef YK_STRATEGY_WORKER_PARTS_H
#define YK_STRATEGY_WORKER_PARTS_H

#include "strategy/worker.h"

/* worker.c */
void yk_worker_send(struct yk_worker *w, unsigned owner, struct yk_note *n, const void *data,
                    size_t bytes);
/* Until the engine has let go of what this worker sent, so that it may be overwritten; not for ever if an owner is gone. */
void yk_worker_settle(struct yk_worker *w);

void yk_worker_begin(struct yk_worker *w);
/* Is all there that the next step takes? Under the lock. */
bool yk_worker_answered(const struct yk_worker *w);

/* worker_early.c: whole batches whose parameters come bucket by bucket; under the lock, but for need */
yk_code yk_worker_init_pieces(struct yk_worker *w, struct yk_error *e);
void yk_worker_release_pieces(struct yk_worker *w);
void yk_worker_came(struct yk_worker *w, const struct yk_note *n,
                    size_t floats); /* those of an owner from n->lo on */
bool yk_worker_guess(
    struct yk_worker *w); /* is it known what the next task will be? Then it is `hoped` */
void yk_worker_go_early(
    struct yk_worker *w); /* the task is taken: make do with the parameters that are here */
void yk_worker_go_back(struct yk_worker *w);  /* the step before is to be done again first */
void yk_worker_have_all(struct yk_worker *w); /* no longer early, if all are here */
bool yk_worker_need(struct yk_sink *sink, size_t lo, size_t hi);

/* worker_keys.c: sparse */
yk_code yk_worker_init_keys(struct yk_worker *w, struct yk_error *e);
void yk_worker_release_keys(struct yk_worker *w);
void *yk_worker_place_values(struct yk_worker *w, const struct yk_note *n);
/* Are the values of the n keys of the task here? Then they are the model's now. *over: there is no point in waiting for them. */
bool yk_worker_have_values(struct yk_worker *w, size_t n, bool *over);
void yk_worker_ask(struct yk_worker *w, const uint32_t *key,
                   size_t n); /* ask all owners for them */
void yk_worker_take_values(struct yk_worker *w, const struct yk_note *n, const float *data);

/* worker_pack.c: --compress */
yk_code yk_worker_init_pack(struct yk_worker *w, struct yk_error *e);
void yk_worker_release_pack(struct yk_worker *w);
bool yk_worker_packs(const struct yk_worker *w,
                     unsigned owner); /* what goes to it crosses a wire, and is packed */
/* n floats of a sum, from flat index `at` on, packed for the wire unless they are too few. Returns where the *bytes are, and *flags say how;
 * NULL: there is no memory. */
const void *yk_worker_pack(struct yk_worker *w, const float *sum, size_t at, size_t n,
                           uint16_t *flags, size_t *bytes);
void yk_worker_begin_pack(
    struct yk_worker *w); /* a step begins: nothing of the one before is under way any more */
void *yk_worker_place_packed(struct yk_worker *w, const struct yk_note *n);
size_t yk_worker_take_packed(struct yk_worker *w, const struct yk_note *n,
                             const void *data); /* a piece of the parameters: so many */

#endif
