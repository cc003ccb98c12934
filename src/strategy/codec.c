/* codec.c - packs and unpacks floats for the wire; see codec.h, where the format is drawn.
 *
 * A block is packed in small arrays, which stay in the nearest cache, and copied out. Unpacking
 * in place goes from the last block to the first: a block and the header together are shorter
 * than the block's floats, so what is unpacked never reaches what is still to be read. The loops
 * are plain and without branches, for the compiler to make vectors of (YK_WIDE): they run at the
 * speed of memory. */
#include "strategy/codec.h"

#include "base/wide.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024, HEADER = 8, PIECE = 1 << 18 };

static const double LEAST_SHARE = 0.001, MOST_SHARE = 0.5;
static const uint32_t INFINITE = 0x7f800000; /* the bits of infinity */
static const uint32_t TINY =
    0x0d800000; /* 2^-100: the inverse of a smaller scale may be infinite */

yk_code yk_codec_parse(const char *text, struct yk_codec *out, struct yk_error *e)
{
    static const char *const NAME[] = {"none", "bf16", "fp16", "int8"};
    *out = (struct yk_codec){.piece = PIECE};
    for (unsigned i = 0; i < sizeof NAME / sizeof NAME[0]; i++)
        if (strcmp(text, NAME[i]) == 0) {
            out->kind = i;
            return YK_OK;
        }
    char *end = NULL;
    double share = strncmp(text, "topk:", 5) == 0 ? strtod(text + 5, &end) : 0;
    if (end != NULL && end != text + 5 && *end == '\0' && share >= LEAST_SHARE &&
        share <= MOST_SHARE) {
        out->kind = YK_CODEC_TOPK;
        out->share = share;
        return YK_OK;
    }
    yk_fail(e, YK_USAGE, "--compress: '%.40s' is no way to compress", text);
    yk_hint(e, "none, bf16, fp16, int8, or topk:F with a share F from %g to %g, such as topk:0.01",
            LEAST_SHARE, MOST_SHARE);
    return YK_USAGE;
}

/* The values of a block of r that topk sends. */
static size_t kept(const struct yk_codec *c, size_t r)
{
    size_t k = (size_t)(c->share * (double)r + 0.5);
    return k > 0 ? k : 1;
}

static size_t block_size(const struct yk_codec *c, size_t r)
{
    switch (c->kind) {
    case YK_CODEC_NONE:
        break;
    case YK_CODEC_BF16:
        return 2 * r;
    case YK_CODEC_FP16:
        return 4 + 2 * r;
    case YK_CODEC_INT8:
        return 4 + r;
    case YK_CODEC_TOPK:
        return 4 * kept(c, r);
    }
    return 4 * r;
}

size_t yk_codec_size(const struct yk_codec *c, size_t n)
{
    size_t rest = n % BLOCK;
    return n > 0 ? HEADER + n / BLOCK * block_size(c, BLOCK) + (rest > 0 ? block_size(c, rest) : 0)
                 : 0;
}

size_t yk_codec_room(const struct yk_codec *c, size_t n)
{
    return n / c->piece * yk_codec_size(c, c->piece) + yk_codec_size(c, n % c->piece);
}

static size_t at_most(size_t n)
{
    return n < BLOCK ? n : BLOCK;
}

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* --- the loops: x[n] -> q[n], and back --- */

static inline uint32_t to_bf16(float x)
{
    uint32_t u = bits_of(x), nearest = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = u >> 16 | 0x40;
    return (u & 0x7fffffff) > INFINITE ? quiet : nearest;
}

YK_WIDE static void pack_bf16(const float *restrict x, uint16_t *restrict q, float *restrict seen,
                              size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = to_bf16(x[i]);
        q[i] = (uint16_t)u;
        seen[i] = float_of(u << 16);
    }
}

YK_WIDE static void unpack_bf16(const uint16_t *restrict q, float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = float_of((uint32_t)q[i] << 16);
}

/* The bits of the largest size. As integers they have the order of the sizes, and what is
 * infinite or no number is above all others. */
YK_WIDE static uint32_t largest(const float *x, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u = bits_of(x[i]) & 0x7fffffff;
        most = u > most ? u : most;
    }
    return most;
}

/* x times a power of two lies within +-2^15, so nothing overflows. Sizes below 2^-14 are
 * multiples of 2^-24: adding 0.5 rounds to one. */
