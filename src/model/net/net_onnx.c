/* net_onnx.c - trained models in ONNX's operators; see net_onnx.h.
 *
 *     pixels (N, H, W, C) - Mul 1/255 - Transpose (N, C, H, W) [- Sub mean - Div deviation]
 *         - layers - Softmax - probabilities (N, classes)
 *
 * A layer NAME writes the tensor NAME/out; names of layers have no slash, so no other tensor has
 * that name. Between layers tensors have four dimensions or, after dense and flatten, two; a layer
 * that needs the other form gets a Flatten or a Reshape before it. */
#include "model/net/net_onnx.h"

#include "model/net/layer.h"

#include <stdio.h>
#include <string.h>

enum { NAME = YK_ONNX_NAME };

static const float SCALE = 1.0f / 255; /* of every set of images */

/* A node that reads `now` and up to four tensors more, and writes "LABEL/out", or what `out`
 * says. */
static void node(struct yk_onnx_builder *b, const char *op, const char *label,
                 const char *const *more, unsigned n, const char *out, struct yk_buf *attributes)
{
    const char *in[5] = {b->now};
    char to[NAME];
    for (unsigned i = 0; i < n; i++)
        in[i + 1] = more[i];
    snprintf(to, sizeof to, "%.*s%s", NAME - 5, out != NULL ? out : label,
             out != NULL ? "" : "/out");
    yk_onnx_node(&b->graph, op, label, in, n + 1, to, attributes);
    memcpy(b->now, to, sizeof to);
}

void yk_onnx_op(struct yk_onnx_builder *b, const char *op, const char *label,
                struct yk_buf *attributes)
{
    node(b, op, label, NULL, 0, NULL, attributes);
}

/* With a constant: one number a channel or for all, (n, 1, 1) or (1). */
static void with_constant(struct yk_onnx_builder *b, const char *op, const char *label,
                          const float *v, uint32_t n)
{
    const uint64_t shape[] = {n, 1, 1};
    char name[NAME];
    const char *more[] = {name};
    snprintf(name, sizeof name, "%s/value", label);
    yk_onnx_floats(&b->graph, name, n > 1 ? 3 : 1, shape, v);
    node(b, op, label, more, 1, NULL, NULL);
}

void yk_onnx_flatten(struct yk_onnx_builder *b, const char *label)
{
    struct yk_buf attributes = {0};
    if (b->flat)
        return;
    yk_onnx_int(&attributes, "axis", 1);
    yk_onnx_op(b, "Flatten", label, &attributes);
    b->flat = true;
}

void yk_onnx_flatten_before(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    char label[NAME];
    snprintf(label, sizeof label, "%s/flat", l->name);
    yk_onnx_flatten(b, label);
}

void yk_onnx_images(struct yk_onnx_builder *b, const struct yk_layer *l)
{
    const int64_t shape[] = {-1, l->in.c, l->in.h, l->in.w};
    char label[NAME], name[NAME];
    const char *more[] = {name};
    if (!b->flat)
        return;
    snprintf(label, sizeof label, "%s/images", l->name);
    snprintf(name, sizeof name, "%s/shape", l->name);
    yk_onnx_shape(&b->graph, name, 4, shape);
    node(b, "Reshape", label, more, 1, NULL, NULL);
    b->flat = false;
}

void yk_onnx_window(struct yk_onnx_builder *b, const struct yk_layer *l, struct yk_buf *attributes)
{
    yk_onnx_images(b, l);
    yk_onnx_ints(attributes, "kernel_shape", l->kernel, 2);
    yk_onnx_ints(attributes, "strides", l->stride, 2);
    yk_onnx_ints(attributes, "pads", l->pad, 4);
}

void yk_onnx_parameters(struct yk_onnx_builder *b, const char *op, const char *label,
                        const char *const *which, struct yk_buf *attributes)
{
    char name[4][NAME];
    const char *more[4];
    unsigned n = 0;
    for (; which[n] != NULL; n++) {
        snprintf(name[n], NAME, "%s.%s", label, which[n]);
        const struct yk_view *v = yk_params_find(b->params, name[n]);
        if (v == NULL) {
            memcpy(b->missing, name[n], NAME);
            yk_buf_release(attributes);
            return;
        }
        yk_onnx_floats(&b->graph, v->name, v->ndim, v->shape, b->params->flat + v->at);
        more[n] = name[n];
    }
    node(b, op, label, more, n, NULL, attributes);
}

static const char *const WITH_BIAS[] = {"weight", "bias", NULL};
static const char *const WITHOUT_BIAS[] = {"weight", NULL};

void yk_onnx_product(struct yk_onnx_builder *b, const char *op, const struct yk_layer *l,
                     struct yk_buf *attributes)
{
    yk_onnx_parameters(b, op, l->name, l->bias ? WITH_BIAS : WITHOUT_BIAS, attributes);
}

void yk_onnx_probabilities(struct yk_onnx_builder *b, const char *label)
{
    struct yk_buf attributes = {0};
    yk_onnx_int(&attributes, "axis", 1);
    node(b, "Softmax", label, NULL, 0, "probabilities", &attributes);
}

