// RMSNorm of a row by a thread block: what its threads hold of the row, and what they find out together.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <device/launch.cuh>

namespace orin::cuda {

constexpr int max_row_threads = 1024;
constexpr int max_row_warps = max_row_threads / 32;

// Each has shared memory of its own, so that it costs one barrier.
enum class Reduction { post_norm, norm, largest };
constexpr size_t reduction_bytes = 3 * max_row_warps * sizeof(float);

// What is combined of the whole block. `combine` is associative.
template <typename Combine>
__device__ __forceinline__ float reduce_block(Reduction reduction, float value, const Combine & combine) {
    float * parts = shared_memory<float>() + int(reduction) * max_row_warps;
    const int lane = int(threadIdx.x % 32);
    const int n_warps = int(blockDim.x / 32);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
    }
    if (lane == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = lane < n_warps ? parts[lane] : 0.0f;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
    }
    return value;
}

__device__ __forceinline__ float inverse_rms(Reduction reduction, float squares, int n_values, float eps) {
    const float sum = reduce_block(reduction, squares, [](float a, float b) { return a + b; });
    return rsqrtf(sum / float(n_values) + eps);
}

// Of magnitudes, NaN where one is: their bits order them.
__device__ __forceinline__ float largest_of_block(float magnitude) {
    return reduce_block(Reduction::largest, magnitude,
                        [](float a, float b) { return __uint_as_float(max(__float_as_uint(a), __float_as_uint(b))); });
}

// Four neighbouring values of a row.
struct Quad {
    float values[4];

    // Zeros outside of the row.
    __device__ static Quad load(const float * row, int first, int n_values) {
        const float4 x = first < n_values ? *reinterpret_cast<const float4 *>(row + first) : float4{0, 0, 0, 0};
        return {{x.x, x.y, x.z, x.w}};
    }
    __device__ void add(const Quad & other) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[i] += other.values[i];
        }
    }
    __device__ void scale(float factor, const Quad & weights) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[i] = factor * values[i] * weights.values[i];
        }
    }
    __device__ float squares() const {
        return values[0] * values[0] + values[1] * values[1] + (values[2] * values[2] + values[3] * values[3]);
    }
    __device__ float largest(float or_this) const {
        unsigned bits = __float_as_uint(or_this);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bits = max(bits, __float_as_uint(fabsf(values[i])));
        }
        return __uint_as_float(bits);
    }
};

}  // namespace orin::cuda
