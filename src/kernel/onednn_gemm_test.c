/* onednn_gemm_test.c - products of odd sizes, inside larger matrices, against three loops in
 * double. */
#include "kernel/onednn_gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static float *matrix(uint64_t rows, uint64_t ld, unsigned seed)
{
    float *x = malloc(rows * ld * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < rows * ld; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int)(seed >> 8) * 0x1p-23f - 1;
    }
    return x;
}

static void compare(uint64_t m, uint64_t n, uint64_t k, float beta, unsigned threads)
{
    uint64_t lda = k + 3, ldb = n + 5, ldc = n + 2;
    float *a = matrix(m, lda, 1), *b = matrix(k, ldb, 2), *c = matrix(m, ldc, 3),
          *before = matrix(m, ldc, 3);
    if (beta == 0)
        c[0] = NAN;
    const struct yk_gemm_job job = {m, n, k, a, b, c, lda, ldb, ldc, beta};
    yk_gemm_threads(threads);
    assert_int_equal(yk_gemm(&job, NULL), YK_OK);
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < ldc; j++) {
            double sum = j < n ? beta * (double)before[i * ldc + j] : (double)before[i * ldc + j],
                   size = fabs(sum);
            if (j < n && beta == 0)
                sum = size = 0;
            for (uint64_t t = 0; j < n && t < k; t++) {
                double p = (double)a[i * lda + t] * (double)b[t * ldb + j];
                sum += p;
                size += fabs(p);
            }
            double error = j < n ? (double)(k + 1) * 0x1p-24 * size : 0;
            assert_true(fabs((double)c[i * ldc + j] - sum) <= error);
        }
    free(a);
    free(b);
    free(c);
    free(before);
}

static void products_are_right(void **state)
{
    (void)state;
    static const uint64_t SIZES[][3] = {{1, 1, 1},    {1, 7, 300},    {17, 1, 5},
                                        {63, 65, 64}, {130, 48, 257}, {5, 400, 3}};
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++)
        for (unsigned threads = 1; threads <= 2; threads++)
            for (int beta = 0; beta <= 1; beta++)
                compare(SIZES[i][0], SIZES[i][1], SIZES[i][2], (float)beta, threads);
}

static void nothing_is_nothing(void **state)
{
    (void)state;
    float c = 5;
    const struct yk_gemm_job job = {0, 1, 1, &c, &c, &c, 1, 1, 1, 0};
    assert_int_equal(yk_gemm(&job, NULL), YK_OK);
    assert_true(c == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_right),
                                       cmocka_unit_test(nothing_is_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
