/* metrics.h - scalars over steps, into metrics.jsonl and TensorBoard events alike.
 *
 * A *record* is one moment: begin, any number of values, end. metrics.jsonl gets one object a record,
 *     {"step":100,"seconds":0.0013,"examples":10000,"train/loss":0.93}
 * appended and flushed, so that a killed run keeps every whole line; after a resume, lines past the checkpoint's step are
 * cut off first (yk_metrics_open with `from_step`). The values that are not finite are null there.
 * THREADS: one thread at a time. */
#ifndef YK_RECORD_METRICS_H
#define YK_RECORD_METRICS_H

#include "base/error.h"
#include "record/events.h"
#include "record/run.h"

#include <stddef.h>
#include <stdint.h>

struct yk_metrics;

/* Opens <run>/metrics.jsonl and <run>/events/<who>/ ("worker-0"). Lines of steps > from_step are removed. */
yk_code yk_metrics_open(struct yk_metrics **out, const struct yk_run *run, const char *who,
                        uint64_t from_step, struct yk_error *e);
void yk_metrics_begin(struct yk_metrics *m, uint64_t step, double seconds, uint64_t examples);
void yk_metrics_value(struct yk_metrics *m, const char *tag, double value);
void yk_metrics_histogram(struct yk_metrics *m, const char *tag, const float *v,
                          size_t n); /* events only */
void yk_metrics_end(struct yk_metrics *m);
struct yk_events *yk_metrics_events(struct yk_metrics *m);
/* Both return the first failure to write, if there was one. */
yk_code yk_metrics_flush(struct yk_metrics *m, struct yk_error *e);
yk_code yk_metrics_close(struct yk_metrics *m, struct yk_error *e); /* NULL is fine */

#endif
