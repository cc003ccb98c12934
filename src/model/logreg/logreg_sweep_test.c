/* logreg_sweep_test.c - training straight on the parameters: equal in bits to a naive loop and to
 * the same steps in slot space for every batch size, order and optimizer; rows with repeated keys;
 * values owed to untouched keys; and several real threads, whose loss must be that of one. */
#include "kernel/kernel.h"
#include "model/logreg/hot_keys.h"
#include "tests/sparse_rows.h"

static const struct yk_model_ops *ops;

/* --- optimizers of the test's own: src/optim is a sibling --- */

struct yk_update {
    float lr, scale;
    uint64_t step;
};

static void sgd(const struct yk_update *u, float *w, const float *g, float *const *slot, size_t n)
{
    (void)slot;
    for (size_t i = 0; i < n; i++)
        w[i] -= u->lr * (u->scale * g[i]);
}

static void adagrad(const struct yk_update *u, float *w, const float *g, float *const *slot,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float d = u->scale * g[i];
        slot[0][i] += d * d;
        w[i] -= u->lr * d / (sqrtf(slot[0][i]) + 1e-7f);
    }
}

static void ftrl(const struct yk_update *u, float *w, const float *g, float *const *slot, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float d = u->scale * g[i], after = slot[1][i] + d * d,
              s = (sqrtf(after) - sqrtf(slot[1][i])) / u->lr;
        slot[0][i] += d - s * w[i];
        slot[1][i] = after;
        w[i] = -slot[0][i] / ((1 + sqrtf(after)) / u->lr);
    }
}

/* One that owes: weights shrink at every step; slot 0 is the step after which a weight is right. */
static float shrunk(const struct yk_update *u, float w, float seen)
{
    return w * powf(0.999f, (float)u->step - seen);
}

static void shrink_keys(const struct yk_update *u, float *w, float *const *slot, uint32_t base,
                        const uint32_t *key, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key[i] - base;
        w[k] = (shrunk(u, w[k], slot[0][k]) - u->lr * (u->scale * g[i])) * 0.999f;
        slot[0][k] = (float)(u->step + 1);
    }
}

static void shrink_read(const struct yk_update *u, const float *w, float *const *slot,
                        uint32_t base, const uint32_t *key, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key == NULL ? (uint32_t)i : key[i] - base;
        out[i] = shrunk(u, w[k], slot[0][k]);
    }
}

static const struct optimizer {
    const char *name;
    unsigned slots;
    float lr;
    void (*apply)(const struct yk_update *u, float *w, const float *g, float *const *slot,
                  size_t n); /* NULL: lazy */
} OPTIMIZERS[] = {{"sgd", 0, 0.02f, sgd},
                  {"adagrad", 1, 0.1f, adagrad},
                  {"ftrl", 2, 0.1f, ftrl},
                  {"shrink", 1, 0.02f, NULL}};
enum { N_OPTIMIZERS = sizeof OPTIMIZERS / sizeof OPTIMIZERS[0], SLOTS = 2, THREADS = 4 };

/* --- a model with its memory --- */

struct rig {
    struct made_rows made;
    const struct optimizer *o;
    struct yk_model *model;
    struct yk_params layout;
    struct yk_work *work;
    const struct yk_kernels *kernels;
    float *w, *slot[SLOTS];
    struct yk_update u[THREADS];
    uint64_t updates; /* of sweeps before */
};

static void rig_open(struct rig *r, struct made_how how, const struct optimizer *o,
                     unsigned threads, const char *isa)
{
    *r = (struct rig){.o = o};
    rows_make(&r->made, how);
    assert_int_equal(ops->open(&r->model, &r->made.set, NULL), YK_OK);
    assert_int_equal(ops->layout(r->model, &r->layout, 1, NULL), YK_OK);
    assert_int_equal(ops->work_open(&r->work, r->model, threads, isa, NULL), YK_OK);
    assert_int_equal(yk_kernels_pick(isa, &r->kernels, NULL), YK_OK);
    r->w = yk_floats(r->layout.count);
    for (unsigned k = 0; k < SLOTS; k++)
        r->slot[k] = yk_floats(r->layout.count);
    assert_true(r->w != NULL && r->slot[0] != NULL && r->slot[1] != NULL);
}

static void rig_zero(struct rig *r)
{
    memset(r->w, 0, r->layout.count * sizeof(float));
    for (unsigned k = 0; k < SLOTS; k++)
        memset(r->slot[k], 0, r->layout.count * sizeof(float));
    r->updates = 0;
}

