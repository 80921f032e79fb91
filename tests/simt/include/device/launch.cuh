// Stands in for cuda/device/launch.cuh.
#pragma once

#include <cuda_runtime.h>

#define ORIN_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    ::simt::launch_kernel("the kernel " #kernel, kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

namespace simt {

// Arguments are what they are now, whenever it runs.
template <typename... Parameters, typename... Arguments>
void launch_kernel(const char * name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, Arguments... arguments) {
    const Index grid_size = {grid.x, grid.y, grid.z};
    const Index block_size = {block.x, block.y, block.z};
    runtime_call([&] {
        if (!can_launch(reinterpret_cast<const void *>(kernel), grid_size, block_size, shared_bytes)) {
            return cudaErrorInvalidConfiguration;
        }
        enqueue_in(stream, name, [=] { run_grid(grid_size, block_size, shared_bytes, [&] { kernel(arguments...); }); });
        return cudaSuccess;
    });
}

}  // namespace simt

namespace orin::cuda {

// The block's dynamic shared memory.
template <typename Value>
Value * shared_memory() {
    return static_cast<Value *>(simt::Block::current().shared());
}

}  // namespace orin::cuda
