// Products of weights with the activations of several tokens, on tensor cores: weights become f16, sums are f32. For
// prompts, batches and drafts that are verified; cuda/matrix_vector.h is for fewer tokens.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "matrix.h"

namespace orin::cuda {

// Whether types and sizes are such: input of f16 rows; n_values a multiple of 32 and of the types' blocks; weights that
// begin at multiples of 16 bytes, rows of q4_K, q5_K and f16 too; with a gate, two matrices of one type and row_bytes;
// with rows as output, one matrix, or a gate, that has a multiple of 32 rows. Pointers may still be null, as when a
// graph is planned. rows_per_warp does not matter. Weights of quantized types are taken to be less than 1024.
bool can_matrix_product(const MatrixParams & params);

// What keeps the device busy, at least 1. n_splits is not read, and pointers may be null.
int32_t matrix_product_splits(const MatrixParams & params, int32_t n_multiprocessors);

// For params.n_splits; 0 where that is 1.
size_t matrix_product_workspace_bytes(const MatrixParams & params);
size_t matrix_product_counter_bytes(const MatrixParams & params);

// Returns cudaErrorInvalidValue for what it cannot do, or pointers that are missing.
cudaError_t matrix_product(const MatrixParams & params, cudaStream_t stream);

}  // namespace orin::cuda