static void rig_close(struct rig *r)
{
    ops->work_close(r->work);
    ops->close(r->model);
    yk_params_release(&r->layout);
    yk_floats_free(r->w);
    for (unsigned k = 0; k < SLOTS; k++)
        yk_floats_free(r->slot[k]);
    rows_release(&r->made);
}

static const struct yk_update *update(void *arg, unsigned thread, uint64_t step, uint32_t rows)
{
    struct rig *r = arg;
    assert_true(thread < THREADS);
    step += r->updates;
    r->u[thread] = (struct yk_update){
        .lr = r->o->lr * (step < 10 ? 0.5f : 1), .scale = 1.0f / (float)rows, .step = step};
    return &r->u[thread];
}

static double sweep(struct rig *r, const uint32_t *order, uint64_t first, uint64_t count,
                    uint32_t batch)
{
    struct yk_sweep s = {.rows = &r->made.rows,
                         .order = order,
                         .first = first,
                         .count = count,
                         .batch = batch,
                         .w = r->w,
                         .slot = {r->slot[0], r->slot[1]},
                         .slots = r->o->slots,
                         .lazy = r->o->apply == NULL,
                         .apply = r->o->apply,
                         .apply_keys = shrink_keys,
                         .read_keys = shrink_read,
                         .update = update,
                         .arg = r};
    struct yk_error e;
    assert_int_equal(ops->sweep(r->work, &s, &e), YK_OK);
    r->updates += (count + batch - 1) / batch;
    return s.loss;
}

/* The same steps with a gradient as long as the model, one key at a time. */
static double naive(struct rig *r, const uint32_t *order, uint64_t first, uint64_t count,
                    uint32_t batch)
{
    size_t bias = yk_params_find(&r->layout, "logreg.bias")->at,
           weight = yk_params_find(&r->layout, "logreg.weight")->at;
    float *grad = calloc(r->layout.count, sizeof *grad),
          *seen = calloc(r->layout.count, sizeof *seen);
    bool *touched = calloc(r->layout.count, 1);
    double loss = 0;
    assert_true(grad != NULL && seen != NULL && touched != NULL);
    for (uint64_t from = 0; from < count; from += batch, r->updates++) {
        uint64_t to = from + batch < count ? from + batch : count;
        const struct yk_update *u = update(r, 0, 0, (uint32_t)(to - from));
        memset(grad, 0, r->layout.count * sizeof *grad);
        memset(touched, 0, r->layout.count);
        memcpy(seen, r->w, r->layout.count * sizeof *seen);
        if (r->o->apply == NULL)
            shrink_read(u, r->w, r->slot, 0, NULL, seen, r->layout.count);
        touched[bias] = true;
        for (uint64_t i = from; i < to; i++) {
            struct yk_row row = yk_row_at(&r->made.rows, order == NULL ? first + i : order[i]);
            const struct yk_logreg_row one = {
                .weights = {.w = seen + weight, .at = row.key, .n = row.n, .bias = seen[bias]},
                .x = row.value,
                .label = row.label};
            struct yk_logit at = r->kernels->logreg(&one);
            loss += (double)at.loss;
            grad[bias] += at.g;
            for (uint32_t k = 0; k < row.n; k++) {
                grad[weight + row.key[k]] += (row.value == NULL ? 1 : row.value[k]) * at.g + 0.0f;
                touched[weight + row.key[k]] = true;
            }
        }
        for (uint32_t k = 0; k < r->layout.count; k++) {
            float *slot[SLOTS] = {r->slot[0] + k, r->slot[1] + k};
            const uint32_t zero = 0;
            if (touched[k] && r->o->apply != NULL)
                r->o->apply(u, r->w + k, grad + k, slot, 1);
            else if (touched[k])
                shrink_keys(u, r->w + k, slot, 0, &zero, grad + k, 1);
        }
    }
    free(grad);
    free(seen);
    free(touched);
    return loss;
}

static void ready(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s, (void)lo, (void)hi;
}

