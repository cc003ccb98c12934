/* checkpoint_test.c - checkpoints survive kill -9 at any moment, a full disk, and a newest file
 * with any damage. */
#include "param/checkpoint.h"

#include "base/rng.h"
#include "tests/skip.h"
#include "tests/testdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { FLOATS = 50000 };

static float values[FLOATS];
static char path[YK_PATH_MAX];

static yk_code save_some(const char *dir, uint64_t step, unsigned keep, size_t floats,
                         struct yk_error *e)
{
    struct yk_tensor t = {
        .name = "w", .ndim = 1, .shape = {floats}, .count = floats, .data = values};
    struct yk_meta m = {.key = "step"};
    snprintf(m.value, sizeof m.value, "%llu", (unsigned long long)step);
    for (size_t i = 0; i < floats; i++)
        values[i] = (float)step + (float)i;
    return yk_checkpoint_write(dir, step, &t, 1, &m, 1, keep, path, e);
}

static void save(const char *dir, uint64_t step, unsigned keep)
{
    struct yk_error e;
    assert_int_equal(save_some(dir, step, keep, 1000, &e), YK_OK);
}

static void count_damaged(void *arg, const struct yk_error *why)
{
    assert_int_equal(why->code, YK_DATA);
    ++*(int *)arg;
}

/* The step of the newest whole checkpoint, its values checked; 0 if there is none. */
static uint64_t newest(const char *dir, int *damaged)
{
    struct yk_tensors t;
    struct yk_error e;
    char from[YK_PATH_MAX];
    int found = -1;
    *damaged = 0;
    if (yk_checkpoint_newest(dir, &t, from, &found, count_damaged, damaged, &e) != YK_OK)
        fail_msg("%s", e.text);
    if (!found)
        return 0;
    uint64_t step = strtoull(yk_tensors_meta(&t, "step"), NULL, 10);
    const struct yk_tensor *w = yk_tensors_find(&t, "w");
    for (size_t i = 0; i < w->count; i++)
        if (w->data[i] != (float)step + (float)i)
            fail_msg("step %llu, value %zu", (unsigned long long)step, i);
    yk_tensors_release(&t);
    return step;
}

static int entries(const char *dir, const char *with)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.' && strstr(e->d_name, with) != NULL;
    closedir(d);
    return n;
}

static const char *file(void **state, const char *name)
{
    static char out[YK_PATH_MAX];
    yk_path(out, NULL, "%s/%s", (char *)*state, name);
    return out;
}

static void test_write_and_keep(void **state)
{
    int damaged;
    char dir[YK_PATH_MAX];
    yk_path(dir, NULL, "%s/run/checkpoints", (char *)*state);
    assert_int_equal(newest(dir, &damaged), 0); /* absent folder: nothing found, no error */
    for (uint64_t step = 100; step <= 1200; step += 100)
        save(dir, step, 3);
    assert_int_equal(entries(dir, ""), 3);
    assert_non_null(strstr(path, "/run/checkpoints/step-000000001200.safetensors"));
    assert_true(yk_exists(path));
    assert_int_equal(newest(dir, &damaged), 1200);
    assert_int_equal(damaged, 0);
    save(dir, 1300, 1);
    assert_int_equal(entries(dir, ""), 1);
    save(dir, 12345678901234ull, 2); /* more digits than the name is padded to */
    assert_int_equal(newest(dir, &damaged), 12345678901234ull);
    assert_int_equal(entries(dir, ""), 2);
}

