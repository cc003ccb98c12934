/* api_test.c - the library as an embedding program sees it, through yoke.h alone: on the real
 * MNIST where the figures are known (skipped if it is not in the cache), on tiny data where any
 * will do. */
#include "yoke.h"

#include "tests/mnist.h"
#include "tests/skip.h"
#include "tests/tiny.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

#if defined(__SANITIZE_THREAD__)
enum {
    FULL = 0
}; /* what takes seconds otherwise takes minutes here, and has the same threads when it is short */
#else
enum { FULL = 1 };
#endif

static void need_mnist(void)
{
    char folder[YK_PATH_MAX];
    if (!mnist_folder(folder))
        skip_because("MNIST is not in the cache");
}

static void set(void *arg, const char *name, const char *value)
{
    yoke_error e;
    if (yoke_config_set(arg, name, value, &e) != YOKE_OK)
        fail_msg("%s", e.text);
}

/* softmax on MNIST, unless the options name other data or a run to resume */
static yoke_run *open_run(const char *options, yoke_error *e)
{
    yoke_config *config = yoke_config_new();
    bool resume = strstr(options, "resume=") != NULL;
    assert_non_null(config);
    set(config, "quiet", "true");
    if (!resume)
        set(config, "data", "mnist");
    tiny_options(options, set, config);
    *e = (yoke_error){.code = 99};
    yoke_run *run = yoke_open(config, resume ? NULL : "softmax", e);
    yoke_config_free(config); /* no longer needed */
    assert_int_equal(e->code == YOKE_OK, run != NULL);
    return run;
}

static json_t *summary_of(const yoke_run *run)
{
    char *text = yoke_summary(run);
    assert_non_null(text);
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    free(text);
    return j;
}

/* Open, train, close; the summary is left. */
static json_t *train(const char *options)
{
    yoke_error e;
    yoke_run *run = open_run(options, &e);
    if (run == NULL || yoke_train(run, &e) != YOKE_OK)
        fail_msg("%s: %s", options, e.text);
    json_t *j = summary_of(run);
    yoke_close(run);
    return j;
}

static void hash_of(const char *options, char hash[17])
{
    json_t *j = train(options);
    snprintf(hash, 17, "%s", tiny_text(j, "params_xxh3"));
    json_decref(j);
}

/* The figures of the task: about 7,100 steps and 90.6 %; anything else means a mistake. The
 * model that was kept is the one that was tested, though training had gone on meanwhile. */
static void test_target(void **state)
{
    (void)state;
    need_mnist();
    json_t *j = train(FULL ? "target-loss=0.35 run=a" : "target-loss=1.2 run=a");
    unsigned long long steps = (unsigned long long)tiny_number(j, "global_steps");
    double accuracy = tiny_number(j, "test_accuracy");
    char path[YK_PATH_MAX];
    assert_string_equal(tiny_text(j, "stop_reason"), "target_loss");
    assert_int_equal(steps % 100, 0);
    if (FULL) {
        assert_in_range(steps, 6900, 7400);
        assert_true(accuracy >= 0.900 && accuracy <= 0.912);
        assert_true(tiny_number(j, "test_loss") <= 0.35 && tiny_number(j, "test_loss") > 0.345);
    }
    assert_true(tiny_number(j, "examples") == 100.0 * (double)steps);
    assert_true(tiny_number(j, "target_seconds") <= tiny_number(j, "seconds"));
    assert_true(tiny_number(j, "discarded_steps") >= 0 && tiny_number(j, "discarded_steps") < 3000);
    snprintf(path, sizeof path, "a/checkpoints/step-%012llu.safetensors", steps);
    assert_true(yk_exists(path));
    json_t *saved;
    assert_int_equal(yk_json_load("a/summary.json", &saved, NULL), YK_OK);
    assert_string_equal(tiny_text(saved, "params_xxh3"), tiny_text(j, "params_xxh3"));
    json_decref(saved);

    yoke_error e;
    yoke_model *model = yoke_load("a", &e);
    unsigned shape[3], classes, right = 0;
    struct yk_dataset test;
    assert_non_null(model);
    yoke_model_shape(model, shape, &classes);
    assert_true(shape[0] == 28 && shape[1] == 28 && shape[2] == 1 && classes == 10);
    assert_int_equal(yk_data_open_test("mnist", NULL, &test, NULL), YK_OK);
    size_t pixels = (size_t)test.rows * test.features;
    unsigned char *exact = malloc(pixels); /* not a byte more than the caller has to give */
    float *prob = malloc(sizeof(float) * test.rows * 10);
    assert_true(exact != NULL && prob != NULL);
    memcpy(exact, test.pixels, pixels);
    assert_int_equal(yoke_predict(model, exact, test.rows, prob, &e), YOKE_OK);
    for (uint32_t i = 0; i < test.rows; i++) {
        const float *p = prob + (size_t)i * 10;
        unsigned best = 0;
        float sum = 0;
        for (unsigned c = 0; c < 10; c++) {
            best = p[c] > p[best] ? c : best;
            sum += p[c];
        }
        assert_true(fabsf(sum - 1) < 1e-5f);
        right += best == test.labels[i];
    }
    assert_true(fabs((double)right / test.rows - accuracy) < 1e-9);
    float one[10];
    assert_int_equal(yoke_predict(model, exact + 4321 * 784, 1, one, NULL),
                     YOKE_OK); /* alone as among others */
    assert_memory_equal(one, prob + 43210, sizeof one);
    assert_int_equal(yoke_predict(model, exact, 0, one, &e), YOKE_OK);
    free(exact);
    free(prob);
    yk_dataset_release(&test);
    yoke_model_free(model);
    json_decref(j);
}

