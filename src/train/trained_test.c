/* trained_test.c - a finished run answers as the summary said it would; and files that are no
 * model of ours are refused with a sentence, whatever they claim to be. */
#include "tests/packed.h"
#include "tests/tiny.h"

#include "train/trained.h"

static void test_scores(void **state)
{
    (void)state;
    static float prob[TINY_TEST * TINY_CLASSES];
    struct yk_session *s = tiny_train("run=a steps=60 batch=50 lr=0.2");
    struct yk_trained t;
    struct yk_dataset test;
    struct yk_score score;
    struct yk_error e;
    char hash[17], expected[17];
    static const char *const WHERE[] = {"a", "a/checkpoints/step-000000000060.safetensors"};
    yk_params_hash(&s->state.params, expected);
    assert_int_equal(yk_data_open_test("data", NULL, &test, &e), YK_OK);
    for (int i = 0; i < 2; i++) {
        if (yk_trained_open(&t, WHERE[i], 2, "auto", NULL, NULL, &e) != YK_OK)
            fail_msg("%s", e.text);
        yk_params_hash(&t.params, hash);
        assert_string_equal(hash, expected);
        assert_int_equal(t.step, 60);
        assert_string_equal(t.name, "softmax");
        assert_string_equal(t.path, WHERE[1]);
        assert_string_equal(t.data, s->o.data);
        assert_true(t.shape.features == 64 && t.shape.classes == 4 && t.shape.shape[0] == 8 &&
                    t.shape.shape[2] == 1);
        assert_int_equal(yk_trained_fits(&t, &test, &e), YK_OK);
        assert_int_equal(yk_trained_score(&t, &test, 1024, &score, prob, &e), YK_OK);
        assert_int_equal(score.examples, TINY_TEST);
        assert_true((double)score.correct / TINY_TEST == s->curve.test_accuracy);
        assert_true(fabs(score.loss / TINY_TEST - s->curve.test_loss) < 1e-9);
        double loss = 0;
        for (uint32_t k = 0; k < TINY_TEST; k++)
            loss -= log((double)prob[k * TINY_CLASSES + test.labels[k]]);
        assert_true(fabs(loss - score.loss) < 1e-4 * loss);
        yk_trained_close(&t);
        yk_trained_close(&t);
    }
    yk_dataset_release(&test);
    yk_session_close(s);
}

/* A set that lacks the highest classes gets probabilities for all of them all the same, each row
 * in its place. */
static void test_fewer_classes(void **state)
{
    (void)state;
    enum { MANY = 2500 }; /* several evaluation batches */
    static _Alignas(64) uint8_t pixels[MANY * 64 + YK_ROW_SLACK];
    static uint16_t labels[MANY];
    static float prob[MANY * TINY_CLASSES], one[TINY_CLASSES];
    struct yk_dataset set = {.name = "two",
                             .rows = MANY,
                             .features = 64,
                             .classes = 2,
                             .shape = {8, 8, 1},
                             .pixels = pixels,
                             .labels = labels,
                             .scale = 1.0f / 255};
    struct yk_trained t;
    struct yk_score score;
    struct yk_error e;
    for (size_t i = 0; i < MANY * 64; i++)
        pixels[i] = (uint8_t)(i * i / 7);
    yk_session_close(tiny_train("run=a steps=60 batch=50 lr=0.2"));
    assert_int_equal(yk_trained_open(&t, "a", 1, "auto", NULL, NULL, &e), YK_OK);
    assert_int_equal(yk_trained_fits(&t, &set, &e), YK_OK);
    struct yk_dataset packed = packed_copy(&set);
    assert_int_equal(yk_trained_score(&t, &packed, 1024, &score, prob, &e), YK_OK);
    packed_release(&packed);
    for (uint32_t i = 0; i < MANY; i += 311) {
        struct yk_dataset row = set;
        row.rows = 1;
        row.pixels = pixels + (size_t)i * 64;
        row = packed_copy(&row);
        assert_int_equal(yk_trained_score(&t, &row, 1024, &score, one, &e), YK_OK);
        packed_release(&row);
        assert_memory_equal(prob + (size_t)i * TINY_CLASSES, one, sizeof one);
    }
    yk_trained_close(&t);
}

