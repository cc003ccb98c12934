/* onednn_plan.h - what the onednn*.c files share: a chain under construction, its tensors and its
 * operations.
 *
 * A plan is a list of *operations*, those of the forward pass and behind them those of the backward
 * pass, each one a primitive (or a small function of ours) with the *tensors* it reads and writes.
 * A tensor in the arena lives from the first operation that touches it to the last; tensors that do
 * not live at the same time share memory. Errors are sticky: once one has happened, nothing more is
 * built. */
#ifndef YK_KERNEL_ONEDNN_PLAN_H
#define YK_KERNEL_ONEDNN_PLAN_H

#include "kernel/onednn.h"

#include <oneapi/dnnl/dnnl.h>

enum { YK_DNN_ARGS = 8, YK_DNN_NONE = -1 };

typedef int yk_tensor; /* index in yk_dnn.tensor; YK_DNN_NONE */

enum yk_place { YK_IN_ARENA, YK_IN_PARAMS, YK_IN_GRAD };

struct yk_dnn_tensor {
    dnnl_memory_desc_t md;
    enum yk_place place;
    size_t at;            /* arena: bytes; parameters and gradients: floats */
    size_t bytes;         /* of an arena tensor */
    yk_tensor base;       /* the tensor whose memory this is a view of; mostly itself */
    unsigned first, last; /* the first and the last operation that touch it */
    dnnl_memory_t memory;
};

struct yk_dnn_op {
    dnnl_primitive_t primitive; /* NULL: the operation is `call` */
    void (*call)(const struct yk_dnn *d, const struct yk_dnn_op *op, const struct yk_dnn_pass *p);
    yk_tensor tensor[YK_DNN_ARGS];
    dnnl_exec_arg_t arg[YK_DNN_ARGS];
    int args;
    unsigned layer;
    bool done; /* the last operation for the gradients of `layer` */
};

/* What the backward pass of a layer needs from its forward pass. */
struct yk_dnn_stage {
    dnnl_primitive_desc_t forward; /* NULL: none */
    yk_tensor src, dst;            /* as the primitive has them */
    yk_tensor weight;              /* plain, in the parameters */
    yk_tensor workspace;           /* maxpool, lrn; dropout: the mask */
    yk_tensor mean, var, scale;    /* batchnorm */
    bool fused;                    /* an activation that the layer before it computes */
};

struct yk_dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    unsigned threads;
    uint32_t images;
    bool train, inner;
    struct yk_dnn_layer *layer; /* (layers) */
    unsigned layers;
    struct yk_dnn_stage *stage; /* (layers) */
    struct yk_dnn_tensor *tensor;
    int tensors, tensor_room;
    struct yk_dnn_op *op;
    unsigned ops, op_room;
    unsigned backward; /* the first operation of the backward pass */
    yk_tensor input, output, output_grad, input_grad;
    bool channels_last;
    char *arena;
    size_t arena_bytes;
    const float *params; /* parameters of the last pass; memory objects point there */
    float *grad;         /* gradients of the last pass, likewise */
    struct yk_dnn_facts facts;
    /* while it is built */
    yk_tensor now; /* the activations, or their gradients, that the next layer works on */
    yk_code rc;
    struct yk_error *e;
};

/* onednn.c: tensors */
dnnl_memory_desc_t yk_dnn_md(int ndims, const dnnl_dim_t *dims, dnnl_format_tag_t tag);
/* The activations of a layer, (images, c, h, w). */
dnnl_memory_desc_t yk_dnn_image_md(const struct yk_dnn *d, const uint32_t shape[3],
                                   dnnl_format_tag_t tag);
yk_tensor yk_dnn_tensor(struct yk_dnn *d, const dnnl_memory_desc_t *md, enum yk_place place,
                        size_t at);
yk_tensor yk_dnn_alias(struct yk_dnn *d, yk_tensor of, const dnnl_memory_desc_t *md);
/* The same numbers in another layout: the tensor itself if it has it, else a copy that an operation
 * makes. */
yk_tensor yk_dnn_fit(struct yk_dnn *d, unsigned layer, yk_tensor t, const dnnl_memory_desc_t *want);
void yk_dnn_reorder(struct yk_dnn *d, unsigned layer, yk_tensor from, yk_tensor to);
/* The numbers of a tensor: in a pass, or those of an arena tensor once the plan is finished. */
float *yk_dnn_floats(const struct yk_dnn *d, yk_tensor t);

/* onednn.c: operations. The caller destroys primitive descriptions. */
bool yk_dnn_check(struct yk_dnn *d, unsigned layer, const char *what, dnnl_status_t status);
dnnl_primitive_desc_t yk_dnn_describe(struct yk_dnn *d, unsigned layer, const char *what,
                                      const_dnnl_op_desc_t desc, const_dnnl_primitive_desc_t hint,
                                      const enum yk_dnn_kind *activation);
dnnl_memory_desc_t yk_dnn_query(const struct yk_dnn *d, const_dnnl_primitive_desc_t pd,
                                dnnl_query_t what, int i);
struct yk_dnn_use {
    int arg; /* DNNL_ARG_... */
    yk_tensor tensor;
};
/* Appends an operation that executes `pd`, or `call`, on a list of tensors that ends at the first
 * YK_DNN_NONE. Returns the operation, or NULL after a failure. */
struct yk_dnn_op *yk_dnn_add(struct yk_dnn *d, unsigned layer, const_dnnl_primitive_desc_t pd,
                             const struct yk_dnn_use *use);
struct yk_dnn_op *yk_dnn_add_call(struct yk_dnn *d, unsigned layer,
                                  void (*call)(const struct yk_dnn *, const struct yk_dnn_op *,
                                               const struct yk_dnn_pass *),
                                  const struct yk_dnn_use *use);

/* onednn_layers.c: append the operations of a layer, which read d->now and leave their result
 * there. */
void yk_dnn_layer_forward(struct yk_dnn *d, unsigned layer);
/* `data`: the layers before need gradients. */
void yk_dnn_layer_backward(struct yk_dnn *d, unsigned layer, bool data);
bool yk_dnn_layer_learns(const struct yk_dnn_layer *l);

#endif
