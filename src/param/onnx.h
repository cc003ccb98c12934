/* onnx.h - writes graphs in the ONNX format, which is drawn in onnx.c.
 *
 * A graph has nodes (an operator reads tensors by name and writes one), tensors with values, inputs
 * and an output. A node must be added after the nodes whose results it reads. A failed allocation
 * is remembered, and yk_onnx_write reports it. The content of a graph comes from model/net.
 * THREADS: a graph belongs to one thread. */
#ifndef YK_PARAM_ONNX_H
#define YK_PARAM_ONNX_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { YK_ONNX_OPSET = 13 };   /* operators as of ONNX 1.8 */
#define YK_ONNX_ANY UINT64_MAX /* a dimension of any size: the number of examples */

struct yk_onnx {
    struct yk_buf nodes;  /* the node fields of GraphProto */
    struct yk_buf values; /* the input and output fields of GraphProto */
    struct yk_onnx_tensor *tensor;
    size_t tensors, room;
    bool failed;
};

/* Attributes of the next node are collected in a buffer. */
void yk_onnx_int(struct yk_buf *attributes, const char *name, int64_t v);
void yk_onnx_float(struct yk_buf *attributes, const char *name, float v);
void yk_onnx_ints(struct yk_buf *attributes, const char *name, const uint32_t *v, unsigned n);

/* `in` has `ins` names. `attributes` may be NULL; it is emptied. */
void yk_onnx_node(struct yk_onnx *g, const char *op, const char *name, const char *const *in,
                  unsigned ins, const char *out, struct yk_buf *attributes);

/* Adds a tensor with values: floats, or at most 4 whole numbers as a shape. Up to 32 bytes of
 * `data` are copied; more must stay valid until the graph is written. */
void yk_onnx_floats(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape,
                    const float *data);
void yk_onnx_shape(struct yk_onnx *g, const char *name, unsigned n, const int64_t *data);

void yk_onnx_input(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape);
void yk_onnx_output(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape);

/* Writes the file atomically (see base/file.h). More than 2 GB is YK_USAGE, the limit of
 * protobuf. */
yk_code yk_onnx_write(const struct yk_onnx *g, const char *path, const char *name,
                      struct yk_error *e);
/* A zeroed graph is fine. */
void yk_onnx_release(struct yk_onnx *g);

#endif
