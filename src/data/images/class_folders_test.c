/* class_folders_test.c - which files are found, in which order, with which labels; and every
 * mistake that a folder of photos can have. */
#include "data/images/class_folders.h"

#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

static void put(const char *dir, const char *name, const char *bytes)
{
    char path[YK_PATH_MAX], *slash;
    assert_int_equal(yk_path(path, NULL, "%s/%s", dir, name), YK_OK);
    slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(yk_mkdirs(path, NULL), YK_OK);
    *slash = '/';
    assert_int_equal(yk_file_write(path, bytes, strlen(bytes), NULL), YK_OK);
}

#define JPEG "\xff\xd8\xff\xe0 and so on"

static void expect_path(const struct yk_class_folders *l, uint32_t row, const char *dir,
                        const char *name, uint16_t label)
{
    char path[YK_PATH_MAX], want[YK_PATH_MAX];
    assert_int_equal(yk_class_folders_path(l, row, path, NULL), YK_OK);
    assert_int_equal(yk_path(want, NULL, "%s/%s", dir, name), YK_OK);
    assert_string_equal(path, want);
    assert_int_equal(l->label[row], label);
}

static void test_order_and_labels(void **state)
{
    const char *dir = *state;
    char path[YK_PATH_MAX];
    struct yk_class_folders l, again, test;
    put(dir, "a/dog/2.jpg", JPEG);
    put(dir, "a/dog/10.JPEG", JPEG);
    put(dir, "a/dog/notes.txt", "x");
    put(dir, "a/dog/.hidden.jpg", "x");
    put(dir, "a/Cat/z.Jpg", JPEG);
    put(dir, "a/Cat/photo.png", "x");
    put(dir, "a/dog/deeper/1.jpg", JPEG); /* not looked into */
    put(dir, "a/.git/1.jpg", "x");
    put(dir, "a/readme.jpg", "x"); /* in no class */
    put(dir, "a/empty/notes", "x");
    put(dir, "b/dog/7.jpg", JPEG "more");
    assert_int_equal(yk_path(path, NULL, "%s/a", dir), YK_OK);
    assert_true(yk_class_folders_sniff(path));
    assert_int_equal(yk_class_folders_read(&l, path, NULL, NULL), YK_OK);
    assert_int_equal(l.classes, 3);
    assert_int_equal(l.rows, 3);
    assert_int_equal(l.skipped, 3);
    expect_path(&l, 0, path, "Cat/z.Jpg", 0);
    expect_path(&l, 1, path, "dog/10.JPEG", 1);
    expect_path(&l, 2, path, "dog/2.jpg", 1);
    assert_int_equal(yk_class_folders_read(&again, path, NULL, NULL), YK_OK);
    assert_true(again.xxh3 == l.xxh3);
    yk_class_folders_release(&again);
    put(dir, "a/dog/2.jpg", JPEG "longer");
    assert_int_equal(yk_class_folders_read(&again, path, NULL, NULL), YK_OK);
    assert_true(again.xxh3 != l.xxh3);

    assert_int_equal(yk_path(path, NULL, "%s/b", dir), YK_OK);
    assert_int_equal(yk_class_folders_read(&test, path, &l, NULL),
                     YK_OK); /* has fewer classes; labels are those of a/ */
    assert_true(test.rows == 1 && test.classes == 3);
    expect_path(&test, 0, path, "dog/7.jpg", 1);
    yk_class_folders_release(&again);
    yk_class_folders_release(&test);
    yk_class_folders_release(&l);
    yk_class_folders_release(&l);
}

/* A class with another name is other data, even if the order stays; and a class without files has a
 * label, too. */
static void test_names(void **state)
{
    const char *dir = *state;
    char path[YK_PATH_MAX], other[YK_PATH_MAX], *names;
    struct yk_class_folders l, again, like;
    put(dir, "blue/1.jpg", JPEG);
    put(dir, "red/1.jpg", JPEG);
    assert_int_equal(yk_class_folders_read(&l, dir, NULL, NULL), YK_OK);
    assert_non_null(names = yk_class_folders_names(&l));
    assert_string_equal(names, "blue/red");
    free(names);
    assert_int_equal(yk_path(path, NULL, "%s/red", dir), YK_OK);
    assert_int_equal(yk_path(other, NULL, "%s/rot", dir), YK_OK);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(yk_class_folders_read(&again, dir, NULL, NULL), YK_OK);
    assert_true(again.rows == 2 && again.xxh3 != l.xxh3);
    yk_class_folders_release(&again);
    yk_class_folders_release(&l);

    assert_int_equal(yk_class_folders_named(&like, "a/blue/c/rot/z", NULL), YK_OK);
    assert_int_equal(like.classes, 5);
    assert_int_equal(yk_class_folders_read(&l, dir, &like, NULL), YK_OK);
    assert_true(l.classes == 5 && l.label[0] == 1 && l.label[1] == 3);
    expect_path(&l, 1, dir, "rot/1.jpg", 3);
    assert_non_null(names = yk_class_folders_names(&l));
    assert_string_equal(names, "a/blue/c/rot/z");
    free(names);
    yk_class_folders_release(&l);
    yk_class_folders_release(&like);
    assert_int_equal(yk_class_folders_named(&like, "rot", NULL), YK_OK);
    struct yk_error e = {0};
    assert_int_equal(yk_class_folders_read(&l, dir, &like, &e), YK_DATA);
    assert_non_null(strstr(e.text, "has a class 'blue' that was not trained"));
    assert_string_equal(e.hint, "the classes that were trained are rot");
    yk_class_folders_release(&like);
}

