/* metrics.h - scalars over steps, for metrics.jsonl and TensorBoard events alike.
 *
 * A *record* belongs to one moment: begin, any number of values, end. Each is a line of
 * metrics.jsonl,
 *     {"step":100,"seconds":0.0013,"examples":10000,"train/loss":0.93}
 * appended and flushed, so a killed run keeps every whole line. Values that are not finite are
 * null. A resumed run first removes the lines past the step of its checkpoint.
 * THREADS: one thread at a time. */
#ifndef YK_RECORD_METRICS_H
#define YK_RECORD_METRICS_H

#include "base/error.h"
#include "record/events.h"
#include "record/run.h"

#include <stddef.h>
#include <stdint.h>

struct yk_metrics;

/* Opens <run>/metrics.jsonl and <run>/events/<who>/ ("worker-0"). Lines of steps > from_step are
 * removed. */
yk_code yk_metrics_open(struct yk_metrics **out, const struct yk_run *run, const char *who,
                        uint64_t from_step, struct yk_error *e);
void yk_metrics_begin(struct yk_metrics *m, uint64_t step, double seconds, uint64_t examples);
void yk_metrics_value(struct yk_metrics *m, const char *tag, double value);
/* Goes to the events only. */
void yk_metrics_histogram(struct yk_metrics *m, const char *tag, const float *v, size_t n);
void yk_metrics_end(struct yk_metrics *m);
struct yk_events *yk_metrics_events(struct yk_metrics *m);
/* Both return the first failure to write, if there was one. Closing NULL is fine. */
yk_code yk_metrics_flush(struct yk_metrics *m, struct yk_error *e);
yk_code yk_metrics_close(struct yk_metrics *m, struct yk_error *e);

#endif
