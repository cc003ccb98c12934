/* softmax_isa.c - softmax regression over 8-bit pixels, most of which are zero. Compiled once per
 * instruction set.
 *
 * Four fifths of a digit's pixels are zero, so a dense matrix product wastes four fifths of its
 * work, and a list of the non-zero pixels wastes as much on building and walking the list. The
 * middle way: a row is cut into *blocks* of 8 pixels, one vector; the blocks that are all zero are
 * dropped when the data is loaded (59 of 98 on MNIST), and a bit mask per row says which are left.
 *
 *     x         98 blocks of 8 pixels, mask 0011..   W  (classes, features)
 *     forward   for a row, over its blocks:
 *               z[c] += x[block] * W[c][block]          8 lanes, added up at the end
 *     backward  for a block, over the rows that have it (the masks, transposed):
 *               dW[c][block] += x[block] * dz[row][c]   in registers, stored once
 *
 * Rows go through in tiles of YK_TILE = 128, so that the rows of a block are two words of a
 * transposed bit matrix. Forward walks the pixels in strips short enough that the strip of W stays
 * in the nearest caches while all rows of the tile pass by; the blocks of W that any row needs are
 * first copied to (block, class, 8) order, where every address is a constant away from the next.
 * Classes are taken GROUP at a time, as many accumulators as the registers hold. The rows of the
 * *next* tile or batch are prefetched one by one during forward, since shuffled rows are always
 * cold.
 *
 * LIMITS: z, and so the loss, is in float; the loss of a tile is summed in double as log of a
 * product (FACTORS numbers <= 256 fit). */
#include "kernel/kernel.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#if !defined(YK_ISA_plain)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if defined(YK_ISA_plain)
enum { GROUP = 5 }; /* 10 vectors of 4 lanes in 16 registers */
#else
enum { GROUP = 10 };
#endif
enum {
    BLOCK = YK_KERNEL_BLOCK,
    LANES = 16,
    FACTORS = 64,
    FEW = 8 /* up to so many rows, what pays for many rows does not */
};
enum {
    STRIP = 2, /* words of 64 blocks in a strip: 41 kB of W for 10 classes */
    HALVES = YK_TILE / 64
};

typedef float wide __attribute__((vector_size(4 * LANES)));
typedef int32_t wide_i __attribute__((vector_size(4 * LANES)));
typedef float half __attribute__((vector_size(2 * LANES)));
typedef float quad __attribute__((vector_size(16)));

#define INLINE static inline __attribute__((always_inline))

/* What a thread needs besides the parameters. */
struct scratch {
    float *z;      /* (YK_TILE, pad) logits, then probabilities, then their gradients */
    float *packed; /* (blocks, classes, BLOCK) the blocks of W that were needed so far */
    /* (words, YK_TILE) bit k of word w: block 64 w + k of that row is not all zero */
    uint64_t *mask;
    /* (words, 64, HALVES) the same transposed: bit i of half h: row 64 h + i has the block */
    uint64_t *column;
    uint64_t *ready;  /* (words) bit k: the block is in `packed` */
    uint32_t pad;     /* classes rounded up to LANES */
    uint32_t *cursor; /* (YK_TILE) the block at which each row stands */
    uint32_t blocks;  /* the last one may not be full */
    uint32_t words;   /* of 64 blocks, rounded up to whole strips */
};

static struct scratch carve(uint32_t features, uint32_t classes, void *memory, size_t *size)
{
    struct scratch s = {.pad = (classes + LANES - 1) / LANES * LANES,
                        .blocks = (features + BLOCK - 1) / BLOCK};
    s.words = (s.blocks + 64 * STRIP - 1) / (64 * STRIP) * STRIP;
    const size_t bytes[] = {
        sizeof(float) * YK_TILE * s.pad,      sizeof(float) * s.blocks * classes * BLOCK,
        sizeof(uint64_t) * YK_TILE * s.words, sizeof(uint64_t) * YK_TILE * s.words,
        sizeof(uint64_t) * s.words,           sizeof(uint32_t) * YK_TILE};
    void *part[6];
    size_t at = 0;
    for (int i = 0; i < 6; i++) {
        part[i] = memory == NULL ? NULL : (char *)memory + at;
        at += (bytes[i] + 63) / 64 * 64;
    }
    s.z = part[0];
    s.packed = part[1];
    s.mask = part[2];
    s.column = part[3];
    s.ready = part[4];
    s.cursor = part[5];
    if (size != NULL)
        *size = at;
    return s;
}

