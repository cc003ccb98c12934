/* mpirun_test.c - the parent, with real mpirun and real kills: how a job ends, what is said, and
 * that nothing is left.
 *
 * This program is also its own ranks: started with --rank MODE DIR it prints the records of that
 * mode (see rank_main). It starts itself again with a mark in the environment, which all its
 * offspring inherit, so that whoever is left behind is found in /proc. */
#include "launch/mpirun.h"

#include "base/clock.h"
#include "launch/record.h"
#include "tests/testdir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define MARK "YK_LAUNCH_TEST"
enum { RANKS = 3, BIG = 120000 };

static char self[YK_PATH_MAX];
static struct yk_log *log_;

/* --- the ranks --- */

static volatile sig_atomic_t told;

static void on_usr1(int s)
{
    told = s;
}

static void touch(const char *dir, const char *what, int n)
{
    char path[YK_PATH_MAX], text[16];
    snprintf(path, sizeof path, "%s/%s-%d", dir, what, n);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666),
        len = snprintf(text, sizeof text, "%d", getppid());
    if (fd < 0 || write(fd, text, (size_t)len) != len)
        _exit(9);
    close(fd);
}

/* Wait until all of `n` have touched it. What they wrote, the last time. */
static bool touched(const char *dir, const char *what, int n, int *number)
{
    char path[YK_PATH_MAX], text[16];
    for (int i = 0; i < n; i++) {
        ssize_t len = 0;
        double end = yk_now() + 20;
        while (len <= 0) {
            snprintf(path, sizeof path, "%s/%s-%d", dir, what, i);
            int fd = open(path, O_RDONLY);
            if (fd >= 0) {
                len = read(fd, text, sizeof text - 1);
                close(fd);
            }
            if (len <= 0 && yk_now() > end)
                return false;
            if (len <= 0)
                usleep(5000);
        }
        text[len] = '\0';
        if (number != NULL)
            *number = atoi(text);
    }
    return true;
}

static _Noreturn void hang(void)
{
    for (;;)
        pause(); /* ends by a kill, or by the alarm */
}

static _Noreturn void rank_train(int rank, const char *dir, bool stubborn)
{
    signal(SIGUSR1, on_usr1);
    touch(dir, "ready", rank);
    if (rank == 0 && touched(dir, "ready", RANKS, NULL)) {
        yk_record_saved(100);
        yk_record_started("runs/x", RANKS, 0.1, 0, false);
        touch(dir, "started", 0);
    }
    while (!told)
        usleep(5000);
    touch(dir, "usr1", rank);
    if (stubborn)
        hang();
    if (rank == 0)
        yk_record_done(0, SIGUSR1, "runs/x", true, 200, "stopped\n");
    _exit(0);
}

static _Noreturn void rank_lost(const char *mode, int argc, char **argv)
{
    int again = yk_record_restarts();
    if (strcmp(mode, "lost-once") == 0 && again > 0) {
        yk_record_started(argv[argc - 1], RANKS, 0.1, 100, true);
        yk_record_done(0, 0, argv[argc - 1], true, 300, argv[argc - 2]);
        _exit(0);
    }
    bool first = strcmp(mode, "lost-at-first") == 0, same = strcmp(mode, "lost-always") == 0;
    yk_record_started("runs/y z", RANKS, 0.1, same ? 100 : 0, same);
    if (!first && !same)
        yk_record_saved(100 * (again + 1));
    yk_record_lost("rank 1 is gone");
    hang();
}

