/* idx.h - the IDX files in which MNIST and its kin come. The format is drawn in idx.c. */
#ifndef YK_DATA_IDX_H
#define YK_DATA_IDX_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { YK_IDX_DIMS = 4 };

struct yk_idx {
    uint8_t type; /* 0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32, 0x0e f64 */
    uint8_t ndim; /* 1 .. YK_IDX_DIMS */
    uint32_t dim[YK_IDX_DIMS];
    bool gzip;      /* the file was compressed */
    uint64_t bytes; /* length of the elements: product of dims times element size */
    /* The elements, big-endian as in the file, 64-byte aligned, YK_ROW_SLACK zero bytes behind; NULL after _head. */
    uint8_t *data;
};

/* The header alone, checked against the length of the file (for .gz: against what the compressed length allows). */
yk_code yk_idx_head(const char *path, struct yk_idx *out, struct yk_error *e);
/* Header and elements. A file shorter or longer than its header says is YK_DATA. */
yk_code yk_idx_read(const char *path, struct yk_idx *out, struct yk_error *e);
/* The same from memory (plain or gzipped): the fuzz target, and nothing else, needs it. */
yk_code yk_idx_parse(const uint8_t *bytes, size_t n, struct yk_idx *out, struct yk_error *e);
void yk_idx_release(struct yk_idx *x);
const char *yk_idx_type_name(uint8_t type); /* "u8", ...; NULL if there is no such type */

#endif
