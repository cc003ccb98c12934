/* cifar.h - CIFAR-10's binary version. The format is drawn in cifar.c. */
#ifndef YK_DATA_IMAGES_CIFAR_H
#define YK_DATA_IMAGES_CIFAR_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    YK_CIFAR_SIDE = 32,
    YK_CIFAR_PIXELS = 3 * YK_CIFAR_SIDE * YK_CIFAR_SIDE,
    YK_CIFAR_RECORD = 1 + YK_CIFAR_PIXELS,
    YK_CIFAR_CLASSES = 10
};

/* Turns `n` bytes of whole records into images (32, 32, 3) and labels. The first record is number
 * `first` of the file `name`, for messages. A length that is no multiple of a record's, or a label
 * past 9, is YK_DATA. */
yk_code yk_cifar_parse(const uint8_t *bytes, size_t n, const char *name, uint64_t first,
                       uint8_t *pixels, uint16_t *labels, struct yk_error *e);

#endif
