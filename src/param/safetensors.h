/* safetensors.h - reads and writes the safetensors format, drawn in safetensors.c. float32 only: all that yoke stores. */
#ifndef YK_PARAM_SAFETENSORS_H
#define YK_PARAM_SAFETENSORS_H

#include "base/error.h"
#include "param/param.h"

#include <stddef.h>
#include <stdint.h>

struct yk_tensor {
    char name[2 * YK_NAME];
    uint32_t ndim;
    uint64_t shape[YK_DIMS];
    size_t count;      /* product of shape */
    const float *data; /* writing: the caller's; reading: into the file's buffer */
    /* Writing, where nobody has them all at once (data is NULL): floats [at, at + n) of it into `to`, asked for once and in order. */
    yk_code (*read)(void *arg, size_t at, size_t n, float *to, struct yk_error *e);
    void *arg;
};

struct yk_meta { /* one entry of __metadata__ */
    char key[32];
    char value[4096]; /* a path fits */
};

struct yk_tensors {           /* a file in memory */
    struct yk_tensor *tensor; /* (n) sorted by name */
    size_t n;
    struct yk_meta *meta; /* (metas) sorted by key */
    size_t metas;
    void *buffer;  /* what `data` points into */
    size_t mapped; /* bytes, if it is a mapped file */
};

/* Atomic (see file.h). Tensors and metadata in any order; they are written sorted by name. Adds the metadata "xxh3", the
 * XXH3-64 of all tensor bytes in file order, which reading checks. */
yk_code yk_tensors_write(const char *path, const struct yk_tensor *tensor, size_t n,
                         const struct yk_meta *meta, size_t metas, struct yk_error *e);

/* YK_DATA for anything that is not a whole, well-formed file of float32 tensors: header length past the end or above 64 MB, bad JSON, holes,
 * overlaps, shapes that do not match their bytes, a wrong xxh3. A file without "xxh3" (written by others) is accepted. */
yk_code yk_tensors_read(const char *path, struct yk_tensors *out, struct yk_error *e);
yk_code yk_tensors_parse(const void *bytes, size_t n, const char *what, struct yk_tensors *out,
                         struct yk_error *e); /* copies */
void yk_tensors_release(struct yk_tensors *t);

const struct yk_tensor *yk_tensors_find(const struct yk_tensors *t,
                                        const char *name);                /* NULL if absent */
const char *yk_tensors_meta(const struct yk_tensors *t, const char *key); /* NULL if absent */

#endif
