// Counts of what covers a number: blocks, tiles.
#pragma once

#include <cuda_runtime.h>

namespace orin::cuda {

// n / by, rounded up.
template <typename Integer>
__host__ __device__ constexpr Integer divide_up(Integer n, Integer by) {
    return (n + by - 1) / by;
}

}  // namespace orin::cuda
