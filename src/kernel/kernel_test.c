/* kernel_test.c - which set of kernels one gets for a name: the best for "auto", the very one
 * otherwise, or a sentence. */
#include "kernel/kernel.h"
#include "tests/isas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A set has all its kernels, is found by its name, and is no other under another name. */
static void test_set(void **state)
{
    (void)state;
    const struct yk_kernels *k;
    struct yk_error e;
    assert_true(kernels->softmax != NULL && kernels->logreg != NULL && kernels->pick != NULL &&
                kernels->batch16 != NULL);
    assert_int_equal(yk_kernels_pick(kernels->name, &k, &e), YK_OK);
    assert_ptr_equal(k, kernels);
    assert_string_equal(yk_kernels_name(yk_kernels_rank(kernels->name)), kernels->name);
    for (unsigned i = 0; yk_kernels_at(i) != kernels; i++)
        assert_true(strcmp(yk_kernels_at(i)->name, k->name) != 0 &&
                    yk_kernels_at(i)->softmax != k->softmax &&
                    yk_kernels_at(i)->logreg != k->logreg);
}

static void test_list(void **state)
{
    (void)state;
    const struct yk_kernels *k;
    struct yk_error e;
    unsigned n = 0;
    assert_string_equal(yk_kernels_at(0)->name, "plain"); /* runs everywhere */
    while (yk_kernels_at(n) != NULL)
        n++;
    assert_null(yk_kernels_at(n + 1));
    assert_int_equal(yk_kernels_pick("auto", &k, &e), YK_OK);
    assert_ptr_equal(k, yk_kernels_at(n - 1)); /* best last */
#if defined(__x86_64__)
    const char *expected =
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") ? "avx512"
        : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")        ? "avx2"
                                                                                 : "plain";
    assert_string_equal(k->name, expected);
#endif
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const BAD[] = {"", "avx", "avx5122", "AVX2", "autos", "plai"};
    const struct yk_kernels *k = NULL;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct yk_error e;
        assert_int_equal(yk_kernels_pick(BAD[i], &k, &e), YK_USAGE);
        assert_non_null(strstr(e.text, BAD[i]));
        assert_non_null(strstr(e.hint, "auto"));
        assert_null(k);
    }
}

/* Scratch must grow with the shape and keep every thread's to itself: whole cache lines. */
static void test_scratch(void **state)
{
    (void)state;
    for (uint32_t f = 1; f < 100; f++)
        for (uint32_t c = 2; c <= 256; c++) {
            size_t size = yk_softmax_scratch(f, c);
            assert_int_equal(size % 64, 0);
            assert_true(size >= (size_t)YK_TILE * c * sizeof(float) +
                                    (size_t)f / 8 * 8 * c * sizeof(float));
        }
}

int main(void)
{
    const struct CMUnitTest once[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_refuses),
                                      cmocka_unit_test(test_scratch)};
    const struct CMUnitTest each[] = {cmocka_unit_test(test_set)};
    return isa_run(once, sizeof once / sizeof once[0], each, sizeof each / sizeof each[0]);
}