/* The input, scaled from 0 .. 255 to 0 .. 1. */
static void begin_pixels(struct yk_onnx_builder *b, const uint32_t shape[3])
{
    const uint64_t pixels[] = {YK_ONNX_ANY, shape[0], shape[1], shape[2]};
    yk_onnx_input(&b->graph, "pixels", 4, pixels);
    snprintf(b->now, sizeof b->now, "pixels");
    with_constant(b, "Mul", "input/scale", &SCALE, 1);
}

static yk_code finish(struct yk_onnx_builder *b, const char *path, const char *name,
                      uint32_t classes, struct yk_error *e)
{
    const uint64_t shape[] = {YK_ONNX_ANY, classes};
    yk_onnx_output(&b->graph, "probabilities", 2, shape);
    yk_code rc = YK_OK;
    if (b->missing[0] != '\0')
        rc = yk_fail(e, YK_DATA, "cannot write '%s': the parameters lack '%s'", path, b->missing);
    if (rc == YK_OK)
        rc = yk_onnx_write(&b->graph, path, name, e);
    yk_onnx_release(&b->graph);
    return rc;
}

yk_code yk_onnx_net(const char *path, const struct yk_net *n, const struct yk_params *p,
                    struct yk_error *e)
{
    static const uint32_t ORDER[] = {0, 3, 1, 2};
    const uint32_t shape[3] = {n->input.h, n->input.w, n->input.c};
    struct yk_onnx_builder b = {.params = p};
    struct yk_buf attributes = {0};
    begin_pixels(&b, shape);
    yk_onnx_ints(&attributes, "perm", ORDER, 4);
    yk_onnx_op(&b, "Transpose", "input/channels", &attributes);
    if (n->normalized) {
        with_constant(&b, "Sub", "input/mean", n->mean, n->input.c);
        with_constant(&b, "Div", "input/std", n->deviation, n->input.c);
    }
    for (unsigned i = 0; i < n->layers; i++) {
        const struct yk_layer_ops *ops = yk_layer_ops(n->layer[i].kind);
        if (ops->onnx != NULL)
            ops->onnx(&b, &n->layer[i]);
        else if (ops->onnx_op != NULL)
            yk_onnx_op(&b, ops->onnx_op, n->layer[i].name, NULL);
    }
    return finish(&b, path, n->name, n->classes, e);
}

yk_code yk_onnx_softmax(const char *path, const uint32_t shape[3], uint32_t classes,
                        const struct yk_params *p, struct yk_error *e)
{
    struct yk_onnx_builder b = {.params = p};
    struct yk_buf attributes = {0};
    begin_pixels(&b, shape);
    /* weights lie as the pixels of the data do: nothing is transposed */
    yk_onnx_flatten(&b, "flatten");
    yk_onnx_int(&attributes, "transB", 1);
    yk_onnx_parameters(&b, "Gemm", "softmax", WITH_BIAS, &attributes);
    yk_onnx_probabilities(&b, "probability");
    return finish(&b, path, "softmax", classes, e);
}

/* p of class 1, and beside it 1 - p. */
yk_code yk_onnx_logreg(const char *path, uint64_t features, const struct yk_params *p,
                       struct yk_error *e)
{
    const struct yk_view *weight = yk_params_find(p, "logreg.weight"),
                         *bias = yk_params_find(p, "logreg.bias");
    const uint64_t input[] = {YK_ONNX_ANY, features}, column[] = {features, 1}, single[] = {1};
    const char *const product[] = {"logreg.weight"}, *const sum[] = {"logreg.bias"},
                      *const both[] = {"one", "likely/out"}, *const columns[] = {"likely/out"};
    const float one = 1;
    struct yk_onnx_builder b = {.params = p};
    struct yk_buf attributes = {0};
    if (features > YK_ONNX_FEATURES) {
        yk_fail(e, YK_USAGE,
                "cannot write '%s': %llu features are too many for a dense input, at most %d are "
                "possible",
                path, (unsigned long long)features, YK_ONNX_FEATURES);
        yk_hint(e, "--to text and --to npz take any number of them");
        return YK_USAGE;
    }
    yk_onnx_input(&b.graph, "features", 2, input);
    snprintf(b.now, sizeof b.now, "features");
    yk_onnx_floats(&b.graph, "logreg.weight", 2, column, p->flat + weight->at);
    yk_onnx_floats(&b.graph, "logreg.bias", 1, single, p->flat + bias->at);
    yk_onnx_floats(&b.graph, "one", 1, single, &one);
    node(&b, "MatMul", "product", product, 1, NULL, NULL);
    node(&b, "Add", "logit", sum, 1, NULL, NULL);
    yk_onnx_op(&b, "Sigmoid", "likely", NULL);
    yk_onnx_node(&b.graph, "Sub", "unlikely", both, 2, "unlikely/out", NULL);
    snprintf(b.now, sizeof b.now, "unlikely/out");
    yk_onnx_int(&attributes, "axis", 1);
    node(&b, "Concat", "both", columns, 1, "probabilities", &attributes);
    return finish(&b, path, "logreg", 2, e);
}
