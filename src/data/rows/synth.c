/* synth.c - see synth.h.
 *
 * A row has 39 entries, one for each field, in order. A field owns a contiguous range of keys: 13
 * fields of integers (the key says which one, the value is its log1p, as criteo.c reads them) and
 * 26 of categories (value 1) with between ten and millions of keys. Within a field keys follow a
 * power law: the key of rank r has probability about 1 / (r + q), whose distribution function has a
 * closed inverse, r = q ((V + q) / q)^u - q for uniform u. Ranks of categories are spread over the
 * range of the field (r a mod V), so that frequent keys are not neighbours.
 *
 * The true model is a logistic regression: the weight of key k is a hash of (seed, k), nearly
 * normal, times the strength of its field. Small fields are stronger than big ones, so most of the
 * model can be learnt from a million rows, and the rest needs more. The gain of all weights and the
 * bias are found by bisection over a sample when a generator is opened: a quarter of the labels is
 * 1 (which alone gives a log loss of 0.562), and the true model has a log loss of about 0.41.
 *
 * Rows are made by integers, IEEE additions and multiplications in a fixed order, and one table of
 * square roots: no library function whose last bit differs between machines. Only the logarithms of
 * integers are the library's, rounded to float.
 * THREADS: see synth.h.
 * LIMITS: as many features as there are keys. */
#include "data/rows/synth.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 256, SAMPLE = 4096, HALVINGS = 24, LEAST_FEATURES = 100, ABOVE = 1 << 20 };
static const uint64_t ALL_FEATURES = 33762578; /* those of the widely used one-hot encoded set */
static const double POSITIVE = 0.25, BEST = 0.41;
/* The rows that calibrate the model lie far beyond any set. */
static const uint64_t SAMPLE_FROM = UINT64_C(1) << 62;

/* Keys of a field for ALL_FEATURES, q of its power law, and strength of its weights. */
static const struct shape {
    uint32_t keys;
    double q, strength;
} SHAPE[YK_SYNTH_FIELDS] = {
    {40, 1, .20},      {130, 1, .15},     {110, 2, .15},   {50, 2, .20},      {300, 8, .12},
    {140, 1, .15},     {90, .5, .15},     {60, 4, .20},    {140, 8, .15},     {10, .2, .30},
    {50, .5, .20},     {20, .2, .30},     {80, 2, .20},    {1460, 1, .40},    {580, 2, .50},
    {9800000, 3, .12}, {2100000, 3, .12}, {305, .2, .50},  {24, .3, .60},     {12500, 4, .30},
    {633, .2, .50},    {10, .1, .80},     {93000, 2, .25}, {5700, 4, .40},    {8300000, 3, .12},
    {3200, 4, .40},    {27, 1, .60},      {15000, 6, .30}, {5400000, 3, .12}, {11, 1, .80},
    {5600, 4, .40},    {2100, .2, .40},   {10, .3, .80},   {7000000, 3, .12}, {18, .1, .60},
    {15, .5, .80},     {286000, 2, .20},  {105, .5, .60},  {142000, 1, .25},
};

struct field {
    double q, span;   /* rank = q 2^(span u) - q, rounded down */
    uint64_t base, n; /* its keys are base .. base + n - 1 */
    uint64_t spread;  /* coprime to n: rank r is key base + r spread mod n */
    double inverse;   /* 1 / n */
    double strength;
};

struct yk_synth {
    struct field field[YK_SYNTH_FIELDS];
    uint64_t features, row_key, weight_key; /* the two keys are hashes of the seed */
    double gain, bias;                      /* all weights are multiplied with the gain */
    double power[STEPS];                    /* 2^(i/256) */
    float *amount; /* (keys of the biggest integer field) log1p(rank + 1) */
};

static const uint64_t GOLDEN = UINT64_C(0x9e3779b97f4a7c15);

static double unit(uint64_t x) /* [0, 1) */
{
    return (double)(x >> 11) * 0x1p-53;
}

/* 2^x for |x| < 1000, good to 9 digits: a table for the first 8 bits behind the point, and two
 * terms of the series for the rest. */
