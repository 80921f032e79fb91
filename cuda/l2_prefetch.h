// What a launch that leaves most of the GPU idle has brought into the L2 cache for the next one: weights, which do not
// depend on what is computed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace orin::cuda {

// Memory of the device.
struct PrefetchRange {
    const void * begin;
    int64_t bytes;  // 0: none
};

constexpr int32_t max_prefetch_ranges = 3;  // as many as a launch has matrices

struct Prefetch {
    PrefetchRange ranges[max_prefetch_ranges];
};

}  // namespace orin::cuda
