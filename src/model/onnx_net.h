/* onnx_net.h - trained models as ONNX graphs, for programs that run those.
 *
 * Images go in as the data has them: "pixels", float (N, height, width, channels), 0 to 255; scaling, mean and deviation and the order
 * of channels are part of the graph. Sparse models take "features", float (N, features), dense. What comes out is "probabilities", float
 * (N, classes). Parameters keep their names. Files are atomic (see base/file.h). */
#ifndef YK_MODEL_ONNX_NET_H
#define YK_MODEL_ONNX_NET_H

#include "model/net.h"

enum {
    YK_ONNX_FEATURES = 1 << 20
}; /* of a sparse model, at most: a row of input is dense, 4 MB then */

yk_code yk_onnx_net(const char *path, const struct yk_net *n, const struct yk_params *p,
                    struct yk_error *e);
/* softmax regression on images of shape height, width, channels */
yk_code yk_onnx_softmax(const char *path, const uint32_t shape[3], uint32_t classes,
                        const struct yk_params *p, struct yk_error *e);
/* YK_USAGE if there are more than YK_ONNX_FEATURES */
yk_code yk_onnx_logreg(const char *path, uint64_t features, const struct yk_params *p,
                       struct yk_error *e);

#endif
