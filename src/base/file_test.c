/* file_test.c - a file is whole or absent, reading is bounded, and the helpers keep their
 * promises. */
#include "base/file.h"

#include "tests/testdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char path[YK_PATH_MAX];

static const char *in(void **state, const char *name)
{
    assert_int_equal(yk_path(path, NULL, "%s/%s", (char *)*state, name), YK_OK);
    return path;
}

static int entries(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void assert_content(const char *name, const char *want)
{
    char *text;
    size_t n;
    assert_int_equal(yk_file_read(name, 1000, &text, &n, NULL), YK_OK);
    assert_int_equal(n, strlen(want));
    assert_string_equal(text, want);
    free(text);
}

static void test_write_then_read(void **state)
{
    struct yk_error e;
    assert_int_equal(yk_file_write(in(state, "a"), "first", 5, &e), YK_OK);
    assert_content(path, "first");
    assert_int_equal(yk_file_write(path, "", 0, &e), YK_OK);
    assert_content(path, "");
    assert_int_equal(entries(*state), 1);
}

static void test_old_content_until_commit(void **state)
{
    struct yk_outfile o;
    struct yk_error e;
    in(state, "a");
    assert_int_equal(yk_file_write(path, "old", 3, &e), YK_OK);
    assert_int_equal(yk_outfile_open(&o, path, &e), YK_OK);
    assert_int_equal(yk_outfile_write(&o, "ne", 2, &e), YK_OK);
    assert_content(path, "old");
    assert_int_equal(yk_outfile_write(&o, "w", 1, &e), YK_OK);
    assert_int_equal(yk_outfile_commit(&o, &e), YK_OK);
    assert_content(path, "new");
    yk_outfile_abort(&o); /* does nothing after a commit */
    assert_content(path, "new");

    assert_int_equal(yk_outfile_open(&o, path, &e), YK_OK);
    assert_int_equal(yk_outfile_write(&o, "lost", 4, &e), YK_OK);
    yk_outfile_abort(&o);
    yk_outfile_abort(&o);
    assert_content(path, "new");
    assert_int_equal(entries(*state), 1);
}

static void test_open_fails_cleanly(void **state)
{
    struct yk_outfile o;
    struct yk_error e;
    assert_int_equal(yk_outfile_open(&o, in(state, "no/such/folder"), &e), YK_FAILED);
    assert_int_equal(o.fd, -1);
    assert_non_null(strstr(e.text, "no such file"));
    yk_outfile_abort(&o);
    mkdir(in(state, "dir"), 0777);
    assert_int_equal(yk_outfile_open(&o, path, &e),
                     YK_USAGE); /* not only when it is renamed onto the folder */
    assert_int_equal(o.fd, -1);
    assert_non_null(strstr(e.text, "it is a folder"));
    assert_int_equal(yk_file_write(path, "x", 1, &e), YK_USAGE);
    assert_int_equal(entries(*state), 1);
}

/* A limit on the file size acts like a full disk: write(2) writes less than asked, then fails. */
static void test_short_write(void **state)
{
    struct yk_error e;
    in(state, "a");
    assert_int_equal(yk_file_write(path, "old", 3, &e), YK_OK);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char big[8192] = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){5000, 5000});
        _exit(yk_file_write(path, big, sizeof big, &e) == YK_FAILED ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_content(path, "old");
    assert_int_equal(entries(*state), 1);
}

/* An attacker with write access to the folder has guessed the temporary names and put links
 * there. */
