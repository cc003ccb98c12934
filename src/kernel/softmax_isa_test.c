/* softmax_isa_test.c - every instruction set against a slow, obvious softmax in double, over the
 * shapes where blocks, strips, tiles and groups of classes begin and end.
 *
 * Inputs end at a page that may not be touched (or, with AddressSanitizer, at the end of an
 * allocation of exactly that size), so a kernel that reads or writes past them dies here. Outputs
 * and scratch begin as NaN: whatever is not overwritten shows. Rows that the pass does not name are
 * full of 255s. */
#include "kernel/kernel.h"

#include "base/rng.h"
#include "tests/isas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLACK = 8 }; /* the bytes after the pixels that kernel.h asks for */

static const uint32_t FEATURES[] = {1, 7, 8, 9, 15, 63, 64, 65, 392, 448, 449, 784, 1000, 3072};
static const uint32_t CLASSES[] = {2, 3, 4, 5, 9, 10, 11, 16, 17, 26, 100, 256};
static const uint32_t ROWS[] = {1, 2, 10, 63, 64, 65, 100, 130, 600};
static const unsigned DENSITY[] = {0, 20, 100}; /* per cent of pixels that are not zero */
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* --- memory that ends where it ends --- */

struct room {
    void *base;
    size_t size;
};

static void *room_of(struct room *r, size_t bytes, size_t align)
{
#if defined(__SANITIZE_ADDRESS__)
    r->size = 0;
    assert_int_equal(posix_memalign(&r->base, align, bytes), 0);
    return r->base;
#else
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    r->size = whole + page;
    r->base = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(r->base, MAP_FAILED);
    assert_int_equal(mprotect((char *)r->base + whole, page, PROT_NONE), 0);
    (void)align; /* sizes that ask for more than their elements' are multiples of it */
    return (char *)r->base + whole - bytes;
#endif
}

static void room_release(struct room *r)
{
    if (r->size == 0)
        free(r->base);
    else
        munmap(r->base, r->size);
}

/* --- a case: one pass with its memory, and what a patient person would compute --- */

enum {
    PIXELS,
    BLOCKS,
    FIRST,
    NONZERO,
    LABELS,
    ROW,
    WEIGHT,
    BIAS,
    GRAD_WEIGHT,
    GRAD_BIAS,
    PROB,
    SCRATCH,
    ROOMS
};

struct pass_case {
    struct room room[ROOMS];
    struct yk_softmax_pass pass; /* with gradients and probabilities */
    const uint8_t *pixels;       /* (rows, features) as they were before packing */
    uint32_t rows;               /* in the data; the pass names some, with repetition */
    size_t weights;              /* features * classes */
    double *z;                   /* (n, classes) */
    double loss, *prob, *grad_weight, *grad_bias;
    /* what a gradient's error is measured against: the same sum over 1 instead of |dz| */
    double *size_weight;
    uint32_t correct;
};

static float uniform(struct yk_rng *r)
{
    return (float)(yk_rng_unit(r) * 2 - 1);
}

/* Pixels as data/images/pack.c hands them over, written from its description: blocks that are not
 * all zero, where a row's begin, and which they are. The row that is never named stays as it is. */
static void pack(struct pass_case *c, const uint8_t *x, uint32_t features)
{
    uint32_t per_row = (features + 7) / 8, words = (per_row + 63) / 64, n = 0;
    uint8_t *kept = calloc((size_t)c->rows * per_row, 8);
    for (int i = BLOCKS; i <= NONZERO; i++)
        room_release(&c->room[i]);
    uint32_t *first = room_of(&c->room[FIRST], (c->rows + 1) * sizeof *first, sizeof(void *));
    uint64_t *nonzero =
        room_of(&c->room[NONZERO], (size_t)c->rows * words * sizeof *nonzero, sizeof(void *));
    assert_non_null(kept);
    memset(nonzero, 0, (size_t)c->rows * words * sizeof *nonzero);
    for (uint32_t i = 0; i < c->rows; i++) {
        first[i] = n;
        for (uint32_t b = 0; b < per_row; b++) {
            uint8_t *to = kept + (size_t)n * 8;
            bool any = false;
            memset(to, 0, 8);
            for (uint32_t k = 0; k < 8 && b * 8 + k < features; k++) {
                to[k] = x[(size_t)i * features + b * 8 + k];
                any = any || to[k] != 0;
            }
            if (any) {
                nonzero[(size_t)i * words + b / 64] |= (uint64_t)1 << (b % 64);
                n++;
            }
        }
    }
    first[c->rows] = n;
    uint8_t *blocks = room_of(&c->room[BLOCKS], (size_t)n * 8 + 8, sizeof(void *));
    memcpy(blocks, kept, (size_t)n * 8);
    free(kept);
    c->pixels = x;
    c->pass.blocks = blocks;
    c->pass.first = first;
    c->pass.nonzero = nonzero;
    c->pass.words = words;
}

