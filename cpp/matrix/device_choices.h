// The choices of a GPU.
#pragma once

#include "choices.h"
#include "ggml-backend.h"

namespace orin {

// Throws std::runtime_error where the GPU does not tell what it is.
MatrixChoices choices_for(ggml_backend_dev_t gpu);

}  // namespace orin
