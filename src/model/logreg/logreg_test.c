/* logreg_test.c - logistic regression in slot space: keys and slots against a naive list, losses
 * and gradients against doubles and finite differences, shards, keys that the model lacks, and what
 * an evaluation counts. */
#include "model/model.h"
#include "tests/sparse_rows.h"

static const struct yk_model_ops *ops;

static void ready(struct yk_sink *s, size_t lo, size_t hi)
{
    assert_int_equal(lo, 0);
    assert_ptr_not_equal(s->grad, NULL);
    s->grad[hi] += 1; /* the test's guard behind the slots: once a step, and no further */
}

struct rig {
    struct made_rows made;
    struct yk_model *model;
    struct yk_params params; /* a layout without memory */
    struct yk_work *work;
    float *flat; /* (params.count) the owner's */
};

static void rig_open(struct rig *r, struct made_how how, const char *isa)
{
    struct yk_error e;
    struct yk_rng rng;
    yk_rng_init(&rng, how.seed, 0, 0, 0);
    rows_make(&r->made, how);
    assert_int_equal(ops->open(&r->model, &r->made.set, &e), YK_OK);
    assert_int_equal(ops->layout(r->model, &r->params, 1, &e), YK_OK);
    assert_null(r->params.flat);
    assert_int_equal(r->params.weights, how.features + 1);
    assert_int_equal(ops->work_open(&r->work, r->model, 1, isa, &e), YK_OK);
    r->flat = yk_floats(r->params.count);
    assert_non_null(r->flat);
    for (size_t i = 0; i < r->params.count; i++)
        r->flat[i] = (float)(yk_rng_unit(&rng) * 2 - 1);
}

static void rig_close(struct rig *r)
{
    ops->work_close(r->work);
    ops->close(r->model);
    yk_params_release(&r->params);
    yk_floats_free(r->flat);
    rows_release(&r->made);
}

/* What a patient person would compute with flat parameters: the loss of some rows and, unless NULL,
 * its gradient, laid out as the parameters. */
static double naive(const struct rig *r, const struct yk_batch *b, const float *flat, double *grad)
{
    size_t bias = yk_params_find(&r->params, "logreg.bias")->at,
           weight = yk_params_find(&r->params, "logreg.weight")->at;
    double loss = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        struct yk_row row = yk_row_at(b->set->sparse, b->row[i]);
        double z = (double)flat[bias], y = row.label ? 1 : -1;
        for (uint32_t k = 0; k < row.n; k++)
            z += (double)flat[weight + row.key[k]] * (row.value == NULL ? 1 : (double)row.value[k]);
        loss += y * z < 0 ? -y * z + log1p(exp(y * z)) : log1p(exp(-y * z));
        double g = 1 / (1 + exp(-z)) - row.label;
        if (grad != NULL)
            grad[bias] += g;
        for (uint32_t k = 0; grad != NULL && k < row.n; k++)
            grad[weight + row.key[k]] += g * (row.value == NULL ? 1 : (double)row.value[k]);
    }
    return loss;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The keys of all shards by sorting everything. */
static uint32_t naive_keys(const struct rig *r, const struct yk_batch *shard, uint32_t shards,
                           uint32_t **out)
{
    uint32_t n = 1, distinct = 0, *key = malloc((r->made.rows.entries * shards + 1) * sizeof *key);
    assert_non_null(key);
    key[0] = (uint32_t)yk_params_find(&r->params, "logreg.bias")->at;
    for (uint32_t s = 0; s < shards; s++)
        for (uint32_t i = 0; i < shard[s].n; i++) {
            struct yk_row row = yk_row_at(shard[s].set->sparse, shard[s].row[i]);
            for (uint32_t k = 0; k < row.n; k++)
                if (row.key[k] < r->made.set.features)
                    key[n++] =
                        (uint32_t)yk_params_find(&r->params, "logreg.weight")->at + row.key[k];
        }
    qsort(key, n, sizeof *key, by_number);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || key[i] != key[distinct - 1])
            key[distinct++] = key[i];
    *out = key;
    return distinct;
}

