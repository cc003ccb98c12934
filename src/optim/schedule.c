/* schedule.c - the learning rate over steps, and its sums; the grammar is in optim.h.
 *
 * SUMS: every shape consists of terms e^(c k) or, during the warm-up, (k + 1) e^(c k), where c is
 * 0, the log of a ratio, or imaginary for the cosine. Their sums have closed forms, so a sum over a
 * million steps costs no more than one over two. */
#include "optim/optim.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads ":number", which must be above `least`, and moves *p past it. */
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
            return true; /* constant after the warm-up */
        if (*p++ != ',')
            return false;
    }
    double stairs, fall;
    if (word(&p, "constant")) {
        s->shape = YK_CONSTANT;
    } else if (word(&p, "stairs")) {
        s->shape = YK_STAIRCASE;
        if (!number(&p, 1, &stairs) || !number(&p, 0, &fall) || !number(&p, 0, &s->every) ||
            stairs != floor(stairs))
            return false;
        s->rate = pow(1 / fall, 1 / (stairs - 1));
        s->every /= stairs - 1;
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
        yk_fail(e, YK_USAGE, "'%.80s' is not a schedule", text);
        yk_hint(e, "use constant, staircase:RATE:STEPS, stairs:N:FALL:STEPS, "
                   "exponential:RATE:STEPS or cosine:STEPS[:LAST], alone or after 'warmup:STEPS,'");
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
        rate = t >= s->every ? s->floor
                             : s->floor + (lr - s->floor) * (1 + cos(M_PI * t / s->every)) / 2;
        break;
    }
    return t < s->warmup ? rate * fmin((t + 1) / s->warmup, 1) : rate;
}

enum { STAIRS = 256 }; /* stairs that are added one by one */

/* e^c - 1, accurate for small c. */
static double complex expm1_of(double complex c)
{
    double half = sin(cimag(c) / 2), grown = exp(creal(c));
    return expm1(creal(c)) - 2 * grown * half * half + grown * sin(cimag(c)) * I;
}

/* The sum of e^(c k), or of (k + 1) e^(c k) if `ramp`, over the n values of k from `from` on. */
static double series(double complex c, double from, double n, bool ramp)
{
    if (n <= 0)
        return 0;
    double complex one = expm1_of(c), all = expm1_of(c * n);
    double complex sum = c == 0 ? n : all / one; /* of e^(c j), j = 0 .. n-1 */
    double complex moment = 0;                   /* of j e^(c j) */
    if (ramp && cabs(c) * n < 1e-2) {
        double j1 = n * (n - 1) / 2, j2 = j1 * (2 * n - 1) / 3, j3 = j1 * j1,
               j4 = j2 * (3 * n * n - 3 * n - 1) / 5;
        moment = j1 + c * (j2 + c / 2 * (j3 + c / 3 * j4));
    } else if (ramp) {
        moment = (n * (all + 1) - all - sum) / one;
    }
    return creal(cexp(c * from) * (ramp ? (from + 1) * sum + moment : sum));
}

/* Adds stair after stair. If there are too many, the others are summed as the exponential whose sum
 * over each stair is the stair's. */
static double stairs(const struct yk_schedule *s, double from, double to, bool ramp)
{
    double stair = floor(from / s->every), sum = 0, c = log(s->rate) / s->every;
    for (int i = 0; i < STAIRS && from < to; i++, stair++) {
        double end = fmin(ceil((stair + 1) * s->every), to);
        sum += pow(s->rate, stair) * series(0, from, end - from, ramp);
        from = fmax(from, end);
    }
    if (from < to)
        sum += series(c, from, to - from, ramp) * s->every / series(c, 0, s->every, false);
    return sum;
}

/* The sum over [from, to), each rate times k + 1 if `ramp`. */
static double sum_of(const struct yk_schedule *s, double lr, double from, double to, bool ramp)
{
    double n = fmax(to - from, 0), curve;
    switch (s->shape) {
    case YK_CONSTANT:
        break;
    case YK_STAIRCASE:
        return lr * stairs(s, from, to, ramp);
    case YK_EXPONENTIAL:
        return lr * series(log(s->rate) / s->every, from, n, ramp);
    case YK_COSINE:
        curve = fmax(fmin(to, ceil(s->every)) - from, 0); /* steps before the rate stays at LAST */
        return s->floor * series(0, from, n, ramp) +
               (lr - s->floor) / 2 *
                   (series(0, from, curve, ramp) + series(M_PI / s->every * I, from, curve, ramp));
    }
    return lr * series(0, from, n, ramp);
}

double yk_schedule_sum(const struct yk_schedule *s, double lr, uint64_t from, uint64_t to)
{
    double a = (double)from, b = (double)to;
    double warm = fmin(fmax(floor(s->warmup), a), b); /* end of the warm-up, clipped to [a, b] */
    double sum = sum_of(s, lr, warm, b, false);
    return warm > a ? sum + sum_of(s, lr, a, warm, true) / s->warmup : sum;
}

/* --- sums from step 0 on, many for one schedule --- */

/* The sum over [0, to) without the warm-up. */
static double curve_to(const struct yk_prefix *p, double to)
{
    const struct yk_schedule *s = p->schedule;
    double stair, grown, curve, waves;
    switch (s->shape) {
    case YK_CONSTANT:
        break;
    case YK_EXPONENTIAL:
        return p->factor * expm1(p->c * to);
    case YK_STAIRCASE: /* the whole stairs and a part of the next */
        stair = floor(to / s->every);
        grown = expm1(p->c * stair);
        return p->factor * grown + p->lr * (1 + grown) * (to - stair * s->every);
    case YK_COSINE:
        curve = fmin(to, ceil(s->every));
        /* the sum of cos(c k), k < curve */
        waves = curve <= 1 ? curve : 0.5 + sin((curve - 0.5) * p->c) * p->factor;
        return s->floor * to + (p->lr - s->floor) / 2 * (curve + waves);
    }
    return p->lr * to;
}

void yk_prefix_init(struct yk_prefix *p, const struct yk_schedule *s, double lr)
{
    bool even = s->shape != YK_STAIRCASE || s->every == floor(s->every);
    *p = (struct yk_prefix){
        .schedule = s, .lr = lr, .warm = floor(s->warmup), .slow = !even || s->rate == 1};
    if (s->shape == YK_EXPONENTIAL) {
        p->c = log(s->rate) / s->every;
        p->factor = lr / expm1(p->c);
    } else if (s->shape == YK_STAIRCASE) {
        p->c = log(s->rate);
        p->factor = lr * s->every / (s->rate - 1);
    } else if (s->shape == YK_COSINE) {
        p->c = M_PI / s->every;
        p->factor = 0.5 / sin(p->c / 2);
    }
    if (p->warm > 0 && !p->slow)
        p->warmed = yk_schedule_sum(s, lr, 0, (uint64_t)p->warm) - curve_to(p, p->warm);
}

double yk_prefix_at(const struct yk_prefix *p, uint64_t to)
{
    if (p->slow || (double)to < p->warm)
        return yk_schedule_sum(p->schedule, p->lr, 0, to);
    return p->warmed + curve_to(p, (double)to);
}