static void test_fits(void **state)
{
    (void)state;
    yk_session_close(tiny_train("run=a steps=1"));
    struct yk_trained t;
    struct yk_error e;
    assert_int_equal(yk_trained_open(&t, "a", 1, "auto", NULL, NULL, &e), YK_OK);
    struct yk_dataset set = {.name = "other", .features = 64, .classes = 4, .shape = {8, 8, 1}};
    assert_int_equal(yk_trained_fits(&t, &set, &e), YK_OK);
    set.classes = 3; /* a set may lack the highest classes */
    assert_int_equal(yk_trained_fits(&t, &set, &e), YK_OK);
    set.classes = 5;
    assert_int_equal(yk_trained_fits(&t, &set, &e), YK_USAGE);
    set = (struct yk_dataset){.name = "other", .features = 784, .classes = 4, .shape = {28, 28, 1}};
    assert_int_equal(yk_trained_fits(&t, &set, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "28x28x1"));
    assert_non_null(strstr(e.text, "8x8x1"));
    yk_trained_close(&t);
}

/* A file of a softmax model of so many weights that says this of itself (NULL: nothing), and
 * what comes of it; `text` is part of the sentence, NULL if it is fine. */
static void expect_model(const char *const (*pair)[2], size_t pairs, uint64_t rows,
                         uint64_t columns, const char *text)
{
    static const float data[64] = {0};
    const struct yk_tensor tensor[] = {
        {.name = "softmax.weight",
         .ndim = 2,
         .shape = {rows, columns},
         .count = rows * columns,
         .data = data},
        {.name = "softmax.bias", .ndim = 1, .shape = {3}, .count = 3, .data = data},
    };
    struct yk_meta meta[8] = {0};
    size_t metas = 0;
    for (size_t k = 0; k < pairs; k++)
        if (pair[k][1] != NULL) {
            snprintf(meta[metas].key, sizeof meta[metas].key, "%s", pair[k][0]);
            snprintf(meta[metas++].value, sizeof meta[0].value, "%s", pair[k][1]);
        }
    struct yk_trained t;
    struct yk_error e = {0};
    assert_int_equal(yk_tensors_write("x.safetensors", tensor, 2, meta, metas, &e), YK_OK);
    yk_code rc = yk_trained_open(&t, "x.safetensors", 1, "auto", NULL, NULL, &e);
    if ((rc == YK_OK) != (text == NULL) || (rc != YK_OK && strstr(e.text, text) == NULL))
        fail_msg("%d '%s', not '%s'", rc, e.text, text != NULL ? text : "");
    assert_true(rc == YK_OK || rc == YK_DATA); /* the file is at fault, not the call */
    yk_trained_close(&t);
}

