/* report.c - see report.h. Works from the summary, so that it can show a run that ended earlier;
 * the learning curve is known only for a run of this process. Plain text of at most 80 columns,
 * because it must look right in a log, too. */
#include "train/report.h"

#include "base/json.h"
#include "base/text.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 9, BAR = 15, WORKERS = 16 }; /* rows and bars of the curve; listed workers */

static double number(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *count(const json_t *j, const char *key, char out[32])
{
    double v = number(j, key);
    return v >= 0 ? yk_count_text((uint64_t)rint(v), out) : strcpy(out, "-");
}

static const char *text(const json_t *j, const char *key)
{
    const char *v = json_string_value(json_object_get(j, key));
    return v != NULL ? v : "";
}

static const char *duration(double seconds, char out[24])
{
    if (seconds < 1)
        snprintf(out, 24, "%.0f ms", seconds * 1e3);
    else if (seconds < 120)
        snprintf(out, 24, "%.2f s", seconds);
    else
        snprintf(out, 24, "%.1f min", seconds / 60);
    return out;
}

static void curve_row(const struct yk_session *s, const struct yk_point *p, double most,
                      struct yk_buf *out)
{
    char steps[32], took[24], bar[BAR * 3 + 1] = "";
    bool tested = s->input.test.rows > 0;
    int full = most > 0 ? (int)lround((tested ? p->test_loss : p->train_loss) / most * BAR) : 0;
    for (int k = 0; k < full && k < BAR; k++)
        strcat(bar, "\u2593");
    char loss[16] = "-"; /* no step was done */
    if (!isnan(p->train_loss))
        snprintf(loss, sizeof loss, "%.4f", p->train_loss);
    yk_buf_format(out, "%10s %10s %8.1f %11s ", yk_count_text(p->at.step, steps),
                  duration(p->at.seconds, took), (double)p->at.examples / (double)s->crew.rule.rows,
                  loss);
    if (tested)
        yk_buf_format(out, "%10.4f %7.2f %%  %s\n", p->test_loss, p->test_accuracy * 100, bar);
    else
        yk_buf_format(out, "%10s %9s  %s\n", "-", "-", bar);
}

/* At most ROWS rows, evenly spread over the checks that were kept, and always the last one. */
static void curve(const struct yk_session *s, struct yk_buf *out)
{
    const struct yk_point last = {s->now, s->curve.train_loss, s->curve.test_loss,
                                  s->curve.test_accuracy};
    unsigned points = s->curve.points;
    double most = 0;
    while (points > 0 && s->curve.point[points - 1].at.step >= last.at.step)
        points--;
    for (unsigned i = 0; i < points; i++)
        most = fmax(most, s->input.test.rows > 0 ? s->curve.point[i].test_loss
                                                 : s->curve.point[i].train_loss);
    yk_buf_format(out, "%10s %10s %8s %11s %10s %9s\n", "step", "time", "epoch", "train loss",
                  "test loss", "accuracy");
    unsigned rows = points < ROWS - 1 ? points : ROWS - 1;
    for (unsigned r = 0; r < rows; r++)
        curve_row(s, &s->curve.point[r * points / rows], most, out);
    if (s->curve.tested_step == last.at.step || s->input.test.rows == 0)
        curve_row(s, &last, most, out);
    yk_buf_text(out, "\n");
}

static void ending(const json_t *j, struct yk_buf *out)
{
    const char *why = text(j, "stop_reason");
    char steps[32], took[24];
    count(j, "global_steps", steps);
    if (strcmp(why, "target_loss") == 0)
        yk_buf_format(out, "reached the target loss at step %s, after %s\n", steps,
                      duration(number(j, "target_seconds"), took));
    else if (strcmp(why, "target_accuracy") == 0)
        yk_buf_format(out, "reached the target accuracy at step %s, after %s\n", steps,
                      duration(number(j, "target_seconds"), took));
    else if (strcmp(why, "signal") == 0)
        yk_buf_format(out, "stopped by a signal at step %s; 'yoke train --resume %s' goes on\n",
                      steps, text(j, "run"));
    else if (strcmp(why, "max_seconds") == 0)
        yk_buf_format(out, "--max-seconds ended it at step %s\n", steps);
    else
        yk_buf_format(out, "done: %s steps, %.4g epochs\n", steps, number(j, "epochs"));
}

/* Where the time went, in one line. */
static void where(const json_t *j, struct yk_buf *out)
{
    static const char *const PHASES[] = {"compute", "push", "input", "pull"};
    static const char *const SHOWN[] = {"compute", "optimizer", "input", "pull"};
    const json_t *phases =
        json_object_get(json_array_get(json_object_get(j, "workers_detail"), 0), "phases");
    double wait = number(phases, "wait"), all = number(j, "seconds") + wait;
    if (isnan(all) || all <= 0 || isnan(number(phases, "compute")))
        return;
    yk_buf_text(out, "  where    ");
    for (size_t i = 0; i < sizeof PHASES / sizeof PHASES[0]; i++)
        if (number(phases, PHASES[i]) / all >= 0.005)
            yk_buf_format(out, " %.0f %% %s,", number(phases, PHASES[i]) / all * 100, SHOWN[i]);
    yk_buf_format(out, " %.0f %% waiting\n", wait / all * 100);
}

/* Were the computing threads idle because images came too slowly? */
static void input_bound(const json_t *j, struct yk_buf *out)
{
    static const double BOUND = 0.2; /* part of the time; less than that hardly matters */
    const json_t *list = json_object_get(j, "workers_detail");
    double most = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *w = json_array_get(list, i);
        double share = number(w, "image_seconds") / number(w, "seconds");
        most = share > most ? share : most; /* a share of NAN is none */
    }
    if (most > BOUND)
        yk_buf_format(out,
                      "  input     input-bound: steps waited %.0f %% of the time for their images; "
                      "smaller photos, more memory to keep them in, or more cores would help\n",
                      fmin(most, 1) * 100);
}

