/* testbed.c - see testbed.h: starts the box, runs the command in it, and sees to its end.
 *
 *     yoke (here)         waits, passes signals on, and after a last deadline kills `first`
 *      +- janitor         outlives yoke to remove the cgroups, see cgroup.c
 *      +- first           process 1 of the box, which builds it (net.c) and collects orphans
 *          +- COMMAND     on host n0
 *          +- all that it starts, on n0 or, through the agent, on the other hosts
 *
 * Nothing can be left behind because nothing of the box has a name outside: its networks, mounts,
 * host names, System V memory and processes live in namespaces that exist as long as their
 * processes do. If `first` ends for any reason the kernel kills all processes of the box; and
 * it kills `first` when yoke dies.
 *
 * Signals. All three are in the terminal's foreground group, so Ctrl-C reaches the command
 * directly. A signal sent to yoke alone has to be passed on, but one sent to the group must not
 * arrive twice (a second Ctrl-C means 'quit at once' to yoke train). So yoke hands every signal to
 * `first`, which is a member of the group as well: if it gets the signal too, so did the command.
 * THREADS: one; unshare(2) of process ids refuses to work in a process with threads. */
#include "testbed/testbed.h"

#include "base/clock.h"
#include "testbed/cgroup.h"
#include "testbed/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRIVILEGED "inside a container, it has to be a privileged one"

/* exit codes of shells for a command that they cannot run */
enum { NOT_A_PROGRAM = 126, NOT_FOUND = 127 };
static const double GRACE = 10; /* seconds between a request to end and the end */

struct box {
    const struct yk_testbed_options *options;
    char *const *argv;
    struct yk_cgroups cgroups;
    /* INT, QUIT, TERM and HUP as far as they are not ignored, and CHLD: blocked, and waited for */
    sigset_t taken;
    /* the mask before, for the command and for the caller */
    sigset_t mask;
    struct sigaction chld;
    int terminal; /* of which this process has the foreground; -1 */
    /* to `first`: a byte for each signal, and the end of file if yoke dies */
    int control[2];
    /* from `first`: a struct yk_error if the command was not started */
    int report[2];
    pid_t first;
};

/* ---- inside the box ---- */

static _Noreturn void give_up_as(const struct box *b, const struct yk_error *e, int status)
{
    ssize_t n = write(b->report[1], e, sizeof *e); /* less than PIPE_BUF, so all or nothing */
    _exit(n < 0 ? YK_FAILED : status);
}

static _Noreturn void give_up(const struct box *b, const struct yk_error *e)
{
    give_up_as(b, e, (int)e->code);
}

/* Was the end asked for while the box was being built, or is yoke gone? Then so is the box. */
static void heed_early_signals(const struct box *b)
{
    struct pollfd p = {.fd = b->control[0], .events = POLLIN};
    unsigned char number = SIGKILL;
    if (poll(&p, 1, 0) > 0 && read(p.fd, &number, 1) >= 0)
        _exit(128 + number);
}

static pid_t start_command(const struct box *b, struct yk_error *e)
{
    pid_t pid = fork();
    if (pid < 0)
        yk_fail_errno(e, YK_FAILED, "cannot start a process");
    if (pid != 0)
        return pid;
    if (yk_testbed_enter(e) != YK_OK)
        give_up(b, e);
    sigprocmask(SIG_SETMASK, &b->mask, NULL);
    execvp(b->argv[0], b->argv);
    int status = errno == ENOENT ? NOT_FOUND : NOT_A_PROGRAM;
    yk_fail_errno(e, YK_USAGE, "cannot run '%.200s'", b->argv[0]);
    give_up_as(b, e, status);
}

/* Signals that this process got before the command existed were not for the command. */
static void forget_early_copies(const struct box *b)
{
    static const struct timespec NONE;
    sigset_t set = b->taken;
    sigdelset(&set, SIGCHLD);
    while (sigtimedwait(&set, NULL, &NONE) > 0)
        ;
}

/* Passes a signal on unless the command has it already: then this process, which is in the same
 * group, has it too or will have it at once. */
