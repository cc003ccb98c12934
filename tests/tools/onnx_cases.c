/* onnx_cases.c - makes up parameters and images for a net, writes it as an ONNX graph, and computes
 * the right answer by itself.
 *
 *     onnx_cases NET IMAGES SEED PREFIX     writes three files:
 *
 *     PREFIX.onnx       the graph
 *     PREFIX.in.f32     the images (IMAGES, height, width, channels)
 *     PREFIX.out.f32    the answer (IMAGES, classes)
 *
 * yoke writes the graph; the answer comes from the loops below, which follow docs/nets.md and
 * compute in double. */
#include "base/file.h"
#include "base/rng.h"
#include "model/net/net.h"
#include "model/net/net_onnx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct yk_rng rng;
static struct yk_net net;
static struct yk_params params;

static void must(yk_code rc, const struct yk_error *e)
{
    if (rc != YK_OK) {
        fprintf(stderr, "onnx_cases: %s\n", e->text);
        exit(1);
    }
}

static size_t numbers(struct yk_shape s)
{
    return (size_t)s.c * s.h * s.w;
}

static const float *values(const struct yk_layer *l, const char *which)
{
    char name[YK_NAME];
    snprintf(name, sizeof name, "%s.%s", l->name, which);
    const struct yk_view *v = yk_params_find(&params, name);
    return v != NULL ? params.flat + v->at : NULL;
}

/* Of a size that keeps what passes about as large as it was; variances between 0.5 and 1.5. */
static void make_parameters(struct yk_error *e)
{
    static struct yk_view view[4 * YK_NET_LAYERS];
    must(yk_params_init(&params, view, yk_net_views(&net, view), e), e);
    for (size_t i = 0; i < params.views; i++) {
        const struct yk_view *v = &params.view[i];
        bool variance = strstr(v->name, ".var") != NULL;
        double inputs = v->ndim > 1 ? (double)v->count / (double)v->shape[0] : 16;
        for (size_t k = 0; k < v->count; k++) {
            double u = 2 * yk_rng_unit(&rng) - 1;
            params.flat[v->at + k] = (float)(variance ? 1 + u / 2 : u * sqrt(6 / inputs));
        }
    }
}

/* One output of a window at row y and column x: the sum of a convolution, or the maximum or mean of
 * a pool's channel. */
static double window(const struct yk_layer *l, const double *in, const float *weight, uint32_t c,
                     uint32_t y, uint32_t x)
{
    uint32_t each = l->kind == YK_LAYER_conv ? l->in.c / l->groups : 1;
    uint32_t first = l->kind == YK_LAYER_conv ? c / (l->out.c / l->groups) * each : c;
    double sum = 0, most = -INFINITY;
    for (uint32_t k = 0; k < each; k++)
        for (uint32_t i = 0; i < l->kernel[0]; i++)
            for (uint32_t j = 0; j < l->kernel[1]; j++) {
                int64_t row = (int64_t)y * l->stride[0] + i - l->pad[0],
                        column = (int64_t)x * l->stride[1] + j - l->pad[1];
                if (row < 0 || column < 0 || row >= l->in.h || column >= l->in.w)
                    continue;
                double v =
                    in[((size_t)(first + k) * l->in.h + (size_t)row) * l->in.w + (size_t)column];
                sum +=
                    weight != NULL
                        ? v * weight[(((size_t)c * each + k) * l->kernel[0] + i) * l->kernel[1] + j]
                        : v;
                most = fmax(most, v);
            }
    return l->kind == YK_LAYER_conv      ? sum
           : l->kind == YK_LAYER_maxpool ? most
                                         : sum / ((double)l->kernel[0] * l->kernel[1]);
}

