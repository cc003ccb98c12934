/* summary_test.c - the keys that other tools rely on are all there, with the right types, and
 * their figures agree with each other. */
#include "tests/tiny.h"

static void test_contract(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"version", "run",       "model",       "data",       "mode",
                                        "isa",     "optimizer", "stop_reason", "params_xxh3"};
    static const char *const WHOLE[] = {"schema",
                                        "workers",
                                        "ps",
                                        "batch",
                                        "global_batch",
                                        "shards",
                                        "threads",
                                        "seed",
                                        "parameters",
                                        "global_steps",
                                        "discarded_steps",
                                        "examples",
                                        "stale_dropped",
                                        "restarts",
                                        "peak_rss_bytes"};
    static const char *const REALS[] = {
        "lr",           "epochs",       "seconds",          "startup_seconds",
        "eval_seconds", "wall_seconds", "steps_per_second", "examples_per_second",
        "train_loss",   "test_loss",    "test_accuracy"};
    struct yk_session *s = tiny_train(
        "run=a batch=100 steps=150 seed=9 threads=2 lr=0.25 optimizer=adagrad eval-every=40");
    json_t *j = yk_session_summary(s);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++)
        assert_true(json_is_string(json_object_get(j, TEXTS[i])));
    for (size_t i = 0; i < sizeof WHOLE / sizeof WHOLE[0]; i++)
        if (!json_is_integer(json_object_get(j, WHOLE[i])))
            fail_msg("'%s' is not a whole number", WHOLE[i]);
    for (size_t i = 0; i < sizeof REALS / sizeof REALS[0]; i++)
        if (!json_is_real(json_object_get(j, REALS[i])))
            fail_msg("'%s' is not a number", REALS[i]);
    assert_true(json_is_null(json_object_get(j, "target_seconds"))); /* there was none */
    assert_true(json_is_true(json_object_get(j, "reproducible")));
    assert_null(json_object_get(j, "reproducible_why_not"));
    assert_int_equal(json_array_size(json_object_get(j, "hosts")), 1);
    assert_true(json_is_boolean(json_object_get(j, "eval_overlapped")));
    const json_t *staleness = json_object_get(j, "staleness");
    for (const char *const *k = (const char *const[]){"mean", "p99", "max", NULL}; *k != NULL; k++)
        assert_true(tiny_number(staleness, *k) == 0);
    assert_true(json_is_array(json_object_get(staleness, "histogram")));

    double seconds = tiny_number(j, "seconds");
    assert_true(tiny_number(j, "global_steps") == 150 &&
                tiny_number(j, "examples") == 13 * 1003 + 7 * 100);
    assert_true(tiny_number(j, "batch") == 100 && tiny_number(j, "seed") == 9 &&
                tiny_number(j, "threads") == 2);
    assert_true(tiny_number(j, "lr") == 0.25 && tiny_number(j, "parameters") == 260 &&
                tiny_number(j, "workers") == 1);
    assert_string_equal(tiny_text(j, "optimizer"), "adagrad");
    assert_string_equal(tiny_text(j, "stop_reason"), "steps");
    assert_int_equal(strlen(tiny_text(j, "params_xxh3")), 16);
    assert_true(fabs(tiny_number(j, "epochs") - 13739.0 / 1003) < 1e-9);
    assert_true(seconds > 0 && seconds <= tiny_number(j, "wall_seconds"));
    assert_true(tiny_number(j, "startup_seconds") <= tiny_number(j, "wall_seconds"));
    assert_true(fabs(tiny_number(j, "steps_per_second") - 150 / seconds) < 1e-6 * 150 / seconds);
    assert_true(fabs(tiny_number(j, "examples_per_second") - 13739 / seconds) <
                1e-6 * 13739 / seconds);
    assert_in_range((int)(tiny_number(j, "peak_rss_bytes") / (1 << 20)), 1, 4000);

    const json_t *w = json_array_get(json_object_get(j, "workers_detail"), 0),
                 *p = json_object_get(w, "phases");
    assert_int_equal(json_array_size(json_object_get(j, "workers_detail")), 1);
    assert_true(tiny_number(w, "rank") == 0 && tiny_number(w, "steps") == 150 &&
                tiny_number(w, "examples") == 13739);
    assert_true(tiny_number(w, "bytes_sent") == 0 && tiny_number(w, "bytes_received") == 0);
    assert_true(strlen(tiny_text(w, "host")) > 0);
    double sum = tiny_number(p, "input") + tiny_number(p, "pull") + tiny_number(p, "compute") +
                 tiny_number(p, "push");
    assert_true(fabs(sum - seconds) < 1e-6); /* the phases are shares of the training time */
    assert_true(tiny_number(p, "input") >= 0 && tiny_number(p, "compute") > 0 &&
                tiny_number(p, "push") > 0 && tiny_number(p, "wait") >= 0);
    json_decref(j);
    yk_session_close(s);
}

/* A resumed run's figures are about the whole run. */
static void test_resumed(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("run=a batch=100 steps=200");
    double first = s->now.seconds;
    yk_session_close(s);
    s = tiny_train("resume=a steps=210");
    json_t *j = yk_session_summary(s);
    assert_true(tiny_number(j, "seconds") > first);
    assert_true(tiny_number(j, "global_steps") == 210 &&
                tiny_number(j, "examples") == 19 * 1003 + 100);
    assert_true(fabs(tiny_number(j, "steps_per_second") * tiny_number(j, "seconds") - 210) < 1e-6);
    json_decref(j);
    yk_session_close(s);
}

static void test_reproducible(void **state)
{
    (void)state;
    static const struct {
        const char *options, *reason, *why_not;
        int signal;
    } CASES[] = {
        {"steps=5", "steps", NULL, 0},
        {"epochs=1", "epochs", NULL, 0},
        {"target-loss=100 eval-every=2", "target_loss", NULL, 0},
        {"target-accuracy=0.01 eval-every=2", "target_accuracy", NULL, 0},
        {"target-loss=100 eval-every=0.001s", "target_loss", "clock", 0},
        {"max-seconds=0.01", "max_seconds", "clock", 0},
        {"steps=5", "signal", "signal", 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct yk_session *s;
        struct yk_error e;
        assert_int_equal(tiny_open(&s, CASES[i].options, &e), YK_OK);
        s->stop_signal = CASES[i].signal;
        assert_int_equal(yk_session_train(s, &e), YK_OK);
        json_t *j = yk_session_summary(s);
        assert_string_equal(tiny_text(j, "stop_reason"), CASES[i].reason);
        assert_int_equal(json_is_true(json_object_get(j, "reproducible")),
                         CASES[i].why_not == NULL);
        if (CASES[i].why_not != NULL)
            assert_non_null(strstr(tiny_text(j, "reproducible_why_not"), CASES[i].why_not));
        char *text =
            json_dumps(j, 0); /* nothing in it that JSON cannot say, even with no step done */
        assert_non_null(text);
        free(text);
        json_decref(j);
        yk_session_close(s);
    }
}

static void test_names(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"running",         "steps",       "epochs", "target_loss",
                                        "target_accuracy", "max_seconds", "signal", "lost"};
    for (int i = YK_RUNNING; i <= YK_STOP_LOST; i++)
        assert_string_equal(yk_stop_name((enum yk_stop)i), NAMES[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_contract, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_resumed, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_reproducible, tiny_setup, tiny_teardown),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
