/* layer_activation.c - functions of single numbers: relu, tanh, sigmoid. Operations: 1 a number. */
#include "model/net/layer.h"

const struct yk_layer_ops yk_layer_relu = {
    .name = "relu",
    .flops_each = 1,
    .onnx_op = "Relu",
    .graph_op = "Relu",
    .joins_previous = true,
};

const struct yk_layer_ops yk_layer_tanh = {
    .name = "tanh",
    .flops_each = 1,
    .onnx_op = "Tanh",
    .graph_op = "Tanh",
    .joins_previous = true,
};

const struct yk_layer_ops yk_layer_sigmoid = {
    .name = "sigmoid",
    .flops_each = 1,
    .onnx_op = "Sigmoid",
    .graph_op = "Sigmoid",
    .joins_previous = true,
};
