/* net_shape.c - works out what a .net file leaves open: shapes, numbers of parameters, operations,
 * kinds of starting values; see net.h. The kinds of layers do that for themselves (layer.h), layer
 * after layer.
 *
 * A net whose layers do not fit is refused here. The message names the layer's place, its window
 * and the shape that it gets, as files write shapes: height x width x channels.
 * LIMITS: sizes are checked before they are multiplied. A tensor between layers has at most 2^31 -
 * 1 numbers, a net at most 2^40 parameters. */
#include "model/net/layer.h"

#include <stdarg.h>
#include <stdio.h>

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

/* Weights before a relu start larger, since it drops half of what passes. */
static bool meets_relu(const struct yk_net *n, unsigned i)
{
    while (++i < n->layers)
        if (n->layer[i].kind == YK_LAYER_relu)
            return true;
        else if (!yk_layer_ops(n->layer[i].kind)->passes_relu)
            return false;
    return false;
}

yk_code yk_net_shape(const char *what, struct yk_net *n, struct yk_error *e)
{
    struct yk_shape now = n->input;
    yk_code rc = YK_OK;
    n->weights = n->flops = 0;
    /* The input; shapes that layers put out are checked where they are made. */
    if (n->layers > 0 && (rc = yk_shape_check(now, &n->layer[0], what, e)) != YK_OK)
        return rc;
    for (unsigned i = 0; i < n->layers; i++) {
        struct yk_layer *l = &n->layer[i];
        l->in = now;
        const struct yk_layer_ops *ops = yk_layer_ops(l->kind);
        if (ops->shape == NULL)
            yk_shape_same(l, ops->flops_each);
        else if ((rc = ops->shape(l, what, e)) != YK_OK)
            return rc;
        if (l->kind == YK_LAYER_softmax && i + 1 < n->layers)
            return YK_LAYER_FAIL(l + 1, what, e,
                                 "'%s' stands behind softmax, which is the last layer",
                                 yk_layer_name(l[1].kind));
        if (!l->init_given)
            snprintf(l->init, sizeof l->init, "%s", meets_relu(n, i) ? "he" : "glorot");
        n->weights += l->weights; /* of 512 layers at most: no overflow */
        if (n->weights > YK_NET_WEIGHTS)
            return YK_LAYER_FAIL(l, what, e,
                                 "the layers up to here have more than 2^40 parameters");
        if (__builtin_add_overflow(n->flops, l->flops, &n->flops))
            return YK_LAYER_FAIL(l, what, e,
                                 "the layers up to here take more than 2^64 operations");
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

unsigned yk_net_views(const struct yk_net *n, struct yk_view *out)
{
    unsigned views = 0;
    for (unsigned i = 0; i < n->layers; i++)
        if (yk_layer_ops(n->layer[i].kind)->views != NULL)
            views += yk_layer_ops(n->layer[i].kind)->views(&n->layer[i], out + views);
    return views;
}
