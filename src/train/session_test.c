/* session_test.c - opening a run: everything is checked before a folder is made, what depends on
 * the machine is written down, and a resumed run is the same run. */
#include "tests/tiny.h"
#include "train/plan.h"

#include "kernel/kernel.h"

#include <dirent.h>

static unsigned entries(const char *folder)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

static json_t *load(const char *path)
{
    json_t *j;
    struct yk_error e;
    if (yk_json_load(path, &j, &e) != YK_OK)
        fail_msg("%s", e.text);
    return j;
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        yk_code code;
        const char *text, *hint;
    } BAD[] = {
        {"data=nowhere", YK_DATA, "nowhere", ""},
        {"data=data/train-images-idx3-ubyte target-loss=0.3", YK_USAGE, "a target needs test data",
         "--test-data"},
        {"batch=1004", YK_USAGE, "--batch 1004 is more than the 1003 examples of", ""},
        {"test-data=other", YK_USAGE, "8x8x1", ""}, /* both shapes are named */
        {"test-data=other", YK_USAGE, "6x6x1", ""},
        {"test-data=nowhere", YK_DATA, "nowhere", ""},
        {"verbose=true", YK_USAGE, "--quiet and --verbose", ""},
        {"schedule=cosine", YK_USAGE, "not a schedule", "constant"},
        {"compress=bf16 workers=2", YK_USAGE,
         "--compress means nothing to workers that are threads", "--hosts"},
        {"run=data", YK_USAGE, "'data'", "--resume"}, /* a folder is never used twice */
        {"resume=nowhere", YK_DATA, "nowhere", ""},
        {"resume=data", YK_DATA, "data", ""}, /* a folder, but no run */
        {"resume=a run=b", YK_USAGE, "exclude each other", "--resume"},
    };
    struct yk_session *s;
    struct yk_error e;
    tiny_write("other", "t10k", 10, 6, 3);
    yk_session_close(tiny_train("run=a steps=1"));
    unsigned before = entries(".");
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        yk_code rc = tiny_open(&s, BAD[i].options, &e);
        if (rc != BAD[i].code || strstr(e.text, BAD[i].text) == NULL ||
            strstr(e.hint, BAD[i].hint) == NULL)
            fail_msg("%s: %d '%s' '%s'", BAD[i].options, rc, e.text, e.hint);
        assert_int_equal(entries("."), before);
    }
}

static void test_model_names(void **state)
{
    (void)state;
    static const struct {
        const char *model, *text, *hint;
    } BAD[] = {
        {"sofmax", "unknown model 'sofmax'", "did you mean 'softmax'?"},
        {"quux", "unknown model 'quux'", "'yoke help train' lists the models"},
        {NULL, "which model?", ""},
        {"a name that is much longer than any name of a model should ever be, by far",
         "unknown model", ""},
    };
    struct yk_options values = {0};
    struct yk_opts opts;
    assert_int_equal(yk_opts_init(&opts, yk_option_table, yk_option_count, &values, NULL), YK_OK);
    tiny_set(&opts, "quiet", "true");
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct yk_session *s = NULL;
        struct yk_error e = {0};
        assert_int_equal(yk_session_open(&s, &opts, BAD[i].model, &e), YK_USAGE);
        assert_non_null(strstr(e.text, BAD[i].text));
        assert_non_null(strstr(e.hint, BAD[i].hint));
        assert_null(s);
    }
    tiny_set(&opts, "resume", "somewhere");
    struct yk_session *s = NULL;
    struct yk_error e;
    assert_int_equal(yk_session_open(&s, &opts, "softmax", &e),
                     YK_USAGE); /* the run knows its model */
    assert_non_null(strstr(e.text, "leave out 'softmax'"));
    yk_opts_release(&opts);
}

static void test_dry_run(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    struct yk_buf plan = {0};
    unsigned before = entries(".");
    assert_int_equal(
        tiny_open(&s, "dry-run=true batch=100 epochs=3 optimizer=adam target-loss=0.2", &e), YK_OK);
    yk_plan_text(s, &plan);
    assert_non_null(strstr(plan.data, "softmax, 260 parameters\n")); /* 4 x 64 weights, 4 biases */
    assert_non_null(strstr(plan.data, "1003 training and 257 test examples of 8x8x1, 4 classes"));
    assert_non_null(strstr(plan.data, "of 100 examples, 11 an epoch"));
    assert_non_null(strstr(plan.data, "adam, rate 0.001")); /* adam's own, not the model's */
    assert_non_null(strstr(plan.data, "after 3 epochs at test loss 0.2"));
    yk_buf_release(&plan);
    yk_session_close(s);
    assert_int_equal(entries("."), before);
}

