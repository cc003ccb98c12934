/* train.c - `yoke train`, written on the public library: open, train, show. With --hosts it starts
 * the job and waits for it (launch.c); started by mpirun or srun it is one of the job's ranks. The
 * first Ctrl-C (or SIGTERM, or a terminal that goes away) makes the run write a checkpoint and
 * stop; a second one quits at once. A rank is told by SIGUSR1, which mpirun hands on. */
#include "cmd/launch.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "launch/mpirun.h"
#include "launch/record.h"
#include "model/model.h"
#include "model/net/net.h"
#include "train/config.h"
#include "yoke.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static yoke_run *volatile training;  /* for the signal handler, which gets no argument */
static volatile sig_atomic_t caught; /* the signal that came first */
static bool quiet;

static void on_signal(int number)
{
    static const char MESSAGE[] = "yoke: stopping; a second signal quits without saving\n";
    if (caught != 0 && number != SIGUSR1)
        _exit(128 + number);
    caught = number;
    if (training == NULL) /* still opening: run() looks */
        return;
    yoke_stop(training);
    if (!quiet && number != SIGUSR1 && write(STDERR_FILENO, MESSAGE, sizeof MESSAGE - 1) < 0)
        return; /* a message that cannot be shown is lost */
}

static void catch_signals(bool rank)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (rank)
        sigaction(SIGUSR1, &act, NULL);
    struct sigaction inherited;
    if (sigaction(SIGHUP, NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &act, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static yk_code fail(const yoke_error *from, struct yk_error *e)
{
    memcpy(e, from, sizeof *e);
    return (yk_code)from->code;
}

static void record_saved(void *arg, long long step)
{
    (void)arg;
    yk_record_saved(step);
}

/* Rank 0's last record for its parent: the code, and the text for standard output. */
static void record_done(const yoke_run *run, yk_code rc, int number, const char *output,
                        const struct yk_error *e)
{
    if (rc != YK_OK)
        print_error(e);
    long long saved = run != NULL ? yoke_saved(run) : -1; /* where a restart would go on */
    yk_record_done((int)rc, number, run != NULL ? yoke_folder(run) : "", saved >= 0,
                   saved >= 0 ? saved : 0, output != NULL ? output : "");
}

/* Rank 0 tells its parent regularly that it is there: behind mpirun the parent would not learn that
 * a whole host has gone. */
static atomic_bool ended;
static void *keep_alive(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !atomic_load(&ended); i++) {
        const struct timespec tick = {0, 50000000};
        if (i % 60 == 0) /* every three seconds */
            yk_record_alive(12);
        nanosleep(&tick, NULL);
    }
    return NULL;
}

/* The result as the user wants to see it; the caller frees it. NULL if there is none. */
static char *result_of(const yoke_run *run, bool json)
{
    char *text = json ? yoke_summary(run) : yoke_report(run), *line = NULL;
    if (!json || text == NULL)
        return text;
    if (asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

/* With a parent, ranks are mpirun's, also where MPI could not be joined. */
static bool is_first_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank == NULL || strcmp(rank, "0") == 0;
}

/* The training of one process: all of it, or one rank's part. */
static yk_code train(struct call *call, const struct yoke_config *config, bool parent,
                     struct yk_error *e)
{
    yoke_error error;
    double start = yk_now();
    yoke_run *run = yoke_open(config, call->words > 0 ? call->word[0] : NULL, &error);
    if (run == NULL) {
        yk_code rc = fail(&error, e);
        call->told = parent;
        if (parent && is_first_rank())
            record_done(NULL, rc, 0, NULL, e);
        return rc;
    }
    training = run;
    bool first = yoke_rank(run) == 0;
    if (caught != 0)
        yoke_stop(run);
    if (parent && first) {
        yoke_on_saved(run, record_saved, NULL);
        yk_record_started(yoke_folder(run), yoke_ranks(run), yk_now() - start, yoke_step(run),
                          yoke_saved(run) >= 0);
    }
    pthread_t keeper;
    bool kept = parent && first && pthread_create(&keeper, NULL, keep_alive, NULL) == 0;
    yk_code rc = yoke_train(run, &error) == YOKE_OK ? YK_OK : fail(&error, e);
    atomic_store(&ended, true);
    if (kept)
        pthread_join(keeper, NULL);
    bool stopped = first && rc == YK_OK && yoke_was_stopped(run) != 0;
    char *text = first && rc == YK_OK ? result_of(run, config->o.json) : NULL;
    if (parent && first) {
        record_done(run, rc, stopped ? (int)caught : 0, text, e);
    } else if (parent && rc == YK_LOST) {
        yk_record_lost(e->text);
    } else if (text != NULL) {
        fputs(text, stdout);
    }
    free(text);
    /* if rank 0 is lost, rank 1 shows the error */
    call->told = parent || (rc == YK_LOST && yoke_rank(run) > 1);
    call->signal = stopped ? caught : 0;
    fflush(stdout);
    training = NULL;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    call->quit = yoke_close(run) != 0;
    return rc;
}

static yk_code run(struct call *call, struct yk_error *e)
{
    bool rank = yk_mpi_launched(), done = false, parent = rank && yk_record_wanted();
    yk_code rc = yk_options_check(&call->opts, e);
    if (rc == YK_OK && !rank)
        rc = launch_training(call, &done, e);
    if (rc != YK_OK || done)
        return rc;
    struct yoke_config config = {.restarts = parent ? (unsigned)yk_record_restarts() : 0};
    rc = yk_opts_copy(&config.opts, &config.o, &call->opts, e);
    if (rc != YK_OK)
        return rc;
    quiet = config.o.quiet || rank;
    yk_launch_join();
    catch_signals(rank);
    rc = train(call, &config, parent, e);
    yk_opts_release(&config.opts);
    return rc;
}

/* Pairs of option and value, wrapped. */
static void list_defaults(FILE *out, const char *const *defaults)
{
    int at = 3;
    fputs("   ", out);
    for (size_t k = 0; defaults[k] != NULL; k += 2) {
        int n = (int)(strlen(defaults[k]) + strlen(defaults[k + 1])) + 4;
        if (at > 3 && at + n > 80) {
            fputs("\n   ", out);
            at = 3;
        }
        fprintf(out, " --%s %s", defaults[k], defaults[k + 1]);
        at += n;
    }
    fputc('\n', out);
}

static void list_models(FILE *out)
{
    for (unsigned i = 0; yk_model_at(i) != NULL; i++) {
        const struct yk_model_ops *m = yk_model_at(i);
        fprintf(out, "  %s: %s; by default\n", m->name, m->help);
        list_defaults(out, m->defaults);
    }
    for (const struct yk_net_file *f = yk_net_files; f->name != NULL; f++) {
        struct yk_net n;
        if (yk_net_read(f->name, &n, NULL) != YK_OK)
            continue;
        fprintf(out, "  %s: a net for images of %ux%ux%u, %u classes; by default\n", f->name,
                n.input.h, n.input.w, n.input.c, n.classes);
        list_defaults(out, (const char *const *)n.setting);
        yk_net_release(&n);
    }
    fputs("  FILE.net: a net of your own, see 'yoke help net'; by default\n", out);
    list_defaults(out, yk_model_net.defaults);
}

const struct verb verb_train = {
    .name = "train",
    .args = "MODEL [--data DATA] [options] | --resume RUN",
    .summary = "train a model",
    .details = "Trains MODEL on DATA until a stop rule holds: --steps, --epochs,\n"
               "--target-loss, --target-accuracy or --max-seconds, whichever comes first.\n"
               "All records of the run go into a folder below runs/ (runs/latest is the\n"
               "newest): config.json, summary.json, metrics.jsonl, log.txt, checkpoints/ and\n"
               "events/ for TensorBoard. Ctrl-C saves and stops; --resume continues where it\n"
               "stopped, and ends with the same bits as a run that was never interrupted.\n"
               "\n"
               "--workers trains with several workers: threads of this process, or processes\n"
               "on the hosts of --hosts, mpirun or srun. Modes: sync, a step is the mean over\n"
               "all workers; async, every push is applied at once; ssp, async with a bound on\n"
               "how far a worker may be ahead; allreduce, sync without parameter servers.",
    .list = list_models,
    .examples = "yoke train softmax --data mnist --target-loss 0.35\n"
                "yoke train softmax --data fashion-mnist --optimizer adam --epochs 20\n"
                "yoke train softmax --schedule warmup:500,cosine:6000 --lr 0.1 --json\n"
                "yoke train --resume runs/latest --epochs 30\n"
                "yoke train softmax --mode async --workers 3\n"
                "yoke train softmax --mode allreduce --hosts a,b,c\n"
                "yoke train lenet --epochs 1",
    .choices = YK_MODELS(SPACED),
    .takes_net = true,
    .most = 1,
    .options = yk_option_table,
    .values = sizeof(struct yk_options),
    .run = run,
};
