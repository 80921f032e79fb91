// How a warp multiplies a piece of a row of weights, which lies in shared memory, with the activations of a token.
//
// PieceOf<type> has, besides sizes,
//   Activations  what a lane needs of one token: for any number of rows
//   Weights      what a lane has of one row, unpacked: for any number of tokens
// weight_blocks_k.cuh, weight_blocks_32.cuh and weight_blocks_f16.cuh have the types.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <device/intrinsics.cuh>

#include "even_words.cuh"
#include "matrix.h"

namespace orin::cuda {

template <WeightType type>
struct PieceOf;

// Activations in shared memory: a record for each 64 of an int8 row. It is as long as five times 16 bytes, so that
// eight lanes that read 16 bytes of neighbouring records meet all banks.
struct ActivationRecord {
    uint4 values[4];
    struct Group {
        float scale;
        // scale · the sum of its values, or for q6_K the sums of its halves, without the scale, as two int16
        uint32_t sum;
    } groups[2];
};
static_assert(sizeof(ActivationRecord) == 80);
constexpr int record_values = 64;

__device__ __forceinline__ const uint32_t & word_of(const uint4 & words, int i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

__device__ __forceinline__ float low_half(uint32_t pair) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(pair & 0xFFFF)));
}
__device__ __forceinline__ float high_half(uint32_t pair) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)));
}
__device__ __forceinline__ float half_at(const char * address) {
    return __half2float(*reinterpret_cast<const __half *>(address));
}

}  // namespace orin::cuda
