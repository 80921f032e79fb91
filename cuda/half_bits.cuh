// Pairs of f16, and the bits that registers hold of them.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace orin::cuda {

__device__ __forceinline__ __half2 as_half2(uint32_t bits) {
    __half2 result;
    memcpy(&result, &bits, sizeof result);
    return result;
}
__device__ __forceinline__ uint32_t as_bits(__half2 pair) {
    uint32_t result;
    memcpy(&result, &pair, sizeof result);
    return result;
}

}  // namespace orin::cuda