/* One seed, one result; threads that have nothing to do change nothing. */
static void test_same_bits(void **state)
{
    (void)state;
    need_mnist();
    char a[17], b[17];
    hash_of("steps=150 seed=1", a);
    hash_of("steps=150 seed=1 eval-every=17 checkpoint-every=13",
            b); /* looking and saving does not disturb */
    assert_string_equal(a, b);
    hash_of("steps=150 seed=2", b);
    assert_string_not_equal(a, b);
    hash_of("steps=150 threads=1", b);
    assert_string_equal(a, b);
    hash_of("steps=150 threads=2", b);
    assert_string_equal(a, b);
    hash_of("steps=20 threads=2 batch=600", a); /* here both work */
    hash_of("steps=20 threads=2 batch=600", b);
    assert_string_equal(a, b);
}

/* 60,000 is no multiple of 7,000: nine steps an epoch, and every example once. */
static void test_partial_batch(void **state)
{
    (void)state;
    need_mnist();
    json_t *j = train("batch=7000 epochs=2");
    assert_true(tiny_number(j, "global_steps") == 18 && tiny_number(j, "examples") == 120000 &&
                tiny_number(j, "epochs") == 2);
    assert_string_equal(tiny_text(j, "stop_reason"), "epochs");
    json_decref(j);
}

static void test_eval_every_examples(void **state)
{
    (void)state;
    need_mnist();
    uint64_t step[8];
    json_decref(train("steps=650 eval-every=20000ex run=a"));
    assert_int_equal(tiny_metrics("a", NULL, step, NULL, 8), 4);
    assert_true(step[0] == 200 && step[1] == 400 && step[2] == 600 && step[3] == 650);
}

/* With one core evaluation is inline: other times, the same figures. */
static void test_inline_evaluation(void **state)
{
    (void)state;
    need_mnist();
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip_because("there is only one processor");
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    json_t *beside = train("target-loss=0.9 threads=1 eval-every=50");
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    json_t *within = train("target-loss=0.9 threads=1 eval-every=50");
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_true(json_is_true(json_object_get(beside, "eval_overlapped")));
    assert_true(json_is_false(json_object_get(within, "eval_overlapped")));
    static const char *const SAME[] = {"global_steps",  "examples",   "test_loss",
                                       "test_accuracy", "train_loss", "params_xxh3"};
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        if (!json_equal(json_object_get(beside, SAME[i]), json_object_get(within, SAME[i])))
            fail_msg("'%s' differs", SAME[i]);
    assert_true(tiny_number(within, "discarded_steps") == 0);
    json_decref(beside);
    json_decref(within);
}

