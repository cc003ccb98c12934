/* matrix.c - a matrix whose blocks can be read in any order: made from a seed, or in an .npy file.
 *
 * A made matrix needs no memory and no messages: element (r, c) is a hash of the seed, r and c,
 * uniform in [-1, 1]. The row's number is hashed well, to 64 bits; within a row there are two
 * rounds of multiply and shift on 32 bits, which compilers turn into vectors: a third of a
 * nanosecond each.
 * THREADS: reading changes nothing. */
#include "matmul/rank.h"

#include "base/rng.h"
#include "base/wide.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>

enum { SAMPLE = 1 << 16 }; /* bytes of a file's beginning, middle and end that are compared */

void yk_matrix_make(struct yk_matrix *x, uint64_t n, uint64_t seed, int which)
{
    *x = (struct yk_matrix){.made = true,
                            .rows = n,
                            .cols = n,
                            .seed = seed,
                            .which = (uint64_t)which,
                            .file = {.fd = -1}};
}

yk_code yk_matrix_open(struct yk_matrix *x, const char *path, struct yk_error *e)
{
    *x = (struct yk_matrix){.file = {.fd = -1}};
    yk_code rc = yk_npy_open(&x->file, path, e);
    x->rows = x->file.rows;
    x->cols = x->file.cols;
    return rc;
}

void yk_matrix_close(struct yk_matrix *x)
{
    yk_npy_close(&x->file);
}

YK_WIDE static void make_row(float *out, uint32_t first, uint64_t n, uint32_t key, uint32_t key2)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t h = (uint32_t)i + first + key;
        h ^= h >> 16;
        h *= 0x7feb352du;
        h ^= key2;
        h ^= h >> 15;
        h *= 0x846ca68bu;
        h ^= h >> 16;
        out[i] = (float)(int32_t)h * 0x1p-31f;
    }
}

/* Floats at the beginning of the row become doubles, from the end on, so that none is overwritten
 * before it is read. */
static void widen(double *row, uint64_t n)
{
    const char *from = (const char *)row;
    for (uint64_t i = n; i-- > 0;) {
        float v;
        memcpy(&v, from + i * sizeof v, sizeof v);
        row[i] = (double)v;
    }
}

yk_code yk_matrix_read(const struct yk_matrix *x, const struct yk_rect *b, enum yk_float type,
                       void *out, struct yk_error *e)
{
    if (!x->made)
        return yk_npy_read(&x->file, b, type, out, e);
    for (uint64_t r = 0; r < b->rows; r++) {
        struct yk_rng rng;
        void *row = (char *)out + r * b->cols * type;
        yk_rng_init(&rng, x->seed, x->which, b->row + r, 0);
        uint64_t key = yk_rng_next(&rng);
        make_row(row, (uint32_t)b->col, b->cols, (uint32_t)key, (uint32_t)(key >> 32));
        if (type == YK_F64)
            widen(row, b->cols);
    }
    return YK_OK;
}

yk_code yk_matrix_mark(const struct yk_matrix *x, uint64_t *mark, struct yk_error *e)
{
    struct stat s;
    *mark = 0;
    if (x->made)
        return YK_OK;
    if (fstat(x->file.fd, &s) != 0)
        return yk_fail_errno(e, YK_DATA, "cannot read '%s'", x->file.path);
    unsigned char *bytes = malloc(SAMPLE);
    if (bytes == NULL)
        return yk_fail_memory(e, SAMPLE);
    uint64_t size = (uint64_t)s.st_size, hash = size;
    const uint64_t at[3] = {0, size / 2, size > SAMPLE ? size - SAMPLE : 0};
    yk_code rc = YK_OK;
    for (int i = 0; i < 3 && rc == YK_OK; i++) {
        ssize_t n = pread(x->file.fd, bytes, SAMPLE, (off_t)at[i]);
        if (n < 0)
            rc = yk_fail_errno(e, YK_DATA, "cannot read '%s'", x->file.path);
        else
            hash = XXH3_64bits_withSeed(bytes, (size_t)n, hash);
    }
    free(bytes);
    *mark = hash;
    return rc;
}

bool yk_matrix_far(const struct yk_matrix *x)
{
    /* NFS, SMB and its successors, CIFS, FUSE, Ceph, Lustre, AFS, 9P */
    static const uint32_t FAR[] = {0x6969,     0x517b,     0xfe534d42, 0xff534d42, 0x65735546,
                                   0x00c36400, 0x0bd00bd0, 0x5346414f, 0x01021997};
    struct statfs s;
    if (x->made || fstatfs(x->file.fd, &s) != 0)
        return false;
    for (size_t i = 0; i < sizeof FAR / sizeof FAR[0]; i++)
        if ((uint32_t)s.f_type == FAR[i])
            return true;
    return false;
}
