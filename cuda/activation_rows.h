// Activations as matrix products read them: prepared once, for all the products that read them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace orin::cuda {

enum class RowFormat : int32_t {
    f32,   // as they are: for f16 weights and few tokens
    int8,  // groups of 32 with a scale: for quantized weights and few tokens
    f16,   // times a power of two for each row: for tensor cores
};

// Values of an int8 row that share a scale. n_values of every row is a multiple of it.
constexpr int32_t row_group_values = 32;

// What an int8 row has for each group, behind its values.
struct alignas(16) RowGroup {
    float scale;
    float sums[2];  // scale · the sum of the group's first 16 values, and of the others
    float unused;
};

// Rows of tokens, one behind the other, aligned to 16 bytes.
//   f32:  [n_values] float
//   int8: [n_values] int8, [n_values / 32] RowGroup
//   f16:  [n_values] half, then a float that the values are multiplied by to be what they stand for, in 16 bytes
struct ActivationRows {
    RowFormat format;
    int32_t n_values;
    void * rows;
};

__host__ __device__ constexpr size_t activation_row_bytes(RowFormat format, int32_t n_values) {
    switch (format) {
        case RowFormat::f32:
            return size_t(n_values) * sizeof(float);
        case RowFormat::int8:
            return size_t(n_values) + size_t(n_values) / row_group_values * sizeof(RowGroup);
        case RowFormat::f16:
            return size_t(n_values) * 2 + 16;
    }
    return 0;
}

}  // namespace orin::cuda