struct stopper {
    yoke_run *run;
    const char *metrics;
};

/* As a user would: waits until the run is well under way, then stops it. */
static void *stop_it(void *arg)
{
    const struct stopper *s = arg;
    struct stat st;
    for (int tries = 0; tries < 20000 && (stat(s->metrics, &st) != 0 || st.st_size < 100); tries++)
        usleep(200);
    yoke_stop(s->run);
    return NULL;
}

/* Stopped anywhere and resumed, a run ends with the bits of one that was left alone: for every
 * optimizer. */
static void test_stop_and_resume(void **state)
{
    (void)state;
    need_mnist();
    const char *what = FULL ? "epochs=2" : "data=data epochs=100"; /* about 1,100 steps */
    for (unsigned i = 0; yk_optimizer_at(i) != NULL; i++) {
        char straight[17], resumed[17], options[128], metrics[64], reason[16] = "";
        double stopped_at = 0;
        int tries = 0;
        for (; strcmp(reason, "signal") != 0 && tries < 20;
             tries++) { /* a short run may be over before it is stopped */
            yoke_error e;
            pthread_t thread;
            snprintf(options, sizeof options, "%s optimizer=%s eval-every=20 run=%u-%d", what,
                     yk_optimizer_at(i)->name, i, tries);
            snprintf(metrics, sizeof metrics, "%u-%d/metrics.jsonl", i, tries);
            yoke_run *run = open_run(options, &e);
            assert_non_null(run);
            struct stopper s = {run, metrics};
            assert_int_equal(pthread_create(&thread, NULL, stop_it, &s), 0);
            assert_int_equal(yoke_train(run, &e), YOKE_OK);
            pthread_join(thread, NULL);
            json_t *j = summary_of(run);
            snprintf(reason, sizeof reason, "%s", tiny_text(j, "stop_reason"));
            stopped_at = tiny_number(j, "global_steps");
            json_decref(j);
            yoke_close(run);
        }
        assert_string_equal(reason, "signal");
        assert_true(stopped_at > 0 && stopped_at < 1200);
        snprintf(options, sizeof options, "resume=%u-%d eval-every=1000000", i, tries - 1);
        hash_of(options, resumed);
        snprintf(options, sizeof options, "%s optimizer=%s eval-every=1000000", what,
                 yk_optimizer_at(i)->name);
        hash_of(options, straight);
        assert_string_equal(straight, resumed);
    }
}

static void test_stop_reasons(void **state)
{
    (void)state;
    static const char *const RUN[][2] = {
        {"data=data steps=7", "steps"},
        {"data=data epochs=1", "epochs"},
        {"data=data target-loss=1.3 eval-every=5", "target_loss"},
        {"data=data target-accuracy=0.6 eval-every=5", "target_accuracy"},
        {"data=data max-seconds=0.01", "max_seconds"},
    };
    for (size_t i = 0; i < sizeof RUN / sizeof RUN[0]; i++) {
        json_t *j = train(RUN[i][0]);
        assert_string_equal(tiny_text(j, "stop_reason"), RUN[i][1]);
        json_decref(j);
    }
    yoke_error e;
    yoke_run *run = open_run("data=data steps=7", &e);
    yoke_stop(run);
    assert_int_equal(yoke_train(run, &e), YOKE_OK);
    json_t *j = summary_of(run);
    assert_string_equal(tiny_text(j, "stop_reason"), "signal");
    json_decref(j);
    yoke_close(run);
}

static void test_dry_run(void **state)
{
    (void)state;
    yoke_error e;
    yoke_run *run = open_run("data=data dry-run=true", &e);
    assert_non_null(run);
    char *plan = yoke_report(run), *summary = yoke_summary(run);
    assert_non_null(strstr(plan, "260 parameters"));
    assert_non_null(summary);
    assert_int_equal(yoke_train(run, &e), YOKE_OK);
    free(plan);
    free(summary);
    yoke_close(run);
    unsigned files = 0;
    DIR *dir = opendir(".");
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        files += d->d_name[0] != '.';
    closedir(dir);
    assert_int_equal(files, 1); /* the data */
}

