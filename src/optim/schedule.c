/* schedule.c - the learning rate over steps; the grammar is in optim.h. */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One ":number", `least` exclusive. Moves *p behind it. */
static bool number(const char **p, double least, double *out)
{
    char *end;
    if (**p != ':')
        return false;
    double v = strtod(*p + 1, &end);
    if (end == *p + 1 || !isfinite(v) || v <= least)
        return false;
    *p = end;
    *out = v;
    return true;
}

static bool word(const char **p, const char *w)
{
    size_t n = strlen(w);
    if (strncmp(*p, w, n) != 0)
        return false;
    *p += n;
    return true;
}

static bool parse(const char *p, struct yk_schedule *s)
{
    if (word(&p, "warmup")) {
        if (!number(&p, 0, &s->warmup))
            return false;
        if (*p == '\0')
            return true; /* warm-up, then constant */
        if (*p++ != ',')
            return false;
    }
    if (word(&p, "constant")) {
        s->shape = YK_CONSTANT;
    } else if (word(&p, "staircase")) {
        s->shape = YK_STAIRCASE;
        if (!number(&p, 0, &s->rate) || !number(&p, 0, &s->every))
            return false;
    } else if (word(&p, "exponential")) {
        s->shape = YK_EXPONENTIAL;
        if (!number(&p, 0, &s->rate) || !number(&p, 0, &s->every))
            return false;
    } else if (word(&p, "cosine")) {
        s->shape = YK_COSINE;
        if (!number(&p, 0, &s->every))
            return false;
        if (*p == ':' && !number(&p, -1e-300, &s->floor))
            return false;
    } else {
        return false;
    }
    return *p == '\0';
}

yk_code yk_schedule_parse(const char *text, struct yk_schedule *out, struct yk_error *e)
{
    struct yk_schedule s = {.shape = YK_CONSTANT};
    if (!parse(text, &s)) {
        yk_fail(e, YK_USAGE, "--schedule: '%.80s' is not a schedule", text);
        yk_hint(
            e,
            "constant, staircase:RATE:STEPS, exponential:RATE:STEPS, cosine:STEPS[:LAST], or one of them after 'warmup:STEPS,'");
        return YK_USAGE;
    }
    *out = s;
    return YK_OK;
}

double yk_schedule_at(const struct yk_schedule *s, double lr, uint64_t step)
{
    double t = (double)step, rate = lr;
    switch (s->shape) {
    case YK_CONSTANT:
        break;
    case YK_STAIRCASE:
        rate = lr * pow(s->rate, floor(t / s->every));
        break;
    case YK_EXPONENTIAL:
        rate = lr * pow(s->rate, t / s->every);
        break;
    case YK_COSINE:
        rate = t >= s->every ? s->floor : s->floor + (lr - s->floor) * (1 + cos(M_PI * t / s->every)) / 2;
        break;
    }
    return t < s->warmup ? rate * fmin((t + 1) / s->warmup, 1) : rate;
}
