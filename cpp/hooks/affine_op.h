// y = scale * x + bias as a custom op: the pattern that every custom op of ours follows, and what proves the dispatch.
#pragma once

#include "ggml.h"

namespace orin {

struct AffineFactors {
    float scale = 1.0f;
    float bias = 0.0f;
};

// A node of x's shape. x: F32, contiguous. `factors` must outlive the graph.
ggml_tensor * affine_node(ggml_context * ctx, ggml_tensor * x, AffineFactors * factors);

// The CPU implementation; `userdata` is the AffineFactors.
void affine_cpu(ggml_tensor * dst, int ith, int nth, void * userdata);

bool affine_supports(const ggml_tensor * op);

#ifdef ORIN_CUDA
// Makes the CUDA backend run these nodes.
void register_affine_op();
#endif

}  // namespace orin
