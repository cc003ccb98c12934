/* events.h - TensorBoard event files: one folder per rank, one file per start. events.c draws the
 * format. A writer buffers its records, and `flush` hands them to the kernel. A failed write (a
 * full disk) is remembered and returned by flush and close; it never stops the training.
 * THREADS: one thread at a time. */
#ifndef YK_RECORD_EVENTS_H
#define YK_RECORD_EVENTS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct yk_events;

/* Makes `folder` and in it the file events.out.tfevents.<seconds>.<host>.<pid>.<n>. */
yk_code yk_events_open(struct yk_events **out, const char *folder, struct yk_error *e);
void yk_events_scalar(struct yk_events *ev, uint64_t step, double wall, const char *tag,
                      double value);
/* Records a histogram of `n` values in at most 30 equal buckets (plugin `histograms`, double tensor
 * [k,3] = left, right, count). Values that are not finite are left out. */
void yk_events_histogram(struct yk_events *ev, uint64_t step, double wall, const char *tag,
                         const float *v, size_t n);

/* A node of the model's graph, as TensorBoard draws it. */
struct yk_graph_node {
    const char *name;      /* slashes make groups: "softmax/logits" */
    const char *op;        /* such as "MatMul" */
    const char *inputs[4]; /* names of the nodes that it reads; unused entries are NULL */
    int64_t shape[4];      /* output shape, -1 for the batch */
    unsigned ndim;         /* 0 if the shape is unknown */
};
void yk_events_graph(struct yk_events *ev, const struct yk_graph_node *node, size_t n);

/* Tells readers that a resumed run continues at `step`: they drop older events from there on. */
void yk_events_restart(struct yk_events *ev, uint64_t step);

yk_code yk_events_flush(struct yk_events *ev, struct yk_error *e);
/* NULL is fine. */
yk_code yk_events_close(struct yk_events *ev, struct yk_error *e);

#endif
