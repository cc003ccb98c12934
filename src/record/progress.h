/* progress.h - how far a long job is: a bar on a terminal, a plain line every 10 seconds elsewhere.
 * THREADS: one thread at a time. */
#ifndef YK_RECORD_PROGRESS_H
#define YK_RECORD_PROGRESS_H

#include "base/log.h"

struct yk_progress {
    struct yk_log *log;
    double next; /* yk_now() before which nothing is shown */
};

void yk_progress_init(struct yk_progress *p, struct yk_log *log);

/* Is it time to show something? Ask first: `text` is then worth making. */
bool yk_progress_due(const struct yk_progress *p, double now);

/* `part` in [0, 1], or negative if nobody knows how long it will take. */
void yk_progress_show(struct yk_progress *p, double now, double part, const char *text);
void yk_progress_clear(struct yk_progress *p);

#endif
