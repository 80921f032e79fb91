// Products of weights with activations as one node: the matrices that read the same rows, their biases, a gate, what
// they are added to. For GPUs alone; cuda/matrix.h has what is computed.
#pragma once

#include "matrix_kernels.h"
#include "matrix_match.h"
#include "matrix_setup.h"

struct ggml_context;

namespace orin {

// The node of a site. input: rows in the form that the site reads; residual: what is added, or null. Its result is what
// the site has in the end: [n_tokens, n_rows] of its parts, one part behind the other; of a gate or a sum; or rows that
// products read.
ggml_tensor * product_node(ggml_context * context, const MatrixSite & site, ggml_tensor * input, ggml_tensor * residual,
                           MatrixSetup & setup);

// The first of its matrices; null for any other node.
const ggml_tensor * first_weights(const ggml_tensor & node);

#ifdef ORIN_CUDA
// What its launch works in. PRECOND: the CUDA backend supports it.
MatrixMemory memory_for(const ggml_tensor & node);

// Makes the CUDA backend run these nodes.
void register_product_op();
#endif

}  // namespace orin
