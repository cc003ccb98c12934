/* npy.c - fuzz target: any bytes either have the header of a matrix, and then it keeps the promises
 * of npy.h, or give one sentence. */
#include "matmul/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool promise)
{
    if (!promise)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const uint64_t BEYOND[] = {0, 1 << 10, (uint64_t)1 << 40,
                                      UINT64_MAX /
                                          2}; /* a file may be longer than what was read of it */
    for (int i = 0; i < 4; i++) {
        struct yk_npy f;
        struct yk_error e = {0};
        uint64_t size = n + BEYOND[i];
        yk_code rc = yk_npy_parse(&f, bytes, n, size, "fuzz.npy", &e);
        must(f.fd == -1);
        if (rc != YK_OK) {
            must(rc == YK_DATA && e.code == rc && e.text[0] != '\0');
            continue;
        }
        must(f.type == YK_F32 || f.type == YK_F64);
        must(f.offset >= 10 && f.offset <= n && f.rows > 0 && f.cols > 0);
        must(f.rows <= (size - f.offset) / f.type / f.cols);
    }
    return 0;
}
