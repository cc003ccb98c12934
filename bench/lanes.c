/* lanes.c - how near the kernels of src/kernel/batch16.h come to what the CPU can multiply and add:
 * LeNet, forward and backward, on one thread.
 *
 *     lanes [SECONDS] [ISA]
 *
 * The baseline is measured in the same run: multiply-adds of that instruction set in registers, as
 * many as latency needs. Rounds of the two alternate, and the best of each counts: a round is
 * shorter than a slice of the scheduler, so others disturb little. A layer's number is its share of
 * the peak: 1.00 would be no load, no store and no loop. */
#include "bench/peak.h"
#include "kernel/batch16.h"
#include "kernel/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    L = YK_BATCH16,
    IN = 28 * 28,
    CONV1 = 6 * 28 * 28,
    POOL1 = 6 * 14 * 14,
    CONV2 = 16 * 10 * 10,
    POOL2 = 16 * 5 * 5
};
enum { W1 = 6 * 25, W2 = 16 * 6 * 25, W3 = 120 * 400, W4 = 84 * 120, W5 = 10 * 84 };

static const struct yk_batch16_window conv1 = {.c = 1,
                                               .h = 28,
                                               .w = 28,
                                               .out_c = 6,
                                               .out_h = 28,
                                               .out_w = 28,
                                               .kernel = {5, 5},
                                               .stride = {1, 1},
                                               .pad = {2, 2, 2, 2},
                                               .groups = 1};
static const struct yk_batch16_window pool1 = {.c = 6,
                                               .h = 28,
                                               .w = 28,
                                               .out_c = 6,
                                               .out_h = 14,
                                               .out_w = 14,
                                               .kernel = {2, 2},
                                               .stride = {2, 2},
                                               .groups = 1,
                                               .relu = true};
static const struct yk_batch16_window conv2 = {.c = 6,
                                               .h = 14,
                                               .w = 14,
                                               .out_c = 16,
                                               .out_h = 10,
                                               .out_w = 10,
                                               .kernel = {5, 5},
                                               .stride = {1, 1},
                                               .groups = 1};
static const struct yk_batch16_window pool2 = {.c = 16,
                                               .h = 10,
                                               .w = 10,
                                               .out_c = 16,
                                               .out_h = 5,
                                               .out_w = 5,
                                               .kernel = {2, 2},
                                               .stride = {2, 2},
                                               .groups = 1,
                                               .relu = true};

struct net {
    uint8_t image[L][IN];
    uint8_t *index1, *index2;
    float *in, *a1, *p1, *a2, *p2, *h1, *h2,
        *z; /* a1: before pooling; its memory serves the gradient, too */
    float *d1, *d2, *d3, *g_p1, *g_p2;
    float *weight[5], *bias[5], *dweight[5], *dbias[5];
    void *scratch;
};

static float *lines(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n * L * sizeof(float)) != 0)
        abort();
    for (size_t i = 0; i < n * L; i++)
        ((float *)p)[i] = (float)(rand() % 2001 - 1000) * 1e-4f;
    return p;
}

static void net_init(struct net *n)
{
    static const size_t WEIGHTS[] = {W1, W2, W3, W4, W5};
    for (size_t i = 0; i < sizeof n->image; i++)
        (&n->image[0][0])[i] = (uint8_t)rand();
    n->in = lines(IN);
    n->a1 = lines(CONV1);
    n->p1 = lines(POOL1);
    n->g_p1 = lines(POOL1);
    n->a2 = lines(CONV2);
    n->p2 = lines(POOL2);
    n->g_p2 = lines(POOL2);
    n->h1 = lines(120);
    n->h2 = lines(84);
    n->z = lines(10);
    n->d1 = lines(120);
    n->d2 = lines(84);
    n->d3 = lines(10);
    n->index1 = (uint8_t *)lines(POOL1 / 4);
    n->index2 = (uint8_t *)lines(POOL2 / 4);
    n->scratch = lines(yk_batch16_conv_scratch(&conv1) / 64 + yk_batch16_conv_scratch(&conv2) / 64 +
                       yk_batch16_dense_scratch(400) / 64);
    for (int i = 0; i < 5; i++) {
        n->weight[i] = lines(WEIGHTS[i] / L + 1);
        n->dweight[i] = lines(WEIGHTS[i] / L + 1);
        n->bias[i] = lines(8);
        n->dbias[i] = lines(8);
    }
}

