/* mpirun.c - the parent's loop: one attempt is one mpirun, watched until it is over; a run is one
 * attempt or several. See mpirun.h.
 *
 * An attempt ends in one of these ways (enum end), and only the first is a result:
 *
 *     DONE      the `done` record is here; mpirun returned, or had two seconds to
 *     QUIT      the user does not wait: a second signal, or one before the job had started
 *     LOST      everything else, with the reason in job->why */
#include "launch/mpirun.h"

#include "base/clock.h"
#include "launch/mpirun_command.h"
#include "launch/mpirun_output.h"
#include "launch/mpirun_tidy.h"
#include "launch/record.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_DEADLINE 30.0
#define DONE_GRACE 2.0 /* for mpirun to return after the result */
#define LOST_GRACE 1.0 /* for a result to arrive after a rank was lost */
#define LOOK 0.25      /* between two looks at the ranks while they start */
/* A rank that was never seen so long after the first one came and went between two looks. */
#define LATE 3.0
#define STUCK 2   /* losses in a row without a new checkpoint: the fault repeats */
#define STALL 0.5 /* a wait that took so much longer than asked: this process was stopped */

enum { READS = 64 }; /* reads of one stream before the others have their turn */
enum end { RUNNING, DONE, QUIT, LOST };

struct job {
    const struct yk_launch *l;
    size_t ranks;
    struct yk_tidy tidy;
    int signals;   /* signalfd for INT, TERM, HUP */
    int asked;     /* the first of them that came; 0 if none */
    bool at_once;  /* a second one came */
    int restarts;  /* made so far */
    int stuck;     /* attempts in a row that were lost without a new checkpoint */
    int64_t best;  /* the step of the newest checkpoint */
    int64_t since; /* `best` when this attempt started */
    bool resumable;
    char folder[YK_PATH_MAX];
    bool *seen;  /* (ranks) that ever ran on this machine */
    bool *alive; /* (ranks) that run on it now */

    /* this attempt */
    pid_t pid; /* mpirun */
    int pidfd, out, err;
    struct yk_lines out_lines, err_lines;
    struct yk_noise noise;
    bool started, done;
    bool blamed;             /* `why` names a better cause than mpirun's end could */
    double began;            /* start of the attempt */
    double look;             /* time of the next look at the ranks */
    double due;              /* time when the attempt ends, unless something better happens */
    double first;            /* time when a rank was first seen; 0: not yet */
    struct yk_record record; /* `done` */
    char why[256];           /* the reason if `due` passes */
};

/* --- records and lines --- */

/* From now on the attempt ends at `at`, because of `why`, unless something better happens. */
static void set_due(struct job *j, double at, const char *why)
{
    j->due = at;
    snprintf(j->why, sizeof j->why, "%s", why);
}

static void note_step(struct job *j, int64_t step)
{
    j->resumable = true;
    if (step > j->best)
        j->best = step;
}

static void take_record(struct job *j, struct yk_record *r)
{
    double now = yk_now();
    if (r->folder[0] != '\0')
        memcpy(j->folder, r->folder, sizeof j->folder);
    switch (r->kind) {
    case YK_RECORD_STARTED:
        if (r->resumable && r->step > j->best)
            j->stuck = 0; /* the attempt before got further than it could tell */
        if (r->resumable)
            note_step(j, r->step);
        j->since = j->best;
        j->started = true;
        if (!j->done) {
            j->blamed = false;
            set_due(j, INFINITY, "");
        }
        if (j->l->verbose)
            yk_log_line(j->l->log, YK_INFO, "%d ranks are ready after %.2f s", r->ranks,
                        now - j->began);
        break;
    case YK_RECORD_ALIVE:
        if (j->started && !j->done && !j->blamed)
            set_due(j, now + r->seconds, "the ranks have been silent for too long");
        break;
    case YK_RECORD_SAVED:
        note_step(j, r->step);
        break;
    case YK_RECORD_LOST:
        if (!j->done && !j->blamed) {
            j->blamed = true;
            set_due(j, now + LOST_GRACE, r->output);
        }
        break;
    case YK_RECORD_DONE:
        if (r->resumable)
            note_step(j, r->step);
        if (!j->done) {
            j->done = true;
            j->record = *r;
            r->output = NULL; /* ours now */
            set_due(j, now + DONE_GRACE, "");
        }
        break;
    }
    free(r->output);
}

