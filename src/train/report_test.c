/* report_test.c - what a person is shown: the right figures, in lines that fit, with nothing
 * that is not a number. */
#include "tests/tiny.h"

#include "train/report.h"

static char *report(struct yk_session *s)
{
    struct yk_buf text = {0};
    yk_report(s, &text);
    assert_false(text.failed);
    unsigned column = 0;
    for (const char *p = strchr(text.data, '\n'); *p != '\0';
         p++) { /* the first line names the data, as long as that may be */
        column = *p == '\n' ? 0 : column + ((*p & 0xc0) != 0x80); /* characters, not bytes */
        if (column > 80)
            fail_msg("too wide: %s", text.data);
    }
    assert_null(strstr(text.data, "nan"));
    assert_null(strstr(text.data, "inf"));
    return text.data;
}

static void assert_has(const char *text, const char *fmt, ...)
{
    char expected[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(expected, sizeof expected, fmt, ap);
    va_end(ap);
    if (strstr(text, expected) == NULL)
        fail_msg("'%s' is not in:\n%s", expected, text);
}

static unsigned lines_with(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what))
        n++;
    return n;
}

static void test_figures(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("run=a batch=10 steps=1234 eval-every=20 threads=1");
    char *text = report(s), hash[17];
    yk_params_hash(&s->state.params, hash);
    assert_has(text, "batch 10, sgd 0.01, 1 thread (");
    assert_has(text, "done: 1,234 steps, 12.22 epochs");
    assert_has(text, "loss %.4f, accuracy %.2f %%", s->curve.test_loss,
               s->curve.test_accuracy * 100);
    assert_has(text, "260 floats, xxh3 %s", hash);
    assert_has(text, "run       a\n");
    assert_has(text, "\n        20 "); /* the curve begins with the first check */
    assert_has(text,
               "\n     1,234 "); /* and ends with the last, whatever was thinned out between */
    assert_true(lines_with(text, " % ") >= 5); /* rows of a curve */
    free(text);
    yk_session_close(s);
}

static void test_endings(void **state)
{
    (void)state;
    static const struct {
        const char *options, *ending;
        int signal;
    } CASES[] = {
        {"steps=3 threads=2", "done: 3 steps, 0.2991 epochs", 0},
        {"epochs=1 batch=1003", "done: 1 steps, 1 epochs", 0},
        {"target-loss=1000 eval-every=2", "reached the target loss at step 2, after ", 0},
        {"target-accuracy=0.01 eval-every=2", "reached the target accuracy at step 2, after ", 0},
        {"max-seconds=0.002", "--max-seconds ended it at step ", 0},
        {"run=stopped steps=9",
         "stopped by a signal at step 0; 'yoke train --resume stopped' goes on", 1},
        {"data=data/train-images-idx3-ubyte steps=40 eval-every=10", "done: 40 steps",
         0}, /* no test data */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct yk_session *s;
        struct yk_error e;
        assert_int_equal(tiny_open(&s, CASES[i].options, &e), YK_OK);
        s->stop_signal = CASES[i].signal;
        assert_int_equal(yk_session_train(s, &e), YK_OK);
        char *text = report(s);
        assert_has(text, "%s", CASES[i].ending);
        bool said = strstr(text, "  test      loss ") != NULL; /* only what was measured is told */
        assert_int_equal(said, s->input.test.rows > 0);
        free(text);
        yk_session_close(s);
    }
}

/* A run that ended earlier is told from its summary. */
static void test_of_a_complete_run(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("run=a steps=12");
    struct yk_error e;
    char hash[17];
    yk_params_hash(&s->state.params, hash);
    json_t *j = yk_session_summary(s);
    assert_int_equal(yk_run_save(&s->run, "summary.json", j, &e), YK_OK);
    json_decref(j);
    yk_session_close(s);
    assert_int_equal(tiny_open(&s, "resume=a", &e), YK_OK);
    assert_true(s->resume.start == YK_START_DONE);
    char *text = report(s);
    assert_has(text, "done: 12 steps");
    assert_has(text, "xxh3 %s", hash);
    free(text);
    yk_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_figures, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_endings, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_of_a_complete_run, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