static void case_open(struct pass_case *c, uint32_t features, uint32_t classes, uint32_t n,
                      unsigned density, struct yk_rng *r)
{
    *c = (struct pass_case){.rows = n / 2 + 3, .weights = (size_t)features * classes};
    size_t pixels = (size_t)c->rows * features;
    uint8_t *x = room_of(&c->room[PIXELS], pixels + SLACK, sizeof(void *));
    uint16_t *label = room_of(&c->room[LABELS], c->rows * sizeof *label, sizeof(void *));
    uint32_t *row = room_of(&c->room[ROW], n * sizeof *row, sizeof(void *));
    float *weight = room_of(&c->room[WEIGHT], c->weights * sizeof(float), sizeof(void *));
    float *bias = room_of(&c->room[BIAS], classes * sizeof(float), sizeof(void *));
    memset(x, 255, pixels + SLACK);
    for (size_t i = 0; i < pixels - features; i++) /* the last row is never named */
        x[i] = yk_rng_below(r, 100) < density ? (uint8_t)(1 + yk_rng_below(r, 255)) : 0;
    for (uint32_t i = 0; i < c->rows; i++)
        label[i] = (uint16_t)yk_rng_below(r, classes);
    for (uint32_t i = 0; i < n; i++)
        row[i] = yk_rng_below(r, c->rows - 1);
    float reach = 4 / sqrtf((float)features); /* logits of a few units, whatever the shape */
    for (size_t i = 0; i < c->weights; i++)
        weight[i] = uniform(r) * reach;
    for (uint32_t i = 0; i < classes; i++)
        bias[i] = uniform(r);
    c->pass = (struct yk_softmax_pass){
        .features = features,
        .classes = classes,
        .labels = label,
        .scale = 1.0f / 255,
        .row = row,
        .n = n,
        .weight = weight,
        .bias = bias,
        .grad_weight = room_of(&c->room[GRAD_WEIGHT], c->weights * sizeof(float), sizeof(void *)),
        .grad_bias = room_of(&c->room[GRAD_BIAS], classes * sizeof(float), sizeof(void *)),
        .prob = room_of(&c->room[PROB], (size_t)n * classes * sizeof(float), sizeof(void *)),
        .scratch = room_of(&c->room[SCRATCH], yk_softmax_scratch(features, classes), 64),
    };
    pack(c, x, features);
    assert_int_equal((uintptr_t)c->pass.scratch % 64, 0);
    c->z = calloc((size_t)n * classes, sizeof(double));
    c->prob = calloc((size_t)n * classes, sizeof(double));
    c->grad_weight = calloc(c->weights, sizeof(double));
    c->grad_bias = calloc(classes, sizeof(double));
    c->size_weight = calloc(features, sizeof(double));
    assert_true(c->z && c->prob && c->grad_weight && c->grad_bias && c->size_weight);
}

static void case_close(struct pass_case *c)
{
    for (int i = 0; i < ROOMS; i++)
        room_release(&c->room[i]);
    free(c->z);
    free(c->prob);
    free(c->grad_weight);
    free(c->grad_bias);
    free(c->size_weight);
}