#if defined(YK_ISA_plain)
size_t yk_softmax_scratch(uint32_t features, uint32_t classes)
{
    size_t size;
    carve(features, classes, NULL, &size);
    return size;
}
#endif

/* A block of 8 floats and what is done with it. Without AVX it is a pair: the compiler keeps a
 * vector that is wider than the machine's in memory, and would do so with every accumulator. Bytes
 * are widened by hand, because left alone they take the way through scalars. */
#if defined(YK_ISA_plain)
typedef float quad_u __attribute__((vector_size(16), aligned(4)));
typedef struct {
    quad low, high;
} vec;

INLINE vec load(const float *p)
{
    return (vec){*(const quad_u *)p, *(const quad_u *)(p + 4)};
}

INLINE void store(float *p, vec v)
{
    *(quad_u *)p = v.low;
    *(quad_u *)(p + 4) = v.high;
}

INLINE vec add_product(vec sum, vec a, vec b)
{
    return (vec){sum.low + a.low * b.low, sum.high + a.high * b.high};
}

INLINE vec all(float x)
{
    return (vec){(quad){x, x, x, x}, (quad){x, x, x, x}};
}

INLINE vec load_pixels(const uint8_t *x)
{
    typedef uint64_t longs __attribute__((vector_size(16)));
    typedef uint8_t bytes __attribute__((vector_size(16)));
    typedef uint16_t shorts __attribute__((vector_size(16)));
    typedef int32_t ints __attribute__((vector_size(16)));
    longs eight = {0};
    memcpy(&eight, x, BLOCK);
    bytes b = (bytes)eight, none = {0};
    shorts s = (shorts)__builtin_shufflevector(b, none, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                               22, 7, 23),
           zero = {0};
    return (vec){__builtin_convertvector(
                     (ints)__builtin_shufflevector(s, zero, 0, 8, 1, 9, 2, 10, 3, 11), quad),
                 __builtin_convertvector(
                     (ints)__builtin_shufflevector(s, zero, 4, 12, 5, 13, 6, 14, 7, 15), quad)};
}

INLINE quad fold(vec v)
{
    return v.low + v.high;
}
#else
typedef float vec __attribute__((vector_size(4 * BLOCK)));
typedef float vec_u __attribute__((vector_size(4 * BLOCK), aligned(4)));

INLINE vec load(const float *p)
{
    return *(const vec_u *)p;
}

INLINE void store(float *p, vec v)
{
    *(vec_u *)p = v;
}

INLINE vec add_product(vec sum, vec a, vec b)
{
    return sum + a * b;
}

INLINE vec all(float x)
{
    return (vec){x, x, x, x, x, x, x, x};
}

INLINE vec load_pixels(const uint8_t *x)
{
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)x)));
}

INLINE quad fold(vec v)
{
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
}
#endif

INLINE float sum4(quad q)
{
    q += __builtin_shufflevector(q, q, 2, 3, 0, 1);
    return q[0] + q[1];
}

INLINE float sum16(wide v)
{
    half h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
             __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    return sum4(__builtin_shufflevector(h, h, 0, 1, 2, 3) +
                __builtin_shufflevector(h, h, 4, 5, 6, 7));
}

/* Lane by lane: yes where the mask is all ones, no where it is zero. */
INLINE wide choose(wide_i mask, wide yes, wide no)
{
    return (wide)((mask & (wide_i)yes) | (~mask & (wide_i)no));
}

INLINE wide larger(wide a, wide b)
{
#if defined(YK_ISA_avx512)
    return (wide)_mm512_max_ps((__m512)a, (__m512)b); /* the same, in one instruction */
#else
    return choose(a > b, a, b);
#endif
}

