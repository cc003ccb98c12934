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

static size_t put_key(uint8_t *out, unsigned field, unsigned type)
{
    return put_varint(out, (uint64_t)field << 3 | type);
}

/* A key and the number behind it: a value of type VARINT, or the length of BYTES. */
static void add_varint(struct yk_buf *b, unsigned field, unsigned type, uint64_t v)
{
    uint8_t out[2 * VARINT_MAX];
    size_t n = put_key(out, field, type);
    n += put_varint(out + n, v);
    yk_buf_add(b, out, n);
}

static void add_fixed(struct yk_buf *b, unsigned field, unsigned type, uint64_t bits, size_t bytes)
{
    uint8_t out[VARINT_MAX + 8];
    size_t n = put_key(out, field, type);
    for (size_t i = 0; i < bytes; i++)
        out[n++] = (uint8_t)(bits >> (8 * i));
    yk_buf_add(b, out, n);
}

void yk_pb_varint(struct yk_buf *b, unsigned field, uint64_t v)
{
    add_varint(b, field, VARINT, v);
}

void yk_pb_double(struct yk_buf *b, unsigned field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    add_fixed(b, field, FIXED64, bits, sizeof bits);
}

void yk_pb_float(struct yk_buf *b, unsigned field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    add_fixed(b, field, FIXED32, bits, sizeof bits);
}

void yk_pb_open(struct yk_buf *b, unsigned field, uint64_t n)
{
    add_varint(b, field, BYTES, n);
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