/* The formulas of kernel.h, one after the other. */
static void reference(struct pass_case *c)
{
    const struct yk_softmax_pass *p = &c->pass;
    uint32_t classes = p->classes, features = p->features;
    for (uint32_t i = 0; i < p->n; i++) {
        const uint8_t *x = c->pixels + (size_t)p->row[i] * features;
        double *z = c->z + (size_t)i * classes, *prob = c->prob + (size_t)i * classes,
               max = -INFINITY;
        uint32_t label = p->labels[p->row[i]], best = 0;
        for (uint32_t k = 0; k < classes; k++) {
            z[k] = 0;
            for (uint32_t q = 0; q < features; q++)
                if (x[q] != 0)
                    z[k] += (double)x[q] * (double)p->weight[(size_t)k * features + q];
            z[k] = z[k] * (double)p->scale + (double)p->bias[k];
            if (z[k] > max) {
                max = z[k];
                best = k;
            }
        }
        double sum = exp(z[0] - max);
        for (uint32_t k = 1; k < classes; k++)
            sum += exp(z[k] - max);
        c->loss += max + log(sum) - z[label];
        c->correct += best == label;
        for (uint32_t q = 0; q < features; q++)
            c->size_weight[q] += (double)x[q] * (double)p->scale;
        for (uint32_t k = 0; k < classes; k++) {
            prob[k] = exp(z[k] - max) / sum;
            double dz = prob[k] - (k == label);
            c->grad_bias[k] += dz;
            for (uint32_t q = 0; q < features; q++)
                if (x[q] != 0)
                    c->grad_weight[(size_t)k * features + q] +=
                        dz * (double)x[q] * (double)p->scale;
        }
    }
}

/* --- running and comparing --- */

static void poison(float *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f[i] = NAN;
}

static void run(struct pass_case *c, struct yk_softmax_pass *p)
{
    memset(p->scratch, 0xff, yk_softmax_scratch(p->features, p->classes));
    if (p->grad_weight != NULL) {
        poison(p->grad_weight, c->weights);
        poison(p->grad_bias, p->classes);
    }
    if (p->prob != NULL)
        poison(p->prob, (size_t)p->n * p->classes);
    p->loss = NAN;
    p->correct = 12345;
    kernels->softmax(p);
}

/* `slip`: how far a probability may be off (logits are floats, so it grows with them). */
static void compare(const struct pass_case *c, const char *name, double slip)
{
    const struct yk_softmax_pass *p = &c->pass;
    size_t features = p->features;
#define CLOSE(what, got, expected, within)                                                         \
    if (!(fabs((double)(got) - (expected)) <= (within)))                                           \
    fail_msg("%s, %u x %u, n %u: %s is %.9g, not %.9g", name, p->features, p->classes, p->n, what, \
             (double)(got), expected)
    CLOSE("loss", p->loss, c->loss, slip * p->n + 1e-6 * fabs(c->loss));
    for (size_t i = 0; i < (size_t)p->n * p->classes; i++)
        CLOSE("a probability", p->prob[i], c->prob[i], slip);
    for (size_t k = 0; k < p->classes; k++)
        CLOSE("a bias gradient", p->grad_bias[k], c->grad_bias[k], slip * p->n);
    for (size_t k = 0; k < p->classes; k++)
        for (size_t q = 0; q < features; q++)
            CLOSE("a weight gradient", p->grad_weight[k * features + q],
                  c->grad_weight[k * features + q], slip * c->size_weight[q]);
}

static void check_case(struct pass_case *c, double slip)
{
    reference(c);
    run(c, &c->pass);
    compare(c, kernels->name, slip);
    double loss = c->pass.loss;
    struct yk_softmax_pass forward = c->pass;
    forward.grad_weight = forward.grad_bias = NULL;
    run(c, &forward);
    if (forward.loss != loss || forward.correct != c->correct)
        fail_msg("%s, %u x %u, n %u: forward only gives loss %.17g and %u right, not %.17g and %u",
                 kernels->name, c->pass.features, c->pass.classes, c->pass.n, forward.loss,
                 forward.correct, loss, c->correct);
    for (size_t j = 0; j < (size_t)forward.n * forward.classes; j++)
        assert_true(fabs((double)forward.prob[j] - c->prob[j]) <= slip);
}

static void check_shape(uint32_t features, uint32_t classes, uint32_t n, unsigned density,
                        struct yk_rng *r)
{
    struct pass_case c;
    case_open(&c, features, classes, n, density, r);
    check_case(&c, 1e-5);
    case_close(&c);
}

/* --- the tests --- */

/* Every pair of features and classes at every density; the number of rows walks along, so that it
 * meets all of them. */
