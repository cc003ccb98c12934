/* pb.c - protobuf wire format, writing. A message is a sequence of fields, each a key and a
 * payload:
 *
 *     key     varint   field << 3 | wire type
 *     type 0  varint   7 bits a byte, least significant first, bit 7 set on all but the last byte
 *     type 1  8 bytes  little-endian (double)
 *     type 2  varint   length, then that number of bytes (bytes, text, nested message)
 *     type 5  4 bytes  little-endian (float)
 *
 * Fields are written even if they hold their default value, which every reader accepts. A negative
 * int64 is written as its two's complement, ten bytes long. */
#include "base/pb.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { VARINT_MAX = 10 }; /* bytes of the longest varint */

static size_t put_varint(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v >= 128; v >>= 7)
        out[n++] = (uint8_t)(v | 128);
    out[n++] = (uint8_t)v;
    return n;
}

static size_t put_fixed(uint8_t *out, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(v >> (8 * i));
    return n;
}

static size_t put_key(uint8_t *out, unsigned field, unsigned type)
{
    return put_varint(out, (uint64_t)field << 3 | type);
}

void yk_pb_varint(struct yk_buf *b, unsigned field, uint64_t v)
{
    uint8_t out[2 * VARINT_MAX];
    size_t n = put_key(out, field, VARINT);
    n += put_varint(out + n, v);
    yk_buf_add(b, out, n);
}

void yk_pb_double(struct yk_buf *b, unsigned field, double v)
{
    uint8_t out[VARINT_MAX + 8];
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    size_t n = put_key(out, field, FIXED64);
    n += put_fixed(out + n, bits, 8);
    yk_buf_add(b, out, n);
}

void yk_pb_float(struct yk_buf *b, unsigned field, float v)
{
    uint8_t out[VARINT_MAX + 4];
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    size_t n = put_key(out, field, FIXED32);
    n += put_fixed(out + n, bits, 4);
    yk_buf_add(b, out, n);
}

void yk_pb_open(struct yk_buf *b, unsigned field, uint64_t n)
{
    uint8_t out[2 * VARINT_MAX];
    size_t k = put_key(out, field, BYTES);
    k += put_varint(out + k, n);
    yk_buf_add(b, out, k);
}

void yk_pb_bytes(struct yk_buf *b, unsigned field, const void *bytes, size_t n)
{
    yk_pb_open(b, field, n);
    yk_buf_add(b, bytes, n);
}

void yk_pb_text(struct yk_buf *b, unsigned field, const char *text)
{
    yk_pb_bytes(b, field, text, strlen(text));
}

void yk_pb_message(struct yk_buf *b, unsigned field, const struct yk_buf *inner)
{
    yk_pb_bytes(b, field, inner->data, inner->len);
    b->failed |= inner->failed; /* a nested buffer that ran out of memory is incomplete */
}