/* What the machine decided is part of the run: config.json holds no "auto", and no path that
 * depends on where one stands. */
static void test_config(void **state)
{
    struct yk_session *s;
    struct yk_error e;
    char absolute[YK_PATH_MAX];
    const struct yk_kernels *kernels;
    assert_int_equal(tiny_open(&s, "run=a steps=5 batch=10 test-data=data", &e), YK_OK);
    unsigned threads = s->threads;
    yk_session_close(s);
    assert_int_equal(yk_kernels_pick("auto", &kernels, NULL), YK_OK);
    json_t *j = load("a/config.json");
    assert_string_equal(tiny_text(j, "model"), "softmax");
    assert_string_equal(tiny_text(j, "version"), YK_VERSION);
    assert_string_equal(tiny_text(j, "isa"), kernels->name);
    assert_true(tiny_number(j, "threads") == threads && threads >= 1);
    assert_int_equal(yk_path(absolute, NULL, "%s/data", (char *)*state), YK_OK);
    assert_string_equal(tiny_text(j, "data"), absolute);
    assert_string_equal(tiny_text(j, "test-data"), absolute);
    assert_string_equal(tiny_text(j, "optimizer"), "sgd");
    assert_null(json_object_get(j, "run"));
    assert_null(json_object_get(j, "quiet"));
    assert_null(json_object_get(j, "epochs")); /* the model's length gave way to --steps */
    json_decref(j);
    assert_true(yk_exists("a/ranks.json") && yk_exists("a/log.txt") &&
                yk_is_dir("a/events/worker-0"));
}

/* Resumed from another folder, with nothing said: data and test data are found. */
static void test_resume_elsewhere(void **state)
{
    (void)state;
    char straight[17], resumed[17];
    assert_int_equal(yk_mkdirs("elsewhere", NULL), YK_OK);
    tiny_hash("steps=20 batch=30 test-data=data", straight);
    tiny_hash("steps=7 batch=30 run=a test-data=data", resumed);
    assert_string_not_equal(straight, resumed);
    assert_int_equal(chdir("elsewhere"), 0);
    tiny_hash("resume=../a steps=20", resumed);
    assert_string_equal(straight, resumed);
}

/* The command line may change when a resumed run ends and how it computes, never what it
 * computes. */
static void test_resume_changes(void **state)
{
    (void)state;
    static const char *const NO[] = {"batch=7",        "seed=2",       "lr=0.5",
                                     "optimizer=adam", "momentum=0.5", "schedule=cosine:9",
                                     "data=data"};
    static const char *const YES[] = {
        "steps=9", "epochs=9",          "max-seconds=9", "eval-every=9", "checkpoint-every=9",
        "keep=9",  "target-loss=0.001", "threads=1",     "isa=plain",    "target-accuracy=1"};
    struct yk_session *s = tiny_train("steps=3 batch=10 run=a");
    struct yk_error e;
    char options[128];
    yk_session_close(s);
    for (size_t i = 0; i < sizeof NO / sizeof NO[0]; i++) {
        snprintf(options, sizeof options, "resume=a %s", NO[i]);
        assert_int_equal(tiny_open(&s, options, &e), YK_USAGE);
        assert_non_null(strstr(e.text, "cannot be changed when a run is resumed"));
        assert_memory_equal(e.text + 2, NO[i], strcspn(NO[i], "="));
    }
    for (size_t i = 0; i < sizeof YES / sizeof YES[0]; i++) {
        snprintf(options, sizeof options, "resume=a %s", YES[i]);
        if (tiny_open(&s, options, &e) != YK_OK)
            fail_msg("%s: %s", options, e.text);
        assert_int_equal(s->now.step, 3);
        assert_int_equal(s->o.batch, 10);
        yk_session_close(s);
    }
}

