/* evaluate_test.c - a set scored in batches is the set scored row by row; a target ends a run
 * with the snapshot that reached it; and whether a core is free for evaluation changes the time,
 * never the result. */
#include "tests/packed.h"
#include "tests/skip.h"
#include "tests/tiny.h"

#include "base/clock.h"

#include <sched.h>

enum {
    MANY = 2500,
    WIDE = 9,
    KINDS = 5
}; /* more rows than two evaluation batches, and a part of a third */

static void test_whole_set(void **state)
{
    (void)state;
    static _Alignas(64) uint8_t pixels[MANY * WIDE + YK_ROW_SLACK];
    static uint16_t labels[MANY];
    static uint32_t rows[MANY];
    static float prob[MANY * KINDS], one[KINDS];
    struct yk_dataset set = {.name = "many",
                             .rows = MANY,
                             .features = WIDE,
                             .classes = KINDS,
                             .shape = {3, 3, 1},
                             .pixels = pixels,
                             .labels = labels,
                             .scale = 1.0f / 255};
    const struct yk_model_ops *ops = yk_model_find("softmax");
    struct yk_model *model;
    struct yk_work *work;
    struct yk_params params;
    struct yk_rng r;
    yk_rng_init(&r, 5, 5, 5, 5);
    for (size_t i = 0; i < MANY * WIDE; i++)
        pixels[i] = (uint8_t)yk_rng_below(&r, 256);
    for (uint32_t i = 0; i < MANY; i++) {
        labels[i] = (uint16_t)yk_rng_below(&r, KINDS);
        rows[i] = i;
    }
    set = packed_copy(&set);
    assert_int_equal(ops->open(&model, &set, NULL), YK_OK);
    assert_int_equal(ops->layout(model, &params, 1, NULL), YK_OK);
    for (size_t i = 0; i < params.count; i++)
        params.flat[i] = (float)yk_rng_unit(&r) * 4 - 2;
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        struct yk_score all = {.loss = 7, .correct = 7, .examples = 7}, sum = {0};
        assert_int_equal(ops->work_open(&work, model, threads, "auto", NULL), YK_OK);
        assert_int_equal(yk_evaluate(ops, work, &params, NULL, &set, rows, 1024, &all, prob, NULL),
                         YK_OK);
        for (uint32_t i = 0; i < MANY; i++) {
            const struct yk_batch batch = {.set = &set, .n = 1, .row = &i};
            ops->score(work, &params, &batch, &sum, one);
            assert_memory_equal(prob + (size_t)i * KINDS, one, sizeof one); /* each in its place */
        }
        assert_int_equal(all.examples, MANY);
        assert_int_equal(all.correct, sum.correct);
        assert_in_range(all.correct, 1, MANY - 1);
        assert_true(fabs(all.loss - sum.loss) < 1e-9 * sum.loss);
        set.rows = 0;
        assert_int_equal(yk_evaluate(ops, work, &params, NULL, &set, rows, 1024, &all, NULL, NULL),
                         YK_OK);
        assert_true(all.examples == 0 && all.correct == 0 && all.loss == 0);
        set.rows = MANY;
        ops->work_close(work);
    }
    packed_release(&set);
    yk_params_release(&params);
    ops->close(model);
}

/* The run ends with the parameters, the step and the cursor of the check that reached the
 * target, and says when it was crossed. */
static void check_target(const char *options, const char *key, double target, bool below,
                         enum yk_stop why)
{
    struct yk_session *s = tiny_train(options);
    uint64_t step[256];
    double value[256], seconds[256];
    char hash[17], fixed[17], same[64];
    unsigned n = tiny_metrics(s->run.dir, key, step, value, 256);
    assert_int_equal(tiny_metrics(s->run.dir, "seconds", step, seconds, 256), n);
    assert_true(n >= 2 && n < 256);
    for (unsigned i = 0; i < n; i++) /* only the last check reached it, and it was the end */
        assert_int_equal(below ? value[i] <= target : value[i] >= target, i == n - 1);
    assert_int_equal(s->stop, why);
    assert_int_equal(s->now.step, step[n - 1]);
    assert_int_equal(s->curve.tested_step, step[n - 1]);
    assert_int_equal(s->crew.server[0].owner.step, step[n - 1]);
    assert_int_equal(s->now.examples,
                     step[n - 1] * 50 -
                         step[n - 1] / 21 * 47); /* 21 steps an epoch, the last of 3 */
    assert_int_equal(s->now.position, s->now.examples);
    assert_true(fabs((below ? s->curve.test_loss : s->curve.test_accuracy) - value[n - 1]) < 1e-8);
    double part = (target - value[n - 2]) / (value[n - 1] - value[n - 2]);
    double crossed = seconds[n - 2] + part * (seconds[n - 1] - seconds[n - 2]);
    assert_true(fabs(s->curve.target_seconds - crossed) < 1e-6 + 1e-6 * crossed);
    assert_true(fabs(s->now.seconds - seconds[n - 1]) < 1e-8);
    yk_params_hash(&s->state.params, hash);
    yk_session_close(s);
    snprintf(same, sizeof same, "batch=50 lr=0.2 steps=%d", (int)step[n - 1]);
    tiny_hash(same, fixed); /* the very bits of a run that was told the number of steps */
    assert_string_equal(hash, fixed);
}

