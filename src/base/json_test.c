/* json_test.c - valid objects are read, everything else is one YK_DATA sentence, and a saved object
 * loads again. */
#include "base/json.h"

#include "base/file.h"
#include "tests/testdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_parse(void **state)
{
    (void)state;
    json_t *v = NULL;
    struct yk_error e;
    const char *text = "{\"a\": 1, \"b\": [true, null]} garbage";
    assert_int_equal(yk_json_parse(text, 27, "x", &v, &e), YK_OK);
    assert_int_equal(json_integer_value(json_object_get(v, "a")), 1);
    json_decref(v);
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{",
                                      "[1]",
                                      "3",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":1}x",
                                      "{\"a\":1e999}",
                                      "{\"\\u0000\":1}",
                                      "{\"a\":\"\xff\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *v = NULL;
        struct yk_error e;
        assert_int_equal(yk_json_parse(bad[i], strlen(bad[i]), "that file", &v, &e), YK_DATA);
        assert_null(v);
        assert_non_null(strstr(e.text, "'that file'"));
    }
}

static void test_refuses_deep_nesting(void **state)
{
    (void)state;
    enum { DEEP = 1 << 20 };
    char *text = malloc(DEEP);
    assert_non_null(text);
    memset(text, '[', DEEP);
    json_t *v = NULL;
    struct yk_error e;
    assert_int_equal(yk_json_parse(text, DEEP, "deep", &v, &e), YK_DATA);
    text[0] = '{';
    text[1] = '"';
    text[2] = '"';
    text[3] = ':';
    assert_int_equal(yk_json_parse(text, DEEP, "deep", &v, &e), YK_DATA);
    free(text);
}

static void test_save_and_load(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_error e;
    json_t *back;
    yk_path(path, NULL, "%s/x.json", (char *)*state);
    json_t *v = json_pack("{s:i, s:s, s:o, s:o}", "zeta", 1, "alpha", "two", "loss",
                          yk_json_real(0.25), "nan", yk_json_real(NAN));
    assert_int_equal(yk_json_save(path, v, &e), YK_OK);
    json_decref(v);

    char *text;
    size_t n;
    assert_int_equal(yk_file_read(path, 1000, &text, &n, &e), YK_OK);
    assert_string_equal(
        text, "{\n  \"zeta\": 1,\n  \"alpha\": \"two\",\n  \"loss\": 0.25,\n  \"nan\": null\n}\n");
    free(text);

    assert_int_equal(yk_json_load(path, &back, &e), YK_OK);
    assert_true(json_is_null(json_object_get(back, "nan")));
    assert_string_equal(json_string_value(json_object_get(back, "alpha")), "two");
    json_decref(back);
}

static void test_load_missing(void **state)
{
    char path[YK_PATH_MAX];
    struct yk_error e;
    json_t *v;
    yk_path(path, NULL, "%s/none.json", (char *)*state);
    assert_int_equal(yk_json_load(path, &v, &e), YK_DATA);
    assert_non_null(strstr(e.text, "no such file"));
    assert_int_equal(yk_json_load(*state, &v, &e), YK_DATA); /* a folder */
}

static void test_real(void **state)
{
    (void)state;
    const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        json_t *v = yk_json_real(odd[i]);
        assert_true(json_is_null(v));
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_refuses_deep_nesting),
        cmocka_unit_test_setup_teardown(test_save_and_load, testdir_setup, testdir_teardown),
        cmocka_unit_test_setup_teardown(test_load_missing, testdir_setup, testdir_teardown),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
