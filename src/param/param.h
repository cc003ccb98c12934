/* param.h - the parameters of a model: one flat buffer of floats with named views into it.
 *
 * Views are laid out in the order of their names, each starting on a 64-byte line; the gap before the next one is zero and
 * stays zero. So a contiguous range [lo, hi) of the flat buffer is all an optimizer or an owner needs to know, and the
 * canonical order (names sorted, no gaps) of a checkpoint or a hash is the order in memory. */
#ifndef YK_PARAM_PARAM_H
#define YK_PARAM_PARAM_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { YK_DIMS = 4, YK_NAME = 64 };

struct yk_view {
    char name[YK_NAME]; /* "softmax.weight" */
    uint32_t ndim;      /* 1 .. YK_DIMS */
    uint64_t shape[YK_DIMS];
    size_t at;    /* first float in the flat buffer; set by yk_params_init */
    size_t count; /* product of shape; set by yk_params_init */
};

struct yk_params {
    float *
        flat; /* (count) 64-byte aligned, huge pages where they help; NULL in a layout without memory */
    size_t count;         /* floats, gaps included */
    size_t weights;       /* floats, gaps excluded: what people mean by "parameters" */
    struct yk_view *view; /* (views) sorted by name */
    size_t views;
};

/* Lay out `n` views (name and shape given), without memory. Duplicate or over-long names and empty shapes are YK_USAGE. */
yk_code yk_params_layout(struct yk_params *p, const struct yk_view *spec, size_t n,
                         struct yk_error *e);
/* The same, and a zeroed buffer. */
yk_code yk_params_init(struct yk_params *p, const struct yk_view *spec, size_t n,
                       struct yk_error *e);
void yk_params_release(struct yk_params *p);

const struct yk_view *yk_params_find(const struct yk_params *p,
                                     const char *name); /* NULL if absent */

/* 16 hex digits: XXH3-64 of the floats in canonical order (little-endian, gaps left out). */
void yk_params_hash(const struct yk_params *p, char out[17]);

/* A flat float buffer of `count` zeros, aligned as params are; free with yk_floats_free. NULL if there is no memory. */
float *yk_floats(size_t count);
void yk_floats_free(float *f);

#endif
