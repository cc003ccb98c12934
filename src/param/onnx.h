/* onnx.h - writes graphs in ONNX's format, drawn in onnx.c. What stands in a graph is for others to say (model/onnx_net.c).
 *
 * A graph is made of nodes (an operator that reads tensors by name and writes one), tensors with values, inputs and an output; nodes in
 * an order in which each reads what is there already. An allocation that fails is remembered, and yk_onnx_write says so.
 * THREADS: a graph belongs to one thread. */
#ifndef YK_PARAM_ONNX_H
#define YK_PARAM_ONNX_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { YK_ONNX_OPSET = 13 };   /* operators as of ONNX 1.8 */
#define YK_ONNX_ANY UINT64_MAX /* a dimension that is open: the number of examples */

struct yk_onnx {
    struct yk_buf nodes;  /* the fields of GraphProto that are nodes, */
    struct yk_buf values; /* inputs and outputs */
    struct yk_onnx_tensor *tensor;
    size_t tensors, room;
    bool failed;
};

/* Attributes of the next node are gathered in a buffer. */
void yk_onnx_int(struct yk_buf *attributes, const char *name, int64_t v);
void yk_onnx_float(struct yk_buf *attributes, const char *name, float v);
void yk_onnx_ints(struct yk_buf *attributes, const char *name, const uint32_t *v, unsigned n);

/* `in`: names, `ins` of them. `attributes` may be NULL; it is emptied. */
void yk_onnx_node(struct yk_onnx *g, const char *op, const char *name, const char *const *in,
                  unsigned ins, const char *out, struct yk_buf *attributes);

/* A tensor with values. `data` must live until the graph is written, unless it is 32 bytes or less: then it is copied. */
void yk_onnx_floats(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape,
                    const float *data);
void yk_onnx_shape(struct yk_onnx *g, const char *name, unsigned n,
                   const int64_t *data); /* of whole numbers, n <= 4 */

void yk_onnx_input(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape);
void yk_onnx_output(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape);

/* Atomic (see base/file.h); values go straight to the file. More than 2 GB is YK_USAGE: protobuf ends there. */
yk_code yk_onnx_write(const struct yk_onnx *g, const char *path, const char *name,
                      struct yk_error *e);
void yk_onnx_release(struct yk_onnx *g); /* a zeroed one is fine */

#endif
