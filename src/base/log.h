/* log.h - what a run says while it runs: to stderr, and once it has a folder, to its log.txt.
 *
 * A line is "yoke: text" on stderr and "2026-11-15T20:00:00.123Z level text" in the file. The progress bar shares the
 * terminal, so it is drawn through the log too: `yk_log_status` replaces the last line of a terminal and is cleared before
 * any other line is written.
 * THREADS: all calls may come from any thread. */
#ifndef YK_BASE_LOG_H
#define YK_BASE_LOG_H

#include "base/error.h"

#include <stdbool.h>

enum yk_level { YK_DEBUG, YK_INFO, YK_WARN, YK_ERROR };

struct yk_log;

/* `least` is the lowest level shown on stderr; the file takes everything. NULL if there is no memory. */
struct yk_log *yk_log_open(enum yk_level least);
void yk_log_close(struct yk_log *log);

/* From now on also write to `path`, appending. */
yk_code yk_log_file(struct yk_log *log, const char *path, struct yk_error *e);

void yk_log_line(struct yk_log *log, enum yk_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void yk_log_error(struct yk_log *log, enum yk_level level,
                  const struct yk_error *e); /* the sentence and its hint */

/* The progress line: on a terminal it replaces the one before; "" removes it. Elsewhere, and below --quiet, it is ignored. */
void yk_log_status(struct yk_log *log, const char *text);
bool yk_log_is_terminal(const struct yk_log *log);
bool yk_log_has_color(const struct yk_log *log); /* a terminal, and NO_COLOR is not set */

#endif