static _Noreturn void rank_main(int argc, char **argv)
{
    const char *mode = argv[2], *dir = argv[3];
    int rank = atoi(getenv("OMPI_COMM_WORLD_RANK"));
    alarm(60);
    yk_launch_join();
    touch(dir, "here", rank);
    if (strcmp(mode, "train") == 0 || strcmp(mode, "stubborn") == 0)
        rank_train(rank, dir, mode[0] == 's');
    if (strncmp(mode, "dies", 4) == 0 && rank == 2) {
        usleep(strcmp(mode, "dies-at-once") == 0 ? 0 : 900000);
        _exit(0);
    }
    if (strcmp(mode, "never") == 0 || strncmp(mode, "dies", 4) == 0)
        hang();
    if (strcmp(mode, "silent") == 0)
        _exit(0);
    if (rank != 0) {
        if (strcmp(mode, "hang") == 0)
            hang();
        _exit(0);
    }
    if (strncmp(mode, "lost", 4) == 0)
        rank_lost(mode, argc, argv);
    if (strncmp(mode, "chatter", 7) == 0) {
        fprintf(stderr, "yoke: for the user\nhint: try harder\nrank 7: mine\nnoise on stderr\n");
        printf("noise on stdout\n");
        fflush(stdout);
        if (strcmp(mode, "chatter-lost") == 0)
            _exit(0);
    }
    yk_record_started("runs/x", RANKS, 0.1, 0, false);
    if (strcmp(mode, "alive") == 0) {
        yk_record_alive(0.7);
        hang();
    }
    if (strcmp(mode, "beats") == 0) {
        touch(dir, "started", 0);
        for (int i = 0; i < 12; i++, usleep(250000))
            yk_record_alive(0.7);
    }
    char *text = calloc(1, BIG + 1);
    memset(text, 'o', BIG);
    yk_record_done(strcmp(mode, "code") == 0 ? 3 : 0, 0, "runs/x", false, 7, text);
    if (strcmp(mode, "hang") == 0)
        hang();
    _exit(0);
}

/* --- who is left? --- */

static bool has_mark(const char *pid, const char *mark)
{
    static char text[1 << 17];
    char path[64];
    snprintf(path, sizeof path, "/proc/%.10s/environ", pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
    if (fd >= 0)
        close(fd);
    return n > 0 && memmem(text, (size_t)n, mark, strlen(mark)) != NULL;
}

/* Offspring of this test that is still alive, its janitors included. Zombies have no
 * environment. */
static int left_alive(void)
{
    char mark[64];
    int n = 0;
    snprintf(mark, sizeof mark, MARK "=%s", getenv(MARK));
    DIR *d = opendir("/proc");
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != getpid() &&
             has_mark(e->d_name, mark);
    closedir(d);
    return n;
}

/* Scratch folders of process `pid`, and what ever else it may have put beside them. */
static int left_folders(pid_t pid)
{
    int n = 0;
    char mine[64];
    snprintf(mine, sizeof mine, "yoke-mpi.%d.", pid);
    for (const char *const *base = (const char *const[]){"/dev/shm", "/tmp", NULL}; *base != NULL;
         base++) {
        DIR *d = opendir(*base);
        for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
            n += strstr(e->d_name, mine) != NULL;
        if (d != NULL)
            closedir(d);
    }
    return n;
}

static void assert_clean(pid_t pid)
{
    assert_int_equal(left_alive(), 0);
    assert_int_equal(left_folders(pid), 0);
}

/* --- one run --- */

struct seen {
    yk_code rc;
    double seconds;
    char err[8192]; /* what appeared on standard error */
    struct yk_launch_result r;
    struct yk_error e;
};

/* Run MODE on three local ranks, one of them an owner; `t` gives the rest. */
static void run(struct seen *s, const char *mode, const char *dir, const struct yk_launch *t)
{
    struct yk_hosts hosts;
    struct yk_hosts_ask ask = {.hosts = "localhost,127.0.0.1"};
    char *argv[] = {self, (char *)"--rank", (char *)mode, (char *)dir, NULL};
    char *again[] = {self,        (char *)"--rank",   (char *)mode,
                     (char *)dir, (char *)"--resume", (char *)YK_LAUNCH_FOLDER,
                     NULL};
    assert_int_equal(yk_hosts_read(&hosts, &ask, NULL), YK_OK);
    struct yk_launch l = *t;
    l.hosts = &hosts;
    l.owners = 1;
    l.argv = argv;
    l.resume_argv = again;
    l.log = log_;

    char path[YK_PATH_MAX];
    snprintf(path, sizeof path, "%s/stderr", dir);
    int keep = dup(2), fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(keep >= 0 && fd >= 0 && dup2(fd, 2) >= 0);
    double start = yk_now();
    memset(s, 0, sizeof *s);
    s->rc = yk_launch_run(&l, &s->r, &s->e);
    s->seconds = yk_now() - start;
    dup2(keep, 2);
    close(keep);
    assert_true(pread(fd, s->err, sizeof s->err - 1, 0) >= 0);
    close(fd);
    yk_hosts_release(&hosts);
}

static void over(struct seen *s)
{
    yk_launch_result_release(&s->r);
    assert_clean(getpid());
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, text);
}

