/* net_shape.c - works out what a .net file leaves to be worked out: shapes, numbers of parameters, operations, starting values; see net.h.
 *
 * It is here that a net is refused whose layers do not fit. The sentence names the layer's place, its window and the shape that it gets,
 * as the file writes shapes: height x width x channels.
 *
 * OPERATIONS of a forward pass, for one example: conv and dense 2 a multiplication, 1 a bias; a pool 1 an element of its windows; lrn
 * 2 an element of its window and 3 more; batchnorm 2; softmax 3; everything else 1 a number that comes out, flatten and dropout 0.
 * LIMITS: sizes are checked before they are multiplied. A tensor between layers has at most 2^31 - 1 numbers, a net at most 2^40
 * parameters. */
#include "model/net.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TENSOR_MOST ((uint64_t)INT32_MAX)
#define WEIGHTS_MOST ((uint64_t)1 << 40)

const char *yk_layer_name(enum yk_layer_kind kind)
{
#define QUOTE(name) #name,
    static const char *const NAMES[] = {YK_LAYER_KINDS(QUOTE)};
    return NAMES[kind];
}

struct place { /* for messages */
    const char *what;
    const struct yk_layer *layer;
    struct yk_error *e;
};

#define FAIL(p, ...)                                                                               \
    yk_net_fail((p)->e, (p)->what, (p)->layer->line, (p)->layer->column, __VA_ARGS__)

yk_code yk_net_fail(struct yk_error *e, const char *what, uint32_t line, uint32_t column,
                    const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return yk_fail(e, YK_USAGE, "%.200s:%u:%u: %s", what, line, column, text);
}

static uint64_t numbers(struct yk_shape s)
{
    return (uint64_t)s.c * s.h * s.w; /* of a shape that was checked */
}

/* "28x28x6"; a list is "120" */
static const char *shape_text(struct yk_shape s, char out[40])
{
    if (s.h == 1 && s.w == 1)
        snprintf(out, 40, "%u", s.c);
    else
        snprintf(out, 40, "%ux%ux%u", s.h, s.w, s.c);
    return out;
}

static yk_code check_tensor(const struct place *p, struct yk_shape s)
{
    uint64_t n;
    if (!__builtin_mul_overflow((uint64_t)s.h * s.w, (uint64_t)s.c, &n) && n <= TENSOR_MOST)
        return YK_OK;
    return FAIL(p, "%ux%ux%u are more than 2^31 - 1 numbers", s.h, s.w, s.c);
}

/* Height and width after a window has gone over the input. */
static yk_code slide(const struct place *p, struct yk_layer *l)
{
    const uint32_t in[2] = {l->in.h, l->in.w};
    uint32_t out[2];
    char shape[40];
    for (int d = 0; d < 2; d++) {
        uint64_t wide = (uint64_t)in[d] + l->pad[d] + l->pad[d + 2];
        if (l->pad[d] >= l->kernel[d] || l->pad[d + 2] >= l->kernel[d])
            return FAIL(p, "%s pads by %u, which is not less than its window of %ux%u",
                        yk_layer_name(l->kind),
                        l->pad[d] > l->pad[d + 2] ? l->pad[d] : l->pad[d + 2], l->kernel[0],
                        l->kernel[1]);
        if (l->kernel[d] > wide)
            return FAIL(p, "%s needs an input of at least its window, %ux%u, and gets %s%s",
                        yk_layer_name(l->kind), l->kernel[0], l->kernel[1],
                        shape_text(l->in, shape),
                        wide > in[d] ? " with too few zeros around it" : "");
        out[d] = (uint32_t)((wide - l->kernel[d]) / l->stride[d] + 1);
    }
    l->out.h = out[0];
    l->out.w = out[1];
    return YK_OK;
}

/* Parameters and operations of `rows` x `depth` weights, applied at `places`. */
static yk_code count_product(const struct place *p, struct yk_layer *l, uint64_t rows,
                             uint64_t depth, uint64_t places)
{
    uint64_t bias = l->bias ? rows : 0;
    if (__builtin_mul_overflow(rows, depth, &l->weights) || l->weights > WEIGHTS_MOST - bias)
        return FAIL(p, "%s has more than 2^40 parameters", yk_layer_name(l->kind));
    l->weights += bias;
    if (__builtin_mul_overflow(2 * (l->weights - bias) + bias, places, &l->flops))
        return FAIL(p, "%s takes more than 2^64 operations", yk_layer_name(l->kind));
    return YK_OK;
}