YK_WIDE static void pack_fp16(const float *restrict x, float scale, uint16_t *restrict q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float y = x[i] * scale;
        uint32_t u = bits_of(y), size = u & 0x7fffffff, sign = u >> 16 & 0x8000;
        uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
        uint32_t small = bits_of(float_of(size) + 0.5f) - 0x3f000000;
        q[i] = (uint16_t)(sign | (size < (113u << 23) ? small : normal));
    }
}

YK_WIDE static void unpack_fp16(const uint16_t *restrict q, float scale, float *restrict x,
                                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sign = (uint32_t)(q[i] & 0x8000) << 16, size = (uint32_t)(q[i] & 0x7fff) << 13;
        x[i] = float_of(bits_of(float_of(size) * 0x1p112f) | sign) * scale;
    }
}

/* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
YK_WIDE static void pack_int8(const float *restrict x, float inverse, int8_t *restrict q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)(int32_t)(bits_of(x[i] * inverse + 0x1.8p23f) - 0x4b400000);
}

YK_WIDE static void unpack_int8(const int8_t *restrict q, float scale, float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = scale * (float)q[i];
}

/* The values of at least this size. */
YK_WIDE static unsigned count_above(const float *x, uint32_t least, size_t n)
{
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += (bits_of(x[i]) & 0x7fffffff) >= least;
    return count;
}

YK_WIDE static void add(const float *a, const float *b, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

YK_WIDE static void take(const float *restrict value, const float *restrict carry, float scale,
                         float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value[i] + scale * carry[i];
}

/* An error that is infinite or not a number is not carried: it would spoil all later values. */
YK_WIDE static void leave(const float *restrict x, const float *restrict sent, float scale,
                          float *restrict carry, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float rest = (x[i] - sent[i]) * scale;
        carry[i] = fabsf(rest) < INFINITY ? rest : 0;
    }
}

YK_WIDE static void subtract(const float *restrict a, const float *restrict b, float *restrict to,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] - b[i];
}

/* --- blocks --- */

/* The k of largest size; of equals those that come first. The k-th size is found by halving:
 * some 30 looks at 4 KB that are in the nearest cache. */
static void pack_topk(const float *x, size_t n, size_t k, uint16_t (*out)[2], float *seen)
{
    uint32_t low = 0, high = UINT32_C(1) << 31; /* at least k are of size `low`, fewer of `high` */
    unsigned above = 0;                         /* values of size `high` or more */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        unsigned count = count_above(x, middle, n);
        if (count >= k) {
            low = middle;
        } else {
            high = middle;
            above = count;
        }
        if (count == k) {
            high = low;
            above = count;
        }
    }
    size_t equals = k - above, j = 0;
    memset(seen, 0, n * sizeof *seen);
    for (size_t i = 0; i < n && j < k; i++) {
        uint32_t size = bits_of(x[i]) & 0x7fffffff, value = to_bf16(x[i]);
        if (size < high && (size < low || equals == 0))
            continue;
        equals -= size < high;
        out[j][0] = (uint16_t)i;
        out[j++][1] = (uint16_t)value;
        seen[i] = float_of(value << 16);
    }
}

/* x[r] -> out[block_size], and what the other side will make of it -> seen[r]. */
static void pack_block(const struct yk_codec *c, const float *x, size_t r, char *out, float *seen)
{
    union {
        uint16_t half[BLOCK];
        int8_t byte[BLOCK];
        uint16_t entry[BLOCK / 2][2];
    } q;
    uint32_t most;
    float scale = 0;
    switch (c->kind) {
    case YK_CODEC_NONE:
        memcpy(seen, x, r * sizeof *x);
        memcpy(out, x, r * sizeof *x);
        break;
    case YK_CODEC_BF16:
        pack_bf16(x, q.half, seen, r);
        memcpy(out, q.half, 2 * r);
        break;
    case YK_CODEC_FP16:
        most = largest(x, r);
        if (most >= INFINITE)
            scale = NAN;
        else if (most >= TINY)
            scale = float_of((most & INFINITE) - (14u << 23)); /* the largest becomes >= 2^14 */
        pack_fp16(x, scale > 0 ? 1 / scale : 0, q.half, r);
        unpack_fp16(q.half, scale, seen, r);
        memcpy(out, &scale, 4);
        memcpy(out + 4, q.half, 2 * r);
        break;
    case YK_CODEC_INT8:
        most = largest(x, r);
        if (most >= INFINITE)
            scale = NAN;
        else if (most >= TINY)
            scale = float_of(most) / 127;
        pack_int8(x, scale > 0 ? 127 / float_of(most) : 0, q.byte, r);
        unpack_int8(q.byte, scale, seen, r);
        memcpy(out, &scale, 4);
        memcpy(out + 4, q.byte, r);
        break;
    case YK_CODEC_TOPK:
        pack_topk(x, r, kept(c, r), q.entry, seen);
        memcpy(out, q.entry, 4 * kept(c, r));
        break;
    }
}

