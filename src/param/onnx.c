/* onnx.c - writes ONNX files; see onnx.h.
 *
 * The format is protobuf, whose fields are drawn in base/pb.c. We write these messages and fields
 * (* means repeated):
 *
 *     ModelProto       1 ir_version   2 producer_name   3 producer_version   7 graph
 *                      8 opset_import { 1 domain   2 version }
 *     GraphProto       1 node*   2 name   5 initializer*   11 input*   12 output*
 *     NodeProto        1 input*   2 output*   3 name   4 op_type   5 attribute*
 *     AttributeProto   1 name   2 f   3 i   8 ints*   20 type (1 float, 2 int, 7 ints)
 *     TensorProto      1 dims*   2 data_type (1 float, 7 int64)   8 name
 *                      9 raw_data, little-endian
 *     ValueInfoProto   1 name   2 type { 1 tensor_type { 1 elem_type   2 shape { 1 dim* } } }
 *     dim              1 dim_value or 2 dim_param
 *
 * A message begins with its length, so lengths are added up first and values are then written
 * without a copy.
 * LIMITS: little-endian machines only, as for parameters. */
#include "param/onnx.h"

#include "base/file.h"
#include "base/pb.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    IR_VERSION = 7,
    FLOAT = 1,
    INT64 = 7,
    ATTRIBUTE_FLOAT = 1,
    ATTRIBUTE_INT = 2,
    ATTRIBUTE_INTS = 7,
    OWN = 32 /* bytes of a tensor that is copied */
};
#define FILE_MOST ((uint64_t)INT32_MAX)

struct yk_onnx_tensor {
    struct yk_buf head; /* the fields up to the key and length of the values */
    const void *data;   /* NULL if the values are in `own` */
    uint64_t bytes;
    uint8_t own[OWN];
};

/* Appends the attribute in `v`, which has its value already, as field 5 of a node. */
static void close_attribute(struct yk_buf *attributes, struct yk_buf *v, const char *name,
                            uint64_t type)
{
    yk_pb_text(v, 1, name);
    yk_pb_varint(v, 20, type);
    yk_pb_message(attributes, 5, v);
    yk_buf_release(v);
}

void yk_onnx_int(struct yk_buf *attributes, const char *name, int64_t v)
{
    struct yk_buf b = {0};
    yk_pb_varint(&b, 3, (uint64_t)v);
    close_attribute(attributes, &b, name, ATTRIBUTE_INT);
}

void yk_onnx_float(struct yk_buf *attributes, const char *name, float v)
{
    struct yk_buf b = {0};
    yk_pb_float(&b, 2, v);
    close_attribute(attributes, &b, name, ATTRIBUTE_FLOAT);
}

void yk_onnx_ints(struct yk_buf *attributes, const char *name, const uint32_t *v, unsigned n)
{
    struct yk_buf b = {0};
    for (unsigned i = 0; i < n; i++)
        yk_pb_varint(&b, 8, v[i]);
    close_attribute(attributes, &b, name, ATTRIBUTE_INTS);
}

void yk_onnx_node(struct yk_onnx *g, const char *op, const char *name, const char *const *in,
                  unsigned ins, const char *out, struct yk_buf *attributes)
{
    struct yk_buf node = {0};
    for (unsigned i = 0; i < ins; i++)
        yk_pb_text(&node, 1, in[i]);
    yk_pb_text(&node, 2, out);
    yk_pb_text(&node, 3, name);
    yk_pb_text(&node, 4, op);
    if (attributes != NULL) {
        yk_buf_add(&node, attributes->data, attributes->len);
        node.failed |= attributes->failed;
        yk_buf_release(attributes);
    }
    yk_pb_message(&g->nodes, 1, &node);
    yk_buf_release(&node);
}

static void add_tensor(struct yk_onnx *g, const char *name, uint64_t type, unsigned ndim,
                       const uint64_t *shape, const void *data, uint64_t each)
{
    if (g->tensors == g->room) {
        size_t room = g->room > 0 ? 2 * g->room : 16;
        struct yk_onnx_tensor *more = realloc(g->tensor, room * sizeof *more);
        if (more == NULL) {
            g->failed = true;
            return;
        }
        g->tensor = more;
        g->room = room;
    }
    struct yk_onnx_tensor *t = &g->tensor[g->tensors++];
    *t = (struct yk_onnx_tensor){.data = data, .bytes = each};
    for (unsigned i = 0; i < ndim; i++) {
        t->bytes *= shape[i];
        yk_pb_varint(&t->head, 1, shape[i]);
    }
    if (t->bytes <= OWN) {
        memcpy(t->own, data, t->bytes);
        t->data = NULL;
    }
    yk_pb_varint(&t->head, 2, type);
    yk_pb_text(&t->head, 8, name);
    yk_pb_open(&t->head, 9, t->bytes);
    g->failed |= t->head.failed;
}

void yk_onnx_floats(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape,
                    const float *data)
{
    add_tensor(g, name, FLOAT, ndim, shape, data, sizeof *data);
}