static yk_code shape_conv(const struct place *p, struct yk_layer *l)
{
    char shape[40];
    if (l->in.c % l->groups != 0 || l->out.c % l->groups != 0)
        return FAIL(p,
                    "conv with %u groups needs channels that they divide, and gets %s to make %u",
                    l->groups, shape_text(l->in, shape), l->out.c);
    yk_code rc = slide(p, l);
    if (rc == YK_OK)
        rc = check_tensor(p, l->out);
    if (rc == YK_OK && (uint64_t)l->kernel[0] * l->kernel[1] > TENSOR_MOST)
        rc = FAIL(p, "%s has a window of %ux%u: more than 2^31 - 1 places", yk_layer_name(l->kind),
                  l->kernel[0], l->kernel[1]);
    if (rc != YK_OK)
        return rc;
    uint64_t window = (uint64_t)l->kernel[0] * l->kernel[1], depth;
    if (__builtin_mul_overflow(window, (uint64_t)(l->in.c / l->groups), &depth))
        return FAIL(p, "conv has more than 2^40 parameters");
    return count_product(p, l, l->out.c, depth, (uint64_t)l->out.h * l->out.w);
}

static yk_code shape_pool(const struct place *p, struct yk_layer *l)
{
    l->out.c = l->in.c;
    yk_code rc = slide(p, l);
    if (rc == YK_OK)
        rc = check_tensor(p, l->out);
    if (rc == YK_OK && (uint64_t)l->kernel[0] * l->kernel[1] > TENSOR_MOST)
        rc = FAIL(p, "%s has a window of %ux%u: more than 2^31 - 1 places", yk_layer_name(l->kind),
                  l->kernel[0], l->kernel[1]);
    if (rc != YK_OK)
        return rc;
    if (__builtin_mul_overflow((uint64_t)l->kernel[0] * l->kernel[1], numbers(l->out), &l->flops))
        return FAIL(p, "%s takes more than 2^64 operations", yk_layer_name(l->kind));
    return YK_OK;
}

static yk_code shape_dense(const struct place *p, struct yk_layer *l)
{
    l->out.h = l->out.w = 1;
    return count_product(p, l, l->out.c, numbers(l->in), 1);
}

static yk_code shape_same(const struct place *p, struct yk_layer *l)
{
    (void)p;
    uint64_t each = l->kind == YK_LAYER_lrn         ? 2 * (uint64_t)l->size + 3
                    : l->kind == YK_LAYER_batchnorm ? 2
                                                    : 1;
    l->out = l->in;
    l->flops = l->kind == YK_LAYER_dropout ? 0 : each * numbers(l->in); /* at most 2^21 x 2^31 */
    l->weights = l->kind == YK_LAYER_batchnorm ? 2 * (uint64_t)l->in.c : 0;
    return YK_OK;
}

static yk_code shape_flatten(const struct place *p, struct yk_layer *l)
{
    (void)p;
    l->out = (struct yk_shape){(uint32_t)numbers(l->in), 1, 1};
    return YK_OK;
}

static yk_code shape_softmax(const struct place *p, struct yk_layer *l)
{
    char shape[40];
    if (l->in.h != 1 || l->in.w != 1 || l->in.c < 2 || l->in.c > YK_NET_CLASSES) {
        FAIL(p, "softmax needs one number a class, 2 to %d of them, and gets %s", YK_NET_CLASSES,
             shape_text(l->in, shape));
        yk_hint(p->e, "'dense N' before it gives a number to each of N classes");
        return YK_USAGE;
    }
    l->out = l->in;
    l->flops = 3 * (uint64_t)l->in.c;
    return YK_OK;
}

static yk_code (*const SHAPE[YK_LAYER_COUNT])(const struct place *, struct yk_layer *) = {
    [YK_LAYER_conv] = shape_conv,       [YK_LAYER_maxpool] = shape_pool,
    [YK_LAYER_avgpool] = shape_pool,    [YK_LAYER_dense] = shape_dense,
    [YK_LAYER_relu] = shape_same,       [YK_LAYER_tanh] = shape_same,
    [YK_LAYER_sigmoid] = shape_same,    [YK_LAYER_lrn] = shape_same,
    [YK_LAYER_dropout] = shape_same,    [YK_LAYER_batchnorm] = shape_same,
    [YK_LAYER_flatten] = shape_flatten, [YK_LAYER_softmax] = shape_softmax,
};

