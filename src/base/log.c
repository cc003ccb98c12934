/* log.c - lines for stderr and log.txt, and the progress line that shares the terminal; see log.h.
 *
 * Every line leaves in one write(2), so lines of several threads and processes never mix. On a
 * terminal the progress line is the last one: a new line first wipes it ("\r", erase to end of
 * line), then writes itself, then draws the progress line again below. A text may quote a damaged
 * file, so control characters are shown as '?': they can neither control the terminal nor add lines
 * to log.txt.
 * LIMITS: a line longer than LINE bytes is cut. A log file that cannot be written causes one
 * warning and stops nothing. */
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
/* A status wider than the terminal is clipped, not folded, because folded rows could not be
 * wiped. */
#define NOWRAP "\033[?7l"
#define WRAP "\033[?7h"
#define PLAIN "\033[0m"

static const struct level {
    const char *name;   /* the level's name in the file */
    const char *prefix; /* the start of a line on stderr */
    const char *color;  /* on a terminal; NULL for the terminal's default */
} levels[] = {
    [YK_DEBUG] = {"debug", "yoke: ", NULL},
    [YK_INFO] = {"info", "yoke: ", NULL},
    [YK_WARN] = {"warning", "yoke: warning: ", "\033[33m"},
    [YK_ERROR] = {"error", "yoke: ", "\033[31m"},
};

struct yk_log {
    pthread_mutex_t lock; /* protects the fields below */
    enum yk_level least;
    bool terminal;
    bool color;          /* a terminal, and NO_COLOR is not set */
    int file;            /* log.txt; -1 if there is none */
    bool file_failed;    /* a write to the file failed, and the warning has been given */
    char status[STATUS]; /* the progress line as drawn; "" if there is none */
    struct yk_buf out;   /* the line being built */
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

/* Writes `out` in one call and empties it. False if not all of it could be written. */
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

static void to_stderr(struct yk_log *log, const struct level *level, const char *text)
{
    if (log->status[0] != '\0')
        yk_buf_text(&log->out, WIPE);
    if (log->color && level->color != NULL)
        yk_buf_format(&log->out, "%s%s%s" PLAIN "\n", level->color, level->prefix, text);
    else
        yk_buf_format(&log->out, "%s%s\n", level->prefix, text);
    draw_status(log);
    send_out(&log->out, STDERR_FILENO);
}

static void to_file(struct yk_log *log, enum yk_level level, const char *text)
{
    if (log->file < 0)
        return;
    struct timespec now;
    struct tm utc;
    char date[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    yk_buf_format(&log->out, "%s.%03ldZ %s %s\n", date, now.tv_nsec / 1000000, levels[level].name,
                  text);
    if (!send_out(&log->out, log->file) && !log->file_failed) {
        log->file_failed = true;
        to_stderr(log, &levels[YK_WARN], "cannot write the log file; it will be incomplete");
    }
}

void yk_log_line(struct yk_log *log, enum yk_level level, const char *fmt, ...)
{
    if (log == NULL)
        return;
    char line[LINE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    for (char *p = line; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
    pthread_mutex_lock(&log->lock);
    if (level >= log->least)
        to_stderr(log, &levels[level], line);
    to_file(log, level, line);
    pthread_mutex_unlock(&log->lock);
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