static void test_resume_of_a_complete_run(void **state)
{
    (void)state;
    struct yk_session *s = tiny_train("steps=3 batch=10 run=a");
    struct yk_error e;
    json_t *summary = yk_session_summary(s);
    assert_int_equal(yk_run_save(&s->run, "summary.json", summary, &e), YK_OK);
    yk_session_close(s);
    assert_int_equal(tiny_open(&s, "resume=a", &e), YK_OK);
    assert_true(s->resume.start == YK_START_DONE);
    json_t *again = yk_session_summary(s);
    assert_string_equal(tiny_text(again, "params_xxh3"), tiny_text(summary, "params_xxh3"));
    json_decref(again);
    yk_session_close(s);

    /* more steps give it something to do; if that start is killed, the next one still knows */
    assert_int_equal(tiny_open(&s, "resume=a steps=30", &e), YK_OK);
    assert_false(s->resume.start == YK_START_DONE);
    yk_session_close(s); /* as good as killed: it has written nothing */
    assert_int_equal(tiny_open(&s, "resume=a", &e), YK_OK);
    assert_int_equal(s->o.steps, 30);
    assert_false(s->resume.start == YK_START_DONE);
    assert_int_equal(yk_session_train(s, &e), YK_OK);
    assert_int_equal(s->now.step, 30);
    yk_session_close(s);
    json_decref(summary);
}

/* Two processes may not train in one folder. */
static void test_lock(void **state)
{
    (void)state;
    struct yk_session *s, *other;
    struct yk_error e;
    assert_int_equal(tiny_open(&s, "run=a steps=5", &e), YK_OK);
    assert_int_equal(tiny_open(&other, "resume=a", &e), YK_USAGE);
    assert_non_null(strstr(e.text, "'a'"));
    assert_int_equal(tiny_open(&other, "run=a", &e), YK_USAGE);
    yk_session_close(s);
    assert_int_equal(tiny_open(&s, "resume=a", &e),
                     YK_OK); /* free again; and it had no checkpoint yet */
    assert_int_equal(s->now.step, 0);
    yk_session_close(s);
    yk_session_close(NULL);
}

/* Runs without a name are numbered, and runs/latest is the newest. */
static void test_default_folder(void **state)
{
    (void)state;
    struct yk_session *s;
    char first[YK_PATH_MAX], hash[17], latest[17];
    s = tiny_train("steps=1");
    strcpy(first, s->run.dir);
    yk_session_close(s);
    s = tiny_train("steps=2");
    assert_string_not_equal(first, s->run.dir);
    assert_memory_equal(s->run.dir, "runs/softmax-local-", 19);
    yk_params_hash(&s->state.params, hash);
    yk_session_close(s);
    tiny_hash("resume=runs/latest eval-every=1", latest); /* nothing left to do but to look */
    assert_string_equal(hash, latest);
}

/* Two sets that are opened each by itself share the memory, and what is left of very little is
 * not "as much as you like". */
static void test_keep(void **state)
{
    (void)state;
    uint64_t keep[2];
    yk_input_keep(1600, 1, false, keep);
    assert_true(keep[0] == 800 && keep[1] == 800);
    yk_input_keep(1600, 2, true, keep);
    assert_true(keep[0] == 300 && keep[1] == 100);
    yk_input_keep(6, 64, true, keep);
    assert_true(keep[0] == 1 && keep[1] == 1);
}

/* Hosts with class folders of their own must mean the same by a label. */
static void test_class_names_of_hosts(void **state)
{
    (void)state;
    static struct yk_session s;
    static char names[2][16] = {"blue/red", "green/red"}, data[] = "photos", others[] = "others";
    struct yk_dataset blue = {.class_names = names[0]}, green = {.class_names = names[1]},
                      none = {0};
    struct yk_portion p[2] = {{.rows = 5,
                               .shape = {8, 8, 3},
                               .classes = 2,
                               .names = yk_input_names_xxh3(&blue),
                               .host = "a"}};
    struct yk_error e = {0};
    assert_true(yk_input_names_xxh3(&none) == 0 && p[0].names != 0);
    s.ops = yk_model_find("softmax");
    s.o.data_local = true;
    s.o.data = data;
    s.o.test_data = others;
    s.crew.rule.workers = 2;
    p[1] = p[0];
    snprintf(p[1].host, sizeof p[1].host, "b");
    p[1].names = yk_input_names_xxh3(&green);
    assert_int_equal(yk_input_share(&s, p, &e), YK_USAGE);
    assert_string_equal(e.text, "'b' and 'a' have different class folders");
    p[1].names = p[0].names;
    s.input.test.class_names = green.class_names; /* a parameter server has test data alone */
    free(s.input.share);
    free(s.input.share_of);
    assert_int_equal(yk_input_share(&s, p, &e), YK_USAGE);
    assert_string_equal(e.text, "'others' and 'a' have different class folders");
    free(s.input.share);
    free(s.input.share_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refuses, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_model_names, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_dry_run, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_config, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_resume_elsewhere, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_resume_changes, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_resume_of_a_complete_run, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_lock, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_default_folder, tiny_setup, tiny_teardown),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_class_names_of_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