/* The work and the time of each worker. */
static void workers(const json_t *j, struct yk_buf *out)
{
    static const char *const PHASES[] = {"input", "compute", "push", "wait"};
    static const int WIDTH[] = {5, 7, 5, 5};
    const json_t *list = json_object_get(j, "workers_detail");
    char steps[32];
    if (json_array_size(list) < 2)
        return;
    yk_buf_format(out, "%6s %-10s %11s %6s %6s %7s %5s %7s %5s %5s\n", "worker", "host", "steps",
                  "share", "stale", "dropped", "input", "compute", "push", "wait");
    for (size_t i = 0; i < json_array_size(list) && i < WORKERS; i++) {
        const json_t *w = json_array_get(list, i), *p = json_object_get(w, "phases");
        double seconds = number(w, "seconds");
        yk_buf_format(out, "%6zu %-10.10s %11s %5.1f%% %6.2f %7.0f", i, text(w, "host"),
                      count(w, "steps", steps), number(w, "share") * 100,
                      number(json_object_get(w, "staleness"), "mean"), number(w, "stale_dropped"));
        for (size_t k = 0; k < sizeof PHASES / sizeof PHASES[0]; k++)
            if (seconds > 0)
                yk_buf_format(out, " %*.0f%%", WIDTH[k] - 1,
                              fmin(fmax(number(p, PHASES[k]) / seconds, 0), 1) * 100);
            else
                yk_buf_format(out, " %*s", WIDTH[k], "-");
        yk_buf_text(out, json_is_false(json_object_get(w, "alive")) ? "  lost\n" : "\n");
    }
    if (json_array_size(list) > WORKERS)
        yk_buf_format(out, "%6s and %zu more: see summary.json\n", "",
                      json_array_size(list) - WORKERS);
    yk_buf_text(out, "\n");
}

/* Losses, replacements, restarts. */
static void incidents(const json_t *j, struct yk_buf *out)
{
    const json_t *list = json_object_get(j, "events");
    char took[24];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        yk_buf_format(out, "  %s  step %.0f, after %s: %s\n", i == 0 ? "events  " : "        ",
                      number(v, "step"), duration(number(v, "seconds"), took), text(v, "what"));
    }
}

void yk_report(const struct yk_session *s, struct yk_buf *out)
{
    json_t *j = yk_session_summary(s);
    char a[32], b[32], size[24], took[24], start[24], eval[24];
    double loss = number(j, "test_loss"), accuracy = number(j, "test_accuracy");
    bool net = json_object_get(j, "engine") != NULL;
    yk_buf_format(out, "%s on %s, %s, ", text(j, "model"), text(j, "data"), text(j, "mode"));
    if (strcmp(text(j, "mode"), "local") != 0)
        yk_buf_format(out, "%.0f worker%s, ", number(j, "workers"),
                      number(j, "workers") == 1 ? "" : "s");
    yk_buf_format(out, "batch %.0f, %s %g, %.0f thread%s (%s%s%s)\n\n", number(j, "batch"),
                  text(j, "optimizer"), number(j, "lr"), number(j, "threads"),
                  number(j, "threads") == 1 ? "" : "s", text(j, "isa"), net ? ", " : "",
                  net ? text(j, "engine") : "");
    if (s->curve.points > 0)
        curve(s, out);
    workers(j, out);
    ending(j, out);
    incidents(j, out);
    if (!isnan(number(j, "progressive_loss")))
        yk_buf_format(out, "  progress  loss %.6f on rows before they were learnt\n",
                      number(j, "progressive_loss"));
    if (!isnan(loss))
        yk_buf_format(out, "  test      loss %.4f, accuracy %.2f %%\n", loss, accuracy * 100);
    if (!isnan(number(j, "test_auc"))) {
        yk_buf_format(out, "            AUC %.4f, recall %.2f %%", number(j, "test_auc"),
                      number(j, "test_recall") * 100);
        if (!isnan(number(j, "test_precision"))) /* without positive answers there is none */
            yk_buf_format(out, ", precision %.2f %%", number(j, "test_precision") * 100);
        yk_buf_text(out, "\n");
    }
    yk_buf_format(out, "  speed     %s steps/s, %s examples/s\n", count(j, "steps_per_second", a),
                  count(j, "examples_per_second", b));
    yk_buf_format(out, "  time      %s training, %s start-up, %s evaluation%s\n",
                  duration(number(j, "seconds"), took),
                  duration(number(j, "startup_seconds"), start),
                  duration(number(j, "eval_seconds"), eval),
                  json_is_true(json_object_get(j, "eval_overlapped")) ? " on another core" : "");
    if (number(j, "workers") == 1)
        where(j, out);
    input_bound(j, out);
    const json_t *stale = json_object_get(j, "staleness");
    if (number(stale, "max") > 0)
        yk_buf_format(out, "  staleness mean %.2f, 99 %% at most %.0f, largest %.0f\n",
                      number(stale, "mean"), number(stale, "p99"), number(stale, "max"));
    yk_buf_format(out, "  memory    %s at most\n",
                  yk_size_text((uint64_t)number(j, "peak_rss_bytes"), size));
    yk_buf_format(out, "  params    %s floats, xxh3 %s\n", count(j, "parameters", a),
                  text(j, "params_xxh3"));
    yk_buf_format(out, "  run       %s\n", text(j, "run"));
    json_decref(j);
}
