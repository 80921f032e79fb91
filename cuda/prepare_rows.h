// Activations made ready for the products that read them: normalised, and in the format of their rows, in one launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "activation_rows.h"
#include "l2_prefetch.h"

namespace orin::cuda {

// For each token, with norm(x) = x / √(mean of x² + eps):
//
//   x' = x, or residual + x, or residual + norm(x) · post_weight
//   y  = x', or norm(x') · weight
//
// All pointers are of the device and aligned to 16 bytes, strides are multiples of 4 floats.
struct PrepareRowsParams {
    int32_t n_tokens;
    int32_t n_values;  // a multiple of 32

    const float * x;   // [n_tokens, n_values]
    int64_t x_stride;  // in floats, from token to token

    const float * residual;  // [n_tokens, n_values], or null
    int64_t residual_stride;
    const float * post_weight;  // [n_values], or null; with a residual alone
    float post_eps;

    const float * weight;  // [n_values], or null: no norm
    float eps;

    float * sum;          // x' [n_tokens, n_values], or null; it may be the memory of x or of the residual
    float * normed;       // y [n_tokens, n_values], or null; not the memory of what is read
    ActivationRows rows;  // y; with null rows: none

    Prefetch prefetch;
};

// Whether sizes fit together. Pointers may still be null, as when a graph is planned.
bool can_prepare_rows(const PrepareRowsParams & params);

// Returns cudaErrorInvalidValue where that is not so, and where something is not aligned.
cudaError_t prepare_rows(const PrepareRowsParams & params, cudaStream_t stream);

}  // namespace orin::cuda