static double power_of_2(const struct yk_synth *s, double x)
{
    double t = x * STEPS + ABOVE; /* positive, so that the conversion rounds down */
    int64_t n = (int64_t)t;
    double f = (t - (double)n) * (0.69314718055994530942 / STEPS);
    uint64_t bits = (uint64_t)(n / STEPS - ABOVE / STEPS + 1023) << 52;
    double whole;
    memcpy(&whole, &bits, sizeof whole);
    return s->power[n & (STEPS - 1)] * whole * (1 + f * (1 + f * 0.5));
}

static double probability(const struct yk_synth *s, double z)
{
    z = z > 80 ? 80 : z < -80 ? -80 : z;
    return 1 / (1 + power_of_2(s, z * -1.44269504088896340736));
}

/* Nearly normal, mean 0, variance 1: the sum of the hash's four 16-bit parts. */
static double bell(uint64_t hash)
{
    uint64_t pair =
        (hash & UINT64_C(0x0000ffff0000ffff)) + (hash >> 16 & UINT64_C(0x0000ffff0000ffff));
    return ((double)(int64_t)((pair & UINT32_MAX) + (pair >> 32)) - 131070) * (1 / 37836.8);
}

static uint64_t rank_of(const struct yk_synth *s, const struct field *f, uint64_t random)
{
    uint64_t rank = (uint64_t)(f->q * power_of_2(s, f->span * unit(random)) - f->q + 1e-9);
    return rank < f->n ? rank : f->n - 1;
}

/* rank * spread mod n without a division: the product is below 2^53, so a quotient is off by at
 * most one. */
static uint64_t spread(const struct field *f, uint64_t rank)
{
    uint64_t product = rank * f->spread;
    int64_t left = (int64_t)(product - (uint64_t)((double)product * f->inverse) * f->n);
    left += left < 0 ? (int64_t)f->n : 0;
    left -= left >= (int64_t)f->n ? (int64_t)f->n : 0;
    return (uint64_t)left;
}

/* Makes row `row`; returns the sum of value times weight, without gain and bias. *random is its
 * label's. */
static double make_row(const struct yk_synth *s, uint64_t row, uint32_t *key, float *value,
                       uint64_t *random)
{
    uint64_t at = yk_mix(s->row_key + row * GOLDEN);
    double z = 0;
    for (int i = 0; i < YK_SYNTH_FIELDS; i++) {
        const struct field *f = &s->field[i];
        uint64_t rank = rank_of(s, f, yk_mix(at += GOLDEN)),
                 k = f->base + (i < YK_SYNTH_INTEGERS ? rank : spread(f, rank));
        float v = i < YK_SYNTH_INTEGERS ? s->amount[rank] : 1.0f;
        key[i] = (uint32_t)k;
        value[i] = v;
        z += bell(yk_mix(s->weight_key + k * GOLDEN)) * f->strength * (double)v;
    }
    *random = yk_mix(at + GOLDEN);
    return z;
}

yk_code yk_synth_chunk(const struct yk_synth *s, uint64_t from, uint32_t rows, struct yk_chunk *out,
                       struct yk_error *e)
{
    if (!yk_chunk_room(out, rows, (uint64_t)rows * YK_SYNTH_FIELDS))
        return yk_fail_memory(e, (size_t)rows * YK_SYNTH_FIELDS * 8);
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t random;
        double z =
            make_row(s, from + i, out->key + out->entries, out->value + out->entries, &random);
        out->entries += YK_SYNTH_FIELDS;
        out->label[out->rows] = unit(random) < probability(s, s->gain * z + s->bias);
        out->end[out->rows++] = out->entries;
    }
    return YK_OK;
}

static double entropy(double p)
{
    return p <= 0 || p >= 1 ? 0 : -p * log(p) - (1 - p) * log1p(-p);
}

double yk_synth_score(const struct yk_synth *s, uint64_t row)
{
    uint32_t key[YK_SYNTH_FIELDS];
    float value[YK_SYNTH_FIELDS];
    uint64_t random;
    return s->gain * make_row(s, row, key, value, &random) + s->bias;
}

