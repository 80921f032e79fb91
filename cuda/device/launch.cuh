// The one way to launch a kernel, and its shared memory: both can be emulated (tests/simt).
#pragma once

#include <cuda_runtime.h>

// ORIN_LAUNCH(kernel, grid, block, shared_bytes, stream, argument…); the error is cudaGetLastError()'s.
#define ORIN_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)

namespace orin::cuda {

// The block's dynamic shared memory, as many bytes as the launch asked for, aligned to 16. Kernels have no other.
template <typename Value>
__device__ __forceinline__ Value * shared_memory() {
    extern __shared__ uint4 memory[];
    return reinterpret_cast<Value *>(memory);
}

}  // namespace orin::cuda