INLINE float max16(wide v)
{
    v = larger(v,
               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    v = larger(v,
               __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    v = larger(v,
               __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    return v[0] > v[1] ? v[0] : v[1];
}

/* e^x for x <= 0, to about 2 ulp: 2^n times a polynomial on [-ln2/2, ln2/2]. Below -87 the result
 * is as good as zero; a NaN stays one, because the first line keeps the operand when the comparison
 * fails. */
INLINE wide exp16(wide x)
{
    x = choose(x < -87.0f, (wide){0} - 87.0f, x);
    wide shifted = x * 1.44269504f + 12582912.0f; /* adding 1.5 * 2^23 rounds to an integer */
    wide n = shifted - 12582912.0f;
    wide r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    wide p = (wide){0} + 1.9875691e-4f;
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665795e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    wide_i power = ((wide_i)shifted - 0x4b400000 + 127) << 23;
    return p * (wide)power;
}

/* Transpose a 64 x 64 bit matrix, bit 0 being the first column: swap ever smaller quarters. Line k
 * goes to out[k * HALVES]. */
static void transpose64(const uint64_t *in, uint64_t *out)
{
    uint64_t a[64], low = 0x00000000ffffffff;
    memcpy(a, in, sizeof a);
    for (unsigned j = 32; j != 0; j >>= 1, low ^= low << j)
        for (unsigned base = 0; base < 64; base += 2 * j)
            for (unsigned k = base; k < base + j; k++) {
                uint64_t t = ((a[k] >> j) ^ a[k + j]) & low;
                a[k] ^= t << j;
                a[k + j] ^= t;
            }
    for (unsigned k = 0; k < 64; k++)
        out[k * HALVES] = a[k];
}

/* z[0..count) += the blocks of one row that its masks (STRIP words, YK_TILE apart) name, times
 * their packed weights. */
INLINE void forward_row(const uint8_t *x, const uint64_t *mask, const float *packed, size_t stride,
                        float *z, const size_t count)
{
    vec acc[GROUP];
#pragma GCC unroll 16
    for (size_t c = 0; c < count; c++)
        acc[c] = all(0);
    for (size_t w = 0; w < STRIP; w++, packed += 64 * stride)
        for (uint64_t m = mask[w * YK_TILE]; m != 0; m &= m - 1, x += BLOCK) {
            size_t b = (size_t)__builtin_ctzll(m);
            vec v = load_pixels(x);
#pragma GCC unroll 16
            for (size_t c = 0; c < count; c++)
                acc[c] = add_product(acc[c], v, load(packed + b * stride + c * BLOCK));
        }
#pragma GCC unroll 16
    for (size_t c = 0; c < count; c++)
        z[c] += sum4(fold(acc[c]));
}

/* dW[0..count)[block] (+)= sum over the rows that `rows` (HALVES words) names of x[row][block] *
 * dz[row][c]. Since blocks are visited in order, each row's next one is where its cursor stands;
 * `step` moves it on. */
INLINE void backward_block(const uint8_t *blocks, uint32_t *cursor, uint32_t step,
                           const uint64_t *rows, const float *dz, size_t pad, float *grad,
                           size_t features, bool fresh, const size_t count)
{
    vec acc[GROUP];
#pragma GCC unroll 16
    for (size_t c = 0; c < count; c++)
        acc[c] = fresh ? all(0) : load(grad + c * features);
    for (size_t h = 0; h < HALVES; h++, cursor += 64, dz += 64 * pad)
        for (uint64_t r = rows[h]; r != 0; r &= r - 1) {
            size_t i = (size_t)__builtin_ctzll(r);
            const float *d = dz + i * pad;
            vec v = load_pixels(blocks + (size_t)cursor[i] * BLOCK);
            cursor[i] += step;
#pragma GCC unroll 16
            for (size_t c = 0; c < count; c++)
                acc[c] = add_product(acc[c], v, all(d[c]));
        }
#pragma GCC unroll 16
    for (size_t c = 0; c < count; c++)
        store(grad + c * features, acc[c]);
}

/* The two inner loops with the number of classes as a constant, so that the accumulators are
 * registers. They stay functions of their own: inlined into the loops around them, the compiler
 * runs out of registers for addresses and keeps those in vectors. */
typedef void forward_fn(const uint8_t *x, const uint64_t *mask, const float *packed, size_t stride,
                        float *z);
typedef void backward_fn(const uint8_t *blocks, uint32_t *cursor, uint32_t step,
                         const uint64_t *rows, const float *dz, size_t pad, float *grad,
                         size_t features, bool fresh);
#define SIZED(name, count)                                                                         \
    static __attribute__((noinline)) void forward_##name(                                          \
        const uint8_t *x, const uint64_t *mask, const float *packed, size_t stride, float *z)      \
    {                                                                                              \
        forward_row(x, mask, packed, stride, z, count);                                            \
    }                                                                                              \
    static __attribute__((noinline)) void backward_##name(                                         \
        const uint8_t *blocks, uint32_t *cursor, uint32_t step, const uint64_t *rows,              \
        const float *dz, size_t pad, float *grad, size_t features, bool fresh)                     \
    {                                                                                              \
        backward_block(blocks, cursor, step, rows, dz, pad, grad, features, fresh, count);         \
    }
SIZED(many, GROUP)
SIZED(four, 4)
SIZED(one, 1)

static const struct group {
    uint32_t count; /* classes done together */
    forward_fn *forward;
    backward_fn *backward;
} GROUPS[] = {{GROUP, forward_many, backward_many},
              {4, forward_four, backward_four},
              {1, forward_one, backward_one}};

/* The largest group that `left` classes fill. */
INLINE const struct group *group_for(uint32_t left)
{
    return left >= GROUP ? &GROUPS[0] : left >= 4 ? &GROUPS[1] : &GROUPS[2];
}

/* A row of MNIST is 5 or 6 lines long; a count that is always the same costs less than the right
 * one, guessed wrong. */
INLINE void prefetch_row(const struct yk_softmax_pass *p, uint32_t row)
{
    enum { LINES = 6 };
    const uint8_t *x = p->blocks + (size_t)p->first[row] * BLOCK;
    size_t bytes = (size_t)(p->first[row + 1] - p->first[row]) * BLOCK;
    for (size_t k = 0; k < LINES; k++)
        __builtin_prefetch(x + k * 64, 0, 2);
    for (size_t k = LINES * 64; k < bytes; k += 64)
        __builtin_prefetch(x + k, 0, 2);
    __builtin_prefetch(p->nonzero + (size_t)row * p->words, 0, 2);
}

/* Copies the blocks of word `w` that `need` names to packed order, unless they are there already. A
 * last block that is not full is filled up with zeros. */
static void pack_weights(const struct yk_softmax_pass *p, const struct scratch *s, uint32_t w,
                         uint64_t need)
{
    need &= ~s->ready[w];
    s->ready[w] |= need;
    for (; need != 0; need &= need - 1) {
        size_t block = (size_t)w * 64 + (size_t)__builtin_ctzll(need),
               left = p->features - block * BLOCK;
        const float *from = p->weight + block * BLOCK;
        float *to = s->packed + block * p->classes * BLOCK;
        for (size_t c = 0; c < p->classes && left >= BLOCK; c++)
            store(to + c * BLOCK, load(from + c * p->features));
        for (size_t c = 0; c < p->classes && left < BLOCK; c++) {
            store(to + c * BLOCK, all(0));
            memcpy(to + c * BLOCK, from + c * p->features, left * sizeof(float));
        }
    }
}

static void start_cursors(const struct yk_softmax_pass *p, const struct scratch *s,
                          const uint32_t *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        s->cursor[i] = p->first[row[i]];
}

static void forward(const struct yk_softmax_pass *p, const struct scratch *s, const uint32_t *row,
                    uint32_t n, const uint32_t *ahead, uint32_t n_ahead)
{
    size_t stride = (size_t)p->classes * BLOCK;
    memset(s->z, 0, sizeof(float) * n * s->pad);
    for (uint32_t w = 0; w < s->words; w++) {
        uint64_t *mask = s->mask + w * YK_TILE, any = 0;
        for (uint32_t i = 0; i < n; i++)
            any |= mask[i] = w < p->words ? p->nonzero[(size_t)row[i] * p->words + w] : 0;
        pack_weights(p, s, w, any);
    }
    start_cursors(p, s, row, n);
    for (uint32_t w = 0; w < s->words; w += STRIP)
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t *mask = s->mask + w * YK_TILE + i;
            const uint8_t *x = p->blocks + (size_t)s->cursor[i] * BLOCK;
            const struct group *g;
            if (w == 0 && i < n_ahead)
                prefetch_row(p, ahead[i]);
            for (uint32_t c = 0; c < p->classes; c += g->count) {
                g = group_for(p->classes - c);
                g->forward(x, mask, s->packed + w * 64 * stride + c * BLOCK, stride,
                           s->z + i * s->pad + c);
            }
            for (uint32_t k = 0; k < STRIP; k++)
                s->cursor[i] += (uint32_t)__builtin_popcountll(mask[k * YK_TILE]);
        }
}

