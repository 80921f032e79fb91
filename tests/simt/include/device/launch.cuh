// Stands in for cuda/device/launch.cuh.
#pragma once

#include <cuda_runtime.h>

#define ORIN_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    ::simt::launch_kernel(kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

namespace simt {

template <typename... Parameters, typename... Arguments>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t,
                   Arguments... arguments) {
    const bool ran = launch(reinterpret_cast<const void *>(kernel), {grid.x, grid.y, grid.z},
                            {block.x, block.y, block.z}, shared_bytes, [&] { kernel(arguments...); });
    if (!ran) {
        last_error = cudaErrorInvalidConfiguration;
    }
}

}  // namespace simt

namespace orin::cuda {

// The block's dynamic shared memory.
template <typename Value>
Value * shared_memory() {
    return static_cast<Value *>(simt::Block::current().shared());
}

}  // namespace orin::cuda