/* One task: keys, then a step for every shard, everything compared. */
static void check_task(struct rig *r, unsigned which, const struct yk_batch *shard, uint32_t shards)
{
    struct yk_keys keys;
    struct yk_error e;
    uint32_t *expected, n = naive_keys(r, shard, shards, &expected);
    assert_int_equal(ops->keys(r->work, which, shard, shards, &keys, &e), YK_OK);
    assert_int_equal(keys.n, n);
    assert_memory_equal(keys.key, expected, n * sizeof *expected);
    struct yk_params slots = {.flat = yk_floats(n + 1), .count = n};
    struct yk_sink sink = {.grad = yk_floats(n + 1), .ready = ready};
    double *grad = calloc(r->params.count, sizeof *grad);
    assert_true(slots.flat != NULL && sink.grad != NULL && grad != NULL);
    for (uint32_t i = 0; i < n; i++)
        slots.flat[i] = r->flat[keys.key[i]];
    for (uint32_t s = 0; s < shards; s++) {
        memset(grad, 0, r->params.count * sizeof *grad);
        for (uint32_t i = 0; i < n; i++)
            sink.grad[i] = 1e9f; /* what an earlier step may have left */
        sink.grad[n] = 0;
        ops->choose(r->work, which, s);
        double loss = ops->step(r->work, &slots, &shard[s], &sink),
               right = naive(r, &shard[s], r->flat, grad);
        assert_true(fabs(loss - right) <= 1e-5 * (right + 1));
        assert_true(sink.grad[n] == 1);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(fabs(sink.grad[i] - grad[keys.key[i]]) <= 1e-4 + 1e-6 * shard[s].n);
            assert_false(sink.grad[i] == 0 && signbit(sink.grad[i]));
        }
    }
    yk_floats_free(slots.flat);
    yk_floats_free(sink.grad);
    free(grad);
    free(expected);
}

static void test_slots(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        static const char *const ISA[] = {"plain", "auto", "auto"};
        struct rig r;
        rig_open(&r,
                 (struct made_how){300, 500, 40, .values = k != 1, .repeat = k > 0, .skew = 2,
                                   .seed = k + 1},
                 ISA[k]);
        uint32_t row[300];
        struct yk_rng rng;
        yk_rng_init(&rng, k, 5, 0, 0);
        for (uint32_t i = 0; i < 300; i++)
            row[i] = yk_rng_below(&rng, 300);
        struct yk_batch shard[5] = {{.set = &r.made.set, .n = 100, .row = row},
                                    {.set = &r.made.set, .n = 0, .row = row},
                                    {.set = &r.made.set, .n = 1, .row = row + 100},
                                    {.set = &r.made.set, .n = 150, .row = row + 101},
                                    {.set = &r.made.set, .n = 3, .row = row + 251}};
        check_task(&r, 0, shard, 1);
        check_task(&r, 1, shard, 5);
        check_task(&r, 1, shard + 1, 2); /* a small task in the buffers of a large one */
        check_task(&r, 0, shard + 3, 2);
        check_task(&r, 0, shard + 1, 1); /* nothing but the bias */
        rig_close(&r);
    }
}

/* Enough entries for numbers of 32 bits, and keys as far up as they go. */
static void test_many_keys(void **state)
{
    (void)state;
    struct rig r;
    rig_open(
        &r,
        (struct made_how){3000, 400000, 60, .values = true, .repeat = true, .skew = 1, .seed = 4},
        "auto");
    uint32_t *row = malloc(3000 * sizeof *row);
    assert_non_null(row);
    for (uint32_t i = 0; i < 3000; i++)
        row[i] = i;
    const struct yk_batch all = {.set = &r.made.set, .n = 3000, .row = row};
    assert_true(r.made.rows.entries > UINT16_MAX);
    check_task(&r, 0, &all, 1);
    free(row);
    rig_close(&r);
}

