/* codec.h - floats made small for the wire: bf16, fp16, int8 or only the largest.
 *
 * A packed value is a sum of gradients or a change of parameters, and packing is lossy. The
 * rounding error is *carried*: the packer adds it to the next values (error feedback). So the sum
 * of all values that were sent never differs from the sum of all that were meant by more than one
 * rounding, however many steps there are.
 *
 *     codec     bytes a value   precision
 *     bf16      2               8 bits of the mantissa, every size
 *     fp16      2               11 bits, down to 2^-29 of the largest of the block
 *     int8      1               255 equal steps between - and + the largest of the block
 *     topk:F    4 F             the share F of largest size of a block, in bf16; others are carried
 *
 * Values go in *blocks* of 1024, each with a scale of its own, rather than one for a tensor: a
 * block can be packed before the other values are known, a tensor that owners share needs no
 * agreement on its scale, and one large value spoils the steps of one block only. It costs 0.4 % of
 * int8. A *packed* run of n values is
 *
 *     0     u64   n
 *     8     block 0, block 1, ... of 1024 values each, the last of them r = n - 1024 (blocks - 1)
 *
 *           bf16  u16 value[r]                  the upper half of a float, to nearest, ties to even
 *           fp16  f32 scale, u16 value[r]       IEEE half; times scale, a power of two
 *           int8  f32 scale, i8 value[r]        times scale
 *           topk  (u16 place, u16 value)[k]     bf16; places ascending, k = F r to nearest, not 0
 *
 * in the byte order of the machine: all ranks run the same binary. A value that is infinite or not
 * a number comes out as one (in fp16 and int8 with its whole block), and none of it is carried.
 *
 * THREADS: functions of their arguments only. */
#ifndef YK_STRATEGY_CODEC_H
#define YK_STRATEGY_CODEC_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct yk_codec {
    enum { YK_CODEC_NONE, YK_CODEC_BF16, YK_CODEC_FP16, YK_CODEC_INT8, YK_CODEC_TOPK } kind;
    double share; /* topk: F */
    size_t piece; /* values of one message at most, so that packing, wire and unpacking overlap */
};

/* "none", "bf16", "fp16", "int8" or "topk:F" with F in [0.001, 0.5]. */
yk_code yk_codec_parse(const char *text, struct yk_codec *out, struct yk_error *e);

/* Bytes of n values, packed; 0 for none of them. */
size_t yk_codec_size(const struct yk_codec *c, size_t n);
/* The same when they are cut into pieces. */
size_t yk_codec_room(const struct yk_codec *c, size_t n);

/* Pack value + scale carry into `out` (4 n bytes are enough), and carry the error, divided by
 * scale: sums over fewer examples count for more, and take less of it. Returns the bytes, or 0
 * if n is so small that packing saves nothing: then `out` has floats. */
size_t yk_codec_pack(const struct yk_codec *c, const float *value, float *carry, float scale,
                     size_t n, void *out);
/* Pack now - known into `out` (yk_codec_size bytes), and set `known` to the result of
 * yk_codec_add: the difference that is left is packed the next time. `known` NULL: pack the
 * values themselves. */
void yk_codec_pack_change(const struct yk_codec *c, const float *now, float *known, size_t n,
                          void *out);

/* The number of values that are packed there. False: it is more than `most`, or the length is
 * wrong. */
bool yk_codec_count(const struct yk_codec *c, const void *in, size_t bytes, size_t most, size_t *n);
/* Unpack in place n values that yk_codec_pack packed; the buffer has room for their floats. */
void yk_codec_unpack(const struct yk_codec *c, float *value, size_t n);
/* out = base + the n values that are packed at `in`; `base` may be `out`, or NULL for 0. */
void yk_codec_add(const struct yk_codec *c, const void *in, const float *base, float *out,
                  size_t n);

#endif