static void pass_on(int number, pid_t command)
{
    static const struct timespec MOMENT = {.tv_nsec = 20 * 1000 * 1000};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    bool had_it = sigtimedwait(&one, NULL, &MOMENT) == number;
    if (!had_it || getpgid(command) != getpgrp())
        kill(command, number);
}

/* Waits until a child has ended or yoke hands a signal on. */
static void attend(const struct box *b, int ended, pid_t command)
{
    struct pollfd p[] = {{.fd = ended, .events = POLLIN}, {.fd = b->control[0], .events = POLLIN}};
    struct signalfd_siginfo info;
    unsigned char number;
    if (poll(p, 2, -1) <= 0)
        return;
    if (p[1].revents != 0) {
        if (read(p[1].fd, &number, 1) != 1)
            _exit(128 + SIGKILL); /* yoke is gone */
        pass_on(number, command);
    }
    if (p[0].revents != 0 && read(ended, &info, sizeof info) < 0)
        return;
}

/* Collects the children that have ended; the command's exit status, or -1 while it runs. */
static int collect(pid_t command)
{
    int status = 0, result = -1;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == command)
            result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

static _Noreturn void be_first(const struct box *b)
{
    struct yk_error e = {0};
    sigset_t chld;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(b->control[1]);
    close(b->report[0]);
    heed_early_signals(b); /* yoke may have died before the first line */
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    int ended = signalfd(-1, &chld, SFD_CLOEXEC);
    if (ended < 0 || unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0) {
        yk_fail_errno(&e, YK_FAILED, "cannot make namespaces");
        yk_hint(&e, PRIVILEGED);
        give_up(b, &e);
    }
    if (yk_testbed_build(b->options, b->cgroups.folder, &e) != YK_OK)
        give_up(b, &e);
    heed_early_signals(b);
    pid_t command = start_command(b, &e);
    if (command < 0)
        give_up(b, &e);
    forget_early_copies(b);
    int status;
    while ((status = collect(command)) < 0)
        attend(b, ended, command);
    _exit(status);
}

/* ---- outside ---- */

static yk_code start_first(struct box *b, struct yk_error *e)
{
    yk_code rc = YK_OK;
    int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (own < 0 || unshare(CLONE_NEWPID) != 0) {
        rc = yk_fail_errno(e, YK_FAILED, "cannot make namespaces");
        yk_hint(e, PRIVILEGED);
        goto out_own;
    }
    b->first = fork();
    if (b->first == 0)
        be_first(b);
    if (b->first < 0)
        rc = yk_fail_errno(e, YK_FAILED, "cannot start a process");
    /* later children of this process stay outside of the box */
    if (setns(own, CLONE_NEWPID) != 0 && rc == YK_OK)
        rc = yk_fail_errno(e, YK_FAILED, "cannot leave the new namespace");
out_own:
    if (own >= 0)
        close(own);
    return rc;
}

static void take_signals(struct box *b)
{
    static const int NUMBERS[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &act, &b->chld); /* children of a process that ignores it leave no status */
    sigemptyset(&b->taken);
    sigaddset(&b->taken, SIGCHLD);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++)
        /* nohup means it */
        if (sigaction(NUMBERS[i], NULL, &act) == 0 && act.sa_handler != SIG_IGN)
            sigaddset(&b->taken, NUMBERS[i]);
    sigprocmask(SIG_BLOCK, &b->taken, &b->mask);
    b->terminal = -1;
    for (int fd = 0; fd < 3 && b->terminal < 0; fd++)
        if (tcgetpgrp(fd) == getpgrp())
            b->terminal = fd;
}

static void give_signals_back(struct box *b)
{
    sigset_t ttou, before;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    sigprocmask(SIG_BLOCK, &ttou, &before);
    if (b->terminal >= 0)
        tcsetpgrp(b->terminal, getpgrp()); /* a shell that was killed has not given it back */
    sigaction(SIGCHLD, &b->chld, NULL);
    sigprocmask(SIG_SETMASK, &b->mask, NULL);
}

/* Waits for `first`, and hands it signals. `asked` becomes the signal whose grace ran out, if
 * any. */