static void test_shapes(void **state)
{
    (void)state;
    struct yk_rng r;
    yk_rng_init(&r, 7, 0, 0, 0);
    for (size_t f = 0; f < COUNT(FEATURES); f++)
        for (size_t c = 0; c < COUNT(CLASSES); c++)
            for (size_t d = 0; d < COUNT(DENSITY); d++) {
                size_t n = (f + 5 * c + 3 * d) % COUNT(ROWS);
                while (n > 0 && (uint64_t)FEATURES[f] * CLASSES[c] * ROWS[n] > 1500000)
                    n--; /* the reference is slow */
                check_shape(FEATURES[f], CLASSES[c], ROWS[n], DENSITY[d], &r);
            }
    for (size_t n = 0; n < COUNT(ROWS); n++) /* the one shape that matters most, at every length */
        check_shape(784, 10, ROWS[n], 20, &r);
    check_shape(3072, 256, 65, 20, &r); /* the corner, over more than one tile */
}

/* Logits of +-80 and beyond: e^z does not fit a float, the loss does. */
static void test_big_logits(void **state)
{
    (void)state;
    static const float SIZE[] = {80, 1000, 1e30f};
    struct yk_rng r;
    yk_rng_init(&r, 8, 0, 0, 0);
    for (size_t i = 0; i < COUNT(SIZE); i++) {
        struct pass_case c;
        case_open(&c, 65, 10, 65, 20, &r);
        for (uint32_t k = 0; k < 10; k++)
            ((float *)c.pass.bias)[k] = SIZE[i] * uniform(&r);
        check_case(&c, SIZE[i] < 1e30f ? SIZE[i] * 1e-6 : 1e-5);
        assert_true(c.loss > SIZE[i]); /* some labels lie far below the top */
        for (uint32_t j = 0; j < c.pass.n; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < 10; k++)
                sum += (double)c.pass.prob[j * 10 + k];
            assert_true(fabs(sum - 1) < 1e-6);
        }
        case_close(&c);
    }
    struct pass_case c; /* the same through the weights: one pixel, two classes, z = +-100 */
    case_open(&c, 8, 2, 2, 0, &r);
    ((uint8_t *)c.pixels)[3] = ((uint8_t *)c.pixels)[8 + 3] = 255;
    pack(&c, c.pixels, 8);
    ((float *)c.pass.weight)[3] = 100;
    ((float *)c.pass.weight)[8 + 3] = -100;
    ((float *)c.pass.bias)[0] = ((float *)c.pass.bias)[1] = 0;
    ((uint16_t *)c.pass.labels)[0] = 0;
    ((uint16_t *)c.pass.labels)[1] = 1;
    ((uint32_t *)c.pass.row)[0] = 0;
    ((uint32_t *)c.pass.row)[1] = 1;
    check_case(&c, 1e-4);
    assert_true(fabs(c.loss - 200) < 1e-4);
    case_close(&c);
}

/* The gradient is of the sum over rows. Zero weights make every probability 1/4, and then nothing
 * rounds: bits must match. */
static void test_sums_are_exact(void **state)
{
    (void)state;
    struct yk_rng r;
    yk_rng_init(&r, 9, 0, 0, 0);
    struct pass_case c;
    case_open(&c, 131, 4, 130, 50, &r);
    c.pass.scale = 1;
    memset((float *)c.pass.weight, 0, c.weights * sizeof(float));
    memset((float *)c.pass.bias, 0, 4 * sizeof(float));
    reference(&c);
    run(&c, &c.pass);
    for (size_t k = 0; k < c.weights; k++)
        assert_true((double)c.pass.grad_weight[k] == c.grad_weight[k]);
    for (size_t k = 0; k < 4; k++)
        assert_true((double)c.pass.grad_bias[k] == c.grad_bias[k]);
    assert_true(fabs(c.pass.loss - 130 * log(4)) < 1e-9);
    case_close(&c);
}

/* Of equal logits the first counts. All-zero rows have the bias for their logits. */
static void test_ties(void **state)
{
    (void)state;
    struct yk_rng r;
    yk_rng_init(&r, 10, 0, 0, 0);
    static const struct {
        uint32_t first, second; /* the two largest, equal */
    } TIE[] = {{0, 1}, {3, 7}, {8, 16}, {15, 16}, {2, 18}, {17, 18}};
    for (size_t t = 0; t < COUNT(TIE); t++) {
        struct pass_case c;
        case_open(&c, 20, 19, 100, 0, &r);
        for (uint32_t k = 0; k < 19; k++)
            ((float *)c.pass.bias)[k] = k == TIE[t].first || k == TIE[t].second ? 0.5f : -1.0f;
        uint32_t expected = 0;
        for (uint32_t i = 0; i < c.pass.n; i++) {
            ((uint16_t *)c.pass.labels)[c.pass.row[i]] =
                (uint16_t)(c.pass.row[i] % 2 ? TIE[t].first : TIE[t].second);
            expected += c.pass.row[i] % 2;
        }
        assert_in_range(expected, 20, 80);
        check_case(&c, 1e-5);
        assert_int_equal(c.correct, expected);
        for (size_t k = 0; k < c.weights; k++)
            assert_true(c.pass.grad_weight[k] == 0);
        case_close(&c);
    }
}

