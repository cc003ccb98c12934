/* batch16_point_isa.c - number by number in the layout of batch16.h: into the layout and out of it,
 * relu, tanh, sigmoid, and the loss. Compiled once per instruction set.
 *
 * Images come as rows of bytes: 16 bytes of 16 images are turned in registers, so that each vector
 * of bytes is one line. Of channels that are interleaved, neighbouring bytes go to different
 * planes, which costs nothing here: a line is stored whole wherever it goes.
 *
 * The loss is taken lane by lane, with the largest z subtracted before anything is exponentiated;
 * its logarithm is the only thing in double. tanh x = m / (m + 2), m = e^2x - 1, keeps its relative
 * precision near 0, because m is put together without ever adding the 1.
 * THREADS: see batch16.h. */
#include "kernel/batch16_vec.h"

#include <math.h>

/* --- into the layout and out of it --- */

typedef uint8_t bytes __attribute__((vector_size(16)));

INLINE bytes low_bytes(bytes a, bytes b)
{
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

INLINE bytes high_bytes(bytes a, bytes b)
{
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

/* 16 x 16 bytes: row k and row k + 8 are shuffled like cards, four times. */
INLINE void transpose_bytes(bytes a[16])
{
    bytes b[16];
#pragma GCC unroll UNROLL
    for (int turn = 0; turn < 4; turn++) {
#pragma GCC unroll UNROLL
        for (int k = 0; k < 8; k++) {
            b[2 * k] = low_bytes(a[k], a[k + 8]);
            b[2 * k + 1] = high_bytes(a[k], a[k + 8]);
        }
#pragma GCC unroll UNROLL
        for (int k = 0; k < 16; k++)
            a[k] = b[k];
    }
}

INLINE void store_line(float *to, bytes b, float scale, float shift)
{
#if defined(YK_ISA_avx512)
    store(to, (vec)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32((__m128i)b)) * scale + shift);
#elif defined(YK_ISA_avx2)
    __m128i half = _mm_unpackhi_epi64((__m128i)b, (__m128i)b);
    store(to, (vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32((__m128i)b)) * scale + shift);
    store(to + WIDTH, (vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(half)) * scale + shift);
#else /* left alone, the compiler widens byte by byte */
    typedef uint16_t shorts __attribute__((vector_size(16)));
    const bytes none = {0};
    const shorts zero = {0}, half[2] = {(shorts)low_bytes(b, none), (shorts)high_bytes(b, none)};
    for (int k = 0; k < 2; k++, to += 8) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        vec_i low = (vec_i)__builtin_shufflevector(half[k], zero, 0, 8, 1, 9, 2, 10, 3, 11);
        vec_i high = (vec_i)__builtin_shufflevector(half[k], zero, 4, 12, 5, 13, 6, 14, 7, 15);
#else
#error "bytes are widened for machines that store the low byte first"
#endif
        store(to, __builtin_convertvector(low, vec) * scale + shift);
        store(to + 4, __builtin_convertvector(high, vec) * scale + shift);
    }
#endif
}

void JOIN(yk_batch16_from_u8_, YK_ISA)(uint32_t c, size_t pixels, const uint8_t *const image[LANES],
                                       const float *scale, const float *shift, float *out);
void JOIN(yk_batch16_from_u8_, YK_ISA)(uint32_t c, size_t pixels, const uint8_t *const image[LANES],
                                       const float *scale, const float *shift, float *out)
{
    const size_t n = pixels * c;
    size_t pixel = 0, channel = 0;
    for (size_t at = 0; at < n; at += 16) {
        const size_t some = n - at < 16 ? n - at : 16;
        bytes a[16];
#pragma GCC unroll UNROLL
        for (int l = 0; l < LANES; l++) {
            a[l] = (bytes){0};
            if (image[l] != NULL && some == 16)
                memcpy(&a[l], image[l] + at, 16);
            else if (image[l] != NULL)
                memcpy(&a[l], image[l] + at, some);
        }
        transpose_bytes(a);
        for (size_t k = 0; k < some; k++) {
            store_line(out + (channel * pixels + pixel) * LANES, a[k], scale[channel],
                       shift[channel]);
            if (++channel == c) {
                channel = 0;
                pixel++;
            }
        }
    }
    for (int l = 0; l < LANES; l++) /* a shift is no part of an empty lane */
        for (size_t i = 0; image[l] == NULL && i < n; i++)
            out[i * LANES + (size_t)l] = 0;
}

void JOIN(yk_batch16_from_rows_, YK_ISA)(size_t n, const float *const row[LANES], float *out);
void JOIN(yk_batch16_from_rows_, YK_ISA)(size_t n, const float *const row[LANES], float *out)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t l = 0; l < LANES; l += 4) {
            struct quads q;
            for (size_t k = 0; k < 4; k++)
                q.row[k] = row[l + k] == NULL ? (quad){0} : *(const quad_u *)(row[l + k] + i);
            store_lines(out + i * LANES + l, transpose(q));
        }
    for (; i < n; i++)
        for (size_t l = 0; l < LANES; l++)
            out[i * LANES + l] = row[l] == NULL ? 0 : row[l][i];
}