static int await_end(const struct box *b, int *asked)
{
    double deadline = 0;
    int status = 0, waiting = 0;
    while (waitpid(b->first, &status, WNOHANG) == 0) {
        double left = deadline > 0 ? deadline - yk_now() : 60;
        if (left <= 0) {
            *asked = waiting;
            kill(b->first, SIGKILL);
            left = 1;
        }
        struct timespec pause = {.tv_sec = (time_t)left,
                                 .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
        int number = sigtimedwait(&b->taken, NULL, &pause);
        if (number <= 0 || number == SIGCHLD)
            continue;
        unsigned char byte = (unsigned char)number;
        if (write(b->control[1], &byte, 1) == 1 && (number == SIGTERM || number == SIGHUP) &&
            deadline == 0) {
            deadline = yk_now() + GRACE;
            waiting = number;
        }
    }
    return status;
}

static yk_code check_machine(const struct yk_testbed_options *o, struct yk_error *e)
{
    bool buckets = false;
    for (unsigned i = 0; i < o->hosts; i++)
        buckets |= o->rate[i] > 0;
    if (geteuid() != 0) {
        yk_fail(e, YK_FAILED, "a testbed needs root: it makes network namespaces");
        yk_hint(e, "sudo yoke testbed ...");
        return YK_FAILED;
    }
    const char *missing = yk_testbed_program("ip") == NULL              ? "ip"
                          : buckets && yk_testbed_program("tc") == NULL ? "tc"
                                                                        : NULL;
    if (missing == NULL)
        return YK_OK;
    yk_fail(e, YK_FAILED, "a testbed needs the command '%s', which is not on this machine",
            missing);
    yk_hint(e, "Debian has it in the package iproute2");
    return YK_FAILED;
}

/* The result of `first`: the command's status, or the reason why there was none. */
static yk_code conclude(const struct box *b, int ended, int asked, int *status, struct yk_error *e)
{
    struct yk_error told;
    if (read(b->report[0], &told, sizeof told) == (ssize_t)sizeof told) {
        bool not_run = WIFEXITED(ended) &&
                       (WEXITSTATUS(ended) == NOT_FOUND || WEXITSTATUS(ended) == NOT_A_PROGRAM);
        *status = not_run ? WEXITSTATUS(ended) : 0;
        yk_fail(e, told.code, "%s", told.text);
        if (told.hint[0] != '\0')
            yk_hint(e, "%s", told.hint);
        return told.code;
    }
    if (WIFSIGNALED(ended) && asked == 0)
        return yk_fail(e, YK_FAILED, "the testbed's first process was ended by signal %d",
                       WTERMSIG(ended));
    *status = WIFSIGNALED(ended) ? 128 + asked : WEXITSTATUS(ended);
    return YK_OK;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

yk_code yk_testbed_run(const struct yk_testbed_options *o, char *const *argv, int *status,
                       struct yk_error *e)
{
    struct box b = {.options = o, .argv = argv, .control = {-1, -1}, .report = {-1, -1}};
    int ended, asked = 0;
    yk_code rc = check_machine(o, e);
    if (rc != YK_OK)
        return rc;
    take_signals(&b);
    rc = yk_cgroups_open(&b.cgroups, o, e);
    if (rc != YK_OK)
        goto out_signals;
    if (pipe2(b.control, O_CLOEXEC) != 0 || pipe2(b.report, O_CLOEXEC) != 0) {
        rc = yk_fail_errno(e, YK_FAILED, "cannot make a pipe");
        goto out_pipes;
    }
    rc = start_first(&b, e);
    if (rc != YK_OK)
        goto out_pipes;
    /* control[0] stays open: writing to a process that has just ended must not be a SIGPIPE */
    close_end(&b.report[1]);
    ended = await_end(&b, &asked);
    rc = conclude(&b, ended, asked, status, e);
out_pipes:
    for (int i = 0; i < 2; i++) {
        close_end(&b.control[i]);
        close_end(&b.report[i]);
    }
    yk_cgroups_close(&b.cgroups);
out_signals:
    give_signals_back(&b);
    return rc;
}