/* The same steps as a worker and an owner take them. */
static double by_slots(struct rig *r, const uint32_t *order, uint64_t count, uint32_t batch)
{
    size_t room = r->layout.count + 1;
    float *value = yk_floats(room), *grad = yk_floats(room),
          *slot[SLOTS] = {yk_floats(room), yk_floats(room)};
    double loss = 0;
    assert_true(value != NULL && grad != NULL && slot[0] != NULL && slot[1] != NULL);
    for (uint64_t from = 0, step = 0; from < count; from += batch, step++) {
        uint32_t n = from + batch < count ? batch : (uint32_t)(count - from);
        const struct yk_batch b = {.set = &r->made.set, .n = n, .row = order + from};
        struct yk_keys keys;
        assert_int_equal(ops->keys(r->work, step & 1, &b, 1, &keys, NULL), YK_OK);
        for (uint32_t i = 0; i < keys.n; i++) {
            value[i] = r->w[keys.key[i]];
            slot[0][i] = r->slot[0][keys.key[i]];
            slot[1][i] = r->slot[1][keys.key[i]];
        }
        struct yk_params params = {.flat = value, .count = keys.n};
        struct yk_sink sink = {.grad = grad, .ready = ready};
        ops->choose(r->work, step & 1, 0);
        loss += ops->step(r->work, &params, &b, &sink);
        r->o->apply(update(r, 0, step, n), value, grad, slot, keys.n);
        for (uint32_t i = 0; i < keys.n; i++) {
            r->w[keys.key[i]] = value[i];
            r->slot[0][keys.key[i]] = slot[0][i];
            r->slot[1][keys.key[i]] = slot[1][i];
        }
    }
    yk_floats_free(value);
    yk_floats_free(grad);
    yk_floats_free(slot[0]);
    yk_floats_free(slot[1]);
    return loss;
}

struct kept {
    float *v[1 + SLOTS];
};

static struct kept keep(const struct rig *r)
{
    struct kept k;
    for (unsigned v = 0; v <= SLOTS; v++) {
        k.v[v] = malloc(r->layout.count * sizeof(float));
        assert_non_null(k.v[v]);
        memcpy(k.v[v], v == 0 ? r->w : r->slot[v - 1], r->layout.count * sizeof(float));
    }
    return k;
}

static void same_as(const struct rig *r, struct kept *k)
{
    for (unsigned v = 0; v <= SLOTS; v++) {
        assert_memory_equal(k->v[v], v == 0 ? r->w : r->slot[v - 1],
                            r->layout.count * sizeof(float));
        free(k->v[v]);
    }
}

static void test_bits(void **state)
{
    (void)state;
    static const uint32_t BATCH[] = {1, 2, 7, 100, 1000};
    for (unsigned o = 0; o < N_OPTIMIZERS; o++)
        for (unsigned form = 0; form < 4; form++) {
            struct rig r;
            uint32_t order[700];
            struct yk_rng rng;
            rig_open(&r,
                     (struct made_how){700, 300, 25, .values = form & 1, .repeat = form & 2,
                                       .skew = 2, .seed = form + 10, .exactly = form == 3},
                     &OPTIMIZERS[o], 1, form == 0 ? "plain" : "auto");
            yk_rng_init(&rng, form, 1, 1, 1);
            for (uint32_t i = 0; i < 700; i++)
                order[i] = yk_rng_below(&rng, 700);
            for (unsigned b = 0; b < sizeof BATCH / sizeof BATCH[0]; b++) {
                double loss, expected;
                struct kept k;
                rig_zero(&r); /* the order of the file, in two sweeps */
                expected =
                    naive(&r, NULL, 5,
                          10 * (uint64_t)BATCH[b] < 600 ? 10 * (uint64_t)BATCH[b] : 600, BATCH[b]);
                expected += naive(&r, NULL, 3, 77, BATCH[b]);
                k = keep(&r);
                rig_zero(&r);
                loss =
                    sweep(&r, NULL, 5,
                          10 * (uint64_t)BATCH[b] < 600 ? 10 * (uint64_t)BATCH[b] : 600, BATCH[b]);
                loss += sweep(&r, NULL, 3, 77, BATCH[b]);
                same_as(&r, &k);
                assert_true(loss == expected && loss > 0);
                rig_zero(&r); /* another order */
                expected = naive(&r, order, 0, 700, BATCH[b]);
                k = keep(&r);
                rig_zero(&r);
                assert_true(sweep(&r, order, 0, 700, BATCH[b]) == expected);
                same_as(&r, &k);
                if (r.o->apply == NULL)
                    continue;
                k = keep(&r);
                rig_zero(&r);
                assert_true(fabs(by_slots(&r, order, 700, BATCH[b]) - expected) < 1e-9 * expected);
                same_as(&r, &k);
            }
            assert_true(sweep(&r, NULL, 0, 0, 100) == 0);
            rig_close(&r);
        }
}

