// Stands in for CUDA's header of this name: kernels are compiled by the host's compiler and run by tests/simt. What is
// not here is not emulated.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../counters.h"
#include "../grid.h"
#include "runtime_api.h"
#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

#define threadIdx (::simt::Block::current().thread().index)
#define blockIdx (::simt::Block::current().index())
#define blockDim (::simt::Block::current().size())
#define gridDim (::simt::Block::current().grid_size())
#define warpSize 32

#include "device_functions.h"
