/* loop.h - the step loops of a worker: loop.c, and sweep.c for a sparse model in one process. */
#ifndef YK_TRAIN_LOOP_H
#define YK_TRAIN_LOOP_H

#include <stdbool.h>

struct yk_session;
struct yk_local_worker;

/* Trains until owner 0 has no task any more, on the worker's own thread. */
void yk_loop_run(struct yk_session *s, struct yk_local_worker *local);

/* Can this run sweep: is the model sparse, and does this process have all parameters to itself? */
bool yk_sweep_fits(const struct yk_session *s);
void yk_sweep_run(struct yk_session *s, struct yk_local_worker *local);

#endif
