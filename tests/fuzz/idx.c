/* idx.c - fuzz target: any bytes either parse as IDX, and then keep the promises of idx.h, or give
 * one error message. */
#include "data/images/idx.h"
#include "data/data.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool promise)
{
    if (!promise)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct yk_idx x;
    struct yk_error e = {0};
    yk_code rc = yk_idx_parse(bytes, n, &x, &e);
    if (rc != YK_OK) {
        must(rc == YK_DATA || rc == YK_FAILED);
        must(e.code == rc && e.text[0] != '\0' && x.data == NULL);
        return 0;
    }
    must(yk_idx_type_name(x.type) != NULL && x.ndim >= 1 && x.ndim <= YK_IDX_DIMS);
    must((uintptr_t)x.data % 64 == 0);
    must(x.gzip || x.bytes + 4 + 4u * x.ndim == n);
    uint64_t sum = 0;
    /* Reads every byte, so that a sanitizer sees any that was not written. */
    for (uint64_t i = 0; i < x.bytes; i++)
        sum += x.data[i];
    must(sum <= 255 * x.bytes);
    for (int i = 0; i < YK_ROW_SLACK; i++)
        must(x.data[x.bytes + (uint64_t)i] == 0);
    yk_idx_release(&x);
    must(x.data == NULL);
    return 0;
}
