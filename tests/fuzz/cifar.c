/* cifar.c - fuzz target: any bytes either are CIFAR-10 records, with every pixel and label, or give
 * one error message. */
#include "data/images/cifar.h"

#include <stdbool.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool promise)
{
    if (!promise)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct yk_error e = {0};
    size_t records = n / YK_CIFAR_RECORD;
    /* exactly as many as there are, so that a sanitizer sees one too many */
    uint8_t *pixels = malloc(records * YK_CIFAR_PIXELS + 1);
    uint16_t *labels = malloc(records * sizeof *labels + 1);
    if (pixels == NULL || labels == NULL)
        abort();
    yk_code rc = yk_cifar_parse(bytes, n, "(memory)", 0, pixels, labels, &e);
    if (rc != YK_OK) {
        must(rc == YK_DATA && e.code == rc && e.text[0] != '\0');
        bool wrong = n % YK_CIFAR_RECORD != 0;
        for (size_t i = 0; i < records; i++)
            wrong = wrong || bytes[i * YK_CIFAR_RECORD] >= YK_CIFAR_CLASSES;
        must(wrong);
    }
    for (size_t i = 0; rc == YK_OK && i < records; i++) {
        must(labels[i] == bytes[i * YK_CIFAR_RECORD] && labels[i] < YK_CIFAR_CLASSES);
        for (size_t k = 0; k < YK_CIFAR_PIXELS; k++)
            must(pixels[i * YK_CIFAR_PIXELS + k] ==
                 bytes[i * YK_CIFAR_RECORD + 1 + k % 3 * 1024 + k / 3]);
    }
    free(pixels);
    free(labels);
    return 0;
}
