/* log.c - lines to stderr and to log.txt, and the progress line they share a terminal with; see log.h.
 *
 * Every line leaves in one write(2), so that lines of several threads and processes never mix. On a terminal the progress
 * line is the last one: a new line first wipes it ("\r", erase to end of line), then writes itself, then draws it again below.
 * Texts may quote what stood in a damaged file, so control characters are shown as '?' and can neither steer the terminal
 * nor break log.txt into false lines.
 * LIMITS: a line longer than LINE bytes is cut. A log file that cannot be written is said once and never stops anything. */
#include "base/log.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 2048, STATUS = 1024 };

#define WIPE "\r\033[K"
#define NOWRAP                                                                                     \
    "\033[?7l" /* a status wider than the terminal is clipped, not folded: folded rows could not be wiped */
#define WRAP "\033[?7h"
#define PLAIN "\033[0m"
#define DIM "\033[2m"

static const struct {
    const char *name;   /* in the file */
    const char *prefix; /* on stderr */
    const char *color;  /* on a terminal; NULL for its own */
} levels[] = {
    [YK_DEBUG] = {"debug", "yoke: ", NULL},
    [YK_INFO] = {"info", "yoke: ", NULL},
    [YK_WARN] = {"warning", "yoke: warning: ", "\033[33m"},
    [YK_ERROR] = {"error", "yoke: ", "\033[31m"},
};

struct yk_log {
    pthread_mutex_t lock; /* everything below */
    enum yk_level least;
    bool terminal, color;
    int file;            /* log.txt; -1 if there is none */
    bool file_failed;    /* a write to it failed, and that has been said */
    char status[STATUS]; /* the progress line as drawn; "" if there is none */
    struct yk_buf out;   /* where a line is put together */
};

struct yk_log *yk_log_open(enum yk_level least)
{
    struct yk_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return NULL;
    const char *no_color = getenv("NO_COLOR");
    pthread_mutex_init(&log->lock, NULL);
    log->least = least;
    log->terminal = isatty(STDERR_FILENO) == 1;
    log->color = log->terminal && (no_color == NULL || no_color[0] == '\0');
    log->file = -1;
    return log;
}

void yk_log_close(struct yk_log *log)
{
    if (log == NULL)
        return;
    yk_log_status(log, "");
    if (log->file >= 0)
        close(log->file);
    yk_buf_release(&log->out);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

yk_code yk_log_file(struct yk_log *log, const char *path, struct yk_error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot open '%s'", path);
    pthread_mutex_lock(&log->lock);
    if (log->file >= 0)
        close(log->file);
    log->file = fd;
    log->file_failed = false;
    pthread_mutex_unlock(&log->lock);
    return YK_OK;
}

/* What was put together goes out at once. Only a file's failure is told: there is nobody to tell about stderr's. */
static bool send_out(struct yk_buf *out, int fd)
{
    ssize_t n;
    do
        n = write(fd, out->data, out->len);
    while (n < 0 && errno == EINTR);
    bool whole = n == (ssize_t)out->len;
    yk_buf_clear(out);
    return whole;
}

static void draw_status(struct yk_log *log)
{
    if (log->status[0] != '\0')
        yk_buf_format(&log->out, NOWRAP "%s" WRAP, log->status);
}

static void to_stderr(struct yk_log *log, const char *color, const char *prefix, const char *text)
{
    if (log->status[0] != '\0')
        yk_buf_text(&log->out, WIPE);
    if (log->color && color != NULL)
        yk_buf_format(&log->out, "%s%s%s" PLAIN "\n", color, prefix, text);
    else
        yk_buf_format(&log->out, "%s%s\n", prefix, text);
    draw_status(log);
    send_out(&log->out, STDERR_FILENO);
}

static void to_file(struct yk_log *log, enum yk_level level, const char *prefix, const char *text)
{
    if (log->file < 0)
        return;
    struct timespec now;
    struct tm utc;
    char date[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    yk_buf_format(&log->out, "%s.%03ldZ %s %s%s\n", date, now.tv_nsec / 1000000, levels[level].name,
                  prefix, text);
    if (!send_out(&log->out, log->file) && !log->file_failed) {
        log->file_failed = true;
        to_stderr(log, levels[YK_WARN].color, levels[YK_WARN].prefix,
                  "cannot write the log file; it will be incomplete");
    }
}

static void clean(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    for (char *p = out; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
}

static void write_line(struct yk_log *log, enum yk_level level, const char *text, const char *hint)
{
    char line[LINE], cure[LINE];
    clean(line, sizeof line, text);
    clean(cure, sizeof cure, hint);
    pthread_mutex_lock(&log->lock);
    if (level >= log->least) {
        to_stderr(log, levels[level].color, levels[level].prefix, line);
        if (cure[0] != '\0')
            to_stderr(log, DIM, "hint: ", cure);
    }
    to_file(log, level, "", line);
    if (cure[0] != '\0')
        to_file(log, level, "hint: ", cure);
    pthread_mutex_unlock(&log->lock);
}

void yk_log_line(struct yk_log *log, enum yk_level level, const char *fmt, ...)
{
    if (log == NULL)
        return;
    char text[LINE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    write_line(log, level, text, "");
}

void yk_log_error(struct yk_log *log, enum yk_level level, const struct yk_error *e)
{
    if (log != NULL)
        write_line(log, level, e->text, e->hint);
}

void yk_log_status(struct yk_log *log, const char *text)
{
    if (log == NULL || !log->terminal || log->least > YK_INFO)
        return;
    pthread_mutex_lock(&log->lock);
    if (strcmp(text, log->status) != 0) {
        yk_buf_text(&log->out, WIPE);
        snprintf(log->status, sizeof log->status, "%s", text);
        draw_status(log);
        send_out(&log->out, STDERR_FILENO);
    }
    pthread_mutex_unlock(&log->lock);
}

bool yk_log_is_terminal(const struct yk_log *log)
{
    return log != NULL && log->terminal;
}

bool yk_log_has_color(const struct yk_log *log)
{
    return log != NULL && log->color;
}
