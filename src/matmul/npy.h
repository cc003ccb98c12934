/* npy.h - matrices in NumPy's .npy files, read and written block by block, so that a matrix may be
 * larger than memory.
 *
 *     struct yk_npy a;
 *     if (yk_npy_open(&a, "A.npy", &e) == YK_OK)
 *         yk_npy_read(&a, &(struct yk_rect){r0, c0, rows, cols}, YK_F32, out, &e);
 *
 * Matrices of float32 and float64, little-endian, in C or Fortran order; anything else is refused
 * by name. Files are written as float32 in C order. npy.c draws the format.
 * THREADS: any number; calls share nothing but the file descriptor. */
#ifndef YK_MATMUL_NPY_H
#define YK_MATMUL_NPY_H

#include "base/file.h"

enum { YK_NPY_HEADER = 128 }; /* bytes of the header that we write */

enum yk_float { YK_F32 = 4, YK_F64 = 8 }; /* bytes of one */

struct yk_npy {
    int fd; /* -1: not open */
    char path[YK_PATH_MAX];
    enum yk_float type;
    bool fortran; /* column after column */
    uint64_t rows, cols;
    uint64_t offset; /* of the first element */
};

struct yk_rect { /* a rectangle of a matrix */
    uint64_t row, col, rows, cols;
};

/* The header alone, from the first `n` bytes of a file of `size` bytes. */
yk_code yk_npy_parse(struct yk_npy *f, const void *bytes, size_t n, uint64_t size, const char *path,
                     struct yk_error *e);

yk_code yk_npy_open(struct yk_npy *f, const char *path, struct yk_error *e);
void yk_npy_close(struct yk_npy *f); /* a zeroed struct, or one that is closed, is fine */

/* A block, as floats or doubles, row after row without gaps. It must lie within the matrix. A file
 * that has become shorter is YK_DATA. */
yk_code yk_npy_read(const struct yk_npy *f, const struct yk_rect *b, enum yk_float type, void *out,
                    struct yk_error *e);

/* The header of a float32 matrix in C order, to be followed by its rows. */
void yk_npy_header(unsigned char out[YK_NPY_HEADER], uint64_t rows, uint64_t cols);
/* A block into its place in such a file, of `columns` a row; `ld` floats from row to row of
 * `in`. */
yk_code yk_npy_write(int fd, const char *path, uint64_t columns, const struct yk_rect *b,
                     const float *in, uint64_t ld, struct yk_error *e);

#endif
