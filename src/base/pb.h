/* pb.h - writes the part of the protobuf wire format that TensorBoard events, tf.train.Example and
 * ONNX need. Fields are appended to a yk_buf. A nested message is built in a buffer of its own and
 * added with yk_pb_message. */
#ifndef YK_BASE_PB_H
#define YK_BASE_PB_H

#include "base/buf.h"

#include <stdint.h>

void yk_pb_varint(struct yk_buf *b, unsigned field, uint64_t v);
void yk_pb_double(struct yk_buf *b, unsigned field, double v);
void yk_pb_float(struct yk_buf *b, unsigned field, float v);
void yk_pb_bytes(struct yk_buf *b, unsigned field, const void *bytes, size_t n);
void yk_pb_text(struct yk_buf *b, unsigned field, const char *text);
void yk_pb_message(struct yk_buf *b, unsigned field, const struct yk_buf *inner);
/* Begins a field whose `n` bytes the caller writes afterwards. */
void yk_pb_open(struct yk_buf *b, unsigned field, uint64_t n);

#endif