static void test_one_run_one_folder(void **state)
{
    (void)state;
    yoke_error e;
    json_t *j = train("data=data steps=3 run=a");
    assert_null(open_run("data=data steps=3 run=a", &e));
    assert_int_equal(e.code, YOKE_USAGE);
    assert_non_null(strstr(e.hint, "--resume"));
    yoke_run *run =
        open_run("resume=a", &e); /* complete: nothing is done, and the summary is the old one */
    assert_non_null(run);
    assert_string_equal(yoke_folder(run), "a");
    assert_int_equal(yoke_train(run, &e), YOKE_OK);
    json_t *again = summary_of(run);
    assert_true(json_equal(json_object_get(j, "seconds"), json_object_get(again, "seconds")));
    char *report = yoke_report(run);
    assert_non_null(strstr(report, tiny_text(j, "params_xxh3")));
    free(report);
    json_decref(j);
    json_decref(again);
    yoke_close(run);
}

static void test_diverges(void **state)
{
    (void)state;
    yoke_error e;
    yoke_run *run = open_run("data=data steps=500 lr=1e6 schedule=exponential:10:1", &e);
    assert_non_null(run);
    assert_int_equal(yoke_train(run, &e), YOKE_FAILED);
    assert_int_equal(e.code, YOKE_FAILED);
    assert_non_null(strstr(e.text, "diverged"));
    assert_non_null(strstr(e.hint, "--lr"));
    char *summary = yoke_summary(run); /* still possible, and valid JSON */
    json_t *j = json_loads(summary, 0, NULL);
    assert_non_null(j);
    json_decref(j);
    free(summary);
    yoke_close(run);
}

static void test_refusals(void **state)
{
    (void)state;
    yoke_config *config = yoke_config_new();
    yoke_error e;
    assert_string_equal(yoke_version(), YK_VERSION);
    assert_int_equal(yoke_config_set(config, "dropout", "0.1", &e),
                     YOKE_USAGE); /* not in this yoke */
    assert_non_null(strstr(e.text, "unknown option '--dropout'"));
    assert_int_equal(yoke_config_set(config, "bach", "10", &e), YOKE_USAGE);
    assert_string_equal(e.hint, "did you mean '--batch'?");
    assert_int_equal(yoke_config_set(config, "batch", "ten", NULL),
                     YOKE_USAGE); /* nobody has to look */
    assert_int_equal(yoke_config_set(config, "optimizer", "sgd|momentum", &e), YOKE_USAGE);
    assert_int_equal(yoke_config_set(config, "batch", "10", &e), YOKE_OK);
    assert_int_equal(e.code, YOKE_OK);
    assert_null(yoke_open(config, "sofmax", &e));
    assert_int_equal(e.code, YOKE_USAGE);
    assert_null(yoke_open(config, NULL, NULL));
    set(config, "data", "nowhere");
    assert_null(yoke_open(config, "softmax", &e));
    assert_int_equal(e.code, YOKE_DATA);
    set(config, "data", "data"); /* a config outlives what it was used for */
    set(config, "quiet", "true");
    set(config, "steps", "2");
    for (int i = 0; i < 2; i++) {
        yoke_run *run = yoke_open(config, "softmax", &e);
        assert_non_null(run);
        assert_int_equal(yoke_train(run, NULL), YOKE_OK);
        yoke_close(run);
    }
    assert_null(yoke_load("nowhere", &e));
    assert_int_equal(e.code, YOKE_DATA);
    assert_null(yoke_load("data", NULL));
    yoke_config_free(config);
    yoke_config_free(NULL);
    yoke_close(NULL);
    yoke_model_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tiny_setup, tiny_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_target),
        TEST(test_same_bits),
        TEST(test_partial_batch),
        TEST(test_eval_every_examples),
        TEST(test_inline_evaluation),
        TEST(test_stop_and_resume),
        TEST(test_stop_reasons),
        TEST(test_dry_run),
        TEST(test_one_run_one_folder),
        TEST(test_diverges),
        TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
