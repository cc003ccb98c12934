/* param.h - the parameters of a model: one flat buffer of floats with named views into it.
 *
 * Views are laid out in the order of their names, each starting on a 64-byte line; the gap before
 * the next view is zero and stays zero. So an optimizer or an owner needs to know only a range [lo,
 * hi) of the flat buffer, and the canonical order of a checkpoint or a hash (names sorted, no gaps)
 * is the order in memory. */
#ifndef YK_PARAM_PARAM_H
#define YK_PARAM_PARAM_H

#include "base/error.h"

#include <stdbool.h>
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
    float *flat;          /* (count) 64-byte aligned; NULL in a layout without memory */
    size_t count;         /* floats with gaps */
    size_t weights;       /* floats without gaps: the usual "number of parameters" */
    struct yk_view *view; /* (views) sorted by name */
    size_t views;
};

/* Lays out `n` views, of which name and shape are given, without memory for the floats. Duplicate
 * or overlong names and empty shapes are YK_USAGE. */
yk_code yk_params_layout(struct yk_params *p, const struct yk_view *spec, size_t n,
                         struct yk_error *e);
/* The same with a zeroed buffer. */
yk_code yk_params_init(struct yk_params *p, const struct yk_view *spec, size_t n,
                       struct yk_error *e);
void yk_params_release(struct yk_params *p);

/* NULL if there is no view of this name. */
const struct yk_view *yk_params_find(const struct yk_params *p, const char *name);

/* 16 hex digits: XXH3-64 of the floats in canonical order. */
void yk_params_hash(const struct yk_params *p, char out[17]);

/* A buffer of `count` zeros with the alignment of parameters, to be freed with yk_floats_free. NULL
 * if there is no memory. */
float *yk_floats(size_t count);
void yk_floats_free(float *f);

/* True if no value is infinite or NaN. */
bool yk_floats_finite(const float *v, size_t n);

#endif
