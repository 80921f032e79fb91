// Activations brought into the form that products read, with sum and norms before it, as one node. For GPUs alone;
// cuda/prepare_rows.h has what is computed.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix_match.h"
#include "matrix_setup.h"

struct ggml_context;

namespace orin {

// F32 that a row takes in this form.
int64_t row_floats(MatrixRows rows, int64_t n_values);

struct ActivationSources {
    ggml_tensor * x;                          // [n_tokens, n_values]: what is normed, or brought into the form as it is
    ggml_tensor * residual;                   // what x, or its post norm, is added to; or null
    std::vector<ggml_tensor *> next_weights;  // of the products that read the rows: some may be asked for ahead
};

struct ActivationNode {
    ggml_tensor * node;
    ggml_tensor * rows;  // the node, or a part of it
    ggml_tensor * sum;   // a part of the node where there is a residual, else null
};

ActivationNode activation_node(ggml_context * context, const RowsSite & site, const ActivationSources & sources,
                               MatrixSetup & setup);

#ifdef ORIN_CUDA
// Makes the CUDA backend run these nodes.
void register_activation_op();
#endif

}  // namespace orin
