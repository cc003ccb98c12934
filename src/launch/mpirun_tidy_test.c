/* mpirun_tidy_test.c - scratch folders and janitors by themselves: who is swept, who is killed, who
 * cleans up after whom. */
#include "launch/mpirun_tidy.h"

#include "base/clock.h"
#include "launch/record.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A folder of ours that no other test has. */
static const char *folder(char out[YK_PATH_MAX], int n, const char *host)
{
    snprintf(out, YK_PATH_MAX, "/dev/shm/yoke-mpi.%d.%d.%s", getpid(), n, host);
    return out;
}

static const char *own_name(void)
{
    static char name[65];
    assert_int_equal(gethostname(name, 64), 0);
    return name;
}

static bool gone(const char *path, double seconds)
{
    for (double end = yk_now() + seconds; yk_exists(path) && yk_now() < end; usleep(5000))
        ;
    return !yk_exists(path);
}

static void test_open_close(void **state)
{
    (void)state;
    struct yk_tidy t;
    char inner[YK_PATH_MAX + 8];
    struct stat st;
    assert_int_equal(yk_tidy_open(&t, 4, NULL), YK_OK);
    assert_int_equal(stat(t.folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(kill(t.janitor, SIGTERM), 0); /* shrugged off */
    assert_int_equal(kill(t.janitor, SIGINT), 0);
    usleep(50000);
    assert_int_equal(waitpid(t.janitor, NULL, WNOHANG), 0);
    for (int fd = 0; fd <= 2; fd++) { /* no stream of the user's */
        char link[64], to[64] = "";
        snprintf(link, sizeof link, "/proc/%d/fd/%d", t.janitor, fd);
        for (double end = yk_now() + 30; strcmp(to, "/dev/null") != 0 && yk_now() < end;
             usleep(5000))
            if (readlink(link, to, sizeof to - 1) < 0)
                to[0] = '\0';
        assert_string_equal(to, "/dev/null");
    }
    snprintf(inner, sizeof inner, "%s/inner", t.folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    yk_tidy_empty(&t);
    assert_false(yk_exists(inner));
    assert_true(yk_exists(t.folder));
    assert_int_equal(mkdir(inner, 0700), 0);
    pid_t janitor = t.janitor;
    yk_tidy_close(&t);
    assert_false(yk_exists(t.folder));
    assert_int_equal(kill(janitor, 0), -1);
}

/* Where /dev/shm has no room for so many ranks, the folder is elsewhere. */
static void test_small_shm(void **state)
{
    (void)state;
    struct yk_tidy t;
    setenv("TMPDIR", "/tmp", 1);
    assert_int_equal(yk_tidy_open(&t, (size_t)1 << 40, NULL), YK_OK);
    assert_memory_equal(t.folder, "/tmp/yoke-mpi.", 14);
    yk_tidy_close(&t);
    assert_false(yk_exists(t.folder));
    setenv("TMPDIR", "/nonexistent", 1);
    struct yk_error e;
    assert_int_equal(yk_tidy_open(&t, (size_t)1 << 40, &e), YK_FAILED);
    assert_string_equal(e.text,
                        "cannot make a folder in '/nonexistent': no such file or directory");
    unsetenv("TMPDIR");
}

/* Folders of the dead are swept, those of the living are not. Other tests may sweep at the same
 * moment. */
static void test_sweep(void **state)
{
    (void)state;
    struct yk_tidy t;
    char dead[YK_PATH_MAX], held[YK_PATH_MAX], young[YK_PATH_MAX], old[YK_PATH_MAX], other[80],
        path[YK_PATH_MAX + 8];
    snprintf(other, sizeof other, "not-%s", own_name());
    folder(held, 901, own_name());
    snprintf(path, sizeof path, "/dev/shm/yoke-test.%d", getpid());
    assert_int_equal(mkdir(path, 0700), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0 && rename(path, held) == 0);
    assert_int_equal(mkdir(folder(young, 902, other), 0700), 0);
    assert_int_equal(mkdir(folder(old, 903, other), 0700), 0);
    struct timespec past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, old, past, 0), 0);
    assert_int_equal(mkdir(folder(dead, 900, own_name()), 0700), 0);
    snprintf(path, sizeof path, "%s/inner", dead);
    assert_true(mkdir(path, 0700) == 0 || errno == ENOENT);

    assert_int_equal(yk_tidy_open(&t, 1, NULL), YK_OK);
    yk_tidy_close(&t);
    assert_false(yk_exists(dead));
    assert_true(yk_exists(held));
    assert_true(yk_exists(young));
    assert_false(yk_exists(old));
    close(fd);
    assert_int_equal(rmdir(young), 0);
    assert_true(rmdir(held) == 0 || errno == ENOENT);
}

/* A process that belongs to the run in `folder`, as rank `rank`; it ends by itself after a
 * minute. */
static pid_t start_rank(const char *scratch, int rank)
{
    pid_t child = fork();
    if (child == 0) {
        char parent[YK_PATH_MAX + 32], number[64];
        snprintf(parent, sizeof parent, "%s=%s", YK_PARENT_VARIABLE, scratch);
        snprintf(number, sizeof number, "OMPI_COMM_WORLD_RANK=%d", rank);
        char *argv[] = {(char *)"sleep", (char *)"60", NULL},
             *env[] = {(char *)"A=1", parent, number, NULL};
        execve("/bin/sleep", argv, env);
        _exit(9);
    }
    return child;
}

static void test_kill(void **state)
{
    (void)state;
    struct yk_tidy t;
    char almost[YK_PATH_MAX + 1];
    bool alive[4] = {false};
    assert_int_equal(yk_tidy_open(&t, 4, NULL), YK_OK);
    snprintf(almost, sizeof almost, "%sx", t.folder); /* another run, whose name begins like ours */
    pid_t mine[2] = {start_rank(t.folder, 1), start_rank(t.folder, 3)},
          other = start_rank(almost, 2);
    for (double end = yk_now() + 30; !(alive[1] && alive[3]) && yk_now() < end; usleep(5000))
        yk_tidy_ranks(&t, alive, 4);
    assert_true(!alive[0] && alive[1] && !alive[2] && alive[3]);
    yk_tidy_ranks(&t, alive, 2);
    assert_true(!alive[0] && alive[1]);
    kill(mine[0], SIGSTOP); /* not even this saves it */
    yk_tidy_kill(&t);
    int status = 0;
    for (int i = 0; i < 2; i++) {
        pid_t ended = 0;
        for (double end = yk_now() + 30;
             (ended = waitpid(mine[i], &status, WNOHANG)) == 0 && yk_now() < end; usleep(5000))
            ;
        if (ended == 0)
            kill(mine[i], SIGKILL);
        assert_int_equal(ended, mine[i]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    assert_int_equal(waitpid(other, &status, WNOHANG), 0);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
    yk_tidy_ranks(&t, alive, 4);
    assert_true(!alive[1] && !alive[3]);
    yk_tidy_close(&t);
}

/* The parent dies without a word: its janitor kills and removes. */
static void test_janitor(void **state)
{
    (void)state;
    int names[2], status;
    struct {
        char folder[YK_PATH_MAX];
        pid_t janitor;
    } told;
    assert_int_equal(pipe2(names, O_CLOEXEC), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct yk_tidy t;
        if (yk_tidy_open(&t, 1, NULL) != YK_OK)
            _exit(1);
        memcpy(told.folder, t.folder, sizeof told.folder);
        told.janitor = t.janitor;
        if (write(names[1], &told, sizeof told) != (ssize_t)sizeof told)
            _exit(1);
        raise(SIGKILL);
    }
    close(names[1]);
    assert_int_equal(read(names[0], &told, sizeof told), sizeof told);
    char byte;
    assert_int_equal(read(names[0], &byte, 1), 0); /* the janitor has not kept it open */
    close(names[0]);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(WIFSIGNALED(status));
    assert_true(gone(told.folder, 30));
}

/* Another machine: a daemon that starts two ranks on it. The first gets hold of the folder, and it
 * goes when the daemon has gone. */
static void test_join(void **state)
{
    (void)state;
    char scratch[YK_PATH_MAX];
    int status;
    folder(scratch, 904, "launching-host");
    pid_t daemon = fork();
    if (daemon == 0) {
        setenv(YK_PARENT_VARIABLE, scratch, 1);
        for (int i = 0; i < 2; i++) {
            pid_t rank = fork();
            if (rank == 0) {
                yk_tidy_join();
                _exit(0);
            }
            waitpid(rank, NULL, 0);
        }
        usleep(200000);
        int fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _exit(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 ? 0
                                                           : 1); /* there, and held by a janitor */
    }
    assert_int_equal(waitpid(daemon, &status, 0), daemon);
    assert_int_equal(status, 0);
    assert_true(gone(scratch, 30));

    /* where somebody holds it, as the parent does on its own machine, a rank leaves it alone */
    struct yk_tidy t;
    assert_int_equal(yk_tidy_open(&t, 1, NULL), YK_OK);
    daemon = fork();
    if (daemon == 0) {
        setenv(YK_PARENT_VARIABLE, t.folder, 1);
        pid_t rank = fork();
        if (rank == 0) {
            yk_tidy_join();
            _exit(0);
        }
        waitpid(rank, NULL, 0);
        _exit(0);
    }
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    usleep(200000);
    assert_true(yk_exists(t.folder));
    yk_tidy_close(&t);

    setenv(YK_PARENT_VARIABLE, "1", 1); /* a value that names no folder of ours does nothing */
    yk_tidy_join();
    setenv(YK_PARENT_VARIABLE, "/dev/shm", 1);
    yk_tidy_join();
    unsetenv(YK_PARENT_VARIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_close), cmocka_unit_test(test_small_shm),
        cmocka_unit_test(test_sweep),      cmocka_unit_test(test_kill),
        cmocka_unit_test(test_janitor),    cmocka_unit_test(test_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