/* Weights before a relu begin larger, since it drops half of what passes. */
static bool meets_relu(const struct yk_net *n, unsigned i)
{
    while (++i < n->layers)
        switch (n->layer[i].kind) {
        case YK_LAYER_relu:
            return true;
        case YK_LAYER_batchnorm:
        case YK_LAYER_dropout:
        case YK_LAYER_flatten:
        case YK_LAYER_maxpool:
        case YK_LAYER_avgpool:
        case YK_LAYER_lrn:
            break;
        default:
            return false;
        }
    return false;
}

yk_code yk_net_shape(const char *what, struct yk_net *n, struct yk_error *e)
{
    struct yk_shape now = n->input;
    n->weights = n->flops = 0;
    for (unsigned i = 0; i < n->layers; i++) {
        struct yk_layer *l = &n->layer[i];
        struct place p = {what, l, e};
        l->in = now;
        yk_code rc = i == 0
                         ? check_tensor(&p, now)
                         : YK_OK; /* the input: those of layers are checked where they are made */
        if (rc == YK_OK)
            rc = SHAPE[l->kind](&p, l);
        if (rc != YK_OK)
            return rc;
        if (l->kind == YK_LAYER_softmax && i + 1 < n->layers) {
            p.layer = &n->layer[i + 1];
            return FAIL(&p, "'%s' stands behind softmax, which is the last layer",
                        yk_layer_name(p.layer->kind));
        }
        if (!l->init_said)
            snprintf(l->init, sizeof l->init, "%s", meets_relu(n, i) ? "he" : "glorot");
        n->weights += l->weights; /* of 512 layers at most: no overflow */
        if (n->weights > WEIGHTS_MOST)
            return FAIL(&p, "the layers up to here have more than 2^40 parameters");
        if (__builtin_add_overflow(n->flops, l->flops, &n->flops))
            return FAIL(&p, "the layers up to here take more than 2^64 operations");
        now = l->out;
    }
    if (n->layers == 0 || n->layer[n->layers - 1].kind != YK_LAYER_softmax) {
        unsigned line = n->layers > 0 ? n->layer[n->layers - 1].line : 1;
        return yk_net_fail(e, what, line, 1, "the last layer is not softmax");
    }
    if (n->weights == 0)
        return yk_net_fail(e, what, n->layer[0].line, 1,
                           "the net has nothing to learn: no conv, dense or batchnorm");
    n->classes = now.c;
    return YK_OK;
}

static void view(struct yk_view *out, const struct yk_layer *l, const char *which, uint32_t ndim,
                 const uint64_t *shape)
{
    *out = (struct yk_view){.ndim = ndim};
    snprintf(out->name, sizeof out->name, "%s.%s", l->name, which);
    memcpy(out->shape, shape, ndim * sizeof *shape);
}

unsigned yk_net_views(const struct yk_net *n, struct yk_view *out)
{
    unsigned views = 0;
    for (unsigned i = 0; i < n->layers; i++) {
        const struct yk_layer *l = &n->layer[i];
        const uint64_t channels = l->out.c;
        const uint64_t conv[] = {channels, l->groups > 0 ? l->in.c / l->groups : 0, l->kernel[0],
                                 l->kernel[1]};
        const uint64_t dense[] = {channels, numbers(l->in)};
        if (l->kind == YK_LAYER_conv)
            view(&out[views++], l, "weight", 4, conv);
        if (l->kind == YK_LAYER_dense)
            view(&out[views++], l, "weight", 2, dense);
        if ((l->kind == YK_LAYER_conv || l->kind == YK_LAYER_dense) && l->bias)
            view(&out[views++], l, "bias", 1, &channels);
        if (l->kind == YK_LAYER_batchnorm) {
            static const char *const WHICH[] = {"weight", "bias", "mean", "var"};
            for (int k = 0; k < 4; k++)
                view(&out[views++], l, WHICH[k], 1, &channels);
        }
    }
    return views;
}