/* Has the parent, being verbose, said that it heard of the start? */
static bool heard_start(const char *dir)
{
    char path[YK_PATH_MAX];
    snprintf(path, sizeof path, "%s/stderr", dir);
    for (double end = yk_now() + 20; yk_now() < end; usleep(5000)) {
        char *text = NULL;
        size_t n;
        bool heard = yk_file_read(path, 1 << 20, &text, &n, NULL) == YK_OK &&
                     strstr(text, "ranks are ready") != NULL;
        free(text);
        if (heard)
            return true;
    }
    return false;
}

/* A child that waits for `what` of `n` ranks and then signals: us, or mpirun, whose number the
 * ranks left. */
static pid_t after(const char *dir, const char *what, int n, int signal, bool mpirun)
{
    pid_t us = getpid(), child = fork();
    if (child == 0) {
        int pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (touched(dir, what, n, &pid) && (strcmp(what, "started") != 0 || heard_start(dir)))
            kill(mpirun ? pid : us, signal);
        _exit(0);
    }
    return child;
}

static void reap(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* --- tests --- */

static void test_fine(void **state)
{
    struct seen s;
    run(&s, "fine", *state, &(struct yk_launch){0});
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.code, 0);
    assert_int_equal(s.r.signal, 0);
    assert_int_equal(strlen(s.r.output), BIG);
    assert_string_equal(s.r.folder, "runs/x");
    assert_true(s.seconds < 24);
    assert_string_equal(s.err, "");
    over(&s);
    run(&s, "code", *state, &(struct yk_launch){0});
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.code, 3);
    over(&s);
}

static void test_no_record(void **state)
{
    struct seen s;
    run(&s, "silent", *state, &(struct yk_launch){.restarts = 3});
    assert_int_equal(s.rc, YK_LOST);
    assert_int_equal(s.r.code, YK_LOST);
    assert_has(s.e.text, "the job is lost");
    assert_has(s.err, "not starting again");
    over(&s);
}

static void test_record_then_hang(void **state)
{
    struct seen s;
    run(&s, "hang", *state, &(struct yk_launch){0});
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.code, 0);
    assert_int_equal(strlen(s.r.output), BIG);
    assert_true(s.seconds >= 2 && s.seconds < 24);
    over(&s);
}

static void test_deadline(void **state)
{
    struct seen s;
    run(&s, "never", *state, &(struct yk_launch){.start_deadline = 1});
    assert_int_equal(s.rc, YK_LOST);
    assert_has(s.e.text, "the 3 ranks were not ready within 1 s");
    assert_true(s.seconds >= 1 && s.seconds < 24);
    over(&s);
}

static void test_dies_at_start(void **state)
{
    struct seen s;
    for (const char *const *mode = (const char *const[]){"dies", "dies-at-once", NULL};
         *mode != NULL; mode++) {
        run(&s, *mode, *state, &(struct yk_launch){.start_deadline = 25});
        assert_int_equal(s.rc, YK_LOST);
        assert_has(s.e.text, "rank 2 ended before the job had started");
        assert_true(s.seconds < 15);
        over(&s);
    }
}

static void test_broken_promise(void **state)
{
    struct seen s;
    run(&s, "alive", *state, &(struct yk_launch){0});
    assert_int_equal(s.rc, YK_LOST);
    assert_has(s.e.text, "silent");
    assert_true(s.seconds < 24);
    over(&s);
}

/* The machine stands still for longer than the parent lets its ranks be silent, and mpirun is the
 * last to go on: nothing is lost. */
static void test_stalled_machine(void **state)
{
    struct seen s;
    pid_t us = getpid(), helper = fork();
    if (helper == 0) {
        int mpirun = 0;
        bool stopped = touched(*state, "started", 1, &mpirun) && heard_start(*state) &&
                       kill(mpirun, SIGSTOP) == 0 && kill(us, SIGSTOP) == 0;
        usleep(1500000);
        kill(us, SIGCONT);
        usleep(300000);
        kill(mpirun, SIGCONT);
        _exit(!stopped);
    }
    run(&s, "beats", *state, &(struct yk_launch){.verbose = true});
    reap(helper);
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.code, 0);
    over(&s);
}