/* What a file says about itself is not to be believed. */
static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        const char *model, *shape, *classes;
        uint64_t rows, columns; /* of softmax.weight */
        const char *text;       /* NULL: fine */
    } FILES[] = {
        {"softmax", "2x2x1", "3", 3, 4, NULL},
        {"softmax", "4x1x1", "3", 3, 4, NULL},
        {NULL, "2x2x1", "3", 3, 4, "not written by yoke"},
        {"softmax", NULL, "3", 3, 4, "not written by yoke"},
        {"softmax", "2x2x1", NULL, 3, 4, "not written by yoke"},
        {"lenet", "2x2x1", "3", 3, 4, "does not know"},
        {"a very very very very very very very very very very very long name", "2x2x1", "3", 3, 4,
         "not written by yoke"},
        {"softmax", "", "3", 3, 4, "not written by yoke"},
        {"softmax", "2x2", "3", 3, 4, "not written by yoke"},
        {"softmax", "0x2x1", "3", 3, 4, "not written by yoke"},
        {"softmax", "65536x65536x65536", "3", 3, 4, "not written by yoke"},
        {"softmax", "-1x-1x-1", "3", 3, 4, "not written by yoke"},
        {"softmax", "2x2x1", "0", 3, 4, "classes"},
        {"softmax", "2x2x1", "1", 3, 4, "classes"},
        {"softmax", "2x2x1", "257", 3, 4, "classes"},
        {"softmax", "2x2x1", "-5", 3, 4, "classes"},
        {"softmax", "2x2x1", "three", 3, 4, "classes"},
        {"softmax", "2x2x1", "4", 3, 4, "no tensor"},
        {"softmax", "2x2x2", "3", 3, 4, "no tensor"},
        {"softmax", "2x2x1", "3", 3, 5, "no tensor"},
        {"softmax", "2x2x1", "3", 4, 3, "no tensor 'softmax.weight' of the model's shape"},
        {"softmax", "2x2x1", "3", 12, 1, "no tensor 'softmax.weight' of the model's shape"},
    };
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        const char *const pair[][2] = {
            {"format", "yoke-1"},      {"data", "mnist"},         {"step", "1"},
            {"model", FILES[i].model}, {"shape", FILES[i].shape}, {"classes", FILES[i].classes}};
        expect_model(pair, 6, FILES[i].rows, FILES[i].columns, FILES[i].text);
    }
    static const char *const WORDS[][3] = {
        {"yoke-1", "9007199254740992", NULL},
        {"yoke-9", "1", "has the format 'yoke-9'"},
        {NULL, "1", "was not written by yoke"},
        {"yoke-1", NULL, "after which step"},
        {"yoke-1", "-5", "after which step"},
        {"yoke-1", "abc", "after which step"},
        {"yoke-1", "18446744073709551615", "after which step"},
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        const char *const pair[][2] = {{"format", WORDS[i][0]}, {"step", WORDS[i][1]},
                                       {"data", "mnist"},       {"model", "softmax"},
                                       {"shape", "2x2x1"},      {"classes", "3"}};
        expect_model(pair, 6, 3, 4, WORDS[i][2]);
    }
    static const char *const ROWS[][3] = {
        {"0.5", "20", NULL},        {"1.5", "20", "its holdout or hash_bits is out of range"},
        {"nan", "20", "holdout"},   {"0.5", "40", "hash_bits"},
        {"0.5", "-1", "hash_bits"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const char *const pair[][2] = {{"format", "yoke-1"},    {"step", "1"},
                                       {"data", "mnist"},       {"model", "softmax"},
                                       {"shape", "2x2x1"},      {"classes", "3"},
                                       {"holdout", ROWS[i][0]}, {"hash_bits", ROWS[i][1]}};
        expect_model(pair, 8, 3, 4, ROWS[i][2]);
    }
}

static void count_damaged(void *arg, const struct yk_error *why)
{
    assert_non_null(strstr(why->text, "step-000000000004"));
    ++*(int *)arg;
}

static void test_folders(void **state)
{
    (void)state;
    struct yk_trained t;
    struct yk_error e;
    int damaged = 0;
    assert_int_equal(yk_trained_open(&t, "nowhere", 1, "auto", NULL, NULL, &e), YK_DATA);
    assert_int_equal(yk_trained_open(&t, "data", 1, "auto", NULL, NULL, &e), YK_DATA);
    assert_non_null(strstr(e.text, "holds no checkpoint"));
    assert_non_null(strstr(e.hint, "runs/latest"));
    assert_int_equal(yk_trained_open(&t, "data/train-images-idx3-ubyte", 1, "auto", NULL, NULL, &e),
                     YK_DATA);
    yk_session_close(tiny_train("run=a steps=2"));
    yk_session_close(tiny_train("resume=a steps=4"));
    assert_int_equal(yk_trained_open(&t, "a", 1, "mmx", NULL, NULL, &e), YK_USAGE);
    assert_int_equal(yk_file_write("a/checkpoints/step-000000000004.safetensors", "junk", 4, &e),
                     YK_OK);
    assert_int_equal(yk_trained_open(&t, "a", 1, "auto", count_damaged, &damaged, &e), YK_OK);
    assert_int_equal(t.step, 2);
    assert_int_equal(damaged, 1);
    yk_trained_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scores, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_fewer_classes, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_fits, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_hostile, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_folders, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
