/* param_test.c - layout, alignment and canonical hash of the flat buffer. */
#include "param/param.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

static const struct yk_view spec[] = {
    {.name = "softmax.weight", .ndim = 2, .shape = {784, 10}},
    {.name = "softmax.bias", .ndim = 1, .shape = {10}},
    {.name = "a", .ndim = 4, .shape = {1, 3, 1, 7}},
};

static void test_layout(void **state)
{
    (void)state;
    struct yk_params p;
    struct yk_error e;
    assert_int_equal(yk_params_init(&p, spec, 3, &e), YK_OK);
    assert_int_equal(p.views, 3);
    assert_string_equal(p.view[0].name, "a");
    assert_string_equal(p.view[1].name, "softmax.bias");
    assert_string_equal(p.view[2].name, "softmax.weight");
    assert_int_equal(p.view[0].at, 0);
    assert_int_equal(p.view[0].count, 21);
    assert_int_equal(p.view[1].at, 32);
    assert_int_equal(p.view[1].count, 10);
    assert_int_equal(p.view[2].at, 48);
    assert_int_equal(p.view[2].count, 7840);
    assert_int_equal(p.count, 48 + 7840);
    assert_int_equal(p.weights, 21 + 10 + 7840);
    assert_int_equal((uintptr_t)p.flat % 64, 0);
    for (size_t i = 0; i < p.count; i++)
        assert_true(p.flat[i] == 0);
    assert_ptr_equal(yk_params_find(&p, "softmax.bias"), &p.view[1]);
    assert_null(yk_params_find(&p, "softmax"));
    yk_params_release(&p);
    assert_null(p.flat);
    yk_params_release(&p);
    yk_params_release(NULL);
}

static void test_refuses(void **state)
{
    (void)state;
    struct yk_params p;
    struct yk_error e;
    struct yk_view v[2] = {spec[0], spec[0]};
    assert_int_equal(yk_params_init(&p, v, 2, &e), YK_USAGE);
    assert_string_equal(e.text, "two parameters are called 'softmax.weight'");
    v[0] = spec[0];
    v[0].shape[1] = 0;
    assert_int_equal(yk_params_init(&p, v, 1, &e), YK_USAGE);
    v[0] = spec[0];
    v[0].ndim = 0;
    assert_int_equal(yk_params_init(&p, v, 1, &e), YK_USAGE);
    v[0].ndim = 5;
    assert_int_equal(yk_params_init(&p, v, 1, &e), YK_USAGE);
    v[0] = spec[0];
    v[0].shape[0] = (uint64_t)1 << 62; /* 2^62 * 10 wraps */
    assert_int_equal(yk_params_init(&p, v, 1, &e), YK_USAGE);
    v[0].shape[1] = 1;
    assert_int_equal(yk_params_init(&p, v, 1, &e), YK_USAGE);
    v[0] = spec[0];
    v[0].name[0] = '\0';
    assert_int_equal(yk_params_init(&p, v, 1, &e), YK_USAGE);
    memset(v[0].name, 'n', sizeof v[0].name);
    assert_int_equal(yk_params_init(&p, v, 1, &e), YK_USAGE);
    assert_non_null(strstr(e.text, "too long"));
    assert_null(p.flat);
    v[0] = (struct yk_view){.name = "a", .ndim = 1, .shape = {SIZE_MAX / 16}};
    v[1] = (struct yk_view){
        .name = "b", .ndim = 1, .shape = {SIZE_MAX / 16}}; /* each fits, the sum does not */
    assert_int_equal(yk_params_init(&p, v, 2, &e), YK_USAGE);
}

/* The hash covers the numbers alone, in the order of the names; the gaps do not count. */
static void test_hash(void **state)
{
    (void)state;
    struct yk_params p;
    char have[17], want[17];
    float packed[21 + 10 + 7840];
    size_t n = 0;
    assert_int_equal(yk_params_init(&p, spec, 3, NULL), YK_OK);
    for (size_t i = 0; i < p.views; i++)
        for (size_t k = 0; k < p.view[i].count; k++)
            packed[n] = p.flat[p.view[i].at + k] = (float)n / 7, n++;
    snprintf(want, sizeof want, "%016llx",
             (unsigned long long)XXH3_64bits(packed, n * sizeof(float)));
    yk_params_hash(&p, have);
    assert_string_equal(have, want);
    p.flat[25] = 1; /* a gap */
    yk_params_hash(&p, have);
    assert_string_equal(have, want);
    p.flat[20] += 1; /* the last number of "a" */
    yk_params_hash(&p, have);
    assert_string_not_equal(have, want);
    yk_params_release(&p);

    assert_int_equal(yk_params_init(&p, spec, 0, NULL), YK_OK);
    yk_params_hash(&p, have);
    assert_string_equal(have, "2d06800538d394c2"); /* the published hash of no bytes */
    yk_params_release(&p);
}

static void test_floats(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 17, 1 << 20, (1 << 20) + 1, 3 << 20};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        float *f = yk_floats(counts[i]);
        assert_non_null(f);
        assert_int_equal((uintptr_t)f % (counts[i] > 1 << 20 ? 2 << 20 : 64), 0);
        for (size_t k = 0; k < counts[i]; k++)
            if (f[k] != 0)
                fail();
        if (counts[i] > 0)
            f[counts[i] - 1] = 1;
        yk_floats_free(f);
    }
    assert_null(yk_floats(SIZE_MAX));
    assert_null(yk_floats(SIZE_MAX / 4));
    yk_floats_free(NULL);
}

/* One value that is no number is found wherever it is, at every length that a vector loop may end
 * with. */
static void test_finite(void **state)
{
    (void)state;
    static const float BAD[] = {NAN, -NAN, INFINITY, -INFINITY};
    static const float GOOD[] = {0, -0.0f, 1e-45f, FLT_MAX, -FLT_MAX, FLT_MIN};
    float v[100] = {0};
    for (size_t n = 0; n <= 100; n++) {
        for (size_t i = 0; i < n; i++)
            v[i] = GOOD[i % 6];
        assert_true(yk_floats_finite(v, n));
        for (size_t i = 0; i < n; i++) {
            v[i] = BAD[i % 4];
            assert_false(yk_floats_finite(v, n));
            v[i] = GOOD[i % 6];
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout), cmocka_unit_test(test_refuses), cmocka_unit_test(test_hash),
        cmocka_unit_test(test_floats), cmocka_unit_test(test_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
