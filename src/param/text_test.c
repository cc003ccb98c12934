/* text_test.c - the text can be read back, and zeros are left out. */
#include "param/text.h"
#include "tests/testdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_text(void **state)
{
    const struct yk_view spec[] = {{.name = "a.weight", .ndim = 2, .shape = {2, 3}},
                                   {.name = "a.bias", .ndim = 1, .shape = {2}}};
    struct yk_params p;
    struct yk_error e;
    char name[64], path[4200];
    snprintf(path, sizeof path, "%s/model.txt", (const char *)*state);
    assert_int_equal(yk_params_init(&p, spec, 2, &e), YK_OK);
    float *w = p.flat + yk_params_find(&p, "a.weight")->at;
    w[0] = 1.0f / 3;
    w[4] = -1e-30f;
    p.flat[yk_params_find(&p, "a.bias")->at + 1] = 16777216;
    assert_int_equal(yk_text_write(path, &p, &e), YK_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[128];
    unsigned lines = 0, heads = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        size_t k;
        float v;
        if (line[0] == '#') {
            heads++;
            continue;
        }
        assert_int_equal(sscanf(line, "%63[^:]:%zu:%f", name, &k, &v), 3);
        assert_true(p.flat[yk_params_find(&p, name)->at + k] == v && v != 0);
        lines++;
    }
    fclose(f);
    assert_true(lines == 3 && heads == 2);
    assert_int_equal(yk_text_write("none/here/model.txt", &p, &e), YK_FAILED);
    yk_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, testdir_setup, testdir_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