/* Rows longer than any before, one of them by far; and one row alone. */
static void test_growing(void **state)
{
    (void)state;
    struct rig r;
    rig_open(
        &r,
        (struct made_how){40, 100000, 3000, .values = true, .repeat = true, .skew = 1, .seed = 8},
        &OPTIMIZERS[1], 1, "auto");
    for (uint32_t batch = 1; batch <= 16; batch *= 4) {
        rig_zero(&r);
        double expected = naive(&r, NULL, 0, 40, batch);
        struct kept k = keep(&r);
        rig_zero(&r);
        assert_true(sweep(&r, NULL, 0, 40, batch) == expected);
        same_as(&r, &k);
    }
    rig_close(&r);
}

/* The rows must fit the model: keys are indices. */
static void test_refuses(void **state)
{
    (void)state;
    struct rig r;
    struct yk_error e;
    rig_open(&r, (struct made_how){10, 50, 5, .skew = 1, .seed = 8}, &OPTIMIZERS[0], 1, "auto");
    r.made.rows.features = 51;
    struct yk_sweep s = {.rows = &r.made.rows,
                         .count = 10,
                         .batch = 1,
                         .w = r.w,
                         .apply = sgd,
                         .update = update,
                         .arg = &r};
    assert_int_equal(ops->sweep(r.work, &s, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "51"));
    rig_close(&r);
}

/* Several threads: every row counted, and what is learned is as good. */
static void test_threads(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    enum { ROWS = 12000, F = 3000 }; /* few, and threads that sleep for long */
    const double near = 0.02;
#else
    enum { ROWS = 60000, F = 20000 };
    const double near = 0.005;
#endif
    static const uint32_t BATCH[] = {1, 20, 500};
    for (unsigned o = 0; o < N_OPTIMIZERS; o++)
        for (unsigned b = 0; b < 3; b++) {
            double loss[THREADS + 1], half[THREADS + 1];
            for (unsigned threads = 1; threads <= THREADS; threads *= 2) {
                struct rig r;
                rig_open(&r,
                         (struct made_how){ROWS, F, 20, .values = b == 1, .repeat = o == 2,
                                           .skew = 6, .seed = 77},
                         &OPTIMIZERS[o], threads, "auto");
                loss[threads] = sweep(&r, NULL, 0, ROWS / 2, BATCH[b]) / ROWS;
                half[threads] = sweep(&r, NULL, ROWS / 2, ROWS / 2, BATCH[b]) / ROWS * 2;
                loss[threads] += half[threads] / 2;
                for (size_t i = 0; i < r.layout.count; i++)
                    assert_true(isfinite(r.w[i]));
                rig_close(&r);
            }
            assert_true(half[1] < (b < 2 ? 0.685 : 0.6931)); /* something was learned, */
            if (fabs(half[2] / half[1] - 1) > near || fabs(loss[2] / loss[1] - 1) > near)
                fail_msg("%s, batch %u: two threads %g, second half %g; one %g, %g",
                         OPTIMIZERS[o].name, BATCH[b], loss[2], half[2], loss[1], half[1]);
            assert_true(fabs(half[4] - half[1]) < 0.02 * half[1]);
        }
}

/* A run's first sweep may have a single row: what is hot must be found all the same, as it is for
 * good; and threads wait until there is something to share. */
static void test_hot(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    struct rig r;
    rig_open(&r, (struct made_how){ROWS, 5000, 20, .skew = 6, .seed = 77}, &OPTIMIZERS[1], 2,
             "auto");
    sweep(&r, NULL, 0, 1, 1);
    const struct yk_hot *hot = ((const struct yk_logreg_work *)r.work)->hot;
    assert_in_range(hot->n, 100, YK_HOT_MAX);
    assert_int_equal(hot->rows, 1);
    assert_int_equal(hot->merges, 0);
    sweep(&r, NULL, 1, 3000, 10); /* alone: too few have been seen */
    assert_int_equal(hot->merges, 0);
    sweep(&r, NULL, 3001, ROWS - 3001, 10);
    assert_int_equal(hot->rows, ROWS);
    assert_true(hot->merges > 0);
    uint64_t merges = hot->merges;
    sweep(&r, NULL, 0, 1000, 1); /* too few to be dealt */
    assert_int_equal(hot->merges, merges);
    for (uint32_t i = 1; i < hot->n; i++) /* each has a cell of its own */
        assert_int_equal(yk_hot_cell(hot->cell, hot->key[i])->at, i);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits), cmocka_unit_test(test_growing),
                                       cmocka_unit_test(test_refuses), cmocka_unit_test(test_hot),
                                       cmocka_unit_test(test_threads)};
    ops = yk_model_find("logreg");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
