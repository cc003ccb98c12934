/* net_settings_test.c - what a net may set, and what it may not. */
#include "train/net_settings.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static yk_code check(const char *train, struct yk_error *e)
{
    char text[256];
    struct yk_net n;
    snprintf(text, sizeof text, "net x\ninput 2x2x1\ndense 2\nsoftmax\n%s\n", train);
    *e = (struct yk_error){0};
    assert_int_equal(yk_net_parse("x.net", text, strlen(text), &n, e), YK_OK);
    yk_code rc = yk_net_settings_check("x.net", &n, e);
    yk_net_release(&n);
    return rc;
}

static void test_settings(void **state)
{
    (void)state;
    struct yk_error e;
    static const struct {
        const char *train, *want;
    } CASES[] = {
        {"train batsh 64", "x.net:5:1: unknown option '--batsh'"},
        {"train batch 64\ntrain lr much", "x.net:6:1: --lr"},
        {"train batch 0", "x.net:5:1: --batch"},
        {"train optimizer best", "x.net:5:1: --optimizer"},
        {"train run here", "x.net:5:1: a net may not set the option 'run'"},
        {"train net x", "x.net:5:1: a net may not set the option 'net'"},
        {"train json true", "x.net:5:1: a net may not set the option 'json'"},
        {"train hosts a,b", "x.net:5:1: a net may not set the option 'hosts'"},
        {"train hash-bits 4", "x.net:5:1: a net may not set the option 'hash-bits'"},
        {"train batch 8\ntrain schedule foo:3", "x.net:6:1: --schedule: 'foo:3'"},
        {"train mirror x", "x.net:5:1: unknown option '--mirror'"},
    };
    assert_int_equal(check("", &e), YK_OK);
    assert_int_equal(check("train batch 64 lr 0.05 optimizer momentum\ntrain eval-every 20000ex "
                           "schedule cosine:10",
                           &e),
                     YK_OK);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (check(CASES[i].train, &e) != YK_USAGE ||
            strncmp(e.text, CASES[i].want, strlen(CASES[i].want)) != 0)
            fail_msg("%s\n    says '%s'\n    not  '%s'", CASES[i].train, e.text, CASES[i].want);
    }
    check("train batsh 64", &e);
    assert_string_equal(e.hint, "did you mean '--batch'?");
}

/* Every net that comes with yoke trains. */
static void test_shipped(void **state)
{
    (void)state;
    for (const struct yk_net_file *f = yk_net_files; f->name != NULL; f++) {
        struct yk_net n;
        struct yk_error e = {0};
        assert_int_equal(yk_net_read(f->name, &n, &e), YK_OK);
        if (yk_net_settings_check(f->name, &n, &e) != YK_OK)
            fail_msg("%s", e.text);
        yk_net_release(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_settings),
                                       cmocka_unit_test(test_shipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
