/* vw.c - fuzz target: any bytes as a text of Vowpal Wabbit's form either become sound rows, or give one sentence; what is skipped is counted; and
 * rows that were read are written and read again, the same bit by bit. */
#include "tests/fuzz/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    return fuzz_rows(&yk_rows_format_vw, bytes, n, true);
}
