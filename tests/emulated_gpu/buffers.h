// Memory for tensors: the device's, and pinned memory of the host.
#pragma once

#include "ggml-backend.h"

namespace emulated_gpu {

ggml_backend_buffer_type_t device_buffer_type();
ggml_backend_buffer_type_t pinned_buffer_type();
bool is_device_buffer(ggml_backend_buffer_t buffer);

}  // namespace emulated_gpu
