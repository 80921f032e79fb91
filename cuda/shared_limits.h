// How much shared memory a thread block can have.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace orin::cuda {

constexpr size_t free_shared_bytes = 48 << 10;  // of every kernel, without asking
constexpr size_t most_shared_bytes = 99 << 10;  // that every device from compute capability 8.0 on has for a block

// Asks for what a launch needs. Always for the most, as launches of other shapes may be on their way.
template <typename Kernel>
cudaError_t allow_shared_memory(Kernel * kernel, size_t bytes) {
    if (bytes <= free_shared_bytes) {
        return cudaSuccess;
    }
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(most_shared_bytes));
}

}  // namespace orin::cuda
