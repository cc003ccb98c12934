/* model_test.c - the list of models: each can be found, opened for a small set, and steps; its
 * defaults come in pairs. */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/packed.h"
#include "tests/sparse_rows.h"

static void ready(struct yk_sink *s, size_t lo, size_t hi)
{
    (void)s, (void)lo, (void)hi;
}

static void test_list(void **state)
{
    (void)state;
    _Alignas(64) uint8_t pixels[4 * 16 + YK_ROW_SLACK] = {9, 0, 200};
    uint16_t labels[4] = {0, 1, 2, 1};
    const uint32_t row[4] = {0, 1, 2, 3};
    const struct yk_dataset set = {.name = "small",
                                   .rows = 4,
                                   .features = 16,
                                   .classes = 3,
                                   .shape = {4, 4, 1},
                                   .pixels = pixels,
                                   .labels = labels,
                                   .scale = 1.0f / 255};
    struct yk_dataset packed = packed_copy(&set);
    struct made_rows made;
    rows_make(&made, (struct made_how){4, 16, 5, .values = true, .skew = 1, .seed = 1});
    unsigned n = 0;
    for (; yk_model_at(n) != NULL; n++) {
        const struct yk_model_ops *ops = yk_model_at(n);
        struct yk_model *m;
        struct yk_work *w;
        struct yk_params params;
        struct yk_error e;
        bool sparse = ops->keys != NULL;
        const struct yk_batch batch = {.set = sparse ? &made.set : &packed, .n = 4, .row = row};
        assert_ptr_equal(yk_model_find(ops->name), ops);
        assert_true(ops->help[0] != '\0' && strlen(ops->name) < YK_NAME);
        size_t words = 0;
        while (ops->defaults[words] != NULL)
            words++;
        assert_int_equal(words % 2, 0);
        assert_int_equal(ops->open(&m, sparse ? &made.set : &set, &e), YK_OK);
        assert_int_equal(ops->layout(m, &params, 1, &e), YK_OK);
        assert_int_equal(ops->work_open(&w, m, 1, "auto", &e), YK_OK);
        if (sparse) { /* computes with what its batch touches, here all there is */
            struct yk_keys keys;
            assert_true(ops->choose != NULL && ops->sweep != NULL && params.flat == NULL);
            params.flat = yk_floats(params.count);
            assert_non_null(params.flat);
            assert_int_equal(ops->keys(w, 0, &batch, 1, &keys, &e), YK_OK);
            ops->choose(w, 0, 0);
        }
        struct yk_sink sink = {.grad = yk_floats(params.count), .ready = ready};
        assert_non_null(sink.grad);
        assert_true(isfinite(ops->step(w, &params, &batch, &sink)));
        yk_floats_free(sink.grad);
        ops->work_close(w);
        ops->work_close(NULL);
        yk_params_release(&params);
        ops->close(m);
    }
    packed_release(&packed);
    rows_release(&made);
    assert_true(n >= 1);
    assert_null(yk_model_at(n + 1));
    assert_null(yk_model_find("softma"));
    assert_null(yk_model_find("softmaxx"));
    assert_null(yk_model_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
