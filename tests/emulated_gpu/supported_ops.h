// Which nodes the emulated GPU takes: those that the CPU can compute, and CUDA as well.
#pragma once

#include "ggml.h"

namespace emulated_gpu {

bool supports(const ggml_tensor & op);

}  // namespace emulated_gpu