static void test_interrupt(void **state)
{
    struct seen s;
    sigset_t before, now;
    sigprocmask(SIG_SETMASK, NULL, &before);
    pid_t helper = after(*state, "started", 1, SIGINT, false);
    run(&s, "train", *state, &(struct yk_launch){.restarts = 3, .verbose = true});
    reap(helper);
    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 32; i++)
        assert_int_equal(sigismember(&before, i), sigismember(&now, i));
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.signal, SIGINT);
    assert_int_equal(s.r.code, 0);
    assert_string_equal(s.r.output, "stopped\n");
    assert_true(touched(*state, "usr1", RANKS, NULL)); /* every rank was told */
    over(&s);
}

static void test_second_signal(void **state)
{
    struct seen s;
    pid_t first = after(*state, "started", 1, SIGTERM, false),
          second = after(*state, "usr1", RANKS, SIGINT, false);
    run(&s, "stubborn", *state, &(struct yk_launch){.restarts = 3, .verbose = true});
    reap(first);
    reap(second);
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.signal, SIGTERM);
    assert_has(s.err, "'yoke train --resume runs/x'");
    assert_string_equal(s.r.output, "");
    over(&s);
}

static void test_signal_at_start(void **state)
{
    struct seen s;
    pid_t helper = after(*state, "here", RANKS, SIGHUP, false);
    run(&s, "never", *state, &(struct yk_launch){0});
    reap(helper);
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.signal, SIGHUP);
    assert_true(s.seconds < 24);
    over(&s);
}

static void test_ignored_signal(void **state)
{
    struct seen s;
    signal(SIGHUP, SIG_IGN); /* as nohup does */
    pid_t helper = after(*state, "here", RANKS, SIGHUP, false);
    run(&s, "fine", *state, &(struct yk_launch){0});
    reap(helper);
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.signal, 0);
    assert_int_equal(strlen(s.r.output), BIG);
    over(&s);
}

static void test_mpirun_killed(void **state)
{
    struct seen s;
    pid_t helper = after(*state, "started", 1, SIGKILL, true);
    run(&s, "train", *state, &(struct yk_launch){.verbose = true});
    reap(helper);
    assert_int_equal(s.rc, YK_LOST);
    assert_has(s.e.text, "mpirun was ended by signal 9");
    assert_has(s.e.hint, "'yoke train --resume runs/x' goes on from step 100");
    assert_true(s.seconds < 24);
    over(&s);
}

/* kill -9 of the parent: its streams close at once, and soon there is no process and no folder of
 * the run. */
static void test_parent_killed(void **state)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct seen s;
        dup2(out[1], 1);
        dup2(out[1], 2);
        run(&s, "train", *state, &(struct yk_launch){0});
        _exit(0);
    }
    close(out[1]);
    assert_true(touched(*state, "started", 1, NULL));
    assert_int_equal(left_folders(parent), 1);
    assert_true(left_alive() >= 2 + RANKS + 1); /* the parent, its janitor, mpirun and the ranks */
    kill(parent, SIGKILL);
    struct pollfd p = {.fd = out[0], .events = POLLIN};
    char byte;
    assert_int_equal(poll(&p, 1, 30000), 1);
    assert_int_equal(read(out[0], &byte, 1), 0);
    close(out[0]);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    double end = yk_now() + 30;
    while ((left_alive() > 0 || left_folders(parent) > 0) && yk_now() < end)
        usleep(20000);
    assert_clean(parent);
}

static void test_restarts(void **state)
{
    struct seen s;
    run(&s, "lost-once", *state, &(struct yk_launch){.restarts = 3});
    assert_int_equal(s.rc, YK_OK);
    assert_int_equal(s.r.code, 0);
    assert_int_equal(s.r.restarts, 1);
    assert_string_equal(s.r.folder, "runs/y z");
    assert_string_equal(s.r.output,
                        "--resume"); /* the second argv, with the folder filled in after it */
    assert_has(s.err, "restart 1 of 3, from step 100: rank 1 is gone");
    over(&s);
}