void yk_onnx_shape(struct yk_onnx *g, const char *name, unsigned n, const int64_t *data)
{
    const uint64_t shape[] = {n};
    add_tensor(g, name, INT64, 1, shape, data, sizeof *data);
}

/* Adds a ValueInfoProto of floats as field `field` of the graph. */
static void add_value(struct yk_onnx *g, unsigned field, const char *name, unsigned ndim,
                      const uint64_t *shape)
{
    struct yk_buf dims = {0}, dim = {0}, tensor = {0}, type = {0}, value = {0};
    for (unsigned i = 0; i < ndim; i++) {
        yk_buf_clear(&dim);
        if (shape[i] == YK_ONNX_ANY)
            yk_pb_text(&dim, 2, "N");
        else
            yk_pb_varint(&dim, 1, shape[i]);
        yk_pb_message(&dims, 1, &dim);
    }
    yk_pb_varint(&tensor, 1, FLOAT);
    yk_pb_message(&tensor, 2, &dims);
    yk_pb_message(&type, 1, &tensor);
    yk_pb_text(&value, 1, name);
    yk_pb_message(&value, 2, &type);
    yk_pb_message(&g->values, field, &value);
    yk_buf_release(&dims);
    yk_buf_release(&dim);
    yk_buf_release(&tensor);
    yk_buf_release(&type);
    yk_buf_release(&value);
}

void yk_onnx_input(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape)
{
    add_value(g, 11, name, ndim, shape);
}

void yk_onnx_output(struct yk_onnx *g, const char *name, unsigned ndim, const uint64_t *shape)
{
    add_value(g, 12, name, ndim, shape);
}

/* Appends the part of the file before the tensors, which take `values` bytes. */
static void write_head(const struct yk_onnx *g, const char *name, uint64_t values,
                       struct yk_buf *out)
{
    struct yk_buf opset = {0}, label = {0};
    yk_pb_varint(out, 1, IR_VERSION);
    yk_pb_text(out, 2, "yoke");
    yk_pb_text(out, 3, YK_VERSION);
    yk_pb_text(&opset, 1, "");
    yk_pb_varint(&opset, 2, YK_ONNX_OPSET);
    yk_pb_message(out, 8, &opset);
    yk_pb_text(&label, 2, name);
    yk_pb_open(out, 7, g->nodes.len + label.len + g->values.len + values);
    yk_buf_add(out, g->nodes.data, g->nodes.len);
    yk_buf_add(out, label.data, label.len);
    yk_buf_add(out, g->values.data, g->values.len);
    out->failed |= opset.failed | label.failed | g->nodes.failed | g->values.failed | g->failed;
    yk_buf_release(&opset);
    yk_buf_release(&label);
}

yk_code yk_onnx_write(const struct yk_onnx *g, const char *path, const char *name,
                      struct yk_error *e)
{
    struct yk_outfile file;
    struct yk_buf head = {0}, key = {0};
    uint64_t values = 0; /* bytes of the tensors, with their keys and lengths */
    char size[24];
    for (size_t i = 0; i < g->tensors; i++) {
        const struct yk_onnx_tensor *t = &g->tensor[i];
        yk_buf_clear(&key);
        yk_pb_open(&key, 5, t->head.len + t->bytes);
        values += key.len + t->head.len + t->bytes; /* cannot wrap: all tensors are in memory */
    }
    write_head(g, name, values, &head);
    yk_code rc = YK_OK;
    if (head.failed || key.failed)
        rc = yk_fail_memory(e, head.len);
    else if (head.len + values > FILE_MOST)
        rc = yk_fail(e, YK_USAGE,
                     "cannot write '%s': an ONNX file has at most 2 GB, this one would have %s",
                     path, yk_size_text(head.len + values, size));
    if (rc == YK_OK)
        rc = yk_outfile_open(&file, path, e);
    if (rc != YK_OK)
        goto out_head;
    rc = yk_outfile_write(&file, head.data, head.len, e);
    for (size_t i = 0; rc == YK_OK && i < g->tensors; i++) {
        const struct yk_onnx_tensor *t = &g->tensor[i];
        yk_buf_clear(&key);
        yk_pb_open(&key, 5, t->head.len + t->bytes);
        yk_buf_add(&key, t->head.data, t->head.len);
        rc =
            key.failed ? yk_fail_memory(e, key.len) : yk_outfile_write(&file, key.data, key.len, e);
        if (rc == YK_OK)
            rc = yk_outfile_write(&file, t->data != NULL ? t->data : t->own, t->bytes, e);
    }
    if (rc == YK_OK)
        rc = yk_outfile_commit(&file, e);
    else
        yk_outfile_abort(&file);
out_head:
    yk_buf_release(&head);
    yk_buf_release(&key);
    return rc;
}

void yk_onnx_release(struct yk_onnx *g)
{
    for (size_t i = 0; i < g->tensors; i++)
        yk_buf_release(&g->tensor[i].head);
    free(g->tensor);
    yk_buf_release(&g->nodes);
    yk_buf_release(&g->values);
    *g = (struct yk_onnx){0};
}
