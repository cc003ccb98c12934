/* apart_test.c - outputs that are inputs by name, link, hard link or another spelling of the path,
 * alone and in folders. */
#include "base/apart.h"

#include "tests/testdir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

static void make(const char *name)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs("row\n", f);
    assert_int_equal(fclose(f), 0);
}

static int enter(void **state)
{
    return testdir_setup(state) == 0 ? chdir(*state) : -1;
}

static int leave(void **state)
{
    return chdir("/") == 0 ? testdir_teardown(state) : -1;
}

static void same_file(const char *input, const char *output)
{
    struct yk_error e = {0};
    char text[128];
    snprintf(text, sizeof text, "'%s' is both input and output", output);
    assert_int_equal(yk_apart(input, output, &e), YK_USAGE);
    assert_string_equal(e.text, text);
    assert_true(e.hint[0] != '\0');
}

static void apart(const char *input, const char *output)
{
    struct yk_error e = {0};
    assert_int_equal(yk_apart(input, output, &e), YK_OK);
}

static void test_names_and_links(void **state)
{
    (void)state;
    make("a");
    make("b");
    assert_int_equal(symlink("a", "link"), 0);
    assert_int_equal(link("a", "hard"), 0);
    same_file("a", "a");
    same_file("a", "./a");
    same_file("a", "link");
    same_file("link", "a");
    same_file("a", "hard");
    same_file("hard", "link");
    apart("a", "b");
    apart("a", "new");
    apart("missing", "a");
    apart("", "a");
}

static void test_folders(void **state)
{
    (void)state;
    assert_int_equal(mkdir("set", 0777), 0);
    assert_int_equal(mkdir("set/train", 0777), 0);
    assert_int_equal(mkdir("set/train/cat", 0777), 0);
    make("set/x");
    make("set/train/cat/1.jpg");
    make("far");
    make("away");
    assert_int_equal(symlink("../far", "set/link"), 0);
    assert_int_equal(symlink("..", "set/round"), 0); /* a circle is not walked for ever */
    same_file("set", "set/x");
    same_file("set", "far");
    same_file("set", "set/train/cat/1.jpg");
    apart("set", "set/new");
    assert_int_equal(unlink("set/round"), 0);
    apart("set", "away");
}

/* A file is found in a folder by a name that is not the output's, and through a linked folder. */
static void test_other_names_in_folders(void **state)
{
    (void)state;
    assert_int_equal(mkdir("set", 0777), 0);
    assert_int_equal(mkdir("set/train", 0777), 0);
    assert_int_equal(mkdir("cats", 0777), 0);
    assert_int_equal(symlink("../../cats", "set/train/cat"), 0);
    make("cats/1.jpg");
    make("many");
    make("one");
    make("free");
    assert_int_equal(link("many", "set/train/hard.jpg"), 0);
    assert_int_equal(symlink("../../one", "set/train/soft.jpg"), 0);
    assert_int_equal(symlink("set/train/cat/1.jpg", "seen"), 0);
    same_file("set", "cats/1.jpg");
    same_file("set", "seen");
    same_file("set", "many");
    same_file("set", "one");
    apart("set", "free");
    make("set/train/free"); /* another file of that name */
    apart("set", "free");
}

static void test_only_files_can_be_lost(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("pipe", 0666), 0);
    apart("pipe", "pipe");
    apart("/dev/null", "/dev/null");
}

static void test_standard_streams(void **state)
{
    (void)state;
    struct yk_error e = {0};
    make("in");
    make("out");
    fflush(stdout);
    int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO), file = open("in", O_RDWR),
        other = open("out", O_RDWR);
    assert_true(in >= 0 && out >= 0 && file >= 0 && other >= 0);
    dup2(file, STDIN_FILENO);
    dup2(other, STDOUT_FILENO);
    yk_code from_in = yk_apart("-", "in", &e), to_out = yk_apart("out", "-", NULL),
            both = yk_apart("-", "-", NULL);
    dup2(file, STDOUT_FILENO);
    yk_code round = yk_apart("-", "-", NULL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    close(in);
    close(out);
    close(file);
    close(other);
    assert_int_equal(from_in, YK_USAGE);
    assert_int_equal(to_out, YK_USAGE);
    assert_int_equal(both, YK_OK);
    assert_int_equal(round, YK_USAGE);
}

/* Piped input is not taken for a folder called "-", and standard output is found in a folder. */
static void test_pipe_and_folder(void **state)
{
    (void)state;
    int ends[2], in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO);
    assert_int_equal(mkdir("-", 0777), 0);
    make("-/x");
    int file = open("-/x", O_RDWR);
    assert_true(pipe(ends) == 0 && in >= 0 && out >= 0 && file >= 0);
    fflush(stdout);
    dup2(ends[0], STDIN_FILENO);
    dup2(file, STDOUT_FILENO);
    yk_code to_name = yk_apart("-", "-/x", NULL), to_out = yk_apart("-", "-", NULL);
    yk_code folder = yk_apart("./-", "-", NULL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    for (size_t i = 0; i < 5; i++)
        close((int[]){in, out, file, ends[0], ends[1]}[i]);
    assert_int_equal(to_name, YK_OK);
    assert_int_equal(to_out, YK_OK);
    assert_int_equal(folder, YK_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names_and_links, enter, leave),
        cmocka_unit_test_setup_teardown(test_folders, enter, leave),
        cmocka_unit_test_setup_teardown(test_other_names_in_folders, enter, leave),
        cmocka_unit_test_setup_teardown(test_only_files_can_be_lost, enter, leave),
        cmocka_unit_test_setup_teardown(test_standard_streams, enter, leave),
        cmocka_unit_test_setup_teardown(test_pipe_and_folder, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
