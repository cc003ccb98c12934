/* idx.h - the IDX files of MNIST and similar sets of images. The format is drawn in idx.c. */
#ifndef YK_DATA_IMAGES_IDX_H
#define YK_DATA_IMAGES_IDX_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { YK_IDX_DIMS = 4 };

struct yk_idx {
    uint8_t type; /* 0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32, 0x0e f64 */
    uint8_t ndim; /* 1 .. YK_IDX_DIMS */
    uint32_t dim[YK_IDX_DIMS];
    bool gzip;      /* the file was compressed */
    uint64_t bytes; /* bytes of the elements: product of dims times element size */
    /* The elements, big-endian as in the file, 64-byte aligned, followed by YK_ROW_SLACK zero
     * bytes; NULL after _head. */
    uint8_t *data;
};

/* Reads the header alone, and checks it against the length of the file; for .gz, against the most
 * that the file can expand to. */
yk_code yk_idx_head(const char *path, struct yk_idx *out, struct yk_error *e);
/* Reads header and elements. A file shorter or longer than its header says is YK_DATA. */
yk_code yk_idx_read(const char *path, struct yk_idx *out, struct yk_error *e);
/* The same from memory, plain or gzipped; for the fuzz target. */
yk_code yk_idx_parse(const uint8_t *bytes, size_t n, struct yk_idx *out, struct yk_error *e);
void yk_idx_release(struct yk_idx *x);
const char *yk_idx_type_name(uint8_t type); /* "u8", ...; NULL if there is no such type */

#endif