static void unpack_block(const struct yk_codec *c, const char *in, float *x, size_t r)
{
    union {
        uint16_t half[BLOCK];
        int8_t byte[BLOCK];
        uint16_t entry[BLOCK / 2][2];
    } q;
    float scale;
    switch (c->kind) {
    case YK_CODEC_NONE:
        memmove(x, in, r * sizeof *x);
        break;
    case YK_CODEC_BF16:
        memcpy(q.half, in, 2 * r);
        unpack_bf16(q.half, x, r);
        break;
    case YK_CODEC_FP16:
        memcpy(&scale, in, 4);
        memcpy(q.half, in + 4, 2 * r);
        unpack_fp16(q.half, scale, x, r);
        break;
    case YK_CODEC_INT8:
        memcpy(&scale, in, 4);
        memcpy(q.byte, in + 4, r);
        unpack_int8(q.byte, scale, x, r);
        break;
    case YK_CODEC_TOPK:
        memcpy(q.entry, in, 4 * kept(c, r));
        memset(x, 0, r * sizeof *x);
        for (size_t j = 0; j < kept(c, r); j++)
            if (q.entry[j][0] < r)
                x[q.entry[j][0]] = float_of((uint32_t)q.entry[j][1] << 16);
        break;
    }
}

/* --- runs of blocks --- */

size_t yk_codec_pack(const struct yk_codec *c, const float *value, float *carry, float scale,
                     size_t n, void *out)
{
    _Alignas(64) float x[BLOCK], seen[BLOCK];
    const uint64_t header = n;
    char *to = out;
    if (yk_codec_size(c, n) > n * sizeof *value) {
        take(value, carry, scale, out, n);
        memset(carry, 0, n * sizeof *carry);
        return 0;
    }
    memcpy(to, &header, HEADER);
    to += HEADER;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t r = at_most(n - at);
        take(value + at, carry + at, scale, x, r);
        pack_block(c, x, r, to, seen);
        leave(x, seen, 1 / scale, carry + at, r);
        to += block_size(c, r);
    }
    return (size_t)(to - (char *)out);
}

void yk_codec_pack_change(const struct yk_codec *c, const float *now, float *known, size_t n,
                          void *out)
{
    _Alignas(64) float x[BLOCK], seen[BLOCK];
    const uint64_t header = n;
    char *to = out;
    memcpy(to, &header, HEADER);
    to += HEADER;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t r = at_most(n - at);
        if (known != NULL)
            subtract(now + at, known + at, x, r);
        pack_block(c, known != NULL ? x : now + at, r, to, seen);
        if (known != NULL)
            add(known + at, seen, known + at, r);
        to += block_size(c, r);
    }
}

bool yk_codec_count(const struct yk_codec *c, const void *in, size_t bytes, size_t most, size_t *n)
{
    uint64_t header;
    if (bytes < HEADER)
        return false;
    memcpy(&header, in, HEADER);
    if (header == 0 || header > most || yk_codec_size(c, header) != bytes)
        return false;
    *n = header;
    return true;
}

void yk_codec_unpack(const struct yk_codec *c, float *value, size_t n)
{
    for (size_t left = (n + BLOCK - 1) / BLOCK; left > 0; left--) {
        size_t at = (left - 1) * BLOCK, r = at_most(n - at);
        unpack_block(c, (const char *)value + HEADER + (left - 1) * block_size(c, BLOCK),
                     value + at, r);
    }
}

void yk_codec_add(const struct yk_codec *c, const void *in, const float *base, float *out, size_t n)
{
    _Alignas(64) float x[BLOCK];
    const char *from = (const char *)in + HEADER;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t r = at_most(n - at);
        unpack_block(c, from, base != NULL ? x : out + at, r);
        if (base != NULL)
            add(base + at, x, out + at, r); /* as the packer has it: the same bits on both sides */
        from += block_size(c, r);
    }
}
