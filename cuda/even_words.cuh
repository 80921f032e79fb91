// Words of blocks that begin at any even address.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace orin::cuda {

// Reads words from addresses that are even, and all as far from a multiple of four as `address`.
struct EvenWords {
    uint32_t bytes_before;

    __device__ __forceinline__ explicit EvenWords(const char * address)
        : bytes_before(uint32_t(reinterpret_cast<uintptr_t>(address)) & 2) {}

    template <int n>
    __device__ __forceinline__ void read(const char * from, uint32_t (&words)[n]) const {
        const auto * aligned = reinterpret_cast<const uint32_t *>(from - bytes_before);
        uint32_t word = aligned[0];
#pragma unroll
        for (int i = 0; i < n; i++) {
            const uint32_t next = aligned[i + 1];
            words[i] = __funnelshift_r(word, next, bytes_before * 8);
            word = next;
        }
    }
};

}  // namespace orin::cuda
