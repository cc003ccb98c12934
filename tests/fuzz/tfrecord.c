/* tfrecord.c - fuzz target: any bytes as TFRecord of tf.train.Example either become sound rows, or
 * give one error message; skipped rows are counted; and rows that were read are written and read
 * again, the same bit for bit. */
#include "tests/fuzz/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    return fuzz_rows(&yk_rows_format_tfrecord, bytes, n, true);
}