/* What is not a number may not look like one. */
static void test_not_finite(void **state)
{
    (void)state;
    static const float BAD[] = {NAN, INFINITY, -INFINITY};
    static const uint32_t SHAPE[][2] = {{65, 10}, {65, 17}, {7, 2}, {784, 26}};
    struct yk_rng r;
    yk_rng_init(&r, 11, 0, 0, 0);
    for (size_t s = 0; s < COUNT(SHAPE); s++)
        for (size_t b = 0; b < COUNT(BAD); b++)
            for (uint32_t k = 0; k < SHAPE[s][1]; k++) {
                struct pass_case c;
                case_open(&c, SHAPE[s][0], SHAPE[s][1], 70, 100, &r);
                /* -inf matters only to the label's own loss */
                ((uint16_t *)c.pass.labels)[c.pass.row[0]] = (uint16_t)k;
                ((float *)c.pass.weight)[(size_t)k * SHAPE[s][0] + yk_rng_below(&r, SHAPE[s][0])] =
                    BAD[b];
                run(&c, &c.pass);
                assert_true(isnan(BAD[b]) ? isnan(c.pass.loss) : !isfinite(c.pass.loss));
                struct yk_softmax_pass forward = c.pass;
                forward.grad_weight = forward.grad_bias = forward.prob = NULL;
                run(&c, &forward);
                assert_false(isfinite(forward.loss));
                case_close(&c);
            }
}

/* Prefetching is no more than that; scratch carries nothing over; where the bytes lie does not
 * matter. */
static void test_same_bits(void **state)
{
    (void)state;
    static const uint32_t SHAPE[][2] = {{784, 10}, {65, 17}, {1000, 11}};
    struct yk_rng r;
    yk_rng_init(&r, 12, 0, 0, 0);
    for (size_t s = 0; s < COUNT(SHAPE); s++) {
        struct pass_case c, other;
        uint32_t ahead[200];
        case_open(&c, SHAPE[s][0], SHAPE[s][1], 130, 20, &r);
        for (size_t k = 0; k < COUNT(ahead); k++)
            ahead[k] = yk_rng_below(&r, c.rows);
        run(&c, &c.pass);
        size_t weights = c.weights * sizeof(float),
               probs = (size_t)c.pass.n * c.pass.classes * sizeof(float);
        float *grad = malloc(weights), *prob = malloc(probs);
        double loss = c.pass.loss;
        assert_true(grad != NULL && prob != NULL);
        memcpy(grad, c.pass.grad_weight, weights);
        memcpy(prob, c.pass.prob, probs);
        size_t bytes = (size_t)c.pass.first[c.rows] * 8;
        uint8_t *moved = malloc(bytes + 8 + 7);
        assert_non_null(moved);
        case_open(&other, 500, 30, 70, 100, &r);
        for (unsigned k = 0; k < 7; k++) {
            uint8_t *blocks = moved + k;
            memcpy(blocks, c.pass.blocks, bytes);
            run(&other, &other.pass); /* another shape in between */
            c.pass.n_ahead = k * 30;
            c.pass.ahead = ahead;
            struct yk_softmax_pass again = c.pass;
            again.blocks = blocks;
            run(&c, &again);
            assert_memory_equal(grad, again.grad_weight, weights);
            assert_memory_equal(prob, again.prob, probs);
            assert_true(again.loss == loss);
        }
        free(moved);
        free(grad);
        free(prob);
        case_close(&other);
        case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest each[] = {
        cmocka_unit_test(test_shapes),         cmocka_unit_test(test_big_logits),
        cmocka_unit_test(test_sums_are_exact), cmocka_unit_test(test_ties),
        cmocka_unit_test(test_not_finite),     cmocka_unit_test(test_same_bits),
    };
    return isa_run(NULL, 0, each, COUNT(each));
}