static void test_other_files_are_not_ours(void **state)
{
    int damaged;
    static const char *const names[] = {"step-1.safetensors", "step-000000000001.safetensors.bak",
                                        "step-00000000000x.safetensors",
                                        "step-0000000000001.safetensors", "notes.txt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(yk_file_write(file(state, names[i]), "x", 1, NULL), YK_OK);
    assert_int_equal(newest(*state, &damaged), 0);
    save(*state, 5, 1);
    save(*state, 6, 1);
    assert_int_equal(newest(*state, &damaged), 6);
    assert_int_equal(damaged, 0);
    assert_int_equal(entries(*state, ""), 6);
}

static void test_damaged_newest_falls_back(void **state)
{
    int damaged, found;
    char *whole;
    size_t n;
    struct yk_rng rng;
    struct yk_tensors t;
    struct yk_error e;
    char from[YK_PATH_MAX], name[YK_PATH_MAX];
    save(*state, 100, 3);
    save(*state, 200, 3);
    yk_path(name, NULL, "%s", path);
    assert_int_equal(yk_file_read(name, 1 << 20, &whole, &n, NULL), YK_OK);
    yk_rng_init(&rng, 1, 0, 0, 0);
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < 20; i++) {
            char bytes[8192];
            size_t len = n;
            assert_true(n <= sizeof bytes);
            memcpy(bytes, whole, n);
            if (kind == 0)
                len = yk_rng_below(&rng, (uint32_t)n); /* truncated */
            else if (kind == 1)
                bytes[n - 1 - yk_rng_below(&rng, 4000)] ^= 16; /* one bit */
            else if (kind == 2)
                len = 0;
            else
                for (size_t k = 0; k < len; k++)
                    bytes[k] = (char)yk_rng_next(&rng);
            assert_int_equal(yk_file_write(name, bytes, len, NULL), YK_OK);
            assert_int_equal(newest(*state, &damaged), 100);
            assert_int_equal(damaged, 1);
        }
    assert_int_equal(yk_file_write(file(state, "step-000000000100.safetensors"), "", 0, NULL),
                     YK_OK);
    assert_int_equal(yk_checkpoint_newest(*state, &t, from, &found, NULL, NULL, &e), YK_DATA);
    assert_non_null(strstr(e.text, "no whole checkpoint"));
    free(whole);
}

/* After a fall-back the damaged newer file must not push out the good ones that follow. */
static void test_damaged_future_does_not_count(void **state)
{
    int damaged;
    save(*state, 100, 1);
    assert_int_equal(yk_file_write(file(state, "step-000000000300.safetensors"), "x", 1, NULL),
                     YK_OK);
    save(*state, 200, 1);
    assert_int_equal(newest(*state, &damaged), 200);
    assert_int_equal(damaged, 1);
    save(*state, 300, 1);
    assert_int_equal(newest(*state, &damaged), 300);
    assert_int_equal(damaged, 0);
    assert_int_equal(entries(*state, ""), 1);
}

static void test_drop_after(void **state)
{
    int damaged;
    for (uint64_t step = 1; step <= 5; step++)
        save(*state, step, 9);
    yk_checkpoint_drop_after(*state, 3);
    assert_int_equal(entries(*state, ""), 3);
    assert_int_equal(newest(*state, &damaged), 3);
    yk_checkpoint_drop_after("/nowhere/at/all", 3);
}

static void test_sweeps_only_the_dead(void **state)
{
    char dead[64], alive[64];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    snprintf(dead, sizeof dead, "step-000000000007.safetensors.tmp.%d.3", (int)pid);
    snprintf(alive, sizeof alive, "step-000000000007.safetensors.tmp.%d.3", (int)getppid());
    assert_int_equal(yk_file_write(file(state, dead), "x", 1, NULL), YK_OK);
    assert_int_equal(yk_file_write(file(state, alive), "x", 1, NULL), YK_OK);
    assert_int_equal(yk_file_write(file(state, "my.tmp.file"), "x", 1, NULL), YK_OK);
    assert_int_equal(yk_file_write(file(state, "my.tmp.12.x"), "x", 1, NULL), YK_OK);
    save(*state, 7, 3);
    assert_false(yk_exists(file(state, dead)));
    assert_true(yk_exists(file(state, alive)));
    assert_int_equal(entries(*state, "my.tmp."), 2);
}

static void test_kill_at_any_moment(void **state)
{
    struct yk_rng rng;
    int damaged;
    uint64_t last = 0;
    yk_rng_init(&rng, (uint64_t)getpid(), 0, 0, 0);
    for (int round = 0; round < 30; round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            for (uint64_t step = last + 1;; step++)
                if (save_some(*state, step, 2, FLOATS, NULL) != YK_OK)
                    _exit(1);
        usleep(yk_rng_below(&rng, 15000));
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        if (entries(*state, "") == 0)
            continue; /* killed before the first was done */
        uint64_t now = newest(*state, &damaged);
        assert_int_equal(damaged, 0);
        assert_true(now >= last);
        last = now;
    }
    assert_true(last > 0);
    save(*state, last + 1, 2);
    assert_int_equal(entries(*state, ".tmp."), 0);
    assert_true(entries(*state, "") <= 2);
}