static void test_planted_links(void **state)
{
    char victim[YK_PATH_MAX], planted[YK_PATH_MAX];
    struct stat st;
    snprintf(victim, sizeof victim, "%s", in(state, "victim"));
    assert_int_equal(yk_file_write(victim, "mine", 4, NULL), YK_OK);
    in(state, "out");
    for (unsigned i = 0; i < 20; i++) {
        snprintf(planted, sizeof planted, "%.4000s.tmp.%ld.%u", path, (long)getpid(), i);
        assert_int_equal(symlink(victim, planted), 0);
    }
    assert_int_equal(yk_file_write(path, "yours", 5, NULL), YK_OK);
    assert_content(victim, "mine");
    assert_content(path, "yours");
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

/* A name such as /dev/stdout stays a link, and the file behind the descriptor gets the bytes. */
static void test_descriptors(void **state)
{
    char link[YK_PATH_MAX], target[64];
    struct stat st;
    snprintf(link, sizeof link, "%s", in(state, "link"));
    int fd = open(in(state, "out"), O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(yk_file_write(link, "bytes", 5, NULL), YK_OK);
    close(fd);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_content(path, "bytes");
    assert_int_equal(entries(*state), 2);
}

static void test_read_is_bounded(void **state)
{
    struct yk_error e;
    char *text;
    size_t n;
    assert_int_equal(yk_file_write(in(state, "a"), "12345", 5, &e), YK_OK);
    assert_int_equal(yk_file_read(path, 5, &text, &n, &e), YK_OK);
    free(text);
    assert_int_equal(yk_file_read(path, 4, &text, &n, &e), YK_DATA);
    assert_int_equal(yk_file_read(*state, 4, &text, &n, &e), YK_DATA);
    assert_int_equal(yk_file_read(in(state, "none"), 4, &text, &n, &e), YK_DATA);
    int fd = open(in(state, "huge"), O_CREAT | O_WRONLY,
                  0666); /* claims a terabyte: refused before any allocation */
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    close(fd);
    assert_int_equal(yk_file_read(path, 1 << 20, &text, &n, &e), YK_DATA);
}

static void test_mkdirs(void **state)
{
    struct yk_error e;
    assert_int_equal(yk_mkdirs(in(state, "a/b/c"), &e), YK_OK);
    assert_true(yk_is_dir(path));
    assert_int_equal(yk_mkdirs(path, &e), YK_OK);
    assert_int_equal(yk_mkdirs(in(state, "a/b/d/"), &e), YK_OK);
    assert_int_equal(yk_file_write(in(state, "file"), "x", 1, &e), YK_OK);
    assert_false(yk_is_dir(path));
    assert_true(yk_exists(path));
    assert_int_equal(yk_mkdirs(in(state, "file/sub"), &e), YK_FAILED);
    assert_int_equal(yk_mkdirs(in(state, "file"), &e), YK_FAILED);
    assert_false(yk_exists(in(state, "none")));
    assert_int_equal(symlink("nowhere", in(state, "link")), 0);
    assert_true(yk_exists(path)); /* a dangling link exists, too */
}

static void test_path_too_long(void **state)
{
    (void)state;
    char out[YK_PATH_MAX];
    struct yk_error e;
    assert_int_equal(yk_path(out, &e, "%0*d", YK_PATH_MAX - 1, 1), YK_OK);
    assert_int_equal(yk_path(out, &e, "%0*d", YK_PATH_MAX, 1), YK_USAGE);
}

static void test_cache_dir(void **state)
{
    (void)state;
    char out[YK_PATH_MAX];
    struct yk_error e;
    setenv("XDG_CACHE_HOME", "/x/cache", 1);
    setenv("HOME", "/h", 1);
    assert_int_equal(yk_cache_dir(out, &e), YK_OK);
    assert_string_equal(out, "/x/cache/yoke");
    setenv("XDG_CACHE_HOME", "relative", 1); /* the specification says: ignore it */
    assert_int_equal(yk_cache_dir(out, &e), YK_OK);
    assert_string_equal(out, "/h/.cache/yoke");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(yk_cache_dir(out, &e), YK_USAGE);
    assert_string_not_equal(e.hint, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_write_then_read, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_old_content_until_commit, testdir_setup,
                                        testdir_teardown),
        cmocka_unit_test_setup_teardown(test_open_fails_cleanly, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_short_write, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_planted_links, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_descriptors, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_read_is_bounded, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_mkdirs, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_path_too_long),
        cmocka_unit_test(test_cache_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
