// A GPU as ggml sees it, under the names of the one that it stands in for.
#pragma once

#include <cuda_runtime.h>

#include "ggml-backend.h"

namespace emulated_gpu {

ggml_backend_dev_t device();

// A call of the emulated runtime: one that failed ends in ggml's abort, as the CUDA backend's do.
void check(cudaError_t error, const char * what);

}  // namespace emulated_gpu
