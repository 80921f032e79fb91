// Launching a kernel: its blocks, one after another, in an order that the seed chooses.
#pragma once

#include <cstdint>
#include <functional>

#include "block.h"

namespace simt {

// Of all launches that follow; see Order.
void set_seed(uint64_t seed);

// Limits of compute capability 8.7.

constexpr size_t max_shared_bytes = 163 << 10;  // if the kernel was allowed it
constexpr size_t default_shared_bytes = 48 << 10;

// False: a GPU would refuse the launch.
bool can_launch(const void * kernel, Index grid, Index block, size_t shared_bytes);
// Runs it to its end. Throws Fault.
void run_grid(Index grid, Index block, size_t shared_bytes, const std::function<void()> & body);

// As cudaFuncSetAttribute allows it. False: no GPU has as much.
bool allow_shared(const void * kernel, size_t bytes);

}  // namespace simt
