// The backend: a stream of the emulated GPU, on which graphs run.
#pragma once

#include "ggml-backend.h"

namespace emulated_gpu {

ggml_backend_t new_backend();

}  // namespace emulated_gpu
