/* train.c - `yoke train`, written on the public library: open, train, show.
 * The first Ctrl-C (or SIGTERM, or a terminal that goes away) makes the run write a checkpoint and stop; a second one quits at once. */
#include "cmd/cmd.h"

#include "model/model.h"
#include "yoke.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static yoke_run *training;           /* for the handler, which gets no argument */
static volatile sig_atomic_t caught; /* the signal that came first */
static bool quiet;

static void on_signal(int number)
{
    static const char MESSAGE[] = "yoke: stopping; once more quits without saving\n";
    if (caught != 0)
        _exit(128 + number);
    caught = number;
    yoke_stop(training);
    if (!quiet && write(STDERR_FILENO, MESSAGE, sizeof MESSAGE - 1) < 0)
        return; /* nobody to tell */
}

static void catch_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    struct sigaction inherited;
    if (sigaction(SIGHUP, NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN) /* nohup means it */
        sigaction(SIGHUP, &act, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static yk_code fail(const yoke_error *from, struct yk_error *e)
{
    memcpy(e, from, sizeof *e);
    return (yk_code)from->code;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    yoke_error error;
    training = yoke_open(call->config, call->words > 0 ? call->word[0] : NULL, &error);
    if (training == NULL)
        return fail(&error, e);
    quiet = call->config->o.quiet;
    catch_signals();
    yk_code rc = yoke_train(training, &error) == YOKE_OK ? YK_OK : fail(&error, e);
    if (rc == YK_OK) {
        bool json = call->config->o.json;
        char *text = json ? yoke_summary(training) : yoke_report(training);
        if (text != NULL)
            fputs(text, stdout);
        if (json)
            putchar('\n');
        free(text);
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    bool stopped = yoke_was_stopped(training) != 0;
    yoke_close(training);
    call->signal = rc == YK_OK && stopped ? caught : 0;
    return rc;
}

#define SPACED(name) #name " "

static void list_models(FILE *out)
{
    for (unsigned i = 0; yk_model_at(i) != NULL; i++) {
        const struct yk_model_ops *m = yk_model_at(i);
        fprintf(out, "  %s: %s; by default\n   ", m->name, m->help);
        for (size_t k = 0; m->defaults[k] != NULL; k += 2)
            fprintf(out, " --%s %s", m->defaults[k], m->defaults[k + 1]);
        fputc('\n', out);
    }
}

const struct verb verb_train = {
    .name = "train",
    .args = "MODEL [--data DATA] [options] | --resume RUN",
    .summary = "train a model",
    .details = "Trains MODEL on DATA until a stop rule holds: --steps, --epochs,\n"
               "--target-loss, --target-accuracy or --max-seconds, whichever comes first.\n"
               "Everything the run says about itself goes into a folder below runs/\n"
               "(runs/latest is the newest): config.json, summary.json, metrics.jsonl,\n"
               "log.txt, checkpoints/ and events/ for TensorBoard. Ctrl-C saves and stops;\n"
               "--resume goes on where it stopped and ends with the very bits of a run that\n"
               "was never interrupted.",
    .list = list_models,
    .examples = "yoke train softmax --data mnist --target-loss 0.35\n"
                "yoke train softmax --data fashion-mnist --optimizer adam --epochs 20\n"
                "yoke train softmax --schedule warmup:500,cosine:6000 --lr 0.1 --json\n"
                "yoke train --resume runs/latest --epochs 30",
    .choices = YK_MODELS(SPACED),
    .most = 1,
    .run = run,
};