/* z -> p, or (p - onehot) * scale where gradients are wanted; sums loss, hits and the bias
 * gradient. */
static void softmax_rows(struct yk_softmax_pass *p, const struct scratch *s, const uint32_t *row,
                         uint32_t n, float *prob, const wide *bias, wide *grad_bias)
{
    const wide lowest = (wide){0} - INFINITY, one = (wide){0} + 1;
    const wide_i lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    double product = 1, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        wide *z = (wide *)(void *)(s->z + i * s->pad);
        uint32_t label = p->labels[row[i]], parts = s->pad / LANES;
        wide top = lowest;
        for (uint32_t k = 0; k < parts; k++) {
            /* bias is -inf in the padding, so those lanes end as e^-inf = 0 */
            z[k] = z[k] * p->scale + bias[k];
            top = larger(z[k], top);
        }
        float max = max16(top), own = ((float *)z)[label];
        if (p->grad_weight == NULL) {
            uint32_t c = 0;
            while (c < p->classes && ((float *)z)[c] != max)
                c++;
            p->correct += c == label;
        }
        wide total = {0};
        for (uint32_t k = 0; k < parts; k++) {
            wide e = exp16(z[k] - max);
            z[k] = choose(bias[k] == lowest, (wide){0}, e);
            total += z[k];
        }
        float total_e = sum16(total);
        product *= total_e;
        if (i % FACTORS == FACTORS - 1) {
            sum += log(product);
            product = 1;
        }
        sum += max - own;
        float inverse = 1.0f / total_e;
        for (uint32_t k = 0; k < parts; k++)
            z[k] *= inverse;
        if (prob != NULL)
            memcpy(prob + (size_t)i * p->classes, z, sizeof(float) * p->classes);
        if (p->grad_weight == NULL)
            continue;
        for (uint32_t k = 0; k < parts; k++) {
            wide_i own_lane = lanes == (int32_t)(label - k * LANES);
            /* by mask: a scalar store into z would stall the loads that follow */
            z[k] -= (wide)(own_lane & (wide_i)one);
            grad_bias[k] += z[k];
            z[k] *= p->scale;
        }
    }
    p->loss += sum + log(product);
}

