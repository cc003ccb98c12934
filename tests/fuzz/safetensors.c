/* safetensors.c - fuzz target: no bytes may crash the reader, leak, or be accepted with tensors
 * that lie outside its buffer. */
#include "param/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct yk_tensors t;
    struct yk_error e;
    if (yk_tensors_parse(bytes, n, "fuzz", &t, &e) != YK_OK) {
        if (e.code == YK_OK || e.text[0] == '\0')
            abort(); /* a failure without a sentence */
        return 0;
    }
    volatile float sum = 0; /* read every float, for AddressSanitizer to see */
    for (size_t i = 0; i < t.n; i++)
        for (size_t k = 0; k < t.tensor[i].count; k++)
            sum = sum + t.tensor[i].data[k];
    yk_tensors_release(&t);
    return 0;
}
