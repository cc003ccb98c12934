/* run_test.c - unique names, the latest link, the lock, and folders that are not run folders. */
#include "record/run.h"

#include "tests/testdir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

/* Each test runs with a new folder as the current one. */
static int enter(void **state)
{
    return testdir_setup(state) == 0 ? chdir(*state) : -1;
}

static int leave(void **state)
{
    return chdir("/") == 0 ? testdir_teardown(state) : -1;
}

static void make_config(const struct yk_run *r)
{
    json_t *v = json_pack("{s:s}", "model", "softmax");
    assert_int_equal(yk_run_save(r, "config.json", v, NULL), YK_OK);
    json_decref(v);
}

static void assert_latest(const char *want)
{
    char target[256] = "";
    assert_true(readlink("runs/latest", target, sizeof target - 1) > 0);
    assert_string_equal(target, want);
}

static void test_numbered(void **state)
{
    (void)state;
    struct yk_run a, b, c;
    char name[100], date[16];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y%m%d", localtime(&now));
    assert_int_equal(yk_run_create(&a, NULL, "softmax", "local", NULL), YK_OK);
    snprintf(name, sizeof name, "runs/softmax-local-%s-1", date);
    assert_string_equal(a.dir, name);
    assert_true(yk_is_dir(a.dir));
    assert_true(a.lock >= 0);
    assert_latest(name + 5);
    assert_int_equal(yk_run_create(&b, NULL, "softmax", "local", NULL), YK_OK);
    snprintf(name, sizeof name, "runs/softmax-local-%s-2", date);
    assert_string_equal(b.dir, name);
    assert_latest(name + 5);
    assert_int_equal(yk_run_create(&c, NULL, "models/my net", "sync", NULL), YK_OK);
    snprintf(name, sizeof name, "runs/my-net-sync-%s-1", date);
    assert_string_equal(c.dir, name);
    yk_run_close(&a);
    yk_run_close(&a);
    yk_run_close(&b);
    yk_run_close(&c);
    yk_run_close(&(struct yk_run){0});
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* a zeroed struct did not close descriptor 0 */
}