/* Both maps are independent: one is made while the other is in use. */
static void test_two_maps(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r,
             (struct made_how){64, 100, 20, .values = true, .repeat = true, .skew = 1, .seed = 9},
             "auto");
    uint32_t row[64];
    for (uint32_t i = 0; i < 64; i++)
        row[i] = i;
    const struct yk_batch a = {.set = &r.made.set, .n = 10, .row = row},
                          b = {.set = &r.made.set, .n = 54, .row = row + 10};
    struct yk_keys ka, kb;
    assert_int_equal(ops->keys(r.work, 0, &a, 1, &ka, NULL), YK_OK);
    ops->choose(r.work, 0, 0);
    assert_int_equal(ops->keys(r.work, 1, &b, 1, &kb, NULL), YK_OK);
    struct yk_params slots = {.flat = yk_floats(101), .count = ka.n};
    struct yk_sink sink = {.grad = yk_floats(102), .ready = ready};
    for (uint32_t i = 0; i < ka.n; i++)
        slots.flat[i] = r.flat[ka.key[i]];
    double loss = ops->step(r.work, &slots, &a, &sink), right = naive(&r, &a, r.flat, NULL);
    assert_true(fabs(loss - right) <= 1e-5 * (right + 1));
    yk_floats_free(slots.flat);
    yk_floats_free(sink.grad);
    rig_close(&r);
}

/* The gradient is the slope of the loss, in every coordinate of a small model. */
static void test_finite_differences(void **state)
{
    (void)state;
    struct rig r;
    enum { N = 20, F = 15 };
    rig_open(&r, (struct made_how){N, F, 8, .values = true, .repeat = true, .skew = 1, .seed = 21},
             "auto");
    uint32_t row[N];
    for (uint32_t i = 0; i < N; i++)
        row[i] = i;
    const struct yk_batch b = {.set = &r.made.set, .n = N, .row = row};
    struct yk_keys keys;
    assert_int_equal(ops->keys(r.work, 0, &b, 1, &keys, NULL), YK_OK);
    ops->choose(r.work, 0, 0);
    struct yk_params slots = {.flat = yk_floats(F + 2), .count = keys.n};
    struct yk_sink sink = {.grad = yk_floats(F + 3), .ready = ready};
    for (uint32_t i = 0; i < keys.n; i++)
        slots.flat[i] = r.flat[keys.key[i]];
    ops->step(r.work, &slots, &b, &sink);
    for (uint32_t i = 0; i < keys.n; i++) {
        float *w = &r.flat[keys.key[i]], keep = *w;
        *w = keep + 1e-3f;
        double up = naive(&r, &b, r.flat, NULL), step = (double)*w;
        *w = keep - 1e-3f;
        double down = naive(&r, &b, r.flat, NULL);
        step -= (double)*w;
        *w = keep;
        assert_true(fabs((up - down) / step - (double)sink.grad[i]) < 1e-4);
    }
    yk_floats_free(slots.flat);
    yk_floats_free(sink.grad);
    rig_close(&r);
}

/* A test set has keys beyond the model's: they count for nothing, and no owner is asked for
 * them. */
static void test_unknown_keys(void **state)
{
    (void)state;
    struct rig r;
    struct made_rows other;
    rig_open(&r, (struct made_how){10, 50, 10, .values = true, .skew = 1, .seed = 2}, "auto");
    for (int values = 0; values < 2; values++) {
        rows_make(&other, (struct made_how){40, 120, 30, .values = values, .repeat = true,
                                            .skew = 1, .seed = 3});
        uint32_t row[40], *expected;
        for (uint32_t i = 0; i < 40; i++)
            row[i] = i;
        const struct yk_batch b = {.set = &other.set, .n = 40, .row = row};
        struct yk_keys keys;
        assert_int_equal(ops->keys(r.work, 0, &b, 1, &keys, NULL), YK_OK);
        r.made.rows.entries = other.rows.entries;
        uint32_t n = naive_keys(&r, &b, 1, &expected);
        assert_int_equal(keys.n, n);
        assert_memory_equal(keys.key, expected, n * sizeof *expected);
        struct yk_params slots = {.flat = yk_floats(n), .count = n};
        /* as the model would be if it had those keys, at 0 */
        float *known = calloc(200, sizeof *known);
        for (uint32_t i = 0; i < n; i++)
            known[keys.key[i]] = slots.flat[i] = r.flat[keys.key[i]];
        struct yk_score score = {0};
        ops->choose(r.work, 0, 0);
        ops->score(r.work, &slots, &b, &score, NULL);
        double right = naive(&r, &b, known, NULL);
        assert_true(fabs(score.loss - right) <= 1e-5 * (right + 1));
        free(known);
        yk_floats_free(slots.flat);
        free(expected);
        rows_release(&other);
    }
    rig_close(&r);
}

