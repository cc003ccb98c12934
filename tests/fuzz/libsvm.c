/* libsvm.c - fuzz target: any bytes as libsvm text either become sound rows, or give one error
 * message; skipped rows are counted; and rows that were read are written and read again, the same
 * bit for bit. */
#include "tests/fuzz/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    return fuzz_rows(&yk_rows_format_libsvm, bytes, n, true);
}
