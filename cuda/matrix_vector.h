// Products of weight matrices with the activations of one to eight tokens: bound by how fast weights are read.
#pragma once

#include <cuda_runtime.h>

#include "matrix.h"

namespace orin::cuda {

constexpr int32_t matrix_vector_max_tokens = 8;

// How a launch is cut where nothing better is known of the device. n_splits are warps of one thread block here: neither
// a workspace nor counters are needed.
struct MatrixVectorCut {
    int32_t rows_per_warp;
    int32_t n_splits;
};
MatrixVectorCut matrix_vector_cut(const MatrixParams & params, int32_t n_multiprocessors);

// Whether sizes fit together: quantized weights and int8 rows, or f16 weights and f32 rows; rows of weights that are
// aligned to 16 bytes (f16, q4_K, q5_K), 4 (q4_1) or 2; a gate's two matrices of one type; results as int8 rows in
// whole groups. Pointers may still be null, as when a graph is planned.
bool can_matrix_vector(const MatrixParams & params);

// rows_per_warp is 1, 2 or 4 (with more than one token 4 is taken for 2), n_splits up to 8 (rounded down to a power of
// two). Returns cudaErrorInvalidValue where can_matrix_vector() is false or pointers are missing or not aligned to 16
// bytes.
cudaError_t matrix_vector(const MatrixParams & params, cudaStream_t stream);

}  // namespace orin::cuda