static void test_stray(void **state)
{
    const char *dir = *state;
    char path[YK_PATH_MAX], want[YK_PATH_MAX], deeper[YK_PATH_MAX];
    put(dir, "a/1.jpg", JPEG);
    put(dir, "b/c/d/1.jpg", JPEG);
    put(dir, "e/notes/1.txt", "x");
    assert_int_equal(yk_path(path, NULL, "%s/a", dir), YK_OK);
    assert_true(yk_class_folders_stray(path, deeper) && deeper[0] == '\0');
    assert_int_equal(yk_path(path, NULL, "%s/b", dir), YK_OK);
    assert_int_equal(yk_path(want, NULL, "%s/b/c", dir), YK_OK);
    assert_true(yk_class_folders_stray(path, deeper));
    assert_string_equal(deeper, want);
    assert_int_equal(yk_path(path, NULL, "%s/e", dir), YK_OK);
    assert_false(yk_class_folders_stray(path, deeper));
    assert_false(yk_class_folders_stray("/nowhere", deeper));
}

static void refused(const char *root, const struct yk_class_folders *like, const char *text)
{
    struct yk_class_folders l;
    struct yk_error e = {0};
    assert_int_equal(yk_class_folders_read(&l, root, like, &e), YK_DATA);
    if (strstr(e.text, text) == NULL)
        fail_msg("expected '%s' in: %s", text, e.text);
    assert_null(l.names);
}

static void test_mistakes(void **state)
{
    const char *dir = *state;
    char path[YK_PATH_MAX];
    struct yk_class_folders l;
    refused("/nowhere/at/all", NULL, "cannot open '/nowhere/at/all': no such file or directory");
    put(dir, "x/photo.png", "x");
    assert_true(yk_class_folders_sniff(dir));
    refused(
        dir, NULL,
        "has class folders but no JPEG file in them: 1 files are called neither .jpg nor .jpeg");
    put(dir, "x/1.jpg", JPEG);
    assert_int_equal(yk_class_folders_classes(&l, dir, NULL), YK_OK);
    put(dir, "y/1.jpg", JPEG);
    refused(dir, &l, "has a class 'y' that ");
    yk_class_folders_release(&l);
    put(dir, "x/2.jpg", "<html>");
    refused(dir, NULL, "/x/2.jpg' is not a JPEG file: it starts with 3c 68, expected ff d8 ff");
    put(dir, "x/2.jpg", "");
    refused(dir, NULL, "/x/2.jpg' is empty; expected a JPEG file");
    put(dir, "x/2.jpg", "\xff");
    refused(dir, NULL, "/x/2.jpg' is not a JPEG file: it starts with ff 00");
    assert_int_equal(yk_path(path, NULL, "%s/x/2.jpg", dir), YK_OK);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(dir, NULL,
            "/x/2.jpg' is not a file but a pipe or device"); /* and it is not waited for */
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    refused(dir, NULL, "/x/2.jpg' is not a file but a folder");
    assert_int_equal(remove(path), 0);
    assert_int_equal(symlink("nothing", path), 0);
    refused(dir, NULL, "/x/2.jpg': no such file or directory");
}

static void test_hold_out(void **state)
{
    const char *dir = *state;
    struct yk_class_folders l, held;
    bool seen[40] = {false};
    char name[64];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "%s/%02d.jpg", i < 20 ? "a" : "b", i);
        put(dir, name, JPEG);
    }
    assert_int_equal(yk_class_folders_read(&l, dir, NULL, NULL), YK_OK);
    assert_int_equal(yk_class_folders_hold_out(&l, 0.25, &held, NULL), YK_OK);
    assert_true(l.rows == 30 && held.rows == 10);
    unsigned of_a = 0;
    for (uint32_t i = 0; i < 40;
         i++) { /* every row once, labels with their files, both classes in both parts */
        const struct yk_class_folders *from = i < 30 ? &l : &held;
        uint32_t r = i < 30 ? i : i - 30;
        int number = atoi(from->names + from->file_at[r]);
        assert_false(seen[number]);
        seen[number] = true;
        assert_int_equal(from->label[r], number >= 20);
        of_a += i >= 30 && number < 20;
    }
    assert_int_equal(of_a, 5);
    yk_class_folders_release(&held);
    struct yk_error e;
    assert_int_equal(yk_class_folders_hold_out(&l, 0.033, &held, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "--holdout 0.033 of the 30 photos of '"));
    assert_non_null(strstr(e.text, "is less than one; expected at least 0.0334"));
    assert_int_equal(yk_class_folders_hold_out(&l, 0.0334, &held, &e), YK_OK);
    assert_int_equal(held.rows, 1);
    yk_class_folders_release(&l);
    yk_class_folders_release(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_and_labels, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_names, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_stray, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_mistakes, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_hold_out, testdir_setup, testdir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
