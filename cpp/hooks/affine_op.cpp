#include "affine_op.h"

#include <algorithm>
#include <cstdint>

#ifdef ORIN_CUDA
#include "../../cuda/affine.h"
#include "custom_op.h"
#endif

namespace orin {

ggml_tensor * affine_node(ggml_context * ctx, ggml_tensor * x, AffineFactors * factors) {
    return ggml_custom_4d(ctx, GGML_TYPE_F32, x->ne[0], x->ne[1], x->ne[2], x->ne[3], &x, 1, affine_cpu,
                          GGML_N_TASKS_MAX, factors);
}

void affine_cpu(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const AffineFactors factors = *static_cast<const AffineFactors *>(userdata);
    const auto * x = static_cast<const float *>(dst->src[0]->data);
    auto * y = static_cast<float *>(dst->data);
    const int64_t n = ggml_nelements(dst);
    const int64_t share = (n + nth - 1) / nth;
    const int64_t end = std::min(n, share * (ith + 1));
    for (int64_t i = share * ith; i < end; i++) {
        y[i] = factors.scale * x[i] + factors.bias;
    }
}

bool affine_supports(const ggml_tensor * op) {
    const ggml_tensor * x = op->src[0];
    return op->type == GGML_TYPE_F32 && x->type == GGML_TYPE_F32 && ggml_is_contiguous(x) && ggml_are_same_shape(x, op);
}

#ifdef ORIN_CUDA
namespace {

int affine_launch(ggml_tensor * op, void * userdata, void * stream) {
    const auto * factors = static_cast<const AffineFactors *>(userdata);
    const cuda::AffineParams params = {static_cast<const float *>(op->src[0]->data), static_cast<float *>(op->data),
                                       ggml_nelements(op), factors->scale, factors->bias};
    return cuda::affine(params, static_cast<cudaStream_t>(stream));
}

}  // namespace

void register_affine_op() {
    register_custom_op({affine_cpu, affine_supports, affine_launch});
}
#endif

}  // namespace orin