/* Counts, probabilities and the area under the curve against all pairs. */
static void test_score(void **state)
{
    (void)state;
    enum { N = 400 };
    struct rig r;
    rig_open(&r,
             (struct made_how){N, 60, 20, .values = true, .repeat = true, .skew = 1, .seed = 31},
             "auto");
    uint32_t row[N], correct = 0, tp = 0, fp = 0, fn = 0;
    for (uint32_t i = 0; i < N; i++)
        row[i] = i;
    const struct yk_batch part[2] = {{.set = &r.made.set, .n = 150, .row = row},
                                     {.set = &r.made.set, .n = N - 150, .row = row + 150}};
    struct yk_keys keys;
    struct yk_score score = {.bins = calloc(1, sizeof *score.bins)};
    float prob[2 * N];
    assert_non_null(score.bins);
    assert_int_equal(ops->keys(r.work, 0, part, 2, &keys, NULL), YK_OK);
    struct yk_params slots = {.flat = yk_floats(keys.n), .count = keys.n};
    for (uint32_t i = 0; i < keys.n; i++)
        slots.flat[i] = r.flat[keys.key[i]];
    for (uint32_t s = 0; s < 2; s++) {
        ops->choose(r.work, 0, s);
        ops->score(r.work, &slots, &part[s], &score, prob + (s ? 300 : 0));
    }
    double right = 0, above = 0, pairs = 0, error;
    for (uint32_t i = 0; i < N; i++) {
        const struct yk_batch one = {.set = &r.made.set, .n = 1, .row = row + i};
        bool label = r.made.label[i], said = prob[2 * i + 1] > 0.5f;
        right += naive(&r, &one, r.flat, NULL);
        correct += label == said;
        tp += label && said;
        fp += !label && said;
        fn += label && !said;
        assert_true(fabs((double)prob[2 * i] + (double)prob[2 * i + 1] - 1) < 1e-6);
        assert_true(fabs(-log((double)prob[2 * i + label]) - naive(&r, &one, r.flat, NULL)) < 1e-4);
        for (uint32_t k = 0; k < N; k++)
            if (label && !r.made.label[k]) {
                pairs++;
                above += prob[2 * i + 1] > prob[2 * k + 1]    ? 1
                         : prob[2 * i + 1] == prob[2 * k + 1] ? 0.5
                                                              : 0;
            }
    }
    assert_true(fabs(score.loss - right) <= 1e-5 * right);
    assert_int_equal(score.examples, N);
    assert_int_equal(score.correct, correct);
    assert_int_equal(score.true_positives, tp);
    assert_int_equal(score.false_positives, fp);
    assert_int_equal(score.false_negatives, fn);
    assert_true(tp > 0 && fp > 0 && fn > 0 &&
                yk_score_precision(&score) == (double)tp / (tp + fp) &&
                yk_score_recall(&score) == (double)tp / (tp + fn));
    double auc = yk_score_auc(&score, &error);
    assert_true(error >= 0 && error < 5e-3); /* empty rows are ties */
    assert_true(fabs(auc - above / pairs) <= error + 1e-12);
    assert_true(auc > 0.4 && auc < 0.6 + 0.4);
    free(score.bins);
    yk_floats_free(slots.flat);
    rig_close(&r);
}

