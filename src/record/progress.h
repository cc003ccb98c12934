/* progress.h - the progress of a long job: a bar on a terminal, a line every 10 seconds elsewhere.
 * THREADS: one thread at a time. */
#ifndef YK_RECORD_PROGRESS_H
#define YK_RECORD_PROGRESS_H

#include "base/log.h"

struct yk_progress {
    struct yk_log *log;
    double next; /* yk_now() of the next output */
};

void yk_progress_init(struct yk_progress *p, struct yk_log *log);

/* Is an output due? To be asked first, so that `text` is not made in vain. */
bool yk_progress_due(const struct yk_progress *p, double now);

/* `part` is in [0, 1], or negative if it is unknown. */
void yk_progress_show(struct yk_progress *p, double now, double part, const char *text);
void yk_progress_clear(struct yk_progress *p);

#endif
