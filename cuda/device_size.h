// What rules for launches call a small device.
#pragma once

#include <cstdint>

namespace orin::cuda {

// A launch there is short of warps and instructions rather than of memory bandwidth: the board has 16 multiprocessors
// at most.
constexpr bool has_few_multiprocessors(int32_t n_multiprocessors) {
    return n_multiprocessors <= 32;
}

}  // namespace orin::cuda
