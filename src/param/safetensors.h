/* safetensors.h - reads and writes the safetensors format, which is drawn in safetensors.c.
 * LIMITS: float32 only, which is all that yoke stores. */
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
    const float *data; /* writing: owned by the caller; reading: points into the file's buffer */
    /* Writing with `data` NULL: copies floats [at, at + n) into `to`. Each float is asked for once,
     * in order, so no process needs to hold the whole tensor. */
    yk_code (*read)(void *arg, size_t at, size_t n, float *to, struct yk_error *e);
    void *arg;
    /* Writing: if not NULL, an infinite or NaN value sets it and the file is not written. */
    bool *broken;
};

/* One entry of __metadata__. */
struct yk_meta {
    char key[32];
    char value[4096]; /* large enough for a path */
};

/* A file in memory. */
struct yk_tensors {
    struct yk_tensor *tensor; /* (n) sorted by name */
    size_t n;
    struct yk_meta *meta; /* (metas) sorted by key */
    size_t metas;
    void *buffer;   /* holds the data of all tensors */
    size_t mapped;  /* bytes of the buffer if it is a mapped file, else 0 */
    unsigned guard; /* guards the mapping; see base/guard.h */
};

/* Writes a file atomically (see file.h). Tensors and metadata may come in any order; they are
 * written sorted by name, with checksums, which reading verifies. YK_FAILED if a tensor is
 * `broken`. */
yk_code yk_tensors_write(const char *path, const struct yk_tensor *tensor, size_t n,
                         const struct yk_meta *meta, size_t metas, struct yk_error *e);

/* Reads a file, or parses a copy of `bytes`. YK_DATA unless it is a whole, well-formed file of
 * float32 tensors: no header longer than the file or 64 MB, no bad JSON, holes, overlaps, shapes
 * that do not match their bytes, or wrong checksums. Files of other programs need no checksums. */
yk_code yk_tensors_read(const char *path, struct yk_tensors *out, struct yk_error *e);
yk_code yk_tensors_parse(const void *bytes, size_t n, const char *what, struct yk_tensors *out,
                         struct yk_error *e);
/* To be called after the data have been used: YK_DATA if the file shrank meanwhile, so that some of
 * the data were zeros. */
yk_code yk_tensors_intact(const struct yk_tensors *t, const char *path, struct yk_error *e);
void yk_tensors_release(struct yk_tensors *t);

/* NULL if there is no tensor of this name. */
const struct yk_tensor *yk_tensors_find(const struct yk_tensors *t, const char *name);
/* The tensor named `prefix` plus the view's name, if it has the view's shape; else NULL. */
const struct yk_tensor *yk_tensors_view(const struct yk_tensors *t, const char *prefix,
                                        const struct yk_view *v);
/* NULL if there is no metadata of this key. */
const char *yk_tensors_meta(const struct yk_tensors *t, const char *key);

/* Reads a count from the metadata: digits alone, at most 2^53, the limit of whole numbers in a
 * double. False for anything else. */
bool yk_tensors_count(const struct yk_tensors *t, const char *key, uint64_t *out);

#endif
