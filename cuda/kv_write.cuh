// A head's values into its cell, by a warp. Rounding is ggml's: see the reference implementations of its row types.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kv_type.h"

namespace orin::cuda {

constexpr unsigned whole_warp = 0xFFFFFFFF;

__device__ __forceinline__ uint16_t bf16_bits(float value) {
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) {
        return uint16_t(bits >> 16 | 64);  // stays NaN
    }
    return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The largest magnitude of the warp; NaN where one is.
__device__ __forceinline__ float largest_magnitude(float value) {
    return __uint_as_float(__reduce_max_sync(whole_warp, __float_as_uint(fabsf(value))));
}

__device__ __forceinline__ void write_scale(uint8_t * block, float scale) {
    *reinterpret_cast<__half *>(block) = __float2half_rn(scale);
}

// `value` is the lane's of 32.
__device__ __forceinline__ void write_q8_0(uint8_t * block, float value, int lane) {
    const float scale = largest_magnitude(value) / 127.0f;
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    if (lane == 0) {
        write_scale(block, scale);
    }
    block[2 + lane] = uint8_t(int8_t(roundf(value * inverse)));
}

__device__ __forceinline__ void write_q4_0(uint8_t * block, float value, int lane) {
    const float largest = largest_magnitude(value);
    const unsigned has_it = __ballot_sync(whole_warp, fabsf(value) == largest);
    // The first of them; none equals NaN.
    const float extreme = has_it == 0 ? largest : __shfl_sync(whole_warp, value, __ffs(int(has_it)) - 1);
    const float scale = extreme / -8.0f;
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    if (lane == 0) {
        write_scale(block, scale);
    }
    const unsigned quant = unsigned(min(15, int(value * inverse + 8.5f))) & 15;
    const unsigned upper = __shfl_down_sync(whole_warp, quant, 16);
    if (lane < 16) {
        block[2 + lane] = uint8_t(quant | upper << 4);
    }
}

// values: [n] of the warp, in shared memory. PRECOND: n is a multiple of 32 for a quantized type.
__device__ __forceinline__ void write_kv(KvType type, void * row, const float * values, int n, int lane) {
    for (int i = lane; i < n; i += 32) {
        const float value = values[i];
        switch (type) {
            case KvType::f16:
                static_cast<__half *>(row)[i] = __float2half_rn(value);
                break;
            case KvType::bf16:
                static_cast<uint16_t *>(row)[i] = bf16_bits(value);
                break;
            case KvType::q8_0:
                write_q8_0(static_cast<uint8_t *>(row) + i / 32 * q8_0_block_bytes, value, lane);
                break;
            case KvType::q4_0:
                write_q4_0(static_cast<uint8_t *>(row) + i / 32 * q4_0_block_bytes, value, lane);
                break;
        }
    }
}

}  // namespace orin::cuda