/* Finds out which rows have which block: bit after bit for a few rows, else by transposing. */
static void find_columns(const struct scratch *s, uint32_t n)
{
    for (uint32_t w = 0; w < s->words; w++) {
        uint64_t *mask = s->mask + w * YK_TILE, *column = s->column + w * YK_TILE;
        if (n <= FEW) {
            memset(column, 0, sizeof(uint64_t) * 64 * HALVES);
            for (uint32_t i = 0; i < n; i++)
                for (uint64_t m = mask[i]; m != 0; m &= m - 1)
                    column[__builtin_ctzll(m) * HALVES] |= (uint64_t)1 << i;
            continue;
        }
        memset(mask + n, 0, sizeof(uint64_t) * (YK_TILE - n));
        for (uint32_t h = 0; h < HALVES; h++)
            if (64 * h < n)
                transpose64(mask + 64 * h, column + h);
            else
                for (uint32_t k = 0; k < 64; k++)
                    column[k * HALVES + h] = 0;
    }
}

/* One block of dW, all classes. */
static void backward_classes(const struct yk_softmax_pass *p, const struct scratch *s,
                             const uint64_t *rows, float *grad, size_t stride, bool fresh)
{
    const struct group *g;
    for (uint32_t c = 0; c < p->classes; c += g->count) {
        g = group_for(p->classes - c);
        g->backward(p->blocks, s->cursor, c + g->count == p->classes, rows, s->z + c, s->pad,
                    grad + c * stride, stride, fresh);
    }
}