static void test_giving_up(void **state)
{
    struct seen s;
    run(&s, "lost-always", *state, &(struct yk_launch){.restarts = 5});
    assert_int_equal(s.rc, YK_LOST);
    assert_int_equal(s.r.restarts, 1);
    assert_has(s.err, "giving up: rank 1 is gone, for the second time in a row without a "
                      "checkpoint after step 100");
    assert_has(s.e.hint, "--resume runs/y z");
    over(&s);
    run(&s, "lost", *state,
        &(struct yk_launch){.restarts = 2}); /* progress every time: all restarts are used */
    assert_int_equal(s.rc, YK_LOST);
    assert_int_equal(s.r.restarts, 2);
    assert_has(s.err, "restart 2 of 2, from step 200");
    assert_has(s.err, "giving up after 2 restarts: rank 1 is gone");
    assert_has(s.e.hint, "goes on from step 300");
    over(&s);
    run(&s, "lost-at-first", *state, &(struct yk_launch){.restarts = 2});
    assert_int_equal(s.rc, YK_LOST);
    assert_int_equal(s.r.restarts, 0);
    assert_has(s.err, "before there was a checkpoint");
    assert_has(s.e.hint, "--resume runs/y z' goes on from its newest checkpoint, or begins again");
    over(&s);
}

static void test_noise(void **state)
{
    struct seen s;
    run(&s, "chatter", *state, &(struct yk_launch){0});
    assert_int_equal(s.rc, YK_OK);
    assert_string_equal(s.err, "yoke: for the user\nhint: try harder\nrank 7: mine\n");
    over(&s);
    run(&s, "chatter-lost", *state, &(struct yk_launch){0});
    assert_int_equal(s.rc, YK_LOST);
    assert_has(s.err, "mpirun: noise on stderr\n");
    assert_has(s.err, "mpirun: noise on stdout\n");
    over(&s);
    run(&s, "chatter", *state, &(struct yk_launch){.verbose = true});
    assert_int_equal(s.rc, YK_OK);
    assert_has(s.err, "mpirun: noise on stderr\n");
    assert_has(s.err, "yoke: 3 ranks are ready");
    over(&s);
}

static void test_cannot_start(void **state)
{
    struct seen s;
    char *path = strdup(getenv("PATH"));
    setenv("PATH", *state, 1);
    run(&s, "fine", *state, &(struct yk_launch){0});
    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(s.rc, YK_FAILED);
    assert_int_equal(s.r.code, YK_FAILED);
    assert_string_equal(s.e.text, "cannot start 'mpirun': no such file or directory");
    assert_has(s.e.hint, "openmpi-bin");
    over(&s);
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "--rank") == 0)
        rank_main(argc, argv);
    struct yk_error e;
    if (yk_launch_program(self, &e) != YK_OK)
        return 1;
    signal(
        SIGINT,
        SIG_DFL); /* a shell that starts us in the background has them ignored, and we would obey */
    signal(SIGHUP, SIG_DFL);
    if (getenv(MARK) == NULL) {
        char pid[16];
        snprintf(pid, sizeof pid, "%d", getpid());
        setenv(MARK, pid, 1);
        execv(self, argv);
        return 1;
    }
    log_ = yk_log_open(YK_INFO);
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, testdir_setup, testdir_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_fine),
        IN_FOLDER(test_no_record),
        IN_FOLDER(test_record_then_hang),
        IN_FOLDER(test_deadline),
        IN_FOLDER(test_dies_at_start),
        IN_FOLDER(test_broken_promise),
        IN_FOLDER(test_interrupt),
        IN_FOLDER(test_second_signal),
        IN_FOLDER(test_signal_at_start),
        IN_FOLDER(test_ignored_signal),
        IN_FOLDER(test_mpirun_killed),
        IN_FOLDER(test_parent_killed),
        IN_FOLDER(test_restarts),
        IN_FOLDER(test_giving_up),
        IN_FOLDER(test_noise),
        IN_FOLDER(test_cannot_start),
        IN_FOLDER(test_stalled_machine),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    yk_log_close(log_);
    return failed;
}