static double one(const struct yk_layer *l, const double *in, size_t i)
{
    uint32_t plane = l->out.h * l->out.w, c = (uint32_t)(i / plane),
             y = (uint32_t)(i % plane) / l->out.w, x = (uint32_t)(i % plane) % l->out.w;
    const float *weight = values(l, "weight"), *bias = values(l, "bias");
    double sum = 0;
    switch (l->kind) {
    case YK_LAYER_conv:
    case YK_LAYER_maxpool:
    case YK_LAYER_avgpool:
        return window(l, in, weight, c, y, x) + (bias != NULL ? bias[c] : 0);
    case YK_LAYER_dense:
        for (size_t k = 0; k < numbers(l->in); k++)
            sum += in[k] * weight[i * numbers(l->in) + k];
        return sum + (bias != NULL ? bias[i] : 0);
    case YK_LAYER_relu:
        return fmax(in[i], 0);
    case YK_LAYER_tanh:
        return tanh(in[i]);
    case YK_LAYER_sigmoid:
        return 1 / (1 + exp(-in[i]));
    case YK_LAYER_lrn:
        for (uint32_t k = 0; k < l->in.c; k++)
            if (k + l->size / 2 >= c && k <= c + l->size / 2)
                sum += in[(size_t)k * plane + i % plane] * in[(size_t)k * plane + i % plane];
        return in[i] / pow(l->k + l->alpha / l->size * sum, l->beta);
    case YK_LAYER_batchnorm:
        return (in[i] - values(l, "mean")[c]) / sqrt(values(l, "var")[c] + l->eps) * weight[c] +
               bias[c];
    case YK_LAYER_softmax:
        for (uint32_t k = 0; k < l->in.c; k++)
            sum += exp(in[k] - in[i]);
        return 1 / sum;
    default: /* flatten, dropout */
        return in[i];
    }
}

/* From pixels, height by width by channels, to probabilities. */
static void forward(const float *pixels, float *out)
{
    struct yk_shape s = net.input;
    double *now = malloc(numbers(s) * sizeof *now), *next;
    for (uint32_t c = 0; c < s.c; c++)
        for (size_t i = 0; i < (size_t)s.h * s.w; i++) {
            double v = pixels[i * s.c + c] / 255.0;
            now[(size_t)c * s.h * s.w + i] =
                net.normalized ? (v - net.mean[c]) / net.deviation[c] : v;
        }
    for (unsigned k = 0; k < net.layers; k++) {
        const struct yk_layer *l = &net.layer[k];
        next = malloc(numbers(l->out) * sizeof *next);
        for (size_t i = 0; i < numbers(l->out); i++)
            next[i] = one(l, now, i);
        free(now);
        now = next;
    }
    for (uint32_t i = 0; i < net.classes; i++)
        out[i] = (float)now[i];
    free(now);
}

int main(int argc, char **argv)
{
    struct yk_error e = {0};
    char path[YK_PATH_MAX];
    if (argc != 5) {
        fprintf(stderr, "usage: onnx_cases NET IMAGES SEED PREFIX\n");
        return 2;
    }
    uint32_t images = (uint32_t)strtoul(argv[2], NULL, 10);
    yk_rng_init(&rng, strtoull(argv[3], NULL, 10), 0, 0, 0);
    must(yk_net_read(argv[1], &net, &e), &e);
    make_parameters(&e);
    size_t pixels = numbers(net.input);
    float *in = malloc(images * pixels * sizeof *in),
          *out = malloc((size_t)images * net.classes * sizeof *out);
    for (size_t i = 0; i < images * pixels; i++)
        in[i] = (float)yk_rng_below(&rng, 256);
    for (uint32_t i = 0; i < images; i++)
        forward(in + i * pixels, out + (size_t)i * net.classes);
    must(yk_path(path, &e, "%s.onnx", argv[4]), &e);
    must(yk_onnx_net(path, &net, &params, &e), &e);
    must(yk_path(path, &e, "%s.in.f32", argv[4]), &e);
    must(yk_file_write(path, in, images * pixels * sizeof *in, &e), &e);
    must(yk_path(path, &e, "%s.out.f32", argv[4]), &e);
    must(yk_file_write(path, out, (size_t)images * net.classes * sizeof *out, &e), &e);
    printf("%ux%ux%u %u\n", net.input.h, net.input.w, net.input.c, net.classes);
    free(in);
    free(out);
    yk_params_release(&params);
    yk_net_release(&net);
    return 0;
}