/* Runs in a child with its own mount namespace. Returns 0 if it passed, 77 if it is not allowed
 * here, else the line that failed. */
static int full_disk(const char *dir)
{
    struct yk_error e = {0};
    struct yk_tensors t;
    char from[YK_PATH_MAX];
    int found = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=1m") != 0)
        return 77;
    if (save_some(dir, 1, 3, FLOATS, &e) != YK_OK || save_some(dir, 2, 3, FLOATS, &e) != YK_OK)
        return 1;
    char ballast[YK_PATH_MAX], block[4096] = {0};
    yk_path(ballast, NULL, "%s/ballast", dir);
    int fd = open(ballast, O_CREAT | O_WRONLY, 0666);
    for (int i = 0; i < 130; i++) /* leaves less than a checkpoint's 200 kB */
        if (write(fd, block, sizeof block) < 0)
            return 2;
    close(fd);
    if (save_some(dir, 3, 3, FLOATS, &e) != YK_FAILED || strstr(e.text, "no space left") == NULL)
        return 3;
    if (entries(dir, ".tmp.") != 0 || entries(dir, "") != 3)
        return 4;
    if (yk_checkpoint_newest(dir, &t, from, &found, NULL, NULL, &e) != YK_OK || !found ||
        strcmp(yk_tensors_meta(&t, "step"), "2") != 0)
        return 5;
    yk_tensors_release(&t);
    unlink(ballast); /* and when there is room again, it goes on */
    return save_some(dir, 3, 3, FLOATS, &e) == YK_OK ? 0 : 6;
}

static void test_full_disk(void **state)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(full_disk(*state));
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip_because("a full disk needs a mount");
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A pipe, a folder or a device under the name of a checkpoint is neither waited for nor passed
 * over. */
static void test_no_file(void **state)
{
    struct yk_error e;
    struct yk_tensors t;
    char from[YK_PATH_MAX], name[YK_PATH_MAX];
    int found, damaged = 0;
    save(*state, 100, 3);
    yk_path(name, NULL, "%s", file(state, "step-000000000200.safetensors"));
    for (int kind = 0; kind < 3; kind++) {
        int made = kind == 0   ? mkfifo(name, 0666)
                   : kind == 1 ? mkdir(name, 0777)
                               : symlink("/dev/null", name);
        assert_int_equal(made, 0);
        assert_int_equal(yk_checkpoint_newest(*state, &t, from, &found, NULL, &damaged, &e),
                         YK_DATA);
        assert_non_null(strstr(e.text, "step-000000000200.safetensors' is not a regular file"));
        assert_int_equal(save_some(*state, 200, 3, FLOATS, &e), YK_DATA);
        assert_non_null(strstr(e.text, "not a regular file"));
        assert_int_equal(remove(name), 0);
    }
    assert_int_equal(newest(*state, &damaged), 100);
}

static void test_folder_that_cannot_be(void **state)
{
    struct yk_error e;
    struct yk_tensors t;
    char from[YK_PATH_MAX];
    int found;
    assert_int_equal(yk_file_write(file(state, "plain"), "x", 1, NULL), YK_OK);
    assert_int_equal(save_some(file(state, "plain"), 1, 1, 10, &e), YK_FAILED);
    assert_int_equal(yk_checkpoint_newest(file(state, "plain"), &t, from, &found, NULL, NULL, &e),
                     YK_DATA);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, testdir_setup, testdir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_write_and_keep),
        IN_FOLDER(test_other_files_are_not_ours),
        IN_FOLDER(test_damaged_newest_falls_back),
        IN_FOLDER(test_damaged_future_does_not_count),
        IN_FOLDER(test_drop_after),
        IN_FOLDER(test_sweeps_only_the_dead),
        IN_FOLDER(test_kill_at_any_moment),
        IN_FOLDER(test_full_disk),
        IN_FOLDER(test_no_file),
        IN_FOLDER(test_folder_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
