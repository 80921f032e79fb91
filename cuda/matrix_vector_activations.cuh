// Activations on their way to shared memory: [n_tokens, panel_values], records of int8 rows or floats.
#pragma once

#include <cuda_runtime.h>

#include "activation_rows.cuh"
#include "matrix_vector_layout.h"
#include "weight_blocks.cuh"

namespace orin::cuda {

// Begins to copy values [first, first + n) of all tokens, as part of the thread's group of copies.
template <WeightType type>
__device__ __forceinline__ void copy_activations(const MatrixParams & p, const VectorLayout & layout, int first, int n,
                                                 char * panel) {
    constexpr int size = type == WeightType::f16 ? 4 : 1;  // of a value
#pragma unroll 1
    for (int token = 0; token < p.n_tokens; token++) {
        const char * row = activation_row(p.input, token) + int64_t(first) * size;
        const int behind = token * layout.panel_values;
#pragma unroll 1
        for (int i = threadIdx.x; i < n * size / 16; i += vector_threads) {
            char * to = size == 4
                            ? panel + behind * 4 + i * 16
                            : panel + (behind / record_values + i / 4) * int(sizeof(ActivationRecord)) + i % 4 * 16;
            copy_async<16>(to, row + i * 16);
        }
    }
}

// What q6_K needs of a group: the sums of its halves as integers. Each is a few thousand at most, so that two roundings
// on the way are not seen.
__device__ __forceinline__ uint32_t integer_sums(const RowGroup & group) {
    if (!(group.scale > 0.0f && group.scale <= 3.4e38f)) {
        return 0;
    }
    const int low = __float2int_rn(__fdividef(group.sums[0], group.scale));
    const int high = __float2int_rn(__fdividef(group.sums[1], group.scale));
    return (uint32_t(low) & 0xFFFF) | uint32_t(high) << 16;
}

// Scales and sums of the same values. Each token has its own threads, of which each asks for several at a time where it
// has more than one or two. columns: a power of two, at least n_tokens
template <WeightType type, int columns>
__device__ __forceinline__ void store_groups(const MatrixParams & p, const VectorLayout & layout, int first, int n,
                                             char * panel) {
    constexpr int threads = vector_threads / columns;
    const int token = int(threadIdx.x / threads);
    if (type == WeightType::f16 || token >= p.n_tokens) {
        return;
    }
    const RowGroup * groups = row_groups(activation_row(p.input, token), p.input.n_values) + first / row_group_values;
    auto * records = reinterpret_cast<ActivationRecord *>(panel) + token * layout.panel_values / record_values;
#pragma unroll(columns > 2 ? 4 : 1)
    for (int i = int(threadIdx.x % threads); i < n / row_group_values; i += threads) {
        const uint4 words = reinterpret_cast<const uint4 *>(groups)[i];
        const RowGroup group = {__uint_as_float(words.x), {__uint_as_float(words.y), __uint_as_float(words.z)}, 0.0f};
        const uint32_t sum =
            type == WeightType::q6_K ? integer_sums(group) : __float_as_uint(group.sums[0] + group.sums[1]);
        records[i / 2].groups[i % 2] = {group.scale, sum};
    }
}

}  // namespace orin::cuda
