/* loop_test.c - how many steps a run makes, when it looks at what, and why it stops; and that
 * its steps are the ones a plain loop over source, model and strategy would make. */
#include "tests/tiny.h"

#include "param/checkpoint.h"

#include <dirent.h>
#include <pthread.h>

/* Steps, examples and reason, with and without a partial last batch. */
static void test_counts(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        uint64_t steps, examples;
        enum yk_stop why;
    } RUN[] = {
        {"batch=100 epochs=1", 11, 1003, YK_STOP_EPOCHS}, /* ten of 100, one of 3 */
        {"batch=100 epochs=2", 22, 2006, YK_STOP_EPOCHS},
        {"batch=1003 epochs=3", 3, 3009, YK_STOP_EPOCHS},
        {"batch=1002 epochs=2", 4, 2006, YK_STOP_EPOCHS},
        {"batch=1 epochs=1", 1003, 1003, YK_STOP_EPOCHS},
        {"batch=100 steps=1", 1, 100, YK_STOP_STEPS},
        {"batch=100 steps=11", 11, 1003, YK_STOP_STEPS},
        {"batch=100 steps=12", 12, 1103, YK_STOP_STEPS},
        {"batch=100 steps=5 epochs=1", 5, 500, YK_STOP_STEPS}, /* the first rule wins */
        {"batch=100 steps=50 epochs=1", 11, 1003, YK_STOP_EPOCHS},
        {"batch=100 epochs=1 target-loss=0.0001", 11, 1003, YK_STOP_EPOCHS},
        {"batch=100 epochs=1 eval-every=1e15 checkpoint-every=1e15", 11, 1003, YK_STOP_EPOCHS},
        {"batch=100 epochs=1 eval-every=0.0001s checkpoint-every=3", 11, 1003, YK_STOP_EPOCHS},
    };
    for (size_t i = 0; i < sizeof RUN / sizeof RUN[0]; i++) {
        struct yk_session *s = tiny_train(RUN[i].options);
        if (s->now.step != RUN[i].steps || s->now.examples != RUN[i].examples ||
            s->stop != RUN[i].why)
            fail_msg("%s: %d steps, %d examples, %s", RUN[i].options, (int)s->now.step,
                     (int)s->now.examples, yk_stop_name(s->stop));
        assert_int_equal(s->curve.tested_step, RUN[i].steps); /* the end is always looked at */
        assert_int_equal(s->curve.discarded, 0);
        yk_session_close(s);
    }
}

static void nothing(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s, (void)lo, (void)hi;
}

/* The same training by hand: batches in order, the mean gradient times the rate. */
static void test_plain_loop(void **state)
{
    (void)state;
    struct yk_session *s =
        tiny_train("batch=100 steps=40 lr=0.5 eval-every=15 run=a seed=3 threads=1");
    struct yk_source source;
    struct yk_params params;
    struct yk_batch batch;
    struct yk_model *model;
    uint64_t step[8], marks = 0;
    double logged[8], loss = 0, examples = 0;
    assert_int_equal(tiny_metrics("a", "train/loss", step, logged, 8), 3);
    assert_int_equal(yk_source_init(&source, &s->input.train, 3, 0, NULL), YK_OK);
    assert_int_equal(s->ops->open(&model, &s->input.train, NULL), YK_OK);
    assert_int_equal(s->ops->layout(model, &params, 3, NULL), YK_OK);
    struct yk_sink sink = {.grad = yk_floats(params.count), .ready = nothing};
    for (uint64_t t = 1; t <= 40; t++) {
        uint64_t at = (t - 1) / 11 * TINY_TRAIN +
                      (t - 1) % 11 * 100; /* eleven steps an epoch, the last of 3 */
        yk_source_at(&source, at, t % 11 == 0 ? 3 : 100, UINT64_MAX, &batch);
        loss += s->ops->step(s->crew.local[0].work, &params, &batch, &sink);
        examples += batch.n;
        float rate = 0.5f * (1.0f / (float)batch.n);
        for (size_t i = 0; i < params.count; i++)
            params.flat[i] -= rate * sink.grad[i];
        if (t == 15 || t == 30 || t == 40) { /* a check tells the mean since the one before */
            assert_int_equal(step[marks], t);
            assert_true(fabs(logged[marks] - loss / examples) < 1e-8);
            marks++;
            loss = examples = 0;
        }
    }
    assert_memory_equal(params.flat, s->state.params.flat, params.count * sizeof(float));
    yk_floats_free(sink.grad);
    yk_params_release(&params);
    s->ops->close(model);
    yk_source_release(&source);
    yk_session_close(s);
}

