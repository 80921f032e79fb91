// What programs of this folder share: launches of kernels, in many orders of their threads.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <device/launch.cuh>
#include <functional>

#include "../../core/check.h"

namespace orin {

constexpr uint64_t n_orders = 12;

inline void in_every_order(const std::function<void()> & body) {
    for (uint64_t seed = 0; seed < n_orders; seed++) {
        simt::set_seed(seed);
        body();
    }
}

template <typename... Parameters, typename... Arguments>
void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Arguments... arguments) {
    ORIN_LAUNCH(kernel, grid, block, shared_bytes, nullptr, arguments...);
    CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace orin