/* What is timed: the parts of a step, in their order. */
static void load(const struct yk_batch16 *k, struct net *n)
{
    static const float SCALE = 1 / 255.0f, SHIFT = 0;
    const uint8_t *image[L];
    for (int i = 0; i < L; i++)
        image[i] = n->image[i];
    k->from_u8(1, IN, image, &SCALE, &SHIFT, n->in);
}
static void conv1_forward(const struct yk_batch16 *k, struct net *n)
{
    k->conv(&conv1, n->in, n->weight[0], n->bias[0], n->a1, n->scratch);
}
static void pool1_forward(const struct yk_batch16 *k, struct net *n)
{
    k->maxpool(&pool1, n->a1, n->p1, n->index1);
}
static void conv2_forward(const struct yk_batch16 *k, struct net *n)
{
    k->conv(&conv2, n->p1, n->weight[1], n->bias[1], n->a2, n->scratch);
}
static void pool2_forward(const struct yk_batch16 *k, struct net *n)
{
    k->maxpool(&pool2, n->a2, n->p2, n->index2);
}
static void dense_forward(const struct yk_batch16 *k, struct net *n)
{
    k->dense(400, 120, true, n->p2, n->weight[2], n->bias[2], n->h1);
    k->dense(120, 84, true, n->h1, n->weight[3], n->bias[3], n->h2);
    k->dense(84, 10, false, n->h2, n->weight[4], n->bias[4], n->z);
}
static void loss(const struct yk_batch16 *k, struct net *n)
{
    static const uint16_t LABEL[L] = {5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5, 3, 6, 1, 7};
    k->loss(
        &(struct yk_batch16_loss){.classes = 10, .n = L, .label = LABEL, .z = n->z, .grad = n->d3});
}
static void dense_gradient(const struct yk_batch16 *k, struct net *n)
{
    k->dense_grad(84, 10, n->h2, n->d3, n->dweight[4], n->dbias[4], n->scratch);
    k->dense_grad(120, 84, n->h1, n->d2, n->dweight[3], n->dbias[3], n->scratch);
    k->dense_grad(400, 120, n->p2, n->d1, n->dweight[2], n->dbias[2], n->scratch);
}
static void dense_backward(const struct yk_batch16 *k, struct net *n)
{
    k->dense_back(84, 10, n->d3, n->weight[4], n->d2);
    k->point_back(YK_BATCH16_RELU, 84, n->h2, n->d2, n->d2);
    k->dense_back(120, 84, n->d2, n->weight[3], n->d1);
    k->point_back(YK_BATCH16_RELU, 120, n->h1, n->d1, n->d1);
    k->dense_back(400, 120, n->d1, n->weight[2], n->g_p2);
}
static void pool2_backward(const struct yk_batch16 *k, struct net *n)
{
    k->maxpool_back(&pool2, n->g_p2, n->index2, n->p2, n->a2);
}
static void conv2_gradient(const struct yk_batch16 *k, struct net *n)
{
    k->conv_grad(&conv2, n->p1, n->a2, n->dweight[1], n->dbias[1], n->scratch);
}
static void conv2_backward(const struct yk_batch16 *k, struct net *n)
{
    k->conv_back(&conv2, n->a2, n->weight[1], n->g_p1);
}
static void pool1_backward(const struct yk_batch16 *k, struct net *n)
{
    k->maxpool_back(&pool1, n->g_p1, n->index1, n->p1, n->a1);
}
static void conv1_gradient(const struct yk_batch16 *k, struct net *n)
{
    k->conv_grad(&conv1, n->in, n->a1, n->dweight[0], n->dbias[0], n->scratch);
}

static struct {
    const char *name;
    void (*run)(const struct yk_batch16 *k, struct net *n);
    double products; /* multiply-adds of one image */
    double best;     /* seconds of a block */
} PARTS[] = {
    {"load", load, 0, INFINITY},
    {"conv1 forward", conv1_forward, CONV1 * 25, INFINITY},
    {"pool1 forward", pool1_forward, 0, INFINITY},
    {"conv2 forward", conv2_forward, CONV2 * 150, INFINITY},
    {"pool2 forward", pool2_forward, 0, INFINITY},
    {"dense forward", dense_forward, W3 + W4 + W5, INFINITY},
    {"loss", loss, 0, INFINITY},
    {"dense backward", dense_backward, W3 + W4 + W5, INFINITY},
    {"dense gradient", dense_gradient, W3 + W4 + W5, INFINITY},
    {"pool2 backward", pool2_backward, 0, INFINITY},
    {"conv2 gradient", conv2_gradient, CONV2 * 150, INFINITY},
    {"conv2 backward", conv2_backward, CONV2 * 150, INFINITY},
    {"pool1 backward", pool1_backward, 0, INFINITY},
    {"conv1 gradient", conv1_gradient, CONV1 * 25, INFINITY},
};
enum { N = sizeof PARTS / sizeof PARTS[0] };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Multiply-adds a second. */
static double measure_peak(const char *isa)
{
    double t = seconds(), done = yk_peak(isa, 20000);
    return done / (seconds() - t);
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? atof(argv[1]) : 2, peak = 0, whole = INFINITY, products = 0, sum = 0;
    const struct yk_kernels *k;
    struct yk_error e;
    struct net *n = calloc(1, sizeof *n);
    if (n == NULL || yk_kernels_pick(argc > 2 ? argv[2] : "auto", &k, &e) != YK_OK) {
        fprintf(stderr, "lanes: %s\n", n == NULL ? "no memory" : e.text);
        return 2;
    }
    net_init(n);
    for (double start = seconds(); seconds() - start < limit;) {
        double now = measure_peak(k->name), before = seconds(), first = before;
        peak = now > peak ? now : peak;
        for (int i = 0; i < N; i++) {
            PARTS[i].run(k->batch16, n);
            now = seconds();
            PARTS[i].best = now - before < PARTS[i].best ? now - before : PARTS[i].best;
            before = now;
        }
        whole = before - first < whole ? before - first : whole;
    }
    printf("One thread, a block of 16 images; the multipliers alone reach %.1f GFLOPS.\n\n",
           2e-9 * peak);
    printf("| part | us | of the peak |\n|---|---:|---:|\n");
    for (int i = 0; i < N; i++) {
        products += PARTS[i].products;
        sum += PARTS[i].best;
        printf("| %s | %.2f |", PARTS[i].name, 1e6 * PARTS[i].best);
        if (PARTS[i].products > 0)
            printf(" %.2f", PARTS[i].products * L / PARTS[i].best / peak);
        printf(" |\n");
    }
    printf("| sum of the best | %.2f | %.2f |\n", 1e6 * sum, products * L / sum / peak);
    printf("| best step | %.2f | %.2f |\n", 1e6 * whole, products * L / whole / peak);
    printf("\nThe best step takes %.2f us an image: %.0f images/s a thread.\n", 1e6 * whole / L,
           L / whole);
    free(n);
    return 0;
}