static void test_auc(void **state)
{
    (void)state;
    struct yk_score s = {0};
    double error;
    assert_true(isnan(yk_score_auc(&s, &error)));
    s.bins = calloc(1, sizeof *s.bins);
    assert_non_null(s.bins);
    s.bins->n[1][5] = 3;
    assert_true(isnan(yk_score_auc(&s, NULL))); /* one label only */
    s.bins->n[0][4] = 2;
    assert_true(yk_score_auc(&s, &error) == 1 && error == 0);
    s.bins->n[0][4] = 0;
    s.bins->n[0][5] = 7;
    assert_true(yk_score_auc(&s, &error) == 0.5 && error == 0.5);
    s.bins->n[0][YK_BINS - 1] = 7;
    assert_true(yk_score_auc(&s, &error) == 0.25 && error == 0.25);
    assert_true(isnan(yk_score_precision(&s)) && isnan(yk_score_recall(&s)));
    free(s.bins);
}

/* Scores beyond the bins, and rows that are not numbers, are counted all the same. */
static void test_huge(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, (struct made_how){4, 4, 3, .exactly = true, .values = true, .skew = 1, .seed = 5},
             "auto");
    static const float HUGE_VALUE[] = {1e30f, -1e30f, 3e38f, 0};
    uint32_t row[4] = {0, 1, 2, 3};
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 3; k++)
            r.made.value[3 * i + k] = HUGE_VALUE[i];
    const struct yk_batch b = {.set = &r.made.set, .n = 4, .row = row};
    struct yk_keys keys;
    struct yk_score score = {.bins = calloc(1, sizeof *score.bins)};
    assert_non_null(score.bins);
    assert_int_equal(ops->keys(r.work, 0, &b, 1, &keys, NULL), YK_OK);
    ops->choose(r.work, 0, 0);
    struct yk_params slots = {.flat = yk_floats(5), .count = keys.n};
    struct yk_sink sink = {.grad = yk_floats(6), .ready = ready};
    for (uint32_t i = 0; i < keys.n; i++)
        slots.flat[i] = 2;
    ops->score(r.work, &slots, &b, &score, NULL);
    assert_int_equal(score.examples, 4);
    assert_int_equal(score.bins->n[0][0] + score.bins->n[1][0], 1);
    assert_int_equal(score.bins->n[0][YK_BINS - 1] + score.bins->n[1][YK_BINS - 1], 2);
    assert_true(score.loss >= 0);
    ops->step(r.work, &slots, &b, &sink);
    slots.flat[1] = NAN;
    assert_true(isnan(ops->step(r.work, &slots, &b, &sink)));
    free(score.bins);
    yk_floats_free(slots.flat);
    yk_floats_free(sink.grad);
    rig_close(&r);
}

static void test_refuses(void **state)
{
    (void)state;
    struct yk_model *m;
    struct yk_error e;
    struct yk_rows rows = {.features = 5};
    struct yk_dataset dense = {.name = "mnist", .rows = 10, .features = 784, .classes = 2},
                      three = {.name = "x", .features = 5, .classes = 3, .sparse = &rows},
                      none = {.name = "x", .classes = 2, .sparse = &rows};
    assert_int_equal(ops->open(&m, &dense, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "mnist"));
    assert_int_equal(ops->open(&m, &three, &e), YK_USAGE);
    assert_int_equal(ops->open(&m, &none, &e), YK_DATA);
    struct yk_dataset most = {.name = "x", .features = 4294967002, .classes = 2, .sparse = &rows};
    assert_int_equal(ops->open(&m, &most, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "at most 4294967001 features"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_two_maps),     cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_unknown_keys), cmocka_unit_test(test_score),
        cmocka_unit_test(test_auc),          cmocka_unit_test(test_huge),
        cmocka_unit_test(test_refuses),
    };
    ops = yk_model_find("logreg");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
