/* progress.c - see progress.h. Redrawing a terminal ten times a second costs next to nothing. */
#include "record/progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 24 };
static const double ON_TERMINAL = 0.1, ELSEWHERE = 10;

void yk_progress_init(struct yk_progress *p, struct yk_log *log)
{
    p->log = log;
    p->next = yk_now() + (yk_log_is_terminal(log) ? ON_TERMINAL : ELSEWHERE);
}

bool yk_progress_due(const struct yk_progress *p, double now)
{
    return now >= p->next;
}

void yk_progress_show(struct yk_progress *p, double now, double part, const char *text)
{
    if (!yk_log_is_terminal(p->log)) {
        p->next = now + ELSEWHERE;
        yk_log_line(p->log, YK_INFO, "%s", text);
        return;
    }
    p->next = now + ON_TERMINAL;
    char line[256];
    if (part < 0) {
        snprintf(line, sizeof line, "%s", text);
    } else {
        char bar[WIDTH * 3 + 1] = "";
        int full = (int)(part * WIDTH);
        for (int i = 0; i < WIDTH; i++)
            strcat(bar, i < full ? "\u2501" : "\u2500");
        snprintf(line, sizeof line, "%s %3.0f %%  %s", bar, part * 100, text);
    }
    yk_log_status(p->log, line);
}

void yk_progress_clear(struct yk_progress *p)
{
    yk_log_status(p->log, "");
}
