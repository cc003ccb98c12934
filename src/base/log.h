/* log.h - the messages of a run: on stderr and, once the run has a folder, in its log.txt.
 *
 * A line is "yoke: text" on stderr and "2026-11-15T20:00:00.123Z level text" in the file. The
 * progress line shares the terminal, so it is drawn by the log too: it is always the last line, and
 * other lines appear above it.
 * THREADS: any thread may call any function but open and close. A log of NULL is silent. */
#ifndef YK_BASE_LOG_H
#define YK_BASE_LOG_H

#include "base/error.h"

#include <stdbool.h>

enum yk_level { YK_DEBUG, YK_INFO, YK_WARN, YK_ERROR };

struct yk_log;

/* `least` is the lowest level shown on stderr; the file gets all levels. NULL if there is no
 * memory. */
struct yk_log *yk_log_open(enum yk_level least);
void yk_log_close(struct yk_log *log);

/* From now on lines are also appended to the file `path`. */
yk_code yk_log_file(struct yk_log *log, const char *path, struct yk_error *e);

void yk_log_line(struct yk_log *log, enum yk_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Replaces the progress line of a terminal; "" removes it. Ignored elsewhere and if `least` is
 * above YK_INFO. */
void yk_log_status(struct yk_log *log, const char *text);
bool yk_log_is_terminal(const struct yk_log *log);

#endif