static void test_latest_that_is_no_link(void **state)
{
    (void)state;
    struct yk_run r;
    struct stat st;
    assert_int_equal(yk_mkdirs("runs", NULL), YK_OK);
    assert_int_equal(yk_file_write("runs/latest", "mine", 4, NULL), YK_OK);
    assert_int_equal(yk_run_create(&r, NULL, "softmax", "local", NULL), YK_OK);
    yk_run_close(&r);
    assert_int_equal(lstat("runs/latest", &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_size == 4);
    unlink("runs/latest");
    mkdir("runs/latest", 0777);
    assert_int_equal(yk_run_create(&r, NULL, "softmax", "local", NULL), YK_OK);
    yk_run_close(&r);
    assert_int_equal(lstat("runs/latest", &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    rmdir("runs/latest");
    assert_int_equal(symlink("gone", "runs/latest"), 0); /* a dangling link is replaced */
    assert_int_equal(yk_run_create(&r, NULL, "softmax", "local", NULL), YK_OK);
    yk_run_close(&r);
    assert_latest(r.dir + 5);
}

static void test_named(void **state)
{
    (void)state;
    struct yk_run r;
    struct yk_error e;
    assert_int_equal(yk_run_create(&r, "a/b/mine/", "softmax", "local", &e), YK_OK);
    assert_string_equal(r.dir, "a/b/mine");
    yk_run_close(&r);
    assert_false(yk_exists("runs"));
    assert_int_equal(yk_run_create(&r, "a/b/mine", "softmax", "local", &e), YK_USAGE);
    assert_non_null(strstr(e.text, "'a/b/mine'"));
    assert_non_null(strstr(e.hint, "--resume"));
    assert_int_equal(yk_run_create(&r, "", "softmax", "local", &e), YK_USAGE);
    assert_int_equal(yk_file_write("plain", "", 0, NULL), YK_OK);
    assert_int_equal(yk_run_create(&r, "plain/run", "softmax", "local", &e), YK_FAILED);
}

static void test_ten_at_once(void **state)
{
    (void)state;
    int status;
    for (int i = 0; i < 10; i++)
        if (fork() == 0) {
            struct yk_run r;
            yk_code rc = yk_run_create(&r, NULL, "softmax", "local", NULL);
            if (rc == YK_OK)
                make_config(&r);
            _exit(rc);
        }
    for (int i = 0; i < 10; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    char name[100], date[16];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y%m%d", localtime(&now));
    for (int i = 1; i <= 10; i++) {
        snprintf(name, sizeof name, "runs/softmax-local-%s-%d/config.json", date, i);
        assert_true(yk_exists(name));
    }
    assert_true(yk_is_dir("runs/latest"));
}

static void test_lock(void **state)
{
    (void)state;
    struct yk_run r, again;
    struct yk_error e;
    assert_int_equal(yk_run_create(&r, "run", "softmax", "local", &e), YK_OK);
    make_config(&r);
    assert_int_equal(yk_run_open(&again, "run", true, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "another process"));
    assert_int_equal(again.lock, -1);
    assert_int_equal(yk_run_open(&again, "run", false, &e), YK_OK); /* reading needs no lock */
    yk_run_close(&again);
    yk_run_close(&r);

    int pipes[2];
    char byte;
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        yk_code rc = yk_run_open(&again, "run", true, &e);
        if (write(pipes[1], rc == YK_OK ? "y" : "n", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(yk_run_open(&r, "run", true, &e), YK_USAGE);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(yk_run_open(&r, "run", true, &e), YK_OK); /* the lock died with its holder */
    yk_run_close(&r);
    close(pipes[0]);
    close(pipes[1]);
}

static void test_open(void **state)
{
    struct yk_run r, made;
    struct yk_error e;
    char absolute[YK_PATH_MAX];
    assert_int_equal(yk_run_open(&r, "none", true, &e), YK_DATA);
    assert_int_equal(yk_run_open(&r, "", true, &e), YK_USAGE);
    mkdir("bare", 0777);
    assert_int_equal(yk_run_open(&r, "bare", false, &e), YK_DATA);
    assert_non_null(strstr(e.text, "config.json"));
    assert_int_equal(yk_file_write("plain", "", 0, NULL), YK_OK);
    assert_int_equal(yk_run_open(&r, "plain", false, &e), YK_DATA);

    assert_int_equal(yk_run_create(&made, NULL, "softmax", "local", NULL), YK_OK);
    make_config(&made);
    yk_run_close(&made);
    assert_int_equal(yk_run_open(&r, "runs/latest/", true, &e), YK_OK);
    assert_string_equal(
        r.dir, made.dir); /* the folder, not the link, which may point elsewhere tomorrow */
    yk_run_close(&r);
    yk_path(absolute, NULL, "%s/%s", (char *)*state, made.dir);
    assert_int_equal(symlink(absolute, "link"), 0);
    assert_int_equal(yk_run_open(&r, "link", false, &e), YK_OK);
    assert_string_equal(r.dir, absolute);
    yk_run_close(&r);
}

/* Opening a pipe in place of one of a run's own files would wait forever. */
static void test_no_file(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"run/config.json", "run/summary.json", "run/ranks.json",
                                        "run/metrics.jsonl", "run/log.txt"};
    struct yk_run r;
    struct yk_error e;
    assert_int_equal(yk_run_create(&r, "run", "softmax", "local", &e), YK_OK);
    make_config(&r);
    yk_run_close(&r);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        rename(NAMES[i], "aside");
        assert_int_equal(mkfifo(NAMES[i], 0666), 0);
        for (int train = 0; train < 2; train++) {
            assert_int_equal(yk_run_open(&r, "run", train, &e), YK_DATA);
            assert_non_null(strstr(e.text, NAMES[i]));
            assert_non_null(strstr(e.text, "is not a regular file"));
        }
        assert_int_equal(remove(NAMES[i]), 0);
        rename("aside", NAMES[i]);
    }
    assert_int_equal(yk_run_open(&r, "run", true, &e), YK_OK);
    yk_run_close(&r);
}

static void test_save_and_load(void **state)
{
    (void)state;
    struct yk_run r;
    struct yk_error e;
    json_t *v;
    char path[YK_PATH_MAX], host[64] = "";
    gethostname(host, sizeof host - 1);
    struct yk_rank ranks[3] = {{.role = "ps", .host = "n0", .pid = 7},
                               {.role = "worker", .pid = (int)getpid()},
                               {.role = "worker", .host = "n1", .pid = 9}};
    memcpy(ranks[1].host, host, sizeof host);
    assert_int_equal(yk_run_create(&r, "run", "softmax", "local", NULL), YK_OK);
    assert_int_equal(yk_run_path(&r, "log.txt", path, NULL), YK_OK);
    assert_string_equal(path, "run/log.txt");
    assert_int_equal(yk_run_save_ranks(&r, ranks, 3, &e), YK_OK);
    assert_int_equal(yk_run_load(&r, "ranks.json", &v, &e), YK_OK);
    assert_int_equal(json_array_size(json_object_get(v, "ranks")), 3);
    for (int i = 0; i < 3; i++) {
        const json_t *rank = json_array_get(json_object_get(v, "ranks"), (size_t)i);
        assert_int_equal(json_integer_value(json_object_get(rank, "rank")), i);
        assert_string_equal(json_string_value(json_object_get(rank, "role")), ranks[i].role);
        assert_string_equal(json_string_value(json_object_get(rank, "host")), ranks[i].host);
        assert_int_equal(json_integer_value(json_object_get(rank, "pid")), ranks[i].pid);
    }
    json_decref(v);
    assert_int_equal(yk_run_load(&r, "summary.json", &v, &e), YK_DATA);
    yk_run_close(&r);
}

/* A run's own files cannot be outputs, by any path; other names in its folder can. */
static void test_spare(void **state)
{
    (void)state;
    static const char *const own[] = {"run/config.json",
                                      "run/metrics.jsonl",
                                      "run/trace.json",
                                      "./run//config.json",
                                      "link.json",
                                      "again/config.json",
                                      "run/checkpoints",
                                      "run/checkpoints/new.npz",
                                      "run/events/worker-0/x",
                                      "run/checkpoints/../log.txt"};
    static const char *const fine[] = {"run/predictions.csv", "new.npz",
                                       "other/config.json",   "run/notes/config.json",
                                       "run/missing/x",       "-"};
    struct yk_run r;
    struct yk_error e = {0};
    struct yk_rank rank = {.role = "worker"};
    json_t *empty = json_object();
    assert_int_equal(yk_run_create(&r, "run", "softmax", "local", NULL), YK_OK);
    assert_int_equal(yk_run_spare("run/config.json", &e), YK_OK); /* not yet a run folder */
    assert_int_equal(yk_run_save(&r, "config.json", empty, &e), YK_OK);
    assert_int_equal(yk_run_save_ranks(&r, &rank, 1, &e), YK_OK);
    json_decref(empty);
    for (const char *const *dir = (const char *const[]){"run/checkpoints", "run/events/worker-0",
                                                        "run/notes", "other", NULL};
         *dir != NULL; dir++)
        assert_int_equal(yk_mkdirs(*dir, &e), YK_OK);
    assert_int_equal(symlink("run/config.json", "link.json"), 0);
    assert_int_equal(symlink("run", "again"), 0);
    assert_int_equal(link("run/config.json", "hard.json"), 0);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        assert_int_equal(yk_run_spare(own[i], &e), YK_USAGE);
        assert_non_null(strstr(e.text, own[i]));
        assert_non_null(strstr(e.text, "belongs to the run in '"));
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        assert_int_equal(yk_run_spare(fine[i], &e), YK_OK);
    assert_int_equal(chdir("run/checkpoints"), 0);
    assert_int_equal(yk_run_spare("-", &e), YK_OK);
    assert_int_equal(yk_run_spare("./-", &e), YK_USAGE);
    assert_int_equal(chdir("../.."), 0);
    assert_int_equal(yk_run_apart("run", "hard.json", &e), YK_USAGE);
    assert_int_equal(yk_run_apart("run", "run/predictions.csv", &e), YK_OK);
    yk_run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numbered, enter, leave),
        cmocka_unit_test_setup_teardown(test_latest_that_is_no_link, enter, leave),
        cmocka_unit_test_setup_teardown(test_named, enter, leave),
        cmocka_unit_test_setup_teardown(test_ten_at_once, enter, leave),
        cmocka_unit_test_setup_teardown(test_lock, enter, leave),
        cmocka_unit_test_setup_teardown(test_open, enter, leave),
        cmocka_unit_test_setup_teardown(test_no_file, enter, leave),
        cmocka_unit_test_setup_teardown(test_save_and_load, enter, leave),
        cmocka_unit_test_setup_teardown(test_spare, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