static void backward(const struct yk_softmax_pass *p, const struct scratch *s, const uint32_t *row,
                     uint32_t n, bool fresh)
{
    /* a few rows leave most blocks empty: clear them all at once */
    bool zeroed = fresh && n <= FEW;
    if (zeroed)
        memset(p->grad_weight, 0, sizeof(float) * p->classes * p->features);
    find_columns(s, n);
    start_cursors(p, s, row, n);
    for (uint32_t b = 0; b < s->blocks; b++) {
        const uint64_t *rows = s->column + (size_t)b * HALVES;
        float *grad = p->grad_weight + (size_t)b * BLOCK;
        size_t left = p->features - (size_t)b * BLOCK, width = left < BLOCK ? left : BLOCK;
        uint64_t any = 0;
        for (uint32_t h = 0; h < HALVES; h++)
            any |= rows[h];
        if (any == 0 && (zeroed || !fresh)) {
            continue;
        } else if (any == 0 && width == BLOCK) {
            for (size_t c = 0; c < p->classes; c++)
                store(grad + c * p->features, all(0));
        } else if (width == BLOCK) {
            backward_classes(p, s, rows, grad, p->features, fresh);
        } else { /* the last block is not full: by way of a buffer */
            _Alignas(64) float part[256 * BLOCK];
            backward_classes(p, s, rows, part, BLOCK, true);
            for (size_t c = 0; c < p->classes; c++)
                for (size_t k = 0; k < width; k++)
                    grad[c * p->features + k] =
                        part[c * BLOCK + k] + (fresh ? 0 : grad[c * p->features + k]);
        }
    }
}

void JOIN(yk_softmax_, YK_ISA)(struct yk_softmax_pass *p);
void JOIN(yk_softmax_, YK_ISA)(struct yk_softmax_pass *p)
{
    struct scratch s = carve(p->features, p->classes, p->scratch, NULL);
    _Alignas(64) float bias[256 + LANES], grad_bias[256 + LANES] = {0};
    for (uint32_t c = 0; c < s.pad; c++)
        bias[c] = c < p->classes ? p->bias[c] : -INFINITY;
    memset(s.ready, 0, sizeof(uint64_t) * s.words);
    p->loss = 0;
    p->correct = 0;
    for (uint32_t at = 0; at < p->n; at += YK_TILE) {
        uint32_t n = p->n - at < YK_TILE ? p->n - at : YK_TILE;
        const uint32_t *row = p->row + at;
        /* rows of this pass still to come; after the last tile, the next batch's */
        uint32_t left = p->n - at - n;
        const uint32_t *ahead = left > 0 ? row + n : p->ahead;
        uint32_t n_ahead = left > 0 ? left : p->n_ahead;
        forward(p, &s, row, n, ahead, n_ahead < n ? n_ahead : n);
        softmax_rows(p, &s, row, n, p->prob ? p->prob + (size_t)at * p->classes : NULL,
                     (const wide *)(const void *)bias, (wide *)(void *)grad_bias);
        if (p->grad_weight != NULL)
            backward(p, &s, row, n, at == 0);
    }
    if (p->grad_weight != NULL)
        memcpy(p->grad_bias, grad_bias, sizeof(float) * p->classes);
}
