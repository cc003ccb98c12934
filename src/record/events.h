/* events.h - TensorBoard event files: one folder per rank, one file per start. The format is drawn in events.c.
 * A writer buffers; `flush` hands everything to the kernel. Failures to write (a full disk) are remembered and returned by
 * flush and close; they never stop the training that is being recorded.
 * THREADS: one thread at a time. */
#ifndef YK_RECORD_EVENTS_H
#define YK_RECORD_EVENTS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct yk_events;

/* Creates `folder` and in it events.out.tfevents.<secs>.<host>.<pid>.<n>. */
yk_code yk_events_open(struct yk_events **out, const char *folder, struct yk_error *e);
void yk_events_scalar(struct yk_events *ev, uint64_t step, double wall, const char *tag,
                      double value);
/* A histogram of `n` values in at most 30 equal buckets (plugin `histograms`, double tensor [k,3] = left, right, count). Non-finite
 * values are left out. */
void yk_events_histogram(struct yk_events *ev, uint64_t step, double wall, const char *tag,
                         const float *v, size_t n);

/* The model's graph: what TensorBoard draws. A node has an op ("MatMul") and names of the nodes it reads. */
struct yk_graph_node {
    const char *name; /* slashes make groups: "softmax/logits" */
    const char *op;
    const char *inputs[4]; /* unused ones NULL */
    int64_t shape[4];      /* output shape, -1 for the batch; ndim 0 if unknown */
    unsigned ndim;
};
void yk_events_graph(struct yk_events *ev, const struct yk_graph_node *node, size_t n);

/* A resumed run goes on at `step`: readers forget what an earlier start wrote from there on. */
void yk_events_restart(struct yk_events *ev, uint64_t step);

yk_code yk_events_flush(struct yk_events *ev, struct yk_error *e);
yk_code yk_events_close(struct yk_events *ev, struct yk_error *e); /* NULL is fine */

#endif