static void take_noise(struct job *j, const char *text, size_t n)
{
    const char *kept = yk_noise_add(&j->noise, text, n);
    if (kept != NULL && j->l->verbose)
        fprintf(stderr, "mpirun: %s\n", kept);
}

static void out_line(void *arg, const char *text, size_t n)
{
    struct yk_record r;
    if (yk_record_parse(text, n, &r))
        take_record(arg, &r);
    else
        take_noise(arg, text, n);
}

static void err_line(void *arg, const char *text, size_t n)
{
    if (yk_line_is_ours(text, n))
        fprintf(stderr, "%.*s\n", (int)n, text);
    else
        take_noise(arg, text, n);
}

/* Reads the waiting bytes, but only so many, so that a fast stream cannot block the others. A
 * stream that has ended is closed and becomes -1. */
static void read_some(struct job *j, int *fd, struct yk_lines *lines,
                      void (*line)(void *arg, const char *text, size_t n))
{
    char some[65536];
    for (int i = 0; i < READS && *fd >= 0; i++) {
        ssize_t n = read(*fd, some, sizeof some);
        if (n > 0) {
            yk_lines_feed(lines, some, (size_t)n, line, j);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            close(*fd);
            *fd = -1;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

/* --- starting mpirun --- */

/* In the child. Reports through `report` why it could not become mpirun; nothing here allocates. */
static _Noreturn void become(const struct yk_mpirun_command *c, const sigset_t *mask,
                             const int out[2], const int err[2], int report, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() != parent)
        _exit(1);
    /* The parent translates Ctrl-C, and without a terminal ssh fails instead of asking for a
     * password. */
    setsid();
    if (in >= 0 && dup2(in, 0) >= 0 && dup2(out[1], 1) >= 0 && dup2(err[1], 2) >= 0 &&
        sigprocmask(SIG_SETMASK, mask, NULL) == 0)
        execvpe(c->argv.word[0], c->argv.word, c->env.word);
    int why = errno;
    while (write(report, &why, sizeof why) < 0 && errno == EINTR)
        ;
    _exit(1);
}

static yk_code refuse_start(struct yk_error *e, int why)
{
    errno = why;
    yk_fail_errno(e, YK_FAILED, "cannot start 'mpirun'");
    if (why == ENOENT)
        yk_hint(e, "it belongs to Open MPI: 'apt install openmpi-bin'");
    return YK_FAILED;
}

static void close_pair(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

static yk_code spawn(struct job *j, const struct yk_mpirun_command *c, const sigset_t *mask,
                     struct yk_error *e)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1}, why = 0;
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
        why = errno;
        goto out_pipes;
    }
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    pid_t parent = getpid();
    j->pid = fork();
    if (j->pid == 0)
        become(c, mask, out, err, report[1], parent);
    if (j->pid < 0) {
        why = errno;
        goto out_pipes;
    }
    close(report[1]);
    report[1] = -1;
    while (read(report[0], &why, sizeof why) < 0 && errno == EINTR)
        ; /* the end of the file: mpirun is running */
    j->pidfd = why == 0 ? pidfd_open(j->pid, 0) : -1;
    if (j->pidfd < 0) {
        why = why != 0 ? why : errno;
        kill(j->pid, SIGKILL);
        while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        goto out_pipes;
    }
    j->out = out[0];
    j->err = err[0];
    out[0] = err[0] = -1;
out_pipes:
    close_pair(out);
    close_pair(err);
    close_pair(report);
    return why == 0 ? YK_OK : refuse_start(e, why);
}

/* --- watching it --- */

/* While ranks start: a rank of this machine that was there and is gone would keep the others
 * waiting in MPI_Init for ever. */