/* Checks happen at exactly the steps that --eval-every means, and at the end. */
static void test_checks(void **state)
{
    (void)state;
    static const struct {
        const char *every;
        double steps, examples; /* one of them */
    } EVERY[] = {{"1", 1, 0},         {"7", 7, 0},     {"100", 100, 0}, {"300ex", 0, 300},
                 {"1003ex", 0, 1003}, {"64ex", 0, 64}, {"1ex", 0, 1}};
    for (size_t i = 0; i < sizeof EVERY / sizeof EVERY[0]; i++) {
        char options[128], run[16];
        uint64_t step[64], expected[64], n = 0, seen = 0;
        double next = EVERY[i].steps + EVERY[i].examples;
        snprintf(run, sizeof run, "run%zu", i);
        snprintf(options, sizeof options, "batch=100 steps=50 eval-every=%s run=%s", EVERY[i].every,
                 run);
        struct yk_session *s = tiny_train(options);
        yk_session_close(s);
        for (uint64_t t = 1; t <= 50; t++) {
            seen += t % 11 == 0 ? 3 : 100;
            double at = EVERY[i].steps > 0 ? (double)t : (double)seen;
            if (at >= next || t == 50)
                expected[n++] = t;
            while (next <= at)
                next += EVERY[i].steps + EVERY[i].examples;
        }
        assert_int_equal(tiny_metrics(run, NULL, step, NULL, 64), n);
        assert_memory_equal(step, expected, n * sizeof *step);
    }
}

/* Saved now and then, never more than --keep, and always the end. */
static void test_checkpoints(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("batch=10 steps=333 checkpoint-every=10 keep=2 run=a");
    yk_session_close(s);
    DIR *dir = opendir("a/checkpoints");
    unsigned files = 0;
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        files += d->d_name[0] != '.';
    closedir(dir);
    assert_in_range(files, 1, 2);
    assert_true(yk_exists("a/checkpoints/step-000000000333.safetensors"));
}

static void test_max_seconds(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("batch=10 max-seconds=0.05");
    assert_int_equal(s->stop, YK_STOP_MAX_SECONDS);
    assert_true(s->now.seconds >= 0.05 && s->now.seconds < 2);
    assert_true(s->now.step > 0);
    yk_session_close(s);
}

/* A stop that came before the first step: nothing is done, and the run can go on. */
static void test_stopped_at_once(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    char straight[17], resumed[17];
    tiny_hash("steps=30 batch=50", straight);
    assert_int_equal(tiny_open(&s, "steps=30 batch=50 run=a", &e), YK_OK);
    s->stop_signal = 1;
    assert_int_equal(yk_session_train(s, &e), YK_OK);
    assert_int_equal(s->stop, YK_STOP_SIGNAL);
    assert_int_equal(s->now.step, 0);
    assert_true(isnan(s->curve.train_loss)); /* of no step there is no loss */
    yk_session_close(s);
    tiny_hash("resume=a", resumed);
    assert_string_equal(straight, resumed);
}

static void *stop_soon(void *arg)
{
    struct yk_session *s = arg;
    usleep(30000);
    s->stop_signal = 1;
    return NULL;
}

/* A stop in the middle, from another thread: soon, and with a checkpoint of the very step. */
static void test_stopped_in_the_middle(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    pthread_t thread;
    char path[YK_PATH_MAX];
    assert_int_equal(tiny_open(&s, "steps=1000000000 batch=50 run=a", &e), YK_OK);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, s), 0);
    assert_int_equal(yk_session_train(s, &e), YK_OK);
    pthread_join(thread, NULL);
    assert_int_equal(s->stop, YK_STOP_SIGNAL);
    assert_true(s->now.step > 0 && s->now.seconds < 5);
    snprintf(path, sizeof path, "a/checkpoints/step-%012llu.safetensors",
             (unsigned long long)s->now.step);
    assert_true(yk_exists(path));
    yk_session_close(s);
}

/* A loss that is no number ends the run with a sentence, not with a model. */
static void test_diverges(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    assert_int_equal(
        tiny_open(&s, "steps=1000 batch=50 lr=1e6 schedule=exponential:10:1 run=a", &e), YK_OK);
    assert_int_equal(yk_session_train(s, &e), YK_FAILED);
    assert_non_null(strstr(e.text, "diverged"));
    assert_non_null(strstr(e.hint, "--lr"));
    assert_in_range(s->now.step, 2, 100);
    yk_session_close(s);
    assert_false(yk_exists("a/summary.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_plain_loop, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_checks, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_checkpoints, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_max_seconds, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_stopped_at_once, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_stopped_in_the_middle, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_diverges, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
