/* layer.c - the list of layer kinds, and what several kinds have in common; see layer.h. */
#include "model/net/layer.h"

#include "base/opt.h"

#include <stdio.h>
#include <string.h>

#define TENSOR_MOST ((uint64_t)INT32_MAX)

const struct yk_layer_ops *yk_layer_ops(enum yk_layer_kind kind)
{
#define COLLECT(name) &yk_layer_##name,
    static const struct yk_layer_ops *const OPS[] = {YK_LAYER_KINDS(COLLECT)};
    return OPS[kind];
}

const char *yk_layer_name(enum yk_layer_kind kind)
{
    return yk_layer_ops(kind)->name;
}

uint64_t yk_shape_numbers(struct yk_shape s)
{
    return (uint64_t)s.c * s.h * s.w;
}

const char *yk_shape_text(struct yk_shape s, char out[40])
{
    if (s.h == 1 && s.w == 1)
        snprintf(out, 40, "%u", s.c);
    else
        snprintf(out, 40, "%ux%ux%u", s.h, s.w, s.c);
    return out;
}

yk_code yk_shape_check(struct yk_shape s, const struct yk_layer *l, const char *file,
                       struct yk_error *e)
{
    uint64_t n;
    if (!__builtin_mul_overflow((uint64_t)s.h * s.w, (uint64_t)s.c, &n) && n <= TENSOR_MOST)
        return YK_OK;
    return YK_LAYER_FAIL(l, file, e, "%ux%ux%u are more than 2^31 - 1 numbers", s.h, s.w, s.c);
}

void yk_shape_same(struct yk_layer *l, uint64_t each)
{
    l->out = l->in;
    l->flops = each * yk_shape_numbers(l->in); /* at most 2^22 x 2^31 */
}

void yk_layer_view(const struct yk_layer *l, const char *which, uint32_t ndim,
                   const uint64_t *shape, struct yk_view *out)
{
    *out = (struct yk_view){.ndim = ndim};
    snprintf(out->name, sizeof out->name, "%s.%s", l->name, which);
    memcpy(out->shape, shape, ndim * sizeof *shape);
}

/* --- windows --- */

yk_code yk_read_window(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_pair(r, "the window", 1, l->kernel);
}

yk_code yk_read_stride(struct yk_net_line *r, struct yk_layer *l)
{
    return yk_take_pair(r, "stride", 1, l->stride);
}

/* 2, 2x1 (above and below, left and right) or 0x0x1x1 (top, left, bottom, right) */
yk_code yk_read_pad(struct yk_net_line *r, struct yk_layer *l)
{
    unsigned n = 0, at = r->at;
    yk_code rc = yk_take_sizes(r, "pad", 0, l->pad, 4, &n);
    if (rc != YK_OK)
        return rc;
    if (n == 3) {
        r->at = at;
        return YK_LINE_FAIL(r, "pad is '%.40s': one, two or four numbers are possible",
                            yk_next_word(r));
    }
    if (n == 1)
        l->pad[1] = l->pad[0];
    if (n < 4) {
        l->pad[2] = l->pad[0];
        l->pad[3] = l->pad[1];
    }
    return YK_OK;
}

yk_code yk_slide_window(struct yk_layer *l, const char *file, struct yk_error *e)
{
    const char *name = yk_layer_name(l->kind);
    const uint32_t in[2] = {l->in.h, l->in.w};
    uint32_t out[2];
    char shape[40];
    for (int d = 0; d < 2; d++) {
        uint64_t wide = (uint64_t)in[d] + l->pad[d] + l->pad[d + 2];
        if (l->pad[d] >= l->kernel[d] || l->pad[d + 2] >= l->kernel[d])
            return YK_LAYER_FAIL(
                l, file, e, "%s has a pad of %u, which must be less than its window of %ux%u", name,
                l->pad[d] > l->pad[d + 2] ? l->pad[d] : l->pad[d + 2], l->kernel[0], l->kernel[1]);
        if (l->kernel[d] > wide)
            return YK_LAYER_FAIL(l, file, e,
                                 "the window of %s, %ux%u, is larger than its input, %s%s", name,
                                 l->kernel[0], l->kernel[1], yk_shape_text(l->in, shape),
                                 wide > in[d] ? ", with the padding" : "");
        out[d] = (uint32_t)((wide - l->kernel[d]) / l->stride[d] + 1);
    }
    l->out.h = out[0];
    l->out.w = out[1];
    yk_code rc = yk_shape_check(l->out, l, file, e);
    if (rc == YK_OK && (uint64_t)l->kernel[0] * l->kernel[1] > TENSOR_MOST)
        rc = YK_LAYER_FAIL(l, file, e, "%s has a window of %ux%u: more than 2^31 - 1 places", name,
                           l->kernel[0], l->kernel[1]);
    return rc;
}

/* --- products --- */

yk_code yk_read_bias(struct yk_net_line *r, struct yk_layer *l)
{
    if (yk_next_word(r) != NULL && strcmp(yk_next_word(r), "none") == 0) {
        l->bias = false;
        r->at++;
        return YK_OK;
    }
    return yk_take_number(r, "bias", -1e6, 1e6, &l->bias_start);
}

yk_code yk_read_init(struct yk_net_line *r, struct yk_layer *l)
{
    const char *p = yk_next_word(r);
    if (p == NULL || !yk_choice_has("he|glorot|zero|normal", p))
        return YK_LINE_FAIL(r, "init is '%.40s': he, glorot, zero or normal X are possible",
                            p != NULL ? p : "");
    snprintf(l->init, sizeof l->init, "%s", p);
    l->init_given = true;
    r->at++;
    return strcmp(l->init, "normal") == 0
               ? yk_take_number(r, "the deviation after 'normal'", 1e-12, 1e6, &l->init_scale)
               : YK_OK;
}

unsigned yk_product_views(const struct yk_layer *l, uint32_t ndim, const uint64_t *weight,
                          struct yk_view *out)
{
    yk_layer_view(l, "weight", ndim, weight, &out[0]);
    if (l->bias)
        yk_layer_view(l, "bias", 1, weight, &out[1]);
    return l->bias ? 2 : 1;
}

yk_code yk_count_product(struct yk_layer *l, uint64_t depth, uint64_t places, const char *file,
                         struct yk_error *e)
{
    const char *name = yk_layer_name(l->kind);
    uint64_t bias = l->bias ? l->out.c : 0;
    if (__builtin_mul_overflow((uint64_t)l->out.c, depth, &l->weights) ||
        l->weights > YK_NET_WEIGHTS - bias)
        return YK_LAYER_FAIL(l, file, e, "%s has more than 2^40 parameters", name);
    l->weights += bias;
    if (__builtin_mul_overflow(2 * (l->weights - bias) + bias, places, &l->flops))
        return YK_LAYER_FAIL(l, file, e, "%s takes more than 2^64 operations", name);
    return YK_OK;
}