static void test_targets(void **state)
{
    (void)state;
    check_target("batch=50 lr=0.2 eval-every=3 target-loss=0.8 steps=1000", "test/loss", 0.8, true,
                 YK_STOP_TARGET_LOSS);
    check_target("batch=50 lr=0.2 eval-every=1 target-loss=1 steps=1000", "test/loss", 1, true,
                 YK_STOP_TARGET_LOSS);
    check_target("batch=50 lr=0.2 eval-every=2 target-accuracy=0.86 steps=1000", "test/accuracy",
                 0.86, false, YK_STOP_TARGET_ACCURACY);
}

/* Steps done while a check was under way are undone without a trace: parameters, optimizer,
 * counts, and the training loss. */
static void test_discards(void **state)
{
    (void)state;
    struct yk_session *s;
    struct yk_error e;
    assert_int_equal(
        tiny_open(&s, "optimizer=adam batch=50 steps=9 target-loss=1000 eval-every=1000", &e),
        YK_OK);
    if (!yk_evaluator_overlaps(s)) {
        yk_session_close(s);
        skip_because("there is only one processor");
    }
    size_t bytes = s->state.params.count * sizeof(float);
    char hash[17], now[17];
    s->times.started = yk_now();
    s->now = (struct yk_moment){.step = 40, .examples = 2000, .position = 2000};
    s->crew.server[0].owner.step = 40;
    for (size_t i = 0; i < s->state.params.count; i++) {
        s->state.params.flat[i] = (float)i;
        s->state.slot[0][i] = (float)i * 2;
        s->state.slot[1][i] = (float)i * 3;
    }
    yk_params_hash(&s->state.params, hash);
    assert_int_equal(yk_evaluator_post(s, 0.75, 1, false, &e), YK_OK);
    s->now =
        (struct yk_moment){.step = 47, .examples = 2350, .position = 2350}; /* training goes on */
    s->crew.server[0].owner.step = 47;
    s->curve.train_loss = 0.5;
    memset(s->state.params.flat, 0, bytes);
    memset(s->state.slot[0], 0, bytes);
    memset(s->state.slot[1], 0, bytes);
    assert_int_equal(yk_evaluator_collect(s, true, &e), YK_OK);
    assert_int_equal(s->stop, YK_STOP_TARGET_LOSS);
    assert_int_equal(s->curve.discarded, 7);
    assert_true(s->now.step == 40 && s->crew.server[0].owner.step == 40 && s->now.examples == 2000);
    assert_int_equal(s->now.position, 2000);
    assert_true(s->curve.train_loss == 0.75);
    yk_params_hash(&s->state.params, now);
    assert_string_equal(hash, now);
    for (size_t i = 0; i < s->state.params.count; i++)
        assert_true(s->state.slot[0][i] == (float)i * 2 && s->state.slot[1][i] == (float)i * 3);
    yk_session_close(s);
}

/* A target that is reached at the very last step counts; one that only the look after the end
 * sees does not. */
