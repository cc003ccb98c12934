/* worker_parts.h - what the two files of a worker share; nobody else's business. */
#ifndef YK_STRATEGY_WORKER_PARTS_H
#define YK_STRATEGY_WORKER_PARTS_H

#include "strategy/worker.h"

/* worker.c */
void yk_worker_send(struct yk_worker *w, unsigned owner, struct yk_note *n, const void *data, size_t bytes);
/* Until the engine has let go of what this worker sent, so that it may be overwritten; not for ever if an owner is gone. */
void yk_worker_settle(struct yk_worker *w);

/* worker_keys.c: sparse */
yk_code yk_worker_init_keys(struct yk_worker *w, struct yk_error *e);
void yk_worker_release_keys(struct yk_worker *w);
void *yk_worker_place_values(struct yk_worker *w, const struct yk_note *n);
/* Are the values of the n keys of the task here? Then they are the model's now. *over: there is no point in waiting for them. */
bool yk_worker_have_values(struct yk_worker *w, size_t n, bool *over);
void yk_worker_ask(struct yk_worker *w, const uint32_t *key, size_t n); /* ask all owners for them */
void yk_worker_take_values(struct yk_worker *w, const struct yk_note *n, const float *data);

#endif