double yk_synth_best(const struct yk_synth *s, uint64_t from, uint64_t rows)
{
    double sum = 0;
    for (uint64_t i = 0; i < rows; i++)
        sum += entropy(probability(s, yk_synth_score(s, from + i)));
    return rows == 0 ? 0 : sum / (double)rows;
}

uint64_t yk_synth_features(const struct yk_synth *s)
{
    return s->features;
}

/* --- opening --- */

static uint64_t capped(uint64_t cap)
{
    uint64_t sum = 0;
    for (int i = 0; i < YK_SYNTH_FIELDS; i++)
        sum += SHAPE[i].keys < cap ? SHAPE[i].keys : cap;
    return sum;
}

/* Divides features among fields. With fewer than the shapes have, big fields are cut to one size
 * and small ones stay; with more, big ones grow. */
static void share_out(struct yk_synth *s, uint64_t features)
{
    uint64_t all = capped(UINT32_MAX), low = 1, high = UINT32_MAX, big = 0, left;
    for (int i = 0; i < YK_SYNTH_FIELDS; i++)
        big += SHAPE[i].keys >= 1000000 ? SHAPE[i].keys : 0;
    while (high - low > 1) { /* the largest cap that is not too large in sum */
        uint64_t middle = low + (high - low) / 2;
        *(capped(middle) <= features ? &low : &high) = middle;
    }
    left = features;
    for (int i = 0; i < YK_SYNTH_FIELDS; i++) {
        struct field *f = &s->field[i];
        f->n = SHAPE[i].keys < low ? SHAPE[i].keys : low;
        if (features > all && SHAPE[i].keys >= 1000000)
            f->n += (uint64_t)((double)(features - all) * (SHAPE[i].keys / (double)big));
        left -= f->n;
    }
    /* rounding leaves fewer than 39 */
    for (int i = YK_SYNTH_FIELDS - 1; left > 0; i = i == 0 ? YK_SYNTH_FIELDS - 1 : i - 1)
        if (SHAPE[i].keys > low || (features >= all && SHAPE[i].keys >= 1000000)) {
            s->field[i].n++;
            left--;
        }
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* log2 of x >= 1, by squaring. */
static double log_2(double x)
{
    double whole = 0, sum = 0, bit = 1;
    while (x >= 2) {
        x *= 0.5;
        whole++;
    }
    for (int i = 0; i < 48; i++) {
        x *= x;
        bit *= 0.5;
        if (x >= 2) {
            x *= 0.5;
            sum += bit;
        }
    }
    return whole + sum;
}

static void lay_out(struct yk_synth *s)
{
    uint64_t base = 0;
    for (int i = 0; i < YK_SYNTH_FIELDS; i++) {
        struct field *f = &s->field[i];
        f->q = SHAPE[i].q;
        f->strength = SHAPE[i].strength;
        f->span = log_2(((double)f->n + f->q) / f->q);
        f->base = base;
        f->inverse = 1 / (double)f->n;
        f->spread = (uint64_t)((double)f->n * 0.61803398875) | 1;
        f->spread = f->spread < (1u << 20) ? f->spread : 1u << 20 | 1;
        while (greatest_divisor(f->spread, f->n) != 1)
            f->spread++;
        base += f->n;
    }
}

/* Finds the bias with which a share of POSITIVE is expected; returns the mean entropy then. */
static double settle_bias(struct yk_synth *s, const double *z)
{
    double low = -40, high = 40, sum = 0;
    for (int i = 0; i < HALVINGS; i++) {
        s->bias = (low + high) / 2;
        sum = 0;
        for (int r = 0; r < SAMPLE; r++)
            sum += probability(s, s->gain * z[r] + s->bias);
        *(sum < POSITIVE * SAMPLE ? &low : &high) = s->bias;
    }
    sum = 0;
    for (int r = 0; r < SAMPLE; r++)
        sum += entropy(probability(s, s->gain * z[r] + s->bias));
    return sum / SAMPLE;
}

static yk_code calibrate(struct yk_synth *s, struct yk_error *e)
{
    uint32_t key[YK_SYNTH_FIELDS];
    float value[YK_SYNTH_FIELDS];
    uint64_t random;
    double low = 0, high = 16, *z = malloc(SAMPLE * sizeof *z);
    if (z == NULL)
        return yk_fail_memory(e, SAMPLE * sizeof *z);
    for (int r = 0; r < SAMPLE; r++)
        z[r] = make_row(s, SAMPLE_FROM + (uint64_t)r, key, value, &random);
    for (int i = 0; i < HALVINGS; i++) {
        s->gain = (low + high) / 2;
        *(settle_bias(s, z) > BEST ? &low : &high) = s->gain;
    }
    free(z);
    return YK_OK;
}

yk_code yk_synth_open(struct yk_synth **out, uint64_t rows, uint64_t features, uint64_t seed,
                      struct yk_error *e)
{
    *out = NULL;
    features = features == 0 ? ALL_FEATURES : features;
    if (rows == 0)
        return yk_fail(e, YK_USAGE, "synthetic data needs at least one row");
    if (features < LEAST_FEATURES || features > YK_KEY_MAX + UINT64_C(1))
        return yk_fail(e, YK_USAGE, "synthetic data has %d to %" PRIu64 " features, not %" PRIu64,
                       LEAST_FEATURES, YK_KEY_MAX + UINT64_C(1), features);
    struct yk_synth *s = calloc(1, sizeof *s);
    uint64_t most = 0;
    if (s == NULL)
        return yk_fail_memory(e, sizeof *s);
    s->features = features;
    s->row_key = yk_mix(seed + GOLDEN);
    s->weight_key = yk_mix(s->row_key + GOLDEN);
    share_out(s, features);
    lay_out(s);
    for (int i = 0; i < YK_SYNTH_INTEGERS; i++)
        most = s->field[i].n > most ? s->field[i].n : most;
    s->amount = malloc(most * sizeof *s->amount);
    yk_code rc = s->amount == NULL ? yk_fail_memory(e, most * sizeof *s->amount) : YK_OK;
    if (rc == YK_OK)
        for (uint64_t i = 0; i < most; i++)
            s->amount[i] = (float)log1p((double)(i + 1));
    s->power[0] = 1;
    /* 2^(1/2), 2^(1/4), ...; 2^(i/256) is the product of those for the bits of i */
    double root = 2;
    for (int bit = STEPS / 2; bit > 0; bit /= 2) {
        root = sqrt(root);
        s->power[bit] = root;
    }
    for (int i = 1; i < STEPS; i++)
        s->power[i] = s->power[i & (i - 1)] * s->power[i & -i];
    if (rc == YK_OK)
        rc = calibrate(s, e);
    if (rc == YK_OK)
        *out = s;
    else
        yk_synth_close(s);
    return rc;
}

void yk_synth_close(struct yk_synth *s)
{
    if (s == NULL)
        return;
    free(s->amount);
    free(s);
}

/* Reads digits up to ':' or the end; false if there are none or too many. */
static bool take_number(const char **p, uint64_t *v)
{
    const char *start = *p;
    for (*v = 0; **p >= '0' && **p <= '9' && *v < UINT64_C(1) << 53; ++*p)
        *v = *v * 10 + (uint64_t)(**p - '0');
    return *p > start && (**p == ':' || **p == '\0');
}

bool yk_synth_name(const char *what, uint64_t *rows, uint64_t *features, uint64_t *seed)
{
    static const char PREFIX[] = "synth-criteo:";
    uint64_t *const part[] = {rows, features, seed};
    const char *p = what + sizeof PREFIX - 1;
    if (strncmp(what, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    *features = 0;
    *seed = 1;
    for (int i = 0; i < 3; i++) {
        if (!take_number(&p, part[i]))
            return false;
        if (*p++ == '\0')
            return true;
    }
    return false;
}