static void test_last_step(void **state)
{
    (void)state;
    struct yk_session *s =
        tiny_train("batch=50 lr=0.2 eval-every=10 steps=20 target-loss=1000 run=a");
    assert_int_equal(s->stop, YK_STOP_TARGET_LOSS);
    assert_int_equal(s->now.step, 10);
    yk_session_close(s);
    s = tiny_train("batch=50 lr=0.2 eval-every=10 steps=10 target-loss=1000");
    assert_int_equal(s->stop, YK_STOP_TARGET_LOSS);
    assert_int_equal(s->now.step, 10);
    yk_session_close(s);
    s = tiny_train("batch=50 lr=0.2 eval-every=10 steps=9 target-loss=1000");
    assert_int_equal(s->stop, YK_STOP_STEPS);
    assert_true(isnan(s->curve.target_seconds) && s->curve.test_loss < 1000 &&
                s->curve.tested_step == 9);
    yk_session_close(s);
}

/* On one core evaluation is inline, on more it has a lane of its own: the same checks, the same
 * figures, the same end. */
static void test_overlap(void **state)
{
    (void)state;
    cpu_set_t all, one;
    uint64_t step[2][256];
    double loss[2][256];
    char hash[2][17];
    unsigned n[2];
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip_because("there is only one processor");
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    for (int inline_ = 0; inline_ < 2; inline_++) {
        if (inline_)
            assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        char options[96];
        snprintf(options, sizeof options,
                 "run=run%d threads=1 batch=50 lr=0.2 eval-every=4 target-loss=0.65 steps=2000",
                 inline_);
        struct yk_session *s = tiny_train(options);
        assert_int_equal(yk_evaluator_overlaps(s), !inline_);
        assert_true(!inline_ || s->curve.discarded == 0); /* inline there is no step past a check */
        assert_int_equal(s->stop, YK_STOP_TARGET_LOSS);
        yk_params_hash(&s->state.params, hash[inline_]);
        n[inline_] = tiny_metrics(s->run.dir, "test/loss", step[inline_], loss[inline_], 256);
        assert_int_equal(s->now.step, step[inline_][n[inline_] - 1]);
        yk_session_close(s);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(step[0], step[1], n[0] * sizeof step[0][0]);
    assert_memory_equal(loss[0], loss[1], n[0] * sizeof loss[0][0]);
    assert_string_equal(hash[0], hash[1]);
}

/* The curve for people is thinned evenly, however long the run, and its points are checks that
 * happened. */
static void test_curve(void **state)
{
    (void)state;
    static const unsigned STEPS[] = {1, 2, 31, 32, 33, 64, 65, 200, 515};
    for (size_t k = 0; k < sizeof STEPS / sizeof STEPS[0]; k++) {
        char options[64];
        uint64_t step[600];
        double loss[600];
        snprintf(options, sizeof options, "steps=%u eval-every=1 batch=20", STEPS[k]);
        struct yk_session *s = tiny_train(options);
        unsigned n = tiny_metrics(s->run.dir, "test/loss", step, loss, 600);
        assert_int_equal(n, STEPS[k]);
        assert_true(s->curve.points <= YK_CURVE &&
                    s->curve.points >= (n < YK_CURVE / 2 ? n : YK_CURVE / 2));
        assert_int_equal(s->curve.point[0].at.step, 1);
        for (unsigned i = 1; i < s->curve.points; i++)
            assert_true(s->curve.point[i].at.step > s->curve.point[i - 1].at.step);
        for (unsigned i = 0; i < s->curve.points; i++)
            assert_true(fabs(s->curve.point[i].test_loss - loss[s->curve.point[i].at.step - 1]) <
                        1e-8);
        for (unsigned i = 2; i + 1 < s->curve.points; i++) /* even but for the end */
            assert_int_equal(s->curve.point[i].at.step - s->curve.point[i - 1].at.step,
                             s->curve.point[1].at.step - 1);
        yk_session_close(s);
    }
}

/* Without test data a run trains and records all the same. */
static void test_no_test_data(void **state)
{
    (void)state;
    struct yk_session *s =
        tiny_train("data=data/train-images-idx3-ubyte steps=20 eval-every=5 run=a");
    uint64_t step[16];
    double loss[16];
    assert_int_equal(tiny_metrics("a", "train/loss", step, loss, 16), 4);
    assert_true(loss[0] > loss[3] && loss[3] > 0);
    assert_true(isnan(s->curve.test_loss) && isnan(s->curve.test_accuracy));
    yk_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_set),
        cmocka_unit_test_setup_teardown(test_targets, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_discards, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_last_step, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_overlap, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_curve, tiny_setup, tiny_teardown),
        cmocka_unit_test_setup_teardown(test_no_test_data, tiny_setup, tiny_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
