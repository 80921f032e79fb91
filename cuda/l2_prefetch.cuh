// Thread blocks that prefetch, behind those that compute. l2_prefetch.h says why.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <device/intrinsics.cuh>

#include "l2_prefetch.h"

namespace orin::cuda {

constexpr int prefetch_step = 32;        // bytes that a prefetch brings for sure: a sector, of which a line has four
constexpr int prefetches_of_thread = 4;  // enough threads for all of it to be under way at once

__host__ __device__ __forceinline__ int64_t prefetch_block_bytes(int threads) {
    return int64_t(threads) * prefetches_of_thread * prefetch_step;
}

// How many thread blocks of so many threads a launch has for it.
inline int64_t prefetch_blocks(const Prefetch & prefetch, int threads) {
    int64_t n = 0;
    for (const PrefetchRange & range : prefetch.ranges) {
        n += (range.bytes + prefetch_block_bytes(threads) - 1) / prefetch_block_bytes(threads);
    }
    return n;
}

inline bool is_prefetch(const Prefetch & prefetch) {
    for (const PrefetchRange & range : prefetch.ranges) {
        if (range.bytes < 0 || (range.begin == nullptr && range.bytes > 0)) {
            return false;
        }
    }
    return true;
}

// The part of the n-th of these blocks.
__device__ __forceinline__ void prefetch_part(const Prefetch & prefetch, int64_t n) {
    const int64_t block_bytes = prefetch_block_bytes(int(blockDim.x));
#pragma unroll
    for (int i = 0; i < max_prefetch_ranges; i++) {
        const PrefetchRange & range = prefetch.ranges[i];
        const int64_t n_blocks = (range.bytes + block_bytes - 1) / block_bytes;
        if (n >= 0 && n < n_blocks) {
            const auto * begin = static_cast<const char *>(range.begin);
#pragma unroll
            for (int j = 0; j < prefetches_of_thread; j++) {
                const int64_t at = n * block_bytes + (int64_t(j) * blockDim.x + threadIdx.x) * prefetch_step;
                if (at < range.bytes) {
                    prefetch_l2(begin + at);
                }
            }
        }
        n -= n_blocks;
    }
}

}  // namespace orin::cuda
