// How a launch of matrix_vector is laid over thread blocks, and a block's shared memory over what it works with.
#pragma once

#include <cstdint>

#include "matrix_vector.h"

namespace orin::cuda {

constexpr int vector_warps = 8;
constexpr int vector_threads = vector_warps * 32;
constexpr int vector_slots = 4;  // pieces of rows that a warp has in shared memory, most of them on their way

// Same for all blocks of a launch. A block has neighbouring rows of a matrix, or of both of a gate. In each pass, some
// warps share rows_per_warp rows of one matrix.
struct VectorLayout {
    int32_t n_splits;  // warps that share a row: 2^split_bits
    int32_t split_bits;
    int32_t row_bits;  // 2^row_bits rows: at most as many as there are threads for results
    int32_t n_passes;
    int32_t first_blocks[max_matrices];  // of each matrix
    int32_t panel_values;                // activations that are in shared memory at a time
    int32_t slot_bytes;
    // Offsets in shared memory; activations are at its beginning.
    int32_t slots;
    int32_t results;  // [warps that share a row, matrices of a block, rows, columns] floats
    int32_t end;
};

}  // namespace orin::cuda
