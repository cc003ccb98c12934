/* onednn_gemm.c - see onednn_gemm.h. dnnl_sgemm is row-major and takes plain pointers, so nothing
 * is planned or kept.
 * THREADS: as onednn_gemm.h says; omp_set_num_threads speaks for the calling thread alone. */
#include "kernel/onednn_gemm.h"

#include <oneapi/dnnl/dnnl.h>

/* From OpenMP's run-time library, which oneDNN brings along. Declared here, as compilers that have
 * no header for it read this file too. */
extern void omp_set_num_threads(int n);

void yk_gemm_threads(unsigned threads)
{
    omp_set_num_threads(threads > 0 ? (int)threads : 1);
}

yk_code yk_gemm(const struct yk_gemm_job *j, struct yk_error *e)
{
    if (j->m == 0 || j->n == 0)
        return YK_OK;
    dnnl_status_t status =
        dnnl_sgemm('N', 'N', (dnnl_dim_t)j->m, (dnnl_dim_t)j->n, (dnnl_dim_t)j->k, 1, j->a,
                   (dnnl_dim_t)j->lda, j->b, (dnnl_dim_t)j->ldb, j->beta, j->c, (dnnl_dim_t)j->ldc);
    if (status == dnnl_out_of_memory)
        return yk_fail(e, YK_FAILED, "out of memory for a product of %llu x %llu",
                       (unsigned long long)j->m, (unsigned long long)j->n);
    if (status != dnnl_success)
        return yk_fail(e, YK_FAILED,
                       "oneDNN refuses a product of (%llu, %llu) and (%llu, %llu): status %d",
                       (unsigned long long)j->m, (unsigned long long)j->k, (unsigned long long)j->k,
                       (unsigned long long)j->n, (int)status);
    return YK_OK;
}