static void look_at_ranks(struct job *j, double now)
{
    j->look = now + LOOK;
    yk_tidy_ranks(&j->tidy, j->alive, j->ranks);
    for (size_t i = 0; i < j->ranks; i++) {
        if (j->alive[i] && j->first == 0)
            j->first = now;
        bool late = j->first != 0 && now > j->first + LATE && !j->seen[i] &&
                    yk_host_is_local(yk_launch_host(j->l, i));
        if ((j->seen[i] || late) && !j->alive[i] && !j->blamed) {
            char why[64];
            snprintf(why, sizeof why, "rank %zu ended before the job had started", i);
            j->blamed = true;
            set_due(j, now + LOST_GRACE, why); /* a record may be on its way */
        }
        j->seen[i] |= j->alive[i];
    }
}

static void take_signals(struct job *j)
{
    struct signalfd_siginfo info;
    while (read(j->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (j->asked != 0 || !j->started || j->done) {
            j->at_once = true;
        } else {
            yk_log_line(j->l->log, YK_INFO, "stopping; a second signal stops at once");
            kill(j->pid, SIGUSR1);
        }
        if (j->asked == 0)
            j->asked = (int)info.ssi_signo;
    }
}

/* Watches until the attempt is over; mpirun may still be there afterwards. The deadline is judged
 * after the pipes were read: this process may have been stopped for seconds, and the awaited record
 * may lie in them. */
static bool watch(struct job *j)
{
    for (;;) {
        double now = yk_now();
        if (!j->started && !j->done && now >= j->look)
            look_at_ranks(j, now);
        double next = !j->started && !j->done && j->look < j->due ? j->look : j->due;
        int wait = next - now > 1000 ? 1000000 : next > now ? (int)((next - now) * 1000) + 1 : 0;
        struct pollfd p[] = {
            {.fd = j->out, .events = POLLIN},
            {.fd = j->err, .events = POLLIN},
            {.fd = j->signals, .events = POLLIN},
            {.fd = j->pidfd, .events = POLLIN},
        };
        int ready = poll(p, sizeof p / sizeof p[0], wait);
        double took = yk_now() - now;
        /* the machine stood still, and so did the ranks */
        if (ready == 0 && took > wait / 1000.0 + STALL)
            j->due += took;
        if (ready > 0) {
            read_some(j, &j->out, &j->out_lines, out_line);
            read_some(j, &j->err, &j->err_lines, err_line);
            if (p[2].revents != 0)
                take_signals(j);
            if (p[3].revents != 0)
                return true;
        }
        if (j->at_once || now >= j->due)
            return false;
    }
}

/* Ends the rest of the attempt and reads its last lines. Other processes that hold our pipes open
 * (a daemon that is about to end) are not waited for. */
static void finish(struct job *j, bool returned)
{
    int status = 0;
    if (!returned)
        kill(j->pid, SIGKILL);
    pid_t gone;
    while ((gone = waitpid(j->pid, &status, 0)) < 0 && errno == EINTR)
        ;
    yk_tidy_kill(&j->tidy);
    read_some(j, &j->out, &j->out_lines, out_line);
    read_some(j, &j->err, &j->err_lines, err_line);
    yk_lines_end(&j->out_lines, out_line, j);
    yk_lines_end(&j->err_lines, err_line, j);
    for (int *const *fd = (int *const[]){&j->out, &j->err, &j->pidfd, NULL}; *fd != NULL; fd++)
        if (**fd >= 0)
            close(**fd);
    if (!returned || gone < 0 || j->blamed)
        return;
    if (WIFSIGNALED(status))
        snprintf(j->why, sizeof j->why, "mpirun was ended by signal %d", WTERMSIG(status));
    else
        snprintf(j->why, sizeof j->why, "mpirun ended (status %d) and left no result",
                 WEXITSTATUS(status));
}

static yk_code attempt(struct job *j, char *const *argv, const sigset_t *mask, enum end *end,
                       struct yk_error *e)
{
    struct yk_mpirun_command c;
    char why[96];
    yk_code rc = yk_mpirun_command_build(&c, j->l, argv, j->tidy.folder, j->restarts, e);
    if (rc != YK_OK)
        return rc;
    double patience = j->l->start_deadline > 0 ? j->l->start_deadline : START_DEADLINE;
    snprintf(why, sizeof why, "the %zu ranks were not ready within %.0f s", j->ranks, patience);
    free(j->record.output);
    j->record = (struct yk_record){0};
    j->noise.n = 0;
    j->started = j->done = j->blamed = false;
    j->since = j->best;
    memset(j->seen, 0, j->ranks * sizeof *j->seen);
    j->first = 0;
    j->began = yk_now();
    j->look = j->began + LOOK;
    set_due(j, j->began + patience, why);
    rc = spawn(j, &c, mask, e);
    yk_mpirun_command_release(&c);
    if (rc != YK_OK)
        return rc;
    finish(j, watch(j));
    *end = j->done ? DONE : j->at_once ? QUIT : LOST;
    return YK_OK;
}

/* --- several attempts --- */

/* Shall a lost job be started again? Reports the decision if restarts were asked for. */
static bool may_restart(struct job *j, const char *why)
{
    if (j->l->restarts == 0 || j->l->resume_argv == NULL || j->asked != 0)
        return false;
    j->stuck = j->best > j->since ? 0 : j->stuck + 1;
    if (!j->resumable || j->folder[0] == '\0') {
        yk_log_line(j->l->log, YK_WARN, "not starting again: %s, before there was a checkpoint",
                    why);
        return false;
    }
    if (j->stuck >= STUCK) {
        yk_log_line(
            j->l->log, YK_WARN,
            "giving up: %s, for the second time in a row without a checkpoint after step %lld", why,
            (long long)j->best);
        return false;
    }
    if (j->restarts >= j->l->restarts) {
        yk_log_line(j->l->log, YK_WARN, "giving up after %d restart%s: %s", j->restarts,
                    j->restarts == 1 ? "" : "s", why);
        return false;
    }
    j->restarts++;
    yk_log_line(j->l->log, YK_WARN, "restart %d of %d, from step %lld: %s", j->restarts,
                j->l->restarts, (long long)j->best, why);
    return true;
}

/* argv for a restart; the caller frees the array, the words are borrowed. */
static char **resume_words(const struct job *j)
{
    size_t n = 0;
    while (j->l->resume_argv[n] != NULL)
        n++;
    char **argv = calloc(n + 1, sizeof *argv);
    for (size_t i = 0; argv != NULL && i < n; i++)
        argv[i] = strcmp(j->l->resume_argv[i], YK_LAUNCH_FOLDER) == 0 ? (char *)j->folder
                                                                      : j->l->resume_argv[i];
    return argv;
}

static yk_code told_lost(const struct job *j, struct yk_error *e)
{
    yk_noise_show(&j->noise);
    if (!j->started && yk_noise_blame(&j->noise, j->l, e))
        return YK_LOST;
    yk_fail(e, YK_LOST, "the job is lost: %s", j->why);
    if (j->resumable && j->folder[0] != '\0')
        yk_hint(e, "'yoke train --resume %s' goes on from step %lld", j->folder,
                (long long)j->best);
    else if (j->l->resume_argv != NULL &&
             j->folder[0] != '\0') /* there may be a checkpoint that was not reported any more */
        yk_hint(e, "'yoke train --resume %s' goes on from its newest checkpoint, or begins again",
                j->folder);
    else if (!j->started && !yk_hosts_local(j->l->hosts))
        yk_hint(e, "can this machine 'ssh' to every host without a password, and is yoke there "
                   "under the same path?");
    return YK_LOST;
}

static yk_code run_job(struct job *j, const sigset_t *mask, struct yk_launch_result *out,
                       struct yk_error *e)
{
    char *const *argv = j->l->argv;
    char **words = NULL;
    enum end end = RUNNING;
    yk_code rc;
    for (;;) {
        rc = attempt(j, argv, mask, &end, e);
        bool lost = rc == YK_OK && (end == LOST || (end == DONE && j->record.code == YK_LOST));
        if (!lost || !may_restart(j, end == LOST ? j->why : "a rank is lost"))
            break;
        yk_tidy_empty(&j->tidy);
        if (words == NULL)
            words = resume_words(j);
        if (words == NULL) {
            rc = yk_fail_memory(e, 0);
            break;
        }
        argv = words;
    }
    free(words);
    if (rc != YK_OK)
        return rc;
    if (end == QUIT) {
        out->signal = j->asked;
        out->code = YK_FAILED;
        if (j->resumable && j->folder[0] != '\0')
            yk_log_line(j->l->log, YK_INFO,
                        "stopped at once; 'yoke train --resume %s' goes on from step %lld",
                        j->folder, (long long)j->best);
    } else if (end == LOST) {
        return told_lost(j, e);
    } else {
        out->code = j->record.code;
        out->signal = j->record.signal != 0 && j->asked != 0 ? j->asked : j->record.signal;
        out->output = j->record.output;
        j->record.output = NULL;
    }
    return YK_OK;
}

/* --- the calls --- */

/* Those of INT, TERM and HUP that this process does not ignore (as under nohup): an ignored signal
 * that is blocked would still reach a signalfd. */
static void our_signals(sigset_t *set)
{
    sigemptyset(set);
    for (const int *s = (const int[]){SIGINT, SIGTERM, SIGHUP, 0}; *s != 0; s++) {
        struct sigaction now;
        if (sigaction(*s, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, *s);
    }
}

yk_code yk_launch_run(const struct yk_launch *l, struct yk_launch_result *out, struct yk_error *e)
{
    *out = (struct yk_launch_result){0};
    sigset_t ours, before;
    yk_code rc = YK_FAILED;
    struct job *j = calloc(1, sizeof *j); /* its ring of noise is not for the stack */
    if (j == NULL) {
        rc = yk_fail_memory(e, sizeof *j);
        goto out_code;
    }
    j->l = l;
    j->ranks = l->owners + l->hosts->workers.n;
    j->seen = calloc(j->ranks, sizeof *j->seen);
    j->alive = calloc(j->ranks, sizeof *j->alive);
    if (j->seen == NULL || j->alive == NULL) {
        rc = yk_fail_memory(e, j->ranks);
        goto out_job;
    }
    our_signals(&ours);
    sigprocmask(SIG_BLOCK, &ours, &before);
    j->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (j->signals < 0) {
        rc = yk_fail_errno(e, YK_FAILED, "cannot watch for signals");
        goto out_mask;
    }
    rc = yk_tidy_open(&j->tidy, j->ranks, e);
    if (rc != YK_OK)
        goto out_signals;
    rc = run_job(j, &before, out, e);
    out->restarts = j->restarts;
    memcpy(out->folder, j->folder, sizeof out->folder);
    yk_tidy_close(&j->tidy);
    free(j->record.output);
    if (rc == YK_OK && out->output == NULL && (out->output = strdup("")) == NULL)
        rc = yk_fail_memory(e, 1);
out_signals:
    close(j->signals);
out_mask:
    sigprocmask(SIG_SETMASK, &before, NULL);
out_job:
    free(j->seen);
    free(j->alive);
    free(j);
out_code:
    if (rc != YK_OK)
        out->code = rc;
    return rc;
}

void yk_launch_result_release(struct yk_launch_result *r)
{
    free(r->output);
    *r = (struct yk_launch_result){0};
}

yk_code yk_launch_program(char out[YK_PATH_MAX], struct yk_error *e)
{
    ssize_t n = readlink("/proc/self/exe", out, YK_PATH_MAX - 1);
    if (n < 0)
        return yk_fail_errno(e, YK_FAILED, "cannot tell where this program is");
    out[n] = '\0';
    if (access(out, X_OK) != 0) /* replaced while it runs: the link then ends in " (deleted)" */
        return yk_fail(e, YK_FAILED, "this program is no longer where it was: '%s'", out);
    return YK_OK;
}

void yk_launch_join(void)
{
    yk_tidy_join();
}