void JOIN(yk_batch16_to_rows_, YK_ISA)(size_t n, const float *in, float *const row[LANES]);
void JOIN(yk_batch16_to_rows_, YK_ISA)(size_t n, const float *in, float *const row[LANES])
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t l = 0; l < LANES; l += 4) {
            const struct quads q = transpose(load_lines(in + i * LANES + l));
            for (size_t k = 0; k < 4; k++)
                if (row[l + k] != NULL)
                    *(quad_u *)(row[l + k] + i) = q.row[k];
        }
    for (; i < n; i++)
        for (size_t l = 0; l < LANES; l++)
            if (row[l] != NULL)
                row[l][i] = in[i * LANES + l];
}

/* --- functions of one number --- */

INLINE vec tanh_of(vec x)
{
    x = larger(all(-20.0f), x + x); /* NaN stays NaN, here and below */
    x = choose(x > 20.0f, all(20.0f), x);
    vec power, m = exp_parts(x, &power);
    m = m * power + (power - 1.0f);
    return m / (m + 2.0f);
}

INLINE vec sigmoid_of(vec x)
{
    x = choose(x < -87.0f, all(-87.0f), x);
    return 1.0f / (1.0f + exp_of(-x));
}

void JOIN(yk_batch16_point_, YK_ISA)(enum yk_batch16_point f, size_t n, const float *in,
                                     float *out);
void JOIN(yk_batch16_point_, YK_ISA)(enum yk_batch16_point f, size_t n, const float *in, float *out)
{
    const size_t all_n = n * LANES;
    switch (f) {
    case YK_BATCH16_RELU:
        for (size_t i = 0; i < all_n; i += WIDTH)
            store(out + i, relu(load(in + i)));
        break;
    case YK_BATCH16_TANH:
        for (size_t i = 0; i < all_n; i += WIDTH)
            store(out + i, tanh_of(load(in + i)));
        break;
    case YK_BATCH16_SIGMOID:
        for (size_t i = 0; i < all_n; i += WIDTH)
            store(out + i, sigmoid_of(load(in + i)));
    }
}

void JOIN(yk_batch16_point_back_, YK_ISA)(enum yk_batch16_point f, size_t n, const float *out,
                                          const float *dout, float *din);
void JOIN(yk_batch16_point_back_, YK_ISA)(enum yk_batch16_point f, size_t n, const float *out,
                                          const float *dout, float *din)
{
    const size_t all_n = n * LANES;
    switch (f) {
    case YK_BATCH16_RELU:
        for (size_t i = 0; i < all_n; i += WIDTH)
            store(din + i, choose(load(out + i) > 0, load(dout + i), (vec){0}));
        break;
    case YK_BATCH16_TANH:
        for (size_t i = 0; i < all_n; i += WIDTH) {
            const vec y = load(out + i);
            store(din + i, load(dout + i) * (1.0f - y * y));
        }
        break;
    case YK_BATCH16_SIGMOID:
        for (size_t i = 0; i < all_n; i += WIDTH) {
            const vec y = load(out + i);
            store(din + i, load(dout + i) * (y * (1.0f - y)));
        }
    }
}

/* --- loss --- */

/* The largest z of each lane; *which is the first class that has it. */
INLINE vec top_of(const struct yk_batch16_loss *l, size_t part, vec *which)
{
    vec top = load(l->z + part);
    *which = (vec){0};
    for (size_t k = 1; k < l->classes; k++) {
        const vec z = load(l->z + k * LANES + part);
        *which = choose(z > top, all((float)k), *which);
        top = larger(z, top);
    }
    return top;
}

void JOIN(yk_batch16_loss_, YK_ISA)(struct yk_batch16_loss *l);
void JOIN(yk_batch16_loss_, YK_ISA)(struct yk_batch16_loss *l)
{
    _Alignas(64) float top[LANES], first[LANES], sum[LANES], sum_z[LANES], own[LANES], lane[LANES];
    const float spread = l->smoothing / (float)l->classes;
    /* keeps the exponentials until their sum is known */
    float *e = l->prob != NULL ? l->prob : l->grad;
    for (size_t i = 0; i < LANES; i++) {
        own[i] = i < l->n ? l->z[l->label[i] * (size_t)LANES + i] : 0;
        lane[i] = (float)i;
    }
    for (size_t part = 0; part < LANES; part += WIDTH) {
        vec which, total = {0}, total_z = {0}, most = top_of(l, part, &which);
        for (size_t k = 0; k < l->classes; k++) {
            const vec z = load(l->z + k * LANES + part) - most, x = exp_of(z);
            total += x;
            total_z += z;
            if (e != NULL)
                store(e + k * LANES + part, x);
        }
        for (size_t k = 0; k < l->classes && e != NULL; k++) {
            const vec p = load(e + k * LANES + part) / total;
            if (l->prob != NULL)
                store(l->prob + k * LANES + part, p);
            if (l->grad != NULL)
                store(l->grad + k * LANES + part,
                      choose(load(lane + part) < (float)l->n, p - spread, (vec){0}));
        }
        store(top + part, most);
        store(first + part, which);
        store(sum + part, total);
        store(sum_z + part, total_z);
    }
    l->correct = 0;
    for (size_t i = 0; i < LANES; i++) {
        if (i >= l->n) {
            l->loss[i] = 0;
            continue;
        }
        l->correct += first[i] == (float)l->label[i];
        l->loss[i] = (float)(log(sum[i]) - (1.0 - l->smoothing) * ((double)own[i] - top[i]) -
                             (double)spread * sum_z[i]);
        if (l->grad != NULL)
            l->grad[l->label[i] * (size_t)LANES + i] -= 1.0f - l->smoothing;
    }
}
